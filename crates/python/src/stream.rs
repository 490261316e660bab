//! `gpulend.Stream` and `gpulend.Event`, and streams from whatever people hold them in.

use std::sync::Arc;

use gpulend::driver::driver;
use gpulend::stream::{self, Event, Ready, Stream};
use gpulend::{Device, DeviceKind};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyString};

use crate::device::{self, PyDevice};
use crate::errors::{BAD_ARGUMENT, caused, is_failure, raise, refused};
use crate::protocols::{self, producer_raised, type_name};
use crate::{frameworks, owners};

/// A queue of work on a GPU: a new one, or another library's.
///
/// `Stream()` makes one on `device` (`cuda:0`, or the device of the stream entered last). `Stream(other)` names
/// a stream that exists: an object with `__cuda_stream__`, a stream of torch, CuPy, Numba or PyCUDA, or a number (1 is the
/// legacy default stream, 2 the per-thread one). A stream made with `blocking=True` waits for the legacy stream, and that
/// for it. Work on a stream whose `priority` is a lower number begins first, as far as the device has priorities. Inside
/// `with stream:` it is the current stream of this thread and of its device.
///
/// >>> import gpulend
/// >>> stream = gpulend.Stream()
/// >>> with stream:
/// ...     array = gpulend.zeros((2, 3), "float32")
/// >>> event = stream.record()
/// >>> event.synchronize()
/// >>> event.done, array.to_host().sum()
/// (True, np.float32(0.0))
#[pyclass(frozen, name = "Stream", module = "gpulend", weakref)]
pub(crate) struct PyStream(pub(crate) Stream);

#[pymethods]
impl PyStream {
    #[new]
    #[pyo3(signature = (stream = None, *, device = None, blocking = false, priority = 0))]
    fn new(
        py: Python<'_>,
        stream: Option<&Bound<'_, PyAny>>,
        device: Option<&Bound<'_, PyAny>>,
        blocking: bool,
        priority: i32,
    ) -> PyResult<Self> {
        let index = index_of(device)?;
        match stream {
            Some(stream) => {
                let stream = parse(stream, index)?;
                if device.is_some() && stream.device() != index {
                    let found = stream.device();
                    let message = format!("the stream is of cuda:{found}, not of cuda:{index}");
                    return Err(refused(message, BAD_ARGUMENT));
                }
                Ok(Self(stream))
            }
            None => py
                .detach(|| Stream::with_priority(index, blocking, priority))
                .map(Self)
                .map_err(raise),
        }
    }

    /// The device it works on.
    #[getter]
    fn device(&self) -> PyDevice {
        PyDevice(Device::new(DeviceKind::Cuda, self.0.device()))
    }

    /// CUDA's handle of it, a number.
    #[getter]
    fn handle(&self) -> usize {
        self.0.handle().0
    }

    /// Its priority: a lower number comes first.
    #[getter]
    fn priority(&self) -> PyResult<i32> {
        self.0.priority().map_err(raise)
    }

    /// The least and the greatest priority that streams of a device can have: the greatest is the lowest number. What is
    /// beyond becomes the nearest of them.
    ///
    /// >>> import gpulend
    /// >>> least, greatest = gpulend.Stream.priority_range()
    /// >>> gpulend.Stream(priority=greatest).priority == greatest <= least
    /// True
    #[staticmethod]
    #[pyo3(signature = (device = None))]
    fn priority_range(device: Option<&Bound<'_, PyAny>>) -> PyResult<(i32, i32)> {
        let index = index_of(device)?;
        driver().and_then(|driver| driver.priorities(index)).map_err(raise)
    }

    /// Whether all that is queued is done.
    #[getter]
    fn done(&self, py: Python<'_>) -> PyResult<bool> {
        py.detach(|| self.0.is_idle()).map_err(raise)
    }

    /// Whether its work is being captured into a graph, or may not be queued because another's is.
    #[getter]
    fn capturing(&self) -> PyResult<bool> {
        stream::is_capturing(&self.0).map_err(raise)
    }

    /// An event that happens when what is queued now is done. With `timing=True` it knows when: see `Event.elapsed`.
    #[pyo3(signature = (*, timing = false))]
    fn record(&self, timing: bool) -> PyResult<PyEvent> {
        let recorded = if timing { self.0.record_time() } else { self.0.record() };
        recorded.map(|event| PyEvent(Arc::new(event))).map_err(raise)
    }

    /// Have what is queued from now on wait for an event, or for what another stream holds now.
    fn wait(&self, other: &Bound<'_, PyAny>) -> PyResult<()> {
        if let Ok(event) = other.cast::<PyEvent>() {
            return self.0.wait(&event.get().0).map_err(raise);
        }
        let other = parse(other, self.0.device())?;
        stream::order_named(&other, &self.0).map_err(raise)
    }

    /// Wait on the host until all that is queued is done.
    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.synchronize()).map_err(raise)
    }

    /// The protocol by which other libraries take the stream: its version and the handle.
    fn __cuda_stream__(&self) -> (i32, usize) {
        (0, self.handle())
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        stream::enter(slf.get().0.clone());
        slf
    }

    fn __exit__(
        &self,
        _kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) {
        stream::leave(&self.0);
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| self.0.is(&other.get().0))
    }

    fn __hash__(&self) -> isize {
        isize::try_from(self.handle() / 8).unwrap_or(0) ^ isize::from(self.0.device())
    }

    fn __repr__(&self) -> String {
        format!("<gpulend.Stream {:#x} on cuda:{}>", self.handle(), self.0.device())
    }
}

/// A moment in a stream: what `Stream.record` returns.
#[pyclass(frozen, name = "Event", module = "gpulend")]
pub(crate) struct PyEvent(pub(crate) Arc<Event>);

#[pymethods]
impl PyEvent {
    /// The device it is on.
    #[getter]
    fn device(&self) -> PyDevice {
        PyDevice(Device::new(DeviceKind::Cuda, self.0.device()))
    }

    /// CUDA's handle of it, a number; good as long as this object.
    #[getter]
    fn handle(&self) -> usize {
        self.0.handle().0
    }

    /// Whether it has happened.
    #[getter]
    fn done(&self, py: Python<'_>) -> PyResult<bool> {
        py.detach(|| self.0.has_happened()).map_err(raise)
    }

    /// Wait on the host until it has happened.
    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.synchronize()).map_err(raise)
    }

    /// Milliseconds of the GPU from this event until another, for both of which the host waits. Both were recorded by
    /// `stream.record(timing=True)`.
    ///
    /// >>> import gpulend
    /// >>> stream = gpulend.Stream()
    /// >>> start = stream.record(timing=True)
    /// >>> with stream:
    /// ...     x = gpulend.zeros(1000)
    /// >>> start.elapsed(stream.record(timing=True)) >= 0
    /// True
    fn elapsed(&self, py: Python<'_>, end: &Bound<'_, Self>) -> PyResult<f32> {
        let end = Arc::clone(&end.get().0);
        py.detach(|| self.0.elapsed(&end)).map_err(raise)
    }

    fn __repr__(&self) -> String {
        format!("<gpulend.Event {:#x} on cuda:{}>", self.handle(), self.0.device())
    }
}

/// The stream that this thread works on, on `device`.
///
/// >>> import gpulend
/// >>> gpulend.current_stream().handle
/// 1
#[pyfunction]
#[pyo3(signature = (device = None))]
pub(crate) fn current_stream(device: Option<&Bound<'_, PyAny>>) -> PyResult<PyStream> {
    Ok(PyStream(stream::current(index_of(device)?)))
}

/// Wait on the host for all work of `device`, of whichever library and stream.
///
/// While a stream that gpulend has met is being captured, this is refused. A capture that it has not met is
/// invalidated by it, as by any synchronisation of a device.
#[pyfunction]
#[pyo3(signature = (device = None))]
pub(crate) fn synchronize(py: Python<'_>, device: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    let index = index_of(device)?;
    py.detach(|| stream::synchronize(index)).map_err(raise)
}

/// The index of a CUDA device: 0, or that of the stream entered last, if none is named.
pub(crate) fn index_of(device: Option<&Bound<'_, PyAny>>) -> PyResult<u8> {
    let Some(device) = device else { return Ok(stream::current_device()) };
    let device = device::parse(device)?;
    if device.kind() == DeviceKind::Cuda {
        return Ok(device.index());
    }
    Err(refused(format!("{device} has no streams; name a CUDA device, as 'cuda:0'"), BAD_ARGUMENT))
}

/// Reads a stream: ours, another library's, or a number. Numbers and others' streams are of `device`.
pub(crate) fn parse(object: &Bound<'_, PyAny>, device: u8) -> PyResult<Stream> {
    if let Ok(stream) = object.cast::<PyStream>() {
        return Ok(stream.get().0.clone());
    }
    if object.is_instance_of::<PyInt>() && !object.is_instance_of::<PyBool>() {
        let number = number(object)?;
        // SAFETY: the caller says so by naming it.
        let stream = unsafe { Stream::named(device, number, None) };
        if stream.is_lasting() {
            return Ok(stream);
        }
        // What DLPack's consumers name is mostly the current stream of a framework, which stays.
        let current = protocols::current_streams(object.py(), device);
        return Ok(current.into_iter().find(|known| known.is(&stream)).unwrap_or(stream));
    }
    let handle = match object.getattr_opt(intern!(object.py(), "__cuda_stream__"))? {
        Some(method) => {
            let answer =
                method.call0().and_then(|answer| Ok((answer.get_item(0)?, answer.get_item(1)?)));
            let (version, handle) =
                answer.map_err(|cause| producer_raised(object, "__cuda_stream__", cause))?;
            if version.extract::<i64>().ok() != Some(0) {
                let message = format!(
                    "{} speaks version {version} of __cuda_stream__; version 0 is understood",
                    type_name(object)
                );
                return Err(refused(message, BAD_ARGUMENT));
            }
            handle
        }
        None => attribute(object)?,
    };
    let handle = number(&handle)?;
    let keeper = owners::keep(object);
    let kind = frameworks::stream_type(&object.get_type())?;
    // Most objects name a stream that other code may destroy, or that can be closed by hand.
    if !kind.is_some_and(|kind| kind.owns) {
        // SAFETY: the object says so.
        return Ok(unsafe { Stream::named(device, handle, Some(keeper)) });
    }
    // SAFETY: (1) the object says so; (2) it is kept.
    Ok(unsafe { Stream::foreign(device, handle, Some(keeper)) })
}

/// Reads the stream that a consumer of DLPack names: 0 is not one.
pub(crate) fn parse_dlpack(object: &Bound<'_, PyAny>, device: u8) -> PyResult<Stream> {
    if object.extract::<i64>().is_ok_and(|number| number <= 0) {
        let message = format!(
            "stream={object} names no stream: 1 is the legacy default stream, 2 the per-thread one, \
             -1 asks for no order"
        );
        return Err(refused(message, BAD_ARGUMENT));
    }
    parse(object, device)
}

/// The handle of a framework's stream that has no `__cuda_stream__`, as its adapter says.
fn attribute<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let kind = frameworks::stream_type(&object.get_type())?;
    let name = kind.map(|kind| kind.handle.bind(object.py()).cast::<PyString>()).transpose()?;
    if let Some(name) = name
        && let Some(handle) = object.getattr_opt(name)?
    {
        // ctypes pointers, as Numba's, have it inside; a null pointer is the legacy stream's.
        if let Some(value) = handle.getattr_opt("value")? {
            return Ok(value);
        }
        if handle.is_none() {
            let message = format!("{}.{name} is None, which is no stream", type_name(object));
            return Err(refused(message, BAD_ARGUMENT));
        }
        return Ok(handle);
    }
    let message = format!(
        "{} is not a stream; pass a gpulend.Stream, an object with __cuda_stream__, a stream of torch, CuPy, \
         Numba or PyCUDA, or its number",
        type_name(object)
    );
    Err(refused(message, BAD_ARGUMENT))
}

/// A handle as a number; nothing is the legacy stream.
fn number(handle: &Bound<'_, PyAny>) -> PyResult<usize> {
    if handle.is_none() {
        return Ok(0);
    }
    let (py, class) = (handle.py(), handle.get_type());
    // Objects of other libraries that are handles have `__int__`. So have fractions, which it cuts.
    let is_fraction = class.hasattr(intern!(py, "__float__"))? && !class.hasattr("__index__")?;
    let as_number = match handle.is_instance_of::<PyInt>() {
        true => Ok(handle.clone()),
        false if is_fraction => Err(PyTypeError::new_err("a fraction is not a handle")),
        false => handle.call_method0(intern!(py, "__int__")),
    };
    as_number.and_then(|number| number.extract()).map_err(|error: PyErr| {
        if !is_failure(py, &error) {
            return error;
        }
        let message = format!(
            "stream {handle} is not a handle; 1 is the legacy default stream, 2 the per-thread one"
        );
        caused(py, refused(message, BAD_ARGUMENT), error)
    })
}

/// Reads `ready_on`: "now", an event, or a stream of `device`.
pub(crate) fn ready(object: &Bound<'_, PyAny>, device: u8) -> PyResult<Ready> {
    if let Ok(text) = object.cast::<PyString>() {
        if text == "now" {
            return Ok(Ready::Now);
        }
        let message =
            format!("ready_on is {:?}; give \"now\", an event or a stream", text.to_string());
        return Err(refused(message, BAD_ARGUMENT));
    }
    if let Ok(event) = object.cast::<PyEvent>() {
        return Ok(Ready::After(Arc::clone(&event.get().0)));
    }
    parse(object, device).map(Ready::On)
}
