#include "cuda.h"
struct P { float x, y, z; char tag; double w; };
struct Q { int a[10]; };
__device__ __noinline__ P mix(P a, P b) { P r; r.x=a.x+b.y; r.y=a.y*b.x; r.z=a.z-b.z; r.tag=a.tag; r.w=a.w/b.w; return r; }
__device__ __noinline__ int sum(Q q, int k) { return q.a[k & 7] + q.a[1]; }
template<typename T> struct Acc { T v; __device__ void add(T x) { v += x; } };
template<typename T> __global__ void acc(T *o, const T *i, int n) { Acc<T> a{T(0)}; for (int k=TX;k<n;k+=NX) a.add(i[k]); o[TX]=a.v; }
template __global__ void acc<float>(float*, const float*, int);
template __global__ void acc<double>(double*, const double*, int);
template __global__ void acc<short>(short*, const short*, int);
template __global__ void acc<_Float16>(_Float16*, const _Float16*, int);
class Base { public: __device__ virtual int f(int x) { return x; } int m; };
extern "C" __global__ void st(P *o, P a, Q q, char c, short s, P *b) { P r = mix(a, b[TX]); r.x += sum(q, TX); r.tag = c + s; o[TX] = r; int loc[16]; for (int i=0;i<16;i++) loc[i]=q.a[i%10]*TX; o[1].z = loc[TX&15]; }
