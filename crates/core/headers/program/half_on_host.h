// Conversions of halves on the host, whose processor may have no instructions for them.
#pragma once

enum __gpulend_rounding { __gpulend_nearest, __gpulend_to_zero, __gpulend_down, __gpulend_up };

static inline unsigned short __gpulend_half_bits(double value, __gpulend_rounding how) {
    unsigned int sign = std::signbit(value) ? 0x8000 : 0;
    if (std::isnan(value)) return 0x7fff;
    if (std::isinf(value)) return static_cast<unsigned short>(sign | 0x7c00);
    if (value == 0) return static_cast<unsigned short>(sign);
    // Counted in steps of the last digit; below 2**-14 all steps are as large. Both divisions are exact.
    int exponent = std::ilogb(value) < -14 ? -14 : std::ilogb(value);
    if (exponent > 15) exponent = 16;
    double steps = std::ldexp(std::fabs(value), 10 - exponent), whole = std::floor(steps), rest = steps - whole;
    if (exponent > 15) whole = 1024, rest = 0.25;
    unsigned int count = static_cast<unsigned int>(whole);
    bool away = how == __gpulend_up ? !sign : how == __gpulend_down && sign != 0;
    if (how == __gpulend_nearest) away = rest > 0.5 || (rest == 0.5 && (count & 1) != 0);
    // A count that is one digit too long becomes the next exponent.
    unsigned int bits = count + (static_cast<unsigned int>(exponent + 14) << 10) + (away && rest > 0);
    if (bits >= 0x7c00) bits = how == __gpulend_nearest || away ? 0x7c00 : 0x7bff;
    return static_cast<unsigned short>(sign | bits);
}
__GPULEND_BOTH unsigned short __gpulend_half_rn(float x) { return __gpulend_half_bits(x, __gpulend_nearest); }
__GPULEND_BOTH unsigned short __gpulend_half_rz(float x) { return __gpulend_half_bits(x, __gpulend_to_zero); }
__GPULEND_BOTH unsigned short __gpulend_half_rd(float x) { return __gpulend_half_bits(x, __gpulend_down); }
__GPULEND_BOTH unsigned short __gpulend_half_ru(float x) { return __gpulend_half_bits(x, __gpulend_up); }
__GPULEND_BOTH unsigned short __gpulend_half_of_double(double x) { return __gpulend_half_bits(x, __gpulend_nearest); }
__GPULEND_BOTH float __gpulend_half_to_float(unsigned short bits) {
    unsigned int sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 31, digits = bits & 0x3ffu;
    if (exponent == 0) return std::copysign(std::ldexp(static_cast<float>(digits), -24), __uint_as_float(sign));
    exponent = exponent == 31 ? 255 : exponent + 112;
    return __uint_as_float(sign | exponent << 23 | digits << 13);
}
// A sum whose last bit is set if it is not exact, so that the rounding after it sees what was cut off.
static inline double __gpulend_odd_sum(double x, double y) {
    double sum = x + y, of_y = sum - x, error = (x - (sum - of_y)) + (y - of_y);
    long long bits = __double_as_longlong(sum);
    if (error == 0 || !std::isfinite(sum) || (bits & 1) != 0) return sum;
    return __longlong_as_double((error > 0) == (sum > 0) ? bits + 1 : bits - 1);
}
