//! The fast path of a launch from Python: leases, plain arrays of torch's and CuPy's and numbers, looked at where they lie.
//! Nothing of Python's runs on it and no reference is counted: `arguments.rs` takes what is anything else.

use std::ptr;

use gpulend::Lease;
use gpulend::kernel::Prepared;
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt};
use pyo3::{PyTypeInfo, ffi};

use crate::arguments::Filling;
use crate::counts::{Counted, count};
use crate::cupy;
use crate::lease::PyLease;
use crate::protocols::known_torch_stream;
use crate::routes::{Route, count_write, last_producer};
use crate::torch::{On, Read, Torch, Use};

impl Filling<'_, '_, '_> {
    /// Gives an object to the plan if it fits as it stands, and returns whether it did.
    #[inline(always)]
    pub(crate) fn fit(&mut self, position: usize) -> bool {
        let object = &self.objects[position];
        let (py, class) = (object.py(), object.get_type_ptr());
        if class == PyLease::type_object_raw(py) {
            // SAFETY: (1) that is its class; (2) the GIL is held until the launch is queued, and `keep` or `before_others` is
            // called before arbitrary code runs; the caller of the launch keeps the object.
            unsafe { lease_in_place(object) }.is_some_and(|lease| self.plan.fit_lease(lease))
        } else if class == PyInt::type_object_raw(py) {
            small_integer(object).is_some_and(|value| self.plan.fit_integer(value))
        } else if class == PyFloat::type_object_raw(py) {
            // SAFETY: the object is alive, and a float.
            self.plan.fit_float(unsafe { ffi::PyFloat_AS_DOUBLE(object.as_ptr()) })
        } else {
            self.fit_foreign(position)
        }
    }

    /// Gives an array of a framework that is read where it lies.
    #[inline(never)]
    fn fit_foreign(&mut self, position: usize) -> bool {
        match last_producer(self.objects[position].get_type_ptr()).map(|producer| producer.route) {
            Some(Route::Torch(torch)) => self.fit_tensor(position, torch),
            Some(Route::Cupy(Some(reader))) => self.fit_cupy(position, reader),
            _ => false,
        }
    }

    /// Gives an array of CuPy's, if CuPy works on the launch's stream, which is asked once.
    #[inline(always)]
    fn fit_cupy(&mut self, position: usize, reader: &cupy::Reader) -> bool {
        let object = &self.objects[position];
        // SAFETY: the route is that of its exact type.
        let Some(described) = (unsafe { reader.read(object) }) else { return false };
        if self.on_cupys.is_none() {
            // If CuPy raises, that may run arbitrary code. Then the general path asks once more, and looks at all again.
            self.plan.keep();
            let home = cupy::known(object.py(), self.plan.device());
            self.on_cupys = home.map(|home| self.plan.prefer(&home));
        }
        let fits = self.on_cupys == Some(true) && self.plan.fit_array(&described.view()).is_some();
        if fits {
            count(Counted::CupyNative);
        }
        fits
    }

    /// Gives a tensor of a GPU, if torch works on the launch's stream, which is asked once.
    #[inline(always)]
    fn fit_tensor(&mut self, position: usize, torch: &Torch) -> bool {
        let object = &self.objects[position];
        // SAFETY: (1) the route is that of its exact type; (2) only its numbers are kept, and asking for a stream changes no tensor.
        let (view, tracked) = match unsafe { torch.read(object, On::Gpu, true) } {
            Read::Plain(view) => (view, false),
            Read::Tracked(view) => (view, true),
            Read::Elsewhere | Read::Refused | Read::Unknown => return false,
        };
        let lost = tracked && !self.plan.only_reads() && !torch.takes_tracked(Use::Written);
        if lost || view.place.0.index() != self.plan.device() {
            return false;
        }
        if self.on_torchs.is_none() {
            // If torch raises, that may run arbitrary code. Then the general path asks once more, and looks at all again.
            self.plan.keep();
            let home = known_torch_stream(torch.stream, self.plan.device());
            self.on_torchs = home.map(|home| self.plan.prefer(&home));
        }
        let fits = self.on_torchs == Some(true) && self.plan.fit_array(&view).is_some();
        if fits {
            count(Counted::TorchNative);
            self.shown.push((position, view.address));
        }
        fits
    }
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

/// Has autograd know which tensors a launch may write. Most often nothing of Python's runs for it.
#[inline(always)]
pub(crate) fn count_writes(prepared: Prepared<'_>, objects: &[Bound<'_, PyAny>]) -> PyResult<()> {
    prepared.written().iter().try_for_each(|position| count_write(&objects[*position]))
}
