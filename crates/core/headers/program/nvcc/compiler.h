// NVIDIA's libcu++ would take clang for nvcc by this macro.
#pragma once
#pragma push_macro("__NVCC__")
#undef __NVCC__
#include_next <cuda/std/__cccl/compiler.h>
#pragma pop_macro("__NVCC__")
