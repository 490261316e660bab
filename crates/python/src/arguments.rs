//! Arguments of a launch: a plan is filled with Python objects, without a lease where none is needed.
//!
//! The fast path (`fast_path.rs`) is tried on each object. What it refuses is given to the same plan here, by what the object's
//! type is to a launch.

use std::collections::BTreeMap;

use gpulend::fork::ProcessLock;
use gpulend::import::raw::ViewRef;
use gpulend::kernel::{Argument, Keep, Options, Plan};
use gpulend::ledger::FixedName;
use gpulend::stream::{Stream, current};
use gpulend::{DeviceKind, Error, Owner, SignatureError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyComplexMethods, PyFloat, PyInt};
use pyo3::{PyTypeInfo, ffi};
use smallvec::SmallVec;

use crate::borrowing::{borrow_along, borrow_unordered};
use crate::classes;
use crate::cupy::{self, Described};
use crate::errors::{BAD_ARGUMENT, NO_PROTOCOL, caused, is_failure, raise, raise_with, refused};
use crate::fast_path::{lease_in_place, small_integer};
use crate::lease::PyLease;
use crate::protocols::{known_torch_stream, torch_stream, type_name};
use crate::routes::{Producer, Route, last_producer, producer_of};
use crate::torch::{self, Torch, Use};
use crate::{hints, owners};

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

/// Whether an object is one number, and not an array.
pub(crate) fn is_number(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let kind = kind_of(object)?;
    Ok(matches!(kind, Kind::Integer | Kind::Float(_) | Kind::Bool | Kind::Complex))
}

/// Removes the entry of a dying class.
pub(crate) fn forget(class: usize) {
    KINDS.lock().remove(&class);
}

static LEASE: FixedName = FixedName::new("gpulend.Lease");

/// A plan that is being filled with Python objects.
pub(crate) struct Filling<'p, 'a, 'py> {
    /// Where its caller has it: a plan is large, and moving it would cost as much as a short launch.
    pub(crate) plan: &'p mut Plan<'a>,
    pub(crate) objects: &'a [Bound<'py, PyAny>],
    /// Which of them is being given.
    position: usize,
    options: Options,
    /// Whether the launch is on torch's current stream, asked once.
    pub(crate) on_torchs: Option<bool>,
    /// The same for CuPy's.
    pub(crate) on_cupys: Option<bool>,
    /// Which are tensors of torch's that were only shown, and where they lay.
    pub(crate) shown: SmallVec<[(usize, u64); 8]>,
    /// Whether other code than ours ran since the first of them was.
    foreign: bool,
    /// Whether the fast path refused some.
    pub(crate) general: bool,
    /// Whether references to Python's objects may have been dropped, which pyo3 puts off in a call that it does not know of.
    pub(crate) untidy: bool,
}

impl<'p, 'a, 'py> Filling<'p, 'a, 'py> {
    #[inline(always)]
    pub(crate) fn new(
        plan: &'p mut Plan<'a>,
        objects: &'a [Bound<'py, PyAny>],
        options: Options,
    ) -> Self {
        Self {
            plan,
            objects,
            position: 0,
            options,
            on_torchs: None,
            on_cupys: None,
            shown: SmallVec::new(),
            foreign: false,
            general: false,
            untidy: false,
        }
    }

    /// Gives all objects to the plan.
    #[inline(always)]
    pub(crate) fn fill(&mut self) -> PyResult<()> {
        for position in 0..self.objects.len() {
            if !self.fit(position) {
                self.give(position)?;
            }
        }
        if self.foreign { self.compare() } else { Ok(()) }
    }

    /// Gives an object that the fast path refused.
    #[inline(never)]
    fn give(&mut self, position: usize) -> PyResult<()> {
        (self.position, self.general) = (position, true);
        let object = &self.objects[position];
        let (py, class) = (object.py(), object.get_type_ptr());
        if class == PyLease::type_object_raw(py) {
            // SAFETY: (1) that is its class; (2) the GIL is held until the launch is queued, and `before_others` is called before
            // arbitrary code runs; the caller of the launch keeps the object.
            if let Some(lease) = unsafe { lease_in_place(object) }
                && lease.view().device().kind() != DeviceKind::Cpu
            {
                return self.plan.push_lent(lease).map_err(|error| refuse(object, error));
            }
        } else if class == PyInt::type_object_raw(py)
            && let Some(value) = small_integer(object)
        {
            return self.push(&Argument::Integer(value.into()));
        }
        self.give_other(object).map_err(|error| self.place_error(object, error))
    }

    /// Keeps what a queued kernel may still use after the wait for it failed, until it is done.
    #[cold]
    #[inline(never)]
    pub(crate) fn keep_waiting(&mut self, stream: Stream, error: Error) -> Error {
        let objects: Vec<_> = self.objects.iter().map(owners::keep).collect();
        // A tensor that is kept can still be given other memory, so its storage is kept too.
        let shown = self.shown.iter().map(|(position, _)| &self.objects[*position]);
        let storages: Vec<_> =
            shown.filter_map(|tensor| borrow_unordered(tensor, Use::Unchecked).ok()).collect();
        self.plan.keep_until_done(stream, Owner::keep((objects, storages)));
        error
    }

    /// Has the graph that captured the launch keep the arrays that have no lease.
    #[cold]
    #[inline(never)]
    pub(crate) fn keep_in_graph(&mut self, written: &[usize]) -> PyResult<()> {
        let Some(stream) = self.plan.stream() else { return Ok(()) };
        for (position, object) in self.objects.iter().enumerate() {
            if kind_of(object)? == Kind::Array
                && let Ok(producer) = producer_of(object)
                && let Route::Torch(_) | Route::Cupy(_) = producer.route
            {
                let lease = borrow_unordered(object, Use::Unchecked)?;
                lease.record_on(&stream, written.contains(&position)).map_err(raise)?;
            }
        }
        Ok(())
    }

    /// What the kernel does with the argument that comes next.
    fn used(&self) -> Use {
        match self.options.check {
            false => Use::Unchecked,
            true if self.plan.only_reads() => Use::Read,
            true => Use::Written,
        }
    }

    /// Says of which argument an object is refused, where the code that looked at the object did not know.
    #[cold]
    fn place_error(&self, object: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
        let py = object.py();
        let Some(place) = self.plan.place() else { return error };
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
        // Their arrays are nothing else to a launch, and torch mostly shows its own without arbitrary code.
        if let Some(producer) = last_producer(class)
            && let Route::Torch(_) | Route::Cupy(_) = producer.route
        {
            return self.array_by(object, &producer);
        }
        // To ask other objects may run arbitrary code.
        self.plan.before_others();
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
        self.plan.push(argument).map_err(raise)
    }

    /// A lease of the host's memory: a framework's, which stands in for one of a GPU, or a mistake.
    fn host_lease(&mut self, object: &Bound<'_, PyAny>) -> PyResult<()> {
        let lease = object.cast::<PyLease>()?.get().held()?;
        self.plan.push_lease(lease, LEASE.get(), false).map_err(|error| refuse(object, error))
    }

    fn array(&mut self, object: &Bound<'py, PyAny>) -> PyResult<()> {
        let py = object.py();
        let producer = match producer_of(object) {
            Ok(producer) => producer,
            Err(error) if !is_failure(py, &error) => return Err(error),
            // Whole numbers of other libraries: what is an array has an index only if it holds one.
            Err(_) if object.get_type().hasattr(intern!(py, "__index__"))? => {
                self.foreign = true;
                return self.integer(object);
            }
            Err(error) => return self.other(object).map_err(|refusal| because(refusal, error, py)),
        };
        self.array_by(object, &producer)
    }

    fn array_by(&mut self, object: &Bound<'py, PyAny>, producer: &Producer) -> PyResult<()> {
        match producer.route {
            Route::Torch(torch) => self.torch(object, torch, producer),
            Route::Cupy(reader) => self.cupy(object, reader, producer),
            Route::NumPy(_) | Route::NumPyOther if is_record(object)? => self.record(object),
            Route::TorchOther(table) => self
                .other_array(object, producer, |device| torch_stream(object.py(), table, device)),
            _ => self.other_array(object, producer, |device| producer.stream(object.py(), device)),
        }
    }

    fn shown(&mut self, view: ViewRef<'_>, producer: &Producer, keep: Keep) -> PyResult<()> {
        let object = &self.objects[self.position];
        self.plan.push_view(&view, keep, producer.who).map_err(|error| refuse(object, error))
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
        let (plan, foreign) = (&mut *self.plan, &mut self.foreign);
        let before = || {
            plan.before_others();
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
        if view.place.0.index() == self.plan.device() && self.on_torchs != Some(false) {
            if self.on_torchs.is_none() && self.ask_torchs_stream(py, torch)? {
                // Code of Python's ran: the tensor may lie elsewhere by now. It is not asked again.
                return self.torch(object, torch, producer);
            }
            if self.on_torchs == Some(true) {
                self.shown.push((self.position, view.address));
                return self.shown(view, producer, Keep::InOrder);
            }
        }
        self.other_array(object, producer, |device| Ok(current(device)))
    }

    /// Finds out whether the launch is on torch's current stream, and that stays; if none was chosen, it is. Returns
    /// whether code of Python's ran.
    fn ask_torchs_stream(&mut self, py: Python<'_>, torch: &Torch) -> PyResult<bool> {
        // If torch raises, that may run arbitrary code.
        self.plan.before_others();
        let device = self.plan.device();
        let (home, python) = match known_torch_stream(torch.stream, device) {
            Some(home) => (home, false),
            None => {
                (self.foreign, self.untidy) = (true, true);
                (torch_stream(py, torch.stream, device)?, true)
            }
        };
        self.on_torchs = Some(self.plan.prefer(&home));
        Ok(python)
    }

    /// Makes sure that tensors still lie where they were shown: other code ran since.
    #[cold]
    #[inline(never)]
    fn compare(&mut self) -> PyResult<()> {
        self.plan.before_others();
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
    fn cupy(
        &mut self,
        object: &Bound<'_, PyAny>,
        reader: Option<&cupy::Reader>,
        producer: &Producer,
    ) -> PyResult<()> {
        let (py, device) = (object.py(), self.plan.device());
        self.plan.before_others();
        self.foreign = true;
        if self.on_cupys.is_none() {
            self.on_cupys = Some(self.plan.prefer(&cupy::current(py, device)?));
        }
        if self.on_cupys == Some(true)
            && let Some(described) = Described::of(object, reader)?
            && described.device() == device
        {
            return self.shown(described.view(), producer, Keep::InOrder);
        }
        self.other_array(object, producer, |device| Ok(current(device)))
    }

    /// An array of another framework: borrowed for the launch.
    fn other_array(
        &mut self,
        object: &Bound<'_, PyAny>,
        producer: &Producer,
        choose: impl FnOnce(u8) -> PyResult<Stream>,
    ) -> PyResult<()> {
        self.plan.before_others();
        (self.foreign, self.untidy) = (true, true);
        let host = producer.kind.is_some_and(|kind| kind.stands_in);
        let device = self.plan.device();
        let stream = match self.plan.stream() {
            Some(stream) => stream,
            None => choose(device).unwrap_or_else(|_| current(device)),
        };
        let want =
            |index: u8| Ok(if index == stream.device() { stream.clone() } else { current(index) });
        let lease = borrow_along(object, producer, self.used(), &want)?;
        // An array of the host has no stream to choose.
        if lease.view().device().kind() != DeviceKind::Cpu {
            self.plan.prefer(&stream);
        }
        let pushed = self.plan.push_lease(lease, producer.who, host);
        pushed.map_err(|error| refuse(object, error))
    }

    #[inline]
    fn integer(&mut self, object: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut overflow = 0;
        // SAFETY: the object is alive; one int is written.
        let value =
            unsafe { ffi::PyLong_AsLongLongAndOverflow(object.as_ptr(), &raw mut overflow) };
        if overflow == 0 {
            let raised = if value == -1 { PyErr::take(object.py()) } else { None };
            return raised.map_or_else(|| self.push(&Argument::Integer(value.into())), Err);
        }
        // Errors are made and dropped below, and with them the cycle collector may run arbitrary code.
        self.plan.before_others();
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

/// A refusal of an object that nobody knows, caused by what an adapter raised. That no protocol fits is no cause.
#[cold]
fn because(refusal: PyErr, error: PyErr, py: Python<'_>) -> PyErr {
    let code = error.value(py).getattr(intern!(py, "code")).and_then(|code| code.extract::<u32>());
    match code {
        Ok(code) if code == NO_PROTOCOL.number => refusal,
        _ => caused(py, refusal, error),
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

fn float(object: &Bound<'_, PyAny>) -> PyResult<f64> {
    // SAFETY: the object is alive.
    let value = unsafe { ffi::PyFloat_AsDouble(object.as_ptr()) };
    match PyErr::take(object.py()) {
        Some(error) if value == -1.0 => Err(error),
        _ => Ok(value),
    }
}
