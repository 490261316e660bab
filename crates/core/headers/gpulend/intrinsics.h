// Arithmetic with a rounding of its own, and the fast approximations.
#pragma once

#define __GPULEND_ROUNDED(suffix, how)                                                                                 \
    __GPULEND_ONE(__fsqrt_##suffix, float, "sqrt." how ".f32", "f")                                                    \
    __GPULEND_ONE(__frcp_##suffix, float, "rcp." how ".f32", "f")                                                      \
    __GPULEND_TWO(__fadd_##suffix, float, "add." how ".f32", "f")                                                      \
    __GPULEND_TWO(__fsub_##suffix, float, "sub." how ".f32", "f")                                                      \
    __GPULEND_TWO(__fmul_##suffix, float, "mul." how ".f32", "f")                                                      \
    __GPULEND_TWO(__fdiv_##suffix, float, "div." how ".f32", "f")                                                      \
    __GPULEND_THREE(__fmaf_##suffix, float, "fma." how ".f32", "f")                                                    \
    __GPULEND_ONE(__dsqrt_##suffix, double, "sqrt." how ".f64", "d")                                                   \
    __GPULEND_ONE(__drcp_##suffix, double, "rcp." how ".f64", "d")                                                     \
    __GPULEND_TWO(__dadd_##suffix, double, "add." how ".f64", "d")                                                     \
    __GPULEND_TWO(__dsub_##suffix, double, "sub." how ".f64", "d")                                                     \
    __GPULEND_TWO(__dmul_##suffix, double, "mul." how ".f64", "d")                                                     \
    __GPULEND_TWO(__ddiv_##suffix, double, "div." how ".f64", "d")                                                     \
    __GPULEND_THREE(__fma_##suffix, double, "fma." how ".f64", "d")
#define __GPULEND_ONE(name, type, op, letter)                                                                          \
    __GPULEND_PTX type name(type x) {                                                                                  \
        type result;                                                                                                   \
        asm(op " %0, %1;" : "=" letter(result) : letter(x));                                                           \
        return result;                                                                                                 \
    }
#define __GPULEND_TWO(name, type, op, letter)                                                                          \
    __GPULEND_PTX type name(type x, type y) {                                                                          \
        type result;                                                                                                   \
        asm(op " %0, %1, %2;" : "=" letter(result) : letter(x), letter(y));                                            \
        return result;                                                                                                 \
    }
#define __GPULEND_THREE(name, type, op, letter)                                                                        \
    __GPULEND_PTX type name(type x, type y, type z) {                                                                  \
        type result;                                                                                                   \
        asm(op " %0, %1, %2, %3;" : "=" letter(result) : letter(x), letter(y), letter(z));                             \
        return result;                                                                                                 \
    }
__GPULEND_ROUNDED(rn, "rn")
__GPULEND_ROUNDED(rz, "rz")
__GPULEND_ROUNDED(rd, "rm")
__GPULEND_ROUNDED(ru, "rp")
__GPULEND_ONE(__frsqrt_rn, float, "rsqrt.approx.f32", "f")
__GPULEND_ONE(__saturatef, float, "cvt.sat.f32.f32", "f")
__GPULEND_ONE(__sinf, float, "sin.approx.f32", "f")
__GPULEND_ONE(__cosf, float, "cos.approx.f32", "f")
__GPULEND_ONE(__gpulend_exp2, float, "ex2.approx.f32", "f")
__GPULEND_ONE(__log2f, float, "lg2.approx.f32", "f")
__GPULEND_TWO(__fdividef, float, "div.approx.f32", "f")
#undef __GPULEND_THREE
#undef __GPULEND_TWO
#undef __GPULEND_ONE
#undef __GPULEND_ROUNDED
__GPULEND_BOTH float __expf(float x) { return __gpulend_exp2(x * static_cast<float>(M_LOG2E)); }
__GPULEND_BOTH float __exp10f(float x) { return __gpulend_exp2(x * 3.3219280948873623479f); }
__GPULEND_BOTH float __logf(float x) { return __log2f(x) * static_cast<float>(M_LN2); }
__GPULEND_BOTH float __log10f(float x) { return __log2f(x) * 0.30102999566398119521f; }
__GPULEND_BOTH float __powf(float x, float y) { return __gpulend_exp2(y * __log2f(x)); }
__GPULEND_BOTH float __tanf(float x) { return __fdividef(__sinf(x), __cosf(x)); }
__GPULEND_BOTH void __sincosf(float x, float *sine, float *cosine) { *sine = __sinf(x), *cosine = __cosf(x); }
__GPULEND_BOTH float __tanhf(float x) { return tanhf(x); }
__GPULEND_BOTH float fdividef(float x, float y) { return x / y; }
__GPULEND_BOTH float saturate(float x) { return __saturatef(x); }

// --use_fast_math: the plain names mean the approximations, as nvcc has it.
#ifdef __GPULEND_FAST_MATH
namespace std {
using ::__cosf;
using ::__exp10f;
using ::__expf;
using ::__log10f;
using ::__log2f;
using ::__logf;
using ::__powf;
using ::__sinf;
using ::__tanf;
} // namespace std
#define sinf(x) __sinf(x)
#define cosf(x) __cosf(x)
#define tanf(x) __tanf(x)
#define sincosf(x, sine, cosine) __sincosf(x, sine, cosine)
#define expf(x) __expf(x)
#define exp10f(x) __exp10f(x)
#define logf(x) __logf(x)
#define log2f(x) __log2f(x)
#define log10f(x) __log10f(x)
#define powf(x, y) __powf(x, y)
#endif
