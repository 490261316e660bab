/* A pybind11 module that takes a lease of Python's and returns one: see CMakeLists.txt. */
#include <gpulend.hpp>
#include <pybind11/pybind11.h>

namespace py = pybind11;

namespace {

const char SOURCE[] = "extern \"C\" __global__ void scale(const float *x, float by, float *y, int n) {\n"
                      "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                      "    if (i < n) y[i] = by * x[i];\n"
                      "}\n";

/* Python's own gpulend is the one that we are linked with, so its leases are ours. */
gpulend::Lease take(const py::object &lease) {
    auto handle = py::module_::import("gpulend.ctypes_api").attr("handle")(lease);
    return gpulend::Lease(handle.cast<std::uint64_t>());
}

py::object give(gpulend::Lease lease) {
    auto given = py::module_::import("gpulend.ctypes_api").attr("lease")(lease.get());
    return (void)lease.detach(), given;
}

py::object scaled(const py::object &lease, double by) {
    auto x = take(lease);
    auto y = gpulend::Lease::allocate(x.shape(), GPULEND_FLOAT32);
    auto count = y.info().bytes / sizeof(float);
    gpulend::Module::compile(SOURCE).kernel("scale").forall(count, x, by, y, std::int64_t(count));
    return give(std::move(y));
}

}  // namespace

PYBIND11_MODULE(pybind11_scale, module) { module.def("scaled", &scaled, py::arg("lease"), py::arg("by")); }
