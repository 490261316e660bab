//! Slices and streams of the crate [cudarc](https://docs.rs/cudarc), in and out, without copies. Needs the feature `cudarc`.
//!
//! # Example
//!
//! ```no_run
//! use cudarc::driver::CudaContext;
//! use gpulend::{cudarc as lending, copy};
//!
//! let stream = CudaContext::new(0)?.new_stream()?;
//! let slice = stream.clone_htod(&[1.0_f32, 2.0, 3.0, 4.0])?;
//!
//! // In: the slice becomes a lease, which every consumer of gpulend and every kernel takes.
//! let lease = lending::lease(slice)?.reshaped(&[2, 2])?;
//!
//! // Out: any lease becomes views that cudarc's functions take. The stream waits for the work that made the bytes.
//! let mut lent = lending::lend::<f32>(&lease, &stream)?;
//! stream.memset_zeros(&mut lent.view_mut()?)?;
//! assert!(lease.check_unlent().is_err(), "the memory stays while it is lent");
//!
//! // After the last view, other users wait for what cudarc's streams did.
//! drop(lent);
//! assert_eq!(unsafe { copy::to_vec::<f32>(&lease) }?, [0.0; 4]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | cudarc | gpulend | by |
//! |---|---|---|
//! | [`CudaSlice<T>`](CudaSlice) | [`Lease`], its owner the slice | [`lease`] |
//! | [`CudaView<T>`](CudaView), [`CudaViewMut<T>`](CudaViewMut) | from any compact [`Lease`] | [`lend`] |
//! | [`Arc<CudaStream>`](CudaStream) | [`Stream`] | [`stream`] |
//! | [`Arc<CudaStream>`](CudaStream) | from any [`Stream`] | [`lend_stream`] |
//!
//! # Why it is built like this
//!
//! - **A slice goes in by value.** It owns its memory, and Rust then guarantees that nobody frees or writes it behind the lease. A slice
//!   that is refused comes back in [`Refused`].
//! - **Views come out, not slices.** A `CudaSlice` frees its memory when it is dropped, and safe code that has `&mut CudaSlice` can swap
//!   the slice out and drop it. [`Lent`] holds a slice that is never dropped, and shows views of it only.
//! - **Order.** cudarc orders its own streams by two events in each slice: after the last reads and after the last write. [`lease`] makes the
//!   slice's own stream wait for both, so that this stream stands for all of them. [`lend`] makes the given stream wait for gpulend's
//!   pending work and records the write event there, so that cudarc's other streams wait too. When a [`Lent`] is dropped, its stream
//!   waits for both events again.
//! - **Release.** cudarc frees a slice in the order of its stream, so a lease that only this stream used is released at once, and any
//!   other by the reaper after the work on it. cudarc frees in the calling thread's context, and a thread without one would lose the
//!   memory: all drops here make the primary context current, and restore the caller's.
//! - **Captures.** cudarc's waits would invalidate a capture of the slice's stream. A capturing stream is refused, and drops are left to
//!   the reaper until the capture is over.
//!
//! # Limits
//!
//! - Primary contexts only (`CudaContext::new`), because every framework uses those.
//! - While a [`Lent`] lives, gpulend knows the work on its own stream. Work on cudarc's other streams counts when it is dropped: drop it
//!   before others use the memory.
//! - cudarc records its events once the context has made a stream by `new_stream` or `fork`, and never after `disable_event_tracking`.
//!   Where it records none, the program must order cudarc's streams itself.
//! - A slice of a per-thread default stream must be leased on that stream's thread.
//! - cudarc loads `libcuda.so` by itself, and panics where there is none. To run on the simulated GPU, start the program by
//!   `gpulend run`; or, where no driver is installed, call [`simulate`](crate::driver::simulate) with
//!   [`expose`](crate::driver::Settings::expose) before anything of cudarc's.

use std::fmt;
use std::mem::{self, ManuallyDrop};
use std::sync::Arc;

use ::cudarc::driver::{
    CudaContext, CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut,
    DriverError as CudarcError,
};

use crate::abi::cuda::Status;
use crate::device::{Device, DeviceKind};
use crate::driver::{Entered, Relaxed, driver, is_forked};
use crate::error::{AddressError, Error, ExportError, LayoutError, ProtocolError};
use crate::import::raw::Claim;
use crate::lease::{Element, Export, Lease};
use crate::ledger::FixedName;
use crate::owner::Owner;
use crate::stream::{
    Ready, Stream, Timeline, is_capturing, is_deleting, is_reaper, refuse_capture, release_after,
};
use crate::view::View;

/// A slice that [`lease`] refused, and why. `?` keeps the error and frees the slice.
pub struct Refused<T> {
    /// The slice, as it was.
    pub slice: CudaSlice<T>,
    /// Why.
    pub error: Box<Error>,
}

impl<T> fmt::Debug for Refused<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let len = self.slice.len();
        out.debug_struct("Refused").field("len", &len).field("error", &self.error).finish()
    }
}

impl<T> fmt::Display for Refused<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(out)
    }
}

impl<T> std::error::Error for Refused<T> {}

impl<T> From<Refused<T>> for Error {
    fn from(refused: Refused<T>) -> Self {
        *refused.error
    }
}

/// Makes a lease of a slice, which is its owner from now on: one axis, as many elements as the slice has. [`Lease::reshaped`] gives
/// it more.
///
/// The slice's stream waits for what cudarc's other streams do with it; the host does not.
///
/// # Errors
///
/// If the slice belongs to a context that is not primary, its stream is capturing, or the driver does not know its memory. The
/// slice comes back.
pub fn lease<T: Element>(mut slice: CudaSlice<T>) -> Result<Lease, Refused<T>> {
    static WHO: FixedName = FixedName::new("cudarc::CudaSlice");
    let (view, home, timeline) = match enter(&mut slice) {
        Ok(entry) => entry,
        Err(error) => return Err(Refused { slice, error: Box::new(error) }),
    };
    let extent = view.extent();
    let nameable = home.stays_nameable();
    let owner =
        Owner::keep(Kept { value: ManuallyDrop::new(slice), end: drop, home, export: None });
    let lease = Lease::entered(view, extent, owner, WHO.get(), Some(timeline));
    if !nameable {
        // Another thread frees it on another stream: not before the work that this thread's has.
        lease.note_unseen_work();
    }
    Ok(lease)
}

/// Checks a slice, and makes its own stream wait for all of cudarc's work on it.
fn enter<T: Element>(slice: &mut CudaSlice<T>) -> Result<(View, Stream, Arc<Timeline>), Error> {
    let own = Arc::clone(slice.stream());
    let (device, is_primary) = place_of(own.context())?;
    let place = Device::new(DeviceKind::Cuda, device);
    let _guard = Guard::new(device)?;
    if !is_primary {
        let (address, _) = slice.device_ptr(&own);
        let context = handle_of(own.context());
        let device = place.to_string().into();
        return Err(AddressError::OtherContext { address, context, device }.into());
    }
    let home = stream(&own)?;
    refuse_capture(&home, "a slice of cudarc's is leased")?;
    // The event that this records on the stream changes nothing.
    let (address, _) = slice.device_ptr_mut(&own);
    check(own.context())?;
    let extent = i64::try_from(slice.len()).map_err(|_| LayoutError::Overflow { axis: 0 })?;
    let claim = Claim {
        address,
        shape: &[extent],
        strides: None,
        dtype: T::DTYPE,
        device: Some(place),
        readonly: false,
        check: true,
    };
    let view = claim.verify()?.view().clone();
    // Without a claim to compare at each hand-over: the slice, which is the owner, keeps the allocation.
    let timeline = Timeline::new(device, Ready::Home(home.clone()), None)?;
    Ok((view, home, timeline))
}

/// Memory of a lease that cudarc uses: its views. The lease is lent as long as this lives.
///
/// Dropping it makes its stream wait for the work that cudarc's other streams have on the memory, and frees nothing.
pub struct Lent<T: 'static> {
    kept: Kept<CudaSlice<T>>,
    readonly: bool,
}

impl<T: 'static> Lent<T> {
    /// The elements, to be read.
    #[must_use]
    pub fn view(&self) -> CudaView<'_, T> {
        self.kept.value.as_view()
    }

    /// The elements, to be read and written.
    ///
    /// # Errors
    ///
    /// If the lease is read-only.
    pub fn view_mut(&mut self) -> Result<CudaViewMut<'_, T>, Error> {
        if self.readonly {
            return Err(ExportError::WriteReadOnly.into());
        }
        Ok(self.kept.value.as_view_mut())
    }
}

impl<T: 'static> fmt::Debug for Lent<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let len = self.kept.value.len();
        write!(out, "Lent({len} elements on {:?})", self.kept.home)
    }
}

/// Lends memory to cudarc. `stream` waits for the work that made the bytes, the host does not; and later users of the lease wait for
/// the work that `stream` will have.
///
/// # Errors
///
/// If the lease has other elements than `T`, is not compact, or is not of the stream's device; if the stream's context is not primary,
/// or the stream is capturing; and as [`Lease::hand_to`].
///
/// # Panics
///
/// cudarc panics if the driver creates no event. That is asked for first, and an error; a panic needs an error that another thread
/// causes in between.
pub fn lend<T: Element>(lease: &Lease, stream: &Arc<CudaStream>) -> Result<Lent<T>, Error> {
    static WHO: FixedName = FixedName::new("cudarc");
    let home = self::stream(stream)?;
    let view = lease.view();
    let place = Device::new(DeviceKind::Cuda, home.device());
    if view.device() != place {
        let (found, wanted) = (view.device().to_string().into(), place.to_string().into());
        return Err(ExportError::Device { found, wanted }.into());
    }
    if view.dtype() != T::DTYPE {
        let (from, to) = (view.dtype().name().into(), T::DTYPE.name().into());
        let reason = "views of cudarc have the lease's own elements; `Lease::viewed` changes those";
        return Err(LayoutError::View { from, to, reason }.into());
    }
    // A view of cudarc's is one run of elements.
    let layout = view.layout();
    if !layout.is_compact() {
        let (from, strides) = (layout.shape().into(), layout.strides().into());
        let shape = [layout.size()].into();
        return Err(LayoutError::ReshapeCopies { from, strides, shape }.into());
    }
    let len = usize::try_from(layout.size()).map_err(|_| LayoutError::Overflow { axis: 0 })?;
    refuse_capture(&home, "memory is lent to cudarc")?;
    let handed = lease.hand_to(&home)?;
    let _guard = Guard::new(home.device())?;
    let context = stream.context();
    if context.is_event_tracking() {
        context.new_event(None).map_err(failed)?;
    }
    // SAFETY: the export keeps the bytes of the view, which were validated; every bit pattern is an element.
    let slice = unsafe { stream.upgrade_device_ptr::<T>(view.address(), len) };
    // At once: dropping it would free the memory.
    let value = ManuallyDrop::new(slice);
    let end = |slice: CudaSlice<T>| {
        slice.leak();
    };
    let export = Some(lease.export(WHO.get()));
    let kept = Kept { value, end, home, export };
    drop(handed);
    let mut lent = Lent { kept, readonly: view.readonly() };
    // Records the write event: cudarc's other streams wait for it, and so for what `stream` waits for.
    drop(lent.kept.value.device_ptr_mut(stream));
    check(context)?;
    Ok(lent)
}

/// A stream of cudarc's, which is kept alive.
///
/// # Errors
///
/// If its context is not primary.
pub fn stream(stream: &Arc<CudaStream>) -> Result<Stream, Error> {
    let device = primary_of(stream.context(), "stream")?;
    let number = stream.cu_stream().addr();
    // Default streams need no keeper.
    let keeper = || Owner::keep(Keeper { stream: Some(Arc::clone(stream)), device });
    let keeper = (number > 2).then(keeper);
    // SAFETY: (1) cudarc's stream belongs to its context, which is the primary one; (2) the keeper keeps it.
    Ok(unsafe { Stream::foreign(device, number, keeper) })
}

/// A stream of gpulend's or of another library for cudarc, which does not destroy it.
///
/// # Safety
///
/// 1. The stream lives until the result is dropped, with everything that holds it: its clones, slices that were allocated on it, and
///    what was lent or leased on it. A clone of `stream` that is kept as long is enough, unless it was made by [`Stream::named`].
/// 2. cudarc does not count it as a stream of its own. Unless the context has made one by `new_stream` or `fork`, cudarc orders
///    nothing between this stream and others: the caller does, for instance by `CudaStream::join`.
///
/// # Errors
///
/// If the context is not the primary one of the stream's device.
pub unsafe fn lend_stream(
    context: &Arc<CudaContext>,
    stream: &Stream,
) -> Result<Arc<CudaStream>, Error> {
    let device = primary_of(context, "context")?;
    if stream.device() != device {
        let problem = format!("is of cuda:{device}, and the stream of cuda:{}", stream.device());
        return Err(unfit("context", problem));
    }
    if stream.is_legacy() {
        return Ok(context.default_stream());
    }
    if stream.is_per_thread() {
        return Ok(context.per_thread_stream());
    }
    let handle = std::ptr::without_provenance_mut(stream.handle().0);
    // SAFETY: the stream is of this context; the rest is the contract.
    Ok(unsafe { context.wrap_borrowed_stream(handle) })
}

/// A slice that is dropped, or leaked, where the driver calls that this takes do no harm.
struct Kept<V: Send + 'static> {
    value: ManuallyDrop<V>,
    /// What becomes of it.
    end: fn(V),
    /// Its stream, kept alive.
    home: Stream,
    /// What is given back afterwards.
    export: Option<Export>,
}

impl<V: Send + 'static> Drop for Kept<V> {
    fn drop(&mut self) {
        // SAFETY: it is not used after this.
        let value = unsafe { ManuallyDrop::take(&mut self.value) };
        // The memory and the events are the parent's.
        if is_forked() {
            return mem::forget(value);
        }
        let deleting = is_deleting() && !is_reaper();
        if deleting || is_capturing(&self.home).unwrap_or(false) {
            let (end, home, export) = (self.end, self.home.clone(), self.export.take());
            let later = Self { value: ManuallyDrop::new(value), end, home, export };
            return release_after(self.home.clone(), Owner::keep(later));
        }
        // If the driver fails here, the device is lost; cudarc ignores it too.
        let _guard = Guard::new(self.home.device());
        (self.end)(value);
    }
}

/// Keeps a stream of cudarc's alive, and destroys it where that does no harm.
struct Keeper {
    stream: Option<Arc<CudaStream>>,
    device: u8,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // Others may hold it. Nobody can end a capture on a stream that nobody else holds, so it need not be asked.
        let Some(stream) = self.stream.take().and_then(Arc::into_inner) else { return };
        if is_forked() {
            return mem::forget(stream);
        }
        if is_deleting() && !is_reaper() {
            let later = Self { stream: Some(Arc::new(stream)), device: self.device };
            // Any stream will do: what matters is that the reaper does it.
            return release_after(Stream::legacy(self.device), Owner::keep(later));
        }
        let _guard = Guard::new(self.device);
        drop(stream);
    }
}

/// Around calls of cudarc's: they work in the primary context, the caller's context stays, and no capture is invalidated.
struct Guard {
    _relaxed: Relaxed,
    _entered: Entered,
}

impl Guard {
    fn new(device: u8) -> Result<Self, Error> {
        let driver = driver()?;
        Ok(Self { _entered: driver.shelter(device)?, _relaxed: driver.relax()? })
    }
}

/// The device of a context, and whether the context is the primary one that gpulend uses.
fn place_of(context: &CudaContext) -> Result<(u8, bool), Error> {
    let ordinal = context.ordinal();
    let unknown =
        |_| unfit("context", format!("is of device {ordinal}, which gpulend cannot name"));
    let device = u8::try_from(ordinal).map_err(unknown)?;
    let driver = driver()?;
    driver.require_device(device)?;
    Ok((device, driver.is_primary(handle_of(context), device)?))
}

/// The device of a context, if it is a primary one.
fn primary_of(context: &CudaContext, field: &'static str) -> Result<u8, Error> {
    let (device, is_primary) = place_of(context)?;
    if is_primary {
        return Ok(device);
    }
    let handle = handle_of(context);
    let problem = format!(
        "belongs to context {handle:#x}, which is not the primary context of cuda:{device}; \
         `CudaContext::new({device})` has that one"
    );
    Err(unfit(field, problem))
}

fn handle_of(context: &CudaContext) -> u64 {
    context.cu_ctx().addr() as u64
}

fn unfit(field: &'static str, problem: String) -> Error {
    ProtocolError::Field { protocol: "cudarc", field, problem: problem.into() }.into()
}

/// Calls of cudarc's that return nothing leave their errors in the context. After an earlier error they did nothing.
fn check(context: &CudaContext) -> Result<(), Error> {
    context.check_err().map_err(failed)
}

fn failed(error: CudarcError) -> Error {
    let status = Status(i32::try_from(error.0 as u32).unwrap_or(Status::UNKNOWN.0));
    match driver() {
        Ok(driver) => driver.refusal("a call by cudarc", status).into(),
        Err(error) => error,
    }
}
