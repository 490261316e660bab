// __half and __half2: sums and products by the GPU's own instructions, the rest through float.
#pragma once
#include "gpulend/small_floats.h"

struct __attribute__((aligned(2))) __half_raw { unsigned short x; };
struct __attribute__((aligned(4))) __half2_raw { unsigned short x, y; };

#ifdef __GPULEND_HOST_SIDE
#include "gpulend/half_on_host.h"
#else
#define __GPULEND_TO_HALF(name, from, how, letter)                                                                     \
    __GPULEND_BOTH unsigned short name(from value) {                                                                   \
        unsigned short bits;                                                                                           \
        asm("cvt." how " %0, %1;" : "=h"(bits) : letter(value));                                                       \
        return bits;                                                                                                   \
    }
__GPULEND_TO_HALF(__gpulend_half_rn, float, "rn.f16.f32", "f")
__GPULEND_TO_HALF(__gpulend_half_rz, float, "rz.f16.f32", "f")
__GPULEND_TO_HALF(__gpulend_half_rd, float, "rm.f16.f32", "f")
__GPULEND_TO_HALF(__gpulend_half_ru, float, "rp.f16.f32", "f")
__GPULEND_TO_HALF(__gpulend_half_of_double, double, "rn.f16.f64", "d")
#undef __GPULEND_TO_HALF
__GPULEND_BOTH float __gpulend_half_to_float(unsigned short bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}
#endif
__GPULEND_SMALL_CLASS(__half, __gpulend_half_to_float, __gpulend_half_rn, __gpulend_half_of_double)
typedef __half half;
typedef __half2 half2;
typedef __half __nv_half;
typedef __half2 __nv_half2;

#ifdef __GPULEND_HOST_SIDE
// A float has twice the digits of a half and two more: rounding to it first changes nothing.
#define __GPULEND_HALF(name, sign)                                                                                     \
    __GPULEND_BOTH __half name(__half a, __half b) { return __half(float(a) sign float(b)); }
__GPULEND_HALF(__hadd, +)
__GPULEND_HALF(__hsub, -)
__GPULEND_HALF(__hmul, *)
__GPULEND_HALF(__hadd_rn, +)
__GPULEND_HALF(__hsub_rn, -)
__GPULEND_HALF(__hmul_rn, *)
#undef __GPULEND_HALF
__GPULEND_BOTH __half __hfma(__half a, __half b, __half c) {
    return __gpulend_make___half(__gpulend_half_of_double(__gpulend_odd_sum(double(a) * double(b), c)));
}
#else
#define __GPULEND_HALF(name, op)                                                                                       \
    __GPULEND_BOTH __half name(__half a, __half b) {                                                                   \
        unsigned short bits;                                                                                           \
        asm(op ".f16 %0, %1, %2;" : "=h"(bits) : "h"(a.__x), "h"(b.__x));                                              \
        return __gpulend_make___half(bits);                                                                            \
    }
__GPULEND_HALF(__hadd, "add.rn")
__GPULEND_HALF(__hsub, "sub.rn")
__GPULEND_HALF(__hmul, "mul.rn")
__GPULEND_HALF(__hadd_rn, "add.rn")
__GPULEND_HALF(__hsub_rn, "sub.rn")
__GPULEND_HALF(__hmul_rn, "mul.rn")
#undef __GPULEND_HALF
__GPULEND_BOTH __half __hfma(__half a, __half b, __half c) {
    unsigned short bits;
    asm("fma.rn.f16 %0, %1, %2, %3;" : "=h"(bits) : "h"(a.__x), "h"(b.__x), "h"(c.__x));
    return __gpulend_make___half(bits);
}
#endif
__GPULEND_SMALL(__half)
__GPULEND_SMALL_DEVICE(__half)

__GPULEND_BOTH float __half2float(__half x) { return float(x); }
__GPULEND_BOTH __half __float2half(float x) { return __half(x); }
__GPULEND_BOTH __half __float2half_rn(float x) { return __half(x); }
__GPULEND_BOTH __half __float2half_rz(float x) { return __gpulend_make___half(__gpulend_half_rz(x)); }
__GPULEND_BOTH __half __float2half_rd(float x) { return __gpulend_make___half(__gpulend_half_rd(x)); }
__GPULEND_BOTH __half __float2half_ru(float x) { return __gpulend_make___half(__gpulend_half_ru(x)); }
__GPULEND_BOTH __half __double2half(double x) { return __half(x); }
__GPULEND_BOTH __half __int2half_rn(int x) { return __half(x); }
__GPULEND_BOTH __half __uint2half_rn(unsigned int x) { return __half(x); }
__GPULEND_BOTH __half __ll2half_rn(long long x) { return __half(x); }
__GPULEND_BOTH __half __short2half_rn(short x) { return __half(x); }
__GPULEND_BOTH __half __ushort2half_rn(unsigned short x) { return __half(x); }
__GPULEND_BOTH int __half2int_rn(__half x) { return __float2int_rn(x); }
__GPULEND_BOTH int __half2int_rz(__half x) { return __float2int_rz(x); }
__GPULEND_BOTH int __half2int_rd(__half x) { return __float2int_rd(x); }
__GPULEND_BOTH int __half2int_ru(__half x) { return __float2int_ru(x); }
__GPULEND_BOTH unsigned int __half2uint_rn(__half x) { return __float2uint_rn(x); }
__GPULEND_BOTH unsigned int __half2uint_rz(__half x) { return __float2uint_rz(x); }
__GPULEND_BOTH unsigned short __half_as_ushort(__half x) { return x.__x; }
__GPULEND_BOTH short __half_as_short(__half x) { return static_cast<short>(x.__x); }
__GPULEND_BOTH __half __ushort_as_half(unsigned short bits) { return __gpulend_make___half(bits); }
__GPULEND_BOTH __half __short_as_half(short bits) { return __gpulend_make___half(static_cast<unsigned short>(bits)); }
__GPULEND_BOTH __half2 __halves2half2(__half x, __half y) { return {x, y}; }
__GPULEND_BOTH __half2 make_half2(__half x, __half y) { return {x, y}; }
__GPULEND_BOTH __half2 __half2half2(__half x) { return {x, x}; }
__GPULEND_BOTH __half2 __float2half2_rn(float x) { return {__half(x), __half(x)}; }
__GPULEND_BOTH __half2 __floats2half2_rn(float x, float y) { return {__half(x), __half(y)}; }
__GPULEND_BOTH __half2 __float22half2_rn(float2 x) { return {__half(x.x), __half(x.y)}; }
__GPULEND_BOTH float2 __half22float2(__half2 x) { return {float(x.x), float(x.y)}; }
__GPULEND_BOTH float __low2float(__half2 x) { return x.x; }
__GPULEND_BOTH float __high2float(__half2 x) { return x.y; }
__GPULEND_BOTH __half __low2half(__half2 x) { return x.x; }
__GPULEND_BOTH __half __high2half(__half2 x) { return x.y; }
__GPULEND_BOTH __half2 __low2half2(__half2 x) { return {x.x, x.x}; }
__GPULEND_BOTH __half2 __high2half2(__half2 x) { return {x.y, x.y}; }
__GPULEND_BOTH __half2 __lows2half2(__half2 a, __half2 b) { return {a.x, b.x}; }
__GPULEND_BOTH __half2 __highs2half2(__half2 a, __half2 b) { return {a.y, b.y}; }
__GPULEND_BOTH __half2 __lowhigh2highlow(__half2 x) { return {x.y, x.x}; }
