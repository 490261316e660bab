// <cuda_runtime.h> of a whole program: CUDA C++ for both sides, and the runtime's functions. `gpulend build` includes it first,
// as nvcc does.
#pragma once
// Programs ask by this name whether the runtime's functions are there.
#define __CUDA_RUNTIME_H__

#if defined(__CUDA__) && !defined(__GPULEND_PROGRAM)
#define __GPULEND_PROGRAM 1
#ifdef __CUDA_ARCH__
// It gives bodies to functions that have others on a device.
#undef _FORTIFY_SOURCE
#endif
// nvcc only warns of this old word. In force to the source's end.
#pragma clang diagnostic ignored "-Wregister"
// The C library's functions are for both sides. What a device lacks of them is an error where a kernel calls it. Only the C
// headers: the C++ library declares some of its own functions twice. Its headers of these names wait until the C ones are read.
#define _GLIBCXX_INCLUDE_NEXT_C_HEADERS
#pragma clang force_cuda_host_device begin
#include <assert.h>
#include <ctype.h>
#include <float.h>
#include <limits.h>
#include <malloc.h>
#include <math.h>
#include <memory.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// On x86 it declares a function of <stdlib.h> again.
#if __has_include(<mm_malloc.h>)
#include <mm_malloc.h>
#endif
#pragma clang force_cuda_host_device end
#undef _GLIBCXX_INCLUDE_NEXT_C_HEADERS
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <type_traits>
#include <utility>

#include <math.h>
#include <stdlib.h>
#include <time.h>
// CUDA's fast approximations. The system's <math.h> has functions of its own by these names.
#define __cosf __gpulend_fast_cosf
#define __exp10f __gpulend_fast_exp10f
#define __expf __gpulend_fast_expf
#define __log10f __gpulend_fast_log10f
#define __log2f __gpulend_fast_log2f
#define __logf __gpulend_fast_logf
#define __powf __gpulend_fast_powf
#define __sincosf __gpulend_fast_sincosf
#define __sinf __gpulend_fast_sinf
#define __tanf __gpulend_fast_tanf
#define __tanhf __gpulend_fast_tanhf
#include "gpulend/standards.h"
#include "gpulend/host_side.h"
#include "gpulend/prelude.h"
#include "gpulend/older.h"
#elif !defined(__CUDA__)
#define __host__
#define __device__
#define __global__
#define __shared__
#define __constant__
#define __managed__
#define __forceinline__ inline
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)
#endif

#include "cuda_runtime_api.h"
#ifdef __CUDA__
// NVIDIA's libcu++ finds CUDA's version there when clang compiles.
#include "cuda.h"
#endif
#ifdef __cplusplus
#include "gpulend/runtime_templates.h"
#endif
#ifdef __CUDA__
#include "gpulend/textures.h"
#endif
