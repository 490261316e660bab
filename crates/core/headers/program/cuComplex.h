// Complex numbers as CUDA's C functions have them.
#pragma once
#include "vector_types.h"
#include <math.h>

#ifdef __CUDA__
#define __GPULEND_COMPLEX static __inline__ __attribute__((host, device, always_inline, unused))
#else
#define __GPULEND_COMPLEX static inline
#endif

typedef float2 cuFloatComplex;
typedef double2 cuDoubleComplex;
typedef cuFloatComplex cuComplex;

// Division scales by the larger part of the divisor, so that squares do not overflow.
#define __GPULEND_COMPLEX_TYPE(type, real, suffix, make, absolute, root)                                               \
    __GPULEND_COMPLEX type make(real x, real y) {                                                                      \
        type made;                                                                                                     \
        made.x = x;                                                                                                    \
        made.y = y;                                                                                                    \
        return made;                                                                                                   \
    }                                                                                                                  \
    __GPULEND_COMPLEX real cuCreal##suffix(type z) { return z.x; }                                                     \
    __GPULEND_COMPLEX real cuCimag##suffix(type z) { return z.y; }                                                     \
    __GPULEND_COMPLEX type cuConj##suffix(type z) { return make(z.x, -z.y); }                                          \
    __GPULEND_COMPLEX type cuCadd##suffix(type a, type b) { return make(a.x + b.x, a.y + b.y); }                       \
    __GPULEND_COMPLEX type cuCsub##suffix(type a, type b) { return make(a.x - b.x, a.y - b.y); }                       \
    __GPULEND_COMPLEX type cuCmul##suffix(type a, type b) {                                                            \
        return make(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);                                                     \
    }                                                                                                                  \
    __GPULEND_COMPLEX type cuCdiv##suffix(type a, type b) {                                                            \
        real scale = 1 / (absolute(b.x) + absolute(b.y));                                                              \
        real ax = a.x * scale, ay = a.y * scale, bx = b.x * scale, by = b.y * scale;                                   \
        real inverse = 1 / (bx * bx + by * by);                                                                        \
        return make((ax * bx + ay * by) * inverse, (ay * bx - ax * by) * inverse);                                     \
    }                                                                                                                  \
    __GPULEND_COMPLEX real cuCabs##suffix(type z) {                                                                    \
        real a = absolute(z.x), b = absolute(z.y);                                                                     \
        real large = a < b ? b : a, small = a < b ? a : b;                                                             \
        if (large == 0 || large - large != 0) return a + b;                                                            \
        real ratio = small / large;                                                                                    \
        return large * root(1 + ratio * ratio);                                                                        \
    }                                                                                                                  \
    __GPULEND_COMPLEX type cuCfma##suffix(type a, type b, type c) {                                                    \
        return make(a.x * b.x - a.y * b.y + c.x, a.x * b.y + a.y * b.x + c.y);                                         \
    }
__GPULEND_COMPLEX_TYPE(cuFloatComplex, float, f, make_cuFloatComplex, fabsf, sqrtf)
__GPULEND_COMPLEX_TYPE(cuDoubleComplex, double, , make_cuDoubleComplex, fabs, sqrt)
#undef __GPULEND_COMPLEX_TYPE
__GPULEND_COMPLEX cuComplex make_cuComplex(float x, float y) { return make_cuFloatComplex(x, y); }
__GPULEND_COMPLEX cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex z) { return make_cuDoubleComplex(z.x, z.y); }
__GPULEND_COMPLEX cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex z) {
    return make_cuFloatComplex((float)z.x, (float)z.y);
}
