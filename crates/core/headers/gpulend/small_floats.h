// What __half and __nv_bfloat16 have in common: comparisons, mathematics, pairs, shuffles, atomics and loads.
// Each header gives conversions from and to float, and sums and products of its own.
#pragma once
#ifndef __CUDA__
#include "gpulend/plain_host.h"
#endif

#define __GPULEND_SMALL_CLASS(type, to_float, from_float, from_double)                                                 \
    struct __attribute__((aligned(2))) type {                                                                          \
        unsigned short __x;                                                                                            \
        type() = default;                                                                                              \
        __GPULEND_METHOD type(float value) : __x(from_float(value)) {}                                                 \
        __GPULEND_METHOD type(double value) : __x(from_double(value)) {}                                               \
        template <class T, class = std::enable_if_t<std::is_integral_v<T>>>                                            \
        __GPULEND_METHOD type(T value) : __x(from_double(static_cast<double>(value))) {}                               \
        __GPULEND_METHOD type(type##_raw raw) : __x(raw.x) {}                                                          \
        __GPULEND_METHOD operator float() const { return to_float(__x); }                                              \
        __GPULEND_METHOD operator type##_raw() const { return {__x}; }                                                 \
        __GPULEND_METHOD explicit operator bool() const { return (__x & 0x7fff) != 0; }                                \
    };                                                                                                                 \
    __GPULEND_BOTH type __gpulend_make_##type(unsigned short bits) {                                                   \
        type result;                                                                                                   \
        result.__x = bits;                                                                                             \
        return result;                                                                                                 \
    }                                                                                                                  \
    struct __attribute__((aligned(4))) type##2 {                                                                       \
        type x, y;                                                                                                     \
        type##2() = default;                                                                                           \
        __GPULEND_METHOD type##2(type x, type y) : x(x), y(y) {}                                                       \
        __GPULEND_METHOD type##2(type##2_raw raw) : x(type##_raw{raw.x}), y(type##_raw{raw.y}) {}                      \
        __GPULEND_METHOD operator type##2_raw() const { return {x.__x, y.__x}; }                                       \
    };

#define __GPULEND_SMALL_OPERATOR(type, sign, name)                                                                     \
    __GPULEND_BOTH type operator sign(type a, type b) { return name(a, b); }                                           \
    __GPULEND_BOTH type &operator sign##=(type & a, type b) { return a = name(a, b); }                                 \
    __GPULEND_BOTH type##2 name##2(type##2 a, type##2 b) { return {name(a.x, b.x), name(a.y, b.y)}; }                  \
    __GPULEND_BOTH type##2 operator sign(type##2 a, type##2 b) { return name##2(a, b); }                               \
    __GPULEND_BOTH type##2 &operator sign##=(type##2 & a, type##2 b) { return a = name##2(a, b); }

// Comparisons are false for a NaN; those that end in u are true.
#define __GPULEND_SMALL_COMPARISON(type, sign, name)                                                                   \
    __GPULEND_BOTH bool __h##name(type a, type b) { return float(a) sign float(b); }                                   \
    __GPULEND_BOTH bool __h##name##u(type a, type b) {                                                                 \
        return __hisnan(a) || __hisnan(b) || float(a) sign float(b);                                                   \
    }                                                                                                                  \
    __GPULEND_BOTH type##2 __h##name##2(type##2 a, type##2 b) {                                                        \
        return {type(__h##name(a.x, b.x) ? 1.0f : 0.0f), type(__h##name(a.y, b.y) ? 1.0f : 0.0f)};                     \
    }                                                                                                                  \
    __GPULEND_BOTH bool __hb##name##2(type##2 a, type##2 b) { return __h##name(a.x, b.x) && __h##name(a.y, b.y); }     \
    __GPULEND_BOTH bool operator sign(type a, type b) { return __h##name(a, b); }                                      \
    __GPULEND_BOTH bool operator sign(type##2 a, type##2 b) { return __hb##name##2(a, b); }

#define __GPULEND_SMALL_FUNCTION(type, name, call)                                                                     \
    __GPULEND_BOTH type h##name(type x) { return type(call(float(x))); }                                               \
    __GPULEND_BOTH type##2 h2##name(type##2 x) { return {h##name(x.x), h##name(x.y)}; }

#define __GPULEND_SMALL_SHUFFLE(type, name)                                                                            \
    __GPULEND_DEVICE type name(unsigned int mask, type value, int with, int width = 32) {                              \
        unsigned int bits = name(mask, static_cast<unsigned int>(value.__x), with, width);                             \
        return __gpulend_make_##type(static_cast<unsigned short>(bits));                                               \
    }                                                                                                                  \
    __GPULEND_DEVICE type##2 name(unsigned int mask, type##2 value, int with, int width = 32) {                        \
        return __gpulend_bits<type##2>(name(mask, __gpulend_bits<unsigned int>(value), with, width));                  \
    }

#define __GPULEND_SMALL(type)                                                                                          \
    __GPULEND_BOTH bool __hisnan(type x) { return __gpulend_nan(float(x)); }                                           \
    __GPULEND_BOTH int __hisinf(type x) { return !__gpulend_inf(float(x)) ? 0 : x.__x >> 15 ? -1 : 1; }                \
    __GPULEND_BOTH type##2 __hisnan2(type##2 x) {                                                                      \
        return {type(__hisnan(x.x) ? 1.0f : 0.0f), type(__hisnan(x.y) ? 1.0f : 0.0f)};                                 \
    }                                                                                                                  \
    __GPULEND_BOTH type __hneg(type x) { return __gpulend_make_##type(x.__x ^ 0x8000); }                               \
    __GPULEND_BOTH type __habs(type x) { return __gpulend_make_##type(x.__x & 0x7fff); }                               \
    __GPULEND_BOTH type##2 __hneg2(type##2 x) { return {__hneg(x.x), __hneg(x.y)}; }                                   \
    __GPULEND_BOTH type##2 __habs2(type##2 x) { return {__habs(x.x), __habs(x.y)}; }                                   \
    __GPULEND_BOTH type __hdiv(type a, type b) { return type(float(a) / float(b)); }                                   \
    __GPULEND_BOTH type __hmin(type a, type b) { return type(fminf(float(a), float(b))); }                             \
    __GPULEND_BOTH type __hmax(type a, type b) { return type(fmaxf(float(a), float(b))); }                             \
    __GPULEND_BOTH type##2 __hmin2(type##2 a, type##2 b) { return {__hmin(a.x, b.x), __hmin(a.y, b.y)}; }              \
    __GPULEND_BOTH type##2 __hmax2(type##2 a, type##2 b) { return {__hmax(a.x, b.x), __hmax(a.y, b.y)}; }              \
    __GPULEND_BOTH type##2 __hfma2(type##2 a, type##2 b, type##2 c) {                                                  \
        return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};                                                         \
    }                                                                                                                  \
    __GPULEND_BOTH type __gpulend_saturate(type x) { return type(fminf(fmaxf(float(x), 0.0f), 1.0f)); }                \
    __GPULEND_BOTH type __hadd_sat(type a, type b) { return __gpulend_saturate(__hadd(a, b)); }                        \
    __GPULEND_BOTH type __hsub_sat(type a, type b) { return __gpulend_saturate(__hsub(a, b)); }                        \
    __GPULEND_BOTH type __hmul_sat(type a, type b) { return __gpulend_saturate(__hmul(a, b)); }                        \
    __GPULEND_BOTH type __hfma_sat(type a, type b, type c) { return __gpulend_saturate(__hfma(a, b, c)); }             \
    __GPULEND_SMALL_OPERATOR(type, +, __hadd)                                                                          \
    __GPULEND_SMALL_OPERATOR(type, -, __hsub)                                                                          \
    __GPULEND_SMALL_OPERATOR(type, *, __hmul)                                                                          \
    __GPULEND_SMALL_OPERATOR(type, /, __hdiv)                                                                          \
    __GPULEND_SMALL_COMPARISON(type, ==, eq)                                                                           \
    __GPULEND_SMALL_COMPARISON(type, !=, ne)                                                                           \
    __GPULEND_SMALL_COMPARISON(type, <, lt)                                                                            \
    __GPULEND_SMALL_COMPARISON(type, <=, le)                                                                           \
    __GPULEND_SMALL_COMPARISON(type, >, gt)                                                                            \
    __GPULEND_SMALL_COMPARISON(type, >=, ge)                                                                           \
    __GPULEND_BOTH type operator-(type x) { return __hneg(x); }                                                        \
    __GPULEND_BOTH type operator+(type x) { return x; }                                                                \
    __GPULEND_BOTH type##2 operator-(type##2 x) { return __hneg2(x); }                                                 \
    __GPULEND_BOTH type##2 operator+(type##2 x) { return x; }                                                          \
    __GPULEND_BOTH type &operator++(type &x) { return x = __hadd(x, type(1.0f)); }                                     \
    __GPULEND_BOTH type &operator--(type &x) { return x = __hsub(x, type(1.0f)); }                                     \
    __GPULEND_SMALL_FUNCTION(type, sqrt, sqrtf)                                                                        \
    __GPULEND_SMALL_FUNCTION(type, rsqrt, rsqrtf)                                                                      \
    __GPULEND_SMALL_FUNCTION(type, rcp, 1.0f /)                                                                        \
    __GPULEND_SMALL_FUNCTION(type, exp, expf)                                                                          \
    __GPULEND_SMALL_FUNCTION(type, exp2, exp2f)                                                                        \
    __GPULEND_SMALL_FUNCTION(type, exp10, exp10f)                                                                      \
    __GPULEND_SMALL_FUNCTION(type, log, logf)                                                                          \
    __GPULEND_SMALL_FUNCTION(type, log2, log2f)                                                                        \
    __GPULEND_SMALL_FUNCTION(type, log10, log10f)                                                                      \
    __GPULEND_SMALL_FUNCTION(type, sin, sinf)                                                                          \
    __GPULEND_SMALL_FUNCTION(type, cos, cosf)                                                                          \
    __GPULEND_SMALL_FUNCTION(type, tanh, tanhf)                                                                        \
    __GPULEND_SMALL_FUNCTION(type, floor, floorf)                                                                      \
    __GPULEND_SMALL_FUNCTION(type, ceil, ceilf)                                                                        \
    __GPULEND_SMALL_FUNCTION(type, trunc, truncf)                                                                      \
    __GPULEND_SMALL_FUNCTION(type, rint, rintf)

// What only a device has; a C++ compiler that knows no CUDA sees none of it.
#ifdef __CUDA__
#define __GPULEND_SMALL_DEVICE(type)                                                                                   \
    __GPULEND_SMALL_SHUFFLE(type, __shfl_sync)                                                                         \
    __GPULEND_SMALL_SHUFFLE(type, __shfl_up_sync)                                                                      \
    __GPULEND_SMALL_SHUFFLE(type, __shfl_down_sync)                                                                    \
    __GPULEND_SMALL_SHUFFLE(type, __shfl_xor_sync)                                                                     \
    __GPULEND_DEVICE type atomicAdd(type *place, type value) {                                                         \
        unsigned short *bits = reinterpret_cast<unsigned short *>(place), wanted;                                      \
        /* Read atomically: a plain load beside the others' atomics would be a race. */                                \
        unsigned short seen = atomicCAS(bits, static_cast<unsigned short>(0), static_cast<unsigned short>(0));         \
        do {                                                                                                           \
            wanted = seen;                                                                                             \
            seen = atomicCAS(bits, wanted, __hadd(__gpulend_make_##type(wanted), value).__x);                          \
        } while (seen != wanted);                                                                                      \
        return __gpulend_make_##type(seen);                                                                            \
    }                                                                                                                  \
    __GPULEND_DEVICE type##2 atomicAdd(type##2 *place, type##2 value) {                                                \
        return {atomicAdd(&place->x, value.x), atomicAdd(&place->y, value.y)};                                         \
    }
#else
#define __GPULEND_SMALL_DEVICE(type)
#endif
