//! Copies between pageable host memory and a device, staged through pinned buffers by standing threads.
//!
//! A driver stages such a copy by itself, with one thread: some 8 GB/s, or 1 to 3 GB/s into new memory, whose pages that
//! thread has to touch first. A bus carries 55 GB/s. Twelve threads with buffers of their own fill it.
//!
//! **Order.** The caller makes its stream wait for the memory's users and records an event there. Each thread's stream waits
//! for that event. The call returns when every piece has arrived, so later users wait for nothing. Work that another
//! thread queues on the memory during the call is not ordered with it.
//!
//! **Failure.** The first error stops the job. No thread touches user memory after the call has returned. A stream whose
//! work could not be waited for is noted in the lease, so that the memory is not released under it.
//!
//! **In the background.** The job keeps both leases, and the caller returns. Later users of the device memory wait on the host
//! for a gate that the last thread opens: no stream can wait for an event that is not recorded yet, and one that waited for the
//! host could stop calls of the driver that the threads need.
//!
//! **Progress.** The caller, which waits, says how far the copy is: no thread of gpulend's runs code of others.
//!
//! **Bounds.** Two buffers of 4 MiB for each thread, kept until the process ends.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::abi::cuda::Status;
use crate::copy::worker::{BUFFER, Failure};
use crate::copy::{How, crew};
use crate::driver::driver;
use crate::error::Error;
use crate::lease::Lease;
use crate::stream::{Event, Gate, Open, Stream};

/// Smaller copies are left to the driver: waking threads takes longer than they save.
const SMALLEST: u64 = 4 << 20;
/// Smaller pieces cost more driver calls than they spread work.
const SMALLEST_PIECE: u64 = 256 << 10;

/// How often a long copy says how far it is.
const BETWEEN_REPORTS: Duration = Duration::from_millis(250);

/// Which way a copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// From the host to a device.
    Up,
    /// From a device to the host.
    Down,
}

/// Rows of bytes on the host and on a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    /// The address of the first row on the host.
    pub(super) host: u64,
    /// Bytes from one row to the next there.
    pub(super) host_pitch: u64,
    /// The address of the first row on the device.
    pub(super) device: u64,
    /// Bytes from one row to the next there.
    pub(super) device_pitch: u64,
    /// Bytes in each row.
    pub(super) width: u64,
    /// The number of rows.
    pub(super) height: u64,
}

/// Some rows of a block, or a part of one row: at most as much as a buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) host: u64,
    pub(super) host_pitch: u64,
    pub(super) device: u64,
    pub(super) device_pitch: u64,
    pub(super) width: u64,
    pub(super) rows: u64,
}

/// A block and how it is divided.
#[derive(Clone, Copy, Debug)]
struct Pieces {
    block: Block,
    /// Bytes of a row in a piece.
    width: u64,
    /// Rows in a piece.
    rows: u64,
}

impl Pieces {
    /// Divides a block into pieces of at most `most` bytes, where a row is not longer than a buffer.
    fn of(block: Block, most: u64) -> Self {
        let width = block.width.min(most);
        let rows = if width < block.width { 1 } else { (most / width).max(1) };
        Self { block, width, rows }
    }

    fn across(&self) -> u64 {
        self.block.width.div_ceil(self.width)
    }

    fn count(&self) -> u64 {
        self.across() * self.block.height.div_ceil(self.rows)
    }

    fn get(&self, index: u64) -> Option<Piece> {
        if index >= self.count() {
            return None;
        }
        let column = index % self.across() * self.width;
        let row = index / self.across() * self.rows;
        let Block { host, host_pitch, device, device_pitch, width, height } = self.block;
        Some(Piece {
            host: host + row * host_pitch + column,
            host_pitch,
            device: device + row * device_pitch + column,
            device_pitch,
            width: self.width.min(width - column),
            rows: self.rows.min(height - row),
        })
    }
}

/// A copy that threads work on.
pub(super) struct Job {
    direction: Direction,
    device: u8,
    pieces: Pieces,
    /// After which the device memory may be touched.
    start: Arc<Event>,
    /// The most threads that work on it.
    seats: usize,
    /// The next piece that nobody has taken.
    next: AtomicU64,
    /// Bytes that were moved.
    moved: AtomicU64,
    stopped: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
    /// What it does at its end if nobody waits for it.
    background: Mutex<Option<Background>>,
}

/// What a copy in the background keeps until it is over.
struct Background {
    from: Lease,
    to: Lease,
    gate: Arc<Gate>,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Job({:?} on cuda:{})", self.direction, self.device)
    }
}

#[derive(Default)]
struct State {
    workers: usize,
    /// Whether the caller has returned, so that nobody may join.
    closed: bool,
    error: Option<Error>,
    unsettled: Vec<Stream>,
}

impl Job {
    fn new(
        block: Block,
        direction: Direction,
        start: Arc<Event>,
        background: Option<Background>,
    ) -> Arc<Self> {
        let seats = crew::size().max(1);
        let share = block.width * block.height / (2 * seats as u64);
        let most = share.next_multiple_of(SMALLEST_PIECE).clamp(SMALLEST_PIECE, BUFFER);
        Arc::new(Self {
            direction,
            device: start.device(),
            pieces: Pieces::of(block, most),
            start,
            seats,
            next: AtomicU64::new(0),
            moved: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            state: Mutex::default(),
            changed: Condvar::new(),
            background: Mutex::new(background),
        })
    }

    pub(super) fn direction(&self) -> Direction {
        self.direction
    }

    pub(super) fn device(&self) -> u8 {
        self.device
    }

    pub(super) fn start(&self) -> &Event {
        &self.start
    }

    /// Takes a piece; `None` if all are taken, or the job was stopped.
    pub(super) fn next(&self) -> Option<Piece> {
        if crew::has_ended() {
            self.stop();
        }
        if self.is_taken() {
            return None;
        }
        self.pieces.get(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Counts a piece that was moved.
    pub(super) fn count(&self, piece: &Piece) {
        self.moved.fetch_add(piece.width * piece.rows, Ordering::Relaxed);
    }

    /// Whether there is nothing left to take.
    pub(super) fn is_taken(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
            || self.next.load(Ordering::Relaxed) >= self.pieces.count()
    }

    /// Lets nobody take another piece.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        // A caller that waits for the first thread.
        let over = self.state().workers == 0;
        self.changed.notify_all();
        if over {
            self.finish();
        }
    }

    /// How many threads work on it.
    pub(super) fn workers(&self) -> usize {
        self.state().workers
    }

    /// Joins it, if there is a piece and a seat left.
    pub(super) fn join(&self) -> bool {
        let mut state = self.state();
        let joins = !state.closed && !self.is_taken() && state.workers < self.seats;
        state.workers += usize::from(joins);
        joins
    }

    /// Leaves it, with how that went: nothing if the thread panicked.
    pub(super) fn leave(&self, done: Option<Result<(), Box<Failure>>>) {
        let failure = match done {
            Some(done) => done.err(),
            None => refusal("a thread that stages copies", Status::UNKNOWN).map(Box::from),
        };
        if failure.is_some() {
            self.stop();
        }
        let mut state = self.state();
        if let Some(failure) = failure {
            state.unsettled.extend(failure.unsettled);
            state.error.get_or_insert(failure.error);
        }
        state.workers -= 1;
        let over = state.workers == 0 && self.is_taken();
        drop(state);
        self.changed.notify_all();
        if over {
            self.finish();
        }
    }

    /// Ends a copy in the background: nobody works on it any more. Does nothing for others, and the second time.
    fn finish(&self) {
        let background = self.background.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Background { from, to, gate }) = background else { return };
        let mut state = self.state();
        if state.error.is_none() && self.moved() < self.bytes() {
            state.error = Some(ended());
        }
        let unsettled = std::mem::take(&mut state.unsettled);
        drop(state);
        note_unsettled(&from, &to, &unsettled);
        // First: a lease that is dropped may wait for it.
        gate.open();
    }

    /// All bytes that it copies.
    const fn bytes(&self) -> u64 {
        self.pieces.block.width * self.pieces.block.height
    }

    /// Whether it is over.
    pub(super) fn is_over(&self) -> bool {
        self.is_taken() && self.workers() == 0
    }

    /// Waits until it is over, and says how it went. As often as one likes.
    pub(super) fn outcome(&self) -> Result<(), Error> {
        // A forked child has no threads that it could wait for.
        driver()?;
        let error = self.wait().error.clone();
        error.map_or(Ok(()), Err)
    }

    /// Bytes that were moved.
    fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    /// Says now and then how far it is, until it is done. An error of the listener stops it.
    fn watch(&self, how: &mut How<'_>) -> Result<(), Error> {
        let Some(progress) = &mut how.progress else { return Ok(()) };
        loop {
            let state = self.state();
            let waited = self.changed.wait_timeout_while(state, BETWEEN_REPORTS, |state| {
                state.workers > 0 || !self.is_taken()
            });
            let (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            drop(state);
            if !timeout.timed_out() {
                return Ok(());
            }
            progress(how.moved + self.moved(), how.total).inspect_err(|_| self.stop())?;
        }
    }

    /// Waits until no thread works on it and none will.
    fn wait(&self) -> MutexGuard<'_, State> {
        let mut state = self.state();
        while state.workers > 0 || !self.is_taken() {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.closed = true;
        state
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a job if the listener panics: no thread may touch the memory after that.
struct Unwinding<'a>(&'a Arc<Job>);

impl Drop for Unwinding<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stop();
            drop(self.0.wait());
            crew::withdraw(self.0);
        }
    }
}

/// Notes the streams that may still touch the device memory, so that it is not released under them.
pub(super) fn note_unsettled(from: &Lease, to: &Lease, streams: &[Stream]) {
    for (lease, writes) in [(from, false), (to, true)] {
        let Some(timeline) = lease.timeline() else { continue };
        streams.iter().for_each(|stream| timeline.note(stream, writes, Open::No));
    }
}

/// The error of a copy that the end of the process stopped.
fn ended() -> Error {
    refusal("a copy at the end of the process", Status::DEINITIALIZED).unwrap_or(Error::Released)
}

fn refusal(call: &'static str, status: Status) -> Option<Error> {
    Some(driver().ok()?.refusal(call, status).into())
}

/// Whether threads copy so many bytes faster than the driver does by itself, or as fast and say how far they are.
pub(super) fn is_worthwhile(bytes: u64, how: &How<'_>) -> bool {
    bytes >= SMALLEST && (crew::size() > 0 || how.progress.is_some())
}

/// Copies a block, and returns when it is done. False if no thread can do it: then nothing was changed, or a part of what
/// is to be copied.
///
/// # Safety
///
/// 1. The host's rows can be read, and for a copy down written, until the call returns; so can the device's, in the order of
///    `stream`.
/// 2. Nothing else writes what is read, or uses what is written, until then.
///
/// # Errors
///
/// The first that a thread met; with the streams whose work could not be waited for.
pub(super) unsafe fn copy(
    block: Block,
    direction: Direction,
    stream: &Stream,
    how: &mut How<'_>,
) -> Result<bool, (Error, Vec<Stream>)> {
    let start = stream.record().map_err(|error| (error, Vec::new()))?;
    let job = Job::new(block, direction, Arc::new(start), None);
    if !crew::submit(&job, job.seats) {
        return Ok(false);
    }
    let _unwinding = Unwinding(&job);
    let watched = job.watch(how);
    let mut state = job.wait();
    let (error, unsettled) = (state.error.take(), std::mem::take(&mut state.unsettled));
    drop(state);
    crew::withdraw(&job);
    how.moved += job.moved();
    if let Err(error) = watched {
        return Err((error, unsettled));
    }
    match error {
        // Without pinned memory the driver copies with what it has.
        Some(Error::OutOfMemory { .. }) if unsettled.is_empty() => Ok(false),
        Some(error) => Err((error, unsettled)),
        None if job.moved() == job.bytes() => Ok(true),
        None => Err((ended(), unsettled)),
    }
}

/// Starts to copy a block, and returns. The job keeps both leases until it is over. None if no thread can do it: then nothing
/// was changed.
///
/// # Safety
///
/// 1. The rows are of the two leases, one of which is memory of the host.
/// 2. Nothing else writes what is read, or uses what is written, until the job is over; work of streams that the lease of the
///    device is asked for may come: it waits.
///
/// # Errors
///
/// If the driver refuses.
pub(super) unsafe fn start(
    block: Block,
    direction: Direction,
    stream: &Stream,
    (from, to): (&Lease, &Lease),
) -> Result<Option<Arc<Job>>, Error> {
    let gate = Arc::new(Gate::default());
    let start = Arc::new(stream.record()?.behind(Arc::clone(&gate)));
    // First: who uses the memory from now on waits.
    for timeline in [from.timeline(), to.timeline()].into_iter().flatten() {
        timeline.wait_for_gate(Arc::clone(&start));
    }
    let background = Background { from: from.clone(), to: to.clone(), gate: Arc::clone(&gate) };
    let job = Job::new(block, direction, start, Some(background));
    if crew::submit(&job, job.seats) {
        return Ok(Some(job));
    }
    gate.open();
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(width: u64, height: u64) -> Block {
        let (host_pitch, device_pitch) = (width + 3, width + 7);
        Block { host: 1000, host_pitch, device: 9000, device_pitch, width, height }
    }

    #[test]
    fn every_byte_is_in_one_piece_and_no_piece_is_larger_than_a_buffer() {
        for (width, height) in [(1, 1), (1, 1000), (7, 13), (64, 1), (65, 2), (1000, 1), (33, 50)] {
            for most in [1, 2, 32, 64, 100, 4096] {
                let block = block(width, height);
                let pieces = Pieces::of(block, most);
                let mut seen = vec![0; usize::try_from(width * height).unwrap()];
                for index in 0..pieces.count() {
                    let piece = pieces.get(index).unwrap();
                    assert!(piece.width * piece.rows <= most, "{piece:?}");
                    for at in 0..piece.rows {
                        let host = piece.host + at * piece.host_pitch - block.host;
                        let device = piece.device + at * piece.device_pitch - block.device;
                        let (row, column) = (host / block.host_pitch, host % block.host_pitch);
                        assert_eq!(
                            (device / block.device_pitch, device % block.device_pitch),
                            (row, column)
                        );
                        for byte in column..column + piece.width {
                            seen[usize::try_from(row * width + byte).unwrap()] += 1;
                        }
                    }
                }
                assert_eq!(pieces.get(pieces.count()), None);
                assert!(seen.iter().all(|times| *times == 1), "{width} {height} {most}");
            }
        }
    }
}
