/* A C++ library inside Python: one function does all on arrays of the host, the others hand GPU memory out.
 *
 * c++ -std=c++17 -shared -fPIC wrapper.cpp $(python -m gpulend.config --cflags --libs) -o wrapper.so
 */
#include <gpulend.hpp>

namespace {

const char SOURCE[] = "extern \"C\" __global__ void vectorAdd(const float *a, const float *b, float *c, int n) {\n"
                      "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                      "    if (i < n) c[i] = a[i] + b[i];\n"
                      "}\n";

gpulend::Lease add(const float *a, const float *b, std::int64_t n) {
    auto bytes = std::uint64_t(n) * sizeof(float);
    auto a_d = gpulend::Lease::allocate({n}, GPULEND_FLOAT32), b_d = gpulend::Lease::allocate({n}, GPULEND_FLOAT32);
    auto c_d = gpulend::Lease::allocate({n}, GPULEND_FLOAT32);
    a_d.copy_from(a, bytes);
    b_d.copy_from(b, bytes);
    gpulend::Module::compile(SOURCE).kernel("vectorAdd").forall(std::uint64_t(n), a_d, b_d, c_d, n);
    return c_d;
}

template <class Work> int status_of(Work work) {
    try {
        work();
        return GPULEND_OK;
    } catch (const gpulend::Error &error) {
        return error.code;
    }
}

}  // namespace

/* Adds arrays of the host. 0, or why it failed: gpulend_last_error() has the words. */
extern "C" int vectorAddWrapper(const float *a, const float *b, float *c, int n) {
    return status_of([&] { add(a, b, n).copy_to(c, std::uint64_t(n) * sizeof(float)); });
}

/* The same, and the sums stay on the GPU: whoever gets the lease frees it. */
extern "C" int vectorAddLease(const float *a, const float *b, int n, gpulend_lease *sums) {
    return status_of([&] { *sums = add(a, b, n).detach(); });
}
