//! `gpulend.Launcher`: a kernel and how large its launch is. Called, it launches: the shortest way there is from Python.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{ptr, slice};

use gpulend::kernel::{Kernel, Options, Prepared, Size};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::arguments::give_all;
use crate::counts::{Counted, count};
use crate::errors::raise;
use crate::kernel::number;
use crate::{reaper, straight, stream};

/// A kernel and how large its launch is: `kernel[grid, block]`.
#[pyclass(frozen, name = "Launcher", module = "gpulend", freelist = 16)]
pub(crate) struct PyLauncher {
    /// What Python calls, with the arguments as they lie on its stack.
    call: ffi::vectorcallfunc,
    kernel: Kernel,
    how: How,
}

#[derive(Clone, Copy)]
pub(crate) enum How {
    Size(Size),
    /// What no launch can have, told when one is asked for.
    Outsized([i64; 3], [i64; 3]),
    Elements(u64),
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
#[inline]
pub(crate) fn queue(
    py: Python<'_>,
    kernel: &Kernel,
    arguments: &[Bound<'_, PyAny>],
    size: &Size,
    stream: Option<&Bound<'_, PyAny>>,
    options: Options,
) -> PyResult<()> {
    reaper::catch_up(py);
    let prepared = prepare(kernel, py)?;
    let device = kernel.module().device().index();
    let named = stream.map(|stream| stream::parse(stream, device)).transpose()?;
    let mut pending = prepared.pending(options);
    let (stream, untidy) = give_all(&mut pending, arguments, device, named, options.check)?;
    // SAFETY: (1) is the Python caller's, who wrote the kernel; (2) the caller keeps what is not leased, and where it is a
    // host's the wait below outlasts the kernel.
    let waits = unsafe { pending.queue(size, &stream) }.map_err(raise)?;
    count(Counted::LaunchGeneral);
    let counted = straight::count_writes(prepared, arguments);
    if waits {
        py.detach(|| stream.synchronize()).map_err(raise)?;
    }
    // Not sooner: it may run anybody's code.
    if untidy {
        let_go();
    }
    counted
}

/// Lets go of what was put off in a call that pyo3 does not know of; not while the interpreter ends.
#[cold]
fn let_go() {
    let _ = Python::try_attach(|_| ());
}

impl PyLauncher {
    pub(crate) fn publish<'py>(
        py: Python<'py>,
        kernel: &Kernel,
        how: How,
    ) -> PyResult<Bound<'py, Self>> {
        static QUICK: AtomicBool = AtomicBool::new(false);
        let launcher = Bound::new(py, Self { call: called, kernel: kernel.clone(), how })?;
        // The GIL is held: nobody else is at it.
        if !QUICK.swap(true, Ordering::Relaxed) {
            let place = ptr::from_ref(&launcher.get().call).addr() - launcher.as_ptr().addr();
            let class = launcher.get_type_ptr();
            // SAFETY: the type is ours and alive, and nobody else has it: the GIL is held.
            let class = unsafe { &mut *class };
            // Every object has its function at this place; `__call__` does the same for those who do not look there.
            class.tp_vectorcall_offset = place.cast_signed();
            class.tp_flags |= ffi::Py_TPFLAGS_HAVE_VECTORCALL;
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
        let told = match keywords {
            Some(keywords) => Keywords::read(kernel, keywords)?,
            None => Keywords::default(),
        };
        let size = match self.how {
            How::Size(Size { grid, block, .. }) => {
                size_of(kernel, grid.map(i64::from), block.map(i64::from), told.shared)?
            }
            How::Outsized(grid, block) => size_of(kernel, grid, block, told.shared)?,
            How::Elements(count) => {
                prepare(kernel, py)?;
                let shared = size_of(kernel, [1; 3], [1; 3], told.shared)?.shared;
                let size = kernel.size_for(count.max(1), shared).map_err(raise)?;
                if count == 0 {
                    return Ok(());
                }
                size
            }
        };
        queue(py, kernel, arguments, &size, told.stream.as_ref(), told.options)
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
                let (kernel, objects) = (&this.kernel, given(0, count));
                reaper::catch_up(py);
                if let Some(prepared) = kernel.prepared()
                    && straight::launch(py, prepared, objects, &size)?
                {
                    return Ok(());
                }
                queue(py, kernel, objects, &size, None, Options::default())
            }
            (None, _) => this.launch(py, given(0, count), None),
            (Some(names), _) => {
                let names = names.cast::<PyTuple>()?;
                let keywords = PyDict::new(py);
                for (name, value) in names.as_slice().iter().zip(given(count, names.len())) {
                    keywords.set_item(name, value)?;
                }
                let launched = this.launch(py, given(0, count), Some(&keywords));
                let_go();
                launched
            }
        }
    }));
    let error = match launched {
        Ok(Ok(())) => return py.None().into_ptr(),
        Ok(Err(error)) => error,
        Err(_) => PyRuntimeError::new_err("bug: a panic in a launch"),
    };
    let_go();
    error.restore(py);
    ptr::null_mut()
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
            How::Outsized(grid, block) => format!("<gpulend.Launcher {name}[{grid:?}, {block:?}]>"),
            How::Elements(count) => format!("<gpulend.Launcher {name}.forall({count})>"),
        }
    }
}

/// The keywords of a launch.
#[derive(Default)]
struct Keywords<'py> {
    stream: Option<Bound<'py, PyAny>>,
    shared: i64,
    options: Options,
}

impl<'py> Keywords<'py> {
    fn read(kernel: &Kernel, keywords: &Bound<'py, PyDict>) -> PyResult<Self> {
        let mut told = Self::default();
        for (name, value) in keywords {
            let name = name.extract::<String>()?;
            match name.as_str() {
                "stream" => told.stream = Some(value).filter(|value| !value.is_none()),
                "shared" => told.shared = number(kernel, &value, "shared")?,
                "check" => told.options.check = value.is_truthy()?,
                "strided" => told.options.strided = value.is_truthy()?,
                _ => {
                    let message = format!(
                        "{name} is not a keyword of a launch; there are stream, shared, check and strided"
                    );
                    return Err(PyTypeError::new_err(message));
                }
            }
        }
        Ok(told)
    }
}
