// Integer arithmetic and bits.
#pragma once

__GPULEND_BOTH int __popc(unsigned int x) { return __builtin_popcount(x); }
__GPULEND_BOTH int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
__GPULEND_BOTH int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned int>(x)); }
__GPULEND_BOTH int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x)); }
__GPULEND_BOTH int __ffs(int x) { return x == 0 ? 0 : __builtin_ctz(static_cast<unsigned int>(x)) + 1; }
__GPULEND_BOTH int __ffsll(long long x) {
    return x == 0 ? 0 : __builtin_ctzll(static_cast<unsigned long long>(x)) + 1;
}
__GPULEND_BOTH unsigned int __brev(unsigned int x) { return __builtin_bitreverse32(x); }
__GPULEND_BOTH unsigned long long __brevll(unsigned long long x) { return __builtin_bitreverse64(x); }
__GPULEND_BOTH unsigned int __fns(unsigned int mask, unsigned int base, int offset) {
    // The position of the n-th set bit, counted upwards from base, or downwards for a negative offset.
    if (offset == 0) return base < 32 && (mask >> base & 1) ? base : 0xffffffffu;
    int step = offset > 0 ? 1 : -1, left = offset > 0 ? offset : -offset;
    for (int at = static_cast<int>(base); at >= 0 && at < 32; at += step)
        if ((mask >> at & 1) && --left == 0) return static_cast<unsigned int>(at);
    return 0xffffffffu;
}

__GPULEND_BOTH unsigned int __byte_perm(unsigned int x, unsigned int y, unsigned int selector) {
    unsigned long long bytes = static_cast<unsigned long long>(y) << 32 | x;
    unsigned int result = 0;
#pragma unroll
    for (int at = 0; at < 4; at++)
        result |= static_cast<unsigned int>(bytes >> (selector >> 4 * at & 7) * 8 & 0xff) << 8 * at;
    return result;
}
__GPULEND_BOTH unsigned int __funnelshift_l(unsigned int low, unsigned int high, unsigned int shift) {
    return static_cast<unsigned int>((static_cast<unsigned long long>(high) << 32 | low) << (shift & 31) >> 32);
}
__GPULEND_BOTH unsigned int __funnelshift_lc(unsigned int low, unsigned int high, unsigned int shift) {
    return shift >= 32 ? low : __funnelshift_l(low, high, shift);
}
__GPULEND_BOTH unsigned int __funnelshift_r(unsigned int low, unsigned int high, unsigned int shift) {
    return static_cast<unsigned int>((static_cast<unsigned long long>(high) << 32 | low) >> (shift & 31));
}
__GPULEND_BOTH unsigned int __funnelshift_rc(unsigned int low, unsigned int high, unsigned int shift) {
    return shift >= 32 ? high : __funnelshift_r(low, high, shift);
}

__GPULEND_BOTH int __mulhi(int a, int b) { return static_cast<int>(static_cast<long long>(a) * b >> 32); }
__GPULEND_BOTH unsigned int __umulhi(unsigned int a, unsigned int b) {
    return static_cast<unsigned int>(static_cast<unsigned long long>(a) * b >> 32);
}
__GPULEND_DEVICE long long __mul64hi(long long a, long long b) {
    long long high;
    asm("mul.hi.s64 %0, %1, %2;" : "=l"(high) : "l"(a), "l"(b));
    return high;
}
__GPULEND_DEVICE unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    unsigned long long high;
    asm("mul.hi.u64 %0, %1, %2;" : "=l"(high) : "l"(a), "l"(b));
    return high;
}
__GPULEND_BOTH int __mul24(int a, int b) {
    // The low 24 bits of each, with their sign.
    int left = static_cast<int>(static_cast<unsigned int>(a) << 8) >> 8;
    int right = static_cast<int>(static_cast<unsigned int>(b) << 8) >> 8;
    return static_cast<int>(static_cast<unsigned int>(left) * static_cast<unsigned int>(right));
}
__GPULEND_BOTH unsigned int __umul24(unsigned int a, unsigned int b) { return (a & 0xffffff) * (b & 0xffffff); }
__GPULEND_BOTH unsigned int __sad(int a, int b, unsigned int sum) {
    unsigned int left = static_cast<unsigned int>(a), right = static_cast<unsigned int>(b);
    return sum + (a < b ? right - left : left - right);
}
__GPULEND_BOTH unsigned int __usad(unsigned int a, unsigned int b, unsigned int sum) {
    return sum + (a < b ? b - a : a - b);
}
__GPULEND_BOTH int __hadd(int a, int b) { return static_cast<int>((static_cast<long long>(a) + b) >> 1); }
__GPULEND_BOTH int __rhadd(int a, int b) { return static_cast<int>((static_cast<long long>(a) + b + 1) >> 1); }
__GPULEND_BOTH unsigned int __uhadd(unsigned int a, unsigned int b) {
    return static_cast<unsigned int>((static_cast<unsigned long long>(a) + b) >> 1);
}
__GPULEND_BOTH unsigned int __urhadd(unsigned int a, unsigned int b) {
    return static_cast<unsigned int>((static_cast<unsigned long long>(a) + b + 1) >> 1);
}

// Products of bytes, and of halfwords by the low or high two bytes, onto a sum.
__GPULEND_BOTH int __dp4a(int a, int b, int sum) {
    for (int at = 0; at < 32; at += 8) sum += static_cast<signed char>(a >> at) * static_cast<signed char>(b >> at);
    return sum;
}
__GPULEND_BOTH unsigned int __dp4a(unsigned int a, unsigned int b, unsigned int sum) {
    for (int at = 0; at < 32; at += 8) sum += (a >> at & 0xff) * (b >> at & 0xff);
    return sum;
}
__GPULEND_BOTH int __dp4a(char4 a, char4 b, int sum) { return sum + a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }
__GPULEND_BOTH unsigned int __dp4a(uchar4 a, uchar4 b, unsigned int sum) {
    return sum + unsigned(a.x * b.x) + unsigned(a.y * b.y) + unsigned(a.z * b.z) + unsigned(a.w * b.w);
}
__GPULEND_BOTH int __dp2a_lo(int a, int b, int sum) {
    return sum + short(a) * static_cast<signed char>(b) + short(a >> 16) * static_cast<signed char>(b >> 8);
}
__GPULEND_BOTH int __dp2a_hi(int a, int b, int sum) { return __dp2a_lo(a, b >> 16, sum); }
__GPULEND_BOTH unsigned int __dp2a_lo(unsigned int a, unsigned int b, unsigned int sum) {
    return sum + (a & 0xffff) * (b & 0xff) + (a >> 16) * (b >> 8 & 0xff);
}
__GPULEND_BOTH unsigned int __dp2a_hi(unsigned int a, unsigned int b, unsigned int sum) {
    return __dp2a_lo(a, b >> 16, sum);
}
