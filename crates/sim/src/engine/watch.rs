//! The time limit of launches.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The launch must end: it failed.
pub(super) const FAILED: u32 = 1;
/// The launch must end: it exceeded its time limit.
pub(super) const LATE: u32 = 2;

/// The interval between checks while a launch runs.
const LOOK: Duration = Duration::from_millis(50);

type Watched = Vec<(Instant, Arc<AtomicU32>)>;

struct Watch {
    running: Mutex<Watched>,
    begun: Condvar,
}

static WATCH: LazyLock<Watch> = LazyLock::new(|| {
    // If no thread can be started, launches have no time limit.
    let _ = thread::Builder::new().name("gpulend-watch".to_owned()).spawn(watch);
    Watch { running: Mutex::new(Vec::new()), begun: Condvar::new() }
});

fn running() -> MutexGuard<'static, Watched> {
    WATCH.running.lock().unwrap_or_else(PoisonError::into_inner)
}

fn watch() {
    loop {
        let mut all = running();
        while all.is_empty() {
            all = WATCH.begun.wait(all).unwrap_or_else(PoisonError::into_inner);
        }
        let now = Instant::now();
        for (deadline, stop) in all.iter() {
            if now >= *deadline {
                // A launch that has failed keeps its reason.
                let _ = stop.compare_exchange(0, LATE, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
        drop(all);
        thread::sleep(LOOK);
    }
}

/// Stops a launch after a time, unless dropped before.
pub(super) struct Limit(Arc<AtomicU32>);

impl Limit {
    /// Starts to watch a launch. A limit of zero means none.
    pub(super) fn new(stop: &Arc<AtomicU32>, limit: Duration) -> Option<Self> {
        let deadline = Instant::now().checked_add(limit).filter(|_| !limit.is_zero())?;
        let mut all = running();
        all.push((deadline, Arc::clone(stop)));
        if all.len() == 1 {
            WATCH.begun.notify_one();
        }
        Some(Self(Arc::clone(stop)))
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        running().retain(|(_, stop)| !Arc::ptr_eq(stop, &self.0));
    }
}
