//! `gpulend.Kernel` and `gpulend.timed`.

use std::ptr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use gpulend::SignatureError;
use gpulend::kernel::{Kernel, Options, Size, Timer};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyTuple};
use pyo3::{PyTypeInfo, ffi};

use crate::attached::Attached;
use crate::errors::{caused, is_no_number, raise};
use crate::launcher::{How, PyLauncher, prepare, queue, size_of};
use crate::module::PyKernelModule;
use crate::stream;

/// A kernel of a module: `module["name"]`.
///
/// `kernel[grid, block](*arguments)` launches it; grid and block are a number or up to three. Arguments are arrays of any
/// framework, leases, numbers, None for a null pointer, and for structs by value NumPy records, ctypes structures or bytes.
/// Each is checked against the kernel's own signature before anything is queued. Keywords: `stream` (else the current one of
/// the framework whose array came first, else gpulend's), `shared` (bytes of dynamic shared memory), `strided=True` (take
/// arrays that are not contiguous), `check=False` (compare no types). Other keywords are parameters by their names.
/// `kernel[grid, block, stream, shared]` is the same with a stream and with shared memory.
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

    /// The core's kernel.
    pub(crate) const fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Has Python ask [`subscript`] first, which is shorter than pyo3's path to `__getitem__`.
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

impl PyKernel {
    /// A launch of one block.
    fn size(
        &self,
        py: Python<'_>,
        block: [i64; 3],
        shared: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Size> {
        prepare(&self.kernel, py)?;
        let shared = shared.map_or(Ok(0), |shared| number(&self.kernel, shared, "shared"))?;
        size_of(&self.kernel, [1; 3], block, shared)
    }

    /// How many such blocks a multiprocessor runs at once, their size, and how many threads it could run.
    fn active(
        &self,
        py: Python<'_>,
        block: &Bound<'_, PyAny>,
        shared: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<(u32, Size, u32)> {
        let size = self.size(py, extents(&self.kernel, block, "block")?, shared)?;
        let (blocks, most) = self.kernel.occupancy(&size).map_err(raise)?;
        Ok((blocks, size, most))
    }
}

/// pyo3's path to `__getitem__`.
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

    /// The part of a multiprocessor's threads that blocks of this size keep busy, from 0 to 1, with `shared` bytes of dynamic
    /// shared memory each.
    ///
    /// >>> import gpulend
    /// >>> kernel = gpulend.compile("__global__ void twice(float *x) { x[threadIdx.x] *= 2; }")["twice"]
    /// >>> kernel.occupancy(256), kernel.blocks_per_multiprocessor(256)
    /// (1.0, 4)
    #[pyo3(signature = (block, shared = None), text_signature = "($self, block, shared=0)")]
    fn occupancy(
        &self,
        py: Python<'_>,
        block: &Bound<'_, PyAny>,
        shared: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<f64> {
        let (blocks, size, most) = self.active(py, block, shared)?;
        let threads: u32 = size.block.iter().product();
        Ok(f64::from(blocks) * f64::from(threads) / f64::from(most.max(1)))
    }

    /// How many blocks of this size a multiprocessor runs at once.
    #[pyo3(signature = (block, shared = None), text_signature = "($self, block, shared=0)")]
    fn blocks_per_multiprocessor(
        &self,
        py: Python<'_>,
        block: &Bound<'_, PyAny>,
        shared: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u32> {
        Ok(self.active(py, block, shared)?.0)
    }

    /// Grid and block with the best occupancy: the fewest blocks that fill the device. They suit a kernel whose threads take
    /// several elements each; `forall` is for one thread an element.
    ///
    /// >>> import gpulend
    /// >>> kernel = gpulend.compile("__global__ void twice(float *x) { x[threadIdx.x] *= 2; }")["twice"]
    /// >>> grid, block = kernel.best_size()
    /// >>> kernel.occupancy(block)
    /// 1.0
    #[pyo3(signature = (shared = None), text_signature = "($self, shared=0)")]
    fn best_size(&self, py: Python<'_>, shared: Option<&Bound<'_, PyAny>>) -> PyResult<(u32, u32)> {
        let shared = self.size(py, [1; 3], shared)?.shared;
        let best = self.kernel.best_size(shared).map_err(raise)?;
        Ok((best.grid[0], best.block[0]))
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
    /// `n` may be a shape of up to three axes: then x runs along the last of them, y along the one before, and z along the
    /// first of three.
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
        PyLauncher::publish(slf.py(), kernel, How::Elements(elements(kernel, n)?), None)
    }

    fn __getitem__<'py>(
        slf: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyLauncher>> {
        let py = slf.py();
        let this = slf.get();
        let wanted = || PyTypeError::new_err("say kernel[grid, block](arguments)");
        let sizes = key.cast::<PyTuple>().map_err(|_| wanted())?;
        let kernel = &this.kernel;
        let (grid, block, others) = match sizes.as_slice() {
            [grid, block] => (grid, block, None),
            [grid, block, stream] => (grid, block, Some((stream, None))),
            [grid, block, stream, shared] => (grid, block, Some((stream, Some(shared)))),
            _ => return Err(wanted()),
        };
        let (grid, block) = (extents(kernel, grid, "grid")?, extents(kernel, block, "block")?);
        let (how, stream) = match others {
            None => (How::of(grid, block), None),
            Some((stream, shared)) => {
                let shared = shared.map_or(Ok(0), |shared| number(kernel, shared, "shared"))?;
                let stream = Some(stream).filter(|stream| !stream.is_none());
                (How::Configured(grid, block, shared), stream.map(|stream| stream.clone().unbind()))
            }
        };
        let launcher = PyLauncher::publish(py, kernel, how, stream)?;
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
pub(crate) fn extents(
    kernel: &Kernel,
    object: &Bound<'_, PyAny>,
    what: &'static str,
) -> PyResult<[i64; 3]> {
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

/// How many elements there are along x, y and z: a count, or a shape, whose last axis is x.
pub(crate) fn elements(kernel: &Kernel, count: &Bound<'_, PyAny>) -> PyResult<[u64; 3]> {
    let mut shape = extents(kernel, count, "forall")?;
    if let Ok(axes) = count.cast::<PyTuple>() {
        shape[..axes.len()].reverse();
    }
    let outsized = |_| raise(kernel.outsized(shape, [1; 3], 0));
    let [x, y, z] = shape.map(u64::try_from);
    Ok([x.map_err(outsized)?, y.map_err(outsized)?, z.map_err(outsized)?])
}

/// A whole number; what 64 bits do not hold becomes the nearest that they do, which is wrong just so.
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
    // SAFETY: the object is alive.
    let number = unsafe { ffi::PyNumber_Index(object.as_ptr()) };
    // SAFETY: a new reference, or null with an exception set.
    let number = unsafe { Bound::from_owned_ptr_or_err(object.py(), number) };
    let number = number.map_err(|error| match is_no_number(object.py(), &error) {
        true => caused(object.py(), misshapen(kernel, object, what), error),
        // An interrupt is not the caller's mistake, and a bug in `__index__` is reported as it is.
        false => error,
    })?;
    Ok(number.extract::<i64>().unwrap_or(if number.lt(0)? { i64::MIN } else { i64::MAX }))
}

#[cold]
fn misshapen(kernel: &Kernel, object: &Bound<'_, PyAny>, what: &'static str) -> PyErr {
    let fit = match what {
        "forall" => "a number of elements, from 0 on, or a shape of up to three axes",
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
