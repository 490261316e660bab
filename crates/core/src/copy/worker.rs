//! One thread that stages copies: its pinned buffers, and a stream on each device.
//!
//! While the GPU copies from or to one buffer, the thread fills or empties the other. User memory is touched by this
//! thread alone; the GPU sees only the buffers.

use crate::copy::crew;
use crate::copy::host::move_bytes;
use crate::copy::past::move_past_cache;
use crate::copy::staged::{Direction, Job, Piece};
use crate::driver::{Driver, Rows, Side, driver};
use crate::error::Error;
use crate::stream::{Event, Stream};

/// Bytes of each buffer.
pub(super) const BUFFER: u64 = 4 << 20;
/// After this many pieces a thread looks whether another job needs it more.
const TURNS: usize = 16;

/// What a thread keeps between two jobs.
#[derive(Default)]
pub(super) struct Worker {
    buffers: Option<[u64; 2]>,
    stations: Vec<Station>,
    /// A stream whose work on the buffers could not be waited for.
    unsettled: Option<Stream>,
}

/// Why a thread stopped.
pub(super) struct Failure {
    pub(super) error: Error,
    /// A stream that may still read or write the device memory, because it could not be waited for.
    pub(super) unsettled: Option<Stream>,
}

/// An error before anything was queued.
impl From<Error> for Box<Failure> {
    fn from(error: Error) -> Self {
        Self::new(Failure { error, unsettled: None })
    }
}

/// A stream of one device, and an event for each buffer.
struct Station {
    stream: Stream,
    events: [Event; 2],
}

impl Station {
    fn on(device: u8) -> Result<Self, Error> {
        let stream = Stream::create(device, false)?;
        Ok(Self { stream, events: [Event::take(device)?, Event::take(device)?] })
    }
}

impl Worker {
    /// Moves pieces of a job until there are none, another job waits, or something fails. On return the GPU touches
    /// neither the buffers nor the device memory, except on the stream that a failure names.
    pub(super) fn work_on(&mut self, job: &Job) -> Result<(), Box<Failure>> {
        let driver = driver()?;
        let _relaxed = driver.relax().map_err(Error::from)?;
        let _entered = driver.enter(job.device())?;
        self.settle(driver)?;
        let buffers = self.buffers(driver)?;
        let station = self.station(job.device())?;
        // SAFETY: stream and event are alive, as every `Stream` and `Event` is.
        let begun = unsafe { driver.wait(station.stream.handle(), job.start().handle()) };
        let moved = begun.map_err(Error::from).and_then(|()| match job.direction() {
            Direction::Up => station.move_up(driver, job, buffers),
            Direction::Down => station.move_down(driver, job, buffers),
        });
        if moved.is_err() {
            job.stop();
        }
        self.unsettled = Some(station.stream.clone());
        let settled = self.settle(driver);
        let unsettled = self.unsettled.clone();
        moved.and(settled).map_err(|error| Box::new(Failure { error, unsettled }))
    }

    /// Waits until the GPU has left the buffers alone.
    fn settle(&mut self, driver: &'static Driver) -> Result<(), Error> {
        let Some(stream) = &self.unsettled else { return Ok(()) };
        let _entered = driver.enter(stream.device())?;
        // SAFETY: the stream is alive, as every `Stream` is.
        unsafe { driver.wait_for(stream.handle()) }?;
        self.unsettled = None;
        Ok(())
    }

    fn buffers(&mut self, driver: &'static Driver) -> Result<[u64; 2], Error> {
        if let Some(buffers) = self.buffers {
            return Ok(buffers);
        }
        // One block, so that a failure leaves no half behind.
        let bytes = 2 * BUFFER;
        let Some(first) = driver.allocate_pinned(bytes)? else {
            return Err(Error::OutOfMemory { bytes });
        };
        Ok(*self.buffers.insert([first, first + BUFFER]))
    }

    fn station(&mut self, device: u8) -> Result<&mut Station, Error> {
        let known = self.stations.iter().position(|station| station.stream.device() == device);
        let index = match known {
            Some(index) => index,
            None => {
                self.stations.push(Station::on(device)?);
                self.stations.len() - 1
            }
        };
        Ok(&mut self.stations[index])
    }
}

impl Station {
    fn move_up(&self, driver: &'static Driver, job: &Job, buffers: [u64; 2]) -> Result<(), Error> {
        for turn in 0_usize.. {
            let Some(piece) = next(job, turn) else { break };
            let (buffer, event) = (buffers[turn % 2], &self.events[turn % 2]);
            if turn >= 2 {
                // SAFETY: the event is alive.
                unsafe { driver.wait_for_event(event.handle()) }?;
            }
            for row in 0..piece.rows {
                let from = piece.host + row * piece.host_pitch;
                move_bytes(from, buffer + row * piece.width, piece.width);
            }
            self.queue(driver, job, &piece, buffer, event)?;
            job.count(&piece);
        }
        Ok(())
    }

    fn move_down(
        &self,
        driver: &'static Driver,
        job: &Job,
        buffers: [u64; 2],
    ) -> Result<(), Error> {
        let empty = |turn: usize, piece: &Piece| {
            // SAFETY: the event is alive.
            unsafe { driver.wait_for_event(self.events[turn % 2].handle()) }?;
            for row in 0..piece.rows {
                let to = piece.host + row * piece.host_pitch;
                move_past_cache(buffers[turn % 2] + row * piece.width, to, piece.width);
            }
            job.count(piece);
            Ok::<_, Error>(())
        };
        let mut before: Option<(usize, Piece)> = None;
        for turn in 0_usize.. {
            let piece = next(job, turn);
            if let Some(piece) = &piece {
                self.queue(driver, job, piece, buffers[turn % 2], &self.events[turn % 2])?;
            }
            if let Some((turn, piece)) = before {
                empty(turn, &piece)?;
            }
            let Some(piece) = piece else { break };
            before = Some((turn, piece));
        }
        Ok(())
    }

    /// Queues the copy between a buffer and the device, and an event after it.
    fn queue(
        &self,
        driver: &'static Driver,
        job: &Job,
        piece: &Piece,
        buffer: u64,
        event: &Event,
    ) -> Result<(), Error> {
        let device = Side::Device(job.device());
        let up = matches!(job.direction(), Direction::Up);
        let stream = self.stream.handle();
        if piece.rows == 1 {
            let (here, there) = ((buffer, Side::Host), (piece.device, device));
            let (to, from) = if up { (there, here) } else { (here, there) };
            // SAFETY: (1) the stream is alive; (2) the piece is inside the view of a lease that the caller of the job keeps
            // until this thread has left it, and the buffer is this thread's.
            unsafe { driver.copy(to, from, piece.width, stream) }?;
        } else {
            let (here, there) = ((buffer, piece.width), (piece.device, piece.device_pitch));
            let (to, from) = if up { (there, here) } else { (here, there) };
            let sides = if up { (Side::Host, device) } else { (device, Side::Host) };
            let rows = Rows {
                from: from.0,
                from_pitch: from.1,
                to: to.0,
                to_pitch: to.1,
                width: piece.width,
                height: piece.rows,
            };
            // SAFETY: as above.
            unsafe { driver.copy_rows(&rows, sides, stream) }?;
        }
        // SAFETY: both are alive, and of one context.
        Ok(unsafe { driver.record(event.handle(), stream) }?)
    }
}

/// The next piece, unless the thread is needed more elsewhere.
fn next(job: &Job, turn: usize) -> Option<Piece> {
    let changes = turn > 0 && turn.is_multiple_of(TURNS) && crew::others_wait();
    if changes { None } else { job.next() }
}
