//! The threads that stage large copies: they start with the first one, sleep between two, and end with the process.
//!
//! A job stays in the queue until all of its pieces are taken. A thread joins the job that has the fewest threads, and
//! while several wait it changes after some pieces, so that a short copy does not wait for a long one.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::copy::staged::Job;
use crate::copy::worker::Worker;
use crate::fork::ProcessLock;

/// Says how many threads copy; 0 leaves all copies to the driver.
const VARIABLE: &str = "GPULEND_COPY_THREADS";
/// More threads than this do not fill a bus faster.
const MOST_THREADS: usize = 12;
/// With fewer cores the driver is as fast by itself.
const FEWEST_CORES: usize = 4;
/// The most that the setting may ask for.
const MOST_ASKED: usize = 64;
/// How long the process waits at exit for the pieces that are being moved.
const LAST_WAIT: Duration = Duration::from_secs(5);

struct Crew {
    jobs: Vec<Arc<Job>>,
    threads: usize,
    /// How many of them are at work.
    busy: usize,
    /// Whether the exit function is registered.
    ended_at_exit: bool,
}

static CREW: ProcessLock<Crew> = ProcessLock::with(
    Crew { jobs: Vec::new(), threads: 0, busy: 0, ended_at_exit: false },
    |crew| {
        // The threads, and the driver that the jobs would call, are the parent's.
        mem::forget(mem::take(&mut crew.jobs));
        (crew.threads, crew.busy) = (0, 0);
        QUEUED.store(0, Ordering::Relaxed);
    },
);
/// Wakes threads that wait for a job.
static WAKE: Condvar = Condvar::new();
/// Wakes the exit function, which waits for threads that work.
static RESTED: Condvar = Condvar::new();
/// The length of the queue.
static QUEUED: AtomicUsize = AtomicUsize::new(0);
/// Whether the process ends: pinned memory and streams are about to go.
static ENDED: AtomicBool = AtomicBool::new(false);

/// How many threads stage a copy: as the setting says, or three quarters of the cores, and at most 12.
pub(super) fn size() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    let asked = std::env::var(VARIABLE).ok().and_then(|text| text.trim().parse::<usize>().ok());
    asked.map_or_else(
        || {
            // Asked once: the answer takes several system calls.
            let cores = CORES.get().copied().unwrap_or_else(|| {
                let cores = thread::available_parallelism().map_or(1, usize::from);
                *CORES.get_or_init(|| cores)
            });
            if cores < FEWEST_CORES { 0 } else { (cores * 3 / 4).min(MOST_THREADS) }
        },
        |asked| asked.min(MOST_ASKED),
    )
}

/// Whether the process ends.
pub(super) fn has_ended() -> bool {
    ENDED.load(Ordering::Relaxed)
}

/// Whether more than one job is in the queue.
pub(super) fn others_wait() -> bool {
    QUEUED.load(Ordering::Relaxed) > 1
}

/// Gives a job to the threads, of which `wanted` are started if they are not there. False if there are none, and the job
/// is not taken.
pub(super) fn submit(job: &Arc<Job>, wanted: usize) -> bool {
    let mut crew = CREW.lock();
    if has_ended() {
        return false;
    }
    if !mem::replace(&mut crew.ended_at_exit, true) {
        end_at_exit();
    }
    while crew.threads < wanted {
        if thread::Builder::new().name("gpulend-copy".into()).spawn(work).is_err() {
            break;
        }
        crew.threads += 1;
    }
    if crew.threads == 0 {
        return false;
    }
    crew.jobs.push(Arc::clone(job));
    QUEUED.store(crew.jobs.len(), Ordering::Relaxed);
    drop(crew);
    WAKE.notify_all();
    true
}

/// Takes a job off the queue.
pub(super) fn withdraw(job: &Arc<Job>) {
    let mut crew = CREW.lock();
    crew.jobs.retain(|queued| !Arc::ptr_eq(queued, job));
    QUEUED.store(crew.jobs.len(), Ordering::Relaxed);
}

fn work() {
    let mut worker = Worker::default();
    loop {
        let job = next();
        // A panic fails the job, and the thread goes on.
        let done = catch_unwind(AssertUnwindSafe(|| worker.work_on(&job)));
        job.leave(done.ok());
        drop(job);
        let mut crew = CREW.lock();
        crew.busy -= 1;
        let rests = crew.busy == 0;
        drop(crew);
        if rests {
            RESTED.notify_all();
        }
    }
}

/// Waits for a job, and joins it.
fn next() -> Arc<Job> {
    let mut crew = CREW.lock();
    loop {
        crew.jobs.retain(|job| !job.is_taken());
        QUEUED.store(crew.jobs.len(), Ordering::Relaxed);
        let fewest = crew.jobs.iter().min_by_key(|job| job.workers()).cloned();
        if let Some(job) = fewest.filter(|job| !has_ended() && job.join()) {
            crew.busy += 1;
            return job;
        }
        crew = WAKE.wait(crew).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Registers [`end`] for the end of the process. It runs before the driver's own exit function, which takes the pinned
/// memory away: that one was registered before, by `cuInit`.
fn end_at_exit() {
    extern "C" fn finish() {
        let _ = catch_unwind(end);
    }
    // SAFETY: the function is static, takes no arguments and catches every panic.
    let _ = unsafe { libc::atexit(finish) };
}

/// Stops all copies between two pieces.
fn end() {
    ENDED.store(true, Ordering::Relaxed);
    let limit = Instant::now() + LAST_WAIT;
    let mut crew = CREW.lock();
    while crew.busy > 0 && Instant::now() < limit {
        let left = limit.saturating_duration_since(Instant::now());
        crew = RESTED.wait_timeout(crew, left).unwrap_or_else(PoisonError::into_inner).0;
    }
    // Jobs that no thread joined would wait for ever.
    let jobs = mem::take(&mut crew.jobs);
    drop(crew);
    jobs.iter().for_each(|job| job.stop());
}
