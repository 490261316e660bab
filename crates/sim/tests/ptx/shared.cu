#include "cuda.h"
extern __shared__ float dyn[];
__constant__ float table[4] = {1.0f, 2.5f, -3.0f, 0.1f};
__constant__ double dtable[3] = {1.0, 2.5};
__device__ int counter = 7; __device__ u64 big = 0x123456789abcdef0ull; __device__ float zeros[100];
__device__ const char msg[] = "hello\n\"x\"";
__device__ int arr[4] = {1,-2,3,4};
__device__ int *parr = &arr[2]; __device__ const char *pm = msg; __device__ void* ptrs[3] = {&counter, 0, arr+1};
struct N { int a; char b; struct { short c[3]; float f; } d; int *p; }; __device__ N nest = {1, 'x', {{1,2,3}, 2.0f}, &counter};
__device__ bool flag = true;
extern "C" __global__ void __launch_bounds__(256, 2) red(const float *in, float *out, int n) {
  __shared__ float s[256]; __shared__ int flagS; int t=TX; s[t] = t<n ? in[t]*table[t&3] : 0; dyn[t]=s[t]+dtable[t%3]; if (t==0) flagS = msg[n&7]; __syncthreads();
  for (int k=128;k;k>>=1) { if (t<k) s[t]+=s[t+k]; __syncthreads(); }
  if (t==0) { out[0]=s[0]+flagS+*parr+*pm+nest.d.f+big+zeros[n]+flag; *(int*)ptrs[n&1] = 1; __atomic_fetch_add(&counter, 1, __ATOMIC_RELAXED); *nest.p=1; nest.a = n; }
}
