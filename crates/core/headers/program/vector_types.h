// CUDA's vector types and dim3, for C and for C++ on both sides.
#pragma once

#ifdef __CUDA__
#include "gpulend/keywords.h"
#elif defined(__cplusplus)
#define __GPULEND_BOTH static inline
#define __GPULEND_METHOD inline
#endif

#ifdef __cplusplus
#include "gpulend/vectors.h"
#else
#define __GPULEND_VECTORS(type, name, align2, align4)                                                                  \
    typedef struct name##1 { type x; } name##1;                                                                        \
    typedef struct __attribute__((aligned(align2))) name##2 { type x, y; } name##2;                                    \
    typedef struct name##3 { type x, y, z; } name##3;                                                                  \
    typedef struct __attribute__((aligned(align4))) name##4 { type x, y, z, w; } name##4;
__GPULEND_VECTORS(signed char, char, 2, 4)
__GPULEND_VECTORS(unsigned char, uchar, 2, 4)
__GPULEND_VECTORS(short, short, 4, 8)
__GPULEND_VECTORS(unsigned short, ushort, 4, 8)
__GPULEND_VECTORS(int, int, 8, 16)
__GPULEND_VECTORS(unsigned int, uint, 8, 16)
__GPULEND_VECTORS(long, long, 16, 16)
__GPULEND_VECTORS(unsigned long, ulong, 16, 16)
__GPULEND_VECTORS(long long, longlong, 16, 16)
__GPULEND_VECTORS(unsigned long long, ulonglong, 16, 16)
__GPULEND_VECTORS(float, float, 8, 16)
__GPULEND_VECTORS(double, double, 16, 16)
#undef __GPULEND_VECTORS
typedef struct dim3 { unsigned int x, y, z; } dim3;
#endif
