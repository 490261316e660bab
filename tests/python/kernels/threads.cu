// Barriers, fences, shuffles, votes and reductions.
#define SHUFFLES(p)                                                                                                    \
    p[0] = __shfl_sync(mask, p[1], 3) + __shfl_up_sync(mask, p[2], 1) + __shfl_down_sync(mask, p[3], 1, 16)            \
           + __shfl_xor_sync(mask, p[4], 1);
extern "C" __global__ void threads(int *i, unsigned *u, long long *l, unsigned long long *m, float *f, double *d, long *n,
                                   unsigned long *o) {
    unsigned mask = __activemask();
    SHUFFLES(i) SHUFFLES(u) SHUFFLES(l) SHUFFLES(m) SHUFFLES(f) SHUFFLES(d) SHUFFLES(n) SHUFFLES(o)
    __syncthreads();
    i[1] = __syncthreads_count(i[2]) + __syncthreads_and(i[3]) + __syncthreads_or(i[4]);
    __barrier_sync(1);
    __barrier_sync_count(2, 64);
    __syncwarp();
    __syncwarp(mask);
    __threadfence(), __threadfence_block(), __threadfence_system();
    u[1] = __ballot_sync(mask, i[2]);
    i[2] = __all_sync(mask, i[3]) + __any_sync(mask, i[3]) + __uni_sync(mask, i[4]);
    int all;
    u[2] = __match_any_sync(mask, i[3]) + __match_any_sync(mask, u[3]) + __match_any_sync(mask, l[3])
           + __match_any_sync(mask, m[3]) + __match_any_sync(mask, f[3]) + __match_any_sync(mask, d[3])
           + __match_all_sync(mask, i[3], &all) + all + __match_all_sync(mask, d[3], &all) + all
           + __match_any_sync(mask, n[3]) + __match_any_sync(mask, o[3]);
    u[3] = __reduce_add_sync(mask, u[4]) + __reduce_min_sync(mask, u[4]) + __reduce_max_sync(mask, u[4])
           + __reduce_and_sync(mask, u[4]) + __reduce_or_sync(mask, u[4]) + __reduce_xor_sync(mask, u[4]);
    i[3] = __reduce_add_sync(mask, i[4]) + __reduce_min_sync(mask, i[4]) + __reduce_max_sync(mask, i[4]);
}
