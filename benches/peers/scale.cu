// The kernel of benches/operations.py with a function that launches it, for peers in C++.
//
// A C++ compiler makes the same function without a GPU of it, for a trial of the peers.

#ifdef __CUDACC__

static __global__ void scale(const float *x, float *y, float by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * by;
}

extern "C" int bench_scale(const float *x, float *y, float by, int n, void *stream) {
    if (n == 0) return 0;
    scale<<<(n + 255) / 256, 256, 0, static_cast<cudaStream_t>(stream)>>>(x, y, by, n);
    return cudaGetLastError();
}

#else

extern "C" int bench_scale(const float *x, float *y, float by, int n, void *) {
    for (int i = 0; i < n; ++i) y[i] = x[i] * by;
    return 0;
}

#endif
