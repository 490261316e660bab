// Arithmetic with a rounding of its own, and approximations.
#define ROUNDED(how)                                                                                                   \
    f[0] += __fsqrt_##how(f[1]) + __frcp_##how(f[1]) + __fadd_##how(f[1], f[2]) + __fsub_##how(f[1], f[2])             \
            + __fmul_##how(f[1], f[2]) + __fdiv_##how(f[1], f[2]) + __fmaf_##how(f[1], f[2], f[3]);                    \
    d[0] += __dsqrt_##how(d[1]) + __drcp_##how(d[1]) + __dadd_##how(d[1], d[2]) + __dsub_##how(d[1], d[2])             \
            + __dmul_##how(d[1], d[2]) + __ddiv_##how(d[1], d[2]) + __fma_##how(d[1], d[2], d[3]);
extern "C" __global__ void intrinsics(float *f, double *d) {
    ROUNDED(rn) ROUNDED(rz) ROUNDED(rd) ROUNDED(ru)
    f[1] += __frsqrt_rn(f[1]) + __saturatef(f[1]) + __sinf(f[1]) + __cosf(f[1]) + __tanf(f[1]) + __log2f(f[1])
            + __logf(f[1]) + __log10f(f[1]) + __expf(f[1]) + __exp10f(f[1]) + __powf(f[1], f[2]) + __fdividef(f[1], f[2])
            + __tanhf(f[1]) + fdividef(f[1], f[2]) + saturate(f[1]);
    __sincosf(f[1], f + 2, f + 3);
}
