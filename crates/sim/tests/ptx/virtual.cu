#include "cuda.h"
struct A { __device__ virtual int f(int x) { return x; } }; struct B : A { __device__ int f(int x) override { return x+1; } };
extern "C" __global__ void virt(A *a, int *o) { o[TX] = a->f(o[TX]); B b; A *p = o[1] ? (A*)&b : a; o[2]=p->f(2); }
