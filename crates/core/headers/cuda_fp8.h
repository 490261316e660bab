// __nv_fp8_e4m3 and __nv_fp8_e5m2, and two and four of them. Conversions are calculated: this GPU has no instructions for them.
#pragma once
#include "cuda_bf16.h"
#include "cuda_fp16.h"

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned int __nv_fp8x4_storage_t;
typedef enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE } __nv_saturation_t;
typedef enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 } __nv_fp8_interpretation_t;

// To the nearest, and to the even one of two as near.
__GPULEND_BOTH __nv_fp8_storage_t __nv_cvt_double_to_fp8(double x, __nv_saturation_t saturate,
                                                         __nv_fp8_interpretation_t kind) {
    const bool e4m3 = kind == __NV_E4M3;
    const int digits = e4m3 ? 3 : 2, least = e4m3 ? -6 : -14;
    // The largest number. What follows it is a NaN, or infinity.
    const unsigned long long most = e4m3 ? 0x7e : 0x7b, hidden = 1ull << 52;
    unsigned long long bits = static_cast<unsigned long long>(__double_as_longlong(x));
    unsigned long long sign = bits >> 56 & 0x80, size = bits & ~(1ull << 63);
    if (size > 0x7ffull << 52) return 0x7f;
    int exponent = static_cast<int>(size >> 52) - 1023;
    // Below the least exponent all steps are as large; from the second bit below them on, nothing is left.
    int dropped = 52 - digits + (exponent < least ? least - exponent : 0);
    unsigned long long code = 0;
    if (dropped <= 53) {
        unsigned long long whole = (size & (hidden - 1)) | hidden, half = 1ull << (dropped - 1);
        unsigned long long rest = whole & (2 * half - 1);
        code = whole >> dropped;
        code += rest > half || (rest == half && (code & 1) != 0);
        // A count that is one digit too long becomes the next exponent.
        if (exponent > least) code += static_cast<unsigned long long>(exponent - least) << digits;
    }
    if (code > most) code = saturate == __NV_SATFINITE ? most : most + 1;
    return static_cast<__nv_fp8_storage_t>(sign | code);
}
__GPULEND_BOTH __nv_fp8_storage_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t saturate,
                                                        __nv_fp8_interpretation_t kind) {
    return __nv_cvt_double_to_fp8(x, saturate, kind);
}
__GPULEND_BOTH __nv_fp8_storage_t __nv_cvt_halfraw_to_fp8(__half_raw x, __nv_saturation_t saturate,
                                                          __nv_fp8_interpretation_t kind) {
    return __nv_cvt_double_to_fp8(float(__half(x)), saturate, kind);
}
__GPULEND_BOTH __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_fp8(__nv_bfloat16_raw x, __nv_saturation_t saturate,
                                                              __nv_fp8_interpretation_t kind) {
    return __nv_cvt_double_to_fp8(float(__nv_bfloat16(x)), saturate, kind);
}
__GPULEND_BOTH __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t code, __nv_fp8_interpretation_t kind) {
    unsigned int sign = (code & 0x80u) << 8, size = code & 0x7fu, exponent = size >> 3, digits = size & 7, bits;
    if (kind == __NV_E5M2) {
        bits = size > 0x7c ? 0x7fff : sign | size << 8;
    } else if (size == 0x7f) {
        bits = 0x7fff;
    } else if (exponent == 0 && digits != 0) {
        // A half has these numbers with an exponent of their own.
        unsigned int top = digits >> 2 ? 2 : digits >> 1;
        bits = sign | (top + 6) << 10 | (digits << (10 - top) & 0x3ff);
    } else {
        bits = sign | (size != 0 ? (exponent + 8) << 10 | digits << 7 : 0);
    }
    return {static_cast<unsigned short>(bits)};
}

// The first of two is in the low byte.
#define __GPULEND_FP8_PAIR(name, pair, one, first, second)                                                             \
    __GPULEND_BOTH __nv_fp8x2_storage_t name(pair x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {     \
        unsigned int low = one(first, saturate, kind), high = one(second, saturate, kind);                             \
        return static_cast<__nv_fp8x2_storage_t>(low | high << 8);                                                     \
    }
__GPULEND_FP8_PAIR(__nv_cvt_double2_to_fp8x2, double2, __nv_cvt_double_to_fp8, x.x, x.y)
__GPULEND_FP8_PAIR(__nv_cvt_float2_to_fp8x2, float2, __nv_cvt_float_to_fp8, x.x, x.y)
__GPULEND_FP8_PAIR(__nv_cvt_halfraw2_to_fp8x2, __half2_raw, __nv_cvt_halfraw_to_fp8, __half_raw{x.x}, __half_raw{x.y})
__GPULEND_FP8_PAIR(__nv_cvt_bfloat16raw2_to_fp8x2, __nv_bfloat162_raw, __nv_cvt_bfloat16raw_to_fp8,
                   __nv_bfloat16_raw{x.x}, __nv_bfloat16_raw{x.y})
#undef __GPULEND_FP8_PAIR
__GPULEND_BOTH __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t x, __nv_fp8_interpretation_t kind) {
    return {__nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(x), kind).x,
            __nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(x >> 8), kind).x};
}

// To an integer towards zero, and to the nearest that its type has; a NaN is zero.
template <class T> __GPULEND_METHOD T __gpulend_fp8_integer(float x) {
    // No number of fp8 needs more than 17 bits.
    const bool is_signed = static_cast<T>(-1) < static_cast<T>(0);
    const float most = sizeof(T) > 2 ? 65536.0f : static_cast<float>((1 << (8 * sizeof(T) - is_signed)) - 1);
    const float least = !is_signed ? 0.0f : sizeof(T) > 2 ? -65536.0f : -most - 1;
    if (x != x) return 0;
    if (__gpulend_inf(x) && sizeof(T) > 2) {
        const T all = static_cast<T>(~T(0)), top = static_cast<T>(T(1) << (8 * sizeof(T) - 1));
        return x < 0 ? (is_signed ? top : T(0)) : is_signed ? static_cast<T>(~top) : all;
    }
    return static_cast<T>(x < least ? least : x > most ? most : x);
}

#define __GPULEND_FP8(type, kind)                                                                                      \
    struct type {                                                                                                      \
        __nv_fp8_storage_t __x;                                                                                        \
        type() = default;                                                                                              \
        __GPULEND_METHOD explicit type(float x) : __x(__nv_cvt_float_to_fp8(x, __NV_SATFINITE, kind)) {}               \
        __GPULEND_METHOD explicit type(double x) : __x(__nv_cvt_double_to_fp8(x, __NV_SATFINITE, kind)) {}             \
        __GPULEND_METHOD explicit type(__half x) : __x(__nv_cvt_float_to_fp8(float(x), __NV_SATFINITE, kind)) {}       \
        __GPULEND_METHOD explicit type(__nv_bfloat16 x)                                                                \
            : __x(__nv_cvt_float_to_fp8(float(x), __NV_SATFINITE, kind)) {}                                            \
        template <class T, class = std::enable_if_t<std::is_integral_v<T>>>                                            \
        __GPULEND_METHOD explicit type(T x)                                                                            \
            : __x(__nv_cvt_double_to_fp8(static_cast<double>(x), __NV_SATFINITE, kind)) {}                             \
        __GPULEND_METHOD explicit operator __half() const { return __half(__nv_cvt_fp8_to_halfraw(__x, kind)); }       \
        __GPULEND_METHOD explicit operator float() const { return float(__half(*this)); }                              \
        __GPULEND_METHOD explicit operator double() const { return float(*this); }                                     \
        __GPULEND_METHOD explicit operator __nv_bfloat16() const { return __nv_bfloat16(float(*this)); }               \
        __GPULEND_METHOD explicit operator bool() const { return (__x & 0x7f) != 0; }                                  \
        template <class T, class = std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>, class = void>  \
        __GPULEND_METHOD explicit operator T() const {                                                                 \
            return __gpulend_fp8_integer<T>(float(*this));                                                             \
        }                                                                                                              \
    };
#define __GPULEND_FP8_TWO(type, kind)                                                                                  \
    struct __attribute__((aligned(2))) type {                                                                          \
        __nv_fp8x2_storage_t __x;                                                                                      \
        type() = default;                                                                                              \
        __GPULEND_METHOD explicit type(float2 x) : __x(__nv_cvt_float2_to_fp8x2(x, __NV_SATFINITE, kind)) {}           \
        __GPULEND_METHOD explicit type(double2 x) : __x(__nv_cvt_double2_to_fp8x2(x, __NV_SATFINITE, kind)) {}         \
        __GPULEND_METHOD explicit type(__half2 x) : type(float2{float(x.x), float(x.y)}) {}                            \
        __GPULEND_METHOD explicit type(__nv_bfloat162 x) : type(float2{float(x.x), float(x.y)}) {}                     \
        __GPULEND_METHOD explicit operator __half2() const {                                                           \
            __half2_raw both = __nv_cvt_fp8x2_to_halfraw2(__x, kind);                                                  \
            return {__half(__half_raw{both.x}), __half(__half_raw{both.y})};                                           \
        }                                                                                                              \
        __GPULEND_METHOD explicit operator float2() const {                                                            \
            __half2 both = __half2(*this);                                                                             \
            return {float(both.x), float(both.y)};                                                                     \
        }                                                                                                              \
    };
#define __GPULEND_FP8_FOUR(type, pair)                                                                                 \
    struct __attribute__((aligned(4))) type {                                                                          \
        __nv_fp8x4_storage_t __x;                                                                                      \
        type() = default;                                                                                              \
        __GPULEND_METHOD explicit type(float4 x) : type(pair(float2{x.x, x.y}), pair(float2{x.z, x.w})) {}             \
        __GPULEND_METHOD explicit type(double4 x) : type(pair(double2{x.x, x.y}), pair(double2{x.z, x.w})) {}          \
        __GPULEND_METHOD explicit type(__half2 low, __half2 high) : type(pair(low), pair(high)) {}                     \
        __GPULEND_METHOD explicit type(__nv_bfloat162 low, __nv_bfloat162 high) : type(pair(low), pair(high)) {}       \
        __GPULEND_METHOD explicit operator float4() const {                                                            \
            pair low, high;                                                                                            \
            low.__x = static_cast<__nv_fp8x2_storage_t>(__x);                                                          \
            high.__x = static_cast<__nv_fp8x2_storage_t>(__x >> 16);                                                   \
            float2 first = float2(low), second = float2(high);                                                         \
            return {first.x, first.y, second.x, second.y};                                                             \
        }                                                                                                              \
                                                                                                                       \
      private:                                                                                                         \
        __GPULEND_METHOD type(pair low, pair high) : __x(low.__x | static_cast<unsigned int>(high.__x) << 16) {}       \
    };
__GPULEND_FP8(__nv_fp8_e4m3, __NV_E4M3)
__GPULEND_FP8(__nv_fp8_e5m2, __NV_E5M2)
__GPULEND_FP8_TWO(__nv_fp8x2_e4m3, __NV_E4M3)
__GPULEND_FP8_TWO(__nv_fp8x2_e5m2, __NV_E5M2)
__GPULEND_FP8_FOUR(__nv_fp8x4_e4m3, __nv_fp8x2_e4m3)
__GPULEND_FP8_FOUR(__nv_fp8x4_e5m2, __nv_fp8x2_e5m2)
#undef __GPULEND_FP8_FOUR
#undef __GPULEND_FP8_TWO
#undef __GPULEND_FP8
