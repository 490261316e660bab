// __half and __half2.
#include <cuda_fp16.h>

#define EACH_FUNCTION(name) h[0] = h[0] + h##name(h[1]); p[0] = p[0] + h2##name(p[1]);
#define EACH_COMPARISON(name) i[0] += __h##name(h[1], h[2]) + __h##name##u(h[1], h[2]) + __hb##name##2(p[1], p[2]); p[3] = __h##name##2(p[1], p[2]);
#define SHUFFLES(p) p[0] = __shfl_sync(~0u, p[1], 3) + __shfl_up_sync(~0u, p[2], 1) + __shfl_down_sync(~0u, p[3], 1) + __shfl_xor_sync(~0u, p[4], 1);
extern "C" __global__ void halves(half *h, half2 *p, int *i, float *f, double *d) {
    h[0] = h[1] + h[2] - h[3] * h[4] / h[5];
    p[0] = p[1] + p[2] - p[3] * p[4] / p[5];
    h[0] += h[1], h[0] -= h[1], h[0] *= h[1], h[0] /= h[1], ++h[0], --h[1], h[2] = -h[3], h[3] = +h[4];
    p[0] += p[1], p[0] -= p[1], p[0] *= p[1], p[0] /= p[1], p[2] = -p[3], p[3] = +p[4];
    i[0] = (h[1] == h[2]) + (h[1] != h[2]) + (h[1] < h[2]) + (h[1] <= h[2]) + (h[1] > h[2]) + (h[1] >= h[2]) + (h[1] ? 1 : 0);
    h[0] = __hadd(h[1], h[2]), h[0] = __hsub(h[1], h[2]), h[0] = __hmul(h[1], h[2]), h[0] = __hdiv(h[1], h[2]);
    h[0] = __hadd_rn(h[1], h[2]), h[0] = __hsub_rn(h[1], h[2]), h[0] = __hmul_rn(h[1], h[2]);
    h[1] = __hadd_sat(h[1], h[2]) + __hsub_sat(h[1], h[2]) + __hmul_sat(h[1], h[2]) + __hfma_sat(h[1], h[2], h[3]);
    h[2] = __hfma(h[1], h[2], h[3]) + __hneg(h[1]) + __habs(h[1]) + __hmin(h[1], h[2]) + __hmax(h[1], h[2]);
    p[0] = __hadd2(p[1], p[2]), p[0] = __hsub2(p[1], p[2]), p[0] = __hmul2(p[1], p[2]), p[0] = __hdiv2(p[1], p[2]);
    p[2] = __hfma2(p[1], p[2], p[3]) + __hneg2(p[1]) + __habs2(p[1]) + __hmin2(p[1], p[2]) + __hmax2(p[1], p[2]) + __hisnan2(p[1]);
    i[1] = __hisnan(h[1]) + __hisinf(h[1]);
    EACH_COMPARISON(eq) EACH_COMPARISON(ne) EACH_COMPARISON(lt) EACH_COMPARISON(le) EACH_COMPARISON(gt) EACH_COMPARISON(ge)
    EACH_FUNCTION(sqrt) EACH_FUNCTION(rsqrt) EACH_FUNCTION(rcp) EACH_FUNCTION(exp) EACH_FUNCTION(exp2) EACH_FUNCTION(exp10)
    EACH_FUNCTION(log) EACH_FUNCTION(log2) EACH_FUNCTION(log10) EACH_FUNCTION(sin) EACH_FUNCTION(cos) EACH_FUNCTION(tanh)
    EACH_FUNCTION(floor) EACH_FUNCTION(ceil) EACH_FUNCTION(trunc) EACH_FUNCTION(rint)
    SHUFFLES(h) SHUFFLES(p)
    h[6] = atomicAdd(h, h[1]), p[6] = atomicAdd(p, p[1]), h[7] = __ldg(h + 1), p[7] = __ldg(p + 1);
    h[1] = f[0], h[2] = d[0], h[3] = i[0], f[1] = h[4], f[2] = float(h[5]), h[6] = half(2);
    f[3] = __half2float(h[1]), h[1] = __float2half(f[1]), h[2] = __float2half_rn(f[1]), h[3] = __float2half_rz(f[1]);
    h[4] = __float2half_rd(f[1]), h[5] = __float2half_ru(f[1]), h[6] = __double2half(d[1]), h[7] = __int2half_rn(i[2]);
    h[8] = __uint2half_rn(i[2]), h[9] = __ll2half_rn(i[2]), h[10] = __short2half_rn(i[2]), h[11] = __ushort2half_rn(i[2]);
    i[2] = __half2int_rn(h[1]) + __half2int_rz(h[1]) + __half2int_rd(h[1]) + __half2int_ru(h[1]) + __half2uint_rn(h[1])
           + __half2uint_rz(h[1]) + __half_as_ushort(h[1]) + __half_as_short(h[1]);
    h[12] = __ushort_as_half(i[3]), h[13] = __short_as_half(i[3]);
    p[1] = __halves2half2(h[1], h[2]), p[2] = make_half2(h[1], h[2]), p[3] = __half2half2(h[1]), p[4] = __float2half2_rn(f[1]);
    p[5] = __floats2half2_rn(f[1], f[2]), p[6] = __float22half2_rn(make_float2(f[1], f[2]));
    f[4] = __half22float2(p[1]).x + __low2float(p[1]) + __high2float(p[1]);
    h[14] = __low2half(p[1]) + __high2half(p[1]);
    p[7] = __low2half2(p[1]), p[8] = __high2half2(p[1]), p[9] = __lows2half2(p[1], p[2]), p[10] = __highs2half2(p[1], p[2]);
    p[11] = __lowhigh2highlow(p[1]);
}
