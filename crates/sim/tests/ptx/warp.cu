#include "cuda.h"
extern "C" __global__ void warp(int *o, float *f, u64 *q, int n) {
  int v = o[TX]; 
  for (int d=16; d; d>>=1) v += __nvvm_shfl_sync_bfly_i32(-1, v, d, 31);
  v += __nvvm_shfl_sync_down_i32(-1, v, 3, 31) + __nvvm_shfl_sync_idx_i32(-1, v, n, 31) + __nvvm_shfl_sync_up_i32(-1, v, 1, 0);
  u32 b = __nvvm_vote_ballot_sync(-1, v > 3); if (__nvvm_vote_any_sync(-1, v == 2)) b ^= 1; if (__nvvm_vote_all_sync(-1, v == 9)) b ^= 2;
  o[TX] = v + b + __nvvm_match_any_sync_i32(-1, v);
  __nvvm_bar_warp_sync(-1);
  __nvvm_atom_add_gen_f(f, 1.0f); __nvvm_atom_max_gen_i(o, 3); __nvvm_atom_cas_gen_i(o+1, 3, 4); __nvvm_atom_inc_gen_ui((u32*)o, 5); __nvvm_atom_xchg_gen_ll((long long*)q, 3);
  __nvvm_membar_gl(); __nvvm_membar_cta(); __nvvm_membar_sys();
  q[TX] = __nvvm_read_ptx_sreg_clock64() + __nvvm_read_ptx_sreg_laneid() + __nvvm_read_ptx_sreg_lanemask_lt() + __nvvm_read_ptx_sreg_warpsize();
  if (__nvvm_bar0_and(n)) o[3] = __nvvm_bar0_popc(n) + __nvvm_bar0_or(v);
  unsigned m; asm volatile("activemask.b32 %0;" : "=r"(m)); o[5]=m; asm volatile("bar.sync 1, 64;"); asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; selp.u32 %0, 1, 2, p; }" : "=r"(m) : "r"(n)); o[6]=m;
  __atomic_store_n(&o[7], 3, __ATOMIC_RELEASE); o[8]=__atomic_load_n(&o[9], __ATOMIC_ACQUIRE); volatile int *vp=o; vp[3]=vp[4];
  double *dp=(double*)q; __nvvm_atom_add_gen_d(dp, 2.0);
}
