// Whole numbers: wide products, division, bits, conversions.

// Rows of `n`: high words of products, quotients and remainders. No divisor is 0.
extern "C" __global__ void wide_arithmetic(const long long *a, const long long *b, long long *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned long long ua = (unsigned long long)a[i], ub = (unsigned long long)b[i];
    out[0 * n + i] = __mul64hi(a[i], b[i]);
    out[1 * n + i] = (long long)__umul64hi(ua, ub);
    out[2 * n + i] = (long long)(ua * ub);
    out[3 * n + i] = a[i] / b[i];
    out[4 * n + i] = a[i] % b[i];
    out[5 * n + i] = (long long)(ua / ub);
    out[6 * n + i] = (long long)(ua % ub);
    out[7 * n + i] = __mulhi((int)a[i], (int)b[i]);
    out[8 * n + i] = __umulhi((unsigned int)ua, (unsigned int)ub);
}

// Rows of `n`.
extern "C" __global__ void bit_tricks(const unsigned int *a, const unsigned int *b, unsigned int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned int x = a[i], y = b[i];
    unsigned long long wide = (unsigned long long)x << 32 | y;
    out[0 * n + i] = __popc(x);
    out[1 * n + i] = __clz((int)x);
    out[2 * n + i] = __ffs((int)x);
    out[3 * n + i] = __brev(x);
    out[4 * n + i] = __byte_perm(x, y, 0x3715);
    out[5 * n + i] = __funnelshift_l(x, y, i % 40);
    out[6 * n + i] = __funnelshift_r(x, y, i % 40);
    out[7 * n + i] = __popcll(wide);
    out[8 * n + i] = __clzll((long long)wide);
    out[9 * n + i] = __ffsll((long long)wide);
    out[10 * n + i] = (unsigned int)(__brevll(wide) >> 32);
    out[11 * n + i] = x << (y & 31) | x >> (-y & 31);
    out[12 * n + i] = (unsigned int)((int)x >> (y & 31));
}

// Rows of `n`: nearest, towards zero, down, up; saturated, NaN is 0.
extern "C" __global__ void float_to_int(const float *from, int *out, unsigned int *positive, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[0 * n + i] = __float2int_rn(from[i]);
    out[1 * n + i] = __float2int_rz(from[i]);
    out[2 * n + i] = __float2int_rd(from[i]);
    out[3 * n + i] = __float2int_ru(from[i]);
    positive[0 * n + i] = __float2uint_rn(from[i]);
    positive[1 * n + i] = __float2uint_rz(from[i]);
}

extern "C" __global__ void double_to_long(const double *from, long long *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[0 * n + i] = __double2ll_rn(from[i]);
    out[1 * n + i] = __double2ll_rz(from[i]);
    out[2 * n + i] = __double2int_rd(from[i]);
    out[3 * n + i] = __double2int_ru(from[i]);
}

// To float and double, rounded to nearest; and narrow integers that wrap and widen again.
extern "C" __global__ void int_to_float(const long long *from, float *single, double *wide, int *narrow, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    single[i] = (float)from[i];
    wide[i] = (double)from[i];
    narrow[0 * n + i] = (signed char)from[i];
    narrow[1 * n + i] = (unsigned char)from[i];
    narrow[2 * n + i] = (short)from[i];
    narrow[3 * n + i] = (unsigned short)from[i];
}
