//! Arguments of a launch: Python objects as the core's arguments, without a lease where none is needed.

use std::collections::BTreeMap;
use std::ptr;

use gpulend::fork::ProcessLock;
use gpulend::import::raw::ViewRef;
use gpulend::kernel::{Argument, Keep, Pending};
use gpulend::ledger::FixedName;
use gpulend::stream::{Stream, current};
use gpulend::{DeviceKind, Error, Lease, SignatureError};
use pyo3::exceptions::PyException;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyComplexMethods, PyFloat, PyInt};
use pyo3::{PyTypeInfo, ffi};
use smallvec::SmallVec;

use crate::borrowing::borrow_along;
use crate::classes;
use crate::cupy_arrays::Described;
use crate::errors::{BAD_ARGUMENT, raise, raise_with, refused};
use crate::hints;
use crate::lease::PyLease;
use crate::protocols::{cupy_stream, known_torch_stream, torch_stream, type_name};
use crate::routes::{Producer, Route, last_producer, producer_of};
use crate::torch::{self, Torch, Use};

/// What an object is to a launch, by its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A whole number.
    Integer,
    /// A number, perhaps of so many bytes.
    Float(Option<u8>),
    Bool,
    Complex,
    /// The bytes of a struct.
    Record,
    /// A ctypes number, which keeps its value inside.
    Boxed(u8),
    /// An array of some framework, or nothing that we know.
    Array,
    /// Something that is no argument.
    Other,
}

/// Kinds of the types of libraries. Entries are removed when the type dies: see `classes`.
static KINDS: ProcessLock<BTreeMap<usize, Kind>> = ProcessLock::new(BTreeMap::new());

fn kind_of(object: &Bound<'_, PyAny>) -> PyResult<Kind> {
    let class = object.get_type_ptr().addr();
    let known = KINDS.lock().get(&class).copied();
    if let Some(kind) = known {
        return Ok(kind);
    }
    let py = object.py();
    let module = py.import(intern!(py, "gpulend._arguments"))?;
    let answer = module.call_method1(intern!(py, "kind"), (object.get_type(),))?;
    let (word, bytes, lasts): (String, Option<u8>, bool) = answer.extract()?;
    let kind = match word.as_str() {
        "integer" => Kind::Integer,
        "float" => Kind::Float(bytes),
        "bool" => Kind::Bool,
        "complex" => Kind::Complex,
        "record" => Kind::Record,
        "boxed" => Kind::Boxed(bytes.unwrap_or(0)),
        "array" => Kind::Array,
        _ => Kind::Other,
    };
    // A program's own classes come and go, and what they know with them.
    if lasts {
        classes::watch(&object.get_type())?;
        KINDS.lock().insert(class, kind);
    }
    Ok(kind)
}

/// Removes the entry of a dying class.
pub(crate) fn forget(class: usize) {
    KINDS.lock().remove(&class);
}

static LEASE: FixedName = FixedName::new("gpulend.Lease");

/// What was given by [`give_plain`].
enum Plain {
    Lease,
    Integer,
    No,
}

/// Gives a lease of a GPU's memory, or a whole number of 64 bits: most arguments are one of them.
#[inline(always)]
fn give_plain(pending: &mut Pending<'_>, object: &Bound<'_, PyAny>) -> PyResult<Plain> {
    let (py, class) = (object.py(), object.get_type_ptr());
    if class == PyLease::type_object_raw(py) {
        // SAFETY: (1) that is its class; (2) the GIL is held until the launch is queued, and whoever runs anybody's code
        // before calls `keep` first; the caller of the launch keeps the object.
        if let Some(lease) = unsafe { lease_in_place(object) }
            && lease.view().device().kind() != DeviceKind::Cpu
        {
            pending.push_lent(lease).map_err(|error| refuse(object, error))?;
            return Ok(Plain::Lease);
        }
    } else if class == PyInt::type_object_raw(py)
        && let Some(value) = small_integer(object)
    {
        pending.push_integer(value).map_err(raise)?;
        return Ok(Plain::Integer);
    }
    Ok(Plain::No)
}

/// The lease of an object, where it lies; none if it has ended.
///
/// # Safety
///
/// 1. The object is a lease.
/// 2. As long as the result is used, the GIL is held without a break, nothing of Python's runs, and the object is kept.
#[inline(always)]
pub(crate) unsafe fn lease_in_place<'a>(object: &Bound<'_, PyAny>) -> Option<&'a Lease> {
    // SAFETY: (1).
    let lease = unsafe { object.cast_unchecked::<PyLease>() }.get();
    // SAFETY: (2).
    let lease = unsafe { lease.peek() };
    // SAFETY: (2).
    lease.map(|lease| unsafe { &*ptr::from_ref(lease) })
}

/// The value of an int, if 64 bits hold it.
#[inline(always)]
pub(crate) fn small_integer(object: &Bound<'_, PyAny>) -> Option<i64> {
    let mut overflow = 0;
    // SAFETY: the object is alive, and an int: there is no other error; one int is written.
    let value = unsafe { ffi::PyLong_AsLongLongAndOverflow(object.as_ptr(), &raw mut overflow) };
    (overflow == 0).then_some(value)
}

/// Gives all arguments of a launch to the core, and returns its stream: the one named, that of the framework whose array came
/// first, or ours. Tells too whether references to Python's objects may have been let go, which pyo3 puts off in a call that
/// it does not know of.
#[inline(always)]
pub(crate) fn give_all(
    pending: &mut Pending<'_>,
    objects: &[Bound<'_, PyAny>],
    device: u8,
    named: Option<Stream>,
    check: bool,
) -> PyResult<(Stream, bool)> {
    let mut leases = false;
    for (position, object) in objects.iter().enumerate() {
        match give_plain(pending, object)? {
            Plain::Lease => leases = true,
            Plain::Integer => {}
            Plain::No => {
                let first = named.or_else(|| leases.then(|| current(device)));
                return give_rest(pending, &objects[position..], device, first, check);
            }
        }
    }
    Ok((named.unwrap_or_else(|| current(device)), false))
}

#[inline(never)]
fn give_rest(
    pending: &mut Pending<'_>,
    objects: &[Bound<'_, PyAny>],
    device: u8,
    stream: Option<Stream>,
    check: bool,
) -> PyResult<(Stream, bool)> {
    let mut given = Arguments {
        pending,
        objects,
        position: 0,
        device,
        stream,
        check,
        on_torchs: None,
        cupy: None,
        shown: SmallVec::new(),
        foreign: false,
        untidy: false,
    };
    for position in 0..objects.len() {
        given.give(position)?;
    }
    given.look_again()?;
    Ok((given.stream(), given.untidy))
}

/// Gives the arguments of a launch to the core, and finds the stream that they choose.
struct Arguments<'a, 'k, 'py> {
    pending: &'a mut Pending<'k>,
    objects: &'a [Bound<'py, PyAny>],
    /// Which of them is being given.
    position: usize,
    device: u8,
    stream: Option<Stream>,
    check: bool,
    /// Whether the launch is on torch's current stream, asked once.
    on_torchs: Option<bool>,
    /// CuPy's.
    cupy: Option<Stream>,
    /// Which are tensors of torch's that were only shown, and where they lay.
    shown: SmallVec<[(usize, u64); 8]>,
    /// Whether other code than ours ran since the first of them was.
    foreign: bool,
    /// Whether references to Python's objects may have been let go.
    untidy: bool,
}

impl<'py> Arguments<'_, '_, 'py> {
    /// The stream of the launch: the one named, that of the framework whose array came first, or ours.
    fn stream(&mut self) -> Stream {
        self.stream.take().unwrap_or_else(|| current(self.device))
    }

    fn give(&mut self, position: usize) -> PyResult<()> {
        self.position = position;
        let object = &self.objects[position];
        match give_plain(self.pending, object)? {
            Plain::Lease => {
                self.stream.get_or_insert_with(|| current(self.device));
                Ok(())
            }
            Plain::Integer => Ok(()),
            Plain::No => self.give_other(object).map_err(|error| self.place_error(object, error)),
        }
    }

    /// What the kernel does with the argument that comes next.
    fn used(&self) -> Use {
        match self.check {
            false => Use::Unchecked,
            true if self.pending.only_reads() => Use::Read,
            true => Use::Written,
        }
    }

    /// Says of which argument an object is refused, where the code that looked at the object did not know.
    #[cold]
    fn place_error(&self, object: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
        let py = object.py();
        let Some(place) = self.pending.place() else { return error };
        let placed = py.import(intern!(py, "gpulend._arguments")).and_then(|module| {
            module.call_method1(intern!(py, "place_error"), (error.value(py), place.to_string()))
        });
        placed.err().unwrap_or(error)
    }

    fn give_other(&mut self, object: &Bound<'py, PyAny>) -> PyResult<()> {
        let (py, class) = (object.py(), object.get_type_ptr());
        if class == PyFloat::type_object_raw(py) {
            return self.push(&Argument::Float(float(object)?, None));
        }
        if object.is_none() {
            return self.push(&Argument::Null);
        }
        if class == PyInt::type_object_raw(py) {
            return self.integer(object);
        }
        if class == PyLease::type_object_raw(py) {
            return self.host_lease(object);
        }
        if class == PyBool::type_object_raw(py) {
            return self.push(&Argument::Bool(object.is_truthy()?));
        }
        // Their arrays are nothing else to a launch, and torch mostly shows its own without anybody's code.
        if let Some(producer) = last_producer(class)
            && let Route::Torch(_) | Route::Cupy = producer.route
        {
            return self.array_by(object, &producer);
        }
        // What others are asked for may be anybody's code.
        self.pending.keep();
        self.untidy = true;
        let kind = kind_of(object)?;
        self.foreign |= kind != Kind::Array;
        match kind {
            Kind::Array => self.array(object),
            Kind::Integer => self.integer(object),
            Kind::Float(bytes) => self.push(&Argument::Float(float(object)?, bytes)),
            Kind::Bool => self.push(&Argument::Bool(object.is_truthy()?)),
            Kind::Complex => self.complex(object),
            Kind::Record => self.record(object),
            Kind::Boxed(bytes) => self.boxed(object, bytes),
            Kind::Other => self.other(object),
        }
    }

    #[inline]
    fn push(&mut self, argument: &Argument<'_>) -> PyResult<()> {
        self.pending.push(argument).map_err(raise)
    }

    /// A lease of the host's memory: a framework's, which stands in for one of a GPU, or a mistake.
    fn host_lease(&mut self, object: &Bound<'_, PyAny>) -> PyResult<()> {
        let lease = object.cast::<PyLease>()?.get().held()?;
        self.stream.get_or_insert_with(|| current(self.device));
        let host = stands_in(&lease.origin());
        self.pending.push_lease(lease, LEASE.get(), host).map_err(|error| refuse(object, error))
    }

    fn array(&mut self, object: &Bound<'py, PyAny>) -> PyResult<()> {
        let py = object.py();
        let producer = match producer_of(object) {
            Ok(producer) => producer,
            Err(error) if !error.is_instance_of::<PyException>(py) => return Err(error),
            // Whole numbers of other libraries: what is an array has an index only if it holds one.
            Err(_) if object.hasattr(intern!(py, "__index__"))? => {
                self.foreign = true;
                return self.integer(object);
            }
            Err(_) => return self.other(object),
        };
        self.array_by(object, &producer)
    }

    fn array_by(&mut self, object: &Bound<'py, PyAny>, producer: &Producer) -> PyResult<()> {
        match producer.route {
            Route::Torch(torch) => self.torch(object, torch, producer),
            Route::Cupy => self.cupy(object, producer),
            Route::NumPy { .. } if is_record(object)? => self.record(object),
            Route::TorchOther(table) => self
                .other_array(object, producer, |device| torch_stream(object.py(), table, device)),
            _ => self.other_array(object, producer, |device| Ok(current(device))),
        }
    }

    fn shown(&mut self, view: ViewRef<'_>, producer: &Producer, keep: Keep) -> PyResult<()> {
        let object = &self.objects[self.position];
        self.pending.push_view(&view, keep, producer.who).map_err(|error| refuse(object, error))
    }

    /// A tensor of a GPU: shown for the call where the launch is on torch's own stream, in whose order torch frees it.
    fn torch(
        &mut self,
        object: &Bound<'py, PyAny>,
        torch: &Torch,
        producer: &Producer,
    ) -> PyResult<()> {
        let py = object.py();
        let used = self.used();
        let (pending, foreign) = (&mut *self.pending, &mut self.foreign);
        let before = || {
            pending.keep();
            *foreign = true;
        };
        let Some(view) = torch::view(object, torch, used, before)? else {
            return self
                .other_array(object, producer, |device| torch_stream(py, torch.stream, device));
        };
        if view.place.0.kind() == DeviceKind::Cpu {
            self.shown.push((self.position, view.address));
            return self.shown(view, producer, Keep::Host);
        }
        if view.place.0.index() == self.device && self.on_torchs != Some(false) {
            if self.on_torchs.is_none() && self.ask_torchs_stream(py, torch)? {
                // Code of Python's ran: the tensor may lie elsewhere by now. It is not asked again.
                return self.torch(object, torch, producer);
            }
            if self.on_torchs == Some(true) {
                self.shown.push((self.position, view.address));
                return self.shown(view, producer, Keep::InOrder);
            }
        }
        let stream = self.stream.clone();
        self.other_array(object, producer, |device| Ok(stream.unwrap_or_else(|| current(device))))
    }

    /// Finds out whether the launch is on torch's current stream, and that stays; if nobody has chosen one, it is. Tells
    /// whether code of Python's ran.
    fn ask_torchs_stream(&mut self, py: Python<'_>, torch: &Torch) -> PyResult<bool> {
        // If torch raises, that may run anybody's code.
        self.pending.keep();
        let (home, python) = match known_torch_stream(torch.stream, self.device) {
            Some(home) => (home, false),
            None => {
                (self.foreign, self.untidy) = (true, true);
                (torch_stream(py, torch.stream, self.device)?, true)
            }
        };
        let stream = self.stream.get_or_insert_with(|| home.clone());
        self.on_torchs = Some(home.is(stream) && home.stays_nameable());
        Ok(python)
    }

    /// Makes sure that tensors still lie where they were shown, if somebody's code ran since.
    fn look_again(&mut self) -> PyResult<()> {
        if self.foreign { self.compare() } else { Ok(()) }
    }

    fn compare(&mut self) -> PyResult<()> {
        self.pending.keep();
        for (position, address) in &self.shown {
            let tensor = &self.objects[*position];
            let now = match producer_of(tensor)?.route {
                Route::Torch(torch) => torch::address(tensor, torch),
                _ => None,
            };
            if now != Some(*address) {
                let message = "a tensor got other memory while the launch's arguments were read; \
                               launch again, without code that changes it in an argument's methods";
                return Err(refused(message.to_owned(), BAD_ARGUMENT));
            }
        }
        Ok(())
    }

    /// An array of CuPy's: described for the call where the launch is on CuPy's own stream, in whose order CuPy frees it.
    fn cupy(&mut self, object: &Bound<'_, PyAny>, producer: &Producer) -> PyResult<()> {
        let py = object.py();
        self.pending.keep();
        self.foreign = true;
        if self.cupy.is_none() {
            self.cupy = Some(cupy_stream(py, self.device)?);
        }
        let home = self.cupy.clone().unwrap_or_else(|| current(self.device));
        let stream = self.stream.get_or_insert_with(|| home.clone()).clone();
        if home.is(&stream)
            && home.stays_nameable()
            && let Some(described) = Described::of(object)?
            && described.device() == self.device
        {
            return self.shown(described.view(), producer, Keep::InOrder);
        }
        self.other_array(object, producer, |_| Ok(stream))
    }

    /// An array of another framework: borrowed for the launch.
    fn other_array(
        &mut self,
        object: &Bound<'_, PyAny>,
        producer: &Producer,
        choose: impl FnOnce(u8) -> PyResult<Stream>,
    ) -> PyResult<()> {
        self.pending.keep();
        (self.foreign, self.untidy) = (true, true);
        let torch = producer.route.is_torch();
        let host = torch || stands_in(&producer.who.text());
        // A tensor of the host has no stream to choose.
        let stream = match (&self.stream, host) {
            (Some(stream), _) => stream.clone(),
            (None, true) if !torch => current(self.device),
            (None, _) => choose(self.device).unwrap_or_else(|_| current(self.device)),
        };
        let want =
            |index: u8| Ok(if index == stream.device() { stream.clone() } else { current(index) });
        let lease = borrow_along(object, producer, self.used(), &want)?;
        let on_gpu = lease.view().device().kind() != DeviceKind::Cpu;
        if on_gpu && self.stream.is_none() {
            self.stream = Some(stream);
        }
        let pushed = self.pending.push_lease(lease, producer.who, host && !on_gpu);
        pushed.map_err(|error| refuse(object, error))
    }

    #[inline]
    fn integer(&mut self, object: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut overflow = 0;
        // SAFETY: the object is alive; one int is written.
        let value =
            unsafe { ffi::PyLong_AsLongLongAndOverflow(object.as_ptr(), &raw mut overflow) };
        if overflow == 0 && value != -1 {
            return self.pending.push_integer(value).map_err(raise);
        }
        if overflow == 0 {
            let raised = PyErr::take(object.py());
            return raised.map_or_else(|| self.pending.push_integer(value).map_err(raise), Err);
        }
        // Errors are made and dropped below, and with them the cycle collector may run anybody's code.
        self.pending.keep();
        (self.foreign, self.untidy) = (true, true);
        if let Ok(value) = object.extract::<i128>() {
            return self.push(&Argument::Integer(value));
        }
        // SAFETY: the object is alive. What overflows is as large as can be.
        let value = unsafe { ffi::PyLong_AsDouble(object.as_ptr()) };
        let value = match PyErr::take(object.py()) {
            None => value,
            Some(_) if overflow < 0 => f64::NEG_INFINITY,
            Some(_) => f64::INFINITY,
        };
        self.push(&Argument::Huge(value))
    }

    fn complex(&mut self, object: &Bound<'_, PyAny>) -> PyResult<()> {
        let value = PyComplex::type_object(object.py()).call1((object,))?;
        let value = value.cast::<PyComplex>()?;
        self.push(&Argument::Complex(value.real(), value.imag()))
    }

    /// The bytes of a NumPy record, a ctypes structure or bytes themselves.
    fn record(&mut self, object: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = object.py();
        let module = py.import(intern!(py, "gpulend._arguments"))?;
        let bytes = module.call_method1(intern!(py, "record"), (object,))?;
        self.push(&Argument::Bytes(bytes.extract()?))
    }

    fn boxed(&mut self, object: &Bound<'_, PyAny>, bytes: u8) -> PyResult<()> {
        let value = object.getattr(intern!(object.py(), "value"))?;
        if value.is_instance_of::<PyBool>() {
            return self.push(&Argument::Bool(value.is_truthy()?));
        }
        if value.is_instance_of::<PyInt>() {
            return self.integer(&value);
        }
        if value.is_instance_of::<PyFloat>() {
            return self.push(&Argument::Float(float(&value)?, Some(bytes)));
        }
        self.other(object)
    }

    #[cold]
    fn other(&mut self, object: &Bound<'_, PyAny>) -> PyResult<()> {
        let words = format!("an object of type {}", type_name(object));
        self.push(&Argument::Other(&words))
    }
}

/// Says why the core refuses an object, with the call of its framework that helps.
#[cold]
fn refuse(object: &Bound<'_, PyAny>, error: Error) -> PyErr {
    if let Error::Signature(SignatureError::Dtype { place, fits, .. }) = &error
        && let Ok(call) = conversion(object, place.name.as_deref(), fits)
    {
        return raise_with(error, |hint| hints::converting(hint, &call));
    }
    raise(error)
}

fn conversion(object: &Bound<'_, PyAny>, name: Option<&str>, fits: &[&str]) -> PyResult<String> {
    let module = object.py().import("gpulend._arguments")?;
    let name = name.unwrap_or("array");
    module.call_method1("conversion", (object.get_type(), name, fits.to_vec()))?.extract()
}

/// Whether an array of NumPy's is one struct.
fn is_record(array: &Bound<'_, PyAny>) -> PyResult<bool> {
    let module = array.py().import("gpulend._arguments")?;
    module.call_method1("is_record", (array,))?.extract()
}

/// Whether CPU arrays of a type stand in for its framework's GPU arrays, on a simulated GPU.
pub(crate) fn stands_in(who: &str) -> bool {
    ["torch.", "jax", "tensorflow."].iter().any(|framework| who.starts_with(framework))
}

fn float(object: &Bound<'_, PyAny>) -> PyResult<f64> {
    // SAFETY: the object is alive.
    let value = unsafe { ffi::PyFloat_AsDouble(object.as_ptr()) };
    match PyErr::take(object.py()) {
        Some(error) if value == -1.0 => Err(error),
        _ => Ok(value),
    }
}
