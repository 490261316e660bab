//! How a torch tensor's memory comes in: read by torch's own functions, kept by its storage.

use std::mem::MaybeUninit;

use gpulend::abi::dlpack::Tensor;
use gpulend::import::raw::ViewRef;
use gpulend::ledger::Name;
use gpulend::stream::Ready;
use gpulend::{Dtype, Lease, import};
use pyo3::intern;
use pyo3::prelude::*;

use crate::borrowing::{Entry, Order, by_dlpack};
use crate::errors::{MEANING_LOST, export, raise};
use crate::guards::{self, Storage, Use};
use crate::protocols::{producer_raised, torch_stream};
use crate::routes::Table;
use crate::stable_torch::{Found, On, StableTorch};

impl Found<'_> {
    /// A tensor that requires a gradient is a plain one to a use that does not lose it.
    #[inline]
    fn used(self, used: Use, py: Python<'_>) -> Self {
        match self {
            Self::Tracked(view) if used.takes_tracked(py) => Self::Plain(view),
            found => found,
        }
    }
}

/// A tensor of its own over the storage of another, which keeps that and no gradient.
pub(crate) fn alias<'py>(tensor: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let made = tensor.call_method0(intern!(tensor.py(), "detach"));
    made.map_err(|cause| producer_raised(tensor, "detach", cause))
}

/// The stable ABI describes a tensor of the host; its storage is the owner. Nothing for tensors of other devices.
#[inline(always)]
pub(crate) fn read_host_torch(
    array: &Bound<'_, PyAny>,
    stable: &StableTorch,
    shown: Option<&Table>,
    used: Use,
    who: Name,
) -> Option<PyResult<Lease>> {
    // SAFETY: the route is that of its exact type.
    let storage = match unsafe { storage(array, shown, used) } {
        Ok(storage) => storage,
        Err(error) => return Some(Err(error)),
    };
    // The getters alone take less time than a handle of torch's.
    let found = match shown.filter(|_| used.is_checked()) {
        // SAFETY: (1) the route is that of its exact type; (2) nothing of Python's runs until `enter` has copied it.
        Some(shown) => unsafe { shown.read(array, On::Host) },
        None => None,
    };
    // SAFETY: as above.
    let found = found.unwrap_or_else(|| unsafe { stable.read(array, used.is_checked()) });
    Some(match found.map(|found| found.used(used, array.py())) {
        Some(Found::Plain(view)) => {
            // SAFETY: nothing of Python's runs since it was read.
            let keep = || unsafe { storage.keep(array.py()) };
            // SAFETY: the storage keeps the memory, which torch lets anybody read and write.
            let lease = unsafe { import::raw::enter(view, keep, |_| Ready::Now, who) };
            lease.map_err(|error| Refused::Core(error).explain(array, used))
        }
        Some(Found::Elsewhere) => return None,
        _ => Err(Refused::Meaning.explain(array, used)),
    })
}

/// The storage of a tensor, which a lease keeps.
///
/// # Safety
///
/// The tensor is of exactly torch's types.
#[inline(always)]
unsafe fn storage<'py>(
    array: &Bound<'py, PyAny>,
    shown: Option<&Table>,
    used: Use,
) -> PyResult<Storage<'static, 'py>> {
    let storage = match shown {
        // SAFETY: the contract.
        Some(shown) => unsafe { shown.storage(array) },
        None => Storage::of(array),
    };
    // Tensors that are no plain arrays have none.
    storage.map_err(|error| Refused::Raised(error).explain(array, used))
}

/// A tensor of the host by the stable ABI, one of a GPU as torch shows it.
pub(crate) fn read_torch(
    array: &Bound<'_, PyAny>,
    stable: &StableTorch,
    shown: Option<&Table>,
    used: Use,
    entry: &Entry<'_, '_>,
    who: Name,
) -> PyResult<Lease> {
    match (read_host_torch(array, stable, shown, used, who), shown) {
        (Some(lease), _) => lease,
        (None, Some(shown)) => show_torch(array, shown, used, entry, who),
        // torch itself sees to the order where it does not tell its stream.
        (None, None) => {
            guards::explain(array, used)?;
            by_dlpack(&alias(array)?, &Order::Asked, entry, who)
        }
    }
}

/// torch's getters tell a plain tensor of a GPU, or its table shows any (no allocation on its side); its storage is the
/// owner.
pub(crate) fn show_torch(
    array: &Bound<'_, PyAny>,
    shown: &Table,
    used: Use,
    entry: &Entry<'_, '_>,
    who: Name,
) -> PyResult<Lease> {
    let mut problem = None;
    let ready = entry.ready(&mut problem, |index| {
        torch_stream(array.py(), shown.stream, index).map(Ready::Home)
    });
    // SAFETY: the route is that of its exact type.
    let storage = unsafe { storage(array, Some(shown), used) }?;
    // SAFETY: nothing of Python's runs since the memory was found: `enter` keeps it before it asks for the stream.
    let keep = || unsafe { storage.keep(array.py()) };
    let borrow = || -> Result<Lease, Refused> {
        // SAFETY: `enter` copies it first of all.
        if let Some(view) = unsafe { view(array, shown, used) }? {
            // SAFETY: the storage keeps the memory, which torch lets anybody write.
            return Ok(unsafe { import::raw::enter(view, keep, ready, who) }?);
        }
        let (tensor, _) = show_plain(array, shown, used, || ())?;
        // SAFETY: (1) just filled; (2) the storage keeps the memory, which torch lets anybody write.
        Ok(unsafe { import::dlpack::take_shown(&tensor, keep, ready, who) }?)
    };
    let lease = borrow().map_err(|refused| refused.explain(array, used));
    problem.map_or(lease, Err)
}

/// A tensor as torch shows it, for a call during which nothing of Python's runs, and where it lies. `before` is called
/// before something of Python's does, to find out whether it is a plain one.
///
/// What is shown points into the tensor.
pub(crate) fn shown<'a>(
    array: &'a Bound<'_, PyAny>,
    shown: &Table,
    used: Use,
    before: impl FnOnce(),
) -> PyResult<Option<ViewRef<'a>>> {
    let view = || -> Result<Option<ViewRef<'a>>, Refused> {
        // SAFETY: the caller's, as what torch shows.
        if let Some(view) = unsafe { view(array, shown, used) }? {
            return Ok(Some(view));
        }
        let (tensor, dtype) = show_plain(array, shown, used, before)?;
        // SAFETY: torch filled it in, and `'a` keeps the tensor that it points into.
        Ok(unsafe { import::dlpack::view_of(&tensor, dtype) }?)
    };
    view().map_err(|refused| refused.explain(array, used))
}

/// A plain tensor by torch's getters; nothing where its table has to show it: they may be missing, the device may be one that
/// they are not asked for, and they tell no tensor that means more, which without a check is taken.
///
/// # Safety
///
/// What is told points into the tensor: it is done with before anything of torch's or Python's runs.
#[inline]
unsafe fn view<'a>(
    array: &'a Bound<'_, PyAny>,
    shown: &Table,
    used: Use,
) -> Result<Option<ViewRef<'a>>, Refused> {
    // SAFETY: (1) the table is that of its exact type; (2) is the contract.
    let found = unsafe { shown.read(array, On::Any) };
    match found.map(|found| found.map(|found| found.used(used, array.py()))) {
        Some(Some(Found::Plain(view))) => Ok(Some(view)),
        None | Some(Some(Found::Elsewhere)) => Ok(None),
        _ if used.is_checked() => Err(Refused::Meaning),
        _ => Ok(None),
    }
}

/// A tensor as torch shows it, if torch says in Python that it is a plain one.
fn show_plain(
    array: &Bound<'_, PyAny>,
    shown: &Table,
    used: Use,
    before: impl FnOnce(),
) -> Result<(Tensor, Dtype), Refused> {
    if used.is_checked() {
        before();
        guards::explain(array, used).map_err(Refused::Explained)?;
    }
    let tensor = show(array, shown)?;
    let dtype = Dtype::from_dlpack(tensor.dtype, false).map_err(gpulend::Error::from)?;
    Ok((tensor, dtype))
}

#[inline]
fn show(array: &Bound<'_, PyAny>, shown: &Table) -> Result<Tensor, Refused> {
    let mut tensor = MaybeUninit::uninit();
    // SAFETY: the table is that of this exact type; control has not left torch's object since.
    if unsafe { (shown.show)(array.as_ptr().cast(), tensor.as_mut_ptr()) } != 0 {
        return Err(Refused::Raised(PyErr::fetch(array.py())));
    }
    // SAFETY: 0 means that the tensor was filled in.
    Ok(unsafe { tensor.assume_init() })
}

/// A tensor of the host as torch's stable ABI shows it; nothing for one of a GPU.
///
/// # Safety
///
/// As [`StableTorch::read`].
pub(crate) unsafe fn shown_on_host<'a>(
    array: &'a Bound<'_, PyAny>,
    stable: &StableTorch,
    used: Use,
) -> PyResult<Option<ViewRef<'a>>> {
    // SAFETY: the contract.
    let found = unsafe { stable.read(array, used.is_checked()) };
    match found.map(|found| found.used(used, array.py())) {
        Some(Found::Plain(view)) => Ok(Some(view)),
        Some(Found::Elsewhere) => Ok(None),
        _ => Err(Refused::Meaning.explain(array, used)),
    }
}

/// Why a tensor was not borrowed.
enum Refused {
    /// A plain array would lose part of what it means.
    Meaning,
    /// The core says.
    Core(gpulend::Error),
    /// The adapter says.
    Explained(PyErr),
    /// torch raised when asked.
    Raised(PyErr),
}

impl From<gpulend::Error> for Refused {
    fn from(error: gpulend::Error) -> Self {
        Self::Core(error)
    }
}

impl From<PyErr> for Refused {
    fn from(error: PyErr) -> Self {
        Self::Raised(error)
    }
}

impl Refused {
    /// The adapter's words, if it has some; else the best of ours.
    #[cold]
    fn explain(self, array: &Bound<'_, PyAny>, used: Use) -> PyErr {
        if !matches!(self, Self::Explained(_))
            && let Err(explained) = guards::explain(array, used)
        {
            return explained;
        }
        match self {
            Self::Core(error) => raise(error),
            Self::Explained(error) => error,
            Self::Raised(error) => producer_raised(array, "__dlpack_c_exchange_api__", error),
            Self::Meaning => {
                let message = "the tensor carries a meaning that a plain array would lose";
                export(message.to_owned(), MEANING_LOST)
            }
        }
    }
}
