// One thread an element, in all the usual ways.

extern "C" __global__ void vector_add(const float *a, const float *b, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] + b[i];
}

extern "C" __global__ void saxpy(float factor, const float *__restrict__ x, float *__restrict__ y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = factor * x[i] + y[i];
}

extern "C" __global__ void grid_stride_square(long long *values, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) values[i] *= values[i];
}

extern "C" __global__ void strided_copy(const short *from, int from_stride, short *to, int to_stride, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[i * to_stride] = from[i * from_stride];
}

extern "C" __global__ void add_as_float4(const float4 *a, const float4 *b, float4 *out, int quads) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= quads) return;
    float4 x = a[i], y = b[i];
    out[i] = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
}

extern "C" __global__ void nothing() {}

// Threads leave one by one, in the middle of loops; there is no barrier that could miss them.
extern "C" __global__ void leave_early(const int *values, int *steps, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int left = values[i];
    if (left < 0) {
        steps[i] = -1;
        return;
    }
    for (int step = 0;; ++step) {
        if (left == 0) {
            steps[i] = step;
            return;
        }
        left /= 3;
    }
}

// Where each thread of a 3-D grid of 3-D blocks stands.
extern "C" __global__ void coordinates(uint3 *threads, uint3 *blocks, int width, int height, int depth) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x < width && y < height && z < depth) {
        int i = (z * height + y) * width + x;
        threads[i] = make_uint3(threadIdx.x, threadIdx.y, threadIdx.z);
        blocks[i] = make_uint3(blockIdx.x, blockIdx.y, blockIdx.z);
    }
}

// Thirty parameters of all lengths, so that each must lie where it belongs.
extern "C" __global__ void many_parameters(
    double *out, signed char p1, short p2, int p3, long long p4, float p5, double p6, unsigned char p7, unsigned short p8,
    unsigned int p9, unsigned long long p10, bool p11, char p12, float p13, short p14, double p15, signed char p16, int p17,
    signed char p18, long long p19, short p20, float p21, bool p22, double p23, unsigned char p24, float p25,
    unsigned short p26, unsigned int p27, signed char p28, const double *p29) {
    double all[] = {double(p1),  double(p2),  double(p3),  double(p4),  double(p5),  p6,          double(p7),
                    double(p8),  double(p9),  double(p10), double(p11), double(p12), double(p13), double(p14),
                    p15,         double(p16), double(p17), double(p18), double(p19), double(p20), double(p21),
                    double(p22), p23,         double(p24), double(p25), double(p26), double(p27), double(p28),
                    p29[1]};
    for (int i = 0; i < 29; ++i) out[i] = all[i];
}
