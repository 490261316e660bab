// Atomic operations in three scopes.
#define ATOMICS(scope)                                                                                                 \
    i[0] = atomicAdd##scope(i + 1, 1) + atomicSub##scope(i + 1, 1) + atomicExch##scope(i + 1, 1)                       \
           + atomicMin##scope(i + 1, 1) + atomicMax##scope(i + 1, 1) + atomicAnd##scope(i + 1, 1)                      \
           + atomicOr##scope(i + 1, 1) + atomicXor##scope(i + 1, 1) + atomicCAS##scope(i + 1, 1, 2);                   \
    u[0] = atomicAdd##scope(u + 1, 1u) + atomicSub##scope(u + 1, 1u) + atomicExch##scope(u + 1, 1u)                    \
           + atomicMin##scope(u + 1, 1u) + atomicMax##scope(u + 1, 1u) + atomicAnd##scope(u + 1, 1u)                   \
           + atomicOr##scope(u + 1, 1u) + atomicXor##scope(u + 1, 1u) + atomicCAS##scope(u + 1, 1u, 2u)                \
           + atomicInc##scope(u + 1, 7u) + atomicDec##scope(u + 1, 7u);                                                \
    m[0] = atomicAdd##scope(m + 1, 1ull) + atomicSub##scope(m + 1, 1ull) + atomicExch##scope(m + 1, 1ull)              \
           + atomicMin##scope(m + 1, 1ull) + atomicMax##scope(m + 1, 1ull) + atomicAnd##scope(m + 1, 1ull)             \
           + atomicOr##scope(m + 1, 1ull) + atomicXor##scope(m + 1, 1ull) + atomicCAS##scope(m + 1, 1ull, 2ull);       \
    n[0] = atomicAdd##scope(n + 1, 1ul) + atomicExch##scope(n + 1, 1ul) + atomicCAS##scope(n + 1, 1ul, 2ul);           \
    l[0] = atomicMin##scope(l + 1, 1ll) + atomicMax##scope(l + 1, 1ll);                                                \
    f[0] = atomicAdd##scope(f + 1, 1.0f) + atomicExch##scope(f + 1, 1.0f);                                             \
    d[0] = atomicAdd##scope(d + 1, 1.0);                                                                               \
    s[0] = atomicCAS##scope(s + 1, s[2], s[3]);
extern "C" __global__ void atomics(int *i, unsigned *u, long long *l, unsigned long long *m, float *f, double *d,
                                   unsigned short *s, unsigned long *n) {
    ATOMICS() ATOMICS(_block) ATOMICS(_system)
    __shared__ int count;
    atomicAdd(&count, 1);
    i[5] = count;
}
