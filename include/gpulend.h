/* gpulend: lend GPU memory between libraries, in order, with checked pointers.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Made from crates/capi by cbindgen: change it there.
 *
 * Every function but the first three returns a status: 0, or why it failed, and then
 * gpulend_last_error() has the words. Results go through pointers, which must not be NULL unless it is
 * said. Leases, streams, kernels and so on are numbers: one that was freed, is of another kind or was
 * never given is refused, and nothing happens. All functions may be called from any thread at any time.
 *
 * A process has one ledger. Inside Python use the functions of the extension module (python -m
 * gpulend.config --library), elsewhere libgpulend.so or libgpulend.a. Of two copies in one process the
 * one that is used first goes on; every call of the other fails with 274 and names both.
 *
 * Structs begin with their size, which the caller sets, so that they can grow at their end. Functions
 * are only ever added.
 */


#ifndef GPULEND_H
#define GPULEND_H

#include <stdint.h>
#include <string.h>

/* DLPack's, of dlpack.h, which need not be included. */
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


// The version of this interface, as gpulend_abi_version() tells it: the major number grows when a
// program must be compiled again, the minor one when something is added.
#define GPULEND_ABI_MAJOR 0

// See GPULEND_ABI_MAJOR.
#define GPULEND_ABI_MINOR 2

// The host, where a device is wanted. GPUs are 0, 1 and so on.
#define GPULEND_HOST -1

// No device in particular. To wrap: the driver is asked; to allocate: the device of the thread's
// current stream.
#define GPULEND_ANY_DEVICE -2

// The most axes of an array.
#define GPULEND_MOST_AXES 64

// The memory must not be written. In claims and information.
#define GPULEND_READONLY 1

// In claims: nobody releases the memory, it outlives the lease.
#define GPULEND_UNOWNED 2

// In claims: do not ask whether the memory is there. In launches: do not compare arrays with the
// types of the parameters.
#define GPULEND_UNCHECKED 4

// In claims: the bytes are valid already, whatever streams hold.
#define GPULEND_READY 8

// In information: the GPU is the simulated one.
#define GPULEND_SIMULATED 16

// In information: each element of less than a byte fills a byte of its own.
#define GPULEND_PADDED 32

// In information: elements lie row by row without gaps.
#define GPULEND_COMPACT 64

// In information: the host can read the bytes.
#define GPULEND_HOST_VISIBLE 128

// For a new stream: it waits for the legacy default stream, and that for it.
#define GPULEND_BLOCKING 256

// For DLPack: a simulated GPU's memory is shown as CUDA's, for clients of the simulated driver;
// else as the host's.
#define GPULEND_AS_CUDA 512

// In launches: arrays may have gaps or another order than row by row.
#define GPULEND_STRIDED 1024

// Which compiler: on a real GPU NVRTC if it can be loaded and else clang, on the simulated one clang.
#define GPULEND_COMPILER_ANY 0

// NVIDIA's NVRTC.
#define GPULEND_COMPILER_NVRTC 1

// clang, with gpulend's own headers.
#define GPULEND_COMPILER_CLANG 2

// Kinds of arguments: a NULL pointer.
#define GPULEND_ARGUMENT_NULL 0

// A lease, for a pointer: `value` is its handle.
#define GPULEND_ARGUMENT_LEASE 1

// A whole number with a sign: `value` is its bits, as an int64_t.
#define GPULEND_ARGUMENT_INT 2

// A whole number without a sign.
#define GPULEND_ARGUMENT_UINT 3

// A number: `value` is the bits of a double, whatever the parameter is.
#define GPULEND_ARGUMENT_DOUBLE 4

// A struct by value, or whatever else has no kind: `value` is the address of its `bytes` bytes.
#define GPULEND_ARGUMENT_BYTES 5

// Kinds of memory: the host's.
#define GPULEND_MEMORY_HOST 0

// The host's, pinned by a GPU driver.
#define GPULEND_MEMORY_PINNED 1

// Memory that moves between host and device.
#define GPULEND_MEMORY_MANAGED 2

// A device's.
#define GPULEND_MEMORY_DEVICE 3

// How much is known about an address: a mapping of the host's, which holds more than one allocation.
#define GPULEND_KNOWN_HOST 0

// Exactly one allocation.
#define GPULEND_KNOWN_ALLOCATION 1

// A block of one of the driver's own pools.
#define GPULEND_KNOWN_POOL_BLOCK 2

// A range of reserved addresses, of which parts may be mapped.
#define GPULEND_KNOWN_RESERVATION 3

// Ways to share memory with another process: CUDA's older handles.
#define GPULEND_SHARE_HANDLE 1

// As a file descriptor.
#define GPULEND_SHARE_DESCRIPTOR 2

// Over a fabric.
#define GPULEND_SHARE_FABRIC 4

// What every function returns: 0, or why it failed. The numbers are those of `error.code` in Python and
// are listed in docs/errors.md; they never change their meaning. gpulend_last_error() has the words.
typedef int32_t gpulend_status;

// An element type: DLPack's code, bits << 8 and lanes << 16. GPULEND_FLOAT32 and others below, or
// GPULEND_DTYPE(code, bits), or gpulend_dtype_parse().
typedef uint32_t gpulend_dtype;

// What gpulend_device() tells about a GPU. Set `size` to sizeof.
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
    // Its name, as "NVIDIA H200" or "Simulated GPU".
    char name[256];
} gpulend_device_info;

// A stream of a GPU. 0 stands for the calling thread's current one. Give it back by gpulend_stream_free().
typedef uint64_t gpulend_stream;

// A moment in a stream. Give it back by gpulend_event_free().
typedef uint64_t gpulend_event;

// A lease: memory, what keeps it alive, and when its bytes are ready. Give it back by gpulend_free().
typedef uint64_t gpulend_lease;

// What somebody says about an address. Set `size` to sizeof and what is not said to zero.
typedef struct gpulend_claim {
    // sizeof(gpulend_claim).
    uint64_t size;
    // Where the first element lies.
    uint64_t address;
    // `ndim` extents; NULL if there are none.
    const int64_t *shape;
    // `ndim` strides, counted in elements; NULL: row by row without gaps.
    const int64_t *strides;
    // How many axes.
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

// Frees memory that was wrapped, with the context, address and bytes it was wrapped with. It is
// called once, from any thread, when the last lease and export are gone and the GPU's work on the
// memory is done. It must not throw, nor wait for a thread that waits for gpulend.
typedef void (*gpulend_deleter)(void *context, uint64_t address, uint64_t bytes);

// What gpulend_info() tells about a lease. Set `size` to sizeof.
typedef struct gpulend_lease_info {
    // sizeof(gpulend_lease_info).
    uint64_t size;
    // Where the first element lies. To use it in order, ask gpulend_pointer() or gpulend_host_pointer().
    uint64_t address;
    // Bytes of the elements themselves.
    uint64_t bytes;
    // GPULEND_HOST or a GPU's number.
    int32_t device;
    // GPULEND_MEMORY_...
    uint32_t memory;
    // Element type; GPULEND_DTYPE_CODE, _BITS and _LANES take it apart.
    gpulend_dtype dtype;
    // How many axes; gpulend_shape() tells them.
    int32_t ndim;
    // GPULEND_READONLY, _SIMULATED, _PADDED, _COMPACT, _HOST_VISIBLE.
    uint32_t flags;
    // 0.
    uint32_t reserved;
} gpulend_lease_info;

// All that is known about an address. Set `size` to sizeof.
typedef struct gpulend_passport {
    // sizeof(gpulend_passport).
    uint64_t size;
    // The address asked for.
    uint64_t address;
    // The first byte of what holds it.
    uint64_t base;
    // How many bytes that has.
    uint64_t bytes;
    // A number that no other allocation of this process has; 0 for memory that no driver knows.
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

// What gpulend_compile() compiles. Set `size` to sizeof and what is not said to zero.
typedef struct gpulend_source {
    // sizeof(gpulend_source).
    uint64_t size;
    // CUDA C++, PTX, a cubin or a fatbin: which of them, its first bytes tell.
    const void *text;
    // How many bytes; 0: a text that ends in NUL.
    uint64_t bytes;
    // What messages call the text; NULL: "kernel.cu".
    const char *file;
    // Options, as nvcc, NVRTC or clang spell them.
    const char *const *options;
    // Instances of templates that shall be in the module, as `scale<float>`.
    const char *const *names;
    // Names of files that the text may include.
    const char *const *header_names;
    // What is in them.
    const char *const *header_texts;
    // How many options.
    uint32_t option_count;
    // How many names.
    uint32_t name_count;
    // How many headers.
    uint32_t header_count;
    // A GPU's number, or GPULEND_ANY_DEVICE.
    int32_t device;
    // GPULEND_COMPILER_...
    uint32_t compiler;
    // 0.
    uint32_t reserved;
} gpulend_source;

// Compiled kernels and variables of one GPU. Give it back by gpulend_module_free().
typedef uint64_t gpulend_module;

// A kernel of a module. Give it back by gpulend_kernel_free().
typedef uint64_t gpulend_kernel;

// What gpulend_kernel_attributes() tells. Set `size` to sizeof.
typedef struct gpulend_kernel_info {
    // sizeof(gpulend_kernel_info).
    uint64_t size;
    // Threads that a block may have.
    uint32_t max_threads_per_block;
    // Bytes of shared memory that it always has.
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
    // Bytes of shared memory that a launch may add.
    uint32_t max_dynamic_shared_bytes;
} gpulend_kernel_info;

// How large a launch is, and on which stream. Set `size` to sizeof and what is not said to zero; all
// extents are 1 or more.
typedef struct gpulend_launch_shape {
    // sizeof(gpulend_launch_shape).
    uint64_t size;
    // Blocks along x, y and z.
    uint32_t grid[3];
    // Threads of a block along x, y and z.
    uint32_t block[3];
    // Bytes of shared memory that are added to the kernel's own.
    uint32_t shared;
    // GPULEND_STRIDED, _UNCHECKED.
    uint32_t flags;
    // A stream of the module's GPU; 0: the calling thread's current one.
    gpulend_stream stream;
} gpulend_launch_shape;

// An argument of a kernel. gpulend_lease_argument() and its neighbours at the end of gpulend.h make
// them; its size never changes.
typedef struct gpulend_argument {
    // GPULEND_ARGUMENT_...
    uint32_t kind;
    // Of GPULEND_ARGUMENT_BYTES how many. Of a number 0, or how many bytes its type has: parameters
    // of machine code, of which no types are known, take a number by that.
    uint32_t bytes;
    // A handle, the bits of a number, or an address.
    uint64_t value;
} gpulend_argument;

// A measure of a GPU's time. Give it back by gpulend_timer_free().
typedef uint64_t gpulend_timer;

// Success.
#define GPULEND_OK 0

// An argument that cannot be: a NULL, a size, a flag.
#define GPULEND_BAD_ARGUMENT 253

// A number that was never a handle.
#define GPULEND_NO_HANDLE 270

// A handle of something else.
#define GPULEND_OTHER_KIND 271

// A stream, an event, a module, a kernel or a timer that was freed.
#define GPULEND_ENDED 272

// More handles than can be told apart.
#define GPULEND_TOO_MANY_HANDLES 273

// Another copy of gpulend was used first in this process.
#define GPULEND_SECOND_COPY 274

// A lease that was freed or released.
#define GPULEND_RELEASED 500

// A lease that cannot be released yet.
#define GPULEND_STILL_LENT 600

// The host has no room.
#define GPULEND_OUT_OF_MEMORY 1000

// A GPU has no room.
#define GPULEND_OUT_OF_DEVICE_MEMORY 1020

// A mistake of gpulend's own.
#define GPULEND_BUG 2000

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of the library, as "0.1.0". Never NULL, and valid for good.
const char *gpulend_version(void);

// The version of this interface that the library has: GPULEND_ABI_MAJOR << 16 | GPULEND_ABI_MINOR.
uint32_t gpulend_abi_version(void);

// Why this thread's last call failed that did, in words: what was found, what was wanted, how to
// fix it. Never NULL, and valid until this thread's next call. ctypes: set restype to c_char_p.
const char *gpulend_last_error(void);

// Reads the name of an element type: "float32", "bfloat16", "float8_e4m3fn", "<f4".
gpulend_status gpulend_dtype_parse(const char *name, gpulend_dtype *dtype);

// Writes the name of an element type, as snprintf does: at most `room` bytes with the NUL;
// `needed`, if it is not NULL, is how many it takes.
gpulend_status gpulend_dtype_name(gpulend_dtype dtype, char *text, uint64_t room, uint64_t *needed);

// Chooses the simulated GPU for this process, before its first use of a GPU. `settings` is NULL,
// or as "devices=2,memory=1GiB,seed=7,check=races,timeout=5,sticky=1,accept_nvvm=1,expose=1": what
// is not said is as GPULEND_SIM_* says. Without this call GPULEND_DEVICE=auto|cuda|simulated
// decides.
gpulend_status gpulend_simulate(const char *settings);

// Tells in words which driver this process uses, as gpulend_dtype_name() writes. One is chosen if
// none was.
gpulend_status gpulend_driver(char *text, uint64_t room, uint64_t *needed);

// How many GPUs there are.
gpulend_status gpulend_device_count(int32_t *count);

// What a GPU is.
gpulend_status gpulend_device(int32_t device, struct gpulend_device_info *info);

// Waits for all work of a GPU, of whichever library and stream.
gpulend_status gpulend_synchronize(int32_t device);

// Makes a stream. `flags` is 0 or GPULEND_BLOCKING.
gpulend_status gpulend_stream_create(int32_t device, uint32_t flags, gpulend_stream *stream);

// Names a stream of another library's by its CUstream or cudaStream_t, as a number; 0 and 1 are
// the legacy default stream, 2 the calling thread's. It must be there whenever the handle is used;
// it is never destroyed by us.
gpulend_status gpulend_stream_wrap(int32_t device, uint64_t number, gpulend_stream *stream);

// The CUstream of a stream, as a number, and its GPU. Either place may be NULL.
gpulend_status gpulend_stream_number(gpulend_stream stream, uint64_t *number, int32_t *device);

// Makes a stream the current one of this thread, on its GPU, until it is left.
gpulend_status gpulend_stream_enter(gpulend_stream stream);

// Leaves a stream that this thread entered.
gpulend_status gpulend_stream_leave(gpulend_stream stream);

// Waits until all that is queued is done.
gpulend_status gpulend_stream_synchronize(gpulend_stream stream);

// Whether all that is queued is done: 1 or 0.
gpulend_status gpulend_stream_done(gpulend_stream stream, int32_t *done);

// Has what is queued on a stream from now on wait for an event, which may be another stream's.
gpulend_status gpulend_stream_wait(gpulend_stream stream, gpulend_event event);

// Gives the handle back. A stream of ours is destroyed when the work on it is done and no lease
// waits for it.
gpulend_status gpulend_stream_free(gpulend_stream stream);

// Makes an event that happens when what is queued on a stream now is done.
gpulend_status gpulend_event_record(gpulend_stream stream, gpulend_event *event);

// Waits until an event has happened.
gpulend_status gpulend_event_synchronize(gpulend_event event);

// Whether an event has happened: 1 or 0.
gpulend_status gpulend_event_done(gpulend_event event, int32_t *done);

// Gives the handle back.
gpulend_status gpulend_event_free(gpulend_event event);

// Allocates an array, row by row without gaps, whose elements are whatever they are. On a GPU that
// is queued on `stream`.
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

// Makes a lease of an address. The driver is asked whether the memory is live, long enough and
// where it is said to be. `deleter` frees it; without one the claim says GPULEND_UNOWNED. If the
// call fails, the deleter is not called: the memory is still the caller's.
gpulend_status gpulend_wrap(const struct gpulend_claim *claim,
                            gpulend_deleter deleter,
                            void *context,
                            gpulend_lease *lease);

// Gives a lease back. The memory goes when the last slice and export of it are gone too, and the
// GPU's work on it is done.
gpulend_status gpulend_free(gpulend_lease lease);

// Ends a lease now: fails with 600, and says who holds it, if slices or exports of it are alive.
// Then the handle is as it was.
gpulend_status gpulend_release(gpulend_lease lease);

// What a lease is.
gpulend_status gpulend_info(gpulend_lease lease, struct gpulend_lease_info *info);

// Writes the extents and the strides, counted in elements, of a lease with `ndim` axes. Either
// place may be NULL.
gpulend_status gpulend_shape(gpulend_lease lease, int32_t ndim, int64_t *shape, int64_t *strides);

// Every `step`-th element from `start` to before `stop` along an axis, with Python's rules for
// negative numbers. The slice is a lease of its own, without a copy.
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

// The same memory, not to be written through the result.
gpulend_status gpulend_readonly(gpulend_lease lease, gpulend_lease *readonly);

// The address of the first element, for work that is queued on `stream`: the stream waits until
// the bytes are ready, and the memory is not released before what the stream holds at the release
// is done. Good as long as the lease.
gpulend_status gpulend_pointer(gpulend_lease lease, gpulend_stream stream, uint64_t *address);

// The address for code of the host, which reads and writes it from now on: waits until the bytes
// are ready. Refused for memory that the host cannot read.
gpulend_status gpulend_host_pointer(gpulend_lease lease, uint64_t *address);

// Says that work on the memory was queued on a stream: it is not released before that is done, and
// whoever gets it next waits for it.
gpulend_status gpulend_used_on(gpulend_lease lease, gpulend_stream stream);

// What is known about an address: the driver is asked, and of memory that it does not know the
// kernel. No driver is started for it.
gpulend_status gpulend_describe(uint64_t address, struct gpulend_passport *passport);

// Copies `bytes` bytes, elements row by row without gaps, from the host to a lease; `bytes` must
// be what the lease has. Done when it returns.
gpulend_status gpulend_copy_from_host(gpulend_lease lease,
                                      const void *data,
                                      uint64_t bytes,
                                      gpulend_stream stream);

// Copies all elements of a lease to the host, row by row without gaps, as
// gpulend_copy_from_host(). Done when it returns.
gpulend_status gpulend_copy_to_host(gpulend_lease lease, void *data, uint64_t bytes, gpulend_stream stream);

// Copies the elements of a lease to another of the same shape and type. Between GPUs the copy is
// queued on `stream`, a stream of the target's GPU; with the host it is done when it returns.
gpulend_status gpulend_copy(gpulend_lease from, gpulend_lease to, gpulend_stream stream);

// Sets every element of a lease without gaps to the one at `element`, which has `bytes` bytes, as
// many as the element type. On a GPU that is queued on `stream`.
gpulend_status gpulend_fill(gpulend_lease lease, const void *element, uint64_t bytes, gpulend_stream stream);

// Takes a tensor of another library's over, which is released by its deleter when the last lease
// of it is gone. The tensor is no longer the caller's whatever the status: a refused one is
// released too. Its bytes are valid after what `stream` holds now.
gpulend_status gpulend_from_dlpack(struct DLManagedTensor *tensor,
                                   gpulend_stream stream,
                                   gpulend_lease *lease);

// As gpulend_from_dlpack(), for the versioned struct of DLPack 1.0, which can say that it is read-only.
gpulend_status gpulend_from_dlpack_versioned(struct DLManagedTensorVersioned *tensor,
                                             gpulend_stream stream,
                                             gpulend_lease *lease);

// Hands a lease out as a tensor, which the receiver releases by its deleter; the memory stays
// alive as long. Refused for read-only leases, which this struct cannot describe. `stream`, on
// which the receiver works, waits until the bytes are ready; memory that is shown as the host's is
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

// How many leases, slices and exports are alive in this process, Python's and Rust's too.
gpulend_status gpulend_live(uint64_t *count);

// Writes what is held, a line for each, as gpulend_dtype_name() writes: serial, kind, bytes,
// address, who, seconds, and the serial of the lease that it hangs on. The text may have grown
// when it is asked for again.
gpulend_status gpulend_ledger(char *text, uint64_t room, uint64_t *needed);

// Tells where compilers lie, for all calls after this one: the path of a clang or of zig, folders in
// which NVRTC may lie, and folders of CUDA's own headers, with a colon between several. NULL leaves
// what was told before. Besides, GPULEND_CLANG comes before that clang, GPULEND_ZIGLANG and PATH come
// after it; NVRTC is looked for where the loader looks, too, and both below CUDA_HOME, CUDA_PATH and
// /usr/local/cuda. Inside Python the packages ziglang and NVIDIA's are known already.
gpulend_status gpulend_set_compilers(const char *clang, const char *libraries, const char *headers);

// Compiles CUDA C++ for a GPU, or takes PTX, a cubin or a fatbin. It is loaded by the first launch, or
// by the first question that only the GPU can answer. If the source has mistakes, gpulend_last_error()
// has the compiler's words, with the source's own lines.
gpulend_status gpulend_compile(const struct gpulend_source *source, gpulend_module *module);

// Writes the names of a module's kernels, one a line, as gpulend_dtype_name() writes.
gpulend_status gpulend_module_names(gpulend_module module, char *text, uint64_t room, uint64_t *needed);

// Writes the names of a module's variables, one a line, as gpulend_dtype_name() writes.
gpulend_status gpulend_module_variables(gpulend_module module, char *text, uint64_t room, uint64_t *needed);

// Writes what the compiler warned of in the caller's own source, one a line with file, line and
// column, as gpulend_dtype_name() writes.
gpulend_status gpulend_module_warnings(gpulend_module module, char *text, uint64_t room, uint64_t *needed);

// A __device__ or __constant__ variable as a lease, with the type and the extents that it was declared
// with; bytes where these are not known. The module stays loaded as long as the lease.
gpulend_status gpulend_module_variable(gpulend_module module, const char *name, gpulend_lease *lease);

// A kernel by its name, its name and types, its symbol, or as an instance of a template:
// `scale<float>`. An instance that is not there is compiled; if the module is loaded already, into a
// module of its own, with variables of its own: name it in the source's `names` to have it in one.
gpulend_status gpulend_kernel_get(gpulend_module module, const char *name, gpulend_kernel *kernel);

// Gives the handle back. What is loaded stays so until its kernels and variables are given back too,
// and the GPU's work is done.
gpulend_status gpulend_module_free(gpulend_module module);

// Writes a kernel's name and parameters, as "add(const float* a, float* b, int n)", as
// gpulend_dtype_name() writes.
gpulend_status gpulend_kernel_signature(gpulend_kernel kernel, char *text, uint64_t room, uint64_t *needed);

// What a kernel needs and allows, as its GPU tells.
gpulend_status gpulend_kernel_attributes(gpulend_kernel kernel, struct gpulend_kernel_info *info);

// Queues a launch, after whatever the leases wait for; their memory is held until the kernel is done.
// Count, types, places and sizes are checked against the kernel's own parameters before: what does
// not suit is refused, and nothing is queued. What the kernel does wrong on the GPU is told by a
// later call that waits.
gpulend_status gpulend_launch(gpulend_kernel kernel,
                              const struct gpulend_launch_shape *shape,
                              const struct gpulend_argument *arguments,
                              uint64_t count);

// Queues a launch with a thread for each of `elements` elements, and some more in the last block, in
// blocks that fill the GPU best, as gpulend_launch(). For 0 elements nothing is launched.
gpulend_status gpulend_forall(gpulend_kernel kernel,
                              uint64_t elements,
                              const struct gpulend_argument *arguments,
                              uint64_t count,
                              gpulend_stream stream);

// Gives the handle back.
gpulend_status gpulend_kernel_free(gpulend_kernel kernel);

// Begins to measure what is queued on a stream from now on.
gpulend_status gpulend_timer_start(gpulend_stream stream, gpulend_timer *timer);

// Ends the measure: what is queued from now on is not part of it. Asked again, it ends later.
gpulend_status gpulend_timer_stop(gpulend_timer timer);

// Waits until the measured work is done, and tells how long the GPU took from start to stop.
gpulend_status gpulend_timer_milliseconds(gpulend_timer timer, double *milliseconds);

// Gives the handle back.
gpulend_status gpulend_timer_free(gpulend_timer timer);

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

/* A whole number for a parameter of any width, which it must fit. */
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

/* A number for a parameter that is a double, a float or a half. */
static inline gpulend_argument gpulend_double_argument(double number)
{
    gpulend_argument made = {GPULEND_ARGUMENT_DOUBLE, 0, 0};
    memcpy(&made.value, &number, sizeof number);
    return made;
}

/* A struct by value; it is read by the launch. */
static inline gpulend_argument gpulend_bytes_argument(const void *place, uint32_t bytes)
{
    gpulend_argument made = {GPULEND_ARGUMENT_BYTES, bytes, (uint64_t)(uintptr_t)place};
    return made;
}

#endif  /* GPULEND_ARGUMENTS */
