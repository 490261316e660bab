//! `Consumer`: a framework as its adapter describes it, and the lending to it.

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use gpulend::abi::dlpack::{
    CurrentWorkStream, ExchangeApi, Tensor, TensorFromPyObject, ToPyObject,
};
use gpulend::export::consumer::{Admitted, Consumer, Writes};
use gpulend::export::dlpack::Receiver;
use gpulend::export::face::{self, Shown};
use gpulend::fork::ProcessLock;
use gpulend::stream::{Stream, current};
use gpulend::{DeviceKind, Dtype, ExportError, Handed, Lease, export};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use crate::errors::{
    BAD_ARGUMENT, NO_PROTOCOL, NOT_KEPT, caused, is_failure, is_ours, raise, refused,
};
use crate::frameworks::Native;
use crate::lease::PyLease;
use crate::lending::PyExport;
use crate::memory::twin;
use crate::protocols::{self, exchange_api, type_name};
use crate::routes::native_address;
use crate::{cupy, dtype, faces, numpy_arrays, stream};

/// A framework that memory is lent to: its name, and how its adapter describes it, a `gpulend.adapters.Consumer`.
#[pyclass(frozen, name = "Consumer", module = "gpulend._native")]
pub(crate) struct PyConsumer {
    consumer: Consumer,
    table: Option<Table>,
    described: Described,
    address: Address,
    /// Whether the adapter is gpulend's own, whose arrays are known to keep what they are lent.
    own: bool,
    /// Whether it was said that arrays of frameworks that never write must not be written there.
    warned: AtomicBool,
}

/// `gpulend.adapters.Consumer`, where each field is explained.
#[derive(FromPyObject)]
struct Described {
    takes: Takes,
    makes: Makes,
    streams: Streams,
    address: Option<Py<PyAny>>,
}

/// `gpulend.adapters.Takes`.
#[derive(FromPyObject)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent")]
struct Takes {
    types: Vec<Py<PyAny>>,
    readonly: bool,
    never_writes: bool,
    negative_strides: bool,
    host: bool,
    gpu: bool,
    simulated_as_cuda: bool,
}

/// `gpulend.adapters.Makes`.
#[derive(FromPyObject)]
struct Makes {
    array: Option<Py<PyAny>>,
    values: Option<Py<PyAny>>,
    on_stream: Option<Py<PyAny>>,
    for_queue: Option<Py<PyAny>>,
    lease: Option<Py<PyAny>>,
    other: Option<Py<PyAny>>,
    protocol: String,
}

/// `gpulend.adapters.Streams`.
#[derive(FromPyObject)]
struct Streams {
    current: Option<Py<PyAny>>,
    native: Option<Native>,
    kind: StreamKind,
}

/// Whose streams a framework works on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StreamKind {
    /// Any that a caller names.
    Named,
    /// Its own.
    Own,
    /// Its own, and nobody says which.
    Hidden,
}

impl FromPyObject<'_, '_> for StreamKind {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        match object.extract::<String>()?.as_str() {
            "named" => Ok(Self::Named),
            "own" => Ok(Self::Own),
            "hidden" => Ok(Self::Hidden),
            other => {
                let message =
                    format!("streams are \"named\", \"own\" or \"hidden\", not {other:?}");
                Err(refused(message, BAD_ARGUMENT))
            }
        }
    }
}

/// What is used of a framework's exchange API.
#[derive(Clone, Copy)]
struct Table {
    make: ToPyObject,
    show: TensorFromPyObject,
    stream: Option<CurrentWorkStream>,
}

/// What a caller of `lend` accepts.
#[derive(Clone, Copy, Default)]
pub(crate) struct Wishes {
    /// A copy instead.
    pub(crate) copy: bool,
    /// That the framework could write read-only memory.
    pub(crate) allow_writable_alias: bool,
}

/// How the address of an array's first element is found.
enum Address {
    /// By the buffer protocol.
    Buffer,
    /// By an attribute of an attribute, or by a call of it.
    Path(Vec<Py<PyString>>, bool),
    /// By a function of the adapter's.
    Function(Py<PyAny>),
}

impl Address {
    fn parse(described: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let Some(described) = described else { return Ok(Self::Buffer) };
        if described.is_callable() {
            return Ok(Self::Function(described.clone().unbind()));
        }
        let path: String = described.extract()?;
        let names = path.trim_end_matches("()").split('.');
        let names = names.map(|name| PyString::intern(described.py(), name).unbind());
        Ok(Self::Path(names.collect(), path.ends_with("()")))
    }

    fn of<'py>(&self, array: &Bound<'py, PyAny>) -> PyResult<u64> {
        let py = array.py();
        match self {
            Self::Buffer => address_by_buffer(array),
            Self::Function(function) => function.bind(py).call1((array,))?.extract(),
            Self::Path(names, is_call) => {
                let mut value = array.clone();
                for name in names {
                    value = value.getattr(name.bind(py))?;
                }
                if *is_call { value.call0()?.extract() } else { value.extract() }
            }
        }
    }
}

/// Where a framework will work on an array.
enum Place {
    /// On the host.
    Host,
    /// On a GPU, on that stream.
    Gpu(Stream),
}

#[pymethods]
impl PyConsumer {
    #[new]
    #[pyo3(signature = (name, described, *, own = false))]
    fn new(py: Python<'_>, name: &str, described: Described, own: bool) -> PyResult<Self> {
        let takes = &described.takes;
        let types = takes.types.iter().map(|name| dtype::parse(name.bind(py)));
        let writes = match (takes.never_writes, takes.readonly) {
            (true, _) => Writes::Never,
            (false, true) => Writes::Marked,
            (false, false) => Writes::Unmarked,
        };
        let types = types.collect::<PyResult<Vec<_>>>()?;
        let consumer = Consumer::new(name, types, writes, takes.negative_strides);
        let api = described.makes.array.as_ref().map(|array| exchange_api(array.bind(py)));
        let table = match api.transpose()?.flatten() {
            Some(ExchangeApi {
                managed_tensor_to_py_object_no_sync: Some(make),
                dltensor_from_py_object_no_sync: Some(show),
                current_work_stream,
                ..
            }) => Some(Table { make: *make, show: *show, stream: *current_work_stream }),
            _ => None,
        };
        let address = Address::parse(described.address.as_ref().map(|address| address.bind(py)))?;
        Ok(Self { consumer, table, described, address, own, warned: AtomicBool::new(false) })
    }

    /// The framework's name.
    #[getter]
    fn name(&self) -> &str {
        self.consumer.name()
    }

    /// How arrays are made: "DLPack C exchange API", or what the adapter says.
    #[getter]
    fn protocol(&self) -> &str {
        if self.table.is_some() { "DLPack C exchange API" } else { &self.described.makes.protocol }
    }

    /// Make the framework's array over a lease, and prove that it is the same memory.
    fn lend<'py>(
        &self,
        lease: &Bound<'py, PyLease>,
        allow_writable_alias: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let wishes = Wishes { allow_writable_alias, ..Wishes::default() };
        self.lend_lease(lease.py(), lease.get().held()?, None, wishes)
    }
}

impl PyConsumer {
    /// The stream on which the framework will work: the one named, or its current one.
    pub(crate) fn stream(
        &self,
        py: Python<'_>,
        index: u8,
        named: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Stream> {
        if let Some(named) = named.filter(|_| self.described.makes.for_queue.is_none()) {
            if self.described.streams.kind != StreamKind::Named {
                let name = self.consumer.name();
                let message = format!("{name} works on streams of its own; leave stream= out");
                return Err(refused(message, BAD_ARGUMENT));
            }
            return stream::parse(named, index);
        }
        if let Some(Native::Cupy) = self.described.streams.native {
            return cupy::current(py, index);
        }
        if let Some(ask) = &self.described.streams.current {
            return protocols::adapters_stream(ask.bind(py), index);
        }
        match self.table {
            Some(Table { stream: table @ Some(_), .. }) => {
                protocols::torch_stream(py, table, index)
            }
            _ => Ok(current(index)),
        }
    }

    /// Makes the framework's array over a lease, in order, and proves that it is the same memory.
    pub(crate) fn lend_lease<'py>(
        &self,
        py: Python<'py>,
        mut held: Lease,
        named: Option<&Bound<'py, PyAny>>,
        Wishes { copy, allow_writable_alias }: Wishes,
    ) -> PyResult<Bound<'py, PyAny>> {
        if copy {
            held = self.copied(py, held)?;
        }
        let admitted = self.consumer.admit(held.view(), allow_writable_alias);
        if admitted != Admitted::Unchanged {
            held = held.as_writable_alias();
        }
        let refused = self.consumer.check(held.view());
        // NumPy makes an array of its own of a tensor without elements, and forgets the flag.
        let unusual = matches!(refused, Err(ExportError::Type { .. }))
            || (held.view().readonly() && held.view().layout().is_empty());
        if let (true, Some(other)) = (unusual, &self.described.makes.other) {
            return other.bind(py).call1((PyLease::new(held).publish(py)?,));
        }
        refused.map_err(raise)?;
        let place = self.place(py, &held, named)?;
        // Once, and not of what is refused.
        if admitted == Admitted::Doubtful && !self.warned.swap(true, Ordering::Relaxed) {
            warn_immutable(py, self.consumer.name())?;
        }
        // Until the export is made.
        let _handed = match &place {
            Place::Host => {
                faces::hand_to_host(py, &held)?;
                None
            }
            Place::Gpu(_) if self.described.streams.kind == StreamKind::Hidden => {
                let handed = Handed::new(&held);
                self.count_wait(py)?;
                faces::hand_to_host(py, &held)?;
                held.used_somewhere().map_err(raise)?;
                Some(handed)
            }
            Place::Gpu(stream) => Some(held.hand_to(stream).map_err(raise)?),
        };
        let makes = &self.described.makes;
        match (self.table, &place, &makes.values, &makes.for_queue) {
            (Some(table), ..) => self.by_table(py, &held, &table, &place),
            (None, Place::Gpu(_), Some(make), _) => self.by_values(py, &held, make),
            (None, _, _, Some(make)) => self.by_queue(py, &held, make, named, copy),
            (None, ..) => self.by_hand(py, &held, &place),
        }
    }

    /// A copy where the framework can take it: beside the original, or on the host.
    ///
    /// Frameworks with queues of their own copy themselves, into memory that may be theirs alone.
    fn copied(&self, py: Python<'_>, lease: Lease) -> PyResult<Lease> {
        if !self.described.takes.gpu && !face::is_host_visible(&lease) {
            // SAFETY: who else writes the array meanwhile is the Python caller's to know.
            return py.detach(|| unsafe { gpulend::copy::duplicate(&lease) }).map_err(raise);
        }
        match self.described.makes.for_queue {
            Some(_) => Ok(lease.as_writable_alias()),
            None => twin(py, &lease),
        }
    }

    /// Counts that the host waited because the framework does not name its streams.
    fn count_wait(&self, py: Python<'_>) -> PyResult<()> {
        let adapters = py.import(intern!(py, "gpulend.adapters"))?;
        adapters.call_method1(intern!(py, "count_wait"), (self.consumer.name(),))?;
        Ok(())
    }

    /// Decides where the framework will work, or says why it cannot.
    fn place(
        &self,
        py: Python<'_>,
        lease: &Lease,
        named: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Place> {
        let device = lease.view().device();
        let is_gpu = device.kind() != DeviceKind::Cpu;
        let takes = &self.described.takes;
        let as_host = lease.is_simulated() && !takes.simulated_as_cuda;
        if is_gpu && takes.gpu && !as_host {
            return self.stream(py, device.index(), named).map(Place::Gpu);
        }
        if takes.host && (!is_gpu || face::is_host_visible(lease)) {
            return Ok(Place::Host);
        }
        let wanted = if takes.host { "memory of the host" } else { "a CUDA device" };
        let wanted = format!("{wanted} (for {})", self.consumer.name()).into();
        Err(raise(ExportError::Device { found: device.to_string().into(), wanted }))
    }

    fn by_table<'py>(
        &self,
        py: Python<'py>,
        lease: &Lease,
        table: &Table,
        place: &Place,
    ) -> PyResult<Bound<'py, PyAny>> {
        let who = self.consumer.who();
        let to = match place {
            Place::Host => Receiver::of_host(who),
            Place::Gpu(_) => {
                Receiver { who, device: face::shown(lease, Shown::Cuda), sample: table.stream }
            }
        };
        let array = export::dlpack::hand_over(lease, to, |tensor| {
            let mut object = ptr::null_mut();
            // SAFETY: the table's contract: it takes the tensor over and returns a new reference.
            if unsafe { (table.make)(tensor, &raw mut object) } != 0 {
                return Err(PyErr::fetch(py));
            }
            // SAFETY: 0 means that there is a new reference.
            Ok(unsafe { Bound::from_owned_ptr(py, object.cast()) })
        })?;
        let address = match native_address(&array) {
            Some(address) => address,
            None => shown_address(&array, table.show)?,
        };
        self.consumer.prove(lease.view(), address).map_err(raise)?;
        Ok(array)
    }

    fn by_hand<'py>(
        &self,
        py: Python<'py>,
        lease: &Lease,
        place: &Place,
    ) -> PyResult<Bound<'py, PyAny>> {
        let shown = match place {
            Place::Host => Shown::Host,
            Place::Gpu(_) => Shown::Cuda,
        };
        let watched = self.watched(lease);
        let given = watched.as_ref().unwrap_or(lease).clone();
        let holder = PyLease::bound_for(given, self.consumer.who(), shown).publish(py)?;
        let array = match (place, &self.described.makes.on_stream, &self.described.makes.lease) {
            (Place::Gpu(stream), Some(make), _) => {
                make.bind(py).call1((holder, stream.handle().0))?
            }
            (_, _, Some(make)) => make.bind(py).call1((holder,))?,
            _ => return Err(refused("the adapter makes no such arrays".to_owned(), NO_PROTOCOL)),
        };
        self.prove_at(lease, &array)?;
        self.prove_kept(lease, watched.is_none_or(|held| !held.is_unshared()))?;
        Ok(array)
    }

    /// The lease that an adapter of another package gets, which may keep it: with a line of its own in the ledger.
    fn watched(&self, lease: &Lease) -> Option<Lease> {
        (!self.own).then(|| lease.lent_to(self.consumer.who()))
    }

    /// Has the adapter make an array for a queue of the framework's own, over the memory or of a copy.
    fn by_queue<'py>(
        &self,
        py: Python<'py>,
        lease: &Lease,
        make: &Py<PyAny>,
        queue: Option<&Bound<'py, PyAny>>,
        copy: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let watched = self.watched(lease);
        let given = watched.as_ref().unwrap_or(lease).clone();
        let bound = PyLease::bound_for(given, self.consumer.who(), Shown::Host);
        let array = make.bind(py).call1((bound.publish(py)?, queue, copy))?;
        if !copy {
            self.prove_at(lease, &array)?;
            self.prove_kept(lease, watched.is_none_or(|held| !held.is_unshared()))?;
        }
        Ok(array)
    }

    /// Has the adapter make an array of bare values, and keep an export with it.
    fn by_values<'py>(
        &self,
        py: Python<'py>,
        lease: &Lease,
        make: &Py<PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let view = lease.view();
        let strides = match view.layout().is_compact() {
            true => None,
            false => Some(PyTuple::new(py, export::array_interface::byte_strides(view))?),
        };
        let shape = PyTuple::new(py, view.layout().shape())?;
        let device = view.device().index();
        let name = name_of(py, view.dtype());
        let export = Bound::new(py, PyExport::new(lease.export(self.consumer.who()), None))?;
        let values = (view.address(), view.extent().1, device, shape, strides, name, &export);
        let array = make.bind(py).call1(values)?;
        self.prove_at(lease, &array)?;
        // SAFETY: the object is alive.
        let holders = unsafe { ffi::Py_REFCNT(export.as_ptr()) };
        self.prove_kept(lease, holders > 1)?;
        Ok(array)
    }

    fn prove_at(&self, lease: &Lease, array: &Bound<'_, PyAny>) -> PyResult<()> {
        if lease.view().layout().is_empty() {
            return Ok(());
        }
        let address = match native_address(array) {
            Some(address) => address,
            None => self.address.of(array).map_err(|cause| self.no_address(array, cause))?,
        };
        self.consumer.prove(lease.view(), address).map_err(raise)
    }

    #[cold]
    fn no_address(&self, array: &Bound<'_, PyAny>, cause: PyErr) -> PyErr {
        let (py, name) = (array.py(), self.consumer.name());
        if !is_failure(py, &cause) || is_ours(py, &cause) {
            return cause;
        }
        let what = type_name(array);
        let message =
            format!("the adapter of {name} does not tell the address of its {what}: {cause}");
        caused(py, refused(message, BAD_ARGUMENT), cause)
    }

    /// Refuses an array that does not keep the memory: it would be freed while the array is used.
    #[inline]
    fn prove_kept(&self, lease: &Lease, kept: bool) -> PyResult<()> {
        if kept || lease.view().layout().is_empty() {
            return Ok(());
        }
        let name = self.consumer.name();
        let message = format!(
            "the array that the adapter of {name} made keeps nothing that it was given, so the \
             memory could be freed under it; have the array keep the lease, or the last value"
        );
        Err(refused(message, NOT_KEPT))
    }
}

/// The name of an element type as an object, of which there is one: making it anew, and its hash, would take longer than a dict's answer.
fn name_of(py: Python<'_>, dtype: Dtype) -> Py<PyString> {
    static NAMES: ProcessLock<Vec<(Dtype, Py<PyString>)>> = ProcessLock::new(Vec::new());
    let known = |names: &[(Dtype, Py<PyString>)]| {
        names.iter().find(|(known, _)| *known == dtype).map(|(_, name)| name.clone_ref(py))
    };
    let found = known(&NAMES.lock());
    found.unwrap_or_else(|| {
        let name = PyString::intern(py, dtype.name()).unbind();
        NAMES.lock().push((dtype, name.clone_ref(py)));
        name
    })
}

/// The address of an array's first element, as an exchange table shows it.
fn shown_address(array: &Bound<'_, PyAny>, show: TensorFromPyObject) -> PyResult<u64> {
    let mut tensor = MaybeUninit::<Tensor>::uninit();
    // SAFETY: the table is that of this type.
    if unsafe { show(array.as_ptr().cast(), tensor.as_mut_ptr()) } != 0 {
        return Err(PyErr::fetch(array.py()));
    }
    // SAFETY: 0 means that the tensor was filled in.
    let tensor = unsafe { tensor.assume_init() };
    Ok((tensor.data.addr() as u64).wrapping_add(tensor.byte_offset))
}

/// Says once for each framework that what cannot be marked must not be written.
fn warn_immutable(py: Python<'_>, consumer: &str) -> PyResult<()> {
    let adapters = py.import(intern!(py, "gpulend.adapters"))?;
    adapters.call_method1(intern!(py, "warn_immutable"), (consumer,))?;
    Ok(())
}

fn address_by_buffer(array: &Bound<'_, PyAny>) -> PyResult<u64> {
    if let Some(address) = numpy_arrays::address(array) {
        return Ok(address);
    }
    let mut buffer = ffi::Py_buffer::new();
    // SAFETY: array and buffer are alive.
    if unsafe { ffi::PyObject_GetBuffer(array.as_ptr(), &raw mut buffer, ffi::PyBUF_STRIDES) } != 0
    {
        let cause = PyErr::fetch(array.py());
        let message = format!("{} does not give its address", type_name(array));
        return Err(caused(array.py(), refused(message, NO_PROTOCOL), cause));
    }
    let address = buffer.buf.addr() as u64;
    // SAFETY: just filled.
    unsafe { ffi::PyBuffer_Release(&raw mut buffer) };
    Ok(address)
}
