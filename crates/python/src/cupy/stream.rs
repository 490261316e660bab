//! CuPy's current stream.

use std::ffi::{CStr, c_int, c_void};
use std::mem;

use gpulend::stream::Stream;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCFunction, PyDict, PyTuple};
use pyo3::{ffi, intern};

use crate::owners;

/// A function that returns the handle of the current stream of a device.
type Ask = unsafe extern "C" fn(c_int) -> isize;

/// Its type, as Cython names the functions that a module exports to others.
const TYPE: &CStr = c"intptr_t (int)";

/// CuPy's current stream on a device, kept alive if it is one that can go.
pub(crate) fn current(py: Python<'_>, index: u8) -> PyResult<Stream> {
    if let Some(stream) = known(py, index) {
        return Ok(stream);
    }
    static ASK: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let ask = ASK.get_or_try_init(py, || {
        Ok::<_, PyErr>(py.import("cupy.cuda")?.getattr("get_current_stream")?.unbind())
    })?;
    of_object(&ask.bind(py).call1((index,))?, index)
}

/// The same if it is one of CUDA's own, which stay, and no code of Python's has to run to find out.
#[inline]
pub(crate) fn known(py: Python<'_>, index: u8) -> Option<Stream> {
    static ASK: PyOnceLock<Option<Ask>> = PyOnceLock::new();
    let ask =
        ASK.get(py).map_or_else(|| *ASK.get_or_init(py, || find(py).ok().flatten()), |ask| *ask)?;
    // SAFETY: the capsule names this type, and the GIL is held.
    let handle = unsafe { ask(index.into()) };
    match handle {
        // SAFETY: CUDA's own streams.
        0..=2 => Some(unsafe { Stream::foreign(index, usize::try_from(handle).ok()?, None) }),
        -1 => {
            // SAFETY: the GIL is held. What failed here fails where the caller asks next.
            unsafe { ffi::PyErr_Clear() };
            None
        }
        _ => None,
    }
}

/// CuPy's function, if it has it and the adapter's proof holds: that it knows of streams that programs make current.
fn find(py: Python<'_>) -> PyResult<Option<Ask>> {
    let functions = py.import("cupy_backends.cuda.stream")?.getattr("__pyx_capi__")?;
    let capsule = functions.get_item("get_stream_ptr")?;
    // SAFETY: any object may be asked.
    if unsafe { ffi::PyCapsule_IsValid(capsule.as_ptr(), TYPE.as_ptr()) } == 0 {
        return Ok(None);
    }
    // SAFETY: a capsule of that name.
    let pointer = unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), TYPE.as_ptr()) };
    // SAFETY: a function, of the type that the capsule is named after; CuPy's modules are never unloaded.
    let ask = unsafe { mem::transmute::<*mut c_void, Ask>(pointer) };
    let called = move |arguments: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| {
        let index: c_int = arguments.get_item(0)?.extract()?;
        // SAFETY: as above, and Python calls this with the GIL held.
        let handle = unsafe { ask(index) };
        PyErr::take(arguments.py()).map_or(Ok(handle), Err)
    };
    let called = PyCFunction::new_closure(py, None, None, called)?;
    let proved = py.import("gpulend.adapters.cupy")?.call_method1("proves_stream", (called,))?;
    Ok(proved.is_truthy()?.then_some(ask))
}

/// A stream object of CuPy's, kept alive if it is one that can go.
pub(crate) fn of_object(object: &Bound<'_, PyAny>, index: u8) -> PyResult<Stream> {
    let handle: usize = object.getattr(intern!(object.py(), "ptr"))?.extract()?;
    let keeper = match handle {
        0..=2 => None,
        _ => Some(owners::keep(object)),
    };
    // SAFETY: (1) CuPy says so; (2) its object is kept.
    Ok(unsafe { Stream::foreign(index, handle, keeper) })
}
