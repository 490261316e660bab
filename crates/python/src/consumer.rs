//! `Consumer`: a framework as its adapter describes it, and the lending to it.

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use gpulend::abi::dlpack::{
    CurrentWorkStream, ExchangeApi, Tensor, TensorFromPyObject, ToPyObject,
};
use gpulend::export::consumer::Consumer;
use gpulend::export::dlpack::Receiver;
use gpulend::export::face::{self, Shown};
use gpulend::stream::{Stream, current};
use gpulend::{DeviceKind, ExportError, Handed, Lease, export};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyString, PyTuple};

use crate::errors::{BAD_ARGUMENT, NO_PROTOCOL, NOT_ZERO_COPY, caused, raise, refused};
use crate::lease::PyLease;
use crate::lending::PyExport;
use crate::memory::twin;
use crate::protocols::{self, exchange_api, type_name};
use crate::{dtype, stream};

/// A framework that memory is lent to: what its arrays cannot be, and how one is made.
///
/// `types` are the element types it takes. Where `array` is a type with the DLPack C exchange
/// API, arrays are made through that, else by `make(lease)`. `other` makes what `make` cannot:
/// arrays of element types that are not among `types`, and read-only arrays without elements.
///
/// `host` and `gpu` say whose memory it takes; `simulated_as_cuda`, that it is a client of the driver and takes
/// memory of a simulated GPU as CUDA's. On a GPU arrays are made by `make_on(lease, stream)`, or by `make_raw` of address,
/// bytes spanned, device index, shape, byte strides (none if compact), element type, and an export to keep, and `stream(index)`
/// tells the framework's current stream, as a number (of one that stays) or an object; without it gpulend's own is
/// meant. With `never_writes` it needs not be told that memory is read-only. With `own_streams` it takes no stream that a caller names;
/// with `hidden_streams` neither, and tells none: the host waits for the bytes, and the exit for the whole device. With `queues` its
/// streams are not CUDA's: `make(lease, queue, copy)` gets the one that a caller named, or None, and copies where that is asked for. `address`
/// is the attribute that tells where an array's first element lies, as `data.ptr`, or a method of it, as `pointer()`, or a function
/// of the array; without it the buffer protocol does.
#[pyclass(frozen, name = "Consumer", module = "gpulend._native")]
pub(crate) struct PyConsumer {
    consumer: Consumer,
    table: Option<Table>,
    make: Option<Py<PyAny>>,
    make_on: Option<Py<PyAny>>,
    make_raw: Option<Py<PyAny>>,
    other: Option<Py<PyAny>>,
    stream: Option<Py<PyAny>>,
    address: Address,
    host: bool,
    gpu: bool,
    simulated_as_cuda: bool,
    own_streams: bool,
    hidden_streams: bool,
    queues: bool,
    never_writes: bool,
    /// Whether it was said that arrays of frameworks that never write must not be written there.
    warned: AtomicBool,
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

/// How an array is asked where its first element lies.
enum Address {
    /// By the buffer protocol.
    Buffer,
    /// By an attribute of an attribute, or by a call of it.
    Path(Vec<Py<PyString>>, bool),
    /// By a function of the adapter's.
    Function(Py<PyAny>),
}

impl Address {
    fn parse(told: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let Some(told) = told else { return Ok(Self::Buffer) };
        if told.is_callable() {
            return Ok(Self::Function(told.clone().unbind()));
        }
        let path: String = told.extract()?;
        let names = path.trim_end_matches("()").split('.');
        let names = names.map(|name| PyString::intern(told.py(), name).unbind());
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
    #[pyo3(signature = (
        name, *, types, readonly, negative_strides, array, make = None, other = None,
        make_on = None, make_raw = None,
        host = true, gpu = false, simulated_as_cuda = false, stream = None, own_streams = false,
        hidden_streams = false, queues = false, address = None, never_writes = false,
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are Python keywords")]
    #[expect(clippy::fn_params_excessive_bools, reason = "they are Python keywords")]
    fn new(
        name: &str,
        types: Vec<Bound<'_, PyAny>>,
        readonly: bool,
        negative_strides: bool,
        array: &Bound<'_, PyAny>,
        make: Option<Py<PyAny>>,
        other: Option<Py<PyAny>>,
        make_on: Option<Py<PyAny>>,
        make_raw: Option<Py<PyAny>>,
        host: bool,
        gpu: bool,
        simulated_as_cuda: bool,
        stream: Option<Py<PyAny>>,
        own_streams: bool,
        hidden_streams: bool,
        queues: bool,
        address: Option<&Bound<'_, PyAny>>,
        never_writes: bool,
    ) -> PyResult<Self> {
        let types = types.iter().map(dtype::parse).collect::<PyResult<Vec<_>>>()?;
        let table = match exchange_api(array)? {
            Some(ExchangeApi {
                managed_tensor_to_py_object_no_sync: Some(make),
                dltensor_from_py_object_no_sync: Some(show),
                current_work_stream,
                ..
            }) => Some(Table { make: *make, show: *show, stream: *current_work_stream }),
            _ => None,
        };
        let consumer = Consumer::new(name, types, readonly, negative_strides);
        Ok(Self {
            consumer,
            table,
            make,
            make_on,
            make_raw,
            other,
            stream,
            address: Address::parse(address)?,
            host,
            gpu,
            simulated_as_cuda,
            own_streams,
            hidden_streams,
            queues,
            never_writes,
            warned: AtomicBool::new(false),
        })
    }

    /// The framework's name.
    #[getter]
    fn name(&self) -> &str {
        self.consumer.name()
    }

    /// How arrays are made: "DLPack C exchange API" or "DLPack".
    #[getter]
    fn protocol(&self) -> &'static str {
        if self.table.is_some() { "DLPack C exchange API" } else { "DLPack" }
    }

    /// Whether it takes memory of the host.
    #[getter]
    fn host(&self) -> bool {
        self.host
    }

    /// Whether it takes memory of a GPU.
    #[getter]
    fn gpu(&self) -> bool {
        self.gpu
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
        if let Some(named) = named.filter(|_| !self.queues) {
            if self.own_streams || self.hidden_streams {
                let name = self.consumer.name();
                let message = format!("{name} works on streams of its own; leave stream= out");
                return Err(refused(message, BAD_ARGUMENT));
            }
            return stream::parse(named, index);
        }
        if let Some(ask) = &self.stream {
            let told = ask.bind(py).call1((index,))?;
            if told.is_instance_of::<PyInt>() {
                // SAFETY: (1) and (2): a number that an adapter tells is a stream that stays.
                return Ok(unsafe { Stream::foreign(index, told.extract()?, None) });
            }
            return protocols::stream_of_cupy(&told, index);
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
        let mut doubtful = false;
        if held.view().readonly() && self.never_writes {
            held = held.as_writable_alias();
        } else if held.view().readonly() && !self.consumer.takes_readonly() {
            if held.view().immutable() && !allow_writable_alias {
                doubtful = true;
                held = held.as_writable_alias();
            } else if allow_writable_alias {
                held = held.as_writable_alias();
            }
        }
        let refused = self.consumer.check(held.view());
        // NumPy makes an array of its own of a tensor without elements, and forgets the flag.
        let unusual = matches!(refused, Err(ExportError::Type { .. }))
            || (held.view().readonly() && held.view().layout().is_empty());
        if let (true, Some(other)) = (unusual, &self.other) {
            return other.bind(py).call1((PyLease::new(held).publish(py)?,));
        }
        refused.map_err(raise)?;
        let place = self.place(py, &held, named)?;
        // Once, and not of what is refused.
        if doubtful && !self.warned.swap(true, Ordering::Relaxed) {
            warn_immutable(py, self.consumer.name())?;
        }
        // Until the export is made.
        let _handed = match &place {
            Place::Host => {
                py.detach(|| held.hand_to_host()).map_err(raise)?;
                None
            }
            Place::Gpu(_) if self.hidden_streams => {
                let handed = Handed::new(&held);
                self.count_wait(py)?;
                py.detach(|| held.hand_to_host()).map_err(raise)?;
                held.used_somewhere().map_err(raise)?;
                Some(handed)
            }
            Place::Gpu(stream) => Some(held.hand_to(stream).map_err(raise)?),
        };
        match (self.table, &self.make_raw) {
            (Some(table), _) => self.by_table(py, &held, &table, &place),
            (None, Some(make)) if matches!(place, Place::Gpu(_)) => self.by_values(py, &held, make),
            (None, _) if self.queues => self.by_queue(py, &held, named, copy),
            (None, _) => self.by_hand(py, &held, &place),
        }
    }

    /// A copy where the framework can take it: beside the original, or on the host.
    ///
    /// Frameworks with queues of their own copy themselves, into memory that may be theirs alone.
    fn copied(&self, py: Python<'_>, lease: Lease) -> PyResult<Lease> {
        if !self.gpu && !face::is_host_visible(&lease) {
            // SAFETY: who else writes the array meanwhile is the Python caller's to know.
            return py.detach(|| unsafe { gpulend::copy::duplicate(&lease) }).map_err(raise);
        }
        if self.queues { Ok(lease.as_writable_alias()) } else { twin(py, &lease) }
    }

    /// Counts that the host waited because the framework does not tell its streams.
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
        let as_host = lease.is_simulated() && !self.simulated_as_cuda;
        if is_gpu && self.gpu && !as_host {
            return self.stream(py, device.index(), named).map(Place::Gpu);
        }
        if self.host && (!is_gpu || face::is_host_visible(lease)) {
            return Ok(Place::Host);
        }
        let wanted = if self.host { "memory of the host" } else { "a CUDA device" };
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
        prove(lease, &array, |array| {
            let mut tensor = MaybeUninit::<Tensor>::uninit();
            // SAFETY: the table is that of this type.
            if unsafe { (table.show)(array.as_ptr().cast(), tensor.as_mut_ptr()) } != 0 {
                return Err(PyErr::fetch(py));
            }
            // SAFETY: 0 means that the tensor was filled in.
            let tensor = unsafe { tensor.assume_init() };
            Ok((tensor.data.addr() as u64).wrapping_add(tensor.byte_offset))
        })?;
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
        let bound = PyLease::bound_for(lease.clone(), self.consumer.who(), shown);
        let holder = bound.publish(py)?;
        let array = match (place, &self.make_on, &self.make) {
            (Place::Gpu(stream), Some(make_on), _) => {
                make_on.bind(py).call1((holder, stream.handle().0))?
            }
            (_, _, Some(make)) => make.bind(py).call1((holder,))?,
            _ => return Err(refused("the adapter makes no such arrays".to_owned(), NO_PROTOCOL)),
        };
        self.prove_at(lease, &array)?;
        Ok(array)
    }

    /// Has the adapter make an array for a queue of the framework's own, over the memory or of a copy.
    fn by_queue<'py>(
        &self,
        py: Python<'py>,
        lease: &Lease,
        queue: Option<&Bound<'py, PyAny>>,
        copy: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let Some(make) = &self.make else {
            return Err(refused("the adapter makes no such arrays".to_owned(), NO_PROTOCOL));
        };
        let bound = PyLease::bound_for(lease.clone(), self.consumer.who(), Shown::Host);
        let array = make.bind(py).call1((bound.publish(py)?, queue, copy))?;
        if !copy {
            self.prove_at(lease, &array)?;
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
        let name = view.dtype().name();
        let export = PyExport::new(lease.export(self.consumer.who()), None);
        let values = (view.address(), view.extent().1, device, shape, strides, name, export);
        let array = make.bind(py).call1(values)?;
        self.prove_at(lease, &array)?;
        Ok(array)
    }

    fn prove_at(&self, lease: &Lease, array: &Bound<'_, PyAny>) -> PyResult<()> {
        prove(lease, array, |array| self.address.of(array))
    }
}

/// Says once for each framework that what cannot be marked must not be written.
fn warn_immutable(py: Python<'_>, consumer: &str) -> PyResult<()> {
    let adapters = py.import(intern!(py, "gpulend.adapters"))?;
    adapters.call_method1(intern!(py, "warn_immutable"), (consumer,))?;
    Ok(())
}

/// Law 1: the array has the address that was lent, or there is an error.
fn prove<'py>(
    lease: &Lease,
    array: &Bound<'py, PyAny>,
    address_of: impl FnOnce(&Bound<'py, PyAny>) -> PyResult<u64>,
) -> PyResult<()> {
    if lease.view().layout().is_empty() {
        return Ok(());
    }
    let (wanted, found) = (lease.view().address(), address_of(array)?);
    if wanted == found {
        return Ok(());
    }
    let message = format!(
        "{} copied the memory: {found:#x} instead of {wanted:#x}; \
         lend with copy=True if that is right",
        type_name(array)
    );
    Err(refused(message, NOT_ZERO_COPY))
}

fn address_by_buffer(array: &Bound<'_, PyAny>) -> PyResult<u64> {
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
