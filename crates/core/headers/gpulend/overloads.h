// One name for every type: sin(float), max(int, long), isnan, and the same names in std.
#pragma once

template <class T> using __gpulend_whole = std::enable_if_t<std::is_integral_v<T>, double>;
template <class A, class B>
using __gpulend_mixed = std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B> && !std::is_same_v<A, B>
                                             && !(std::is_same_v<A, float> && std::is_same_v<B, float>),
                                         double>;

#define __GPULEND_UNARY(name)                                                                                          \
    __GPULEND_BOTH float name(float x) { return name##f(x); }                                                          \
    template <class T> __GPULEND_METHOD __gpulend_whole<T> name(T x) { return name(static_cast<double>(x)); }          \
    namespace std {                                                                                                    \
    using ::name;                                                                                                      \
    using ::name##f;                                                                                                   \
    }
#define __GPULEND_BINARY(name)                                                                                         \
    __GPULEND_BOTH float name(float x, float y) { return name##f(x, y); }                                              \
    template <class T> __GPULEND_METHOD __gpulend_whole<T> name(T x, T y) { return name(double(x), double(y)); }       \
    template <class A, class B> __GPULEND_METHOD __gpulend_mixed<A, B> name(A x, B y) {                                \
        return name(double(x), double(y));                                                                             \
    }                                                                                                                  \
    namespace std {                                                                                                    \
    using ::name;                                                                                                      \
    using ::name##f;                                                                                                   \
    }
// CUDA's own; a whole program has the rest from its C++ library.
__GPULEND_UNARY(exp10)
__GPULEND_UNARY(sinpi)
__GPULEND_UNARY(cospi)
__GPULEND_UNARY(rsqrt)
__GPULEND_UNARY(rcbrt)
__GPULEND_BOTH void sincos(float x, float *sine, float *cosine) { sincosf(x, sine, cosine); }
#ifndef __GPULEND_PROGRAM
__GPULEND_UNARY(sin)
__GPULEND_UNARY(cos)
__GPULEND_UNARY(tan)
__GPULEND_UNARY(asin)
__GPULEND_UNARY(acos)
__GPULEND_UNARY(atan)
__GPULEND_UNARY(sinh)
__GPULEND_UNARY(cosh)
__GPULEND_UNARY(tanh)
__GPULEND_UNARY(asinh)
__GPULEND_UNARY(acosh)
__GPULEND_UNARY(atanh)
__GPULEND_UNARY(exp)
__GPULEND_UNARY(exp2)
__GPULEND_UNARY(expm1)
__GPULEND_UNARY(log)
__GPULEND_UNARY(log2)
__GPULEND_UNARY(log10)
__GPULEND_UNARY(log1p)
__GPULEND_UNARY(cbrt)
__GPULEND_UNARY(erf)
__GPULEND_UNARY(erfc)
__GPULEND_UNARY(tgamma)
__GPULEND_UNARY(lgamma)
__GPULEND_UNARY(logb)
__GPULEND_UNARY(sqrt)
__GPULEND_UNARY(fabs)
__GPULEND_UNARY(floor)
__GPULEND_UNARY(ceil)
__GPULEND_UNARY(trunc)
__GPULEND_UNARY(rint)
__GPULEND_UNARY(nearbyint)
__GPULEND_UNARY(round)
__GPULEND_BINARY(atan2)
__GPULEND_BINARY(pow)
__GPULEND_BINARY(hypot)
__GPULEND_BINARY(fmod)
__GPULEND_BINARY(remainder)
__GPULEND_BINARY(nextafter)
__GPULEND_BINARY(fdim)
__GPULEND_BINARY(fmin)
__GPULEND_BINARY(fmax)
__GPULEND_BINARY(copysign)
#endif
#undef __GPULEND_BINARY
#undef __GPULEND_UNARY

#ifndef __GPULEND_PROGRAM
__GPULEND_BOTH float fma(float x, float y, float z) { return fmaf(x, y, z); }
__GPULEND_BOTH float pow(float x, int n) { return powf(x, static_cast<float>(n)); }
__GPULEND_BOTH double pow(double x, int n) { return pow(x, static_cast<double>(n)); }
__GPULEND_BOTH float ldexp(float x, int n) { return ldexpf(x, n); }
__GPULEND_BOTH float scalbn(float x, int n) { return scalbnf(x, n); }
__GPULEND_BOTH int ilogb(float x) { return ilogbf(x); }
__GPULEND_BOTH float frexp(float x, int *exponent) { return frexpf(x, exponent); }
__GPULEND_BOTH float modf(float x, float *whole) { return modff(x, whole); }
__GPULEND_BOTH long lrint(float x) { return lrintf(x); }
__GPULEND_BOTH long lround(float x) { return lroundf(x); }
__GPULEND_BOTH long long llrint(float x) { return llrintf(x); }
__GPULEND_BOTH long long llround(float x) { return llroundf(x); }

#define __GPULEND_QUESTION(name, answer)                                                                               \
    __GPULEND_BOTH bool name(float x) { return __gpulend_##answer(x); }                                                \
    __GPULEND_BOTH bool name(double x) { return __gpulend_##answer(x); }                                               \
    template <class T> __GPULEND_METHOD std::enable_if_t<std::is_integral_v<T>, bool> name(T x) {                      \
        return __gpulend_##answer(static_cast<double>(x));                                                             \
    }                                                                                                                  \
    namespace std {                                                                                                    \
    using ::name;                                                                                                      \
    }
__GPULEND_QUESTION(isnan, nan)
__GPULEND_QUESTION(isinf, inf)
__GPULEND_QUESTION(isfinite, finite)
__GPULEND_QUESTION(isnormal, normal)
__GPULEND_QUESTION(signbit, sign)
#undef __GPULEND_QUESTION
__GPULEND_BOTH int finite(double x) { return __gpulend_finite(x); }
__GPULEND_BOTH int finitef(float x) { return __gpulend_finite(x); }

__GPULEND_BOTH int abs(int x) { return x < 0 ? -x : x; }
__GPULEND_BOTH long abs(long x) { return x < 0 ? -x : x; }
__GPULEND_BOTH long long abs(long long x) { return x < 0 ? -x : x; }
__GPULEND_BOTH float abs(float x) { return fabsf(x); }
__GPULEND_BOTH double abs(double x) { return fabs(x); }
__GPULEND_BOTH long labs(long x) { return abs(x); }
__GPULEND_BOTH long long llabs(long long x) { return abs(x); }
#endif

#define __GPULEND_EXTREMES(type)                                                                                       \
    __GPULEND_BOTH type min(type a, type b) { return a < b ? a : b; }                                                  \
    __GPULEND_BOTH type max(type a, type b) { return a < b ? b : a; }
__GPULEND_EXTREMES(int)
__GPULEND_EXTREMES(unsigned int)
__GPULEND_EXTREMES(long)
__GPULEND_EXTREMES(unsigned long)
__GPULEND_EXTREMES(long long)
__GPULEND_EXTREMES(unsigned long long)
#undef __GPULEND_EXTREMES
__GPULEND_BOTH float min(float a, float b) { return fminf(a, b); }
__GPULEND_BOTH float max(float a, float b) { return fmaxf(a, b); }
__GPULEND_BOTH double min(double a, double b) { return fmin(a, b); }
__GPULEND_BOTH double max(double a, double b) { return fmax(a, b); }
// Of two types the wider, and of two as wide the unsigned one, as in arithmetic.
template <class A, class B>
using __gpulend_common = std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B> && !std::is_same_v<A, B>,
                                          decltype(A() + B())>;
template <class A, class B> __GPULEND_METHOD __gpulend_common<A, B> min(A a, B b) {
    return min(static_cast<__gpulend_common<A, B>>(a), static_cast<__gpulend_common<A, B>>(b));
}
template <class A, class B> __GPULEND_METHOD __gpulend_common<A, B> max(A a, B b) {
    return max(static_cast<__gpulend_common<A, B>>(a), static_cast<__gpulend_common<A, B>>(b));
}
__GPULEND_BOTH unsigned int umin(unsigned int a, unsigned int b) { return min(a, b); }
__GPULEND_BOTH unsigned int umax(unsigned int a, unsigned int b) { return max(a, b); }
__GPULEND_BOTH long long llmin(long long a, long long b) { return min(a, b); }
__GPULEND_BOTH long long llmax(long long a, long long b) { return max(a, b); }
__GPULEND_BOTH unsigned long long ullmin(unsigned long long a, unsigned long long b) { return min(a, b); }
__GPULEND_BOTH unsigned long long ullmax(unsigned long long a, unsigned long long b) { return max(a, b); }

#ifndef __GPULEND_PROGRAM
namespace std {
using ::abs;
using ::fma;
using ::fmaf;
using ::frexp;
using ::ilogb;
using ::labs;
using ::ldexp;
using ::llabs;
using ::llrint;
using ::llround;
using ::lrint;
using ::lround;
using ::modf;
using ::nan;
using ::nanf;
using ::scalbn;
} // namespace std
#endif
