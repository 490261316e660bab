#include "cuda.h"
__device__ __noinline__ int pick(int k, int x) {
  switch (k) { case 0: return x*3; case 1: return x/7; case 2: return x^55; case 3: return x<<3; case 4: return x%11; case 5: return -x; case 6: return ~x; case 7: return __builtin_popcount(x); case 8: return x*x; default: return 0; }
}
__device__ __noinline__ u64 fib(u64 n) { return n < 2 ? n : fib(n-1) + fib(n-2); }
extern "C" __global__ void run(int *out, const int *in, int n, u64 *f) {
  int i = BX*NX+TX; if (i < n) { out[i] = pick(in[i], i); f[i] = fib(i % 20); }
  switch (in[0]) { case 0: out[0]=1; __syncthreads(); break; case 1: out[1]=f[3]; break; case 2: f[2]=out[5]; break; case 3: out[9]=4; break; case 4: f[7] = 8; __syncthreads(); break; case 5: out[10]=in[4]; }
}
