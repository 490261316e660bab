// Keywords of CUDA C++, and how the functions of these headers are declared.
#pragma once

#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __managed__ __attribute__((managed))
#define __forceinline__ __inline__ __attribute__((always_inline))
// A macro of this name would break the spelling __attribute__((__noinline__)), which compilers also know as
// a keyword of its own.
#if !__has_attribute(__noinline__) || __clang_major__ < 15
#define __noinline__ __attribute__((noinline))
#endif
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __builtin_align__(bytes) __attribute__((aligned(bytes)))
#define __grid_constant__
#define __cluster_dims__(...)
#define __maxnreg__(count)

#define __CUDACC__ 1
#define __CUDACC_VER_MAJOR__ 12
#define __CUDACC_VER_MINOR__ 0
#define __CUDACC_VER_BUILD__ 0

// Without debug information of their own: a fault inside is told with the line that called.
#define __GPULEND_DEVICE static __inline__ __attribute__((device, always_inline, nodebug, unused))
#define __GPULEND_BOTH static __inline__ __attribute__((host, device, always_inline, nodebug, unused))
#define __GPULEND_METHOD __inline__ __attribute__((host, device, always_inline, nodebug))
#define __GPULEND_DEVICE_METHOD __inline__ __attribute__((device, always_inline, nodebug))

// Kernels are compiled for the device alone, without the system's headers: these headers have the C library. A whole program
// (program/cuda_runtime.h) has the system's headers, where each C function is for both sides, and is compiled for the host too.
#ifdef __GPULEND_PROGRAM
// PTX inside: the host has no such instructions.
#define __GPULEND_PTX __GPULEND_DEVICE
// The body that a function of the C library has on a device. The host keeps its own.
#define __GPULEND_LIBC __inline__ __attribute__((host, device, always_inline, nodebug, unused))
#else
#define __GPULEND_PTX __GPULEND_BOTH
#define __GPULEND_LIBC __GPULEND_BOTH
#ifndef NULL
#define NULL __null
#endif
#ifndef offsetof
#define offsetof(type, member) __builtin_offsetof(type, member)
#endif
#endif
