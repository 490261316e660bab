//! Which protocol an object's type speaks, remembered for the next time.

use std::collections::BTreeMap;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use gpulend::abi::dlpack::{CurrentWorkStream, ExchangeApi, FromPyObject};
use gpulend::fork::ProcessLock;
use gpulend::import::array_interface::Interface;
use gpulend::ledger::Name;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCapsule, PyType, PyTypeMethods};
use pyo3::{PyTypeInfo, ffi};

use crate::arguments::stands_in;
use crate::classes;
use crate::counts::Counted;
use crate::errors::{MEANING_LOST, NO_PROTOCOL, refused};
use crate::lease::PyLease;
use crate::protocols::{self, type_name};
use crate::torch::{self, Torch};

/// How objects of one type are borrowed.
#[derive(Clone, Copy)]
pub(crate) enum Route {
    /// A lease already.
    Lease,
    /// A capsule that somebody's `__dlpack__` returned.
    Capsule,
    /// Exactly `torch.Tensor` or `Parameter`: read by libtorch's functions, or shown by its exchange table.
    Torch(&'static Torch),
    /// Another kind of torch tensor: guarded in Python, then `__dlpack__`.
    TorchOther(Option<CurrentWorkStream>),
    /// A table of C functions.
    Exchange(FromPyObject, Option<CurrentWorkStream>),
    /// CuPy's arrays: `__dlpack__` without its own ordering, which costs more than ours.
    Cupy,
    /// Arrays that only their framework's adapter can describe, or refuse.
    Adapted(&'static Adapted),
    /// NumPy's arrays: `__dlpack__`, which a subclass may override (not `own`). The adapter describes what that cannot.
    NumPy { own: bool },
    /// cuda.core's buffers: `__dlpack__` that orders nothing, whatever stream it is told.
    CudaCore,
    /// `__dlpack__`.
    Dlpack,
    /// `__cuda_array_interface__`.
    Cuda,
    /// `__array_interface__`.
    Array,
    /// The buffer protocol.
    Buffer,
    /// A ctypes object: a buffer whose address anybody may have made up.
    Ctypes,
    /// A ctypes pointer to an array.
    Pointer,
}

/// A framework whose arrays come in by its adapter, `gpulend.adapters.<name>`.
///
/// `place(array)` tells the GPU that an array is on, or none for the host, and refuses what is no plain array.
/// `stand_in(array, stream, ready_on)` gives what is borrowed instead, a capsule or another array: `stream`,
/// a number where there is a GPU, then waits for it, and `ready_on` is what the caller of `borrow` said.
pub(crate) struct Adapted {
    pub(crate) name: &'static str,
    /// Package and name of the classes that it knows, and of what stands for them.
    classes: &'static [(&'static str, &'static str)],
    protocol: &'static str,
    /// What its framework is asked by, for the errors that it raises.
    pub(crate) call: &'static str,
    /// Whether nobody writes its arrays again, whatever DLPack says.
    pub(crate) immutable: bool,
    pub(crate) functions: PyOnceLock<[Py<PyAny>; 2]>,
}

static ADAPTED: [Adapted; 4] = [
    Adapted {
        name: "jax",
        classes: &[("jaxlib", "ArrayImpl"), ("jax", "Array"), ("jax", "Tracer")],
        protocol: "DLPack",
        call: "__dlpack__",
        immutable: true,
        functions: PyOnceLock::new(),
    },
    Adapted {
        name: "tensorflow",
        classes: &[
            ("tensorflow", "Tensor"),
            ("tensorflow", "CompositeTensor"),
            ("tensorflow", "TensorArray"),
            ("keras", "KerasTensor"),
        ],
        protocol: "DLPack",
        call: "__dlpack__",
        immutable: true,
        functions: PyOnceLock::new(),
    },
    Adapted {
        name: "pyopencl",
        classes: &[
            ("pyopencl", "Array"),
            ("pyopencl", "SVMPointer"),
            ("pyopencl", "MemoryObjectHolder"),
        ],
        protocol: "OpenCL mapping",
        call: "map",
        immutable: false,
        functions: PyOnceLock::new(),
    },
    Adapted {
        name: "pycuda",
        classes: &[("pycuda", "DeviceAllocation"), ("pycuda", "PooledDeviceAllocation")],
        protocol: "__cuda_array_interface__",
        call: "__int__",
        immutable: false,
        functions: PyOnceLock::new(),
    },
];

impl Route {
    /// Whether the arrays are torch's.
    pub(crate) const fn is_torch(self) -> bool {
        matches!(self, Self::Torch(_) | Self::TorchOther(_))
    }

    /// Whether the owner of such a lease is one reference to an object that may well know the lease.
    ///
    /// A torch tensor seldom does, and telling the cycle collector costs a twentieth of its borrowing.
    pub(crate) const fn keeps_object(self) -> bool {
        matches!(self, Self::Cuda | Self::Array)
    }

    /// What `route_counts` calls it; the native reader and the exchange table of torch are counted where one of them serves.
    pub(crate) const fn counted(self) -> Option<Counted> {
        Some(match self {
            Self::Torch(_) => return None,
            Self::Lease => Counted::Lease,
            Self::Capsule => Counted::Capsule,
            Self::TorchOther(_) => Counted::TorchDlpack,
            Self::Exchange(..) => Counted::Exchange,
            Self::Cupy => Counted::Cupy,
            Self::Adapted(_) => Counted::Adapted,
            Self::NumPy { .. } => Counted::NumPy,
            Self::CudaCore => Counted::CudaCore,
            Self::Dlpack => Counted::Dlpack,
            Self::Cuda => Counted::CudaInterface,
            Self::Array => Counted::ArrayInterface,
            Self::Buffer => Counted::Buffer,
            Self::Ctypes => Counted::Ctypes,
            Self::Pointer => Counted::Pointer,
        })
    }

    const fn protocol(self) -> &'static str {
        match self {
            Self::Lease => "gpulend",
            Self::Capsule => "DLPack capsule",
            Self::Torch(torch) if torch.is_native() => "torch native reader",
            Self::Torch(_) | Self::Exchange(..) => "DLPack C exchange API",
            Self::TorchOther(_)
            | Self::NumPy { .. }
            | Self::Cupy
            | Self::CudaCore
            | Self::Dlpack => "DLPack",
            Self::Adapted(adapted) => adapted.protocol,
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
    class: usize,
    pub(crate) who: Name,
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
    let (route, lasting) = find_route(array)?;
    let producer = Producer { route, class, who: name_of(array) };
    if lasting {
        classes::watch(&array.get_type())?;
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
fn find_route(array: &Bound<'_, PyAny>) -> PyResult<(Route, bool)> {
    let py = array.py();
    let class = array.get_type();
    if array.is_exact_instance_of::<PyLease>() {
        return Ok((Route::Lease, true));
    }
    if array.is_exact_instance_of::<PyCapsule>() {
        return Ok((Route::Capsule, true));
    }
    if let Some(route) = find_torch(&class)? {
        return Ok((route, true));
    }
    if let Some(adapted) = find_adapted(&class) {
        return Ok((Route::Adapted(adapted), true));
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
        refuse_masked(&class)?;
        let route = match () {
            () if is_made_of(&class, "numpy", "ndarray") => {
                let name = intern!(py, "__dlpack__");
                let array = py.import(intern!(py, "numpy")).and_then(|it| it.getattr("ndarray"));
                let theirs = array.and_then(|array| array.getattr(name));
                Route::NumPy { own: theirs.is_ok_and(|theirs| theirs.is(&method)) }
            }
            () if is_made_of(&class, "cupy", "ndarray") => Route::Cupy,
            () if is_made_of(&class, "cuda", "Buffer") => Route::CudaCore,
            () => Route::Dlpack,
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

/// The framework whose adapter knows a class.
fn find_adapted(class: &Bound<'_, PyType>) -> Option<&'static Adapted> {
    let ancestry = ancestry(class);
    ADAPTED.iter().find(|adapted| {
        adapted.classes.iter().any(|(package, name)| has_class(&ancestry, package, name))
    })
}

/// Whether a class is, or is made of, the class of that name in that package.
fn is_made_of(class: &Bound<'_, PyType>, package: &str, name: &str) -> bool {
    has_class(&ancestry(class), package, name)
}

/// Modules and names of a class and of all that it is made of.
fn ancestry(class: &Bound<'_, PyType>) -> Vec<(String, String)> {
    let reads = |base: &Bound<'_, PyAny>, attribute: &str| {
        base.getattr(attribute).and_then(|text| text.extract::<String>()).unwrap_or_default()
    };
    class.mro().iter().map(|base| (reads(&base, "__module__"), reads(&base, "__name__"))).collect()
}

fn has_class(ancestry: &[(String, String)], package: &str, name: &str) -> bool {
    ancestry.iter().any(|(module, class)| {
        class == name
            && module.split('.').next() == package.split('.').next()
            && module.starts_with(package)
    })
}

/// NumPy's masked arrays, and classes made of them, export their data and forget the mask.
fn refuse_masked(class: &Bound<'_, PyType>) -> PyResult<()> {
    let masked = is_made_of(class, "numpy.ma", "MaskedArray");
    if !masked {
        return Ok(());
    }
    let message =
        "a masked array would lose its mask; borrow `array.filled(value)` or `array.data`";
    Err(refused(message.to_owned(), MEANING_LOST))
}

/// Whether a type is torch's, without importing torch for it.
fn find_torch(class: &Bound<'_, PyType>) -> PyResult<Option<Route>> {
    let py = class.py();
    let modules = py.import(intern!(py, "sys"))?.getattr(intern!(py, "modules"))?;
    let Ok(torch) = modules.get_item(intern!(py, "torch")) else { return Ok(None) };
    let Ok(tensor) = torch.getattr(intern!(py, "Tensor")) else { return Ok(None) };
    if !class.is_subclass(&tensor)? {
        return Ok(None);
    }
    let parameter = torch.getattr(intern!(py, "nn"))?.getattr(intern!(py, "Parameter"))?;
    let exact = class.is(&tensor) || class.is(&parameter);
    if exact && let Some(torch) = Torch::of(py, &torch, NATIVE_TORCH.load(Ordering::Relaxed))? {
        return Ok(Some(Route::Torch(torch)));
    }
    let table = protocols::exchange_api(&tensor)?;
    Ok(Some(Route::TorchOther(table.and_then(|table| table.current_work_stream))))
}
