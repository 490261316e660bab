//! `gpulend.Graph`: captured work, launched as often as one likes.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gpulend::stream::{self as streams, Capturing, Graph, Mode, Stream};
use gpulend::{Device, DeviceKind};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::device::PyDevice;
use crate::errors::{BAD_ARGUMENT, raise, refused};
use crate::stream::{self, PyStream};

/// Capture what is queued inside the `with` into a graph, instead of running it.
///
/// `stream` is the one that is captured, a new one if none is named, and the current one inside the `with`. `mode` says whose
/// calls that cannot be captured end the capture: those of the thread that captures ("thread-local"), of every thread
/// ("global"), or nobody's ("relaxed"). Work on the memory that is not done when the capture begins is refused inside: wait
/// for it before.
///
/// >>> import gpulend
/// >>> x, y = gpulend.full(3, 2.0), gpulend.zeros(3)
/// >>> gpulend.synchronize()
/// >>> with gpulend.capture() as graph:
/// ...     y.copy_from(x)
/// >>> y.to_host(), graph.launch(), y.to_host()
/// (array([0., 0., 0.], dtype=float32), None, array([2., 2., 2.], dtype=float32))
#[pyfunction]
#[pyo3(
    signature = (stream = None, *, device = None, mode = "thread-local"),
    text_signature = "(stream=None, *, device=None, mode='thread-local')"
)]
pub(crate) fn capture(
    py: Python<'_>,
    stream: Option<&Bound<'_, PyAny>>,
    device: Option<&Bound<'_, PyAny>>,
    mode: &str,
) -> PyResult<PyGraph> {
    let mode = Mode::parse(mode).ok_or_else(|| {
        let message = format!("mode is {mode:?}; give 'thread-local', 'global' or 'relaxed'");
        refused(message, BAD_ARGUMENT)
    })?;
    let index = stream::index_of(device)?;
    let stream = match stream {
        Some(stream) => stream::parse(stream, index)?,
        None => py.detach(|| Stream::create(index, false)).map_err(raise)?,
    };
    Ok(PyGraph { stream, mode, state: Mutex::new(State::Empty) })
}

/// Work that was captured: what `capture` returns.
///
/// It keeps the leases, tensors and modules that its work uses. `launch` orders its work with other work on that memory, as a
/// kernel's launch is ordered.
#[pyclass(frozen, name = "Graph", module = "gpulend", weakref)]
pub(crate) struct PyGraph {
    stream: Stream,
    mode: Mode,
    state: Mutex<State>,
}

enum State {
    /// Nothing is captured yet, or what was is lost.
    Empty,
    Open(Capturing),
    Ready(Arc<Graph>),
}

impl PyGraph {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts another state in the place of the one there is, which is dropped outside of the lock: that may run other code.
    fn replace(&self, next: State) -> State {
        mem::replace(&mut *self.lock(), next)
    }
}

#[pymethods]
impl PyGraph {
    /// The device it works on.
    #[getter]
    fn device(&self) -> PyDevice {
        PyDevice(Device::new(DeviceKind::Cuda, self.stream.device()))
    }

    /// The stream that was captured.
    #[getter]
    fn stream(&self) -> PyStream {
        PyStream(self.stream.clone())
    }

    /// Queue the work once more, on `stream`, or on the current one.
    ///
    /// That stream waits for the work that the memory waits for, and the next user of the memory for this launch. The host
    /// waits only if a framework of the host holds some of the memory.
    #[pyo3(signature = (stream = None))]
    fn launch(&self, py: Python<'_>, stream: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let index = self.stream.device();
        let stream = match stream {
            Some(stream) => stream::parse(stream, index)?,
            None => streams::current(index),
        };
        let graph = match &*self.lock() {
            State::Ready(graph) => Arc::clone(graph),
            State::Open(_) => {
                let message = "the graph is still being captured; launch it after the `with`";
                return Err(PyRuntimeError::new_err(message));
            }
            State::Empty => {
                let message =
                    "nothing was captured yet; say `with gpulend.capture() as graph: ...`";
                return Err(PyRuntimeError::new_err(message));
            }
        };
        let launched = py.detach(|| match graph.launch(&stream)? {
            Some(stream) => stream.synchronize(),
            None => Ok(()),
        });
        launched.map_err(raise)
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        let this = slf.get();
        if let State::Open(_) = *this.lock() {
            return Err(PyRuntimeError::new_err("the graph is being captured already"));
        }
        let begun = Capturing::begin(this.stream.clone(), this.mode).map_err(raise)?;
        drop(this.replace(State::Open(begun)));
        streams::enter(this.stream.clone());
        Ok(slf)
    }

    /// Ends the capture; if an exception is being raised, what was captured is dropped.
    fn __exit__(
        &self,
        kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        streams::leave(&self.stream);
        let State::Open(begun) = self.replace(State::Empty) else { return Ok(()) };
        if kind.is_none() {
            let graph = kind.py().detach(|| begun.end()).map_err(raise)?;
            drop(self.replace(State::Ready(Arc::new(graph))));
        }
        Ok(())
    }

    fn __repr__(&self) -> String {
        let state = match *self.lock() {
            State::Empty => "empty",
            State::Open(_) => "being captured",
            State::Ready(_) => "captured",
        };
        format!("<gpulend.Graph {state} on cuda:{}>", self.stream.device())
    }
}
