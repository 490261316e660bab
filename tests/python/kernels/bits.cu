// Integer arithmetic and bits.
extern "C" __global__ void bits(int *i, unsigned int *u, long long *l, unsigned long long *m) {
    i[0] = __popc(u[0]) + __popcll(m[0]) + __clz(i[1]) + __clzll(l[1]) + __ffs(i[2]) + __ffsll(l[2]);
    u[0] = __brev(u[1]) + __fns(u[2], 3, 2);
    m[0] = __brevll(m[1]);
    u[1] = __byte_perm(u[2], u[3], 0x3210) + __byte_perm(u[2], u[3], u[4]);
    u[2] = __funnelshift_l(u[3], u[4], u[5]) + __funnelshift_lc(u[3], u[4], u[5]) + __funnelshift_r(u[3], u[4], u[5])
           + __funnelshift_rc(u[3], u[4], u[5]);
    i[3] = __mulhi(i[4], i[5]) + __mul24(i[4], i[5]) + __hadd(i[4], i[5]) + __rhadd(i[4], i[5]);
    u[3] = __umulhi(u[4], u[5]) + __umul24(u[4], u[5]) + __uhadd(u[4], u[5]) + __urhadd(u[4], u[5]);
    l[3] = __mul64hi(l[4], l[5]);
    m[3] = __umul64hi(m[4], m[5]);
    u[6] = __sad(i[4], i[5], u[4]) + __usad(u[4], u[5], u[7]);
    i[6] = __dp4a(i[4], i[5], i[7]) + __dp2a_lo(i[4], i[5], i[7]) + __dp2a_hi(i[4], i[5], i[7])
           + __dp4a(make_char4(1, 2, 3, i[4]), make_char4(4, 5, 6, 7), i[7]);
    u[7] = __dp4a(u[4], u[5], u[7]) + __dp2a_lo(u[4], u[5], u[7]) + __dp2a_hi(u[4], u[5], u[7])
           + __dp4a(make_uchar4(1, 2, 3, u[4]), make_uchar4(4, 5, 6, 7), u[7]);
    i[7] = abs(i[8]) + min(i[8], 3) + max(i[8], 7u) + min(l[8], 5) + labs(l[8]) + llabs(l[8]) + abs(l[9]);
    u[8] = umin(u[8], u[9]) + umax(u[8], u[9]) + llmin(l[8], l[9]) + llmax(l[8], l[9]) + ullmin(m[8], m[9])
           + ullmax(m[8], m[9]);
}
