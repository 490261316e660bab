// Functions of the mathematical library: one row of `n` results for each, in the order of the test's list.
#include <math.h>

extern "C" __global__ void double_functions(const double *x, const double *positive, double *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double a = x[i], p = positive[i];
    double *at = out + i;
    double all[] = {sin(a),   cos(a),   tan(a),    atan(a),  sinh(a),  cosh(a), tanh(a), asinh(a), exp(a),      exp2(a),
                    expm1(a), cbrt(a),  erf(a),    erfc(a),  log(p),   log2(p), log10(p), log1p(p), sqrt(p),    pow(p, a),
                    hypot(a, p), atan2(a, p), fmod(a, p), lgamma(p), tgamma(p)};
    for (int k = 0; k < sizeof(all) / sizeof(all[0]); ++k) at[k * n] = all[k];
}

extern "C" __global__ void float_functions(const float *x, const float *positive, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float a = x[i], p = positive[i];
    float *at = out + i;
    float all[] = {sinf(a),   cosf(a),   tanf(a),    atanf(a),  sinhf(a),  coshf(a), tanhf(a), asinhf(a), expf(a),   exp2f(a),
                   expm1f(a), cbrtf(a),  erff(a),    erfcf(a),  logf(p),   log2f(p), log10f(p), log1pf(p), sqrtf(p), powf(p, a),
                   hypotf(a, p), atan2f(a, p), fmodf(a, p), lgammaf(p), tgammaf(p)};
    for (int k = 0; k < sizeof(all) / sizeof(all[0]); ++k) at[k * n] = all[k];
}
