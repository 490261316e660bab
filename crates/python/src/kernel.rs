//! `gpulend.Kernel` and `gpulend.timed`.

use std::ptr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use gpulend::SignatureError;
use gpulend::kernel::{Kernel, Options, Timer};
use pyo3::exceptions::{PyException, PyRuntimeError, PyTypeError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyTuple};
use pyo3::{PyTypeInfo, ffi};

use crate::attached::Attached;
use crate::errors::raise;
use crate::launcher::{How, PyLauncher, prepare, queue, size_of};
use crate::module::PyKernelModule;
use crate::stream;

/// A kernel of a module: `module["name"]`.
///
/// `kernel[grid, block](*arguments)` launches it; grid and block are a number or up to three. Arguments are arrays of any
/// framework, leases, numbers, None for a null pointer, and for structs by value NumPy records, ctypes structures or bytes.
/// Each is checked against the kernel's own signature before anything is queued. Keywords: `stream` (else the current one of
/// the framework whose array came first, else gpulend's), `shared` (bytes of dynamic shared memory), `strided=True` (take
/// arrays that are not contiguous), `check=False` (compare no types).
///
/// >>> import gpulend
/// >>> module = gpulend.compile("__global__ void twice(float *x) { x[threadIdx.x] *= 2; }")
/// >>> x = gpulend.full(4, 1.5, "float32")
/// >>> module["twice"][1, 4](x)
/// >>> x.to_host()
/// array([3., 3., 3., 3.], dtype=float32)
#[pyclass(frozen, name = "Kernel", module = "gpulend", weakref)]
pub(crate) struct PyKernel {
    kernel: Kernel,
    module: Py<PyKernelModule>,
    /// The size asked for last, and what was returned: in a loop `kernel[4, 256]` is one tuple.
    last: Attached<Option<(Py<PyTuple>, Py<PyLauncher>)>>,
}

impl PyKernel {
    pub(crate) const fn new(kernel: Kernel, module: Py<PyKernelModule>) -> Self {
        Self { kernel, module, last: Attached::new(None) }
    }

    /// Has Python ask [`subscript`] first, which is shorter than pyo3's way into `__getitem__`.
    pub(crate) fn shorten(py: Python<'_>) {
        let class = Self::type_object_raw(py);
        // SAFETY: the type is ours and alive, and nobody else has it: the GIL is held.
        let mapping = unsafe { (*class).tp_as_mapping };
        // SAFETY: it is the type's own, or null.
        if let Some(mapping) = unsafe { mapping.as_mut() }
            && let Some(long) = mapping.mp_subscript
        {
            let _ = LONG.set(long);
            mapping.mp_subscript = Some(subscript);
        }
    }
}

/// pyo3's way into `__getitem__`.
static LONG: OnceLock<ffi::binaryfunc> = OnceLock::new();

/// What Python calls for `kernel[key]`.
///
/// # Safety
///
/// As Python's mapping protocol has it: the GIL is held; `kernel` is one, and `key` an object.
unsafe extern "C" fn subscript(
    kernel: *mut ffi::PyObject,
    key: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the contract.
    let py = unsafe { Python::assume_attached() };
    // SAFETY: the contract; Python keeps it until this returns.
    let this = unsafe { Borrowed::from_ptr(py, kernel) };
    // SAFETY: the contract.
    let this = unsafe { this.cast_unchecked::<PyKernel>() }.get();
    // SAFETY: the GIL is held; a reference is counted, which runs nothing.
    match unsafe { this.last.peek() } {
        Some((last, launcher)) if last.as_ptr() == key => launcher.clone_ref(py).into_ptr(),
        // SAFETY: the contract; nobody comes here before it is set.
        _ => LONG.get().map_or(ptr::null_mut(), |long| unsafe { long(kernel, key) }),
    }
}

#[pymethods]
impl PyKernel {
    /// Its name, as C++ has it, without its parameters.
    #[getter]
    fn name(&self) -> &str {
        &self.kernel.signature().name
    }

    /// Its name in the compiled code.
    #[getter]
    fn symbol(&self) -> &str {
        &self.kernel.signature().symbol
    }

    /// Its name and parameters, as far as they are known.
    ///
    /// >>> import gpulend
    /// >>> gpulend.compile("__global__ void f(const float *x, int n) {}")["f"].signature
    /// 'f(const float* x, int n)'
    #[getter]
    fn signature(&self) -> String {
        self.kernel.signature().to_string()
    }

    /// Whether the types of its parameters are known, and not just their sizes.
    #[getter]
    fn typed(&self) -> bool {
        self.kernel.signature().is_typed()
    }

    /// The module that it was asked of.
    #[getter]
    fn module(&self, py: Python<'_>) -> Py<PyKernelModule> {
        self.module.clone_ref(py)
    }

    /// What it needs and allows on its device, by name.
    #[getter]
    fn attributes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        prepare(&self.kernel, py)?;
        let found = self.kernel.attributes().map_err(raise)?;
        let dict = PyDict::new(py);
        for (name, value) in [
            ("max_threads_per_block", found.max_threads_per_block),
            ("shared_bytes", found.shared_bytes),
            ("constant_bytes", found.constant_bytes),
            ("local_bytes", found.local_bytes),
            ("registers", found.registers),
            ("ptx_version", found.ptx_version),
            ("binary_version", found.binary_version),
            ("max_dynamic_shared_bytes", found.max_dynamic_shared_bytes),
        ] {
            dict.set_item(name, value)?;
        }
        Ok(dict)
    }

    /// Launch it: as `kernel[grid, block](*args)`.
    #[pyo3(
        signature = (grid, block, args, shared = None, stream = None, *, check = true, strided = false),
        text_signature = "($self, grid, block, args, shared=0, stream=None, *, check=True, strided=False)"
    )]
    #[expect(clippy::too_many_arguments, reason = "they are Python keywords")]
    fn launch(
        slf: &Bound<'_, Self>,
        grid: &Bound<'_, PyAny>,
        block: &Bound<'_, PyAny>,
        args: &Bound<'_, PyAny>,
        shared: Option<&Bound<'_, PyAny>>,
        stream: Option<&Bound<'_, PyAny>>,
        check: bool,
        strided: bool,
    ) -> PyResult<()> {
        let kernel = &slf.get().kernel;
        let grid = extents(kernel, grid, "grid")?;
        let block = extents(kernel, block, "block")?;
        let shared = shared.map_or(Ok(0), |shared| number(kernel, shared, "shared"))?;
        let size = size_of(kernel, grid, block, shared)?;
        let args = match args.cast::<PyTuple>() {
            Ok(args) => args.clone(),
            Err(_) => args.py().get_type::<PyTuple>().call1((args,))?.cast_into()?,
        };
        queue(args.py(), kernel, args.as_slice(), &size, stream, Options { check, strided })
    }

    /// The kernel for `n` elements, one thread each: blocks of the size that fills the device best, and as many as it takes.
    /// Called with arguments it launches; the kernel itself has to leave out the threads past the last element.
    ///
    /// >>> import gpulend
    /// >>> source = "__global__ void fill(int *x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] = i; }"
    /// >>> x = gpulend.empty(1000, "int32")
    /// >>> gpulend.compile(source)["fill"].forall(1000)(x, 1000)
    /// >>> int(x.to_host()[-1])
    /// 999
    fn forall<'py>(
        slf: &Bound<'py, Self>,
        n: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyLauncher>> {
        let kernel = &slf.get().kernel;
        let count = number(kernel, n, "forall")?;
        let outsized = |_| raise(kernel.outsized([count, 1, 1], [1; 3], 0));
        let count = u64::try_from(count).map_err(outsized)?;
        PyLauncher::publish(slf.py(), kernel, How::Elements(count))
    }

    fn __getitem__<'py>(
        slf: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyLauncher>> {
        let py = slf.py();
        let this = slf.get();
        let wanted = || PyTypeError::new_err("say kernel[grid, block](arguments)");
        let sizes = key.cast::<PyTuple>().map_err(|_| wanted())?;
        let [grid, block] = sizes.as_slice() else { return Err(wanted()) };
        let kernel = &this.kernel;
        let how = How::of(extents(kernel, grid, "grid")?, extents(kernel, block, "block")?);
        let launcher = PyLauncher::publish(py, kernel, how)?;
        // What is no int could say something else the next time.
        if sizes.as_slice().iter().all(is_fixed) {
            let kept = (sizes.clone().unbind(), launcher.clone().unbind());
            // SAFETY: a value is moved in and out, and none dropped.
            drop(unsafe { this.last.with(py, |last| last.replace(kept)) });
        }
        Ok(launcher)
    }

    #[pyo3(signature = (*_arguments, **_keywords))]
    fn __call__(
        &self,
        _arguments: &Bound<'_, PyTuple>,
        _keywords: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let name = self.name();
        let message = format!(
            "say how large the launch is: {name}[grid, block](arguments), or {name}.forall(n)(arguments)"
        );
        Err(PyTypeError::new_err(message))
    }

    fn __repr__(&self) -> String {
        format!("<gpulend.Kernel {} on {}>", self.signature(), self.kernel.module().device())
    }
}

/// Whether a size is made of plain integers.
fn is_fixed(size: &Bound<'_, PyAny>) -> bool {
    let plain = |part: &Bound<'_, PyAny>| part.is_exact_instance_of::<PyInt>();
    plain(size) || size.cast_exact::<PyTuple>().is_ok_and(|axes| axes.as_slice().iter().all(plain))
}

/// One to three extents.
#[inline]
fn extents(kernel: &Kernel, object: &Bound<'_, PyAny>, what: &'static str) -> PyResult<[i64; 3]> {
    let Ok(axes) = object.cast::<PyTuple>() else {
        return Ok([number(kernel, object, what)?, 1, 1]);
    };
    let mut extents = [1; 3];
    if axes.is_empty() || axes.len() > 3 {
        return Err(misshapen(kernel, object, what));
    }
    for (place, axis) in extents.iter_mut().zip(axes.as_slice()) {
        *place = number(kernel, axis, what)?;
    }
    Ok(extents)
}

/// A whole number; what 64 bits do not hold is told as the nearest that they do, which is wrong just so.
#[inline]
pub(crate) fn number(
    kernel: &Kernel,
    object: &Bound<'_, PyAny>,
    what: &'static str,
) -> PyResult<i64> {
    if object.is_exact_instance_of::<PyInt>()
        && let Ok(number) = object.extract::<i64>()
    {
        return Ok(number);
    }
    // NumPy's integers and the like.
    let number = object.call_method0(intern!(object.py(), "__index__"));
    let number =
        number.map_err(|error| match error.is_instance_of::<PyException>(object.py()) {
            true => misshapen(kernel, object, what),
            // An interrupt is nobody's number.
            false => error,
        })?;
    Ok(number.extract::<i64>().unwrap_or(if number.lt(0)? { i64::MIN } else { i64::MAX }))
}

#[cold]
fn misshapen(kernel: &Kernel, object: &Bound<'_, PyAny>, what: &'static str) -> PyErr {
    let fit = match what {
        "forall" => "a number of elements, from 0 on",
        "shared" => "a number of bytes",
        _ => "a number or a tuple of up to three",
    };
    let kind = object.get_type().name().map_or_else(|_| "?".to_owned(), |kind| kind.to_string());
    let length = object.len().map(|length| format!(" of {length}")).unwrap_or_default();
    let found = format!("{object} ({kind}{length})").into();
    let kernel = kernel.signature().name.clone();
    raise(SignatureError::Shape { kernel, what, found, fit })
}

/// Measure how long a GPU works on what is queued inside the `with`.
///
/// `stream` is the one measured, or the current one. `milliseconds` waits for the end.
///
/// >>> import gpulend
/// >>> with gpulend.timed() as t:
/// ...     x = gpulend.zeros(1000, "float32")
/// >>> t.milliseconds >= 0
/// True
#[pyclass(frozen, name = "timed", module = "gpulend")]
pub(crate) struct PyTimed {
    stream: gpulend::stream::Stream,
    timer: Mutex<(Option<Arc<Timer>>, bool)>,
}

#[pymethods]
impl PyTimed {
    #[new]
    #[pyo3(signature = (stream = None, *, device = None))]
    fn new(stream: Option<&Bound<'_, PyAny>>, device: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let index = stream::index_of(device)?;
        let stream = match stream {
            Some(stream) => stream::parse(stream, index)?,
            None => gpulend::stream::current(index),
        };
        Ok(Self { stream, timer: Mutex::new((None, false)) })
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        let timer = Timer::start(slf.get().stream.clone()).map_err(raise)?;
        *slf.get().lock() = (Some(Arc::new(timer)), false);
        Ok(slf)
    }

    fn __exit__(
        &self,
        _kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let mut timer = self.lock();
        if let (Some(timer), over) = &mut *timer {
            timer.stop().map_err(raise)?;
            *over = true;
        }
        Ok(())
    }

    /// Milliseconds of the GPU between the beginning and the end of the `with`.
    #[getter]
    fn milliseconds(&self, py: Python<'_>) -> PyResult<f32> {
        // Not under the lock: what is waited for may need Python, and Python this lock.
        let measured = match &*self.lock() {
            (Some(timer), true) => Some(Arc::clone(timer)),
            _ => None,
        };
        let message = "nothing was measured yet; ask after `with gpulend.timed() as t: ...`";
        let timer = measured.ok_or_else(|| PyRuntimeError::new_err(message))?;
        py.detach(|| timer.milliseconds()).map_err(raise)
    }

    fn __repr__(&self) -> String {
        let state = if self.lock().1 { "measured" } else { "not measured yet" };
        format!("<gpulend.timed on stream {:#x}, {state}>", self.stream.handle().0)
    }
}

impl PyTimed {
    fn lock(&self) -> std::sync::MutexGuard<'_, (Option<Arc<Timer>>, bool)> {
        self.timer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
