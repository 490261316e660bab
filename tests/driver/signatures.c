/* Only compiled: the values and layouts of cuda.h that the simulated driver is built on.
 *
 * cc -std=c11 -Wall -Wextra -Werror -I<folder of cuda.h> -fsyntax-only signatures.c
 */
#include <cuda.h>
#include <stddef.h>

#define VALUE(name, number) _Static_assert((name) == (number), #name)
#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type)
#define AT(type, member, offset) _Static_assert(offsetof(type, member) == (offset), #type "." #member)

SIZE(CUdeviceptr, 8);
SIZE(CUdevice, 4);
SIZE(CUcontext, 8);
SIZE(CUresult, 4);
SIZE(CUuuid, 16);
SIZE(cuuint64_t, 8);

SIZE(CUDA_MEMCPY2D, 128);
AT(CUDA_MEMCPY2D, srcXInBytes, 0);
AT(CUDA_MEMCPY2D, srcY, 8);
AT(CUDA_MEMCPY2D, srcMemoryType, 16);
AT(CUDA_MEMCPY2D, srcHost, 24);
AT(CUDA_MEMCPY2D, srcDevice, 32);
AT(CUDA_MEMCPY2D, srcArray, 40);
AT(CUDA_MEMCPY2D, srcPitch, 48);
AT(CUDA_MEMCPY2D, dstXInBytes, 56);
AT(CUDA_MEMCPY2D, dstY, 64);
AT(CUDA_MEMCPY2D, dstMemoryType, 72);
AT(CUDA_MEMCPY2D, dstHost, 80);
AT(CUDA_MEMCPY2D, dstDevice, 88);
AT(CUDA_MEMCPY2D, dstArray, 96);
AT(CUDA_MEMCPY2D, dstPitch, 104);
AT(CUDA_MEMCPY2D, WidthInBytes, 112);
AT(CUDA_MEMCPY2D, Height, 120);

SIZE(CUDA_MEMCPY3D, 200);
AT(CUDA_MEMCPY3D, srcXInBytes, 0);
AT(CUDA_MEMCPY3D, srcY, 8);
AT(CUDA_MEMCPY3D, srcZ, 16);
AT(CUDA_MEMCPY3D, srcLOD, 24);
AT(CUDA_MEMCPY3D, srcMemoryType, 32);
AT(CUDA_MEMCPY3D, srcHost, 40);
AT(CUDA_MEMCPY3D, srcDevice, 48);
AT(CUDA_MEMCPY3D, srcArray, 56);
AT(CUDA_MEMCPY3D, reserved0, 64);
AT(CUDA_MEMCPY3D, srcPitch, 72);
AT(CUDA_MEMCPY3D, srcHeight, 80);
AT(CUDA_MEMCPY3D, dstXInBytes, 88);
AT(CUDA_MEMCPY3D, dstY, 96);
AT(CUDA_MEMCPY3D, dstZ, 104);
AT(CUDA_MEMCPY3D, dstLOD, 112);
AT(CUDA_MEMCPY3D, dstMemoryType, 120);
AT(CUDA_MEMCPY3D, dstHost, 128);
AT(CUDA_MEMCPY3D, dstDevice, 136);
AT(CUDA_MEMCPY3D, dstArray, 144);
AT(CUDA_MEMCPY3D, reserved1, 152);
AT(CUDA_MEMCPY3D, dstPitch, 160);
AT(CUDA_MEMCPY3D, dstHeight, 168);
AT(CUDA_MEMCPY3D, WidthInBytes, 176);
AT(CUDA_MEMCPY3D, Height, 184);
AT(CUDA_MEMCPY3D, Depth, 192);

SIZE(CUmemLocation, 8);
AT(CUmemLocation, type, 0);
AT(CUmemLocation, id, 4);

SIZE(CUmemPoolProps, 88);
AT(CUmemPoolProps, allocType, 0);
AT(CUmemPoolProps, handleTypes, 4);
AT(CUmemPoolProps, location, 8);
AT(CUmemPoolProps, win32SecurityAttributes, 16);
AT(CUmemPoolProps, maxSize, 24);
AT(CUmemPoolProps, usage, 32);
AT(CUmemPoolProps, reserved, 34);

SIZE(CUmemAccessDesc, 12);
AT(CUmemAccessDesc, location, 0);
AT(CUmemAccessDesc, flags, 8);

SIZE(CUstreamBatchMemOpParams, 48);
AT(CUstreamBatchMemOpParams, waitValue.operation, 0);
AT(CUstreamBatchMemOpParams, waitValue.address, 8);
AT(CUstreamBatchMemOpParams, waitValue.value, 16);
AT(CUstreamBatchMemOpParams, waitValue.value64, 16);
AT(CUstreamBatchMemOpParams, waitValue.flags, 24);
AT(CUstreamBatchMemOpParams, waitValue.alias, 32);
AT(CUstreamBatchMemOpParams, writeValue.address, 8);
AT(CUstreamBatchMemOpParams, writeValue.value64, 16);
AT(CUstreamBatchMemOpParams, writeValue.flags, 24);
AT(CUstreamBatchMemOpParams, memoryBarrier.flags, 4);

SIZE(CUdevprop, 56);
AT(CUdevprop, maxThreadsPerBlock, 0);
AT(CUdevprop, maxThreadsDim, 4);
AT(CUdevprop, maxGridSize, 16);
AT(CUdevprop, sharedMemPerBlock, 28);
AT(CUdevprop, totalConstantMemory, 32);
AT(CUdevprop, SIMDWidth, 36);
AT(CUdevprop, memPitch, 40);
AT(CUdevprop, regsPerBlock, 44);
AT(CUdevprop, clockRate, 48);
AT(CUdevprop, textureAlign, 52);

SIZE(CUctxCreateParams, 24);
AT(CUctxCreateParams, execAffinityParams, 0);
AT(CUctxCreateParams, numExecAffinityParams, 8);
AT(CUctxCreateParams, cigParams, 16);

SIZE(CUgraphEdgeData, 8);

VALUE(CUDA_SUCCESS, 0);
VALUE(CUDA_ERROR_INVALID_VALUE, 1);
VALUE(CUDA_ERROR_OUT_OF_MEMORY, 2);
VALUE(CUDA_ERROR_NOT_INITIALIZED, 3);
VALUE(CUDA_ERROR_DEINITIALIZED, 4);
VALUE(CUDA_ERROR_NO_DEVICE, 100);
VALUE(CUDA_ERROR_INVALID_DEVICE, 101);
VALUE(CUDA_ERROR_INVALID_IMAGE, 200);
VALUE(CUDA_ERROR_INVALID_CONTEXT, 201);
VALUE(CUDA_ERROR_UNSUPPORTED_LIMIT, 215);
VALUE(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, 217);
VALUE(CUDA_ERROR_INVALID_PTX, 218);
VALUE(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 222);
VALUE(CUDA_ERROR_INVALID_HANDLE, 400);
VALUE(CUDA_ERROR_ILLEGAL_STATE, 401);
VALUE(CUDA_ERROR_NOT_FOUND, 500);
VALUE(CUDA_ERROR_NOT_READY, 600);
VALUE(CUDA_ERROR_ILLEGAL_ADDRESS, 700);
VALUE(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, 705);
VALUE(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, 708);
VALUE(CUDA_ERROR_CONTEXT_IS_DESTROYED, 709);
VALUE(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712);
VALUE(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, 713);
VALUE(CUDA_ERROR_NOT_PERMITTED, 800);
VALUE(CUDA_ERROR_NOT_SUPPORTED, 801);
VALUE(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900);
VALUE(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, 901);
VALUE(CUDA_ERROR_STREAM_CAPTURE_MERGE, 902);
VALUE(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, 903);
VALUE(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, 904);
VALUE(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, 905);
VALUE(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, 906);
VALUE(CUDA_ERROR_CAPTURED_EVENT, 907);
VALUE(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, 908);
VALUE(CUDA_ERROR_UNKNOWN, 999);

VALUE(CU_STREAM_NON_BLOCKING, 1);
VALUE((size_t)CU_STREAM_LEGACY, 1);
VALUE((size_t)CU_STREAM_PER_THREAD, 2);
VALUE(CU_EVENT_BLOCKING_SYNC, 1);
VALUE(CU_EVENT_DISABLE_TIMING, 2);
VALUE(CU_EVENT_INTERPROCESS, 4);
VALUE(CU_EVENT_RECORD_EXTERNAL, 1);
VALUE(CU_EVENT_WAIT_EXTERNAL, 1);
VALUE(CU_CTX_MAP_HOST, 8);
VALUE(CU_CTX_SCHED_MASK, 7);
VALUE(CU_CTX_FLAGS_MASK, 0xFF);
VALUE(CU_MEMHOSTALLOC_PORTABLE, 1);
VALUE(CU_MEMHOSTALLOC_DEVICEMAP, 2);
VALUE(CU_MEMHOSTALLOC_WRITECOMBINED, 4);
VALUE(CU_MEMHOSTREGISTER_IOMEMORY, 4);
VALUE(CU_MEMHOSTREGISTER_READ_ONLY, 8);
VALUE(CU_MEM_ATTACH_GLOBAL, 1);
VALUE(CU_MEM_ATTACH_HOST, 2);
VALUE(CU_MEMORYTYPE_HOST, 1);
VALUE(CU_MEMORYTYPE_DEVICE, 2);
VALUE(CU_MEMORYTYPE_ARRAY, 3);
VALUE(CU_MEMORYTYPE_UNIFIED, 4);
VALUE(CU_MEM_LOCATION_TYPE_DEVICE, 1);
VALUE(CU_MEM_LOCATION_TYPE_HOST, 2);
VALUE(CU_MEM_ALLOCATION_TYPE_PINNED, 1);
VALUE(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, 3);
VALUE(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 1);
VALUE(CU_STREAM_CAPTURE_MODE_GLOBAL, 0);
VALUE(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, 1);
VALUE(CU_STREAM_CAPTURE_MODE_RELAXED, 2);
VALUE(CU_STREAM_CAPTURE_STATUS_ACTIVE, 1);
VALUE(CU_STREAM_CAPTURE_STATUS_INVALIDATED, 2);
VALUE(CU_STREAM_WAIT_VALUE_GEQ, 0);
VALUE(CU_STREAM_WAIT_VALUE_EQ, 1);
VALUE(CU_STREAM_WAIT_VALUE_AND, 2);
VALUE(CU_STREAM_WAIT_VALUE_NOR, 3);
VALUE(CU_STREAM_MEM_OP_WAIT_VALUE_32, 1);
VALUE(CU_STREAM_MEM_OP_WRITE_VALUE_32, 2);
VALUE(CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES, 3);
VALUE(CU_STREAM_MEM_OP_WAIT_VALUE_64, 4);
VALUE(CU_STREAM_MEM_OP_WRITE_VALUE_64, 5);
VALUE(CU_STREAM_MEM_OP_BARRIER, 6);
VALUE(CU_GET_PROC_ADDRESS_LEGACY_STREAM, 1);
VALUE(CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, 2);
VALUE(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, 1);
VALUE(CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT, 2);
VALUE(CU_GRAPH_NODE_TYPE_KERNEL, 0);
VALUE(CU_GRAPH_NODE_TYPE_MEMCPY, 1);
VALUE(CU_GRAPH_NODE_TYPE_MEMSET, 2);
VALUE(CU_GRAPH_NODE_TYPE_HOST, 3);
VALUE(CU_GRAPH_NODE_TYPE_WAIT_EVENT, 6);
VALUE(CU_GRAPH_NODE_TYPE_EVENT_RECORD, 7);
VALUE(CU_GRAPH_NODE_TYPE_MEM_ALLOC, 10);
VALUE(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, 12);

VALUE(CU_POINTER_ATTRIBUTE_CONTEXT, 1);
VALUE(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, 6);
VALUE(CU_POINTER_ATTRIBUTE_BUFFER_ID, 7);
VALUE(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, 11);
VALUE(CU_POINTER_ATTRIBUTE_RANGE_SIZE, 12);
VALUE(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, 17);
VALUE(CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, 20);
VALUE(CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, 1);
VALUE(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 4);
VALUE(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, 5);
VALUE(CU_MEMPOOL_ATTR_USED_MEM_HIGH, 8);
VALUE(CU_DEVICE_ATTRIBUTE_WARP_SIZE, 10);
VALUE(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 41);
VALUE(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75);
VALUE(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76);
VALUE(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 115);
VALUE(CU_LIMIT_STACK_SIZE, 0);
VALUE(CU_LIMIT_MALLOC_HEAP_SIZE, 2);

SIZE(CUlaunchConfig, 56);
AT(CUlaunchConfig, gridDimX, 0);
AT(CUlaunchConfig, blockDimX, 12);
AT(CUlaunchConfig, sharedMemBytes, 24);
AT(CUlaunchConfig, hStream, 32);
AT(CUlaunchConfig, attrs, 40);
AT(CUlaunchConfig, numAttrs, 48);
SIZE(CUlaunchAttribute, 72);
AT(CUlaunchAttribute, id, 0);
AT(CUlaunchAttribute, value, 8);
VALUE(CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 2);
VALUE(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, 4);
VALUE(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT, 7);
VALUE(CU_LAUNCH_ATTRIBUTE_PRIORITY, 8);
VALUE(CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION, 11);
VALUE(CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT, 12);
VALUE(CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE, 13);
_Static_assert((size_t)CU_LAUNCH_PARAM_END == 0, "end");
_Static_assert((size_t)CU_LAUNCH_PARAM_BUFFER_POINTER == 1, "pointer");
_Static_assert((size_t)CU_LAUNCH_PARAM_BUFFER_SIZE == 2, "size");
VALUE(CU_JIT_INFO_LOG_BUFFER, 3);
VALUE(CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, 4);
VALUE(CU_JIT_ERROR_LOG_BUFFER, 5);
VALUE(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, 6);
VALUE(CU_JIT_INPUT_CUBIN, 0);
VALUE(CU_JIT_INPUT_PTX, 1);
VALUE(CU_JIT_INPUT_LIBRARY, 4);
VALUE(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 0);
VALUE(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, 1);
VALUE(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, 2);
VALUE(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, 3);
VALUE(CU_FUNC_ATTRIBUTE_NUM_REGS, 4);
VALUE(CU_FUNC_ATTRIBUTE_PTX_VERSION, 5);
VALUE(CU_FUNC_ATTRIBUTE_BINARY_VERSION, 6);
VALUE(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 8);
VALUE(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 9);
VALUE(CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, 15);
VALUE(CU_FUNC_ATTRIBUTE_MAX, 16);
VALUE(CU_FUNC_CACHE_PREFER_EQUAL, 3);
VALUE(CU_FUNCTION_LOADING_STATE_LOADED, 1);

/* The order of arguments: a function pointer of another type does not compile. */
CUresult (*launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **,
                   void **) = cuLaunchKernel;
CUresult (*launch_ex)(const CUlaunchConfig *, CUfunction, void **, void **) = cuLaunchKernelEx;
CUresult (*load_ex)(CUmodule *, const void *, unsigned, CUjit_option *, void **) = cuModuleLoadDataEx;
CUresult (*load_library)(CUlibrary *, const void *, CUjit_option *, void **, unsigned, CUlibraryOption *, void **,
                         unsigned) = cuLibraryLoadData;
CUresult (*list_functions)(CUfunction *, unsigned, CUmodule) = cuModuleEnumerateFunctions;
CUresult (*list_kernels)(CUkernel *, unsigned, CUlibrary) = cuLibraryEnumerateKernels;
CUresult (*library_global)(CUdeviceptr *, size_t *, CUlibrary, const char *) = cuLibraryGetGlobal;
CUresult (*link_create)(unsigned, CUjit_option *, void **, CUlinkState *) = cuLinkCreate;
CUresult (*link_data)(CUlinkState, CUjitInputType, void *, size_t, const char *, unsigned, CUjit_option *, void **) =
    cuLinkAddData;
CUresult (*link_file)(CUlinkState, CUjitInputType, const char *, unsigned, CUjit_option *, void **) = cuLinkAddFile;
CUresult (*link_complete)(CUlinkState, void **, size_t *) = cuLinkComplete;
CUresult (*function_attribute)(int *, CUfunction_attribute, CUfunction) = cuFuncGetAttribute;
CUresult (*function_parameter)(CUfunction, size_t, size_t *, size_t *) = cuFuncGetParamInfo;
CUresult (*function_state)(CUfunctionLoadingState *, CUfunction) = cuFuncIsLoaded;
CUresult (*kernel_attribute)(int *, CUfunction_attribute, CUkernel, CUdevice) = cuKernelGetAttribute;
CUresult (*kernel_set)(CUfunction_attribute, int, CUkernel, CUdevice) = cuKernelSetAttribute;
CUresult (*kernel_cache)(CUkernel, CUfunc_cache, CUdevice) = cuKernelSetCacheConfig;
CUresult (*kernel_name)(const char **, CUkernel) = cuKernelGetName;
#if CUDA_VERSION > 13000
CUresult (*kernel_count)(CUkernel, size_t *) = cuKernelGetParamCount;
#endif
CUresult (*block_size)(int *, int *, CUfunction, CUoccupancyB2DSize, size_t, int, unsigned) =
    cuOccupancyMaxPotentialBlockSizeWithFlags;
CUresult (*active_blocks)(int *, CUfunction, int, size_t, unsigned) =
    cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags;
CUresult (*available)(size_t *, CUfunction, int, int) = cuOccupancyAvailableDynamicSMemPerBlock;
