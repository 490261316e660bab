//! Calls of `gpulend.torch.op`'s operations on plain tensors: outputs are made and the kernel is launched here.
//!
//! ```text
//! scale(x, 2.0)                     torch.ops.OpOverload, whose `_op` is a PyTorchOperation
//!   each argument is exactly a tensor or a number of Python's, and the dispatcher would go to the kernel of the device alone
//!     yes   empty_like(x), launch   "torch operation: native"
//!     no    torch's own `_op`       "torch operation: dispatcher": autograd, vmap, modes, fake tensors, profilers, all errors of
//!                                   arguments' types, empty launches
//! ```
//!
//! torch's path from Python to a kernel that Python wrote takes longer than the launch. What is registered with it does the
//! same as what is done here, in Python (`_launching` in `gpulend/torch.py`), for calls through the dispatcher.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;

use gpulend::Dtype;
use gpulend::kernel::{Kernel, Options, Size};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyTuple};
use pyo3::{PyTypeInfo, ffi, intern};
use smallvec::SmallVec;

use super::{On, Read, Torch};
use crate::counts::{Counted, count};
use crate::errors::raise;
use crate::fast_path::small_integer;
use crate::kernel::{PyKernel, elements, extents, number};
use crate::launcher::{prepare, queue, size_of};
use crate::quick::{self, raised};
use crate::routes::{Route, producer_of};

/// What an operation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Array,
    Integer,
    Float,
    Bool,
}

/// What follows from the arguments: a number, or several for axes.
enum Rule {
    /// How many elements an input has.
    Size(usize),
    Constant(Py<PyAny>),
    /// A function of a tuple of all arguments.
    Function(Py<PyAny>),
}

/// How an output is made.
struct Output {
    /// The input whose shape and element type it has, and torch's function for it, which makes it contiguous.
    like: Option<(usize, Py<PyAny>)>,
    /// The type of its elements; none if it is that of the input.
    dtype: Option<Dtype>,
    /// A function of a tuple of all arguments, which makes it where `like` does not.
    make: Py<PyAny>,
}

/// How large a launch is.
enum Extents {
    /// One thread an element.
    Elements(Rule),
    Blocks(Rule, Rule),
}

/// What torch calls in place of its own function for an operation.
#[pyclass(frozen, name = "TorchOperation", module = "gpulend._native", weakref)]
pub(crate) struct PyTorchOperation {
    /// What Python calls, with the arguments as they lie on its stack.
    call: ffi::vectorcallfunc,
    kernel: Kernel,
    inputs: Box<[Role]>,
    outputs: Box<[Output]>,
    values: Box<[Rule]>,
    /// For each parameter of the kernel, its place among inputs, outputs and values.
    places: Box<[usize]>,
    extents: Extents,
    shared: Rule,
    /// The dispatcher's keys that make no difference.
    plain: u64,
    /// What `empty_like` and `zeros_like` get beside the input.
    format: (Py<PyTuple>, Py<PyAny>),
    /// `torch.Tensor` and `Parameter`.
    classes: [Py<PyAny>; 2],
    /// torch's own function.
    dispatched: Py<PyAny>,
}

/// What is read of one argument that is an array.
#[derive(Clone, Copy)]
struct Seen {
    elements: i64,
    dtype: Option<Dtype>,
}

type SeenAll = SmallVec<[Seen; 8]>;

impl Rule {
    /// As `gpulend.torch` says it: `("size", input)`, `("constant", value)` or `("function", function)`.
    fn read((word, object): &(String, Py<PyAny>), py: Python<'_>, inputs: usize) -> PyResult<Self> {
        Ok(match word.as_str() {
            "size" => Self::Size(place_of(object.bind(py), inputs)?),
            "constant" => Self::Constant(object.clone_ref(py)),
            "function" => Self::Function(object.clone_ref(py)),
            _ => return Err(PyValueError::new_err(format!("{word} is no rule"))),
        })
    }

    fn value<'py>(&self, arguments: &[Bound<'py, PyAny>], seen: &SeenAll) -> PyResult<Value<'py>> {
        let py = arguments[0].py();
        Ok(match self {
            Self::Size(input) => Value::Number(seen[*input].elements),
            Self::Constant(value) => Value::Object(value.bind(py).clone()),
            Self::Function(function) => Value::Object(call_on(function, arguments)?),
        })
    }
}

/// What a rule says.
enum Value<'py> {
    Number(i64),
    Object(Bound<'py, PyAny>),
}

impl<'py> Value<'py> {
    fn object(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::Number(number) => Ok(number.into_pyobject(py)?.into_any()),
            Self::Object(object) => Ok(object),
        }
    }

    fn extents(&self, kernel: &Kernel, what: &'static str) -> PyResult<[i64; 3]> {
        match self {
            Self::Number(number) => Ok([*number, 1, 1]),
            Self::Object(object) => extents(kernel, object, what),
        }
    }
}

/// A function of Python's, called with a tuple of all arguments.
fn call_on<'py>(
    function: &Py<PyAny>,
    arguments: &[Bound<'py, PyAny>],
) -> PyResult<Bound<'py, PyAny>> {
    let py = arguments[0].py();
    function.bind(py).call1((PyTuple::new(py, arguments)?,))
}

fn place_of(object: &Bound<'_, PyAny>, count: usize) -> PyResult<usize> {
    let place: usize = object.extract()?;
    let wrong = || PyValueError::new_err(format!("there are {count} inputs, and not {place}"));
    (place < count).then_some(place).ok_or_else(wrong)
}

/// A rule as [`Rule::read`] takes it.
type Given = (String, Py<PyAny>);
/// The input whose shape an output has, the name of its element type, whether it begins with zeros, and what makes it.
type Made = (Option<usize>, Option<String>, bool, Py<PyAny>);

/// Return what torch may call for an operation in place of `dispatched`, its own function; None if this torch is not known well
/// enough.
///
/// `inputs` are roles. `outputs` are the input whose shape they have, the name of their element type, whether they begin with
/// zeros, and a function that makes them. `places` has for each parameter its place among inputs, outputs and values. `size` is
/// one rule for elements, or two for grid and block. `plain` are the keys of plain tensors.
#[pyfunction]
#[pyo3(signature = (kernel, inputs, outputs, values, places, size, shared, plain, dispatched, /))]
#[expect(clippy::too_many_arguments, reason = "Python gives them once an operation")]
pub(crate) fn torch_operation<'py>(
    kernel: &Bound<'py, PyKernel>,
    inputs: Vec<String>,
    outputs: Vec<Made>,
    values: Vec<Given>,
    places: Vec<usize>,
    size: Vec<Given>,
    shared: Given,
    plain: u64,
    dispatched: Py<PyAny>,
) -> PyResult<Option<Bound<'py, PyTorchOperation>>> {
    let py = kernel.py();
    let torch = py.import(intern!(py, "torch"))?;
    let Some(known) = Torch::of(py, &torch, true)? else { return Ok(None) };
    if plain == 0 || !known.prove_dispatch(py) {
        return Ok(None);
    }
    let inputs = inputs.iter().map(|word| role(word)).collect::<PyResult<Box<[_]>>>()?;
    let rule = |given: &Given| Rule::read(given, py, inputs.len());
    let extents = match &*size {
        [elements] => Extents::Elements(rule(elements)?),
        [grid, block] => Extents::Blocks(rule(grid)?, rule(block)?),
        _ => return Err(PyTypeError::new_err("give elements, or grid and block")),
    };
    let values = values.iter().map(rule).collect::<PyResult<Box<[_]>>>()?;
    let output = |(like, dtype, zeroed, make): Made| {
        let dtype = dtype.map(|name| name.parse::<Dtype>().map_err(raise)).transpose()?;
        let name = if zeroed { "zeros_like" } else { "empty_like" };
        let alike = torch.getattr(name)?.unbind();
        let like = like.filter(|input| *input < inputs.len()).map(|input| (input, alike));
        PyResult::Ok(Output { like, dtype, make })
    };
    let outputs = outputs.into_iter().map(output).collect::<PyResult<Box<[_]>>>()?;
    let count = inputs.len() + outputs.len() + values.len();
    if inputs.is_empty() || places.iter().any(|place| *place >= count) {
        return Err(PyValueError::new_err("a parameter is no input, output or value"));
    }
    let names = PyTuple::new(py, [intern!(py, "memory_format")])?.unbind();
    let made = PyTorchOperation {
        call: called,
        kernel: kernel.get().kernel().clone(),
        shared: rule(&shared)?,
        inputs,
        outputs,
        values,
        places: places.into_boxed_slice(),
        extents,
        plain,
        format: (names, torch.getattr("contiguous_format")?.unbind()),
        classes: [
            torch.getattr("Tensor")?.unbind(),
            torch.getattr("nn")?.getattr("Parameter")?.unbind(),
        ],
        dispatched,
    };
    let made = Bound::new(py, made)?;
    // SAFETY: every object of the class has its function there.
    unsafe { quick::call_directly(made.as_any(), &made.get().call) };
    Ok(Some(made))
}

fn role(word: &str) -> PyResult<Role> {
    Ok(match word {
        "array" => Role::Array,
        "integer" => Role::Integer,
        "float" => Role::Float,
        "bool" => Role::Bool,
        _ => return Err(PyValueError::new_err(format!("{word} is no role of an input"))),
    })
}

/// What Python calls for `operation(*arguments, **keywords)`.
///
/// # Safety
///
/// As Python's vectorcall protocol has it: the GIL is held; `operation` is one, and `arguments` so many objects, then one for each
/// name in `names`.
unsafe extern "C" fn called(
    operation: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    given: usize,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the contract.
    let py = unsafe { Python::assume_attached() };
    // SAFETY: the contract; Python keeps it until this returns.
    let operation = unsafe { Borrowed::from_ptr(py, operation) };
    // SAFETY: the contract.
    let this = unsafe { operation.cast_unchecked::<PyTorchOperation>() }.get();
    // SAFETY: the flag beside the number is taken off.
    let total = unsafe { ffi::PyVectorcall_NARGS(given) }.cast_unsigned();
    if names.is_null() && total == this.inputs.len() {
        let first = arguments.cast::<Bound<'_, PyAny>>();
        // SAFETY: the contract, and there is one at least; a `Bound` is a pointer and no more, and those here are never dropped.
        let arguments = unsafe { slice::from_raw_parts(first, total) };
        let error = match catch_unwind(AssertUnwindSafe(|| this.try_call(arguments))) {
            Ok(Ok(Some(result))) => {
                count(Counted::OperationNative);
                return result.into_ptr();
            }
            Ok(Ok(None)) => None,
            Ok(Err(error)) => Some(error),
            Err(_) => Some(PyRuntimeError::new_err("bug: a panic in an operation")),
        };
        if let Some(error) = error {
            return raised(py, error);
        }
    }
    count(Counted::OperationDispatched);
    // SAFETY: the contract: the arguments are passed on as they came.
    unsafe { ffi::PyObject_Vectorcall(this.dispatched.as_ptr(), arguments, given, names) }
}

impl PyTorchOperation {
    /// Nothing if the call is torch's: nothing was done then.
    fn try_call<'py>(
        &self,
        arguments: &[Bound<'py, PyAny>],
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(seen) = self.look(arguments) else { return Ok(None) };
        let py = arguments[0].py();
        let Some(size) = self.size(py, arguments, &seen)? else { return Ok(None) };
        let mut held: SmallVec<[Bound<'py, PyAny>; 16]> = arguments.iter().cloned().collect();
        for output in &self.outputs {
            held.push(self.make(output, arguments, &seen)?);
        }
        for value in &self.values {
            held.push(value.value(arguments, &seen)?.object(py)?);
        }
        let passed: SmallVec<[Bound<'py, PyAny>; 16]> =
            self.places.iter().map(|place| held[*place].clone()).collect();
        queue(py, &self.kernel, &passed, &size, None, Options::default())?;
        let first = arguments.len();
        Ok(Some(match self.outputs.len() {
            0 => py.None().into_bound(py),
            1 => held.swap_remove(first),
            count => PyTuple::new(py, &held[first..first + count])?.into_any(),
        }))
    }

    /// Reads the arguments; nothing if one of them, or the state of the thread, is not plain. Nothing of Python's runs, unless
    /// a tensor is the first of its class.
    #[inline]
    fn look(&self, arguments: &[Bound<'_, PyAny>]) -> Option<SeenAll> {
        let mut all = SeenAll::new();
        let (mut keys, mut tracked, mut reader) = (0, false, None);
        for (role, argument) in self.inputs.iter().zip(arguments) {
            let class = argument.get_type_ptr();
            let py = argument.py();
            let fits = match role {
                Role::Array => {
                    // Others may run arbitrary code to say what they are.
                    if !self.classes.iter().any(|known| known.as_ptr() == class.cast()) {
                        return None;
                    }
                    let Route::Torch(torch) = producer_of(argument).ok()?.route else {
                        return None;
                    };
                    // SAFETY: the route is that of its exact type.
                    keys |= unsafe { torch.keys(argument) }?;
                    // SAFETY: (1) as above; (2) only numbers are kept.
                    let (view, gradient) = match unsafe { torch.read(argument, On::Any, true) } {
                        Read::Plain(view) => (view, false),
                        Read::Tracked(view) => (view, true),
                        Read::Elsewhere | Read::Refused | Read::Unknown => return None,
                    };
                    let multiply = |product: i64, extent: &i64| product.checked_mul(*extent);
                    let elements = view.shape.iter().try_fold(1, multiply)?;
                    all.push(Seen { elements, dtype: Some(view.dtype) });
                    (tracked, reader) = (tracked | gradient, Some(torch));
                    continue;
                }
                Role::Integer => {
                    class == PyInt::type_object_raw(py) && small_integer(argument).is_some()
                }
                Role::Float => class == PyFloat::type_object_raw(py),
                Role::Bool => class == PyBool::type_object_raw(py),
            };
            if !fits {
                return None;
            }
            all.push(Seen { elements: 0, dtype: None });
        }
        let torch = reader?;
        let recorded = tracked && !torch.takes_tracked(super::Use::Written);
        let plain = torch.dispatch(arguments[0].py())?.is_plain(keys, self.plain);
        (plain && !recorded).then_some(all)
    }

    /// How large the launch is; nothing if it is empty.
    fn size(
        &self,
        py: Python<'_>,
        arguments: &[Bound<'_, PyAny>],
        seen: &SeenAll,
    ) -> PyResult<Option<Size>> {
        let kernel = &self.kernel;
        let shared = || match self.shared.value(arguments, seen)? {
            Value::Number(shared) => Ok(shared),
            Value::Object(shared) => number(kernel, &shared, "shared"),
        };
        match &self.extents {
            Extents::Elements(rule) => {
                let extents = match rule.value(arguments, seen)? {
                    Value::Number(count) => [count.cast_unsigned(), 1, 1],
                    Value::Object(count) => elements(kernel, &count)?,
                };
                if extents.contains(&0) {
                    return Ok(None);
                }
                prepare(kernel, py)?;
                let shared = size_of(kernel, [1; 3], [1; 3], shared()?)?.shared;
                kernel.size_over(extents, shared).map(Some).map_err(raise)
            }
            Extents::Blocks(grid, block) => {
                let grid = grid.value(arguments, seen)?.extents(kernel, "grid")?;
                if grid.contains(&0) {
                    return Ok(None);
                }
                let block = block.value(arguments, seen)?.extents(kernel, "block")?;
                size_of(kernel, grid, block, shared()?).map(Some)
            }
        }
    }

    fn make<'py>(
        &self,
        output: &Output,
        arguments: &[Bound<'py, PyAny>],
        seen: &SeenAll,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = arguments[0].py();
        let Some((input, alike)) = &output.like else { return call_on(&output.make, arguments) };
        if output.dtype.is_some() && output.dtype != seen[*input].dtype {
            return call_on(&output.make, arguments);
        }
        let (names, contiguous) = &self.format;
        let given = [arguments[*input].as_ptr(), contiguous.as_ptr()];
        // SAFETY: one argument and one with a name, all alive.
        let made =
            unsafe { ffi::PyObject_Vectorcall(alike.as_ptr(), given.as_ptr(), 1, names.as_ptr()) };
        // SAFETY: a new reference, or null with an exception set.
        unsafe { Bound::from_owned_ptr_or_err(py, made) }
    }
}

#[pymethods]
impl PyTorchOperation {
    #[pyo3(signature = (*args, **keywords))]
    fn __call__<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = args.py();
        if keywords.is_none_or(|keywords| keywords.is_empty())
            && args.len() == self.inputs.len()
            && let Some(result) = self.try_call(args.as_slice())?
        {
            count(Counted::OperationNative);
            return Ok(result);
        }
        count(Counted::OperationDispatched);
        self.dispatched.bind(py).call(args, keywords)
    }

    /// torch's own function.
    #[getter]
    fn __wrapped__<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.dispatched.bind(py).clone()
    }

    /// As torch's own function: some versions take it for the operation's.
    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        self.dispatched.bind(py).hash()
    }

    /// What torch's own function says of itself.
    fn __getattr__<'py>(
        &self,
        py: Python<'py>,
        name: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.dispatched.bind(py).getattr(name.cast::<pyo3::types::PyString>()?)
    }

    fn __repr__(&self) -> String {
        format!("<gpulend.torch operation {}>", self.kernel.signature())
    }
}
