//! What a thread and the process remember: the thread's device, and the primary contexts that were retained.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::driver::{Driver, opened};
use crate::error::{Error, Outcome};
use crate::wire::Handle;
use crate::{arrays, registry, textures};

/// The result of `cuInit`, which is called once.
static STARTED: OnceLock<Outcome<()>> = OnceLock::new();
/// The primary contexts by device. Each is retained once.
static PRIMARIES: Mutex<BTreeMap<c_int, Handle>> = Mutex::new(BTreeMap::new());
/// The number of device resets. A context that was current before one may be gone.
static RESETS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The device of `cudaSetDevice`.
    static DEVICE: Cell<c_int> = const { Cell::new(0) };
    /// The number of resets when this thread last had a look.
    static SEEN: Cell<u64> = const { Cell::new(0) };
    /// The primary context that we made current here, to know it again after a reset.
    static OURS: Cell<Handle> = const { Cell::new(0) };
}

/// Returns the number of device resets.
pub(crate) fn resets() -> u64 {
    RESETS.load(Ordering::Acquire)
}

/// Returns the driver, initialised. No context is made.
pub(crate) fn driver() -> Outcome<&'static Driver> {
    let driver = opened()?;
    // SAFETY: no flags are defined, so zero.
    (*STARTED.get_or_init(|| unsafe { driver.cuInit(0) }))?;
    Ok(driver)
}

/// A thread that calls: the driver, and the context that is current.
#[derive(Clone, Copy)]
pub(crate) struct Here {
    pub(crate) driver: &'static Driver,
    pub(crate) context: Handle,
}

/// Makes sure that a context is current: the one that is, or the primary one of the thread's device.
#[inline]
pub(crate) fn here() -> Outcome<Here> {
    let driver = driver()?;
    let context = current(driver)?;
    if context != 0 && !is_left_over(context) {
        return Ok(Here { driver, context });
    }
    let context = make_current(driver, chosen())?;
    Ok(Here { driver, context })
}

/// As `here`, for those who need no context handle.
#[inline]
pub(crate) fn enter() -> Outcome<&'static Driver> {
    here().map(|here| here.driver)
}

/// Returns the current context, or zero.
pub(crate) fn current(driver: &Driver) -> Outcome<Handle> {
    let mut context = 0;
    // SAFETY: one handle is written.
    unsafe { driver.cuCtxGetCurrent(&raw mut context) }?;
    Ok(context)
}

/// Returns whether a context is one of ours from before a reset by another thread.
fn is_left_over(context: Handle) -> bool {
    let resets = resets();
    SEEN.get() != resets && OURS.get() == context
}

fn chosen() -> c_int {
    DEVICE.get()
}

fn primaries() -> MutexGuard<'static, BTreeMap<c_int, Handle>> {
    PRIMARIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the driver's handle of a device.
pub(crate) fn device(driver: &Driver, index: c_int) -> Outcome<c_int> {
    let mut device = 0;
    // SAFETY: one handle is written.
    unsafe { driver.cuDeviceGet(&raw mut device, index) }?;
    Ok(device)
}

/// Returns the primary context of a device, and retains it at the first call.
pub(crate) fn primary(driver: &Driver, index: c_int) -> Outcome<Handle> {
    // Held during the call, so that two threads do not both retain it. It runs no code of the user.
    let mut primaries = primaries();
    if let Some(context) = primaries.get(&index) {
        return Ok(*context);
    }
    let device = device(driver, index)?;
    let mut context = 0;
    // SAFETY: one handle is written; the device is the driver's own.
    unsafe { driver.cuDevicePrimaryCtxRetain(&raw mut context, device) }?;
    primaries.insert(index, context);
    Ok(context)
}

/// Makes the primary context of a device current.
pub(crate) fn make_current(driver: &Driver, index: c_int) -> Outcome<Handle> {
    let seen = resets();
    let context = primary(driver, index)?;
    // SAFETY: the context is retained.
    unsafe { driver.cuCtxSetCurrent(context) }?;
    SEEN.set(seen);
    OURS.set(context);
    Ok(context)
}

/// Makes a device the thread's own.
pub(crate) fn choose(driver: &Driver, index: c_int) -> Outcome<()> {
    let mut count = 0;
    // SAFETY: one int is written.
    unsafe { driver.cuDeviceGetCount(&raw mut count) }?;
    if count == 0 {
        return Err(Error::NO_DEVICE);
    }
    if index < 0 || index >= count {
        return Err(Error::INVALID_DEVICE);
    }
    make_current(driver, index)?;
    DEVICE.set(index);
    Ok(())
}

/// Returns the number of the thread's device: that of the current context, or the chosen one.
pub(crate) fn index(driver: &Driver) -> Outcome<c_int> {
    if current(driver)? == 0 {
        return Ok(chosen());
    }
    let mut device = 0;
    // SAFETY: one device is written.
    unsafe { driver.cuCtxGetDevice(&raw mut device) }?;
    Ok(device)
}

/// Resets the thread's device: its memory, streams and modules are gone.
pub(crate) fn reset() -> Outcome<()> {
    let driver = driver()?;
    let index = index(driver)?;
    let device = device(driver, index)?;
    let retained = primaries().get(&index).copied();
    if let Some(context) = retained {
        // A lost context cannot be waited for, and is reset all the same.
        // SAFETY: the context is retained.
        let _ = unsafe { driver.cuCtxSetCurrent(context) };
        // SAFETY: there are no arguments.
        let _ = unsafe { driver.cuCtxSynchronize() };
        registry::forget(context);
        arrays::forget(context);
        textures::forget(context);
    }
    // Also if another thread reset the device before: this thread may still have its old context.
    let stale = OURS.get() != 0 && current(driver).is_ok_and(|now| now == OURS.get());
    let mut primaries = primaries();
    let context = primaries.remove(&index);
    // SAFETY: the caller of `cudaDeviceReset` says that nobody uses what it destroys.
    let outcome = unsafe { driver.cuDevicePrimaryCtxReset_v2(device) };
    if context.is_some() {
        // SAFETY: it was retained once, and this is the only release.
        let _ = unsafe { driver.cuDevicePrimaryCtxRelease_v2(device) };
    }
    if context.is_some() || stale {
        // SAFETY: zero is no context.
        let _ = unsafe { driver.cuCtxSetCurrent(0) };
    }
    RESETS.fetch_add(1, Ordering::AcqRel);
    OURS.set(0);
    DEVICE.set(index);
    outcome
}
