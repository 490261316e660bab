// <cuda.h> for NVRTC: the version only; a kernel calls no driver.
#pragma once
#define CUDA_VERSION (__CUDACC_VER_MAJOR__ * 1000 + __CUDACC_VER_MINOR__ * 10)
