#include "cuda.h"
extern "C" __device__ int printf(const char*, ...); extern "C" __device__ void __assertfail(const char*, const char*, u32, const char*, u64) ; extern "C" __device__ int vprintf(const char*, void*);
__device__ __noinline__ void swap(int &a, int &b) { int t=a; a=b; b=t; }
__device__ __noinline__ float many(float a, double b, char c, short d, u64 e, bool g, _Float16 h) { return a+b+c+d+e+g+(float)h; }
__device__ __noinline__ void noret() { __builtin_trap(); }
__device__ __noinline__ bool test(int a, int b){ return a < b; }
extern "C" __global__ void dev(int *a, float *f) { int x=a[TX], y=a[TX+1]; swap(x,y); if (test(x,y)) noret(); a[TX]=x; f[TX]=many(f[0], f[1], a[2], a[3], a[4], a[5]!=0, f[3]); struct { int v; } args{x}; vprintf("x %d\n", &args); if (y==4) __assertfail("y", "f", 3, "g", 1); }
