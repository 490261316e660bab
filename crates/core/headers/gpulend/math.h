// <math.h> beyond libm.h: what has an instruction of its own, and what is a few lines.
#pragma once

#ifndef __GPULEND_PROGRAM
#define HUGE_VAL __builtin_huge_val()
#define HUGE_VALF __builtin_huge_valf()
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define FP_NAN 0
#define FP_INFINITE 1
#define FP_ZERO 2
#define FP_SUBNORMAL 3
#define FP_NORMAL 4
#define FP_ILOGB0 (-INT_MAX - 1)
#define FP_ILOGBNAN (-INT_MAX - 1)
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#endif
#define CUDART_INF_F __builtin_inff()
#define CUDART_NAN_F __builtin_nanf("")
#define CUDART_PI_F 3.141592654f
#define CUDART_INF __builtin_inf()
#define CUDART_NAN __builtin_nan("")
#define CUDART_PI 3.1415926535897931e+0


// By bits, so that they hold under fast math too.
__GPULEND_BOTH bool __gpulend_nan(float x) { return (__float_as_uint(x) & 0x7fffffffu) > 0x7f800000u; }
__GPULEND_BOTH bool __gpulend_inf(float x) { return (__float_as_uint(x) & 0x7fffffffu) == 0x7f800000u; }
__GPULEND_BOTH bool __gpulend_finite(float x) { return (__float_as_uint(x) & 0x7fffffffu) < 0x7f800000u; }
__GPULEND_BOTH bool __gpulend_sign(float x) { return __float_as_int(x) < 0; }
__GPULEND_BOTH bool __gpulend_normal(float x) {
    return __gpulend_finite(x) && (__float_as_uint(x) & 0x7f800000u) != 0;
}
__GPULEND_BOTH bool __gpulend_nan(double x) {
    return (__double_as_longlong(x) & INT64_MAX) > 0x7ff0000000000000LL;
}
__GPULEND_BOTH bool __gpulend_inf(double x) {
    return (__double_as_longlong(x) & INT64_MAX) == 0x7ff0000000000000LL;
}
__GPULEND_BOTH bool __gpulend_finite(double x) {
    return (__double_as_longlong(x) & INT64_MAX) < 0x7ff0000000000000LL;
}
__GPULEND_BOTH bool __gpulend_sign(double x) { return __double_as_longlong(x) < 0; }
__GPULEND_BOTH bool __gpulend_normal(double x) {
    return __gpulend_finite(x) && (__double_as_longlong(x) & 0x7ff0000000000000LL) != 0;
}

#if !defined(__GPULEND_PROGRAM) || defined(__CUDA_ARCH__)
#define __GPULEND_UNARY(name)                                                                                          \
    __GPULEND_LIBC float name##f(float x) { return __builtin_##name##f(x); }                                           \
    __GPULEND_LIBC double name(double x) { return __builtin_##name(x); }
#define __GPULEND_BINARY(name)                                                                                         \
    __GPULEND_LIBC float name##f(float x, float y) { return __builtin_##name##f(x, y); }                               \
    __GPULEND_LIBC double name(double x, double y) { return __builtin_##name(x, y); }
__GPULEND_UNARY(fabs)
__GPULEND_UNARY(floor)
__GPULEND_UNARY(ceil)
__GPULEND_UNARY(trunc)
__GPULEND_UNARY(rint)
__GPULEND_UNARY(nearbyint)
__GPULEND_UNARY(round)
__GPULEND_BINARY(fmin)
__GPULEND_BINARY(fmax)
__GPULEND_BINARY(copysign)
#undef __GPULEND_BINARY
#undef __GPULEND_UNARY
#ifdef __GPULEND_PROGRAM
// There the builtins of these four, which may set errno, are calls of these functions.
#ifdef __GPULEND_FAST_MATH
__GPULEND_LIBC float sqrtf(float x) { return __nvvm_sqrt_approx_f(x); }
#else
__GPULEND_LIBC float sqrtf(float x) { return __nvvm_sqrt_rn_f(x); }
#endif
__GPULEND_LIBC double sqrt(double x) { return __nvvm_sqrt_rn_d(x); }
__GPULEND_LIBC float fmaf(float x, float y, float z) { return __nvvm_fma_rn_f(x, y, z); }
__GPULEND_LIBC double fma(double x, double y, double z) { return __nvvm_fma_rn_d(x, y, z); }
#else
__GPULEND_BOTH float sqrtf(float x) { return __builtin_sqrtf(x); }
__GPULEND_BOTH double sqrt(double x) { return __builtin_sqrt(x); }
__GPULEND_BOTH float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
__GPULEND_BOTH double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
#endif

// The exponent of x in two steps of ldexp: the bits of a subnormal number say nothing of its size.
__GPULEND_LIBC double frexp(double x, int *exponent) {
    if (x == 0 || !__gpulend_finite(x)) return *exponent = 0, x;
    int raised = __gpulend_normal(x) ? 0 : 54;
    long long bits = __double_as_longlong(raised ? x * 0x1p54 : x);
    *exponent = static_cast<int>(bits >> 52 & 0x7ff) - 1022 - raised;
    return __longlong_as_double((bits & ~0x7ff0000000000000LL) | 0x3fe0000000000000LL);
}
__GPULEND_LIBC float frexpf(float x, int *exponent) { return static_cast<float>(frexp(double(x), exponent)); }
__GPULEND_LIBC double modf(double x, double *whole) {
    *whole = trunc(x);
    return copysign(__gpulend_inf(x) ? 0 : x - *whole, x);
}
__GPULEND_LIBC float modff(float x, float *whole) {
    *whole = truncf(x);
    return copysignf(__gpulend_inf(x) ? 0 : x - *whole, x);
}
__GPULEND_LIBC double remquo(double x, double y, int *quotient) {
    double rest = remainder(x, y);
    // Exact below 2**53; of a larger one only the sign and the low bits are asked for.
    *quotient = static_cast<int>(static_cast<long long>(rint((x - rest) / y)) & 0x7fffffff);
    if (__gpulend_sign(x) != __gpulend_sign(y)) *quotient = -(-*quotient & 7);
    else *quotient &= 7;
    return rest;
}
__GPULEND_LIBC float remquof(float x, float y, int *quotient) {
    return static_cast<float>(remquo(double(x), double(y), quotient));
}
__GPULEND_LIBC void sincos(double x, double *sine, double *cosine) { *sine = sin(x), *cosine = cos(x); }
__GPULEND_LIBC void sincosf(float x, float *sine, float *cosine) { *sine = sinf(x), *cosine = cosf(x); }
__GPULEND_LIBC double scalbln(double x, long n) {
    return scalbn(x, static_cast<int>(n > 4400 ? 4400 : n < -4400 ? -4400 : n));
}
__GPULEND_LIBC float scalblnf(float x, long n) {
    return scalbnf(x, static_cast<int>(n > 4400 ? 4400 : n < -4400 ? -4400 : n));
}
__GPULEND_LIBC long lrint(double x) { return __double2ll_rn(x); }
__GPULEND_LIBC long lrintf(float x) { return __float2ll_rn(x); }
__GPULEND_LIBC long long llrint(double x) { return __double2ll_rn(x); }
__GPULEND_LIBC long long llrintf(float x) { return __float2ll_rn(x); }
__GPULEND_LIBC long lround(double x) { return __double2ll_rz(round(x)); }
__GPULEND_LIBC long lroundf(float x) { return __float2ll_rz(roundf(x)); }
__GPULEND_LIBC long long llround(double x) { return __double2ll_rz(round(x)); }
__GPULEND_LIBC long long llroundf(float x) { return __float2ll_rz(roundf(x)); }
__GPULEND_LIBC double nan(const char *) { return __builtin_nan(""); }
__GPULEND_LIBC float nanf(const char *) { return __builtin_nanf(""); }
#endif

// CUDA's own.
__GPULEND_BOTH void sincospi(double x, double *sine, double *cosine) { *sine = sinpi(x), *cosine = cospi(x); }
__GPULEND_BOTH void sincospif(float x, float *sine, float *cosine) { *sine = sinpif(x), *cosine = cospif(x); }
#if !defined(__GPULEND_PROGRAM) || defined(__CUDA_ARCH__)
__GPULEND_BOTH float rsqrtf(float x) {
    float result;
    asm("rsqrt.approx.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}
#else
__GPULEND_BOTH float rsqrtf(float x) { return 1 / sqrtf(x); }
#endif
__GPULEND_BOTH double rsqrt(double x) { return 1 / sqrt(x); }
__GPULEND_BOTH double rcbrt(double x) { return 1 / cbrt(x); }
__GPULEND_BOTH float rcbrtf(float x) { return 1 / cbrtf(x); }
__GPULEND_BOTH double normcdf(double x) { return 0.5 * erfc(-x * M_SQRT1_2); }
__GPULEND_BOTH float normcdff(float x) { return 0.5f * erfcf(-x * static_cast<float>(M_SQRT1_2)); }
__GPULEND_BOTH double erfcx(double x) { return exp(x * x) * erfc(x); }
__GPULEND_BOTH float erfcxf(float x) { return static_cast<float>(erfcx(double(x))); }
__GPULEND_BOTH double norm3d(double x, double y, double z) { return hypot(hypot(x, y), z); }
__GPULEND_BOTH double norm4d(double x, double y, double z, double w) { return hypot(hypot(x, y), hypot(z, w)); }
__GPULEND_BOTH double rhypot(double x, double y) { return 1 / hypot(x, y); }
__GPULEND_BOTH double rnorm3d(double x, double y, double z) { return 1 / norm3d(x, y, z); }
__GPULEND_BOTH double rnorm4d(double x, double y, double z, double w) { return 1 / norm4d(x, y, z, w); }
__GPULEND_BOTH double norm(int count, const double *values) {
    double length = 0;
    for (int at = 0; at < count; at++) length = hypot(length, values[at]);
    return length;
}
// A double holds the squares of floats without overflow.
__GPULEND_BOTH float norm3df(float x, float y, float z) {
    return static_cast<float>(sqrt(double(x) * x + double(y) * y + double(z) * z));
}
__GPULEND_BOTH float norm4df(float x, float y, float z, float w) {
    return static_cast<float>(sqrt(double(x) * x + double(y) * y + double(z) * z + double(w) * w));
}
__GPULEND_BOTH float rhypotf(float x, float y) { return 1 / hypotf(x, y); }
__GPULEND_BOTH float rnorm3df(float x, float y, float z) { return 1 / norm3df(x, y, z); }
__GPULEND_BOTH float rnorm4df(float x, float y, float z, float w) { return 1 / norm4df(x, y, z, w); }
__GPULEND_BOTH float normf(int count, const float *values) {
    double sum = 0;
    for (int at = 0; at < count; at++) sum += double(values[at]) * values[at];
    return static_cast<float>(sqrt(sum));
}
