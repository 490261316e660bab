// A handler of XLA's as people write it in C++, for jax.ffi.

#include <cstddef>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

extern "C" int bench_scale(const float *x, float *y, float by, int n, void *stream);

static ffi::Error launched(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y, float by,
                           void *stream) {
    int n = static_cast<int>(x.element_count());
    if (y->element_count() != static_cast<std::size_t>(n))
        return ffi::Error::InvalidArgument("x and y differ in size");
    if (bench_scale(x.typed_data(), y->typed_data(), by, n, stream) != 0)
        return ffi::Error::Internal("the launch failed");
    return ffi::Error::Success();
}

#ifdef BENCH_ON_GPU

static ffi::Error scale(void *stream, ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y,
                        float by) {
    return launched(x, y, by, stream);
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(BenchScale, scale,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<void *>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Attr<float>("by"));

#else

static ffi::Error scale(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y, float by) {
    return launched(x, y, by, nullptr);
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(BenchScale, scale,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Attr<float>("by"));

#endif
