//! `borrow`: an object's memory comes in by the way of its type, in order.

use std::ptr;

use gpulend::abi::dlpack::{CurrentWorkStream, FromPyObject};
use gpulend::import::array_interface::Interface;
use gpulend::ledger::Name;
use gpulend::stream::{Ready, Stream, current};
use gpulend::{DeviceKind, Lease, import};
use pyo3::exceptions::PyBufferError;
use pyo3::intern;
use pyo3::prelude::*;

use crate::counts::{Counted, count};
use crate::errors::{self, NO_PROTOCOL, raise, refused};
use crate::lease::PyLease;
use crate::protocols::{self, producer_raised, table_stream, torch_stream};
use crate::routes::{Adapted, Producer, Route, producer_of};
use crate::torch::{self, Use};
use crate::untrusted::{Nested, confirmed, mapped};
use crate::{buffer, capsule, interface, owners, reaper, stream, wrap};

/// Borrow an array of any framework as a lease, without a copy.
///
/// `stream` is the one that you, the consumer, will use: it waits for the array's producer, and the memory is not
/// released before it is done. If none is named, the current stream of this thread waits. `ready_on` (a stream, an
/// event, or "now") says after what the bytes are valid, for producers that do not know: cuda.core has no current stream,
/// and is taken to work on the legacy default one. Host memory is always ready, whatever they are.
/// `check=False` leaves out the questions about what a plain array would lose.
///
/// The lease of a torch tensor keeps the storage that the tensor has now, whatever the tensor is given later.
///
/// >>> import gpulend, array
/// >>> lease = gpulend.borrow(array.array("d", [1, 2, 3]))
/// >>> lease.shape, lease.dtype.name, lease.readonly
/// ((3,), 'float64', False)
#[pyfunction]
#[pyo3(signature = (array, stream = None, *, ready_on = None, check = true))]
pub(crate) fn borrow<'py>(
    array: &Bound<'py, PyAny>,
    stream: Option<&Bound<'py, PyAny>>,
    ready_on: Option<&Bound<'py, PyAny>>,
    check: bool,
) -> PyResult<Bound<'py, PyLease>> {
    let py = array.py();
    reaper::catch_up(py);
    let producer = producer_of(array)?;
    let used = if check { Use::Kept } else { Use::Unchecked };
    if let Route::Lease = producer.route {
        count(Counted::Lease);
        let lease = array.cast::<PyLease>()?;
        let held = lease.get().held()?;
        if let Some(ready_on) = ready_on {
            order_after(&held, ready_on)?;
        }
        settle(&held, stream)?;
        return Ok(lease.clone());
    }
    let want = |index: u8| match stream {
        Some(stream) => stream::parse(stream, index),
        None => Ok(current(index)),
    };
    let entry = Entry { want: &want, ready_on };
    // Before all else, because most arrays are torch's.
    if let Route::Torch(torch) = producer.route {
        let lease = torch::borrow(array, torch, used, &entry, producer.who)?;
        settle(&lease, stream)?;
        return PyLease::of_tensor(lease, array).publish(py);
    }
    let lease = follow(array, &producer, used, &entry)?;
    settle(&lease, stream)?;
    let lease = match producer.route {
        route if route.keeps_object() => PyLease::keeping(lease, array),
        route if route.is_torch() => PyLease::of_tensor(lease, array),
        _ => PyLease::new(lease),
    };
    lease.publish(py)
}

/// Borrows for a call that sees to the order itself: nothing waits yet.
pub(crate) fn borrow_unordered(array: &Bound<'_, PyAny>, used: Use) -> PyResult<Lease> {
    borrow_for(array, used, &|index| Ok(current(index)))
}

/// Borrows for a consumer whose stream on a device `want` tells; it does not wait yet, unless the
/// producer sees to that itself.
pub(crate) fn borrow_for(
    array: &Bound<'_, PyAny>,
    used: Use,
    want: &dyn Fn(u8) -> PyResult<Stream>,
) -> PyResult<Lease> {
    reaper::catch_up(array.py());
    let producer = producer_of(array)?;
    match producer.route {
        Route::Lease => array.cast::<PyLease>()?.get().held(),
        _ => follow(array, &producer, used, &Entry { want, ready_on: None }),
    }
}

/// As [`borrow_for`] for an array whose way is known.
pub(crate) fn borrow_along(
    array: &Bound<'_, PyAny>,
    producer: &Producer,
    used: Use,
    want: &dyn Fn(u8) -> PyResult<Stream>,
) -> PyResult<Lease> {
    follow(array, producer, used, &Entry { want, ready_on: None })
}

/// Has the consumer's stream wait: the one named, or the current one as far as captures allow.
#[inline]
fn settle(lease: &Lease, stream: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    let device = lease.view().device();
    if device.kind() == DeviceKind::Cpu {
        return Ok(());
    }
    match stream {
        Some(stream) => lease.hand_over(&stream::parse(stream, device.index())?),
        None => lease.enter(&current(device.index())),
    }
    .map_err(raise)
}

/// Has whoever uses a lease from now on wait for what `ready_on` says.
fn order_after(lease: &Lease, ready_on: &Bound<'_, PyAny>) -> PyResult<()> {
    let index = lease.view().device().index();
    match stream::ready(ready_on, index)? {
        Ready::Now => Ok(()),
        Ready::On(stream) | Ready::Home(stream) => lease.used_on(&stream).map_err(raise),
        Ready::After(event) => {
            let stream = current(index);
            stream.wait(&event).map_err(raise)?;
            lease.used_on(&stream).map_err(raise)
        }
    }
}

/// What the consumer brings to a borrowing.
pub(crate) struct Entry<'a, 'py> {
    /// Its stream on a device, for producers that see to the order themselves.
    want: &'a dyn Fn(u8) -> PyResult<Stream>,
    /// What it knows better than the producer.
    ready_on: Option<&'a Bound<'py, PyAny>>,
}

impl Entry<'_, '_> {
    /// When the bytes are valid: what the consumer said, or else what `producer` tells.
    ///
    /// The core asks through a function that cannot fail: what failed is left in `problem`.
    pub(crate) fn ready(
        &self,
        problem: &mut Option<PyErr>,
        producer: impl FnOnce(u8) -> PyResult<Ready>,
    ) -> impl FnOnce(u8) -> Ready {
        move |index| {
            let ready = match self.ready_on {
                Some(ready_on) => stream::ready(ready_on, index),
                None => producer(index),
            };
            ready.unwrap_or_else(|error| {
                *problem = Some(error);
                Ready::Now
            })
        }
    }
}

fn follow(
    array: &Bound<'_, PyAny>,
    producer: &Producer,
    used: Use,
    entry: &Entry<'_, '_>,
) -> PyResult<Lease> {
    let who = producer.who;
    if let Some(route) = producer.route.counted() {
        count(route);
    }
    let _nested = match producer.route {
        Route::Torch(_) | Route::NumPy { own: true } => None,
        // These can run Python code of the producer's, which can call us again.
        _ => Some(Nested::enter()?),
    };
    match producer.route {
        Route::Torch(torch) => torch::borrow(array, torch, used, entry, who),
        Route::Exchange(take, stream) => take_exchange(array, take, stream, entry, who),
        Route::NumPy { own } => {
            let lease = numpy(array, who)?;
            if own { Ok(lease) } else { confirmed(lease, used.is_checked()) }
        }
        Route::Dlpack => confirmed(by_dlpack(array, &Order::Asked, entry, who)?, used.is_checked()),
        Route::Adapted(adapted) => by_adapter(array, adapted, used, entry, who),
        Route::Cupy => by_dlpack(array, &Order::Cupy, entry, who),
        Route::CudaCore => by_dlpack(array, &Order::Legacy, entry, who),
        Route::TorchOther(stream) => {
            // Without a check too: DLPack shows a tensor whose storage has become too short.
            torch::explain(array, used)?;
            let order = stream.map_or(Order::Asked, |table| Order::Table(Some(table)));
            confirmed(by_dlpack(&torch::alias(array)?, &order, entry, who)?, used.is_checked())
        }
        Route::Capsule => {
            let mut problem = None;
            let ready = entry.ready(&mut problem, |index| Ok(Ready::On(current(index))));
            let lease = capsule::take(array, ready, who);
            confirmed(problem.map_or(lease, Err)?, used.is_checked())
        }
        Route::Cuda => described(array, Interface::Cuda, entry, used, who),
        Route::Array => described(array, Interface::Array, entry, used, who),
        Route::Buffer => buffer::take(array, who),
        Route::Ctypes => mapped(buffer::take(array, who)?),
        Route::Pointer => {
            let pointers = array.py().import(intern!(array.py(), "gpulend._pointers"))?;
            mapped(buffer::take(&pointers.call_method1("contents", (array,))?, who)?)
        }
        Route::Lease => Err(refused("a lease needs no borrowing".to_owned(), NO_PROTOCOL)),
    }
}

/// How the memory of a producer of `__dlpack__` comes in order, if it is a GPU's.
pub(crate) enum Order {
    /// The producer has the stream that it is told wait.
    Asked,
    /// The producer does nothing, and we wait for the stream that this tells.
    Table(Option<CurrentWorkStream>),
    /// The same, and CuPy tells it in Python.
    Cupy,
    /// The producer does nothing and tells nothing: the legacy default stream is waited for.
    Legacy,
}

pub(crate) fn by_dlpack(
    array: &Bound<'_, PyAny>,
    order: &Order,
    entry: &Entry<'_, '_>,
    who: Name,
) -> PyResult<Lease> {
    let mut problem = None;
    // CuPy's arrays are always a GPU's; asking for the device costs as much as the rest.
    let index = match order {
        Order::Cupy => Some(0),
        _ => protocols::cuda_device(array)?,
    };
    let Some(index) = index else {
        let capsule = protocols::call(array, None)?;
        return capsule::take(&capsule, |_| Ready::Now, who);
    };
    let asked = match order {
        Order::Asked => Some((entry.want)(index)?),
        _ => None,
    };
    let number = asked.as_ref().map_or(-1, |stream| {
        // A handle is an address of the process, so below 2**63.
        i64::try_from(stream.handle().0).unwrap_or(-1)
    });
    let capsule = protocols::call(array, Some(number))?;
    let ready = entry.ready(&mut problem, |index| match (order, asked) {
        (_, Some(stream)) => Ok(Ready::On(stream)),
        (Order::Cupy, _) => protocols::cupy_stream(array.py(), index).map(Ready::Home),
        (Order::Legacy, _) => Ok(Ready::On(Stream::legacy(index))),
        (Order::Table(table), _) => torch_stream(array.py(), *table, index).map(Ready::Home),
        (Order::Asked, None) => Ok(Ready::Now),
    });
    let lease = capsule::take(&capsule, ready, who);
    problem.map_or(lease, Err)
}

/// The adapter knows what of its framework's cannot be lent, and the way to what can.
fn by_adapter(
    array: &Bound<'_, PyAny>,
    adapted: &'static Adapted,
    used: Use,
    entry: &Entry<'_, '_>,
    who: Name,
) -> PyResult<Lease> {
    let py = array.py();
    let [place, stand_in] = adapted.functions.get_or_try_init(py, || {
        let adapter = py.import(format!("gpulend.adapters.{}", adapted.name))?;
        let [place, stand_in] = ["place", "stand_in"].map(|name| adapter.getattr(name));
        Ok::<_, PyErr>([place?.unbind(), stand_in?.unbind()])
    })?;
    let index: Option<u8> = place.bind(py).call1((array,))?.extract()?;
    let stream = index.map(entry.want).transpose()?;
    // What such a framework does to order its work on a GPU is no part of a capture, and would end it.
    if let Some(stream) = &stream {
        gpulend::stream::refuse_capture(
            stream,
            "a hand-over from a framework that hides its streams",
        )
        .map_err(raise)?;
    }
    let number = stream.as_ref().map(|stream| stream.handle().0);
    let instead = stand_in.bind(py).call1((array, number, entry.ready_on));
    let instead = instead.map_err(|cause| match errors::is_ours(py, &cause) {
        true => cause,
        false => producer_raised(array, adapted.call, cause),
    })?;
    // On the host the adapter has waited already, for what may be no stream of CUDA's.
    let ready_on = entry.ready_on.filter(|_| index.is_some());
    let entry = Entry { want: entry.want, ready_on };
    let mut producer = producer_of(&instead)?;
    let lease = if let Route::Capsule = producer.route {
        let mut problem = None;
        let ready = entry.ready(&mut problem, |_| Ok(stream.map_or(Ready::Now, Ready::On)));
        let lease = capsule::take(&instead, ready, who);
        problem.map_or(lease, Err)
    } else {
        producer.who = who;
        follow(&instead, &producer, used, &entry)
    }?;
    Ok(if adapted.immutable { lease.immutable() } else { lease })
}

fn take_exchange(
    array: &Bound<'_, PyAny>,
    take: FromPyObject,
    stream: Option<CurrentWorkStream>,
    entry: &Entry<'_, '_>,
    who: Name,
) -> PyResult<Lease> {
    let mut tensor = ptr::null_mut();
    // SAFETY: the table is that of this type.
    if unsafe { take(array.as_ptr().cast(), &raw mut tensor) } != 0 {
        let error = PyErr::fetch(array.py());
        return Err(producer_raised(array, "__dlpack_c_exchange_api__", error));
    }
    let mut problem = None;
    let ready = entry.ready(&mut problem, |index| Ok(Ready::On(table_stream(stream, index))));
    let release = owners::release_versioned_tensor;
    // SAFETY: the table's contract is that of `take_versioned`; the tensor is ours.
    let lease = unsafe { import::dlpack::take_versioned_by(tensor, release, ready, who) };
    problem.map_or(lease.map_err(raise), Err)
}

fn numpy(array: &Bound<'_, PyAny>, who: Name) -> PyResult<Lease> {
    match protocols::call_versioned(array, None) {
        Ok(capsule) => capsule::take(&capsule, |_| Ready::Now, who),
        // What DLPack cannot say (ml_dtypes, read-only before NumPy 2.1), the adapter can.
        Err(error) => {
            let py = array.py();
            if !error.is_instance_of::<PyBufferError>(py)
                && !error.is_instance_of::<pyo3::exceptions::PyTypeError>(py)
            {
                return Err(producer_raised(array, "__dlpack__", error));
            }
            let adapter = py.import(intern!(py, "gpulend.adapters.numpy"))?;
            let described = adapter.call_method1(intern!(py, "describe"), (array,))?;
            let view = wrap::described(&described)?;
            // SAFETY: (1) and (2) the array keeps its memory and said whether it is read-only;
            // (3) is the Python caller's, as for any two views of one array.
            Ok(unsafe { import::raw::wrap(view, owners::keep(array), who) })
        }
    }
}

fn described(
    array: &Bound<'_, PyAny>,
    interface: Interface,
    entry: &Entry<'_, '_>,
    used: Use,
    who: Name,
) -> PyResult<Lease> {
    let dict = array
        .getattr(interface.name())
        .map_err(|cause| producer_raised(array, interface.name(), cause))?;
    let description = interface::describe(&dict, interface)?;
    // Host addresses that anybody may have made up are always asked for.
    let checked =
        description.verify(used.is_checked() || interface == Interface::Array).map_err(raise)?;
    let index = checked.ordinal();
    let ready = match entry.ready_on {
        Some(ready_on) => stream::ready(ready_on, index)?,
        // SAFETY: the protocol says that the stream is the producer's, who is kept.
        None => unsafe { description.ready(index, is_forgetful(array)) },
    };
    let owner = owners::keep(array);
    // Pinned memory is waited for here, and what is waited for may need Python.
    let py = array.py();
    // SAFETY: the protocol says that the object that showed the dict keeps the memory.
    py.detach(|| unsafe { import::raw::wrap_checked(checked, || owner, Some(ready), who) })
        .map_err(raise)
}

/// Whether an object is of a library that says "nothing to wait for" with work on the legacy stream.
fn is_forgetful(array: &Bound<'_, PyAny>) -> bool {
    let module = array.get_type().module().map(|module| module.to_string()).unwrap_or_default();
    ["numba", "pycuda"].contains(&module.split('.').next().unwrap_or(""))
}
