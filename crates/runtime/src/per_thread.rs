//! Functions whose stream 0 is the calling thread's own, for programs that are built with
//! `CUDA_API_PER_THREAD_DEFAULT_STREAM`: their headers give the plain names these names.

use std::ffi::{c_int, c_uint, c_void};

use crate::arrays::{
    cudaMemcpy2DFromArrayAsync, cudaMemcpy2DToArrayAsync, cudaMemcpyFromArrayAsync,
    cudaMemcpyToArrayAsync,
};
use crate::copies::{cudaMemcpyAsync, cudaMemcpyPeerAsync, cudaMemsetAsync};
use crate::driver::{Callback, HostFunction};
use crate::events::{cudaEventRecord, cudaEventRecordWithFlags};
use crate::graphs::{cudaGraphLaunch, cudaGraphUpload};
use crate::launch::{
    Dim3, LaunchConfig, cudaLaunchCooperativeKernel, cudaLaunchHostFunc, cudaLaunchKernel, launch,
};
use crate::memory::cudaMemPrefetchAsync;
use crate::pools::{cudaFreeAsync, cudaMallocAsync, cudaMallocFromPoolAsync};
use crate::slices::{
    Copy3dParameters, Extent, PitchedPointer, cudaMemcpy2DAsync, cudaMemcpy3DAsync,
    cudaMemset2DAsync, cudaMemset3DAsync,
};
use crate::streams::{
    cudaStreamAddCallback, cudaStreamAttachMemAsync, cudaStreamBeginCapture,
    cudaStreamCopyAttributes, cudaStreamEndCapture, cudaStreamGetAttribute,
    cudaStreamGetCaptureInfo, cudaStreamGetCaptureInfo_v2, cudaStreamGetFlags, cudaStreamGetId,
    cudaStreamGetPriority, cudaStreamIsCapturing, cudaStreamQuery, cudaStreamSetAttribute,
    cudaStreamSynchronize, cudaStreamUpdateCaptureDependencies, cudaStreamWaitEvent,
};
use crate::symbols::{cudaMemcpyFromSymbolAsync, cudaMemcpyToSymbolAsync};
use crate::wire::{Handle, In, Maybe, Out, runtime};

/// `cudaStreamPerThread`.
const OWN: Handle = 2;

const fn own(stream: Handle) -> Handle {
    if stream == 0 { OWN } else { stream }
}

/// Defines functions for C by others, which get another stream. Some wait for that stream then.
macro_rules! with_own_stream {
    ($(fn $name:ident($($argument:ident: $type:ty),*) = $of:ident($($passed:expr),*) $(then $wait:ident)?;)*) => {$(
        #[doc = concat!("`", stringify!($of), "` with the thread's own stream in the place of 0.")]
        ///
        /// # Safety
        ///
        /// As for that function.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "the names are CUDA's")]
        #[allow(clippy::too_many_arguments, reason = "they are CUDA's")]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
            // SAFETY: the contract.
            let status = unsafe { $of($($passed),*) };
            $(if status == 0 {
                // SAFETY: there are no pointers.
                return unsafe { $wait(OWN) };
            })?
            status
        }
    )*};
}

with_own_stream! {
    fn cudaMemcpyAsync_ptsz(to: usize, from: usize, count: usize, kind: c_int, stream: Handle)
        = cudaMemcpyAsync(to, from, count, kind, own(stream));
    fn cudaMemcpyPeerAsync_ptsz(to: u64, to_device: c_int, from: u64, from_device: c_int, count: usize, stream: Handle)
        = cudaMemcpyPeerAsync(to, to_device, from, from_device, count, own(stream));
    fn cudaMemsetAsync_ptsz(address: u64, value: c_int, count: usize, stream: Handle)
        = cudaMemsetAsync(address, value, count, own(stream));
    fn cudaMemcpy2DAsync_ptsz(to: usize, to_pitch: usize, from: usize, from_pitch: usize, width: usize, height: usize, kind: c_int, stream: Handle)
        = cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, kind, own(stream));
    fn cudaMemcpy3DAsync_ptsz(parameters: In<Copy3dParameters>, stream: Handle)
        = cudaMemcpy3DAsync(parameters, own(stream));
    fn cudaMemset2DAsync_ptsz(address: u64, pitch: usize, value: c_int, width: usize, height: usize, stream: Handle)
        = cudaMemset2DAsync(address, pitch, value, width, height, own(stream));
    fn cudaMemset3DAsync_ptsz(pointer: PitchedPointer, value: c_int, extent: Extent, stream: Handle)
        = cudaMemset3DAsync(pointer, value, extent, own(stream));
    fn cudaMemcpyToArrayAsync_ptsz(handle: Handle, x: usize, y: usize, from: usize, count: usize, kind: c_int, stream: Handle)
        = cudaMemcpyToArrayAsync(handle, x, y, from, count, kind, own(stream));
    fn cudaMemcpyFromArrayAsync_ptsz(to: usize, handle: Handle, x: usize, y: usize, count: usize, kind: c_int, stream: Handle)
        = cudaMemcpyFromArrayAsync(to, handle, x, y, count, kind, own(stream));
    fn cudaMemcpy2DToArrayAsync_ptsz(handle: Handle, x: usize, y: usize, from: u64, pitch: usize, width: usize, height: usize, kind: c_int, stream: Handle)
        = cudaMemcpy2DToArrayAsync(handle, x, y, from, pitch, width, height, kind, own(stream));
    fn cudaMemcpy2DFromArrayAsync_ptsz(to: u64, pitch: usize, handle: Handle, x: usize, y: usize, width: usize, height: usize, kind: c_int, stream: Handle)
        = cudaMemcpy2DFromArrayAsync(to, pitch, handle, x, y, width, height, kind, own(stream));
    fn cudaMemcpyToSymbolAsync_ptsz(symbol: *const c_void, from: usize, count: usize, offset: usize, kind: c_int, stream: Handle)
        = cudaMemcpyToSymbolAsync(symbol, from, count, offset, kind, own(stream));
    fn cudaMemcpyFromSymbolAsync_ptsz(to: usize, symbol: *const c_void, count: usize, offset: usize, kind: c_int, stream: Handle)
        = cudaMemcpyFromSymbolAsync(to, symbol, count, offset, kind, own(stream));
    fn cudaMemPrefetchAsync_ptsz(address: u64, bytes: usize, place: c_int, stream: Handle)
        = cudaMemPrefetchAsync(address, bytes, place, own(stream));
    fn cudaMallocFromPoolAsync_ptsz(address: Out<u64>, bytes: usize, pool: Handle, stream: Handle)
        = cudaMallocFromPoolAsync(address, bytes, pool, own(stream));
    fn cudaMallocAsync_ptsz(address: Out<u64>, bytes: usize, stream: Handle)
        = cudaMallocAsync(address, bytes, own(stream));
    fn cudaFreeAsync_ptsz(address: u64, stream: Handle)
        = cudaFreeAsync(address, own(stream));
    fn cudaEventRecord_ptsz(event: Handle, stream: Handle)
        = cudaEventRecord(event, own(stream));
    fn cudaEventRecordWithFlags_ptsz(event: Handle, stream: Handle, flags: c_uint)
        = cudaEventRecordWithFlags(event, own(stream), flags);
    fn cudaStreamQuery_ptsz(stream: Handle)
        = cudaStreamQuery(own(stream));
    fn cudaStreamSynchronize_ptsz(stream: Handle)
        = cudaStreamSynchronize(own(stream));
    fn cudaStreamWaitEvent_ptsz(stream: Handle, event: Handle, flags: c_uint)
        = cudaStreamWaitEvent(own(stream), event, flags);
    fn cudaStreamAddCallback_ptsz(stream: Handle, function: Callback, data: *mut c_void, flags: c_uint)
        = cudaStreamAddCallback(own(stream), function, data, flags);
    fn cudaStreamGetFlags_ptsz(stream: Handle, flags: Out<c_uint>)
        = cudaStreamGetFlags(own(stream), flags);
    fn cudaStreamGetPriority_ptsz(stream: Handle, priority: Out<c_int>)
        = cudaStreamGetPriority(own(stream), priority);
    fn cudaStreamGetId_ptsz(stream: Handle, id: Out<u64>)
        = cudaStreamGetId(own(stream), id);
    fn cudaStreamGetAttribute_ptsz(stream: Handle, which: c_int, value: Out<c_void>)
        = cudaStreamGetAttribute(own(stream), which, value);
    fn cudaStreamSetAttribute_ptsz(stream: Handle, which: c_int, value: In<c_void>)
        = cudaStreamSetAttribute(own(stream), which, value);
    fn cudaStreamAttachMemAsync_ptsz(stream: Handle, address: u64, bytes: usize, flags: c_uint)
        = cudaStreamAttachMemAsync(own(stream), address, bytes, flags);
    fn cudaStreamBeginCapture_ptsz(stream: Handle, mode: c_int)
        = cudaStreamBeginCapture(own(stream), mode);
    fn cudaStreamEndCapture_ptsz(stream: Handle, graph: Out<Handle>)
        = cudaStreamEndCapture(own(stream), graph);
    fn cudaStreamIsCapturing_ptsz(stream: Handle, status: Out<c_int>)
        = cudaStreamIsCapturing(own(stream), status);
    fn cudaStreamGetCaptureInfo_ptsz(stream: Handle, status: Out<c_int>, id: Maybe<u64>, graph: Maybe<Handle>, dependencies: Maybe<*const Handle>, count: Maybe<usize>)
        = cudaStreamGetCaptureInfo(own(stream), status, id, graph, dependencies, count);
    fn cudaStreamGetCaptureInfo_v2_ptsz(stream: Handle, status: Out<c_int>, id: Maybe<u64>, graph: Maybe<Handle>, dependencies: Maybe<*const Handle>, count: Maybe<usize>)
        = cudaStreamGetCaptureInfo_v2(own(stream), status, id, graph, dependencies, count);
    fn cudaStreamUpdateCaptureDependencies_ptsz(stream: Handle, dependencies: *mut Handle, count: usize, flags: c_uint)
        = cudaStreamUpdateCaptureDependencies(own(stream), dependencies, count, flags);
    fn cudaLaunchKernel_ptsz(function: *const c_void, grid: Dim3, block: Dim3, arguments: *mut *mut c_void, shared: usize, stream: Handle)
        = cudaLaunchKernel(function, grid, block, arguments, shared, own(stream));
    fn cudaLaunchCooperativeKernel_ptsz(function: *const c_void, grid: Dim3, block: Dim3, arguments: *mut *mut c_void, shared: usize, stream: Handle)
        = cudaLaunchCooperativeKernel(function, grid, block, arguments, shared, own(stream));
    fn cudaLaunchHostFunc_ptsz(stream: Handle, function: HostFunction, data: *mut c_void)
        = cudaLaunchHostFunc(own(stream), function, data);
    fn cudaGraphLaunch_ptsz(executable: Handle, stream: Handle)
        = cudaGraphLaunch(executable, own(stream));
    fn cudaGraphUpload_ptsz(executable: Handle, stream: Handle)
        = cudaGraphUpload(executable, own(stream));
    fn cudaStreamCopyAttributes_ptsz(to: Handle, from: Handle) = cudaStreamCopyAttributes(own(to), own(from));
    fn cudaMemcpy_ptds(to: usize, from: usize, count: usize, kind: c_int)
        = cudaMemcpyAsync(to, from, count, kind, OWN) then cudaStreamSynchronize;
    fn cudaMemcpyPeer_ptds(to: u64, to_device: c_int, from: u64, from_device: c_int, count: usize)
        = cudaMemcpyPeerAsync(to, to_device, from, from_device, count, OWN) then cudaStreamSynchronize;
    fn cudaMemset_ptds(address: u64, value: c_int, count: usize)
        = cudaMemsetAsync(address, value, count, OWN);
    fn cudaMemcpy2D_ptds(to: usize, to_pitch: usize, from: usize, from_pitch: usize, width: usize, height: usize, kind: c_int)
        = cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, kind, OWN) then cudaStreamSynchronize;
    fn cudaMemcpy3D_ptds(parameters: In<Copy3dParameters>)
        = cudaMemcpy3DAsync(parameters, OWN) then cudaStreamSynchronize;
    fn cudaMemset2D_ptds(address: u64, pitch: usize, value: c_int, width: usize, height: usize)
        = cudaMemset2DAsync(address, pitch, value, width, height, OWN);
    fn cudaMemset3D_ptds(pointer: PitchedPointer, value: c_int, extent: Extent)
        = cudaMemset3DAsync(pointer, value, extent, OWN);
    fn cudaMemcpyToArray_ptds(handle: Handle, x: usize, y: usize, from: usize, count: usize, kind: c_int)
        = cudaMemcpyToArrayAsync(handle, x, y, from, count, kind, OWN) then cudaStreamSynchronize;
    fn cudaMemcpyFromArray_ptds(to: usize, handle: Handle, x: usize, y: usize, count: usize, kind: c_int)
        = cudaMemcpyFromArrayAsync(to, handle, x, y, count, kind, OWN) then cudaStreamSynchronize;
    fn cudaMemcpy2DToArray_ptds(handle: Handle, x: usize, y: usize, from: u64, pitch: usize, width: usize, height: usize, kind: c_int)
        = cudaMemcpy2DToArrayAsync(handle, x, y, from, pitch, width, height, kind, OWN) then cudaStreamSynchronize;
    fn cudaMemcpy2DFromArray_ptds(to: u64, pitch: usize, handle: Handle, x: usize, y: usize, width: usize, height: usize, kind: c_int)
        = cudaMemcpy2DFromArrayAsync(to, pitch, handle, x, y, width, height, kind, OWN) then cudaStreamSynchronize;
    fn cudaMemcpyToSymbol_ptds(symbol: *const c_void, from: usize, count: usize, offset: usize, kind: c_int)
        = cudaMemcpyToSymbolAsync(symbol, from, count, offset, kind, OWN) then cudaStreamSynchronize;
    fn cudaMemcpyFromSymbol_ptds(to: usize, symbol: *const c_void, count: usize, offset: usize, kind: c_int)
        = cudaMemcpyFromSymbolAsync(to, symbol, count, offset, kind, OWN) then cudaStreamSynchronize;
}

runtime! {
    /// `cudaLaunchKernelExC` with the thread's own stream in the place of 0.
    fn cudaLaunchKernelExC_ptsz(configuration: In<LaunchConfig>, function: *const c_void, arguments: *mut *mut c_void) {
        launch(function, &configuration.get()?.on(own), arguments)
    }
}
