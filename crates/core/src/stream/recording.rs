//! What a graph that gpulend captures keeps alive: the memory and the modules that its work uses.
//!
//! While a capture is open, every use of a lease on one of its streams is entered here, by the capture's number. The graph
//! then orders each of its launches with the other work on that memory, as a launch of a kernel is ordered.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::driver::Capture;
use crate::error::Error;
use crate::fork::ProcessLock;
use crate::owner::Owner;
use crate::stream::stream::Stream;
use crate::stream::timeline::Timeline;

/// A timeline, and whether the graph may write its memory.
pub(crate) type Touched = (Arc<Timeline>, bool);

/// The captures that are open, by their numbers.
static OPEN: ProcessLock<Vec<(u64, Recording)>> = ProcessLock::new(Vec::new());
/// How many those are: mostly none, which every hand-over asks.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// What the work of one capture uses. Clones are of the same capture.
#[derive(Clone, Default)]
pub(crate) struct Recording(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    memory: Vec<(Touched, Owner)>,
    modules: Vec<Module>,
}

/// A module whose kernels the graph launches, and which timelines its variables have.
struct Module {
    /// What tells it from others.
    key: usize,
    variables: Box<dyn Fn() -> Vec<Touched> + Send>,
}

impl Recording {
    /// Begins to note what a capture uses.
    pub(super) fn open(capture: u64) -> Self {
        let recording = Self::default();
        OPEN.lock().push((capture, recording.clone()));
        COUNT.fetch_add(1, Ordering::Relaxed);
        recording
    }

    /// Ends that.
    pub(super) fn close(capture: u64) {
        let mut open = OPEN.lock();
        let before = open.len();
        open.retain(|(known, _)| *known != capture);
        COUNT.fetch_sub(before - open.len(), Ordering::Relaxed);
    }

    /// The recording of a capture, if gpulend began it.
    pub(crate) fn of(capture: Capture) -> Option<Self> {
        let Capture::Active(capture) = capture else { return None };
        let open = OPEN.lock();
        open.iter().find(|(known, _)| *known == capture).map(|(_, recording)| recording.clone())
    }

    /// The recording of the capture that a stream is part of, if gpulend began it.
    pub(crate) fn on(stream: &Stream) -> Result<Option<Self>, Error> {
        if COUNT.load(Ordering::Relaxed) == 0 {
            return Ok(None);
        }
        Ok(Self::of(stream.capture()?))
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps memory, once: `owner` is asked for what keeps it.
    pub(crate) fn keep(
        &self,
        timeline: &Arc<Timeline>,
        writes: bool,
        owner: impl FnOnce() -> Owner,
    ) {
        let mut kept = self.lock();
        let known = kept.memory.iter_mut().find(|((known, _), _)| Arc::ptr_eq(known, timeline));
        match known {
            Some(((_, written), _)) => *written |= writes,
            None => {
                let owner = owner();
                kept.memory.push(((Arc::clone(timeline), writes), owner));
            }
        }
    }

    /// Keeps a module, once. `variables` keeps it, and returns the variables that were borrowed so far.
    pub(crate) fn keep_module(
        &self,
        key: usize,
        variables: impl Fn() -> Vec<Touched> + Send + 'static,
    ) {
        let mut kept = self.lock();
        if !kept.modules.iter().any(|known| known.key == key) {
            kept.modules.push(Module { key, variables: Box::new(variables) });
        }
    }

    /// Everything that the work may touch.
    pub(super) fn touched(&self) -> Vec<Touched> {
        let kept = self.lock();
        let variables = kept.modules.iter().flat_map(|module| (module.variables)());
        let memory = kept.memory.iter().map(|(touched, _)| touched.clone());
        memory.chain(variables).collect()
    }
}
