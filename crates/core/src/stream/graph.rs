//! `Capturing` and `Graph`: work that is captured once, and launched as often as one likes.
//!
//! A graph keeps what its work uses, and each of its launches is ordered like that of a kernel: its stream waits for the work
//! on that memory, and the next user of the memory waits for the launch.

use std::ffi::c_int;
use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use crate::abi::cuda::{
    CAPTURE_MODE_GLOBAL, CAPTURE_MODE_RELAXED, CAPTURE_MODE_THREAD_LOCAL, GraphExecHandle,
};
use crate::device::{Device, DeviceKind};
use crate::driver::{Capture, driver};
use crate::error::hint::CaptureHint;
use crate::error::{DriverError, Error, SignatureError};
use crate::owner::Owner;
use crate::stream::order::{legacy_in_capture, note_capture, refuse_capture};
use crate::stream::ready::Ready;
use crate::stream::reaper::retire;
use crate::stream::recording::Recording;
use crate::stream::stream::Stream;
use crate::stream::timeline::Timeline;

/// Whose calls that cannot be captured invalidate a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Those of every thread.
    Global,
    /// Those of the thread that captures.
    ThreadLocal,
    /// Nobody's.
    Relaxed,
}

impl Mode {
    /// The mode of this name: `global`, `thread-local` or `relaxed`.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "global" => Some(Self::Global),
            "thread-local" => Some(Self::ThreadLocal),
            "relaxed" => Some(Self::Relaxed),
            _ => None,
        }
    }

    const fn code(self) -> c_int {
        match self {
            Self::Global => CAPTURE_MODE_GLOBAL,
            Self::ThreadLocal => CAPTURE_MODE_THREAD_LOCAL,
            Self::Relaxed => CAPTURE_MODE_RELAXED,
        }
    }
}

/// A capture that is under way. Dropping it ends the capture, and what was captured is lost.
pub struct Capturing {
    stream: Stream,
    number: u64,
    recording: Recording,
    over: bool,
}

impl Capturing {
    /// Captures the work that is queued on a stream from now on, instead of running it.
    ///
    /// # Errors
    ///
    /// If the stream is the legacy one, is being captured already, or the driver refuses.
    pub fn begin(stream: Stream, mode: Mode) -> Result<Self, Error> {
        const PROBLEM: &str = "the stream is being captured already";
        let driver = driver()?;
        let _entered = driver.enter(stream.device())?;
        if stream.is_legacy() {
            return Err(legacy_in_capture());
        }
        if stream.capture()? != Capture::No {
            let (what, hint) = ("a capture begins", CaptureHint::Outside);
            return Err(DriverError::Captured { what, problem: PROBLEM, hint }.into());
        }
        // SAFETY: alive, as every `Stream` is.
        unsafe { driver.begin(stream.handle(), mode.code()) }?;
        // From here on dropping it ends the capture.
        let mut begun = Self { stream, number: 0, recording: Recording::default(), over: false };
        let found = begun.stream.capture()?;
        note_capture(&begun.stream, found);
        if let Capture::Active(number) = found {
            (begun.number, begun.recording) = (number, Recording::open(number));
        }
        Ok(begun)
    }

    /// The stream that is captured.
    #[must_use]
    pub const fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Ends the capture.
    ///
    /// # Errors
    ///
    /// If the capture was invalidated, or another stream that became part of it was not joined.
    pub fn end(mut self) -> Result<Graph, Error> {
        self.over = true;
        Recording::close(self.number);
        let device = self.stream.device();
        let driver = driver()?;
        let _entered = driver.enter(device)?;
        // SAFETY: alive, as every `Stream` is.
        let graph = unsafe { driver.end(self.stream.handle()) }?;
        let _relaxed = driver.relax()?;
        // SAFETY: the graph is new, and only here.
        let executable = unsafe { driver.instantiate(graph) }?;
        let timeline = Timeline::new(device, Ready::Now, None)?;
        let recording = mem::take(&mut self.recording);
        Ok(Graph { device, executable, recording, timeline, launching: Mutex::new(()) })
    }
}

impl Drop for Capturing {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        self.over = true;
        Recording::close(self.number);
        // If the driver refuses, the capture was invalidated, and there is no graph.
        let Ok(driver) = driver() else { return };
        let Ok(_entered) = driver.enter(self.stream.device()) else { return };
        // SAFETY: alive, as every `Stream` is.
        let Ok(graph) = (unsafe { driver.end(self.stream.handle()) }) else { return };
        // SAFETY: the graph is new, and only here.
        let _ = unsafe { driver.discard(graph) };
    }
}

impl fmt::Debug for Capturing {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Capturing({:?})", self.stream)
    }
}

/// Captured work, ready to be launched. Dropping it releases what it kept, after its last launch is done.
pub struct Graph {
    device: u8,
    executable: GraphExecHandle,
    recording: Recording,
    /// The streams that it was launched on.
    timeline: Arc<Timeline>,
    /// Drivers want one thread at a time.
    launching: Mutex<()>,
}

impl Graph {
    /// The index of its device.
    #[must_use]
    pub const fn device(&self) -> u8 {
        self.device
    }

    /// Queues the work once more, after the work that its memory waits for.
    ///
    /// Returns the stream if a host framework uses some of the memory: then the caller waits for it.
    ///
    /// # Errors
    ///
    /// If the stream is of another device or is being captured, wrapped memory was freed, or the driver refuses. Then
    /// nothing is queued.
    pub fn launch(&self, stream: &Stream) -> Result<Option<Stream>, Error> {
        if stream.device() != self.device {
            let name = |index| Device::new(DeviceKind::Cuda, index).to_string().into();
            let (found, wanted) = (name(stream.device()), name(self.device));
            return Err(SignatureError::Stream { kernel: "a graph".into(), found, wanted }.into());
        }
        refuse_capture(stream, "a graph's launch")?;
        let touched = self.recording.touched();
        for (timeline, writes) in &touched {
            timeline.check_live()?;
            timeline.ready_for(stream, *writes)?;
        }
        let driver = driver()?;
        let _entered = driver.enter(self.device)?;
        let turn = self.launching.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: both are alive, and it is this thread's turn; the recording keeps the memory, and is kept until this
        // launch is done by the note below.
        unsafe { driver.replay(self.executable, stream.handle()) }?;
        drop(turn);
        let mut noted = self.timeline.used_once_on(stream, true).is_ok();
        for (timeline, writes) in &touched {
            noted &= timeline.used_once_on(stream, *writes).is_ok();
        }
        let shared = touched.iter().any(|(timeline, _)| timeline.is_shared_with_host());
        // Without a note the memory could be freed too early, so the launch is waited for.
        Ok((shared || !noted).then(|| stream.clone()))
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        let (device, executable) = (self.device, self.executable);
        let recording = mem::take(&mut self.recording);
        let owner = Owner::call(move || {
            let destroy = || {
                let driver = driver()?;
                let _entered = driver.enter(device)?;
                let _relaxed = driver.relax()?;
                // SAFETY: the graph is gone, and its launches are done: see below.
                Ok::<_, Error>(unsafe { driver.destroy_executable(executable) }?)
            };
            // Fails only if the device is lost, and the graph with it.
            let _ = destroy();
            drop(recording);
        });
        // Nobody else has the timeline.
        if let Some(timeline) = Arc::get_mut(&mut self.timeline) {
            retire(timeline, owner);
        }
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Graph({:#x} on cuda:{})", self.executable.0, self.device)
    }
}
