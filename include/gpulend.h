/* gpulend: share GPU memory between libraries without copies, stream-ordered, with validated pointers.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Made from crates/capi by cbindgen: change it there.
 *
 * Every function except the first three returns a status: 0, or the reason of the failure;
 * gpulend_last_error() then returns the message. Results are written through pointers, which must not be
 * NULL unless a function allows it. Leases, streams, kernels and so on are numbers; one that was freed, is of
 * another kind or never existed is refused. All functions may be called from any thread at any time.
 *
 * A process has one ledger. Inside Python use the functions of the extension module (python -m
 * gpulend.config --library), elsewhere libgpulend.so or libgpulend.a. Of two copies in one process the
 * first that is used works; every call of the other fails with 274 and names both.
 *
 * Structs begin with their size, which the caller sets, so that they can grow at their end. Functions
 * are only ever added.
 */


#ifndef GPULEND_H
#define GPULEND_H

#include <stdint.h>
#include <string.h>

/* Structs of DLPack's dlpack.h, which need not be included. */
struct DLManagedTensor;
struct DLManagedTensorVersioned;

/* Element types: DLPack's codes. */
#define GPULEND_DTYPE(code, bits) ((uint32_t)(code) | (uint32_t)(bits) << 8 | (uint32_t)1 << 16)
#define GPULEND_DTYPE_CODE(dtype) ((uint8_t)(dtype))
#define GPULEND_DTYPE_BITS(dtype) ((uint8_t)((dtype) >> 8))
#define GPULEND_DTYPE_LANES(dtype) ((uint16_t)((dtype) >> 16))
#define GPULEND_INT8 GPULEND_DTYPE(0, 8)
#define GPULEND_INT16 GPULEND_DTYPE(0, 16)
#define GPULEND_INT32 GPULEND_DTYPE(0, 32)
#define GPULEND_INT64 GPULEND_DTYPE(0, 64)
#define GPULEND_UINT8 GPULEND_DTYPE(1, 8)
#define GPULEND_UINT16 GPULEND_DTYPE(1, 16)
#define GPULEND_UINT32 GPULEND_DTYPE(1, 32)
#define GPULEND_UINT64 GPULEND_DTYPE(1, 64)
#define GPULEND_FLOAT16 GPULEND_DTYPE(2, 16)
#define GPULEND_FLOAT32 GPULEND_DTYPE(2, 32)
#define GPULEND_FLOAT64 GPULEND_DTYPE(2, 64)
#define GPULEND_BFLOAT16 GPULEND_DTYPE(4, 16)
#define GPULEND_COMPLEX64 GPULEND_DTYPE(5, 64)
#define GPULEND_COMPLEX128 GPULEND_DTYPE(5, 128)
#define GPULEND_BOOL GPULEND_DTYPE(6, 8)


// The version of this interface, as gpulend_abi_version() returns it: the major number grows when
// programs must be recompiled, the minor one when something is added.
#define GPULEND_ABI_MAJOR 0

// See GPULEND_ABI_MAJOR.
#define GPULEND_ABI_MINOR 3

// The host, as a device number. GPUs are 0, 1 and so on.
#define GPULEND_HOST -1

// Any device. gpulend_wrap() asks the driver; allocations use the device of the thread's current
// stream.
#define GPULEND_ANY_DEVICE -2

// The most axes of an array.
#define GPULEND_MOST_AXES 64

// The most bytes of a ticket.
#define GPULEND_TICKET_BYTES 1128

// In claims and information: the memory must not be written.
#define GPULEND_READONLY 1

// In claims: the memory has no deleter and outlives the lease.
#define GPULEND_UNOWNED 2

// In claims: do not check that the memory exists. In launches: do not compare arrays with the
// types of the parameters.
#define GPULEND_UNCHECKED 4

// In claims: the bytes are valid now; wait for no stream.
#define GPULEND_READY 8

// In information: the GPU is the simulated one.
#define GPULEND_SIMULATED 16

// In information: each element of less than a byte fills a byte of its own.
#define GPULEND_PADDED 32

// In information: the elements are row-major without gaps.
#define GPULEND_COMPACT 64

// In information: the host can read the bytes.
#define GPULEND_HOST_VISIBLE 128

// For a new stream: it and the legacy default stream wait for each other.
#define GPULEND_BLOCKING 256

// For DLPack: export a simulated GPU's memory as CUDA memory, for clients of the simulated driver;
// otherwise it is exported as host memory.
#define GPULEND_AS_CUDA 512

// In launches: arrays need not be row-major without gaps.
#define GPULEND_STRIDED 1024

// Compiler: for a real GPU NVRTC if it can be loaded, otherwise clang; for the simulated GPU clang.
#define GPULEND_COMPILER_ANY 0

// NVIDIA's NVRTC.
#define GPULEND_COMPILER_NVRTC 1

// clang, with gpulend's own headers.
#define GPULEND_COMPILER_CLANG 2

// Argument kinds: a NULL pointer.
#define GPULEND_ARGUMENT_NULL 0

// A lease, for a pointer: `value` is its handle.
#define GPULEND_ARGUMENT_LEASE 1

// A signed integer: `value` is its bits, as an int64_t.
#define GPULEND_ARGUMENT_INT 2

// An unsigned integer.
#define GPULEND_ARGUMENT_UINT 3

// A floating-point number: `value` is the bits of a double, for a parameter of any width.
#define GPULEND_ARGUMENT_DOUBLE 4

// A struct by value, or any other type: `value` is the address of its `bytes` bytes.
#define GPULEND_ARGUMENT_BYTES 5

// Kinds of memory: host memory.
#define GPULEND_MEMORY_HOST 0

// Host memory, pinned by a GPU driver.
#define GPULEND_MEMORY_PINNED 1

// Managed memory, which moves between host and device.
#define GPULEND_MEMORY_MANAGED 2

// Device memory.
#define GPULEND_MEMORY_DEVICE 3

// What is known about an address: a mapping of the host, which may contain several allocations.
#define GPULEND_KNOWN_HOST 0

// Exactly one allocation.
#define GPULEND_KNOWN_ALLOCATION 1

// A block of one of the driver's own pools.
#define GPULEND_KNOWN_POOL_BLOCK 2

// A range of reserved addresses, of which parts may be mapped.
#define GPULEND_KNOWN_RESERVATION 3

// How memory can be shared with another process: by CUDA's older handles.
#define GPULEND_SHARE_HANDLE 1

// As a file descriptor.
#define GPULEND_SHARE_DESCRIPTOR 2

// Over a fabric.
#define GPULEND_SHARE_FABRIC 4

// The result of every function: 0, or the reason of the failure. The numbers are those of `error.code` in
// Python and are listed in docs/errors.md; they never change their meaning. gpulend_last_error() returns the
// message.
typedef int32_t gpulend_status;

// An element type: DLPack's code, bits << 8 and lanes << 16. GPULEND_FLOAT32 and others below, or
// GPULEND_DTYPE(code, bits), or gpulend_dtype_parse().
typedef uint32_t gpulend_dtype;

// The result of gpulend_device(). Set `size` to sizeof.
typedef struct gpulend_device_info {
    // sizeof(gpulend_device_info).
    uint64_t size;
    // Bytes of memory.
    uint64_t memory;
    // Compute capability: 9 of sm_90.
    int32_t major;
    // Compute capability: 0 of sm_90.
    int32_t minor;
    // GPULEND_SIMULATED.
    uint32_t flags;
    // 0.
    uint32_t reserved;
    // Its name, such as "NVIDIA H200" or "Simulated GPU".
    char name[256];
} gpulend_device_info;

// A stream of a GPU. 0 is the calling thread's current stream. Free it with gpulend_stream_free().
typedef uint64_t gpulend_stream;

// An event. Free it with gpulend_event_free().
typedef uint64_t gpulend_event;

// A lease: validated memory, its owner, and the work that it waits for. Free it with gpulend_free().
typedef uint64_t gpulend_lease;

// A description of the memory at an address. Set `size` to sizeof and unused fields to zero.
typedef struct gpulend_claim {
    // sizeof(gpulend_claim).
    uint64_t size;
    // The address of the first element.
    uint64_t address;
    // `ndim` extents; NULL if there are none.
    const int64_t *shape;
    // `ndim` strides, counted in elements; NULL: row by row without gaps.
    const int64_t *strides;
    // Number of axes.
    int32_t ndim;
    // GPULEND_HOST, a GPU's number, or GPULEND_ANY_DEVICE.
    int32_t device;
    // Element type.
    gpulend_dtype dtype;
    // GPULEND_READONLY, _UNOWNED, _UNCHECKED, _READY.
    uint32_t flags;
    // The stream or event after which the bytes are valid. 0: the legacy default stream of the device.
    uint64_t ready_on;
} gpulend_claim;

// Frees wrapped memory; the arguments are its context, address and bytes. It is called once, from any
// thread, when the last lease and export are freed and the GPU work on the memory is done. It must
// neither throw nor wait for a thread that waits for gpulend.
typedef void (*gpulend_deleter)(void *context, uint64_t address, uint64_t bytes);

// The result of gpulend_pool(), in bytes. Set `size` to sizeof.
typedef struct gpulend_pool_info {
    // sizeof(gpulend_pool_info).
    uint64_t size;
    // In use.
    uint64_t live;
    // Kept for later.
    uint64_t cached;
    // The most that was in use at one time.
    uint64_t peak;
    // From the driver: `live` and `cached` together.
    uint64_t reserved;
    // The largest array that the cached memory has room for.
    uint64_t largest;
    // The number of blocks in use.
    uint64_t blocks;
    // The number of segments from the driver.
    uint64_t segments;
    // The most that the pool may have from the driver; 0: no limit.
    uint64_t limit;
} gpulend_pool_info;

// The result of gpulend_info(). Set `size` to sizeof.
typedef struct gpulend_lease_info {
    // sizeof(gpulend_lease_info).
    uint64_t size;
    // The address of the first element. To use it in stream order, call gpulend_pointer() or
    // gpulend_host_pointer().
    uint64_t address;
    // Bytes of the elements themselves.
    uint64_t bytes;
    // GPULEND_HOST or a GPU's number.
    int32_t device;
    // GPULEND_MEMORY_...
    uint32_t memory;
    // Element type; GPULEND_DTYPE_CODE, _BITS and _LANES return its parts.
    gpulend_dtype dtype;
    // Number of axes; gpulend_shape() returns them.
    int32_t ndim;
    // GPULEND_READONLY, _SIMULATED, _PADDED, _COMPACT, _HOST_VISIBLE.
    uint32_t flags;
    // 0.
    uint32_t reserved;
} gpulend_lease_info;

// What is known about an address. Set `size` to sizeof.
typedef struct gpulend_passport {
    // sizeof(gpulend_passport).
    uint64_t size;
    // The given address.
    uint64_t address;
    // The first address of the allocation or mapping that contains it.
    uint64_t base;
    // The size of that in bytes.
    uint64_t bytes;
    // The unique buffer id of the allocation; 0 for memory that no driver knows.
    uint64_t buffer_id;
    // The driver's context; 0: none.
    uint64_t context;
    // The driver's pool; 0: none.
    uint64_t pool;
    // The GPU's UUID.
    uint8_t uuid[16];
    // GPULEND_HOST or a GPU's number.
    int32_t device;
    // GPULEND_MEMORY_...
    uint32_t memory;
    // GPULEND_KNOWN_...
    uint32_t known;
    // GPULEND_SHARE_..., several.
    uint32_t shareable;
} gpulend_passport;

// The input of gpulend_compile(). Set `size` to sizeof and unused fields to zero.
typedef struct gpulend_source {
    // sizeof(gpulend_source).
    uint64_t size;
    // CUDA C++, PTX, a cubin or a fatbin; its first bytes show which.
    const void *text;
    // Number of bytes; 0: a string that ends in NUL.
    uint64_t bytes;
    // The name of the source in messages; NULL: "kernel.cu".
    const char *file;
    // Options in the spelling of nvcc, NVRTC or clang.
    const char *const *options;
    // Template instances to put into the module, such as `scale<float>`.
    const char *const *names;
    // Names of files that the source may include.
    const char *const *header_names;
    // Their contents.
    const char *const *header_texts;
    // Number of options.
    uint32_t option_count;
    // Number of names.
    uint32_t name_count;
    // Number of headers.
    uint32_t header_count;
    // A GPU's number, or GPULEND_ANY_DEVICE.
    int32_t device;
    // GPULEND_COMPILER_...
    uint32_t compiler;
    // 0.
    uint32_t reserved;
} gpulend_source;

// Compiled kernels and variables for one GPU. Free it with gpulend_module_free().
typedef uint64_t gpulend_module;

// A kernel of a module. Free it with gpulend_kernel_free().
typedef uint64_t gpulend_kernel;

// The result of gpulend_kernel_attributes(). Set `size` to sizeof.
typedef struct gpulend_kernel_info {
    // sizeof(gpulend_kernel_info).
    uint64_t size;
    // The most threads of a block.
    uint32_t max_threads_per_block;
    // Bytes of static shared memory.
    uint32_t shared_bytes;
    // Bytes of constant memory of its module.
    uint32_t constant_bytes;
    // Bytes of local memory of each thread.
    uint32_t local_bytes;
    // Registers of each thread.
    uint32_t registers;
    // 63 for PTX 6.3.
    uint32_t ptx_version;
    // 90 for sm_90.
    uint32_t binary_version;
    // The most bytes of dynamic shared memory.
    uint32_t max_dynamic_shared_bytes;
} gpulend_kernel_info;

// Grid, block and stream of a launch. Set `size` to sizeof and unused fields to zero; all
// extents are 1 or more.
typedef struct gpulend_launch_shape {
    // sizeof(gpulend_launch_shape).
    uint64_t size;
    // Blocks along x, y and z.
    uint32_t grid[3];
    // Threads of a block along x, y and z.
    uint32_t block[3];
    // Bytes of dynamic shared memory.
    uint32_t shared;
    // GPULEND_STRIDED, _UNCHECKED.
    uint32_t flags;
    // A stream of the module's GPU; 0: the calling thread's current stream.
    gpulend_stream stream;
} gpulend_launch_shape;

// An argument of a kernel. Make it with gpulend_lease_argument() and its neighbours at the end of
// gpulend.h; its size never changes.
typedef struct gpulend_argument {
    // GPULEND_ARGUMENT_...
    uint32_t kind;
    // For GPULEND_ARGUMENT_BYTES: their number. For a number: 0, or the size of its type, which
    // parameters of machine code need, because their types are not known.
    uint32_t bytes;
    // A handle, the bits of a number, or an address.
    uint64_t value;
} gpulend_argument;

// Measures GPU time. Free it with gpulend_timer_free().
typedef uint64_t gpulend_timer;

// Success.
#define GPULEND_OK 0

// An argument or a field cannot be read, or has an impossible value: a NULL, a size, a flag.
#define GPULEND_BAD_ARGUMENT 253

// A number that was never a handle.
#define GPULEND_NO_HANDLE 270

// A handle of another kind.
#define GPULEND_OTHER_KIND 271

// A stream, an event, a module, a kernel or a timer that was freed.
#define GPULEND_ENDED 272

// There are as many handles as there can be.
#define GPULEND_TOO_MANY_HANDLES 273

// Another copy of gpulend was used first in this process.
#define GPULEND_SECOND_COPY 274

// A lease that was freed or released.
#define GPULEND_RELEASED 500

// A lease that has slices or exports, and cannot be released yet.
#define GPULEND_STILL_LENT 600

// The host has not enough memory.
#define GPULEND_OUT_OF_MEMORY 1000

// A GPU has not enough memory.
#define GPULEND_OUT_OF_DEVICE_MEMORY 1020

// A bug of gpulend.
#define GPULEND_BUG 2000

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of the library, such as "0.1.0". Never NULL, and always valid.
const char *gpulend_version(void);

// The library's version of this interface: GPULEND_ABI_MAJOR << 16 | GPULEND_ABI_MINOR.
uint32_t gpulend_abi_version(void);

// The message of this thread's last failed call: what was found, what was wanted, how to
// fix it. Never NULL, and valid until this thread's next call. ctypes: set restype to c_char_p.
const char *gpulend_last_error(void);

// Reads the name of an element type: "float32", "bfloat16", "float8_e4m3fn", "<f4".
gpulend_status gpulend_dtype_parse(const char *name, gpulend_dtype *dtype);

// Writes the name of an element type, as snprintf does: at most `room` bytes with the NUL;
// `needed`, if it is not NULL, receives the number of bytes with the NUL.
gpulend_status gpulend_dtype_name(gpulend_dtype dtype, char *text, uint64_t room, uint64_t *needed);

// Chooses the simulated GPU for this process, before its first use of a GPU. `settings` is NULL,
// or such as "devices=2,memory=1GiB,seed=7,check=races,timeout=5,sticky=1,accept_nvvm=1,expose=1"; other
// settings come from GPULEND_SIM_*. Without this call GPULEND_DEVICE=auto|cuda|simulated
// decides.
gpulend_status gpulend_simulate(const char *settings);

// Writes a description of the driver that this process uses, as gpulend_dtype_name() writes. Chooses one
// if there is none yet.
gpulend_status gpulend_driver(char *text, uint64_t room, uint64_t *needed);

// The number of GPUs.
gpulend_status gpulend_device_count(int32_t *count);

// Describes a GPU.
gpulend_status gpulend_device(int32_t device, struct gpulend_device_info *info);

// Waits for all work of a GPU, of all libraries and streams.
gpulend_status gpulend_synchronize(int32_t device);

// Creates a stream. `flags` is 0 or GPULEND_BLOCKING.
gpulend_status gpulend_stream_create(int32_t device, uint32_t flags, gpulend_stream *stream);

// Makes a handle of another library's CUstream or cudaStream_t, given as a number; 0 and 1 are
// the legacy default stream, 2 the calling thread's. The stream must exist whenever the handle is
// used; gpulend never destroys it.
gpulend_status gpulend_stream_wrap(int32_t device, uint64_t number, gpulend_stream *stream);

// The CUstream of a stream, as a number, and its GPU. Either pointer may be NULL.
gpulend_status gpulend_stream_number(gpulend_stream stream, uint64_t *number, int32_t *device);

// Makes a stream current for this thread, on its GPU, until the thread leaves it.
gpulend_status gpulend_stream_enter(gpulend_stream stream);

// Leaves a stream that this thread entered.
gpulend_status gpulend_stream_leave(gpulend_stream stream);

// Waits until all work on a stream is done.
gpulend_status gpulend_stream_synchronize(gpulend_stream stream);

// Whether all work on a stream is done: 1 or 0.
gpulend_status gpulend_stream_done(gpulend_stream stream, int32_t *done);

// Makes later work on a stream wait for an event, which may be of another stream.
gpulend_status gpulend_stream_wait(gpulend_stream stream, gpulend_event event);

// Frees the handle. A stream that gpulend created is destroyed when its work is done and no lease
// waits for it.
gpulend_status gpulend_stream_free(gpulend_stream stream);

// Records an event after the work that a stream has now.
gpulend_status gpulend_event_record(gpulend_stream stream, gpulend_event *event);

// Waits for an event.
gpulend_status gpulend_event_synchronize(gpulend_event event);

// Whether an event has happened: 1 or 0.
gpulend_status gpulend_event_done(gpulend_event event, int32_t *done);

// Frees the handle.
gpulend_status gpulend_event_free(gpulend_event event);

// Allocates an uninitialised array, row-major without gaps. On a GPU the allocation is queued on
// `stream`.
gpulend_status gpulend_allocate(int32_t device,
                                gpulend_dtype dtype,
                                int32_t ndim,
                                const int64_t *shape,
                                gpulend_stream stream,
                                gpulend_lease *lease);

// Allocates an array of zeros, as gpulend_allocate().
gpulend_status gpulend_zeros(int32_t device,
                             gpulend_dtype dtype,
                             int32_t ndim,
                             const int64_t *shape,
                             gpulend_stream stream,
                             gpulend_lease *lease);

// Makes a lease of an address. Asks the driver whether the memory is live, long enough and on the
// claimed device. `deleter` frees the memory; without one the claim must have GPULEND_UNOWNED. If the
// call fails, the deleter is not called: the memory is still the caller's.
gpulend_status gpulend_wrap(const struct gpulend_claim *claim,
                            gpulend_deleter deleter,
                            void *context,
                            gpulend_lease *lease);

// Frees a lease. The memory is released when its last slice and export are freed too, and the
// GPU work on it is done.
gpulend_status gpulend_free(gpulend_lease lease);

// Ends a lease now. Fails with 600 and names the holders if slices or exports of it are alive;
// the handle is still valid then.
gpulend_status gpulend_release(gpulend_lease lease);

// How much memory of a GPU gpulend has.
gpulend_status gpulend_pool(int32_t device, struct gpulend_pool_info *info);

// Gives cached memory of a GPU back to the driver, until at most `keep` bytes are left. Waits for the
// streams in whose order it was freed. `given` gets the number of bytes, and may be NULL.
gpulend_status gpulend_pool_trim(int32_t device, uint64_t keep, uint64_t *given);

// Limits what the pool of a GPU may have from the driver; 0 takes the limit away. Memory beyond a new
// limit is given back as far as nobody uses it.
gpulend_status gpulend_pool_set_limit(int32_t device, uint64_t bytes);

// Lets `peak` of gpulend_pool() count from now on.
gpulend_status gpulend_pool_reset_peak(int32_t device);

// Takes a block of at least `bytes` bytes from the pool, to be used in the order of `stream`: like
// cudaMallocAsync(). It has no lease, so work of other streams on it is not waited for. Inside a capture
// the block lives outside of the graph; keep it as long as the graph is launched.
gpulend_status gpulend_pool_allocate(uint64_t bytes, gpulend_stream stream, uint64_t *address);

// Gives a block of gpulend_pool_allocate() back, in the order of its stream. Any thread may call it.
gpulend_status gpulend_pool_free(uint64_t address);

// Describes a lease.
gpulend_status gpulend_info(gpulend_lease lease, struct gpulend_lease_info *info);

// Writes the extents and the strides, counted in elements, of a lease with `ndim` axes. Either
// pointer may be NULL.
gpulend_status gpulend_shape(gpulend_lease lease, int32_t ndim, int64_t *shape, int64_t *strides);

// Slices an axis: every `step`-th element from `start` to before `stop`, with Python's rules for
// negative numbers. The result is a new lease of the same memory.
gpulend_status gpulend_slice(gpulend_lease lease,
                             int32_t axis,
                             int64_t start,
                             int64_t stop,
                             int64_t step,
                             gpulend_lease *slice);

// The same elements under another shape, in which one extent may be -1, without a copy.
gpulend_status gpulend_reshape(gpulend_lease lease,
                               int32_t ndim,
                               const int64_t *shape,
                               gpulend_lease *reshaped);

// The axes in reverse order, without a copy.
gpulend_status gpulend_transpose(gpulend_lease lease, gpulend_lease *transposed);

// The same bytes read as another element type, without a copy.
gpulend_status gpulend_view(gpulend_lease lease, gpulend_dtype dtype, gpulend_lease *view);

// The same memory, read-only.
gpulend_status gpulend_readonly(gpulend_lease lease, gpulend_lease *readonly);

// The address of the first element, for work on `stream`: the stream waits until
// the bytes are ready, and the memory is not released before the work that the stream has at the
// release is done. Valid as long as the lease.
gpulend_status gpulend_pointer(gpulend_lease lease, gpulend_stream stream, uint64_t *address);

// The address for host code, which may read and write the memory from now on. Waits until the bytes
// are ready. Refused for memory that the host cannot read.
gpulend_status gpulend_host_pointer(gpulend_lease lease, uint64_t *address);

// Notes that work on the memory was queued on a stream: the release and the next user of the memory
// wait for it.
gpulend_status gpulend_used_on(gpulend_lease lease, gpulend_stream stream);

// Describes an address: asks the driver, and the kernel for memory that the driver does not know.
// It starts no driver.
gpulend_status gpulend_describe(uint64_t address, struct gpulend_passport *passport);

// Copies elements, row-major without gaps, from the host to a lease; `bytes` must be the size of the
// lease. The copy is done when the function returns.
gpulend_status gpulend_copy_from_host(gpulend_lease lease,
                                      const void *data,
                                      uint64_t bytes,
                                      gpulend_stream stream);

// Copies all elements of a lease to the host, row-major without gaps, as
// gpulend_copy_from_host().
gpulend_status gpulend_copy_to_host(gpulend_lease lease, void *data, uint64_t bytes, gpulend_stream stream);

// Copies the elements of a lease to another of the same shape and type. Between GPUs the copy is
// queued on `stream`, a stream of the target's GPU; with the host it is done when the function returns.
gpulend_status gpulend_copy(gpulend_lease from, gpulend_lease to, gpulend_stream stream);

// Fills a lease without gaps with the element at `element`; `bytes` must be the size of the element
// type. On a GPU the fill is queued on `stream`.
gpulend_status gpulend_fill(gpulend_lease lease, const void *element, uint64_t bytes, gpulend_stream stream);

// Takes over another library's tensor. Its deleter is called when the last lease of it is freed.
// The tensor is no longer the caller's, whatever the status: a refused tensor is released too.
// Its bytes are valid after the work that `stream` has now.
gpulend_status gpulend_from_dlpack(struct DLManagedTensor *tensor,
                                   gpulend_stream stream,
                                   gpulend_lease *lease);

// As gpulend_from_dlpack(), for the versioned struct of DLPack 1.0, which has a read-only flag.
gpulend_status gpulend_from_dlpack_versioned(struct DLManagedTensorVersioned *tensor,
                                             gpulend_stream stream,
                                             gpulend_lease *lease);

// Exports a lease as a tensor, which the receiver releases by its deleter; the memory stays
// alive until then. Refused for read-only leases, which this struct cannot describe. `stream`, the
// receiver's stream, waits until the bytes are ready; memory that is exported as host memory is
// ready when the function returns. `flags` is 0 or GPULEND_AS_CUDA.
gpulend_status gpulend_to_dlpack(gpulend_lease lease,
                                 gpulend_stream stream,
                                 uint32_t flags,
                                 struct DLManagedTensor **tensor);

// As gpulend_to_dlpack(), by the versioned struct of DLPack 1.0.
gpulend_status gpulend_to_dlpack_versioned(gpulend_lease lease,
                                           gpulend_stream stream,
                                           uint32_t flags,
                                           struct DLManagedTensorVersioned **tensor);

// The number of leases, slices and exports that are alive in this process, Python's and Rust's too.
gpulend_status gpulend_live(uint64_t *count);

// Writes all leases and exports, one a line, as gpulend_dtype_name() writes: serial, kind, bytes,
// address, holder, seconds, and the serial of the lease that it keeps. The text may be longer at
// the next call.
gpulend_status gpulend_ledger(char *text, uint64_t room, uint64_t *needed);

// Sets the paths of compilers for later calls: the path of a clang or zig, folders that may contain
// NVRTC, and folders with CUDA's headers, separated by colons. NULL keeps the earlier value.
// GPULEND_CLANG takes precedence over this clang; GPULEND_ZIGLANG and PATH come after it. NVRTC is
// also searched where the loader looks, and both below CUDA_HOME, CUDA_PATH and /usr/local/cuda.
// Inside Python the packages ziglang and NVIDIA's are set already.
gpulend_status gpulend_set_compilers(const char *clang, const char *libraries, const char *headers);

// Compiles CUDA C++ for a GPU, or takes PTX, a cubin or a fatbin. The first launch loads it, or
// the first query that needs the GPU. If the source has errors, gpulend_last_error()
// returns the compiler's messages, with the source's own lines.
gpulend_status gpulend_compile(const struct gpulend_source *source, gpulend_module *module);

// Writes the names of a module's kernels, one a line, as gpulend_dtype_name() writes.
gpulend_status gpulend_module_names(gpulend_module module, char *text, uint64_t room, uint64_t *needed);

// Writes the names of a module's variables, one a line, as gpulend_dtype_name() writes.
gpulend_status gpulend_module_variables(gpulend_module module, char *text, uint64_t room, uint64_t *needed);

// Writes the compiler's warnings about the caller's own source, one a line with file, line and
// column, as gpulend_dtype_name() writes.
gpulend_status gpulend_module_warnings(gpulend_module module, char *text, uint64_t room, uint64_t *needed);

// A lease of a __device__ or __constant__ variable, with its declared type and extents, or as bytes if
// these are not known. The module stays loaded as long as the lease lives.
gpulend_status gpulend_module_variable(gpulend_module module, const char *name, gpulend_lease *lease);

// A kernel by its name, its name and types, its symbol, or as an instance of a template:
// `scale<float>`. A new instance is compiled; if the module is loaded already, into a
// second module with its own variables. List it in the source's `names` to avoid that.
gpulend_status gpulend_kernel_get(gpulend_module module, const char *name, gpulend_kernel *kernel);

// Frees the handle. The module stays loaded until its kernels and variables are freed too,
// and the GPU work is done.
gpulend_status gpulend_module_free(gpulend_module module);

// Writes a kernel's name and parameters, such as "add(const float* a, float* b, int n)", as
// gpulend_dtype_name() writes.
gpulend_status gpulend_kernel_signature(gpulend_kernel kernel, char *text, uint64_t room, uint64_t *needed);

// A kernel's resources and limits on its GPU.
gpulend_status gpulend_kernel_attributes(gpulend_kernel kernel, struct gpulend_kernel_info *info);

// Queues a launch after the work that the leases wait for; their memory is kept until the kernel is done.
// Count, types, devices and sizes are checked against the kernel's parameters first: a mismatch is
// refused, and nothing is queued. A mistake of the kernel on the GPU is reported by a
// later call that waits.
gpulend_status gpulend_launch(gpulend_kernel kernel,
                              const struct gpulend_launch_shape *shape,
                              const struct gpulend_argument *arguments,
                              uint64_t count);

// Queues a launch with at least one thread for each of `elements` elements, in blocks that fill the GPU
// best, as gpulend_launch(). For 0 elements nothing is launched.
gpulend_status gpulend_forall(gpulend_kernel kernel,
                              uint64_t elements,
                              const struct gpulend_argument *arguments,
                              uint64_t count,
                              gpulend_stream stream);

// Frees the handle.
gpulend_status gpulend_kernel_free(gpulend_kernel kernel);

// Starts measuring the work that is queued on a stream from now on.
gpulend_status gpulend_timer_start(gpulend_stream stream, gpulend_timer *timer);

// Stops measuring: later work is not part of the time. A second call moves the end.
gpulend_status gpulend_timer_stop(gpulend_timer timer);

// Waits until the measured work is done, and returns the GPU time from start to stop.
gpulend_status gpulend_timer_milliseconds(gpulend_timer timer, double *milliseconds);

// Frees the handle.
gpulend_status gpulend_timer_free(gpulend_timer timer);

// Allocates an array as gpulend_allocate(), of memory that other processes can open. Memory of the host
// is zeroed.
gpulend_status gpulend_allocate_shared(int32_t device,
                                       gpulend_dtype dtype,
                                       int32_t ndim,
                                       const int64_t *shape,
                                       gpulend_stream stream,
                                       gpulend_lease *lease);

// Makes a ticket of a lease: bytes by which another process of this user, in any language, opens the same
// memory. It can be claimed `claims` times, 0 for any number, for `seconds`; the memory stays until
// then, and as long as a claim lives. `flags` may have GPULEND_READONLY. `room` must be
// GPULEND_TICKET_BYTES or more; `size` is set to what was written. The first ticket starts a thread.
gpulend_status gpulend_ticket(gpulend_lease lease,
                              uint32_t claims,
                              double seconds,
                              uint32_t flags,
                              uint8_t *ticket,
                              uint64_t room,
                              uint64_t *size);

// Claims a ticket: a lease of the memory of another process, which is opened here and not copied. In the
// process that made the ticket it is a slice of its lease.
gpulend_status gpulend_ticket_claim(const uint8_t *ticket, uint64_t size, gpulend_lease *lease);

// Ends a ticket of this process: nobody can claim it from now on. Claims that were made stay. `ended` is
// set to 1 if it could still be claimed, else to 0.
gpulend_status gpulend_ticket_withdraw(const uint8_t *ticket, uint64_t size, int32_t *ended);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* GPULEND_H */

#ifndef GPULEND_ARGUMENTS
#define GPULEND_ARGUMENTS

/* A lease for a parameter that is a pointer. */
static inline gpulend_argument gpulend_lease_argument(gpulend_lease lease)
{
    gpulend_argument made = {GPULEND_ARGUMENT_LEASE, 0, lease};
    return made;
}

/* NULL for a parameter that is a pointer. */
static inline gpulend_argument gpulend_null_argument(void)
{
    gpulend_argument made = {GPULEND_ARGUMENT_NULL, 0, 0};
    return made;
}

/* An integer for a parameter of any width, which it must fit. */
static inline gpulend_argument gpulend_int_argument(int64_t number)
{
    gpulend_argument made = {GPULEND_ARGUMENT_INT, 0, (uint64_t)number};
    return made;
}

/* As gpulend_int_argument(), for numbers that int64_t does not hold. */
static inline gpulend_argument gpulend_uint_argument(uint64_t number)
{
    gpulend_argument made = {GPULEND_ARGUMENT_UINT, 0, number};
    return made;
}

/* A floating-point number for a parameter that is a double, a float or a half. */
static inline gpulend_argument gpulend_double_argument(double number)
{
    gpulend_argument made = {GPULEND_ARGUMENT_DOUBLE, 0, 0};
    memcpy(&made.value, &number, sizeof number);
    return made;
}

/* A struct by value; the launch reads it. */
static inline gpulend_argument gpulend_bytes_argument(const void *place, uint32_t bytes)
{
    gpulend_argument made = {GPULEND_ARGUMENT_BYTES, bytes, (uint64_t)(uintptr_t)place};
    return made;
}

#endif  /* GPULEND_ARGUMENTS */
