#include "cuda.h"
typedef float f4 __attribute__((ext_vector_type(4))); typedef int i2 __attribute__((ext_vector_type(2)));typedef _Float16 h2 __attribute__((ext_vector_type(2)));
extern "C" __global__ void math(f4 *a, double *d, _Float16 *h, h2 *hh, i2 *ii, u64 *q, u8 *c, __int128 *w) {
  f4 v=a[TX]; v = v*v + 1.5f; v.x = __nvvm_sqrt_rn_f(v.y); v.z = __nvvm_sin_approx_f(v.x)+__nvvm_cos_approx_ftz_f(v.y)+__nvvm_ex2_approx_f(v.z)+__nvvm_lg2_approx_f(v.w)+__nvvm_rsqrt_approx_f(v.x)+__nvvm_rcp_rn_f(v.y)+__nvvm_div_approx_f(v.x, v.y); a[TX]=v;
  v.w += __nvvm_fmin_f(v.x, v.y) + __builtin_fabsf(v.z) + __builtin_floorf(v.x) + __builtin_truncf(v.y) + __builtin_rintf(v.w)+__builtin_ceilf(v.z)+__builtin_copysignf(v.x, v.z); a[TX+1]=v;
  d[TX]=d[TX]*d[TX+1]/3.0 + (double)v.x + __builtin_fma(d[2],d[3],d[4]); h[TX]=h[TX]*h[TX+1]+(_Float16)v.y; hh[TX]=hh[TX]*hh[TX+1]+hh[0];
  i2 x=ii[TX]; x.x = x.x/x.y + x.y%7 + (x.x>>3) + ((u32)x.y>>2); x.y=__builtin_clz(x.x)+__builtin_bitreverse32(x.y)+__nvvm_mulhi_i(x.x, 33)+__nvvm_mul24_i(x.x,x.y)+__nvvm_prmt(x.x,x.y,0x3210)+__nvvm_f2i_rz(v.x)+(int)d[0]+(u32)v.y; ii[TX]=x;
  q[TX]=q[TX]*q[TX+1]/q[3]+(u64)x.x*(u64)x.y+(u64)d[1]+__builtin_clzll(q[4])+((q[5]<<7)|(q[5]>>57)); c[TX]=c[TX+1]*3+(c[TX+2]>4)+(u8)v.x; x.x=((u32)x.x<<13)|((u32)x.x>>19); ii[3]=x;
  w[TX]=w[TX+1]*w[TX+2]+w[0]; if (v.x != v.x || v.y > 3 || !(v.z < v.w)) q[0]=__builtin_ctzll(q[1]); ii[4].x = v.x < v.y ? x.x : x.y; ii[4].y = __builtin_abs(x.x) + (x.x > 3 ? x.x : 3);
}
