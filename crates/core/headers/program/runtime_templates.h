// The C++ side of the runtime's functions: typed pointers, kernels and variables by name.
#pragma once

#define __GPULEND_HOST static inline

// A C cast: what is pointed to may be const.
template <class T> __GPULEND_HOST void **__gpulend_untyped(T **place) { return (void **)place; }

template <class T> __GPULEND_HOST cudaError_t cudaMalloc(T **pointer, size_t size) {
    return cudaMalloc(__gpulend_untyped(pointer), size);
}
template <class T> __GPULEND_HOST cudaError_t cudaMallocHost(T **pointer, size_t size, unsigned int flags = 0) {
    return cudaHostAlloc(__gpulend_untyped(pointer), size, flags);
}
template <class T> __GPULEND_HOST cudaError_t cudaHostAlloc(T **pointer, size_t size, unsigned int flags) {
    return cudaHostAlloc(__gpulend_untyped(pointer), size, flags);
}
template <class T> __GPULEND_HOST cudaError_t cudaHostGetDevicePointer(T **device, void *host, unsigned int flags) {
    return cudaHostGetDevicePointer(__gpulend_untyped(device), host, flags);
}
template <class T>
__GPULEND_HOST cudaError_t cudaMallocManaged(T **pointer, size_t size, unsigned int flags = cudaMemAttachGlobal) {
    return cudaMallocManaged(__gpulend_untyped(pointer), size, flags);
}
template <class T>
__GPULEND_HOST cudaError_t cudaMallocPitch(T **pointer, size_t *pitch, size_t width, size_t height) {
    return cudaMallocPitch(__gpulend_untyped(pointer), pitch, width, height);
}
template <class T> __GPULEND_HOST cudaError_t cudaMallocAsync(T **pointer, size_t size, cudaStream_t stream) {
    return cudaMallocAsync(__gpulend_untyped(pointer), size, stream);
}
template <class T>
__GPULEND_HOST cudaError_t cudaMallocFromPoolAsync(T **pointer, size_t size, cudaMemPool_t pool, cudaStream_t stream) {
    return cudaMallocFromPoolAsync(__gpulend_untyped(pointer), size, pool, stream);
}

// A variable goes by its own name: its address on the host stands for it.
template <class T> __GPULEND_HOST const void *__gpulend_symbol(const T &variable) {
    return const_cast<const char *>(&reinterpret_cast<const volatile char &>(variable));
}
template <class T>
__GPULEND_HOST cudaError_t cudaMemcpyToSymbol(const T &variable, const void *from, size_t count, size_t offset = 0,
                                              cudaMemcpyKind kind = cudaMemcpyHostToDevice) {
    return cudaMemcpyToSymbol(__gpulend_symbol(variable), from, count, offset, kind);
}
template <class T>
__GPULEND_HOST cudaError_t cudaMemcpyToSymbolAsync(const T &variable, const void *from, size_t count, size_t offset = 0,
                                                   cudaMemcpyKind kind = cudaMemcpyHostToDevice,
                                                   cudaStream_t stream = 0) {
    return cudaMemcpyToSymbolAsync(__gpulend_symbol(variable), from, count, offset, kind, stream);
}
template <class T>
__GPULEND_HOST cudaError_t cudaMemcpyFromSymbol(void *to, const T &variable, size_t count, size_t offset = 0,
                                                cudaMemcpyKind kind = cudaMemcpyDeviceToHost) {
    return cudaMemcpyFromSymbol(to, __gpulend_symbol(variable), count, offset, kind);
}
template <class T>
__GPULEND_HOST cudaError_t cudaMemcpyFromSymbolAsync(void *to, const T &variable, size_t count, size_t offset = 0,
                                                     cudaMemcpyKind kind = cudaMemcpyDeviceToHost,
                                                     cudaStream_t stream = 0) {
    return cudaMemcpyFromSymbolAsync(to, __gpulend_symbol(variable), count, offset, kind, stream);
}
template <class T> __GPULEND_HOST cudaError_t cudaGetSymbolAddress(void **address, const T &variable) {
    return cudaGetSymbolAddress(address, __gpulend_symbol(variable));
}
template <class T, class V> __GPULEND_HOST cudaError_t cudaGetSymbolAddress(V **address, const T &variable) {
    return cudaGetSymbolAddress(__gpulend_untyped(address), __gpulend_symbol(variable));
}
template <class T> __GPULEND_HOST cudaError_t cudaGetSymbolSize(size_t *size, const T &variable) {
    return cudaGetSymbolSize(size, __gpulend_symbol(variable));
}

template <class K> __GPULEND_HOST const void *__gpulend_kernel(K *kernel) {
    return reinterpret_cast<const void *>(kernel);
}
template <class K>
__GPULEND_HOST cudaError_t cudaLaunchKernel(K *kernel, dim3 grid, dim3 block, void **arguments, size_t shared = 0,
                                            cudaStream_t stream = 0) {
    return cudaLaunchKernel(__gpulend_kernel(kernel), grid, block, arguments, shared, stream);
}
template <class K>
__GPULEND_HOST cudaError_t cudaLaunchCooperativeKernel(K *kernel, dim3 grid, dim3 block, void **arguments,
                                                       size_t shared = 0, cudaStream_t stream = 0) {
    return cudaLaunchCooperativeKernel(__gpulend_kernel(kernel), grid, block, arguments, shared, stream);
}
template <class... Parameters, class... Arguments>
__GPULEND_HOST cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(Parameters...),
                                              Arguments &&...arguments) {
    // Converted to the parameters' types, whose bytes the launch reads.
    return [&](Parameters... converted) {
        void *places[sizeof...(Parameters) + 1] = {const_cast<void *>(__gpulend_symbol(converted))...};
        return cudaLaunchKernelExC(config, __gpulend_kernel(kernel), places);
    }(static_cast<Arguments &&>(arguments)...);
}
template <class K> __GPULEND_HOST cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, K *kernel) {
    return cudaFuncGetAttributes(attributes, __gpulend_kernel(kernel));
}
template <class K> __GPULEND_HOST cudaError_t cudaFuncSetAttribute(K *kernel, cudaFuncAttribute attribute, int value) {
    return cudaFuncSetAttribute(__gpulend_kernel(kernel), attribute, value);
}
template <class K> __GPULEND_HOST cudaError_t cudaFuncSetCacheConfig(K *kernel, cudaFuncCache config) {
    return cudaFuncSetCacheConfig(__gpulend_kernel(kernel), config);
}
template <class K> __GPULEND_HOST cudaError_t cudaFuncSetSharedMemConfig(K *kernel, cudaSharedMemConfig config) {
    return cudaFuncSetSharedMemConfig(__gpulend_kernel(kernel), config);
}
template <class K>
__GPULEND_HOST cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, K *kernel, int size,
                                                                         size_t shared) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, __gpulend_kernel(kernel), size, shared);
}
template <class K>
__GPULEND_HOST cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, K *kernel, int size,
                                                                                  size_t shared, unsigned int flags) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, __gpulend_kernel(kernel), size, shared,
                                                                  flags);
}
// The largest number of threads on a multiprocessor, over all sizes of a block that are whole warps.
template <class K, class Shared>
__GPULEND_HOST cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMem(int *grid, int *block, K *kernel,
                                                                          Shared shared, int limit = 0) {
    if (grid == nullptr || block == nullptr) return cudaErrorInvalidValue;
    int device = 0, processors = 0, most = 0;
    cudaFuncAttributes about;
    cudaError_t status = cudaGetDevice(&device);
    if (status == cudaSuccess)
        status = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    if (status == cudaSuccess) status = cudaFuncGetAttributes(&about, kernel);
    if (status != cudaSuccess) return status;
    int largest = limit > 0 && limit < about.maxThreadsPerBlock ? limit : about.maxThreadsPerBlock;
    // From a whole number of warps downwards, the limit itself first.
    for (int size = largest; size > 0; size = (size - 1) / 32 * 32) {
        int blocks = 0;
        status = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, size, shared(size));
        if (status != cudaSuccess) return status;
        if (blocks * size > most) {
            most = blocks * size;
            *block = size;
            *grid = blocks * processors;
        }
    }
    return most > 0 ? cudaSuccess : cudaErrorInvalidConfiguration;
}
template <class K>
__GPULEND_HOST cudaError_t cudaOccupancyMaxPotentialBlockSize(int *grid, int *block, K *kernel, size_t shared = 0,
                                                              int limit = 0) {
    return cudaOccupancyMaxPotentialBlockSizeVariableSMem(grid, block, kernel, [shared](int) { return shared; }, limit);
}
__GPULEND_HOST cudaError_t cudaEventCreate(cudaEvent_t *event, unsigned int flags) {
    return cudaEventCreateWithFlags(event, flags);
}

// Forms of other releases: before 12, and since 13.
__GPULEND_HOST cudaError_t cudaGraphInstantiate(cudaGraphExec_t *executable, cudaGraph_t graph, cudaGraphNode_t *at,
                                                char *log, size_t size) {
    if (at != nullptr) *at = nullptr;
    if (log != nullptr && size != 0) *log = 0;
    return cudaGraphInstantiate(executable, graph, 0);
}
__GPULEND_HOST cudaError_t cudaGraphExecUpdate(cudaGraphExec_t executable, cudaGraph_t graph, cudaGraphNode_t *at,
                                               cudaGraphExecUpdateResult *result) {
    cudaGraphExecUpdateResultInfo about = {};
    cudaError_t status = cudaGraphExecUpdate(executable, graph, &about);
    if (at != nullptr) *at = about.errorNode;
    if (result != nullptr) *result = about.result;
    return status;
}
__GPULEND_HOST int __gpulend_device(cudaMemLocation location) {
    return location.type == cudaMemLocationTypeDevice ? location.id : cudaCpuDeviceId;
}
__GPULEND_HOST cudaError_t cudaMemPrefetchAsync(const void *pointer, size_t count, cudaMemLocation location,
                                                unsigned int, cudaStream_t stream = 0) {
    return cudaMemPrefetchAsync(pointer, count, __gpulend_device(location), stream);
}
__GPULEND_HOST cudaError_t cudaMemAdvise(const void *pointer, size_t count, cudaMemoryAdvise advice,
                                         cudaMemLocation location) {
    return cudaMemAdvise(pointer, count, advice, __gpulend_device(location));
}

#undef __GPULEND_HOST
