/* gpulend for C++17: handles that free themselves, and statuses that throw. One header over gpulend.h.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef GPULEND_HPP
#define GPULEND_HPP

#include "gpulend.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace gpulend {

/* The failure of a call: the message, and the status, which never changes its meaning. */
class Error : public std::runtime_error {
public:
    explicit Error(gpulend_status status) : std::runtime_error(gpulend_last_error()), code(status) {}
    const gpulend_status code;
};

inline void check(gpulend_status status) {
    if (status != GPULEND_OK) throw Error(status);
}

/* A handle that frees itself. It can be moved, not copied. */
template <gpulend_status (*Free)(std::uint64_t)>
class Handle {
public:
    Handle() = default;
    explicit Handle(std::uint64_t handle) : handle_(handle) {}
    Handle(Handle &&other) noexcept : handle_(other.detach()) {}
    Handle &operator=(Handle &&other) noexcept {
        if (this != &other) reset(other.detach());
        return *this;
    }
    Handle(const Handle &) = delete;
    Handle &operator=(const Handle &) = delete;
    ~Handle() { reset(); }

    std::uint64_t get() const noexcept { return handle_; }
    explicit operator bool() const noexcept { return handle_ != 0; }
    /* Gives up the handle: the caller must free it. */
    std::uint64_t detach() noexcept { return std::exchange(handle_, 0); }
    void reset(std::uint64_t handle = 0) noexcept {
        if (handle_ != 0) (void)Free(handle_);
        handle_ = handle;
    }

private:
    std::uint64_t handle_ = 0;
};

using Shape = std::vector<std::int64_t>;
using Event = Handle<gpulend_event_free>;

/* A stream; a default-constructed one is the calling thread's current stream. */
class Stream : public Handle<gpulend_stream_free> {
public:
    using Handle::Handle;
    static Stream create(std::int32_t device = 0, std::uint32_t flags = 0) {
        std::uint64_t made;
        return check(gpulend_stream_create(device, flags, &made)), Stream(made);
    }
    static Stream wrap(std::int32_t device, const void *stream) {
        std::uint64_t made;
        auto number = reinterpret_cast<std::uintptr_t>(stream);
        return check(gpulend_stream_wrap(device, number, &made)), Stream(made);
    }
    void synchronize() const { check(gpulend_stream_synchronize(get())); }
    void wait(const Event &event) const { check(gpulend_stream_wait(get(), event.get())); }
    Event record() const {
        std::uint64_t made;
        return check(gpulend_event_record(get(), &made)), Event(made);
    }
};

class Lease : public Handle<gpulend_free> {
public:
    using Handle::Handle;
    using Free = std::function<void(std::uint64_t address, std::uint64_t bytes)>;

    static Lease allocate(const Shape &shape, gpulend_dtype dtype, std::int32_t device = 0,
                          const Stream &stream = Stream()) {
        std::uint64_t made;
        check(gpulend_allocate(device, dtype, int(shape.size()), shape.data(), stream.get(), &made));
        return Lease(made);
    }
    static Lease zeros(const Shape &shape, gpulend_dtype dtype, std::int32_t device = 0,
                       const Stream &stream = Stream()) {
        std::uint64_t made;
        check(gpulend_zeros(device, dtype, int(shape.size()), shape.data(), stream.get(), &made));
        return Lease(made);
    }
    /* Memory at an address; `free` is called once when it is no longer needed, on any thread, and
     * must not throw. */
    static Lease wrap(const void *address, const Shape &shape, gpulend_dtype dtype, Free free,
                      std::int32_t device = GPULEND_ANY_DEVICE, std::uint32_t flags = 0,
                      std::uint64_t ready_on = 0) {
        gpulend_claim claim{};
        claim.size = sizeof claim;
        claim.address = reinterpret_cast<std::uintptr_t>(address);
        claim.shape = shape.data();
        claim.ndim = int(shape.size());
        claim.device = device;
        claim.dtype = dtype;
        claim.flags = flags | (free ? 0u : GPULEND_UNOWNED);
        claim.ready_on = ready_on;
        auto context = free ? std::make_unique<Free>(std::move(free)) : nullptr;
        std::uint64_t made;
        check(gpulend_wrap(&claim, context ? &call : nullptr, context.get(), &made));
        return (void)context.release(), Lease(made);
    }

    gpulend_lease_info info() const {
        gpulend_lease_info info{};
        info.size = sizeof info;
        return check(gpulend_info(get(), &info)), info;
    }
    Shape shape() const {
        Shape shape(std::size_t(info().ndim));
        return check(gpulend_shape(get(), int(shape.size()), shape.data(), nullptr)), shape;
    }
    Lease slice(std::int32_t axis, std::int64_t start, std::int64_t stop, std::int64_t step = 1) const {
        std::uint64_t made;
        return check(gpulend_slice(get(), axis, start, stop, step, &made)), Lease(made);
    }
    Lease reshape(const Shape &shape) const {
        std::uint64_t made;
        return check(gpulend_reshape(get(), int(shape.size()), shape.data(), &made)), Lease(made);
    }
    /* The address, for work that is queued on a stream. */
    template <class T> T *pointer(const Stream &stream = Stream()) const {
        std::uint64_t address;
        check(gpulend_pointer(get(), stream.get(), &address));
        return reinterpret_cast<T *>(std::uintptr_t(address));
    }
    void used_on(const Stream &stream) const { check(gpulend_used_on(get(), stream.get())); }
    void copy_from(const void *data, std::uint64_t bytes, const Stream &stream = Stream()) const {
        check(gpulend_copy_from_host(get(), data, bytes, stream.get()));
    }
    void copy_to(void *data, std::uint64_t bytes, const Stream &stream = Stream()) const {
        check(gpulend_copy_to_host(get(), data, bytes, stream.get()));
    }
    /* Ends the lease now, or throws and names its holders. */
    void release() { check(gpulend_release(get())), (void)detach(); }

private:
    static void call(void *context, std::uint64_t address, std::uint64_t bytes) noexcept {
        std::unique_ptr<Free> free(static_cast<Free *>(context));
        (*free)(address, bytes);
    }
};

/* The number of blocks, or of threads in a block, along each axis. */
struct Extent {
    std::uint32_t x, y = 1, z = 1;
};

inline gpulend_argument argument(const Lease &lease) { return gpulend_lease_argument(lease.get()); }
inline gpulend_argument argument(std::nullptr_t) { return gpulend_null_argument(); }
/* A number of any type, or a struct by value, which the launch reads. */
template <class T> gpulend_argument argument(const T &value) {
    if constexpr (std::is_floating_point_v<T>) return gpulend_double_argument(value);
    else if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) return gpulend_int_argument(value);
    else if constexpr (std::is_integral_v<T>) return gpulend_uint_argument(value);
    else {
        static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>, "wrap pointers as leases");
        return gpulend_bytes_argument(&value, sizeof value);
    }
}

class Kernel : public Handle<gpulend_kernel_free> {
public:
    using Handle::Handle;
    template <class... T> void launch(Extent grid, Extent block, const T &...values) const {
        launch_on(Stream(), grid, block, 0, values...);
    }
    template <class... T>
    void launch_on(const Stream &stream, Extent grid, Extent block, std::uint32_t shared,
                   const T &...values) const {
        const gpulend_argument list[] = {argument(values)..., gpulend_null_argument()};
        gpulend_launch_shape shape{sizeof shape, {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, shared, 0,
                                   stream.get()};
        check(gpulend_launch(get(), &shape, list, sizeof...(values)));
    }
    /* A thread for each element, in blocks that fill the GPU best. */
    template <class... T> void forall(std::uint64_t elements, const T &...values) const {
        const gpulend_argument list[] = {argument(values)..., gpulend_null_argument()};
        check(gpulend_forall(get(), elements, list, sizeof...(values), 0));
    }
};

class Module : public Handle<gpulend_module_free> {
public:
    using Handle::Handle;
    /* From CUDA C++, PTX, a cubin or a fatbin. */
    static Module compile(const std::string &text, std::int32_t device = 0,
                          const std::vector<const char *> &names = {}) {
        gpulend_source source{};
        source.size = sizeof source;
        source.text = text.data();
        source.bytes = text.size();
        source.names = names.data();
        source.name_count = std::uint32_t(names.size());
        source.device = device;
        std::uint64_t made;
        return check(gpulend_compile(&source, &made)), Module(made);
    }
    Kernel kernel(const char *name) const {
        std::uint64_t made;
        return check(gpulend_kernel_get(get(), name, &made)), Kernel(made);
    }
    Lease variable(const char *name) const {
        std::uint64_t made;
        return check(gpulend_module_variable(get(), name, &made)), Lease(made);
    }
};

}  // namespace gpulend

#endif
