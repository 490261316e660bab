//! Copies between a lease and an array: `copy_from`, `copy_to`, `to_host`; and `gpulend.Copy`.

use gpulend::stream::{Stream, current, enter, leave};
use gpulend::{DeviceKind, Error, Lease, copy};
use pyo3::intern;
use pyo3::prelude::*;

use crate::borrowing::{borrow_host, refuse_pinned};
use crate::consumer::Wishes;
use crate::errors::{BAD_ARGUMENT, raise, refused};
use crate::lending::hand_to;
use crate::routes::count_write;
use crate::stream;
use crate::torch::Use;

/// A copy that was started: what `copy_from` and `copy_to` return if they are given a stream.
///
/// >>> import gpulend, numpy as np
/// >>> lease = gpulend.zeros(3, "int32")
/// >>> copy = lease.copy_from(np.arange(3, dtype="int32"), stream=gpulend.Stream())
/// >>> copy.wait()
/// >>> copy.done, lease.to_host().tolist()
/// (True, [0, 1, 2])
#[pyclass(frozen, name = "Copy", module = "gpulend")]
pub(crate) struct PyCopy(copy::Copy);

#[pymethods]
impl PyCopy {
    /// Whether it is done.
    #[getter]
    fn done(&self) -> PyResult<bool> {
        self.0.is_done().map_err(raise)
    }

    /// Wait on the host until it is done. An error of a copy in the background is raised here.
    fn wait(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.wait()).map_err(raise)
    }
}

/// How a copy is made.
#[derive(Clone, Copy, Default)]
pub(crate) struct Manner<'a, 'py> {
    pub(crate) stream: Option<&'a Bound<'py, PyAny>>,
    pub(crate) progress: Option<&'a Bound<'py, PyAny>>,
    pub(crate) background: bool,
}

/// Copies between two leases: at once, or on a stream, which gives a handle to wait for.
pub(crate) fn move_elements(
    py: Python<'_>,
    from: &Lease,
    to: &Lease,
    Manner { stream, progress, background }: Manner<'_, '_>,
) -> PyResult<Option<PyCopy>> {
    if background && (stream.is_none() || progress.is_some()) {
        let message = "background needs a stream, and the thread that copies calls no progress";
        return Err(refused(message.to_owned(), BAD_ARGUMENT));
    }
    let on_gpu = if from.view().device().kind() == DeviceKind::Cpu { to } else { from };
    let _current = stream.map(|stream| Current::on(on_gpu, stream)).transpose()?;
    if let Some(progress) = progress {
        // SAFETY: as below.
        watched(py, progress, |report| unsafe { copy::copy_watched(from, to, report) })?;
    }
    match (stream, progress) {
        (None, Some(_)) => Ok(None),
        // Between GPUs it is only queued.
        (Some(_), Some(_)) => {
            let stream = current(on_gpu.view().device().index());
            copy::Copy::after(&stream).map(|copy| Some(PyCopy(copy))).map_err(raise)
        }
        // SAFETY: who else reads or writes these arrays meanwhile is the Python caller's to know.
        (None, None) => py.detach(|| unsafe { copy::copy(from, to) }).map(|()| None).map_err(raise),
        (Some(_), None) => py
            .detach(|| match background {
                // SAFETY: as above.
                true => unsafe { copy::start_in_background(from, to) },
                // SAFETY: as above.
                false => unsafe { copy::start(from, to) },
            })
            .map(|copy| Some(PyCopy(copy)))
            .map_err(raise),
    }
}

/// As the method of this name says.
pub(crate) fn to_host<'py>(
    py: Python<'py>,
    lease: &Lease,
    out: Option<&Bound<'py, PyAny>>,
    stream: Option<&Bound<'py, PyAny>>,
    pinned: bool,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let _current = stream.map(|stream| Current::on(lease, stream)).transpose()?;
    let Some(out) = out else {
        let copied = match progress {
            // SAFETY: who else writes the array meanwhile is the Python caller's to know.
            _ if pinned => py.detach(|| unsafe { copy::duplicate_pinned(lease) }).map_err(raise),
            // SAFETY: as above.
            None => py.detach(|| unsafe { copy::duplicate(lease) }).map_err(raise),
            Some(progress) => {
                // SAFETY: as above.
                watched(py, progress, |report| unsafe { copy::duplicate_watched(lease, report) })
            }
        }?;
        return hand_to(py, copied, intern!(py, "numpy"), None, Wishes::default());
    };
    let target = borrow_host(out, Use::Written)?;
    let device = target.view().device();
    if device.kind() != DeviceKind::Cpu {
        let message = format!("out is on {device}, not on the host; copy there by `copy_to`");
        return Err(refused(message, BAD_ARGUMENT));
    }
    if pinned {
        let message = "pinned asks for new memory, and out names other; leave one of them out";
        return Err(refused(message.to_owned(), BAD_ARGUMENT));
    }
    move_elements(py, lease, &target, Manner { progress, ..Manner::default() })?;
    count_write(out)?;
    Ok(out.clone())
}

/// Runs a copy that calls `progress` now and then. What that raises stops the copy, and is raised.
fn watched<R: Send>(
    py: Python<'_>,
    progress: &Bound<'_, PyAny>,
    copy: impl FnOnce(copy::Progress<'_>) -> Result<R, Error> + Send,
) -> PyResult<R> {
    let progress = progress.clone().unbind();
    let mut raised = None;
    let done = py.detach(|| {
        copy(&mut |moved, total| {
            Python::attach(|py| progress.call1(py, (moved, total))).map_err(|error| {
                raised = Some(error);
                // Not shown: the exception is.
                Error::Released
            })?;
            Ok(())
        })
    });
    raised.map_or_else(|| done.map_err(raise), Err)
}

/// A stream that is current for one call.
struct Current(Stream);

impl Current {
    /// Enters the stream that copies a lease.
    fn on(lease: &Lease, stream: &Bound<'_, PyAny>) -> PyResult<Self> {
        refuse_pinned(lease, stream)?;
        let device = lease.view().device();
        let stream = stream::parse(stream, device.index())?;
        if device.kind() == DeviceKind::Cuda && stream.device() != device.index() {
            let found = stream.device();
            let message = format!("the stream is of cuda:{found}, and the memory on {device}");
            return Err(refused(message, BAD_ARGUMENT));
        }
        enter(stream.clone());
        Ok(Self(stream))
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        leave(&self.0);
    }
}
