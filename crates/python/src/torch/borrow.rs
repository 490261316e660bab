//! How a tensor's memory comes in: read by libtorch's functions or shown by the exchange table, kept by its storage.

use std::mem::MaybeUninit;

use gpulend::abi::dlpack::Tensor;
use gpulend::import::raw::ViewRef;
use gpulend::ledger::Name;
use gpulend::stream::Ready;
use gpulend::{Dtype, Lease, import};
use pyo3::intern;
use pyo3::prelude::*;

use super::Torch;
use super::meaning::{Use, explain};
use super::reader::{On, Read};
use crate::borrowing::Entry;
use crate::counts::{Counted, count};
use crate::errors::{MEANING_LOST, raise, refused};
use crate::owners;
use crate::protocols::{producer_raised, torch_stream};

/// Where a tensor's class has the exchange table.
const TABLE: &str = "__dlpack_c_exchange_api__";

/// A tensor of its own over the storage of another, which keeps that and no gradient.
pub(crate) fn alias<'py>(tensor: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let made = tensor.call_method0(intern!(tensor.py(), "detach"));
    made.map_err(|cause| producer_raised(tensor, "detach", cause))
}

/// A lease of a tensor of exactly torch's types, whose storage is the owner. torch's current stream is where its bytes are
/// made, unless the consumer knows better.
#[inline(always)]
pub(crate) fn borrow(
    tensor: &Bound<'_, PyAny>,
    torch: &Torch,
    used: Use,
    entry: &Entry<'_, '_>,
    who: Name,
) -> PyResult<Lease> {
    let py = tensor.py();
    let mut problem = None;
    let ready =
        entry.ready(&mut problem, |index| torch_stream(py, torch.stream, index).map(Ready::Home));
    let lease = enter(tensor, torch, used, ready, who);
    match problem {
        None => lease.map_err(|refused| refused.explain(tensor, used)),
        Some(error) => Err(error),
    }
}

#[inline(always)]
fn enter(
    tensor: &Bound<'_, PyAny>,
    torch: &Torch,
    used: Use,
    ready: impl FnOnce(u8) -> Ready,
    who: Name,
) -> Result<Lease, Refused> {
    // SAFETY: the route is that of its exact type.
    if let Some(storage) = unsafe { torch.storage(tensor) } {
        // SAFETY: (1) as above; (2) the core copies what was read first of all.
        match unsafe { torch.read(tensor, On::Any, used.is_checked()) } {
            read if read.is_lost(used, torch) => {
                count(Counted::TorchNative);
                return Err(Refused::Meaning);
            }
            Read::Plain(view) | Read::Tracked(view) => {
                count(Counted::TorchNative);
                // SAFETY: nothing of Python's runs since it was read: the core keeps it before it asks for the stream.
                let keep = || unsafe { storage.keep(tensor.py()) };
                // SAFETY: the storage keeps the memory, which torch allows others to read and write.
                let lease = unsafe { import::raw::enter(view, keep, ready, who) };
                return lease.map_err(Refused::Core);
            }
            Read::Elsewhere | Read::Refused | Read::Unknown => {}
        }
    }
    enter_shown(tensor, torch, used, ready, who)
}

/// The same by the exchange table.
#[inline(never)]
fn enter_shown(
    tensor: &Bound<'_, PyAny>,
    torch: &Torch,
    used: Use,
    ready: impl FnOnce(u8) -> Ready,
    who: Name,
) -> Result<Lease, Refused> {
    ask_adapter(tensor, used, || ())?;
    // Not sooner: the adapter's questions may run arbitrary code. Tensors that are no plain arrays have none.
    let storage = tensor.call_method0(intern!(tensor.py(), "untyped_storage"));
    let storage = storage.map_err(|error| Refused::Raised("untyped_storage", error))?;
    let (shown, _) = show(tensor, torch)?;
    let keep = || owners::keep_owned(storage);
    // SAFETY: (1) just filled; (2) the storage keeps the memory, which torch allows others to write.
    Ok(unsafe { import::dlpack::take_shown(&shown, keep, ready, who) }?)
}

/// A tensor of exactly torch's types for a call during which nothing of Python's runs; nothing if the table's description
/// needs a closer look. `before` is called before something of Python's does run, to find out what the tensor means.
///
/// What is returned points into the tensor.
pub(crate) fn view<'a>(
    tensor: &'a Bound<'_, PyAny>,
    torch: &Torch,
    used: Use,
    before: impl FnOnce(),
) -> PyResult<Option<ViewRef<'a>>> {
    let view = || -> Result<Option<ViewRef<'a>>, Refused> {
        // SAFETY: (1) the route is that of its exact type; (2) is the caller's.
        match unsafe { torch.read(tensor, On::Any, used.is_checked()) } {
            read if read.is_lost(used, torch) => {
                count(Counted::TorchNative);
                return Err(Refused::Meaning);
            }
            Read::Plain(view) | Read::Tracked(view) => {
                count(Counted::TorchNative);
                return Ok(Some(view));
            }
            Read::Elsewhere | Read::Refused | Read::Unknown => {}
        }
        ask_adapter(tensor, used, before)?;
        let (shown, dtype) = show(tensor, torch)?;
        // SAFETY: torch filled it in, and `'a` keeps the tensor that it points into.
        Ok(unsafe { import::dlpack::view_of(&shown, dtype) }?)
    };
    view().map_err(|refused| refused.explain(tensor, used))
}

/// Where a tensor that came before lies now.
pub(crate) fn address(tensor: &Bound<'_, PyAny>, torch: &Torch) -> Option<u64> {
    // SAFETY: (1) the route is that of its exact type; (2) only a number is kept.
    match unsafe { torch.read(tensor, On::Any, false) } {
        Read::Plain(view) | Read::Tracked(view) => return Some(view.address),
        // Its storage has become too short, wherever that is.
        Read::Refused => return None,
        Read::Elsewhere | Read::Unknown => {}
    }
    let (shown, dtype) = show(tensor, torch).ok()?;
    // SAFETY: torch filled it in; only a number is kept.
    unsafe { import::dlpack::view_of(&shown, dtype) }.ok()?.map(|view| view.address)
}

/// Asks in Python what a tensor means that the table will show. Without a check too: some tensors have no memory, and the
/// table shows them at an address all the same.
fn ask_adapter(tensor: &Bound<'_, PyAny>, used: Use, before: impl FnOnce()) -> Result<(), Refused> {
    count(Counted::TorchTable);
    before();
    explain(tensor, used).map_err(Refused::Explained)
}

/// A tensor as the exchange table shows it.
fn show(tensor: &Bound<'_, PyAny>, torch: &Torch) -> Result<(Tensor, Dtype), Refused> {
    let mut shown = MaybeUninit::uninit();
    // SAFETY: the table is that of this exact type.
    if unsafe { (torch.show)(tensor.as_ptr().cast(), shown.as_mut_ptr()) } != 0 {
        return Err(Refused::Raised(TABLE, PyErr::fetch(tensor.py())));
    }
    // SAFETY: 0 means that the tensor was filled in.
    let shown: Tensor = unsafe { shown.assume_init() };
    let dtype = Dtype::from_dlpack(shown.dtype, false).map_err(gpulend::Error::from)?;
    Ok((shown, dtype))
}

/// Why a tensor was not borrowed.
enum Refused {
    /// A plain array would lose part of what it means.
    Meaning,
    /// The core says.
    Core(gpulend::Error),
    /// The adapter says.
    Explained(PyErr),
    /// This method of the tensor's raised.
    Raised(&'static str, PyErr),
}

impl From<gpulend::Error> for Refused {
    fn from(error: gpulend::Error) -> Self {
        Self::Core(error)
    }
}

impl Refused {
    /// The adapter's words, if it has some; else the best of ours.
    #[cold]
    fn explain(self, tensor: &Bound<'_, PyAny>, used: Use) -> PyErr {
        if !matches!(self, Self::Explained(_))
            && let Err(explained) = explain(tensor, used)
        {
            return explained;
        }
        match self {
            Self::Core(error) => raise(error),
            Self::Explained(error) => error,
            Self::Raised(method, error) => producer_raised(tensor, method, error),
            Self::Meaning => {
                let message = "the tensor carries a meaning that a plain array would lose";
                refused(message.to_owned(), MEANING_LOST)
            }
        }
    }
}
