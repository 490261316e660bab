// <cuda.h>: the version only; a kernel calls no driver.
#pragma once
#define CUDA_VERSION 12000
#define CUDART_VERSION 12000
