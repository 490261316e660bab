//! What the tests have in common.

use std::ptr;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr, result, sys};
use gpulend::cudarc::stream;
use gpulend::driver::{Settings, passport, simulate};
use gpulend::import::raw::{Claim, wrap_checked};
use gpulend::ledger::Name;
use gpulend::stream::{Ready, Stream};
use gpulend::{Device, DeviceKind, Dtype, Error, Lease, Owner, copy, pool};

/// cudarc's context of the first GPU, and the right to use it: captures and the reaper are the process's.
pub(crate) struct Setup {
    pub(crate) context: Arc<CudaContext>,
    _turn: MutexGuard<'static, ()>,
}

impl Setup {
    pub(crate) fn new() -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        simulate(&Settings { devices: Some(2), expose: true, ..Settings::default() }).unwrap();
        let context = CudaContext::new(0).unwrap();
        let same = stream(&context.default_stream()).is_ok();
        assert!(same, "cudarc loads another driver: LD_LIBRARY_PATH must name the simulated GPU's");
        Self { context, _turn: turn }
    }

    /// As many streams, none of which waits for another or for a default stream.
    pub(crate) fn streams<const N: usize>(&self) -> [Arc<CudaStream>; N] {
        [(); N].map(|()| self.context.new_stream().unwrap())
    }
}

pub(crate) fn gpu(index: u8) -> Device {
    Device::new(DeviceKind::Cuda, index)
}

/// A slice of a stream that holds `value` four times, after all work.
pub(crate) fn slice_of(stream: &Arc<CudaStream>, value: i32) -> CudaSlice<i32> {
    let slice = stream.clone_htod(&[value; 4]).unwrap();
    stream.synchronize().unwrap();
    slice
}

/// Memory of gpulend's that holds `value` four times, after all work.
pub(crate) fn memory_of(value: i32) -> Lease {
    let lease = pool::empty(&[4], Dtype::INT32, gpu(0)).unwrap();
    fill(&lease, value);
    Stream::legacy(0).synchronize().unwrap();
    lease
}

/// Queues a fill on gpulend's current stream.
pub(crate) fn fill(lease: &Lease, value: i32) {
    // SAFETY: what works on it meanwhile does so on streams that the lease knows.
    unsafe { copy::fill(lease, &value.to_ne_bytes()) }.unwrap();
}

pub(crate) fn values(lease: &Lease) -> Vec<i32> {
    // SAFETY: as `fill`.
    unsafe { copy::to_vec::<i32>(lease) }.unwrap()
}

pub(crate) fn address_of<T>(slice: &CudaSlice<T>) -> u64 {
    slice.device_ptr(slice.stream()).0
}

pub(crate) fn is_allocated(address: u64) -> bool {
    matches!(passport(address), Ok(Some(_)))
}

/// Until the reaper has come by.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..5000 {
        if is_so() {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("{what} never came");
}

/// Keeps the reaper busy until the result is dropped.
pub(crate) fn hold_reaper() -> Sender<()> {
    let memory = memory_of(0);
    let claim = Claim {
        address: memory.view().address(),
        shape: &[4],
        strides: None,
        dtype: Dtype::INT32,
        device: Some(gpu(0)),
        readonly: false,
        check: true,
    };
    let ((began, beginning), (release, end)) = (channel(), channel());
    let owner = Owner::call(move || {
        drop(memory);
        began.send(()).unwrap();
        let _ = end.recv();
    });
    let checked = claim.verify().unwrap();
    // SAFETY: the owner keeps the memory, and nobody else knows it.
    let lease =
        unsafe { wrap_checked(checked, || owner, Some(Ready::Now), Name::intern("a test")) };
    let lease = lease.unwrap();
    lease.used_on(&Stream::legacy(0)).unwrap();
    drop(lease);
    beginning.recv().unwrap();
    release
}

/// A context of the first GPU that is not its primary one; none is current afterwards.
pub(crate) fn other_context() -> Arc<CudaContext> {
    type Create =
        unsafe extern "C" fn(*mut sys::CUcontext, u32, sys::CUdevice) -> sys::cudaError_enum;
    let mut context = ptr::null_mut();
    // Not by cudarc's own functions: newer versions of CUDA have none.
    // SAFETY: the library is loaded, and is never unloaded.
    let library = unsafe { sys::culib() };
    // SAFETY: the type is that of `cuda.h`.
    let create = unsafe { library.get::<Create>(b"cuCtxCreate_v2") }.unwrap();
    // SAFETY: one handle is written; the device is the first.
    unsafe { create(&raw mut context, 0, 0) }.result().unwrap();
    // SAFETY: it is new, and belongs to the result.
    let made = unsafe { CudaContext::from_raw_context(0, 0, context) }.unwrap();
    set_current(None);
    made
}

pub(crate) fn set_current(context: Option<&CudaContext>) {
    let handle = context.map_or(ptr::null_mut(), CudaContext::cu_ctx);
    // SAFETY: none, or one that lives.
    unsafe { result::ctx::set_current(handle) }.unwrap();
}

pub(crate) fn current() -> Option<sys::CUcontext> {
    result::ctx::get_current().unwrap()
}

pub(crate) fn code<T>(found: Result<T, impl Into<Error>>) -> u32 {
    found.map_or_else(|error| error.into().code(), |_| 0)
}
