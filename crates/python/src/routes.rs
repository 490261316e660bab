//! `borrow`: which protocol an object's type speaks, remembered for the next time.

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{LazyLock, PoisonError, RwLock};

use gpulend::abi::dlpack::{ExchangeApi, FromPyObject, TensorFromPyObject};
use gpulend::import::array_interface::Interface;
use gpulend::ledger::Name;
use gpulend::{Dtype, Lease, import};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyType, PyTypeMethods};

use crate::errors::{MEANING_LOST, NO_PROTOCOL, export, protocol, raise};
use crate::guards::{self, Guards};
use crate::lease::PyLease;
use crate::protocols::{self, producer_raised, type_name};
use crate::stable_torch::{Found, StableTorch};
use crate::{buffer, capsule, interface, owners, reaper, wrap};

/// How objects of one type are borrowed.
#[derive(Clone, Copy)]
enum Way {
    /// A lease already.
    Lease,
    /// A capsule that somebody's `__dlpack__` returned.
    Capsule,
    /// Exactly `torch.Tensor` or `Parameter`, read by torch's stable ABI.
    StableTorch(&'static StableTorch),
    /// The same of an older torch: shown by torch's table, guarded by us.
    Torch(TensorFromPyObject, &'static Guards),
    /// Another kind of torch tensor: guarded in Python, then `__dlpack__`.
    TorchOther,
    /// A table of C functions.
    Exchange(FromPyObject),
    /// NumPy's arrays: `__dlpack__`, and what that cannot say told by the adapter.
    NumPy,
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

impl Way {
    /// Whether the owner of such a lease is one reference to an object that may well know the lease.
    ///
    /// A torch tensor seldom does, and telling the cycle collector costs a twentieth of its borrowing.
    const fn keeps_object(self) -> bool {
        matches!(self, Self::Cuda | Self::Array)
    }

    const fn protocol(self) -> &'static str {
        match self {
            Self::Lease => "gpulend",
            Self::Capsule => "DLPack capsule",
            Self::StableTorch(_) => "torch stable ABI",
            Self::Torch(..) | Self::Exchange(_) => "DLPack C exchange API",
            Self::TorchOther | Self::NumPy | Self::Dlpack => "DLPack",
            Self::Cuda => "__cuda_array_interface__",
            Self::Array => "__array_interface__",
            Self::Buffer | Self::Ctypes => "buffer protocol",
            Self::Pointer => "ctypes pointer",
        }
    }
}

/// A way, the type it is for, and the name under which the ledger knows such objects.
#[derive(Clone, Copy)]
struct Route {
    way: Way,
    class: usize,
    who: Name,
}

/// Routes by type. The types are kept alive, so an address never means another type.
static ROUTES: LazyLock<RwLock<HashMap<usize, &'static Route>>> = LazyLock::new(RwLock::default);

/// Whether torch's stable ABI is used where torch has it.
static PREFER_STABLE: AtomicBool = AtomicBool::new(true);

/// The route taken last: most callers pass one kind of array after another.
static LAST: AtomicPtr<Route> = AtomicPtr::new(ptr::null_mut());

/// Borrow an array of any framework as a lease, without a copy.
///
/// `stream` is the one the consumer will use; host memory is always ready, whatever it is.
/// `check=False` leaves out the questions about what a plain array would lose.
///
/// A torch tensor must keep its storage while it is lent: `t.data = …`, `t.set_()`, `t.resize_()`
/// and `module.to()` give it another one, and what was lent is freed.
///
/// >>> import gpulend, array
/// >>> lease = gpulend.borrow(array.array("d", [1, 2, 3]))
/// >>> lease.shape, lease.dtype.name, lease.readonly
/// ((3,), 'float64', False)
#[pyfunction]
#[pyo3(signature = (array, stream = None, *, check = true))]
pub(crate) fn borrow<'py>(
    array: &Bound<'py, PyAny>,
    stream: Option<&Bound<'py, PyAny>>,
    check: bool,
) -> PyResult<Bound<'py, PyLease>> {
    let _host_memory_is_always_ready = stream;
    reaper::catch_up(array.py());
    let route = route_of(array)?;
    if let Way::Lease = route.way {
        let lease = array.cast::<PyLease>()?;
        lease.get().held()?;
        return Ok(lease.clone());
    }
    let lease = follow(array, route, check)?;
    let lease =
        if route.way.keeps_object() { PyLease::keeping(lease, array) } else { PyLease::new(lease) };
    lease.publish(array.py())
}

/// Name the protocol by which `borrow` would take this object.
///
/// >>> import gpulend._native
/// >>> gpulend._native.route(b"bytes")
/// 'buffer protocol'
#[pyfunction]
pub(crate) fn route(array: &Bound<'_, PyAny>) -> PyResult<&'static str> {
    route_of(array).map(|route| route.way.protocol())
}

/// Forget all routes, and from now on use torch's stable ABI or not: for tests of the older way.
#[pyfunction]
pub(crate) fn _reroute(stable_torch: bool) {
    PREFER_STABLE.store(stable_torch, Ordering::Relaxed);
    ROUTES.write().unwrap_or_else(PoisonError::into_inner).clear();
    LAST.store(ptr::null_mut(), Ordering::Release);
}

fn follow(array: &Bound<'_, PyAny>, route: Route, check: bool) -> PyResult<Lease> {
    let who = route.who;
    match route.way {
        Way::StableTorch(stable) => read_torch(array, stable, check, who),
        Way::Torch(show, guards) => show_torch(array, show, check.then_some(guards), who),
        Way::Exchange(take) => take_exchange(array, take, who),
        Way::NumPy => numpy(array, who),
        Way::Dlpack => protocols::dlpack(array, who),
        Way::TorchOther => {
            if check {
                guards::explain(array)?;
            }
            protocols::dlpack(array, who)
        }
        Way::Capsule => capsule::take(array, who),
        Way::Cuda => described(array, Interface::Cuda, who),
        Way::Array => described(array, Interface::Array, who),
        Way::Buffer => buffer::take(array, who),
        Way::Ctypes => mapped(buffer::take(array, who)?),
        Way::Pointer => {
            let pointers = array.py().import(intern!(array.py(), "gpulend._pointers"))?;
            mapped(buffer::take(&pointers.call_method1("contents", (array,))?, who)?)
        }
        Way::Lease => Err(protocol("a lease needs no borrowing".to_owned(), NO_PROTOCOL)),
    }
}

/// Lets only memory that is there through.
fn mapped(lease: Lease) -> PyResult<Lease> {
    let (low, bytes) = lease.view().extent();
    gpulend::host::check_mapped(low, bytes).map_err(raise)?;
    Ok(lease)
}

/// The stable ABI describes the tensor; the Python object itself is the owner.
fn read_torch(
    array: &Bound<'_, PyAny>,
    stable: &StableTorch,
    check: bool,
    who: Name,
) -> PyResult<Lease> {
    // SAFETY: nothing of Python's runs until `enter` has copied what was told.
    match unsafe { stable.read(array, check) } {
        Some(Found::Plain(told)) => {
            // SAFETY: the object keeps its storage, which torch lets anybody read and write.
            let lease = unsafe { import::raw::enter(told, || owners::keep(array), who) };
            lease.map_err(|error| Refused::Core(error).explain(array))
        }
        _ => Err(Refused::Meaning.explain(array)),
    }
}

/// torch shows the tensor (no allocation on its side); the Python object itself is the owner.
fn show_torch(
    array: &Bound<'_, PyAny>,
    show: TensorFromPyObject,
    guards: Option<&Guards>,
    who: Name,
) -> PyResult<Lease> {
    let mut tensor = MaybeUninit::uninit();
    // SAFETY: the table is that of this exact type; control has not left torch's object since.
    if unsafe { show(array.as_ptr().cast(), tensor.as_mut_ptr()) } != 0 {
        return Err(Refused::Raised(PyErr::fetch(array.py())).explain(array));
    }
    // SAFETY: 0 means that the tensor was filled in.
    let tensor = unsafe { tensor.assume_init() };
    let borrow = || -> Result<Lease, Refused> {
        let dtype = Dtype::from_dlpack(tensor.dtype, false).map_err(gpulend::Error::from)?;
        if let Some(guards) = guards
            && guards.refuse(array, dtype)?
        {
            return Err(Refused::Meaning);
        }
        // SAFETY: (1) just filled; (2) the object keeps its storage, which torch lets anybody write.
        Ok(unsafe { import::dlpack::take_shown(&tensor, || owners::keep(array), who) }?)
    };
    borrow().map_err(|refused| refused.explain(array))
}

/// Why a tensor was not borrowed.
enum Refused {
    /// A plain array would lose part of what it means.
    Meaning,
    /// The core says.
    Core(gpulend::Error),
    /// torch raised when asked.
    Raised(PyErr),
}

impl From<gpulend::Error> for Refused {
    fn from(error: gpulend::Error) -> Self {
        Self::Core(error)
    }
}

impl From<PyErr> for Refused {
    fn from(error: PyErr) -> Self {
        Self::Raised(error)
    }
}

impl Refused {
    /// The adapter's words, if it has some; else the best of ours.
    #[cold]
    fn explain(self, array: &Bound<'_, PyAny>) -> PyErr {
        if let Err(explained) = guards::explain(array) {
            return explained;
        }
        match self {
            Self::Core(error) => raise(error),
            Self::Raised(error) => producer_raised(array, "__dlpack_c_exchange_api__", error),
            Self::Meaning => {
                let message = "the tensor carries a meaning that a plain array would lose";
                export(message.to_owned(), MEANING_LOST)
            }
        }
    }
}

fn take_exchange(array: &Bound<'_, PyAny>, take: FromPyObject, who: Name) -> PyResult<Lease> {
    let mut tensor = ptr::null_mut();
    // SAFETY: the table is that of this type.
    if unsafe { take(array.as_ptr().cast(), &raw mut tensor) } != 0 {
        let error = PyErr::fetch(array.py());
        return Err(producer_raised(array, "__dlpack_c_exchange_api__", error));
    }
    // SAFETY: the table's contract is that of `take_versioned`; the tensor is ours.
    unsafe { import::dlpack::take_versioned_by(tensor, owners::release_versioned_tensor, who) }
        .map_err(raise)
}

fn numpy(array: &Bound<'_, PyAny>, who: Name) -> PyResult<Lease> {
    match protocols::call_versioned(array) {
        Ok(capsule) => capsule::take(&capsule, who),
        // What DLPack cannot say (ml_dtypes, read-only before NumPy 2.1), the adapter can.
        Err(error) => {
            let py = array.py();
            if !error.is_instance_of::<PyBufferError>(py)
                && !error.is_instance_of::<pyo3::exceptions::PyTypeError>(py)
            {
                return Err(producer_raised(array, "__dlpack__", error));
            }
            let adapter = py.import(intern!(py, "gpulend.adapters.numpy"))?;
            let described = adapter.call_method1(intern!(py, "describe"), (array,))?;
            let view = wrap::described(&described)?;
            // SAFETY: (1) and (2) the array keeps its memory and said whether it is read-only;
            // (3) is the Python caller's, as for any two views of one array.
            Ok(unsafe { import::raw::wrap(view, owners::keep(array), who) })
        }
    }
}

fn described(array: &Bound<'_, PyAny>, interface: Interface, who: Name) -> PyResult<Lease> {
    let dict = array
        .getattr(interface.name())
        .map_err(|cause| producer_raised(array, interface.name(), cause))?;
    let view = interface::describe(&dict, interface)?;
    // SAFETY: the protocol says that the object that showed the dict keeps the memory.
    Ok(unsafe { import::raw::wrap(view, owners::keep(array), who) })
}

fn route_of(array: &Bound<'_, PyAny>) -> PyResult<Route> {
    let class = array.get_type_ptr().addr();
    // SAFETY: null, or a route that `ROUTES` keeps for good.
    if let Some(last) = unsafe { LAST.load(Ordering::Acquire).as_ref() }
        && last.class == class
    {
        return Ok(*last);
    }
    let known = ROUTES.read().unwrap_or_else(PoisonError::into_inner).get(&class).copied();
    if let Some(route) = known {
        LAST.store(ptr::from_ref(route).cast_mut(), Ordering::Release);
        return Ok(*route);
    }
    let (way, lasting) = find_way(array)?;
    let route = Route { way, class, who: Name::intern(&type_name(array)) };
    if lasting {
        // Kept for good, with its type: see `ROUTES`.
        let route: &'static Route = Box::leak(Box::new(route));
        let _kept = array.get_type().into_ptr();
        ROUTES.write().unwrap_or_else(PoisonError::into_inner).insert(class, route);
    }
    Ok(route)
}

/// The best protocol of an object, and whether all objects of its type have it.
fn find_way(array: &Bound<'_, PyAny>) -> PyResult<(Way, bool)> {
    let py = array.py();
    let class = array.get_type();
    if array.is_exact_instance_of::<PyLease>() {
        return Ok((Way::Lease, true));
    }
    if array.is_exact_instance_of::<PyCapsule>() {
        return Ok((Way::Capsule, true));
    }
    if let Some(way) = find_torch(&class)? {
        return Ok((way, true));
    }
    if let Some(ExchangeApi { managed_tensor_from_py_object_no_sync: Some(take), .. }) =
        protocols::exchange_api(class.as_any())?
    {
        return Ok((Way::Exchange(*take), true));
    }
    if class.hasattr(intern!(py, "__dlpack__"))? {
        refuse_masked(&class)?;
        let is_numpy = is_made_of(&class, "numpy", "ndarray");
        return Ok((if is_numpy { Way::NumPy } else { Way::Dlpack }, true));
    }
    for (interface, way) in [(Interface::Cuda, Way::Cuda), (Interface::Array, Way::Array)] {
        if class.hasattr(interface.name())? {
            return Ok((way, true));
        }
        if array.hasattr(interface.name())? {
            return Ok((way, false));
        }
    }
    // ctypes pointers have a buffer too: of the pointer, not of what it points to.
    let pointers = py.import(intern!(py, "gpulend._pointers"))?;
    let is_pointer: bool = pointers.call_method1("is_pointer", (&class,))?.extract()?;
    if pointers.call_method1("points_to_array", (&class,))?.extract()? {
        return Ok((Way::Pointer, true));
    }
    // SAFETY: the object is alive.
    if !is_pointer && unsafe { ffi::PyObject_CheckBuffer(array.as_ptr()) } == 1 {
        let is_ctypes: bool = pointers.call_method1("is_ctypes", (&class,))?.extract()?;
        return Ok((if is_ctypes { Way::Ctypes } else { Way::Buffer }, true));
    }
    let hint: String = pointers.call_method1("hint", (array,))?.extract()?;
    let message = format!(
        "{} has none of __dlpack__, __cuda_array_interface__, __array_interface__ \
         and the buffer protocol{hint}",
        type_name(array)
    );
    Err(protocol(message, NO_PROTOCOL))
}

/// Whether a class is, or is made of, the class of that name in that package.
fn is_made_of(class: &Bound<'_, PyType>, package: &str, name: &str) -> bool {
    let reads = |base: &Bound<'_, PyAny>, attribute: &str| {
        base.getattr(attribute).and_then(|text| text.extract::<String>()).unwrap_or_default()
    };
    class.mro().iter().any(|base| {
        reads(&base, "__name__") == name && reads(&base, "__module__").starts_with(package)
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
    Err(export(message.to_owned(), MEANING_LOST))
}

/// Whether a type is torch's, without importing torch for it.
fn find_torch(class: &Bound<'_, PyType>) -> PyResult<Option<Way>> {
    let py = class.py();
    let modules = py.import(intern!(py, "sys"))?.getattr(intern!(py, "modules"))?;
    let Ok(torch) = modules.get_item(intern!(py, "torch")) else { return Ok(None) };
    let Ok(tensor) = torch.getattr(intern!(py, "Tensor")) else { return Ok(None) };
    if !class.is_subclass(&tensor)? {
        return Ok(None);
    }
    let parameter = torch.getattr(intern!(py, "nn"))?.getattr(intern!(py, "Parameter"))?;
    let exact = class.is(&tensor) || class.is(&parameter);
    if exact
        && PREFER_STABLE.load(Ordering::Relaxed)
        && let Some(stable) = StableTorch::of(py)
    {
        return Ok(Some(Way::StableTorch(stable)));
    }
    // A torch whose methods are made otherwise than we know is asked in Python.
    let way = match (protocols::exchange_api(class.as_any())?, Guards::of(py, &torch)) {
        (Some(ExchangeApi { dltensor_from_py_object_no_sync: Some(show), .. }), Ok(guards))
            if exact =>
        {
            Way::Torch(*show, guards)
        }
        _ => Way::TorchOther,
    };
    Ok(Some(way))
}
