//! What a `gpulend.Lease` holds: how it is made, and whether it has ended.

use std::mem::{self, ManuallyDrop};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use gpulend::export::face::Shown;
use gpulend::ledger::{FixedName, Name};
use gpulend::{DeviceKind, Error, Lease, View};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::{PyTypeInfo, ffi};

use super::PyLease;
use crate::attached::Attached;
use crate::collections;
use crate::copies::{self, Manner, PyCopy};
use crate::errors::raise;
use crate::free_list::{self, FreeList, Reused};
use crate::routes::count_write;

static DLPACK: FixedName = FixedName::new("a DLPack consumer");

pub(super) enum Held {
    /// In use; with the torch tensor that it is of, if it is of one, whose writes are counted.
    Live(Lease, Option<Py<PyAny>>),
    /// Released by the user, kept until the object dies, because its address was handed out.
    Parked { lease: Lease },
    /// Over.
    Ended,
}

impl Reused for PyLease {
    fn list() -> &'static FreeList {
        static LIST: FreeList = FreeList::new();
        &LIST
    }
}

/// What Python calls for a lease that nobody refers to any more: shorter than pyo3's way to do the same.
///
/// # Safety
///
/// As Python's `tp_dealloc` has it: the GIL is held, and `object` is a lease without references.
unsafe extern "C" fn deallocate(object: *mut ffi::PyObject) {
    // SAFETY: the contract.
    let py = unsafe { Python::assume_attached() };
    // SAFETY: of a class with cycle collection; no matter whether it is tracked.
    unsafe { ffi::PyObject_GC_UnTrack(object.cast()) };
    // SAFETY: of a class with weak references.
    unsafe { ffi::PyObject_ClearWeakRefs(object) };
    // SAFETY: the memory is there until it is freed below.
    let this = unsafe { Borrowed::from_ptr(py, object) };
    // SAFETY: the contract.
    let this = unsafe { this.cast_unchecked::<PyLease>() }.get();
    // Of its fields this alone needs to be dropped.
    let held = this.replace(py, Held::Ended);
    let dropped = catch_unwind(AssertUnwindSafe(|| match held {
        // Bound, because pyo3 does not know that this thread is attached, and would put the drop off.
        Held::Live(lease, tensor) => drop((lease, tensor.map(|tensor| tensor.into_bound(py)))),
        Held::Parked { lease } => drop(lease),
        Held::Ended => {}
    }));
    if dropped.is_err() {
        PyRuntimeError::new_err("bug: a panic while a lease was dropped")
            .write_unraisable(py, None);
    }
    // SAFETY: nobody refers to the object, and nothing in it needs to be dropped.
    let class = unsafe { ffi::Py_TYPE(object) };
    // SAFETY: the same.
    unsafe { free_list::free::<PyLease>(object.cast()) };
    // SAFETY: each object holds a reference to its class.
    unsafe { ffi::Py_DECREF(class.cast()) };
}

impl PyLease {
    /// Has Python make and drop leases by the shorter ways of this file and of `free_list`.
    pub(crate) fn shorten(py: Python<'_>) {
        free_list::install::<Self>(py);
        let class = Self::type_object_raw(py);
        // SAFETY: the type is ours and alive, and nobody else has it: the GIL is held.
        unsafe { (*class).tp_dealloc = Some(deallocate) };
    }

    pub(crate) fn new(lease: Lease) -> Self {
        Self::bound_for(lease, DLPACK.get(), Shown::Usual)
    }

    /// A lease that is being handed to a consumer, under whose name it is exported.
    pub(crate) const fn bound_for(lease: Lease, receiver: Name, shown: Shown) -> Self {
        Self::holding(Held::Live(lease, None), receiver, shown)
    }

    const fn holding(held: Held, receiver: Name, shown: Shown) -> Self {
        let held = Attached::new(held);
        let exposed = AtomicBool::new(false);
        let in_order = !matches!(shown, Shown::Usual);
        Self { held, exposed, receiver, shown, in_order, kept: None }
    }

    /// A lease whose owner is one reference to `object`.
    pub(crate) fn keeping(lease: Lease, object: &Bound<'_, PyAny>) -> Self {
        // SAFETY: the object is alive, and the reference, which is the owner's, is never dropped here.
        let object = unsafe { Bound::from_owned_ptr(object.py(), object.as_ptr()) };
        Self { kept: Some(ManuallyDrop::new(object.unbind())), ..Self::new(lease) }
    }

    /// A lease of the memory of a torch tensor.
    #[inline]
    pub(crate) fn of_tensor(lease: Lease, tensor: &Bound<'_, PyAny>) -> Self {
        Self::holding(Held::Live(lease, Some(tensor.clone().unbind())), DLPACK.get(), Shown::Usual)
    }

    /// Makes the Python object.
    pub(crate) fn publish(self, py: Python<'_>) -> PyResult<Bound<'_, Self>> {
        let keeps = self.kept.is_some();
        if keeps && self.with_view(|view| view.device().kind() != DeviceKind::Cpu)? {
            collections::count(py)?;
        }
        let object = Bound::new(py, self)?;
        let pointer = object.as_ptr();
        // An object from the allocator is tracked, one from the free list is not, and must be if it
        // can be part of a cycle.
        // SAFETY: the object is new, of a type with cycle collection, and nobody else knows it yet.
        if keeps && unsafe { ffi::PyObject_GC_IsTracked(pointer) } == 0 {
            // SAFETY: as above, and not tracked.
            unsafe { ffi::PyObject_GC_Track(pointer.cast()) };
        }
        Ok(object)
    }

    /// Puts another state in the place of the one there is, which is returned.
    pub(super) fn replace(&self, py: Python<'_>, next: Held) -> Held {
        // SAFETY: a value is moved in and out, and none dropped.
        unsafe { self.held.with(py, |held| mem::replace(held, next)) }
    }

    /// The lease, if it has not ended.
    ///
    /// # Safety
    ///
    /// The caller holds the GIL, as everybody has it whom Python calls. As long as the result is used, they hold it without
    /// a break, and nothing of Python's runs: it could end the lease.
    #[inline]
    pub(crate) unsafe fn peek(&self) -> Option<&Lease> {
        // SAFETY: the contract.
        match unsafe { self.held.peek() } {
            Held::Live(lease, _) => Some(lease),
            Held::Parked { .. } | Held::Ended => None,
        }
    }

    /// The torch tensor whose memory it is.
    #[inline]
    pub(crate) fn tensor<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        // SAFETY: the GIL is held; a reference is counted, which runs nothing.
        match unsafe { self.held.peek() } {
            Held::Live(_, tensor) => tensor.as_ref().map(|tensor| tensor.bind(py).clone()),
            Held::Parked { .. } | Held::Ended => None,
        }
    }

    /// The lease, if it has not ended. A clone, which other code may run beside.
    pub(crate) fn held(&self) -> PyResult<Lease> {
        // SAFETY: methods of Python objects are called with the GIL held; a clone runs nothing.
        let lease = unsafe { self.peek() }.cloned();
        lease.ok_or_else(|| raise(Error::Released))
    }

    pub(super) fn with_view<R>(&self, read: impl FnOnce(&View) -> R) -> PyResult<R> {
        Ok(read(self.held()?.view()))
    }

    /// Notes that the bare address was handed out: `release` then keeps the memory until this object dies.
    pub(crate) fn expose(&self) {
        if !self.exposed.swap(true, Ordering::Relaxed)
            && let Ok(lease) = self.held()
        {
            lease.note_unseen_work();
        }
    }

    /// Another lease that shows itself as this one does.
    pub(super) fn like(&self, py: Python<'_>, lease: Lease) -> Self {
        let held = Held::Live(lease, self.tensor(py).map(Bound::unbind));
        // Only what is bound for a consumer is in order, and that is never asked for a part.
        Self { shown: self.shown, ..Self::holding(held, DLPACK.get(), Shown::Usual) }
    }

    /// Ends the lease, unless others hold what it handed out.
    pub(super) fn end(&self, py: Python<'_>) -> PyResult<()> {
        let (lease, tensor) = match self.replace(py, Held::Ended) {
            Held::Live(lease, tensor) => (lease, tensor),
            before => {
                self.replace(py, before);
                return Ok(());
            }
        };
        // Not in the cell: the owner may run Python code.
        let (ending, result) = if self.exposed.load(Ordering::Relaxed) {
            match lease.check_unlent() {
                Ok(()) => (Held::Parked { lease }, Ok(())),
                Err(error) => (Held::Live(lease, tensor), Err(error)),
            }
        } else {
            match lease.release() {
                Ok(()) => (Held::Ended, Ok(())),
                Err((lease, error)) => (Held::Live(lease, tensor), Err(error)),
            }
        };
        self.replace(py, ending);
        result.map_err(raise)
    }

    /// Copies elements into this memory.
    pub(super) fn write(
        &self,
        py: Python<'_>,
        source: &Lease,
        manner: Manner<'_, '_>,
    ) -> PyResult<Option<PyCopy>> {
        let copy = copies::move_elements(py, source, &self.held()?, manner)?;
        self.tensor(py).map_or(Ok(()), |tensor| count_write(&tensor))?;
        Ok(copy)
    }
}
