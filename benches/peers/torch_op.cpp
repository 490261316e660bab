// An operation of torch as people write it in C++: it checks, allocates, launches.
//
// `scale_autograd` is the same; benches/operations.py gives it a formula of autograd in Python.

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#ifdef BENCH_ON_GPU
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

extern "C" int bench_scale(const float *x, float *y, float by, int n, void *stream);

static at::Tensor scale(const at::Tensor &x, double by) {
    TORCH_CHECK(x.scalar_type() == at::kFloat, "x is no float32");
    TORCH_CHECK(x.is_contiguous(), "x is not contiguous");
#ifdef BENCH_ON_GPU
    const c10::cuda::CUDAGuard guard(x.device());
    void *stream = c10::cuda::getCurrentCUDAStream().stream();
#else
    void *stream = nullptr;
#endif
    at::Tensor y = at::empty_like(x);
    int error = bench_scale(x.const_data_ptr<float>(), y.mutable_data_ptr<float>(),
                            static_cast<float>(by), static_cast<int>(x.numel()), stream);
    TORCH_CHECK(error == 0, "the launch failed with ", error);
    return y;
}

TORCH_LIBRARY(bench_extension, library) {
    library.def("scale(Tensor x, float by) -> Tensor");
    library.def("scale_autograd(Tensor x, float by) -> Tensor");
}

#ifdef BENCH_ON_GPU
TORCH_LIBRARY_IMPL(bench_extension, CUDA, library) {
#else
TORCH_LIBRARY_IMPL(bench_extension, CPU, library) {
#endif
    library.impl("scale", &scale);
    library.impl("scale_autograd", &scale);
}
