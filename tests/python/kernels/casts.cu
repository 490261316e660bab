// Bits read as another type, and conversions with a rounding.
#define FROM_REAL(name) name##_rn(x) + name##_rz(x) + name##_rd(x) + name##_ru(x)
extern "C" __global__ void from_float(float *f, double *d, int *i, long long *l) {
    float x = f[0];
    i[0] = __float_as_int(x) + __float_as_uint(x) + FROM_REAL(__float2int) + FROM_REAL(__float2uint);
    l[0] = FROM_REAL(__float2ll) + FROM_REAL(__float2ull);
    f[1] = __int_as_float(i[1]) + __uint_as_float(i[2]);
}
extern "C" __global__ void from_double(float *f, double *d, int *i, long long *l) {
    double x = d[0];
    i[0] = FROM_REAL(__double2int) + FROM_REAL(__double2uint) + __double2hiint(x) + __double2loint(x);
    l[0] = FROM_REAL(__double2ll) + FROM_REAL(__double2ull) + __double_as_longlong(x);
    f[1] = FROM_REAL(__double2float);
    d[1] = __longlong_as_double(l[1]) + __hiloint2double(i[1], i[2]);
}
extern "C" __global__ void from_integer(float *f, double *d, int *i, unsigned *u, long long *l, unsigned long long *m) {
    { int x = i[0]; f[0] = FROM_REAL(__int2float); d[0] = __int2double_rn(x); }
    { unsigned x = u[0]; f[1] = FROM_REAL(__uint2float); d[1] = __uint2double_rn(x); }
    { long long x = l[0]; f[2] = FROM_REAL(__ll2float); d[2] = FROM_REAL(__ll2double); }
    { unsigned long long x = m[0]; f[3] = FROM_REAL(__ull2float); d[3] = FROM_REAL(__ull2double); }
}
