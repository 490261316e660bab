// Bits read as another type, and conversions with a rounding of their own.
#pragma once

template <class To, class From> __GPULEND_METHOD To __gpulend_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "bits are neither lost nor made up");
    To to;
    __builtin_memcpy(&to, &from, sizeof to);
    return to;
}
__GPULEND_BOTH int __float_as_int(float x) { return __gpulend_bits<int>(x); }
__GPULEND_BOTH unsigned int __float_as_uint(float x) { return __gpulend_bits<unsigned int>(x); }
__GPULEND_BOTH float __int_as_float(int x) { return __gpulend_bits<float>(x); }
__GPULEND_BOTH float __uint_as_float(unsigned int x) { return __gpulend_bits<float>(x); }
__GPULEND_BOTH long long __double_as_longlong(double x) { return __gpulend_bits<long long>(x); }
__GPULEND_BOTH double __longlong_as_double(long long x) { return __gpulend_bits<double>(x); }
__GPULEND_BOTH int __double2hiint(double x) { return static_cast<int>(__double_as_longlong(x) >> 32); }
__GPULEND_BOTH int __double2loint(double x) { return static_cast<int>(__double_as_longlong(x)); }
__GPULEND_BOTH double __hiloint2double(int high, int low) {
    return __longlong_as_double(static_cast<long long>(high) << 32 | static_cast<unsigned int>(low));
}

#define __GPULEND_CONVERT(name, from, to, op, out, in)                                                                 \
    __GPULEND_PTX to name(from x) {                                                                                    \
        to result;                                                                                                     \
        asm("cvt." op " %0, %1;" : out(result) : in(x));                                                               \
        return result;                                                                                                 \
    }
// To an integer: the roundings end in i.
#define __GPULEND_TO_INTEGER(name, from, to, types, out, in)                                                           \
    __GPULEND_CONVERT(name##_rn, from, to, "rni." types, out, in)                                                      \
    __GPULEND_CONVERT(name##_rz, from, to, "rzi." types, out, in)                                                      \
    __GPULEND_CONVERT(name##_rd, from, to, "rmi." types, out, in)                                                      \
    __GPULEND_CONVERT(name##_ru, from, to, "rpi." types, out, in)
#define __GPULEND_TO_REAL(name, from, to, types, out, in)                                                              \
    __GPULEND_CONVERT(name##_rn, from, to, "rn." types, out, in)                                                       \
    __GPULEND_CONVERT(name##_rz, from, to, "rz." types, out, in)                                                       \
    __GPULEND_CONVERT(name##_rd, from, to, "rm." types, out, in)                                                       \
    __GPULEND_CONVERT(name##_ru, from, to, "rp." types, out, in)
__GPULEND_TO_INTEGER(__float2int, float, int, "s32.f32", "=r", "f")
__GPULEND_TO_INTEGER(__float2uint, float, unsigned int, "u32.f32", "=r", "f")
__GPULEND_TO_INTEGER(__float2ll, float, long long, "s64.f32", "=l", "f")
__GPULEND_TO_INTEGER(__float2ull, float, unsigned long long, "u64.f32", "=l", "f")
__GPULEND_TO_INTEGER(__double2int, double, int, "s32.f64", "=r", "d")
__GPULEND_TO_INTEGER(__double2uint, double, unsigned int, "u32.f64", "=r", "d")
__GPULEND_TO_INTEGER(__double2ll, double, long long, "s64.f64", "=l", "d")
__GPULEND_TO_INTEGER(__double2ull, double, unsigned long long, "u64.f64", "=l", "d")
__GPULEND_TO_REAL(__double2float, double, float, "f32.f64", "=f", "d")
__GPULEND_TO_REAL(__int2float, int, float, "f32.s32", "=f", "r")
__GPULEND_TO_REAL(__uint2float, unsigned int, float, "f32.u32", "=f", "r")
__GPULEND_TO_REAL(__ll2float, long long, float, "f32.s64", "=f", "l")
__GPULEND_TO_REAL(__ull2float, unsigned long long, float, "f32.u64", "=f", "l")
__GPULEND_TO_REAL(__ll2double, long long, double, "f64.s64", "=d", "l")
__GPULEND_TO_REAL(__ull2double, unsigned long long, double, "f64.u64", "=d", "l")
// Every 32-bit integer is a double: nothing is rounded.
__GPULEND_BOTH double __int2double_rn(int x) { return x; }
__GPULEND_BOTH double __uint2double_rn(unsigned int x) { return x; }
#undef __GPULEND_TO_REAL
#undef __GPULEND_TO_INTEGER
#undef __GPULEND_CONVERT
