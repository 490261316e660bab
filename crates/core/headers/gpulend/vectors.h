// Vector types with CUDA's sizes and alignments, and dim3.
#pragma once

#define __GPULEND_VECTORS(type, name, align2, align4)                                                                  \
    struct name##1 { type x; };                                                                                        \
    struct __attribute__((aligned(align2))) name##2 { type x, y; };                                                    \
    struct name##3 { type x, y, z; };                                                                                  \
    struct __attribute__((aligned(align4))) name##4 { type x, y, z, w; };                                              \
    __GPULEND_BOTH name##1 make_##name##1(type x) { return {x}; }                                                      \
    __GPULEND_BOTH name##2 make_##name##2(type x, type y) { return {x, y}; }                                           \
    __GPULEND_BOTH name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }                                \
    __GPULEND_BOTH name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }

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

struct dim3 {
    unsigned int x, y, z;
    __GPULEND_METHOD constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
    __GPULEND_METHOD constexpr dim3(uint3 from) : x(from.x), y(from.y), z(from.z) {}
    __GPULEND_METHOD constexpr operator uint3() const { return {x, y, z}; }
};
