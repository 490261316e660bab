// Every function and class of cuda_fp8.h. What they compute is tested by tests/programs/test_numbers.py.
#include <cuda_fp8.h>

template <class One, class Two, class Four> __device__ float there_and_back(double x) {
    const float single = static_cast<float>(x);
    const float2 pair = {single, -single};
    One one(single), other(x), third(static_cast<int>(x));
    Two two(pair);
    Four four(float4{single, single, single, single});
    float sum = float(one) + static_cast<float>(double(other)) + float(__half(third)) + static_cast<int>(one);
    return sum + float2(two).y + float4(four).w + float2(Two(__half2(two))).x;
}

template <__nv_fp8_interpretation_t kind> __device__ unsigned int codes(double x) {
    const float single = static_cast<float>(x);
    const __half_raw half = __half(single);
    const __nv_bfloat16_raw other = __nv_bfloat16(single);
    unsigned int sum = __nv_cvt_double_to_fp8(x, __NV_NOSAT, kind) + __nv_cvt_float_to_fp8(single, __NV_SATFINITE, kind);
    sum += __nv_cvt_halfraw_to_fp8(half, __NV_NOSAT, kind) + __nv_cvt_bfloat16raw_to_fp8(other, __NV_NOSAT, kind);
    sum += __nv_cvt_double2_to_fp8x2(double2{x, x}, __NV_NOSAT, kind);
    __nv_fp8x2_storage_t two = __nv_cvt_float2_to_fp8x2(float2{single, single}, __NV_NOSAT, kind);
    sum += __nv_cvt_halfraw2_to_fp8x2(__half2_raw{half.x, half.x}, __NV_NOSAT, kind);
    sum += __nv_cvt_bfloat16raw2_to_fp8x2(__nv_bfloat162_raw{other.x, other.x}, __NV_NOSAT, kind);
    sum += __nv_cvt_fp8x2_to_halfraw2(two, kind).y + __nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(two), kind).x;
    return sum;
}

extern "C" __global__ void small_floats(float *sums, unsigned int *found, const double *x) {
    sums[0] = there_and_back<__nv_fp8_e4m3, __nv_fp8x2_e4m3, __nv_fp8x4_e4m3>(*x);
    sums[1] = there_and_back<__nv_fp8_e5m2, __nv_fp8x2_e5m2, __nv_fp8x4_e5m2>(*x);
    found[0] = codes<__NV_E4M3>(*x);
    found[1] = codes<__NV_E5M2>(*x);
}
