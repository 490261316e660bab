/* A nanobind module that takes a lease of Python's and returns one: see CMakeLists.txt. */
#include <gpulend.hpp>
#include <nanobind/nanobind.h>

namespace nb = nanobind;

namespace {

const char SOURCE[] = "extern \"C\" __global__ void scale(const float *x, float by, float *y, int n) {\n"
                      "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                      "    if (i < n) y[i] = by * x[i];\n"
                      "}\n";

/* Python's own gpulend is the one that we are linked with, so its leases are ours. */
gpulend::Lease take(const nb::object &lease) {
    auto handle = nb::module_::import_("gpulend.ctypes_api").attr("handle")(lease);
    return gpulend::Lease(nb::cast<std::uint64_t>(handle));
}

nb::object give(gpulend::Lease lease) {
    auto given = nb::module_::import_("gpulend.ctypes_api").attr("lease")(lease.get());
    return (void)lease.detach(), given;
}

nb::object scaled(const nb::object &lease, double by) {
    auto x = take(lease);
    auto y = gpulend::Lease::allocate(x.shape(), GPULEND_FLOAT32);
    auto count = y.info().bytes / sizeof(float);
    gpulend::Module::compile(SOURCE).kernel("scale").forall(count, x, by, y, std::int64_t(count));
    return give(std::move(y));
}

}  // namespace

NB_MODULE(nanobind_scale, module) { module.def("scaled", &scaled, nb::arg("lease"), nb::arg("by")); }
