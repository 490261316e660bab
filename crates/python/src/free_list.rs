//! Free lists: the memory of dead Python objects serves the next ones, for classes whose objects come and go with each call.
//!
//! pyo3 has such lists too (`freelist = N`), behind a lock that costs as much as the rest of an object. Here the GIL is the lock.

use std::ptr;

use pyo3::prelude::*;
use pyo3::{PyTypeInfo, ffi};

use crate::attached::Attached;

/// How many objects a list keeps.
const MOST: usize = 64;

/// A final class whose objects' memory is used again.
pub(crate) trait Reused: PyTypeInfo + 'static {
    /// The list of the class.
    fn list() -> &'static FreeList;
}

/// The memory of dead objects of one class.
pub(crate) struct FreeList(Attached<Objects>);

struct Objects {
    count: usize,
    places: [*mut ffi::PyObject; MOST],
}

// SAFETY: the memory belongs to the list alone, and any thread may use it.
unsafe impl Send for Objects {}

impl FreeList {
    pub(crate) const fn new() -> Self {
        Self(Attached::new(Objects { count: 0, places: [ptr::null_mut(); MOST] }))
    }

    fn take(&self, py: Python<'_>) -> Option<*mut ffi::PyObject> {
        let take = |objects: &mut Objects| {
            objects.count = objects.count.checked_sub(1)?;
            objects.places.get(objects.count).copied()
        };
        // SAFETY: nothing of Python's runs.
        unsafe { self.0.with(py, take) }
    }

    /// Whether there was room for it.
    fn put(&self, py: Python<'_>, object: *mut ffi::PyObject) -> bool {
        let put = |objects: &mut Objects| {
            let place = objects.places.get_mut(objects.count);
            place.map(|place| *place = object).map(|()| objects.count += 1).is_some()
        };
        // SAFETY: nothing of Python's runs.
        unsafe { self.0.with(py, put) }
    }
}

/// Has Python allocate and free objects of a class by its list.
pub(crate) fn install<T: Reused>(py: Python<'_>) {
    let class = T::type_object_raw(py);
    // SAFETY: the type is ours and alive, and nobody else has it: the GIL is held.
    let class = unsafe { &mut *class };
    class.tp_alloc = Some(allocate::<T>);
    class.tp_free = Some(free::<T>);
}

/// What Python calls for the memory of a new object. From the list it comes untracked by the cycle collector.
///
/// # Safety
///
/// The GIL is held, and `class` is that of `T`: it is final.
unsafe extern "C" fn allocate<T: Reused>(
    class: *mut ffi::PyTypeObject,
    items: ffi::Py_ssize_t,
) -> *mut ffi::PyObject {
    // SAFETY: the contract.
    let py = unsafe { Python::assume_attached() };
    match T::list().take(py) {
        // SAFETY: it was the memory of such an object, and is nobody's now.
        Some(object) => unsafe { ffi::PyObject_Init(object, class) },
        // SAFETY: the contract.
        None => unsafe { ffi::PyType_GenericAlloc(class, items) },
    }
}

/// What Python calls for the memory of a dead object.
///
/// # Safety
///
/// The GIL is held, and `memory` is that of an object of `T` that [`allocate`] returned.
pub(crate) unsafe extern "C" fn free<T: Reused>(memory: *mut std::ffi::c_void) {
    // SAFETY: the contract.
    let py = unsafe { Python::assume_attached() };
    let object: *mut ffi::PyObject = memory.cast();
    if T::list().put(py, object) {
        return;
    }
    // SAFETY: the object still says what its class is.
    let class = unsafe { ffi::Py_TYPE(object) };
    // SAFETY: a class outlives its objects.
    if unsafe { ffi::PyType_IS_GC(class) } != 0 {
        // SAFETY: it came from `PyType_GenericAlloc`, for a class with cycle collection.
        unsafe { ffi::PyObject_GC_Del(memory) }
    } else {
        // SAFETY: the same, for one without.
        unsafe { ffi::PyObject_Free(memory) }
    }
}
