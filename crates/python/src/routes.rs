//! Which protocol an object's type speaks, remembered for the next time.

use std::collections::BTreeMap;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use gpulend::abi::dlpack::{CurrentWorkStream, ExchangeApi, FromPyObject};
use gpulend::fork::ProcessLock;
use gpulend::import::array_interface::Interface;
use gpulend::kernel::stands_in;
use gpulend::ledger::Name;
use gpulend::stream::{Stream, current};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyType};
use pyo3::{PyTypeInfo, ffi};

use crate::counts::Counted;
use crate::errors::{NO_PROTOCOL, refused};
use crate::frameworks::{self, Kind, Moment, Native};
use crate::lease::PyLease;
use crate::numpy_arrays::Reader;
use crate::protocols::{self, type_name};
use crate::torch::{self, Torch};
use crate::{classes, cupy, numpy_arrays};

/// How objects of one type are borrowed.
#[derive(Clone, Copy)]
pub(crate) enum Route {
    /// A lease already.
    Lease,
    /// A capsule that a `__dlpack__` returned.
    Capsule,
    /// Exactly `torch.Tensor` or `Parameter`: read by libtorch's functions, or shown by its exchange table.
    Torch(&'static Torch),
    /// Another kind of torch tensor: guarded in Python, then `__dlpack__`.
    TorchOther(Option<CurrentWorkStream>),
    /// A table of C functions.
    Exchange(FromPyObject, Option<CurrentWorkStream>),
    /// CuPy's arrays: read where they lie, or by their attributes. `__dlpack__` orders them itself, which costs more than we do.
    Cupy(Option<&'static cupy::Reader>),
    /// Arrays that only their framework's adapter can describe, or refuse.
    Adapted(&'static Kind),
    /// NumPy's arrays, read where they lie.
    NumPy(&'static Reader),
    /// Those that cannot be, or whose class overrides `__dlpack__`: by that, and the adapter describes what it cannot.
    NumPyOther,
    /// `__dlpack__`.
    Dlpack,
    /// `__cuda_array_interface__`.
    Cuda,
    /// `__array_interface__`.
    Array,
    /// The buffer protocol.
    Buffer,
    /// A ctypes object: a buffer whose address may be made up.
    Ctypes,
    /// A ctypes pointer to an array.
    Pointer,
}

impl Route {
    /// Whether the arrays are torch's.
    pub(crate) const fn is_torch(self) -> bool {
        matches!(self, Self::Torch(_) | Self::TorchOther(_))
    }

    /// Whether such arrays are read without arbitrary code.
    pub(crate) const fn runs_no_code(self) -> bool {
        matches!(self, Self::Torch(_) | Self::NumPy(_) | Self::Cupy(_))
    }

    /// Whether the owner of such a lease is one reference to an object that may well know the lease.
    ///
    /// A torch tensor seldom does, and telling the cycle collector costs a twentieth of its borrowing.
    pub(crate) const fn keeps_object(self) -> bool {
        matches!(self, Self::Cuda | Self::Array)
    }

    /// What `route_counts` calls it; the readers of torch, NumPy and CuPy, and what serves in their place, are counted where they are used.
    pub(crate) const fn counted(self) -> Option<Counted> {
        Some(match self {
            Self::Torch(_) | Self::NumPy(_) | Self::NumPyOther | Self::Cupy(_) => return None,
            Self::Lease => Counted::Lease,
            Self::Capsule => Counted::Capsule,
            Self::TorchOther(_) => Counted::TorchDlpack,
            Self::Exchange(..) => Counted::Exchange,
            Self::Adapted(_) => Counted::Adapted,
            Self::Dlpack => Counted::Dlpack,
            Self::Cuda => Counted::CudaInterface,
            Self::Array => Counted::ArrayInterface,
            Self::Buffer => Counted::Buffer,
            Self::Ctypes => Counted::Ctypes,
            Self::Pointer => Counted::Pointer,
        })
    }

    fn protocol(self) -> &'static str {
        match self {
            Self::Lease => "gpulend",
            Self::Capsule => "DLPack capsule",
            Self::Torch(torch) if torch.is_native() => "torch native reader",
            Self::Torch(_) | Self::Exchange(..) => "DLPack C exchange API",
            Self::Cupy(Some(_)) => "CuPy native reader",
            Self::Cupy(None) => "array attributes",
            Self::NumPy(_) => "NumPy native reader",
            Self::TorchOther(_) | Self::NumPyOther | Self::Dlpack => "DLPack",
            Self::Adapted(kind) => kind.protocol.as_str(),
            Self::Cuda => "__cuda_array_interface__",
            Self::Array => "__array_interface__",
            Self::Buffer | Self::Ctypes => "buffer protocol",
            Self::Pointer => "ctypes pointer",
        }
    }
}

/// A route, the type it is for, and the name under which the ledger knows such objects.
#[derive(Clone, Copy)]
pub(crate) struct Producer {
    pub(crate) route: Route,
    /// What its framework's adapter says of it, if there is one.
    pub(crate) kind: Option<&'static Kind>,
    class: usize,
    pub(crate) who: Name,
}

impl Producer {
    /// The current stream of its framework, or of gpulend if that names none.
    pub(crate) fn stream(&self, py: Python<'_>, device: u8) -> PyResult<Stream> {
        match self.kind.and_then(|kind| kind.current.as_ref()) {
            Some(ask) => protocols::adapters_stream(ask.bind(py), device),
            None => Ok(current(device)),
        }
    }
}

/// Routes by type. Entries are removed when the type dies: see `classes`.
static ROUTES: ProcessLock<BTreeMap<usize, Box<Producer>>> = ProcessLock::new(BTreeMap::new());

/// Whether torch's tensors are read by the native reader where there is one.
static NATIVE_TORCH: AtomicBool = AtomicBool::new(true);

/// The route taken last: most callers pass one kind of array after another.
static LAST: AtomicPtr<Producer> = AtomicPtr::new(ptr::null_mut());

/// Name the protocol by which `borrow` would take this object.
///
/// >>> import gpulend._native
/// >>> gpulend._native.route(b"bytes")
/// 'buffer protocol'
#[pyfunction]
pub(crate) fn route(array: &Bound<'_, PyAny>) -> PyResult<&'static str> {
    producer_of(array).map(|producer| producer.route.protocol())
}

/// Forget all routes, and from now on read torch's tensors by the native reader or by its exchange table: for tests of both.
#[pyfunction]
pub(crate) fn _reroute(native_torch: bool) {
    NATIVE_TORCH.store(native_torch, Ordering::Relaxed);
    forget_all();
}

/// Forgets all routes.
pub(crate) fn forget_all() {
    LAST.store(ptr::null_mut(), Ordering::Release);
    ROUTES.lock().clear();
}

/// Removes the route of a dying class.
pub(crate) fn forget(class: usize) {
    LAST.store(ptr::null_mut(), Ordering::Release);
    ROUTES.lock().remove(&class);
}

/// The route of a type, if it was the one taken last.
///
/// A copy, because Python code that runs later can remove the route.
#[inline]
pub(crate) fn last_producer(class: *mut ffi::PyTypeObject) -> Option<Producer> {
    // SAFETY: null, or a route in `ROUTES`. Routes are removed with the GIL held, which the caller holds too, and only after
    // `LAST` was set to null.
    let last = unsafe { LAST.load(Ordering::Acquire).as_ref() };
    last.filter(|last| last.class == class.addr()).copied()
}

/// The route of a type of which an array came before.
#[inline]
fn known_route(class: *mut ffi::PyTypeObject) -> Option<Producer> {
    let look_up = || {
        let routes = ROUTES.lock();
        routes.get(&class.addr()).map(|producer| **producer)
    };
    last_producer(class).or_else(look_up)
}

/// The address of the first element of an array that is read where it lies; nothing of others.
#[inline]
pub(crate) fn native_address(array: &Bound<'_, PyAny>) -> Option<u64> {
    // The route taken last stays that of the arrays that come in.
    let known = known_route(array.get_type_ptr());
    let producer = known.map_or_else(|| producer_of(array).ok(), Some)?;
    match producer.route {
        // SAFETY: the route is that of its exact type.
        Route::Torch(torch) => unsafe { torch.address(array) },
        // SAFETY: as above.
        Route::Cupy(Some(reader)) => unsafe { reader.address(array) },
        _ => None,
    }
}

/// Counts a write, for autograd, of an object that came before: if it is a tensor, or a lease of one.
#[inline]
pub(crate) fn count_write(object: &Bound<'_, PyAny>) -> PyResult<()> {
    let class = object.get_type_ptr();
    if class == PyLease::type_object_raw(object.py()) {
        // SAFETY: that is its class.
        let lease = unsafe { object.cast_unchecked::<PyLease>() };
        return lease.get().tensor(object.py()).map_or(Ok(()), |tensor| count_tensor(&tensor));
    }
    count_tensor(object)
}

#[inline]
fn count_tensor(object: &Bound<'_, PyAny>) -> PyResult<()> {
    let Some(producer) = known_route(object.get_type_ptr()) else { return Ok(()) };
    match producer.route {
        // SAFETY: the route is that of its exact type.
        Route::Torch(torch) => unsafe { torch.count_write(object) },
        Route::TorchOther(_) => torch::count_write(object),
        _ => Ok(()),
    }
}

pub(crate) fn producer_of(array: &Bound<'_, PyAny>) -> PyResult<Producer> {
    let class = array.get_type_ptr().addr();
    if let Some(last) = last_producer(array.get_type_ptr()) {
        return Ok(last);
    }
    if let Some(producer) = ROUTES.lock().get(&class) {
        LAST.store(ptr::from_ref(&**producer).cast_mut(), Ordering::Release);
        return Ok(**producer);
    }
    let moment = Moment::now();
    let (kind, known) = frameworks::find(&array.get_type())?;
    let (route, lasting) = find_route(array, kind)?;
    let producer = Producer { route, kind, class, who: name_of(array) };
    if lasting && known {
        classes::watch(&array.get_type())?;
        if moment != Moment::now() {
            return Ok(producer);
        }
        LAST.store(ptr::null_mut(), Ordering::Release);
        ROUTES.lock().insert(class, Box::new(producer));
    }
    Ok(producer)
}

/// The name of an object's class in the ledger.
fn name_of(array: &Bound<'_, PyAny>) -> Name {
    let name = type_name(array);
    // Launches look for these names.
    if stands_in(&name) { Name::intern(&name) } else { Name::intern_passing(&name) }
}

/// The best protocol of an object, and whether all objects of its type have it.
fn find_route(array: &Bound<'_, PyAny>, kind: Option<&'static Kind>) -> PyResult<(Route, bool)> {
    let py = array.py();
    let class = array.get_type();
    if array.is_exact_instance_of::<PyLease>() {
        return Ok((Route::Lease, true));
    }
    if array.is_exact_instance_of::<PyCapsule>() {
        return Ok((Route::Capsule, true));
    }
    if let Some(kind) = kind {
        kind.refuse_type(&class)?;
        if kind.native == Some(Native::Torch) {
            return Ok((find_torch(&class)?, true));
        }
        if kind.is_adapted() {
            return Ok((Route::Adapted(kind), true));
        }
    }
    if let Some(ExchangeApi {
        managed_tensor_from_py_object_no_sync: Some(take),
        current_work_stream,
        ..
    }) = protocols::exchange_api(class.as_any())?
    {
        return Ok((Route::Exchange(*take, *current_work_stream), true));
    }
    if let Some(method) = class.getattr_opt(intern!(py, "__dlpack__"))? {
        let route = match kind.and_then(|kind| kind.native) {
            Some(Native::NumPy) if numpy_arrays::is_array(&class) => {
                let reader = Reader::get(py).filter(|_| numpy_arrays::is_own(&method));
                reader.map_or(Route::NumPyOther, Route::NumPy)
            }
            Some(Native::Cupy) => Route::Cupy(cupy::Reader::of(&class)),
            Some(Native::NumPy | Native::Torch) | None => Route::Dlpack,
        };
        return Ok((route, true));
    }
    for (interface, route) in [(Interface::Cuda, Route::Cuda), (Interface::Array, Route::Array)] {
        if class.hasattr(interface.name())? {
            return Ok((route, true));
        }
        if array.hasattr(interface.name())? {
            return Ok((route, false));
        }
    }
    // ctypes pointers have a buffer too: of the pointer, not of what it points to.
    let pointers = py.import(intern!(py, "gpulend._pointers"))?;
    let is_pointer: bool = pointers.call_method1("is_pointer", (&class,))?.extract()?;
    if pointers.call_method1("points_to_array", (&class,))?.extract()? {
        return Ok((Route::Pointer, true));
    }
    // SAFETY: the object is alive.
    if !is_pointer && unsafe { ffi::PyObject_CheckBuffer(array.as_ptr()) } == 1 {
        let is_ctypes: bool = pointers.call_method1("is_ctypes", (&class,))?.extract()?;
        return Ok((if is_ctypes { Route::Ctypes } else { Route::Buffer }, true));
    }
    let hint: String = pointers.call_method1("hint", (array,))?.extract()?;
    let message = format!(
        "{} has none of __dlpack__, __cuda_array_interface__, __array_interface__ \
         and the buffer protocol{hint}",
        type_name(array)
    );
    Err(refused(message, NO_PROTOCOL))
}

/// How tensors of a type of torch's are read.
fn find_torch(class: &Bound<'_, PyType>) -> PyResult<Route> {
    let py = class.py();
    let torch = py.import(intern!(py, "torch"))?;
    let tensor = torch.getattr(intern!(py, "Tensor"))?;
    let parameter = torch.getattr(intern!(py, "nn"))?.getattr(intern!(py, "Parameter"))?;
    let exact = class.is(&tensor) || class.is(&parameter);
    if exact && let Some(torch) = Torch::of(py, &torch, NATIVE_TORCH.load(Ordering::Relaxed))? {
        return Ok(Route::Torch(torch));
    }
    let table = protocols::exchange_api(&tensor)?;
    Ok(Route::TorchOther(table.and_then(|table| table.current_work_stream)))
}
