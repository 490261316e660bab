//! Calls of `__dlpack__` and its kin on foreign objects.

use std::cell::Cell;
use std::ptr;

use gpulend::abi::dlpack::{CurrentWorkStream, DeviceCode};
use gpulend::stream::Stream;
use gpulend::{Device, DeviceKind, abi};
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{IntoPyDict, PyBool, PyCapsule, PyInt, PyTuple, PyType, PyTypeMethods};

use crate::errors::{self, BAD_ARGUMENT, PRODUCER_RAISED, caused, is_failure, raise, refused};
use crate::{cupy, stream};

/// Calls `__dlpack__`, versioned if the producer can, else legacy; `stream` is for memory of a GPU.
pub(crate) fn call<'py>(
    object: &Bound<'py, PyAny>,
    stream: Option<i64>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    let capsule = match call_versioned(object, stream) {
        Err(error) if error.is_instance_of::<PyTypeError>(py) => {
            retry_unversioned(object, stream, error)
        }
        other => other,
    };
    capsule.map_err(|cause| producer_raised(object, "__dlpack__", cause))
}

thread_local! {
    /// Whether this thread is in a second call of `__dlpack__` after a `TypeError` from inside the first.
    static RETRYING: Cell<bool> = const { Cell::new(false) };
}

/// Calls `__dlpack__` without `max_version`, which a producer from before versions does not know.
///
/// A `TypeError` without a traceback comes from binding the arguments. One with a traceback was raised inside: either a
/// producer forwarded the argument to an older one, or the error has nothing to do with it. The second kind is retried only
/// once per thread at a time: nested producers would otherwise double the calls at every level.
#[cold]
fn retry_unversioned<'py>(
    object: &Bound<'py, PyAny>,
    stream: Option<i64>,
    error: PyErr,
) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    let ran = error.traceback(py).is_some();
    if errors::is_ours(py, &error) || (ran && RETRYING.get()) {
        return Err(error);
    }
    let _retrying = Retrying(RETRYING.replace(ran || RETRYING.get()));
    let name = intern!(py, "__dlpack__");
    match stream {
        Some(stream) => object.call_method(name, (), Some(&[("stream", stream)].into_py_dict(py)?)),
        None => object.call_method0(name),
    }
}

/// Restores the previous value of [`RETRYING`].
struct Retrying(bool);

impl Drop for Retrying {
    fn drop(&mut self) {
        RETRYING.set(self.0);
    }
}

/// `object.__dlpack__(max_version=(1, 3), stream=…)`, by vectorcall with nothing built anew.
pub(crate) fn call_versioned<'py>(
    object: &Bound<'py, PyAny>,
    stream: Option<i64>,
) -> PyResult<Bound<'py, PyAny>> {
    static NAMES: PyOnceLock<(Py<PyTuple>, [Py<PyTuple>; 2])> = PyOnceLock::new();
    let py = object.py();
    let (version, names) = NAMES.get_or_try_init(py, || {
        let abi::dlpack::Version { major, minor } = abi::dlpack::VERSION;
        let version = PyTuple::new(py, [major, minor])?.unbind();
        let one = PyTuple::new(py, [intern!(py, "max_version")])?.unbind();
        let two = PyTuple::new(py, [intern!(py, "max_version"), intern!(py, "stream")])?.unbind();
        Ok::<_, PyErr>((version, [one, two]))
    })?;
    let number = stream.map(|stream| stream.into_pyobject(py)).transpose()?;
    let names = &names[usize::from(number.is_some())];
    let last = number.as_ref().map_or(ptr::null_mut(), |number| number.as_ptr());
    let arguments = [object.as_ptr(), version.as_ptr(), last];
    let name = intern!(py, "__dlpack__").as_ptr();
    // SAFETY: one positional argument and as many keyword arguments as there are names, all alive.
    let capsule =
        unsafe { ffi::PyObject_VectorcallMethod(name, arguments.as_ptr(), 1, names.as_ptr()) };
    // SAFETY: a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, capsule) }
}

/// The index of the CUDA device that an object's memory is on; none for the host's.
pub(crate) fn cuda_device(object: &Bound<'_, PyAny>) -> PyResult<Option<u8>> {
    let py = object.py();
    let raised = |cause| producer_raised(object, "__dlpack_device__", cause);
    let method = object.getattr_opt(intern!(py, "__dlpack_device__")).map_err(raised)?;
    let Some(method) = method else { return Ok(None) };
    let answer =
        method.call0().and_then(|answer| answer.extract::<(i32, i32)>()).map_err(raised)?;
    let (code, index) = answer;
    let device = abi::dlpack::Device { code: abi::dlpack::DeviceCode(code), index };
    let (device, _) = Device::from_dlpack(device).map_err(raise)?;
    match device.kind() {
        DeviceKind::Cpu => Ok(None),
        // Refused before a producer may queue work for it.
        _ => {
            gpulend::import::require_reachable(device).map_err(raise).map(|()| Some(device.index()))
        }
    }
}

/// The current streams of the frameworks that this process has imported, on a device.
pub(crate) fn current_streams(py: Python<'_>, index: u8) -> Vec<Stream> {
    let imported = |name: &str| {
        let modules = py.import(intern!(py, "sys"))?.getattr(intern!(py, "modules"))?;
        modules.get_item(name)
    };
    let mut found = Vec::new();
    if let Ok(torch) = imported("torch")
        && let Ok(tensor) = torch.getattr(intern!(py, "Tensor"))
        && let Ok(Some(table)) = exchange_api(&tensor)
        && table.current_work_stream.is_some()
    {
        found.extend(torch_stream(py, table.current_work_stream, index));
    }
    if imported("cupy").is_ok()
        && let Ok(stream) = cupy::current(py, index)
    {
        found.push(stream);
    }
    found
}

/// torch's current stream: one of its own, which it keeps for good, or another library's that a program made current.
#[inline]
pub(crate) fn torch_stream(
    py: Python<'_>,
    table: Option<CurrentWorkStream>,
    index: u8,
) -> PyResult<Stream> {
    match known_torch_stream(table, index) {
        Some(known) => Ok(known),
        None => meet_torch_stream(py, table_stream(table, index), index),
    }
}

/// The same without a call of Python's, where it is one that torch keeps, and was met before.
#[inline]
pub(crate) fn known_torch_stream(table: Option<CurrentWorkStream>, index: u8) -> Option<Stream> {
    Stream::known(index, table_number(table, index)?)
}

/// Asks torch, once for each stream, whether it is its own.
#[cold]
fn meet_torch_stream(py: Python<'_>, named: Stream, index: u8) -> PyResult<Stream> {
    let cuda = py.import("torch.cuda")?;
    let stream = cuda.call_method1("current_stream", (index,))?;
    let (handle, id): (usize, i64) =
        (stream.getattr("cuda_stream")?.extract()?, stream.getattr("stream_id")?.extract()?);
    // Streams of others have their handle for a number.
    if handle == named.handle().0 && usize::try_from(id).ok() != Some(handle) {
        // SAFETY: torch never destroys the streams of its pools.
        unsafe { Stream::remember(index, handle) };
    }
    Ok(named)
}

/// The stream that a framework works on now, as its table says; the legacy one if it does not.
#[inline]
pub(crate) fn table_stream(table: Option<CurrentWorkStream>, index: u8) -> Stream {
    // SAFETY: it is the framework's current stream.
    unsafe { Stream::named(index, table_number(table, index).unwrap_or(0), None) }
}

/// The handle of that stream; none if the framework raised, which may have run arbitrary code.
#[inline]
fn table_number(table: Option<CurrentWorkStream>, index: u8) -> Option<usize> {
    let mut handle = ptr::null_mut();
    let Some(table) = table else { return Some(0) };
    // SAFETY: the table's contract: a place to write to.
    if unsafe { table(DeviceCode::CUDA, i32::from(index), &raw mut handle) } != 0 {
        // SAFETY: clears what the function raised, with the GIL held.
        unsafe { ffi::PyErr_Clear() };
        return None;
    }
    Some(handle.addr())
}

/// The stream that an adapter's function returns for a device: a number of one that stays, or an object.
pub(crate) fn adapters_stream(ask: &Bound<'_, PyAny>, index: u8) -> PyResult<Stream> {
    let answer = ask.call1((index,))?;
    if answer.is_instance_of::<PyInt>() && !answer.is_instance_of::<PyBool>() {
        let number = answer.extract().map_err(|cause| {
            let message = format!("an adapter's current stream is {answer}, which is no handle");
            caused(ask.py(), refused(message, BAD_ARGUMENT), cause)
        })?;
        // SAFETY: (1) and (2): a number that an adapter returns is a stream that stays.
        return Ok(unsafe { Stream::foreign(index, number, None) });
    }
    if answer.hasattr(intern!(ask.py(), "ptr"))? {
        return cupy::of_object(&answer, index);
    }
    stream::parse(&answer, index)
}

/// Says whose method failed, with what it raised as the cause.
///
/// What is not the producer's failure is passed on unchanged.
pub(crate) fn producer_raised(object: &Bound<'_, PyAny>, method: &str, cause: PyErr) -> PyErr {
    let called = format!("{}.{method}", type_name(object));
    call_raised(object.py(), &called, cause)
}

/// As [`producer_raised`], for a call in words.
pub(crate) fn call_raised(py: Python<'_>, called: &str, cause: PyErr) -> PyErr {
    if !is_failure(py, &cause) {
        return cause;
    }
    let message = format!("{called} raised {}", cause.value(py));
    let kind = cause.get_type(py).name().map_or_else(|_| "?".to_owned(), |kind| kind.to_string());
    caused(py, refused(format!("{message} ({kind})"), PRODUCER_RAISED), cause)
}

/// `module.Class` of an object, for messages and the ledger.
pub(crate) fn type_name(object: &Bound<'_, PyAny>) -> String {
    name_of_class(&object.get_type())
}

/// `module.Class`.
pub(crate) fn name_of_class(class: &Bound<'_, PyType>) -> String {
    let name = class.qualname().map_or_else(|_| "?".to_owned(), |name| name.to_string());
    match class.module() {
        Ok(module) if module != "builtins" => format!("{module}.{name}"),
        _ => name,
    }
}

/// Finds a type's exchange table: a capsule, or an int as DLPack 1.2 spelled it.
pub(crate) fn exchange_api(
    class: &Bound<'_, PyAny>,
) -> PyResult<Option<&'static abi::dlpack::ExchangeApi>> {
    let py = class.py();
    let names =
        [intern!(py, "__dlpack_c_exchange_api__"), intern!(py, "__c_dlpack_exchange_api__")];
    for name in names {
        let Some(value) = class.getattr_opt(name)? else { continue };
        let table = if value.is_instance_of::<PyCapsule>() {
            let name = c"dlpack_exchange_api";
            // SAFETY: the capsule is alive.
            if unsafe { ffi::PyCapsule_IsValid(value.as_ptr(), name.as_ptr()) } == 0 {
                continue;
            }
            // SAFETY: as above, and it has that name.
            unsafe { ffi::PyCapsule_GetPointer(value.as_ptr(), name.as_ptr()) }.cast_const()
        } else if !value.is_instance_of::<PyBool>()
            && let Ok(address) = value.extract::<usize>()
        {
            ptr::with_exposed_provenance(address)
        } else {
            continue;
        };
        // SAFETY: DLPack, "C exchange API": the pointer is to a static table, or null.
        return match unsafe { gpulend::import::dlpack::exchange_api(table.cast()) } {
            Ok(api) => Ok(Some(api)),
            // No table, or only one of another major version: the object may still have `__dlpack__`.
            Err(gpulend::Error::Protocol(
                gpulend::ProtocolError::Null | gpulend::ProtocolError::Version { .. },
            )) => Ok(None),
            Err(error) => Err(raise(error)),
        };
    }
    Ok(None)
}
