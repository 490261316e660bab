//! `gpulend.Launcher`: a kernel and how large its launch is. Called, it launches: the fast path from Python.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};

use gpulend::kernel::{Kernel, Options, Prepared, Size};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::arguments::Filling;
use crate::counts::{Counted, count};
use crate::errors::{ARGUMENT_COUNT, raise, refused};
use crate::fast_path::count_writes;
use crate::free_list::{FreeList, Reused};
use crate::kernel::number;
use crate::quick::{call_directly, drop_put_off, raised};
use crate::{reaper, stream};

/// A kernel and how large its launch is: `kernel[grid, block]`.
#[pyclass(frozen, name = "Launcher", module = "gpulend")]
pub(crate) struct PyLauncher {
    /// What Python calls, with the arguments as they lie on its stack.
    call: ffi::vectorcallfunc,
    kernel: Kernel,
    how: How,
    /// The stream of `kernel[grid, block, stream]`.
    stream: Option<Py<PyAny>>,
}

#[derive(Clone, Copy)]
pub(crate) enum How {
    Size(Size),
    /// What no launch can have, said when one is asked for.
    Outsized([i64; 3], [i64; 3]),
    /// One thread for each element along x, y and z.
    Elements([u64; 3]),
    /// With bytes of shared memory, and perhaps with a stream: as Numba has it.
    Configured([i64; 3], [i64; 3], i64),
}

impl How {
    pub(crate) fn of(grid: [i64; 3], block: [i64; 3]) -> Self {
        narrow(grid, block, 0).map_or(Self::Outsized(grid, block), Self::Size)
    }
}

fn narrow(grid: [i64; 3], block: [i64; 3], shared: i64) -> Option<Size> {
    let narrow = |extents: [i64; 3]| -> Option<[u32; 3]> {
        let [x, y, z] = extents.map(u32::try_from);
        Some([x.ok()?, y.ok()?, z.ok()?])
    };
    Some(Size { grid: narrow(grid)?, block: narrow(block)?, shared: u32::try_from(shared).ok()? })
}

pub(crate) fn size_of(
    kernel: &Kernel,
    grid: [i64; 3],
    block: [i64; 3],
    shared: i64,
) -> PyResult<Size> {
    narrow(grid, block, shared).ok_or_else(|| raise(kernel.outsized(grid, block, shared)))
}

/// Loads a kernel, if it is not, without the GIL: the driver may compile for seconds.
#[inline]
pub(crate) fn prepare<'a>(kernel: &'a Kernel, py: Python<'_>) -> PyResult<Prepared<'a>> {
    match kernel.prepared() {
        Some(prepared) => Ok(prepared),
        None => py.detach(|| kernel.prepare()).map_err(raise),
    }
}

/// Launches a kernel on Python's objects.
#[inline(always)]
fn launch(
    py: Python<'_>,
    kernel: &Kernel,
    objects: &[Bound<'_, PyAny>],
    size: &Size,
    stream: Option<&Bound<'_, PyAny>>,
    options: Options,
) -> PyResult<()> {
    reaper::catch_up(py);
    let prepared = prepare(kernel, py)?;
    let mut plan = prepared.plan(options);
    if let Some(stream) = stream {
        plan.on(stream::parse(stream, plan.device())?);
    }
    let mut filling = Filling::new(&mut plan, objects, options);
    filling.fill()?;
    // SAFETY: (1) is the Python caller's, who wrote the kernel; (2) the caller keeps what is not leased: what is torch's or CuPy's
    // is freed in the order of the launch's stream, and where it is a host's the wait below outlasts the kernel, or `keep_waiting`
    // keeps it; (3) this call is one thread's, and `before_others` is called before anything of Python's runs.
    let wait = unsafe { filling.plan.queue(size) }.map_err(raise)?;
    count(if filling.general { Counted::LaunchGeneral } else { Counted::LaunchFast });
    let counted = count_writes(prepared, objects);
    if filling.plan.is_recorded() {
        filling.keep_in_graph(prepared.written())?;
    }
    if let Some(stream) = wait {
        let waited = py.detach(|| stream.synchronize());
        waited.map_err(|error| raise(filling.keep_waiting(stream, error)))?;
    }
    // Not sooner: it may run arbitrary code.
    if filling.untidy {
        drop_put_off();
    }
    counted
}

/// The same for calls that do more than launch.
#[inline(never)]
pub(crate) fn queue(
    py: Python<'_>,
    kernel: &Kernel,
    objects: &[Bound<'_, PyAny>],
    size: &Size,
    stream: Option<&Bound<'_, PyAny>>,
    options: Options,
) -> PyResult<()> {
    launch(py, kernel, objects, size, stream, options)
}

impl PyLauncher {
    pub(crate) fn publish<'py>(
        py: Python<'py>,
        kernel: &Kernel,
        how: How,
        stream: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, Self>> {
        static QUICK: AtomicBool = AtomicBool::new(false);
        let launcher = Bound::new(py, Self { call: called, kernel: kernel.clone(), how, stream })?;
        // The GIL is held: no other thread changes it.
        if !QUICK.swap(true, Ordering::Relaxed) {
            // SAFETY: every launcher has its function there.
            unsafe { call_directly(launcher.as_any(), &launcher.get().call) };
        }
        Ok(launcher)
    }

    fn launch(
        &self,
        py: Python<'_>,
        arguments: &[Bound<'_, PyAny>],
        keywords: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let kernel = &self.kernel;
        let mut read = match keywords {
            Some(keywords) => Keywords::read(kernel, keywords)?,
            None => Keywords::default(),
        };
        let (own, shared) = (self.stream.as_ref(), self.shared());
        if own.is_some() && read.stream.is_some() || shared != 0 && read.shared != 0 {
            let message = "a stream or shared memory is given twice, in [] and by keyword";
            return Err(PyTypeError::new_err(message));
        }
        read.stream = read.stream.or_else(|| own.map(|stream| stream.bind(py).clone()));
        read.shared += shared;
        let joined;
        let arguments = match read.named.is_empty() {
            true => arguments,
            false => {
                joined = in_order(kernel, arguments, read.named)?;
                &joined
            }
        };
        let size = match self.how {
            How::Size(Size { grid, block, .. }) => {
                size_of(kernel, grid.map(i64::from), block.map(i64::from), read.shared)?
            }
            How::Outsized(grid, block) | How::Configured(grid, block, _) => {
                size_of(kernel, grid, block, read.shared)?
            }
            How::Elements(extents) => {
                prepare(kernel, py)?;
                let shared = size_of(kernel, [1; 3], [1; 3], read.shared)?.shared;
                let some = extents.map(|extent| extent.max(1));
                let size = kernel.size_over(some, shared).map_err(raise)?;
                if some != extents {
                    return Ok(());
                }
                size
            }
        };
        queue(py, kernel, arguments, &size, read.stream.as_ref(), read.options)
    }

    /// The shared memory that was given with the size.
    const fn shared(&self) -> i64 {
        if let How::Configured(_, _, shared) = self.how { shared } else { 0 }
    }
}

/// What Python calls for `launcher(*arguments, **keywords)`.
///
/// # Safety
///
/// As Python's vectorcall protocol has it: the GIL is held; `launcher` is one, and `arguments` so many objects, then one for
/// each name in `names`.
unsafe extern "C" fn called(
    launcher: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: usize,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the contract.
    let py = unsafe { Python::assume_attached() };
    let launched = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the contract; Python keeps it until this returns.
        let launcher = unsafe { Borrowed::from_ptr(py, launcher) };
        // SAFETY: the contract.
        let this = unsafe { launcher.cast_unchecked::<PyLauncher>() }.get();
        // SAFETY: as the launcher.
        let names = unsafe { Borrowed::from_ptr_or_opt(py, names) };
        // SAFETY: the flag beside the number is taken off.
        let count = unsafe { ffi::PyVectorcall_NARGS(count) }.cast_unsigned();
        let given = |from: usize, count: usize| -> &[Bound<'_, PyAny>] {
            if count == 0 {
                // Then there need not be any memory.
                return &[];
            }
            let first = arguments.cast::<Bound<'_, PyAny>>().wrapping_add(from);
            // SAFETY: the contract; a `Bound` is a pointer and no more, and those here are never dropped.
            unsafe { slice::from_raw_parts(first, count) }
        };
        match (names, this.how) {
            (None, How::Size(size)) => {
                launch(py, &this.kernel, given(0, count), &size, None, Options::default())
            }
            (None, _) => this.launch(py, given(0, count), None),
            (Some(names), _) => {
                let names = names.cast::<PyTuple>()?;
                let keywords = PyDict::new(py);
                for (name, value) in names.as_slice().iter().zip(given(count, names.len())) {
                    keywords.set_item(name, value)?;
                }
                let launched = this.launch(py, given(0, count), Some(&keywords));
                drop_put_off();
                launched
            }
        }
    }));
    let error = match launched {
        Ok(Ok(())) => return py.None().into_ptr(),
        Ok(Err(error)) => error,
        Err(_) => PyRuntimeError::new_err("bug: a panic in a launch"),
    };
    raised(py, error)
}

impl Reused for PyLauncher {
    fn list() -> &'static FreeList {
        static LIST: FreeList = FreeList::new();
        &LIST
    }
}

#[pymethods]
impl PyLauncher {
    /// Launch the kernel.
    #[pyo3(signature = (*args, **keywords))]
    fn __call__(
        &self,
        args: &Bound<'_, PyTuple>,
        keywords: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        self.launch(args.py(), args.as_slice(), keywords)
    }

    fn __repr__(&self) -> String {
        let name = &self.kernel.signature().name;
        match self.how {
            How::Size(Size { grid, block, .. }) => {
                format!("<gpulend.Launcher {name}[{grid:?}, {block:?}]>")
            }
            How::Outsized(grid, block) | How::Configured(grid, block, _) => {
                format!("<gpulend.Launcher {name}[{grid:?}, {block:?}]>")
            }
            How::Elements([count, 1, 1]) => format!("<gpulend.Launcher {name}.forall({count})>"),
            How::Elements([x, y, z]) => {
                format!("<gpulend.Launcher {name}.forall(({z}, {y}, {x}))>")
            }
        }
    }
}

/// The keywords of a launch.
#[derive(Default)]
struct Keywords<'py> {
    stream: Option<Bound<'py, PyAny>>,
    shared: i64,
    options: Options,
    /// Arguments, by the names of their parameters.
    named: Vec<(String, Bound<'py, PyAny>)>,
}

impl<'py> Keywords<'py> {
    fn read(kernel: &Kernel, keywords: &Bound<'py, PyDict>) -> PyResult<Self> {
        let mut read = Self::default();
        for (name, value) in keywords {
            let name = name.extract::<String>()?;
            match name.as_str() {
                "stream" => read.stream = Some(value).filter(|value| !value.is_none()),
                "shared" => read.shared = number(kernel, &value, "shared")?,
                "check" => read.options.check = value.is_truthy()?,
                "strided" => read.options.strided = value.is_truthy()?,
                _ if position_of(kernel, &name).is_some() => read.named.push((name, value)),
                _ => return Err(unknown(kernel, &name)),
            }
        }
        Ok(read)
    }
}

/// Which parameter has a name.
fn position_of(kernel: &Kernel, name: &str) -> Option<usize> {
    let parameters = &kernel.signature().parameters;
    parameters.iter().position(|parameter| parameter.name.as_deref() == Some(name))
}

/// Arguments by position, then those by name, in the order of the parameters.
fn in_order<'py>(
    kernel: &Kernel,
    arguments: &[Bound<'py, PyAny>],
    named: Vec<(String, Bound<'py, PyAny>)>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let signature = kernel.signature();
    let room = signature.parameters.len().max(arguments.len());
    let mut places: Vec<_> = arguments.iter().cloned().map(Some).collect();
    places.resize(room, None);
    for (name, value) in named {
        let place = position_of(kernel, &name).and_then(|position| places.get_mut(position));
        match place {
            Some(place @ None) => *place = Some(value),
            _ => {
                let message = format!("{signature}: {name} is given by position and by name");
                return Err(PyTypeError::new_err(message));
            }
        }
    }
    let missing = |position: usize| {
        let parameter = signature.parameters.get(position);
        let name = parameter.and_then(|parameter| parameter.name.as_deref()).unwrap_or("?");
        refused(format!("{signature}: {name} is not given"), ARGUMENT_COUNT)
    };
    let given = places.into_iter().enumerate();
    given.map(|(position, place)| place.ok_or_else(|| missing(position))).collect()
}

#[cold]
fn unknown(kernel: &Kernel, name: &str) -> PyErr {
    let signature = kernel.signature();
    let known = signature.parameters.iter().any(|parameter| parameter.name.is_some());
    let others = match known {
        true => format!("the parameters of {signature}"),
        false => "no names of parameters: pass arguments by position".to_owned(),
    };
    PyTypeError::new_err(format!(
        "{name} is not a keyword of a launch; there are stream, shared, check and strided, and {others}"
    ))
}
