//! The time that launches may take.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A launch is to end: something went wrong.
pub(super) const FAILED: u32 = 1;
/// A launch is to end: it took too long.
pub(super) const LATE: u32 = 2;

/// How often the watch looks while something runs.
const LOOK: Duration = Duration::from_millis(50);

type Watched = Vec<(Instant, Arc<AtomicU32>)>;

struct Watch {
    running: Mutex<Watched>,
    begun: Condvar,
}

static WATCH: LazyLock<Watch> = LazyLock::new(|| {
    // Without a thread launches have no limit.
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

/// Tells a launch to stop after a time, unless this is dropped before.
pub(super) struct Limit(Arc<AtomicU32>);

impl Limit {
    /// Begins to watch a launch; a limit of zero is none.
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
