//! What torch's dispatcher would do with a call: which of its keys are set, and who else looks on.
//!
//! The dispatcher chooses by 64 bits: those of all tensors of a call and those that the thread includes, without those that it
//! excludes. Autograd, autocast, `vmap`, tracing, fake and functional tensors, modes and subclasses are each a bit. Where only
//! bits of plain tensors are set, it calls what is registered for their device, so a caller may do the same without it. Two more
//! look on without a bit: modes of `__torch_function__`, and the callbacks of profilers.
//!
//! Where the bits lie is no part of a stable interface, so it is proved: `dispatch_proof()` in `gpulend/adapters/torch.py` compares
//! what is read with what torch says, inside and outside of modes. One difference, and every call goes to the dispatcher.

use std::cell::Cell;
use std::ptr;

use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple};

use super::library::{self, find};
use super::proof::{Sample, adapter};
use super::reader::Reader;
use crate::places::{find_place, word};

type Ask = unsafe extern "C" fn() -> bool;

/// `c10::impl::raw_local_dispatch_key_set`, `at::hasCallbacks()`, `at::impl::torch_function_mode_enabled()` and
/// `at::impl::PythonTorchFunctionTLS::peek_skip_next()`, as C++ spells them.
const KEYS_OF_THREAD: &str = "_ZN3c104impl26raw_local_dispatch_key_setE";
const HAS_CALLBACKS: &str = "_ZN2at12hasCallbacksEv";
const FUNCTION_MODE: &str = "_ZN2at4impl27torch_function_mode_enabledEv";
const SKIPS_NEXT: &str = "_ZN2at4impl22PythonTorchFunctionTLS14peek_skip_nextEv";

/// How a call is looked at as the dispatcher would.
pub(crate) struct Dispatch {
    /// Where in a `TensorImpl` its keys lie.
    place: usize,
    /// What the thread's keys are when all bits of both words are 0: included, excluded.
    usual: [u64; 2],
    watchers: Watchers,
}

/// Who looks on without a key.
#[derive(Clone, Copy)]
struct Watchers {
    has_callbacks: Ask,
    function_mode: Ask,
    /// Whether the next call of torch's is to ask no `__torch_function__`, which that call takes back. torch 2.11 has no such flag.
    skips_next: Option<Ask>,
}

impl Watchers {
    fn find() -> Option<Self> {
        // SAFETY: functions without arguments that return bool have this type in the C++ ABI.
        let ask = |name| unsafe { find(library::CPU, name) };
        Some(Self {
            has_callbacks: ask(HAS_CALLBACKS)?,
            function_mode: ask(FUNCTION_MODE)?,
            skips_next: ask(SKIPS_NEXT),
        })
    }

    /// Whether a mode of `__torch_function__` is on.
    #[inline]
    fn function_mode(self) -> bool {
        // SAFETY: it takes nothing, and raises nothing.
        unsafe { (self.function_mode)() }
    }

    /// Whether the next call is to skip `__torch_function__`.
    #[inline]
    fn skips_next(self) -> bool {
        // SAFETY: it takes nothing, and raises nothing.
        self.skips_next.is_some_and(|skips_next| unsafe { skips_next() })
    }

    /// Whether callbacks of a profiler are registered.
    #[inline]
    fn has_callbacks(self) -> bool {
        // SAFETY: it takes nothing, and raises nothing.
        unsafe { (self.has_callbacks)() }
    }
}

/// The two words of keys of this thread: included, excluded, each as the difference from what is usual. They lie where they lie
/// as long as the thread lives.
#[inline]
fn keys_of_thread() -> Option<[u64; 2]> {
    thread_local! {
        static PLACE: Cell<*const [u64; 2]> = const { Cell::new(ptr::null()) };
    }
    let mut place = PLACE.get();
    if place.is_null() {
        // SAFETY: a variable of two words, of which each thread has its own: this is the address of this thread's.
        place = unsafe { find(library::CORE, KEYS_OF_THREAD) }?;
        PLACE.set(place);
    }
    // SAFETY: nobody but this thread writes it, and torch's libraries are never unloaded.
    Some(unsafe { place.read() })
}

impl Dispatch {
    /// How far into a `TensorImpl` its keys are looked for. They are its last member, and the search ends where they are found.
    const PLACES: [usize; 4] = [160, 168, 176, 184];

    /// The functions and places, if torch has them and they show what torch says.
    pub(super) fn of(
        py: Python<'_>,
        reader: &Reader,
        samples: &[Sample<'_>],
    ) -> PyResult<Option<Self>> {
        let Some(watchers) = Watchers::find() else { return Ok(None) };
        let look = move |_: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| {
            keys_of_thread().map(|keys| (keys, watchers.function_mode()))
        };
        let look = PyCFunction::new_closure(py, None, None, look)?;
        let tensors: Vec<_> = samples.iter().map(|sample| &sample.tensor).collect();
        let proof = adapter(py)?.call_method1("dispatch_proof", (look, tensors))?;
        let Some((usual, keys)) = proof.extract::<Option<([u64; 2], Vec<usize>)>>()? else {
            return Ok(None);
        };
        // SAFETY: samples are torch's own.
        let inside = |sample: &Sample<'_>| unsafe { reader.tensor_impl(&sample.tensor) };
        let known: Vec<_> = samples.iter().map(inside).zip(keys).collect();
        // SAFETY: a `TensorImpl` ends no sooner than at the keys, which are found on the way.
        let place = unsafe { find_place(Self::PLACES, &known) };
        Ok(place.map(|place| Self { place, usual, watchers }))
    }

    /// The keys of a tensor.
    ///
    /// # Safety
    ///
    /// The `TensorImpl` is that of a tensor that is alive.
    #[inline]
    pub(super) unsafe fn keys(&self, tensor_impl: usize) -> u64 {
        // SAFETY: the contract; `of` found the place.
        unsafe { word(tensor_impl + self.place) as u64 }
    }

    /// Whether a call with tensors of these keys together goes to the kernel of their device and to nobody else. `plain` are the
    /// keys that make no difference.
    #[inline]
    pub(crate) fn is_plain(&self, keys: u64, plain: u64) -> bool {
        let Some([included, excluded]) = keys_of_thread() else { return false };
        let [usually_included, usually_excluded] = self.usual;
        let keys = (keys | included ^ usually_included) & !(excluded ^ usually_excluded);
        let Self { watchers, .. } = self;
        let watched = watchers.function_mode() || watchers.skips_next() || watchers.has_callbacks();
        keys & !plain == 0 && !watched
    }
}
