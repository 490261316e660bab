//! Functions that Python calls past pyo3: what is called with each array must not pay for the checks that suit all functions.
//!
//! pyo3 makes every function, with its signature and its help. [`shorten`] puts a function of ours in the place where Python looks
//! for the code: it serves the calls that people make, and leaves the others to pyo3's.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::{ptr, slice};

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyTuple};

/// What Python calls: with the arguments as they lie on its stack, those with names last.
pub(crate) type Function = ffi::PyCFunctionFastWithKeywords;

/// One function: its parameters, and pyo3's code for it.
pub(crate) struct Quick<const N: usize> {
    parameters: [&'static str; N],
    /// How many of them may come without a name.
    positional: usize,
    names: PyOnceLock<[Py<PyString>; N]>,
    long: OnceLock<Function>,
}

/// The arguments of a call, by parameter.
pub(crate) type Given<'a, 'py, const N: usize> = [Option<&'a Bound<'py, PyAny>>; N];

impl<const N: usize> Quick<N> {
    pub(crate) const fn new(parameters: [&'static str; N], positional: usize) -> Self {
        Self { parameters, positional, names: PyOnceLock::new(), long: OnceLock::new() }
    }

    /// Has Python call `quick` for the module's function of a name.
    pub(crate) fn shorten(
        &'static self,
        module: &Bound<'_, PyModule>,
        name: &str,
        quick: Function,
    ) -> PyResult<()> {
        let py = module.py();
        let function = module.getattr(name)?;
        let made: *mut ffi::PyCFunctionObject = function.as_ptr().cast();
        // SAFETY: pyo3 makes functions of this kind, and it is alive.
        let made = unsafe { &*made };
        // SAFETY: a function keeps its definition.
        let definition = unsafe { &*made.m_ml };
        let (of, inside) = (made.m_self, made.m_module);
        let (flags, long) = (definition.ml_flags, definition.ml_meth);
        if flags != ffi::METH_FASTCALL | ffi::METH_KEYWORDS {
            return Ok(());
        }
        // SAFETY: the flags say that it is one.
        let _ = self.long.set(unsafe { long.PyCFunctionFastWithKeywords });
        self.names
            .get_or_init(py, || self.parameters.map(|name| PyString::intern(py, name).unbind()));
        // Python reads it as long as there is a function made of it.
        let shorter = Box::leak(Box::new(ffi::PyMethodDef {
            ml_name: definition.ml_name,
            ml_meth: ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: quick },
            ml_flags: flags,
            ml_doc: definition.ml_doc,
        }));
        // SAFETY: the definition stays, and the others are those of the function before.
        let shorter = unsafe { ffi::PyCFunction_NewEx(shorter, of, inside) };
        // SAFETY: a new reference, or null with an exception set.
        let shorter = unsafe { Bound::from_owned_ptr_or_err(py, shorter) }?;
        module.setattr(function.getattr("__name__")?.cast_into::<PyString>()?, shorter)
    }

    /// The arguments by parameter, if there are not too many and each name is one of ours.
    ///
    /// # Safety
    ///
    /// As Python's vectorcall protocol has it: `arguments` are `count` objects, then one for each of `names`, which live for `'a`.
    #[inline(always)]
    pub(crate) unsafe fn given<'a, 'py>(
        &self,
        py: Python<'py>,
        arguments: *const *mut ffi::PyObject,
        count: ffi::Py_ssize_t,
        names: *mut ffi::PyObject,
    ) -> Option<Given<'a, 'py, N>> {
        let mut given = [None; N];
        let count = count.cast_unsigned();
        if count > self.positional {
            return None;
        }
        // SAFETY: the contract: a tuple, or null.
        let names = unsafe { Borrowed::from_ptr_or_opt(py, names) };
        // SAFETY: the contract.
        let names = names.as_ref().map(|names| unsafe { names.cast_unchecked::<PyTuple>() });
        let total = count + names.map_or(0, |names| names.len());
        if total == 0 {
            // Then there need not be any memory.
            return None;
        }
        let first = arguments.cast::<Bound<'py, PyAny>>();
        // SAFETY: the contract; a `Bound` is a pointer and no more, and those here are never dropped.
        let arguments = unsafe { slice::from_raw_parts(first, total) };
        let (positional, named) = arguments.split_at_checked(count)?;
        for (parameter, argument) in given.iter_mut().zip(positional) {
            *parameter = Some(argument);
        }
        let Some(names) = names else { return Some(given) };
        let known = self.names.get(py)?;
        for (name, argument) in names.as_slice().iter().zip(named) {
            // Names in a program are interned; pyo3 takes the others.
            let place = known.iter().position(|known| known.is(name))?;
            let parameter = given.get_mut(place).filter(|parameter| parameter.is_none())?;
            *parameter = Some(argument);
        }
        Some(given)
    }

    /// Calls pyo3's code.
    ///
    /// # Safety
    ///
    /// As [`Quick::given`], and the GIL is held.
    #[cold]
    pub(crate) unsafe fn call_long(
        &self,
        module: *mut ffi::PyObject,
        arguments: *const *mut ffi::PyObject,
        count: ffi::Py_ssize_t,
        names: *mut ffi::PyObject,
    ) -> *mut ffi::PyObject {
        // SAFETY: the contract; nobody comes here before it is set.
        self.long
            .get()
            .map_or(ptr::null_mut(), |long| unsafe { long(module, arguments, count, names) })
    }
}

/// An argument of which None says as much as leaving it out.
#[inline(always)]
pub(crate) fn optional<'a, 'py>(
    given: Option<&'a Bound<'py, PyAny>>,
) -> Option<&'a Bound<'py, PyAny>> {
    given.filter(|given| !given.is_none())
}

/// Has Python call the function that lies in each object of a class, past `__call__`, which does the same for those who do not
/// look there.
///
/// # Safety
///
/// The class is ours, and every object of it has such a function at the place of this one in this object.
pub(crate) unsafe fn call_directly(object: &Bound<'_, PyAny>, function: &ffi::vectorcallfunc) {
    let place = ptr::from_ref(function).addr() - object.as_ptr().addr();
    // SAFETY: the type is ours and alive, and nobody else has it: the GIL is held.
    let class = unsafe { &mut *object.get_type_ptr() };
    class.tp_vectorcall_offset = place.cast_signed();
    class.tp_flags |= ffi::Py_TPFLAGS_HAVE_VECTORCALL;
}

/// Gives Python what a call returned or raised.
#[inline(always)]
pub(crate) fn returned<'py, T>(
    py: Python<'py>,
    call: impl FnOnce() -> PyResult<Bound<'py, T>>,
) -> *mut ffi::PyObject {
    let error = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(object)) => return object.into_ptr(),
        Ok(Err(error)) => error,
        Err(_) => PyRuntimeError::new_err("bug: a panic"),
    };
    raised(py, error)
}

/// Raises an error in Python.
#[cold]
pub(crate) fn raised(py: Python<'_>, error: PyErr) -> *mut ffi::PyObject {
    drop_put_off();
    error.restore(py);
    ptr::null_mut()
}

/// Drops references that pyo3 put off in a call that it does not know of; not while the interpreter ends.
#[cold]
pub(crate) fn drop_put_off() {
    let _ = Python::try_attach(|_| ());
}
