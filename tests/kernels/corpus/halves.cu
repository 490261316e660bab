// Numbers of 16 bits. Each result is rounded once, so that it can be foretold exactly.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// Rows of `n`: sum, difference, product, fused, negated, the greater.
extern "C" __global__ void half_arithmetic(const __half *a, const __half *b, const __half *c, __half *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[0 * n + i] = __hadd(a[i], b[i]);
    out[1 * n + i] = __hsub(a[i], b[i]);
    out[2 * n + i] = __hmul(a[i], b[i]);
    out[3 * n + i] = __hfma(a[i], b[i], c[i]);
    out[4 * n + i] = __hneg(a[i]);
    out[5 * n + i] = __hgt(a[i], b[i]) ? a[i] : b[i];
}

extern "C" __global__ void half_conversions(const float *from, __half *halves, float *back, int *whole, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    __half value = __float2half(from[i]);
    halves[i] = value;
    back[i] = __half2float(value);
    whole[i] = __half2int_rn(value);
}

// y = a·x + y with two halves at a time; operators too.
extern "C" __global__ void half2_axpy(__half a, const __half2 *x, __half2 *y, int pairs) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= pairs) return;
    y[i] = __hfma2(__halves2half2(a, a), x[i], y[i]);
}

extern "C" __global__ void half2_parts(const __half2 *from, __half2 *swapped, __half2 *sum, float2 *wide, int pairs) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= pairs) return;
    __half2 value = from[i];
    swapped[i] = __halves2half2(__high2half(value), __low2half(value));
    sum[i] = __hadd2(value, value);
    wide[i] = __half22float2(value);
}

// Rows of `n`: converted, and the sum and product, made in float and rounded to 16 bits.
extern "C" __global__ void bfloat_arithmetic(const float *a, const float *b, __nv_bfloat16 *out, float *back, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    __nv_bfloat16 x = __float2bfloat16(a[i]), y = __float2bfloat16(b[i]);
    out[0 * n + i] = x;
    out[1 * n + i] = __float2bfloat16(__bfloat162float(x) + __bfloat162float(y));
    out[2 * n + i] = __float2bfloat16(__bfloat162float(x) * __bfloat162float(y));
    back[i] = __bfloat162float(y);
}
