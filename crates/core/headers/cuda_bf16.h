// __nv_bfloat16 and __nv_bfloat162: this GPU has no instructions for them, so all goes through float.
#pragma once
#include "gpulend/small_floats.h"

struct __attribute__((aligned(2))) __nv_bfloat16_raw { unsigned short x; };
struct __attribute__((aligned(4))) __nv_bfloat162_raw { unsigned short x, y; };

__GPULEND_BOTH float __gpulend_bfloat16_to_float(unsigned short bits) {
    return __uint_as_float(static_cast<unsigned int>(bits) << 16);
}
// To the nearest, and to the even one of two as near: the upper half of a float, after what is cut off was rounded.
__GPULEND_BOTH unsigned short __gpulend_bfloat16_rn(float value) {
    unsigned int bits = __float_as_uint(value);
    if (__gpulend_nan(value)) return 0x7fff;
    return static_cast<unsigned short>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
__GPULEND_BOTH unsigned short __gpulend_bfloat16_of_double(double value) {
    // Rounded to odd on the way, so that the second rounding sees what the first cut off.
    float cut = __double2float_rz(value);
    if (__gpulend_finite(cut) && double(cut) != value) cut = __uint_as_float(__float_as_uint(cut) | 1);
    return __gpulend_bfloat16_rn(cut);
}
__GPULEND_SMALL_CLASS(__nv_bfloat16, __gpulend_bfloat16_to_float, __gpulend_bfloat16_rn, __gpulend_bfloat16_of_double)
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

__GPULEND_BOTH __nv_bfloat16 __hadd(__nv_bfloat16 a, __nv_bfloat16 b) { return __fadd_rn(a, b); }
__GPULEND_BOTH __nv_bfloat16 __hsub(__nv_bfloat16 a, __nv_bfloat16 b) { return __fsub_rn(a, b); }
__GPULEND_BOTH __nv_bfloat16 __hmul(__nv_bfloat16 a, __nv_bfloat16 b) { return __fmul_rn(a, b); }
__GPULEND_BOTH __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) { return fmaf(a, b, c); }
__GPULEND_SMALL(__nv_bfloat16)
__GPULEND_SMALL_DEVICE(__nv_bfloat16)

__GPULEND_BOTH float __bfloat162float(__nv_bfloat16 x) { return float(x); }
__GPULEND_BOTH __nv_bfloat16 __float2bfloat16(float x) { return __nv_bfloat16(x); }
__GPULEND_BOTH __nv_bfloat16 __float2bfloat16_rn(float x) { return __nv_bfloat16(x); }
__GPULEND_BOTH __nv_bfloat16 __float2bfloat16_rz(float x) {
    if (__gpulend_nan(x)) return __nv_bfloat16(x);
    return __gpulend_make___nv_bfloat16(static_cast<unsigned short>(__float_as_uint(x) >> 16));
}
__GPULEND_BOTH __nv_bfloat16 __double2bfloat16(double x) { return __nv_bfloat16(x); }
__GPULEND_BOTH __nv_bfloat16 __int2bfloat16_rn(int x) { return __nv_bfloat16(x); }
__GPULEND_BOTH __nv_bfloat16 __uint2bfloat16_rn(unsigned int x) { return __nv_bfloat16(x); }
__GPULEND_BOTH int __bfloat162int_rn(__nv_bfloat16 x) { return __float2int_rn(x); }
__GPULEND_BOTH int __bfloat162int_rz(__nv_bfloat16 x) { return __float2int_rz(x); }
__GPULEND_BOTH unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.__x; }
__GPULEND_BOTH short __bfloat16_as_short(__nv_bfloat16 x) { return static_cast<short>(x.__x); }
__GPULEND_BOTH __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) { return __gpulend_make___nv_bfloat16(bits); }
__GPULEND_BOTH __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
__GPULEND_BOTH __nv_bfloat162 make_bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
__GPULEND_BOTH __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 x) { return {x, x}; }
__GPULEND_BOTH __nv_bfloat162 __float2bfloat162_rn(float x) { return {__nv_bfloat16(x), __nv_bfloat16(x)}; }
__GPULEND_BOTH __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {__nv_bfloat16(x), __nv_bfloat16(y)}; }
__GPULEND_BOTH __nv_bfloat162 __float22bfloat162_rn(float2 x) { return {__nv_bfloat16(x.x), __nv_bfloat16(x.y)}; }
__GPULEND_BOTH float2 __bfloat1622float2(__nv_bfloat162 x) { return {float(x.x), float(x.y)}; }
__GPULEND_BOTH float __low2float(__nv_bfloat162 x) { return x.x; }
__GPULEND_BOTH float __high2float(__nv_bfloat162 x) { return x.y; }
__GPULEND_BOTH __nv_bfloat16 __low2bfloat16(__nv_bfloat162 x) { return x.x; }
__GPULEND_BOTH __nv_bfloat16 __high2bfloat16(__nv_bfloat162 x) { return x.y; }
