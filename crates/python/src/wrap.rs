//! `wrap`: a raw address in.

use gpulend::import::raw::Claim;
use gpulend::ledger::FixedName;
use gpulend::stream::Ready;
use gpulend::{DeviceKind, Dtype, LayoutError, MOST_AXES, Owner, View, import};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyString, PyTuple};
use smallvec::{SmallVec, smallvec};

use crate::errors::{BAD_ARGUMENT, caused, is_gpulends, is_no_number, raise, refused};
use crate::lease::PyLease;
use crate::quick::{self, Quick, optional};
use crate::{address, device, dtype, owners, reaper, stream};

static WHO: FixedName = FixedName::new("gpulend.wrap");

/// Make a lease of a raw address: say what lies there and who keeps it alive.
///
/// Exactly one of `owner` (kept until the memory is no longer needed), `deleter`
/// (called as `deleter(address, nbytes)`, once, on any thread between two bytecodes: it takes no lock) and `unowned=True` (the memory
/// outlives the lease) is required. If the call is refused, the deleter is not
/// called: the memory is still the caller's. A lease with a deleter that is alive when Python
/// exits, and that nobody holds an export or a slice of, is released then.
///
/// `strides` count elements. `device` is asked of the driver if none is named. `ready_on` is the stream or
/// event after which the bytes are valid, or "now"; on a GPU None is the legacy default stream.
/// `check=False` leaves out the question whether the address is live, long enough, and
/// where it is said to be.
///
/// >>> import ctypes, gpulend
/// >>> numbers = (ctypes.c_float * 6)(1, 2, 3, 4, 5, 6)
/// >>> lease = gpulend.wrap(ctypes.addressof(numbers), (2, 3), "float32", owner=numbers)
/// >>> lease[1].to_host()
/// array([4., 5., 6.], dtype=float32)
#[pyfunction]
#[pyo3(signature = (
    address, shape, dtype = None, strides = None, device = None, *, owner = None, deleter = None,
    unowned = false, readonly = false, ready_on = None, check = true,
))]
#[expect(clippy::too_many_arguments, reason = "they are Python keywords")]
pub(crate) fn wrap<'py>(
    address: &Bound<'py, PyAny>,
    shape: &Bound<'py, PyAny>,
    dtype: Option<&Bound<'py, PyAny>>,
    strides: Option<&Bound<'py, PyAny>>,
    device: Option<&Bound<'py, PyAny>>,
    owner: Option<&Bound<'py, PyAny>>,
    deleter: Option<&Bound<'py, PyAny>>,
    unowned: bool,
    readonly: bool,
    ready_on: Option<&Bound<'py, PyAny>>,
    check: bool,
) -> PyResult<Bound<'py, PyLease>> {
    let py = address.py();
    reaper::catch_up(py);
    if [owner.is_some(), deleter.is_some(), unowned].iter().filter(|given| **given).count() != 1 {
        let message = "say who keeps the memory alive, in one way: owner=object that holds it, \
                       deleter=function(address, nbytes) that frees it, or unowned=True";
        return Err(refused(message.to_owned(), BAD_ARGUMENT));
    }
    if let Some(deleter) = deleter
        && !deleter.is_callable()
    {
        return Err(refused("deleter cannot be called".to_owned(), BAD_ARGUMENT));
    }
    let (address, pointee) = address::resolve(address)?;
    let Some(dtype) = dtype.or(pointee.as_ref()) else {
        let message = "give dtype=: a bare address does not say what is there";
        return Err(refused(message.to_owned(), BAD_ARGUMENT));
    };
    let shape = extents(shape, "shape")?;
    let strides = strides.map(|strides| extents(strides, "strides")).transpose()?;
    let claim = Claim {
        address,
        shape: &shape,
        strides: strides.as_deref(),
        dtype: dtype::parse(dtype)?,
        device: device.map(device::parse).transpose()?,
        readonly,
        check,
    };
    let checked = claim.verify().map_err(raise)?;
    let ready = ready_on.map(|ready_on| ready(ready_on, checked.view())).transpose()?.flatten();
    let nbytes = checked.view().nbytes();
    let mut key = None;
    let keeper = || match (owner, deleter) {
        (Some(owner), _) => owners::keep(owner),
        (_, Some(deleter)) => {
            let (owner, number) = owners::call(deleter.clone().unbind(), address, nbytes);
            key = Some(number);
            owner
        }
        _ => Owner::nobody(),
    };
    // SAFETY: (1) and (2): the caller said so by naming who keeps the memory; (3) likewise.
    let lease = unsafe { import::raw::wrap_checked(checked, keeper, ready, WHO.get()) };
    let lease = lease.map_err(raise)?;
    // A deleter frees the memory, perhaps under work that the caller queued; an owner only keeps it.
    if deleter.is_some() || ready_on.is_some() {
        lease.note_unseen_work();
    }
    let lease = match owner {
        Some(owner) => PyLease::keeping(lease, owner),
        None => PyLease::new(lease),
    };
    let lease = lease.publish(py)?;
    if let Some(key) = key {
        owners::hand_out(&lease, key)?;
    }
    Ok(lease)
}

static QUICK: Quick<11> = Quick::new(
    [
        "address", "shape", "dtype", "strides", "device", "owner", "deleter", "unowned",
        "readonly", "ready_on", "check",
    ],
    5,
);

/// Has Python call [`quick_wrap`] first.
pub(crate) fn shorten(module: &Bound<'_, PyModule>) -> PyResult<()> {
    QUICK.shorten(module, "wrap", quick_wrap)
}

/// What Python calls for `wrap(address, shape, dtype, owner=…)`.
///
/// # Safety
///
/// As Python's vectorcall protocol has it, and the GIL is held.
unsafe extern "C" fn quick_wrap(
    module: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the contract.
    let py = unsafe { Python::assume_attached() };
    // SAFETY: the contract; Python keeps them until this returns.
    let given = unsafe { QUICK.given(py, arguments, count, names) };
    if let Some([Some(address), Some(shape), rest @ ..]) = given
        && let [dtype, strides, device, owner @ Some(_), None, None, None, ready_on, None] = rest
        && address.is_exact_instance_of::<PyInt>()
    {
        let [dtype, strides, device, owner, ready_on] =
            [dtype, strides, device, owner, ready_on].map(optional);
        let wrap = || {
            wrap(address, shape, dtype, strides, device, owner, None, false, false, ready_on, true)
        };
        return quick::returned(py, wrap);
    }
    // SAFETY: the contract.
    unsafe { QUICK.call_long(module, arguments, count, names) }
}

/// Reads `ready_on` for memory of a device; the host's is always ready, and takes "now" only.
fn ready(ready_on: &Bound<'_, PyAny>, view: &View) -> PyResult<Option<Ready>> {
    if view.device().kind() == DeviceKind::Cuda {
        return stream::ready(ready_on, view.device().index()).map(Some);
    }
    if ready_on.cast::<PyString>().is_ok_and(|text| text == "now") {
        return Ok(None);
    }
    let found = format!("ready_on={ready_on}").into();
    Err(raise(gpulend::ProtocolError::HostStream { found }))
}

/// A shape or strides: one number, or a sequence of them.
pub(crate) fn extents(numbers: &Bound<'_, PyAny>, name: &str) -> PyResult<SmallVec<[i64; 8]>> {
    let extents = if numbers.is_instance_of::<PyInt>() {
        numbers.extract().map(|number| smallvec![number])
    } else if let Ok(tuple) = numbers.cast_exact::<PyTuple>() {
        // What people pass; asking it for a number first would build an exception.
        tuple.iter_borrowed().map(|number| number.extract()).collect()
    } else {
        match numbers.extract::<i64>() {
            Ok(number) => Ok(smallvec![number]),
            Err(error) if is_no_number(numbers.py(), &error) => {
                numbers.extract().map(|Extents(extents)| extents.into())
            }
            Err(error) => Err(error),
        }
    };
    extents.map_err(|error: PyErr| {
        let py = numbers.py();
        if is_gpulends(py, &error) || !is_no_number(py, &error) {
            return error;
        }
        if error.is_instance_of::<PyOverflowError>(py) {
            return caused(py, raise(LayoutError::Overflow { axis: 0 }), error);
        }
        let found = numbers.get_type().name().map_or_else(|_| "?".into(), |name| name.to_string());
        let message = format!("{name} is a {found}; give an int, or a sequence of ints");
        caused(py, refused(message, BAD_ARGUMENT), error)
    })
}

/// A sequence of not more numbers than an array can have axes: others may say that they are of any length, and be endless.
pub(crate) struct Extents(pub(crate) Vec<i64>);

impl<'a, 'py> FromPyObject<'a, 'py> for Extents {
    type Error = PyErr;

    fn extract(numbers: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        // SAFETY: the object is alive.
        if unsafe { ffi::PySequence_Check(numbers.as_ptr()) } == 0
            || numbers.is_instance_of::<PyString>()
        {
            return Err(PyTypeError::new_err("not a sequence of ints"));
        }
        let mut found = Vec::new();
        for number in numbers.try_iter()? {
            if found.len() == MOST_AXES {
                let rank = numbers
                    .len()
                    .ok()
                    .and_then(|rank| i64::try_from(rank).ok())
                    .unwrap_or(i64::MAX);
                return Err(raise(LayoutError::TooManyAxes { rank, most: MOST_AXES }));
            }
            found.push(number?.extract()?);
        }
        Ok(Self(found))
    }
}

/// The view that an adapter described: address, shape, strides in bytes, dtype, padded, read-only.
pub(crate) fn described(description: &Bound<'_, PyAny>) -> PyResult<View> {
    type Fields = (u64, Extents, Extents, String, bool, bool);
    let (address, Extents(shape), Extents(strides), name, padded, readonly): Fields =
        description.extract()?;
    let mut dtype: Dtype = name.parse().map_err(raise)?;
    if padded {
        dtype = dtype.padded();
    }
    let layout = gpulend::Layout::from_byte_strides(&shape, &strides, dtype).map_err(raise)?;
    View::host(address, dtype, layout, readonly).map_err(raise)
}
