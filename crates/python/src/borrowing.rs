//! `borrow`: an object's memory comes in by the route of its type, in order.

use std::ptr;

use gpulend::abi::dlpack::{CurrentWorkStream, FromPyObject};
use gpulend::import::array_interface::Interface;
use gpulend::ledger::Name;
use gpulend::stream::{Ready, Stream, current};
use gpulend::{DeviceKind, Lease, Memory, ProtocolError, import};
use pyo3::prelude::*;
use pyo3::{ffi, intern};

use crate::counts::{Counted, count};
use crate::errors::{self, BAD_ARGUMENT, NO_PROTOCOL, NOT_NUMBERS, caused, raise, refused};
use crate::frameworks::Kind;
use crate::lease::PyLease;
use crate::protocols::{self, call_raised, producer_raised, table_stream, torch_stream, type_name};
use crate::quick::{self, Quick, optional};
use crate::routes::{Producer, Route, last_producer, producer_of};
use crate::torch::{self, Use};
use crate::untrusted::{Nested, confirmed, mapped};
use crate::{buffer, capsule, cupy, interface, numpy_arrays, owners, reaper, stream};

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
    let producer = producer_of(array)?;
    borrow_by(array, &producer, stream, ready_on, check)
}

static QUICK: Quick<4> = Quick::new(["array", "stream", "ready_on", "check"], 2);

/// Has Python call [`quick_borrow`] first.
pub(crate) fn shorten(module: &Bound<'_, PyModule>) -> PyResult<()> {
    QUICK.shorten(module, "borrow", quick_borrow)
}

/// What Python calls for `borrow(array, stream)`.
///
/// # Safety
///
/// As Python's vectorcall protocol has it, and the GIL is held.
unsafe extern "C" fn quick_borrow(
    module: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the contract.
    let py = unsafe { Python::assume_attached() };
    // SAFETY: the contract; Python keeps them until this returns.
    let given = unsafe { QUICK.given(py, arguments, count, names) };
    if let Some([Some(array), stream, ready_on, None]) = given
        && let Some(producer) = last_producer(array.get_type_ptr())
        && producer.route.runs_no_code()
    {
        let (stream, ready_on) = (optional(stream), optional(ready_on));
        return quick::returned(py, || borrow_by(array, &producer, stream, ready_on, true));
    }
    // SAFETY: the contract.
    unsafe { QUICK.call_long(module, arguments, count, names) }
}

/// Borrows an array whose route is known.
#[inline]
fn borrow_by<'py>(
    array: &Bound<'py, PyAny>,
    producer: &Producer,
    stream: Option<&Bound<'py, PyAny>>,
    ready_on: Option<&Bound<'py, PyAny>>,
    check: bool,
) -> PyResult<Bound<'py, PyLease>> {
    let py = array.py();
    reaper::catch_up(py);
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
    let lease = follow(array, producer, used, &entry)?;
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

/// As [`borrow_unordered`] for a copy, which takes a structured array of NumPy's as its bytes.
pub(crate) fn borrow_host(array: &Bound<'_, PyAny>, used: Use) -> PyResult<Lease> {
    borrow_unordered(array, used).or_else(|error| {
        let py = array.py();
        let code = error.value(py).getattr(intern!(py, "code")).and_then(|code| code.extract());
        if !code.is_ok_and(|code: u32| code == NOT_NUMBERS.number) {
            return Err(error);
        }
        let module = py.import(intern!(py, "gpulend._arguments"))?;
        let bytes = module.call_method1(intern!(py, "structs_as_bytes"), (array,))?;
        if bytes.is_none() { Err(error) } else { borrow_unordered(&bytes, used) }
    })
}

/// Borrows for a consumer whose stream on a device `want` returns; it does not wait yet, unless the
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

/// As [`borrow_for`] for an array whose route is known.
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
        return stream.map_or(Ok(()), |stream| refuse_pinned(lease, stream));
    }
    match stream {
        Some(stream) => lease.hand_over(&stream::parse(stream, device.index())?),
        None => lease.enter(&current(device.index())),
    }
    .map_err(raise)
}

/// Refuses a stream for pinned memory of the host: a GPU can work on it, and its release would not wait for that.
pub(crate) fn refuse_pinned(lease: &Lease, stream: &Bound<'_, PyAny>) -> PyResult<()> {
    if lease.view().memory() == Memory::Pinned {
        let found = format!("{stream}").into();
        return Err(raise(ProtocolError::HostStream { found }));
    }
    Ok(())
}

/// Makes later users of a lease wait for what `ready_on` says.
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
    /// When the bytes are valid: what the consumer said, or else what `producer` says.
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
    match producer.route {
        Route::Torch(torch) => torch::borrow(array, torch, used, entry, who),
        Route::NumPy(reader) => numpy_arrays::borrow(array, reader, who),
        _ => follow_code(array, producer, used, entry),
    }
}

/// Follows a route on which Python code of the producer's can run, which can call us again.
fn follow_code(
    array: &Bound<'_, PyAny>,
    producer: &Producer,
    used: Use,
    entry: &Entry<'_, '_>,
) -> PyResult<Lease> {
    let who = producer.who;
    let _nested = Nested::enter()?;
    if let Some(kind) = producer.kind
        && used.is_checked()
    {
        kind.refuse(array, used.word())?;
    }
    let lease = match producer.route {
        Route::Torch(torch) => torch::borrow(array, torch, used, entry, who),
        Route::Exchange(take, stream) => take_exchange(array, take, stream, entry, who),
        Route::NumPy(reader) => numpy_arrays::borrow(array, reader, who),
        Route::NumPyOther => confirmed(numpy_arrays::by_dlpack(array, who)?, used.is_checked()),
        Route::Dlpack => {
            let lease = by_dlpack(array, &Order::of(producer.kind), entry, who)?;
            confirmed(lease, used.is_checked() && producer.kind.is_none())
        }
        Route::Adapted(adapted) => by_adapter(array, adapted, used, entry, who),
        Route::Cupy(reader) => cupy::borrow(array, reader, entry, who),
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
        Route::Cuda => described(array, Interface::Cuda, entry, used, producer),
        Route::Array => described(array, Interface::Array, entry, used, producer),
        Route::Buffer => buffer::take(array, who),
        Route::Ctypes => mapped(buffer::take(array, who)?),
        Route::Pointer => {
            let pointers = array.py().import(intern!(array.py(), "gpulend._pointers"))?;
            mapped(buffer::take(&pointers.call_method1("contents", (array,))?, who)?)
        }
        Route::Lease => Err(refused("a lease needs no borrowing".to_owned(), NO_PROTOCOL)),
    }?;
    Ok(if producer.kind.is_some_and(|kind| kind.immutable) { lease.immutable() } else { lease })
}

/// How the memory of a producer of `__dlpack__` comes in order, if it is a GPU's.
pub(crate) enum Order {
    /// The producer makes the stream that we name wait.
    Asked,
    /// The producer does nothing, and we wait for the stream that this returns.
    Table(Option<CurrentWorkStream>),
    /// The same, and CuPy names it in Python.
    Cupy,
    /// The same, and the framework's adapter does.
    Adapter(&'static Py<PyAny>),
    /// The producer does nothing and names nothing: the legacy default stream is waited for.
    Legacy,
}

impl Order {
    /// That of a framework's arrays, or of an unknown producer's.
    const fn of(kind: Option<&'static Kind>) -> Self {
        match kind {
            Some(Kind { current: Some(ask), .. }) => Self::Adapter(ask),
            Some(Kind { forgetful: true, .. }) => Self::Legacy,
            _ => Self::Asked,
        }
    }
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
        (Order::Cupy, _) => cupy::current(array.py(), index).map(Ready::Home),
        (Order::Adapter(ask), _) => {
            protocols::adapters_stream(ask.bind(array.py()), index).map(Ready::Home)
        }
        (Order::Legacy, _) => Ok(Ready::On(Stream::legacy(index))),
        (Order::Table(table), _) => torch_stream(array.py(), *table, index).map(Ready::Home),
        (Order::Asked, None) => Ok(Ready::Now),
    });
    let lease = capsule::take(&capsule, ready, who);
    problem.map_or(lease, Err)
}

/// The adapter refuses what of its framework's cannot be lent, and returns what is borrowed instead of the rest.
fn by_adapter(
    array: &Bound<'_, PyAny>,
    adapted: &'static Kind,
    used: Use,
    entry: &Entry<'_, '_>,
    who: Name,
) -> PyResult<Lease> {
    let py = array.py();
    let (Some(place), Some(stand_in)) = (&adapted.place, &adapted.stand_in) else {
        return Err(refused("the adapter brings no such arrays in".to_owned(), NO_PROTOCOL));
    };
    let answer = place.bind(py).call1((array,))?;
    let index: Option<u8> = answer.extract().map_err(|cause| {
        let message = format!(
            "place({}) of the adapter returned {answer}; give the index of a GPU, or None for the host",
            type_name(array)
        );
        caused(py, refused(message, BAD_ARGUMENT), cause)
    })?;
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
        false => match &adapted.call {
            Some(call) => producer_raised(array, call, cause),
            None => {
                call_raised(py, &format!("the adapter's stand_in({})", type_name(array)), cause)
            }
        },
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
        // Another array may merely describe the memory, of which only the first one is the owner.
        follow(&instead, &producer, used, &entry).map(|lease| lease.keeping(owners::keep(array)))
    }?;
    Ok(lease)
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

fn described(
    array: &Bound<'_, PyAny>,
    interface: Interface,
    entry: &Entry<'_, '_>,
    used: Use,
    producer: &Producer,
) -> PyResult<Lease> {
    let forgetful = producer.kind.is_some_and(|kind| kind.forgetful);
    let dict = array
        .getattr(interface.name())
        .map_err(|cause| producer_raised(array, interface.name(), cause))?;
    let description = interface::describe(&dict, interface)?;
    // Host addresses that may be made up are always checked.
    let checked =
        description.verify(used.is_checked() || interface == Interface::Array).map_err(raise)?;
    let index = checked.ordinal();
    let ready = match entry.ready_on {
        Some(ready_on) => stream::ready(ready_on, index)?,
        // SAFETY: the protocol says that the stream is the producer's, who is kept.
        None => unsafe { description.ready(index, forgetful) },
    };
    // What the dict holds may keep the memory, and not the object: a temporary array, for instance.
    let owner = owners::keep_both(array, &dict);
    // Pinned memory is waited for here, and what is waited for may need Python.
    let py = array.py();
    // SAFETY: the protocol says that the object that showed the dict keeps the memory, or the dict does.
    py.detach(|| unsafe { import::raw::wrap_checked(checked, || owner, Some(ready), producer.who) })
        .map_err(raise)
}
