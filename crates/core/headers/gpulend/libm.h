// Functions of C's libm that the simulated GPU brings itself: they stay calls, by these names.
#pragma once

#define __GPULEND_LIBM extern "C" __attribute__((host, device, const, nothrow))
#define __GPULEND_UNARY(name)                                                                                          \
    __GPULEND_LIBM double name(double);                                                                                \
    __GPULEND_LIBM float name##f(float);
#define __GPULEND_BINARY(name)                                                                                         \
    __GPULEND_LIBM double name(double, double);                                                                        \
    __GPULEND_LIBM float name##f(float, float);
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
__GPULEND_UNARY(exp10)
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
__GPULEND_UNARY(j0)
__GPULEND_UNARY(j1)
__GPULEND_UNARY(y0)
__GPULEND_UNARY(y1)
__GPULEND_BINARY(atan2)
__GPULEND_BINARY(pow)
__GPULEND_BINARY(hypot)
__GPULEND_BINARY(fmod)
__GPULEND_BINARY(remainder)
__GPULEND_BINARY(nextafter)
__GPULEND_BINARY(fdim)
__GPULEND_LIBM double ldexp(double, int);
__GPULEND_LIBM float ldexpf(float, int);
__GPULEND_LIBM double scalbn(double, int);
__GPULEND_LIBM float scalbnf(float, int);
__GPULEND_LIBM int ilogb(double);
__GPULEND_LIBM int ilogbf(float);
#endif
// These two are CUDA's own; a whole program has the others from the system's <math.h>.
__GPULEND_UNARY(sinpi)
__GPULEND_UNARY(cospi)
#undef __GPULEND_BINARY
#undef __GPULEND_UNARY
#undef __GPULEND_LIBM
