// Functions that are instructions, without a library: exact but for the last two, which are approximate.
extern "C" __global__ void instructions(const float *x, const float *positive, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float a = x[i], p = positive[i];
    float *at = out + i;
    float all[] = {floorf(a), ceilf(a), truncf(a), rintf(a), fabsf(a), copysignf(p, a), fminf(a, p), fmaxf(a, p),
                   fmaf(a, p, a), a / p, sqrtf(p), rsqrtf(p), __fdividef(a, p)};
    for (int k = 0; k < sizeof(all) / sizeof(all[0]); ++k) at[k * n] = all[k];
}
