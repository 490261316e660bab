//! The straight way of a launch from Python: leases, plain tensors of torch's and numbers, looked at where they lie.
//! Nothing of Python's runs on it and no reference is counted: what is anything else goes the long way.

use gpulend::kernel::{Prepared, Queued, Size, Straight};
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt};
use pyo3::{PyTypeInfo, ffi};

use crate::arguments::{lease_in_place, small_integer};
use crate::counts::{Counted, count};
use crate::errors::raise;
use crate::lease::PyLease;
use crate::protocols::known_torch_stream;
use crate::routes::{Route, count_write, last_producer};
use crate::torch::{On, Read, Use};

/// Launches, if all arguments go the straight way, and tells whether they did.
#[inline(always)]
pub(crate) fn launch(
    py: Python<'_>,
    prepared: Prepared<'_>,
    objects: &[Bound<'_, PyAny>],
    size: &Size,
) -> PyResult<bool> {
    let lease = PyLease::type_object_raw(py);
    let (integer, float) = (PyInt::type_object_raw(py), PyFloat::type_object_raw(py));
    let mut straight = prepared.straight();
    let mut on_torchs = false;
    for object in objects {
        let class = object.get_type_ptr();
        let taken = if class == lease {
            // SAFETY: (1) that is its class; (2) the GIL is held until the launch is queued, and nothing of Python's runs;
            // the caller of the launch keeps the object.
            unsafe { lease_in_place(object) }.is_some_and(|lease| straight.lease(lease))
        } else if class == integer {
            small_integer(object).is_some_and(|value| straight.integer(value))
        } else if class == float {
            // SAFETY: the object is alive, and a float.
            straight.float(unsafe { ffi::PyFloat_AS_DOUBLE(object.as_ptr()) })
        } else {
            tensor(&mut straight, object, &mut on_torchs)
        };
        if !taken {
            return Ok(false);
        }
    }
    // SAFETY: (1) what the kernel does is its writer's, who is the Python caller; tensors are torch's, which frees them in the
    // order of the launch's stream; (2) seen above; (3) this call is one thread's, and nothing of Python's runs in it.
    let queued = unsafe { straight.queue(size) }.map_err(raise)?;
    if matches!(queued, Queued::No) {
        return Ok(false);
    }
    count(Counted::LaunchFast);
    let counted = count_writes(prepared, objects);
    if let Queued::Shared(stream) = queued {
        py.detach(|| stream.synchronize()).map_err(raise)?;
    }
    counted.map(|()| true)
}

/// Has autograd know which tensors a launch may write. Most often nothing of Python's runs for it.
#[inline(always)]
pub(crate) fn count_writes(prepared: Prepared<'_>, objects: &[Bound<'_, PyAny>]) -> PyResult<()> {
    prepared.written().iter().try_for_each(|position| count_write(&objects[*position]))
}

/// Adds a tensor of a GPU, if torch works on the launch's stream, which is asked once.
#[inline(never)]
fn tensor(straight: &mut Straight<'_>, object: &Bound<'_, PyAny>, on_torchs: &mut bool) -> bool {
    let Some(producer) = last_producer(object.get_type_ptr()) else { return false };
    let Route::Torch(torch) = producer.route else { return false };
    // SAFETY: (1) the route is that of its exact type; (2) only its numbers are kept, and asking for a stream changes no tensor.
    let (view, tracked) = match unsafe { torch.read(object, On::Gpu, true) } {
        Read::Plain(view) => (view, false),
        Read::Tracked(view) => (view, true),
        Read::Elsewhere | Read::Refused | Read::Unknown => return false,
    };
    count(Counted::TorchNative);
    if !*on_torchs {
        let home = known_torch_stream(torch.stream, straight.device());
        *on_torchs = home.is_some_and(|home| straight.on(home));
    }
    let Some(writes) = straight.array(&view).filter(|_| *on_torchs) else { return false };
    !tracked || !writes || Use::Written.takes_tracked(object.py())
}
