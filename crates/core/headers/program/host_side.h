// What is PTX on a device, in C++ for the host: functions of both sides call it there.
#pragma once

#ifdef __CUDA__
#include "gpulend/keywords.h"
#define __GPULEND_ON_HOST static __inline__ __attribute__((host, unused))
#else
#define __GPULEND_ON_HOST static inline
#endif
// Which of its two compilations a source is in.
#ifndef __CUDA_ARCH__
#define __GPULEND_HOST_SIDE 1
#endif

// To an integer as a GPU does it: the nearest to what is too large. A NaN becomes 0, or the sign's bit where one of the two has
// 64 bits.
template <class To, class From> __GPULEND_ON_HOST To __gpulend_integer(From whole) {
    typedef std::numeric_limits<To> limits;
    if (whole != whole)
        return sizeof(From) == 4 && sizeof(To) == 4 ? 0 : static_cast<To>(1ull << (8 * sizeof(To) - 1));
    // A limit may become a larger number in this type; nothing between them does.
    if (whole <= static_cast<From>(limits::min())) return limits::min();
    if (whole >= static_cast<From>(limits::max())) return limits::max();
    return static_cast<To>(whole);
}
#define __GPULEND_TO_INTEGER(name, from, to)                                                                           \
    __GPULEND_ON_HOST to name##_rn(from x) { return __gpulend_integer<to>(std::rint(x)); }                             \
    __GPULEND_ON_HOST to name##_rz(from x) { return __gpulend_integer<to>(std::trunc(x)); }                            \
    __GPULEND_ON_HOST to name##_rd(from x) { return __gpulend_integer<to>(std::floor(x)); }                            \
    __GPULEND_ON_HOST to name##_ru(from x) { return __gpulend_integer<to>(std::ceil(x)); }
__GPULEND_TO_INTEGER(__float2int, float, int)
__GPULEND_TO_INTEGER(__float2uint, float, unsigned int)
__GPULEND_TO_INTEGER(__float2ll, float, long long)
__GPULEND_TO_INTEGER(__float2ull, float, unsigned long long)
__GPULEND_TO_INTEGER(__double2int, double, int)
__GPULEND_TO_INTEGER(__double2uint, double, unsigned int)
__GPULEND_TO_INTEGER(__double2ll, double, long long)
__GPULEND_TO_INTEGER(__double2ull, double, unsigned long long)
#undef __GPULEND_TO_INTEGER

// The nearest, or its neighbour on the side asked for. A long double has every number of these types.
template <class To> __GPULEND_ON_HOST To __gpulend_below(long double exact, To nearest) {
    return nearest > exact ? std::nextafter(nearest, -std::numeric_limits<To>::infinity()) : nearest;
}
template <class To> __GPULEND_ON_HOST To __gpulend_above(long double exact, To nearest) {
    return nearest < exact ? std::nextafter(nearest, std::numeric_limits<To>::infinity()) : nearest;
}
#define __GPULEND_TO_REAL(name, from, to)                                                                              \
    __GPULEND_ON_HOST to name##_rn(from x) { return static_cast<to>(x); }                                              \
    __GPULEND_ON_HOST to name##_rd(from x) { return __gpulend_below(x, static_cast<to>(x)); }                          \
    __GPULEND_ON_HOST to name##_ru(from x) { return __gpulend_above(x, static_cast<to>(x)); }                          \
    __GPULEND_ON_HOST to name##_rz(from x) { return x < 0 ? name##_ru(x) : name##_rd(x); }
__GPULEND_TO_REAL(__double2float, double, float)
__GPULEND_TO_REAL(__int2float, int, float)
__GPULEND_TO_REAL(__uint2float, unsigned int, float)
__GPULEND_TO_REAL(__ll2float, long long, float)
__GPULEND_TO_REAL(__ull2float, unsigned long long, float)
__GPULEND_TO_REAL(__ll2double, long long, double)
__GPULEND_TO_REAL(__ull2double, unsigned long long, double)
#undef __GPULEND_TO_REAL

// Arithmetic to the nearest is the host's own.
#define __GPULEND_NEAREST(type, f, fused)                                                                              \
    __GPULEND_ON_HOST type __##f##add_rn(type x, type y) { return x + y; }                                             \
    __GPULEND_ON_HOST type __##f##sub_rn(type x, type y) { return x - y; }                                             \
    __GPULEND_ON_HOST type __##f##mul_rn(type x, type y) { return x * y; }                                             \
    __GPULEND_ON_HOST type __##f##div_rn(type x, type y) { return x / y; }                                             \
    __GPULEND_ON_HOST type __##f##rcp_rn(type x) { return 1 / x; }                                                     \
    __GPULEND_ON_HOST type __##f##sqrt_rn(type x) { return std::sqrt(x); }                                             \
    __GPULEND_ON_HOST type fused(type x, type y, type z) { return std::fma(x, y, z); }
__GPULEND_NEAREST(float, f, __fmaf_rn)
__GPULEND_NEAREST(double, d, __fma_rn)
#undef __GPULEND_NEAREST

// Where a device approximates, the host is exact.
__GPULEND_ON_HOST float __fdividef(float x, float y) { return x / y; }
__GPULEND_ON_HOST float __frsqrt_rn(float x) { return 1 / sqrtf(x); }
__GPULEND_ON_HOST float __saturatef(float x) { return fminf(fmaxf(x, 0.0f), 1.0f); }
#ifdef __CUDA__
__GPULEND_ON_HOST float __sinf(float x) { return sinf(x); }
__GPULEND_ON_HOST float __cosf(float x) { return cosf(x); }
__GPULEND_ON_HOST float __gpulend_exp2(float x) { return exp2f(x); }
__GPULEND_ON_HOST float __log2f(float x) { return log2f(x); }
#endif

__GPULEND_ON_HOST long long __mul64hi(long long a, long long b) {
    return static_cast<long long>(static_cast<__int128>(a) * b >> 64);
}
__GPULEND_ON_HOST unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}

#undef __GPULEND_ON_HOST
