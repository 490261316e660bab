//! `Loaded`: a module in its device, and what the memory of its variables waits for.
//!
//! A kernel may read and write any variable of its module, so a module is an argument of its launches: each launch waits
//! for the work on the variables that were ever borrowed, and is itself noted as work on them. Before the first variable is
//! borrowed nothing is noted but that kernels were made ready to be launched; what was launched until then is waited for with
//! all work of the device.

use std::ffi::CString;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::abi::cuda::ModuleHandle;
use crate::driver::driver;
use crate::error::Error;
use crate::owner::Owner;
use crate::stream::{Open, Ready, Timeline, retire};

/// Some kernel of the module was found in the device, and may have been launched.
const LAUNCHED: u8 = 1;
/// Some variable of the module was borrowed.
const BORROWED: u8 = 2;

/// A module in its device.
#[derive(Debug)]
pub(crate) struct Loaded {
    device: u8,
    handle: ModuleHandle,
    captured: AtomicBool,
    /// `LAUNCHED` and `BORROWED`, as far as they happened.
    history: AtomicU8,
    variables: Mutex<Vec<Borrowed>>,
}

/// A variable that was borrowed at some time.
#[derive(Clone, Debug)]
pub(crate) struct Borrowed {
    symbol: CString,
    /// What its memory waits for: all leases of it share this.
    pub(crate) timeline: Arc<Timeline>,
    /// Whether a kernel may write it.
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

    /// What the memory of a variable waits for; `writes` says whether a kernel may write it.
    pub(super) fn timeline(&self, symbol: CString, writes: bool) -> Result<Arc<Timeline>, Error> {
        let mut variables = self.lock();
        if let Some(known) = variables.iter().find(|known| known.symbol == symbol) {
            return Ok(Arc::clone(&known.timeline));
        }
        let timeline = Arc::new(Timeline::new(self.device, Ready::Now, None)?);
        variables.push(Borrowed { symbol, timeline: Arc::clone(&timeline), writes });
        // In this order: a launch that does not see the variable yet is seen here.
        if self.history.fetch_or(BORROWED, Ordering::AcqRel) & LAUNCHED != 0 {
            timeline.note_hidden(writes, Open::No);
        }
        Ok(timeline)
    }

    /// Whether a launch needs to look at no variables. Asked once more when the launch is queued, it tells whether a variable
    /// was borrowed meanwhile, by somebody who cannot know of the launch.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.history.load(Ordering::Acquire) == LAUNCHED
    }

    /// Leaves word of a kernel that can be launched from now on.
    pub(crate) fn note_launches(&self) {
        self.history.fetch_or(LAUNCHED, Ordering::AcqRel);
    }

    /// The variables that were ever borrowed: a launch may touch them all.
    pub(crate) fn borrowed(&self) -> Vec<Borrowed> {
        if self.history.load(Ordering::Acquire) & BORROWED == 0 {
            return Vec::new();
        }
        self.lock().clone()
    }

    /// Notes that a graph may launch its kernels whenever it likes.
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
            // It fails only where the device is lost, and the module with it.
            let Ok(driver) = driver() else { return };
            let Ok(_entered) = driver.enter(device) else { return };
            let Ok(_relaxed) = driver.relax() else { return };
            // SAFETY: nobody holds the module, so no launch of it comes, and those before are done: see below.
            let _ = unsafe { driver.unload(handle) };
        });
        match Timeline::new(device, Ready::Now, None) {
            Ok(timeline) => {
                // Any stream may have had a launch of it.
                timeline.note_hidden(true, Open::No);
                retire(&timeline, owner);
            }
            // Left loaded, rather than unloaded under a kernel.
            Err(_) => mem::forget(owner),
        }
    }
}
