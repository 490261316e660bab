// What halves need where a C++ compiler that knows no CUDA reads their headers: the host's half of the prelude.
#pragma once
#include <cmath>
#include <cstring>
#include <limits>

#include "cuda_runtime.h"
#include "gpulend/standards.h"
#include "gpulend/host_side.h"

template <class To, class From> __GPULEND_METHOD To __gpulend_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "bits are neither lost nor made up");
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}
__GPULEND_BOTH unsigned int __float_as_uint(float x) { return __gpulend_bits<unsigned int>(x); }
__GPULEND_BOTH float __uint_as_float(unsigned int x) { return __gpulend_bits<float>(x); }
__GPULEND_BOTH long long __double_as_longlong(double x) { return __gpulend_bits<long long>(x); }
__GPULEND_BOTH double __longlong_as_double(long long x) { return __gpulend_bits<double>(x); }
__GPULEND_BOTH bool __gpulend_nan(float x) { return std::isnan(x); }
__GPULEND_BOTH bool __gpulend_inf(float x) { return std::isinf(x); }
__GPULEND_BOTH bool __gpulend_finite(float x) { return std::isfinite(x); }
__GPULEND_BOTH float rsqrtf(float x) { return 1 / std::sqrt(x); }
