// Loads by cache, bytes, spaces, output and loops that a compiler takes for calls of the C library.
#include <cassert>
#include <cstdio>
#include <cstring>
#include <stdio.h>
#include <string.h>

struct Large { int values[200]; };
extern "C" __global__ void memory(int *i, float4 *v, char *c, const char *t, size_t n, Large *large) {
    i[0] = __ldg(i + 1) + __ldca(i + 1) + __ldcg(i + 1) + __ldcs(i + 1) + __ldlu(i + 1) + __ldcv(i + 1);
    v[0] = __ldg(v + 1);
    __stwb(i + 2, 1), __stcg(i + 2, 1), __stcs(i + 2, 1), __stwt(i + 2, 1);
    memcpy(c, t, n), memmove(c, t, n), memset(c, 7, n), std::memcpy(c, t, 64), memset(c, 0, 1000);
    i[3] = memcmp(c, t, n) + strlen(t) + strcmp(c, t) + *strcpy(c, t);
    large[0] = large[1];
    Large zero = {};
    large[2] = zero;
    for (size_t at = 0; at < n; at++) c[at] = 0;
    for (size_t at = 0; at < n; at++) c[at] = t[at];
    __shared__ int kept;
    i[4] = __isGlobal(i) + __isShared(&kept) + __isLocal(&zero) + __isConstant(t);
    i[5] = __cvta_generic_to_shared(&kept) + __cvta_generic_to_global(i) + __cvta_generic_to_local(&zero)
           + __cvta_generic_to_constant(t);
    *static_cast<int *>(__cvta_shared_to_generic(__cvta_generic_to_shared(&kept))) = 3;
    *static_cast<int *>(__cvta_global_to_generic(__cvta_generic_to_global(i))) = 3;
    i[6] = *static_cast<int *>(__cvta_constant_to_generic(4)) + *static_cast<int *>(__cvta_local_to_generic(4));
    printf("nothing\n");
    std::printf("%d %f %c %s %p %lld %u %g\n", i[0], 1.5f, c[0], t, c, 5ll, 7u, 2.5);
    assert(i[0] > 0 && "positive");
    if (i[0] == 99) __trap();
    if (i[0] == 98) __brkpt();
    __prof_trigger(1);
}
#define NDEBUG
#include <assert.h>
extern "C" __global__ void released(int *i) { assert(*i == 0); }
