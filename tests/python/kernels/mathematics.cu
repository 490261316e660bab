// <math.h> in float and double, by C's names and by overloads.
#include <cmath>
#include <math.h>

#define UNARY(name) f[0] += name##f(f[1]) + name(f[2]) + std::name(f[3]); d[0] += name(d[1]) + name(3) + std::name(d[2]);
#define BINARY(name) f[0] += name##f(f[1], f[2]) + name(f[3], f[4]); d[0] += name(d[1], d[2]) + name(f[1], d[2]) + name(2, d[3]) + std::name(d[1], 2);
extern "C" __global__ void called(float *f, double *d) {
    UNARY(sin) UNARY(cos) UNARY(tan) UNARY(asin) UNARY(acos) UNARY(atan) UNARY(sinh) UNARY(cosh) UNARY(tanh)
    UNARY(asinh) UNARY(acosh) UNARY(atanh) UNARY(exp) UNARY(exp2) UNARY(exp10) UNARY(expm1) UNARY(log) UNARY(log2)
    UNARY(log10) UNARY(log1p) UNARY(cbrt) UNARY(erf) UNARY(erfc) UNARY(tgamma) UNARY(lgamma) UNARY(logb) UNARY(sinpi)
    UNARY(cospi)
    BINARY(atan2) BINARY(pow) BINARY(hypot) BINARY(fmod) BINARY(remainder) BINARY(nextafter) BINARY(fdim)
    f[0] += j0f(f[1]) + j1f(f[1]) + y0f(f[1]) + y1f(f[1]) + ldexpf(f[1], 3) + scalbnf(f[1], 3) + ilogbf(f[1]);
    d[0] += j0(d[1]) + j1(d[1]) + y0(d[1]) + y1(d[1]) + ldexp(d[1], 3) + scalbn(d[1], 3) + ilogb(d[1]);
    f[0] += ldexp(f[1], 3) + scalbn(f[1], 3) + ilogb(f[1]) + pow(f[1], 3);
    d[0] += pow(d[1], 3) + std::ldexp(d[1], 3) + std::ilogb(d[1]) + std::scalbn(d[1], 2);
}
extern "C" __global__ void instructions(float *f, double *d, long *l) {
    UNARY(sqrt) UNARY(fabs) UNARY(floor) UNARY(ceil) UNARY(trunc) UNARY(rint) UNARY(nearbyint) UNARY(round) UNARY(rsqrt)
    BINARY(fmin) BINARY(fmax) BINARY(copysign)
    f[0] += rsqrtf(f[1]) + sqrtf(f[1]) + fmaf(f[1], f[2], f[3]) + fma(f[1], f[2], f[3]) + min(f[1], f[2]) + max(f[1], f[2]) + abs(f[1]) + min(f[1], 2);
    d[0] += fma(d[1], d[2], d[3]) + min(d[1], d[2]) + max(d[1], f[2]) + abs(d[1]) + std::abs(d[2]) + std::fma(d[0], d[1], d[2]);
    l[0] += lrintf(f[1]) + lrint(d[1]) + llrintf(f[1]) + llrint(d[1]) + lroundf(f[1]) + lround(d[1]) + llroundf(f[1])
            + llround(d[1]) + lrint(f[2]) + lround(f[2]) + llrint(f[2]) + llround(f[2]);
    l[1] += isnan(f[1]) + isnan(d[1]) + isinf(f[1]) + isinf(d[1]) + isfinite(f[1]) + isfinite(d[1]) + isnormal(f[1])
            + isnormal(d[1]) + signbit(f[1]) + signbit(d[1]) + std::isnan(f[2]) + finite(d[1]) + finitef(f[1]) + isnan(3);
}
extern "C" __global__ void written(float *f, double *d, int *i) {
    d[0] += frexp(d[1], i) + modf(d[1], d + 2) + remquo(d[1], d[2], i + 1) + nan("") + scalbln(d[1], 5l);
    f[0] += frexpf(f[1], i) + modff(f[1], f + 2) + remquof(f[1], f[2], i + 1) + nanf("") + scalblnf(f[1], 5l);
    f[0] += frexp(f[1], i) + modf(f[1], f + 2);
    sincos(d[1], d + 3, d + 4), sincosf(f[1], f + 3, f + 4), sincos(f[1], f + 5, f + 6);
    sincospi(d[1], d + 3, d + 4), sincospif(f[1], f + 3, f + 4);
    d[0] += rcbrt(d[1]) + normcdf(d[1]) + erfcx(d[1]) + norm3d(d[1], d[2], d[3]) + norm4d(d[1], d[2], d[3], d[4])
            + rhypot(d[1], d[2]) + rnorm3d(d[1], d[2], d[3]) + rnorm4d(d[1], d[2], d[3], d[4]) + norm(4, d);
    f[0] += rcbrtf(f[1]) + normcdff(f[1]) + erfcxf(f[1]) + norm3df(f[1], f[2], f[3]) + norm4df(f[1], f[2], f[3], f[4])
            + rhypotf(f[1], f[2]) + rnorm3df(f[1], f[2], f[3]) + rnorm4df(f[1], f[2], f[3], f[4]) + normf(4, f) + rcbrt(f[1]);
    d[1] = M_PI + INFINITY + NAN + HUGE_VAL + CUDART_INF;
}
