//! `Loaded`: a loaded module, and the timelines of its variables.
//!
//! A kernel may read and write every variable of its module. So each launch waits for the work on all
//! variables ever borrowed, and is noted in their timelines. Before the first borrow, only the fact that
//! kernels may have been launched is recorded. The first borrow then waits for all work of the device.

use std::ffi::CString;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::abi::cuda::ModuleHandle;
use crate::driver::driver;
use crate::error::Error;
use crate::owner::Owner;
use crate::stream::{Open, Ready, Timeline, release_after_all};

/// A kernel of the module was looked up, and may have been launched.
const LAUNCHED: u8 = 1;
/// A variable of the module was borrowed.
const BORROWED: u8 = 2;

/// A loaded module.
#[derive(Debug)]
pub(crate) struct Loaded {
    device: u8,
    handle: ModuleHandle,
    captured: AtomicBool,
    /// The bits `LAUNCHED` and `BORROWED`.
    history: AtomicU8,
    variables: Mutex<Vec<Borrowed>>,
}

/// A variable that was borrowed at some time.
#[derive(Clone, Debug)]
pub(crate) struct Borrowed {
    symbol: CString,
    /// Shared by all leases of the variable.
    pub(crate) timeline: Arc<Timeline>,
    /// Whether a kernel may write to it.
    pub(crate) writes: bool,
}

impl Loaded {
    pub(super) fn new(device: u8, handle: ModuleHandle) -> Self {
        Self {
            device,
            handle,
            captured: AtomicBool::new(false),
            history: AtomicU8::new(0),
            variables: Mutex::default(),
        }
    }

    pub(super) const fn handle(&self) -> ModuleHandle {
        self.handle
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Borrowed>> {
        self.variables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The timeline of a variable. `writes`: whether a kernel may write to it.
    pub(super) fn timeline(&self, symbol: CString, writes: bool) -> Result<Arc<Timeline>, Error> {
        let mut variables = self.lock();
        if let Some(known) = variables.iter().find(|known| known.symbol == symbol) {
            return Ok(Arc::clone(&known.timeline));
        }
        let timeline = Timeline::new(self.device, Ready::Now, None)?;
        variables.push(Borrowed { symbol, timeline: Arc::clone(&timeline), writes });
        // In this order: a launch that does not see the variable is seen here.
        if self.history.fetch_or(BORROWED, Ordering::AcqRel) & LAUNCHED != 0 {
            timeline.note_hidden(writes, Open::No);
        }
        Ok(timeline)
    }

    /// Whether a launch can ignore variables. A second call after queueing shows whether a variable was
    /// borrowed in between, by a thread that could not know of the launch.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.history.load(Ordering::Acquire) == LAUNCHED
    }

    /// Records that kernels may be launched from now on.
    pub(crate) fn note_launches(&self) {
        self.history.fetch_or(LAUNCHED, Ordering::AcqRel);
    }

    /// All variables ever borrowed: a launch may access any of them.
    pub(crate) fn borrowed(&self) -> Vec<Borrowed> {
        if self.history.load(Ordering::Acquire) & BORROWED == 0 {
            return Vec::new();
        }
        self.lock().clone()
    }

    /// Records that a graph may launch its kernels at any time.
    pub(crate) fn note_captured(&self) {
        self.captured.store(true, Ordering::Relaxed);
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        let (device, handle) = (self.device, self.handle);
        if self.captured.load(Ordering::Relaxed) {
            return;
        }
        let owner = Owner::call(move || {
            // Fails only if the device is lost, and the module with it.
            let Ok(driver) = driver() else { return };
            let Ok(_entered) = driver.enter(device) else { return };
            let Ok(_relaxed) = driver.relax() else { return };
            // SAFETY: nobody holds the module, so no launch of it comes, and those before are done: see below.
            let _ = unsafe { driver.unload(handle) };
        });
        // Any stream may have launched its kernels.
        release_after_all(device, owner);
    }
}
