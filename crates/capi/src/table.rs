//! Handles: the numbers by which C names leases, streams and other objects. A handle is valid until it is
//! freed, and never again.
//!
//! A handle consists of a letter for its kind, a generation and an index. A slot is reused with a new
//! generation, so any number is either found or refused.
#![forbid(unsafe_code)]

use std::sync::{Arc, MutexGuard};

use gpulend::fork::ProcessLock;
use gpulend::kernel::Kernel;
use gpulend::module::Module;
use gpulend::stream::{Event, Stream};
use gpulend::{Error, Lease};
use smallvec::SmallVec;

use crate::refusal::Refusal;
use crate::timing::Timer;

const INDEX_BITS: u32 = 24;
const GENERATION_BITS: u32 = 32;
const MOST: usize = 1 << INDEX_BITS;
/// So many objects are found without the heap.
const FEW: usize = 12;

/// The kinds of handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Lease = b'L',
    Stream = b'S',
    Event = b'E',
    Module = b'M',
    Kernel = b'K',
    Timer = b'T',
}

impl Kind {
    /// The kind that a number claims to be, before it is looked up.
    pub(crate) fn of(handle: u64) -> Option<Self> {
        let letter = handle >> (INDEX_BITS + GENERATION_BITS);
        let kinds =
            [Self::Lease, Self::Stream, Self::Event, Self::Module, Self::Kernel, Self::Timer];
        kinds.into_iter().find(|kind| letter == *kind as u64)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Lease => "a lease",
            Self::Stream => "a stream",
            Self::Event => "an event",
            Self::Module => "a module",
            Self::Kernel => "a kernel",
            Self::Timer => "a timer",
        }
    }

    /// The error for a handle that was freed.
    fn ended(self, handle: u64) -> Refusal {
        match self {
            Self::Lease => Error::Released.into(),
            _ => Refusal::Ended { handle, wanted: self.name() },
        }
    }
}

/// The content of a slot.
pub(crate) enum Object {
    Lease(Lease),
    Stream(Stream),
    Event(Arc<Event>),
    Module(Module),
    Kernel(Kernel),
    Timer(Arc<Timer>),
}

/// An object behind a handle; clones are cheap and name the same object.
pub(crate) trait Kept: Clone {
    const KIND: Kind;
    fn into_object(self) -> Object;
    fn of(object: &Object) -> Option<&Self>;
}

macro_rules! kept {
    ($($type:ty => $kind:ident),*) => {
        $(impl Kept for $type {
            const KIND: Kind = Kind::$kind;
            fn into_object(self) -> Object {
                Object::$kind(self)
            }
            fn of(object: &Object) -> Option<&Self> {
                match object {
                    Object::$kind(value) => Some(value),
                    _ => None,
                }
            }
        })*
    };
}

kept!(
    Lease => Lease,
    Stream => Stream,
    Arc<Event> => Event,
    Module => Module,
    Kernel => Kernel,
    Arc<Timer> => Timer
);

#[derive(Default)]
struct Slot {
    generation: u32,
    object: Option<Object>,
}

struct Table {
    slots: Vec<Slot>,
    free: Vec<usize>,
}

static TABLE: ProcessLock<Table> = ProcessLock::new(Table { slots: Vec::new(), free: Vec::new() });

fn table() -> MutexGuard<'static, Table> {
    TABLE.lock()
}

fn handle_of(kind: Kind, generation: u32, index: usize) -> u64 {
    let letter = (kind as u64) << (INDEX_BITS + GENERATION_BITS);
    letter | u64::from(generation) << INDEX_BITS | index as u64
}

fn index_of(handle: u64) -> usize {
    usize::try_from(handle).unwrap_or(0) & (MOST - 1)
}

impl Table {
    /// The slot of a handle, if it is alive.
    #[inline]
    fn slot(&mut self, handle: u64, wanted: Kind) -> Result<(usize, &mut Slot), Refusal> {
        let index = index_of(handle);
        let alive = self.slots.get(index).is_some_and(|slot| {
            slot.object.is_some() && handle == handle_of(wanted, slot.generation, index)
        });
        if !alive {
            return Err(self.refusal(handle, wanted));
        }
        Ok((index, &mut self.slots[index]))
    }

    /// The object of a handle.
    #[inline]
    fn object<T: Kept>(&mut self, handle: u64) -> Result<&T, Refusal> {
        let (_, slot) = self.slot(handle, T::KIND)?;
        slot.object.as_ref().and_then(T::of).ok_or_else(|| T::KIND.ended(handle))
    }

    /// Why no slot is found.
    #[cold]
    fn refusal(&self, handle: u64, wanted: Kind) -> Refusal {
        let no_handle = Refusal::NoHandle { handle, wanted: wanted.name() };
        let Some(found) = Kind::of(handle) else { return no_handle };
        if found != wanted {
            let (found, wanted) = (found.name(), wanted.name());
            return Refusal::OtherKind { handle, found, wanted };
        }
        let generation = u32::try_from(handle >> INDEX_BITS & u64::from(u32::MAX)).unwrap_or(0);
        match self.slots.get(index_of(handle)) {
            Some(slot) if (1..=slot.generation).contains(&generation) => wanted.ended(handle),
            _ => no_handle,
        }
    }

    /// Frees a slot for reuse, unless its generations are used up.
    fn vacate(&mut self, index: usize) {
        if self.slots[index].generation < u32::MAX {
            self.free.push(index);
        }
    }
}

/// Stores a value and returns its handle.
pub(crate) fn insert<T: Kept>(value: T) -> Result<u64, Refusal> {
    let mut table = table();
    let index = match table.free.pop() {
        Some(index) => index,
        None if table.slots.len() < MOST => {
            table.slots.push(Slot::default());
            table.slots.len() - 1
        }
        None => return Err(Refusal::TooManyHandles { count: MOST }),
    };
    let slot = &mut table.slots[index];
    // Never 0: a slot whose generations are used up is not reused.
    slot.generation += 1;
    slot.object = Some(value.into_object());
    Ok(handle_of(T::KIND, slot.generation, index))
}

/// Looks up a handle.
pub(crate) fn find<T: Kept>(handle: u64) -> Result<T, Refusal> {
    table().object(handle).cloned()
}

/// What a launch names.
pub(crate) struct Found {
    pub kernel: Kernel,
    /// None for the current stream, whose handle is 0.
    pub stream: Option<Stream>,
    pub leases: SmallVec<[Lease; FEW]>,
}

/// Looks up what a launch names, under one lock.
#[inline]
pub(crate) fn find_for_launch(
    kernel: u64,
    stream: u64,
    leases: impl Iterator<Item = u64>,
) -> Result<Found, Refusal> {
    let mut table = table();
    let kernel = table.object::<Kernel>(kernel)?.clone();
    let stream = if stream == 0 { None } else { Some(table.object::<Stream>(stream)?.clone()) };
    let mut found = Found { kernel, stream, leases: SmallVec::new() };
    for lease in leases {
        found.leases.push(table.object::<Lease>(lease)?.clone());
    }
    Ok(found)
}

/// Ends a handle and returns its object.
pub(crate) fn remove<T: Kept>(handle: u64) -> Result<T, Refusal> {
    let mut table = table();
    let (index, slot) = table.slot(handle, T::KIND)?;
    let object = slot.object.take();
    table.vacate(index);
    drop(table);
    object.as_ref().and_then(T::of).cloned().ok_or_else(|| T::KIND.ended(handle))
}

/// Ends a lease and its handle, if the lease has no exports and sub-leases; otherwise both stay.
pub(crate) fn release(handle: u64) -> Result<(), Refusal> {
    let lease: Lease = {
        let mut table = table();
        let (index, slot) = table.slot(handle, Kind::Lease)?;
        match slot.object.take() {
            // No other thread can clone it while the table is locked.
            Some(Object::Lease(lease)) if lease.is_unshared() => {
                table.vacate(index);
                lease
            }
            object => {
                slot.object = object;
                let shared = slot.object.as_ref().and_then(Lease::of).cloned();
                drop(table);
                return Err(shared.map_or(Error::Released.into(), |lease| refusal(&lease)));
            }
        }
    };
    // This may run the caller's deleter, so the table is unlocked.
    drop(lease);
    Ok(())
}

/// The error for a lease that was shared a moment ago.
fn refusal(lease: &Lease) -> Refusal {
    lease.check_unlent().err().unwrap_or(Error::Released).into()
}

/// Gives a lease of Rust or Python a handle that C can use, and must free.
///
/// # Errors
///
/// If there are too many handles.
pub fn publish(lease: &Lease) -> Result<u64, Refusal> {
    // A sub-lease, so that the ledger shows the holder.
    insert(lease.index(&[])?)
}

/// Takes over the lease of a C handle; the handle ends.
///
/// # Errors
///
/// If the handle is not a lease's.
pub fn adopt(handle: u64) -> Result<Lease, Refusal> {
    remove(handle)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease() -> Lease {
        Lease::from_vec(vec![1_u8]).unwrap()
    }

    fn code<T>(result: Result<T, Refusal>) -> i32 {
        result.err().map_or(0, |refusal| refusal.code())
    }

    #[test]
    fn a_handle_is_good_once_and_never_again() {
        let first = insert(lease()).unwrap();
        assert_eq!(find::<Lease>(first).unwrap().view().nbytes(), 1);
        drop(remove::<Lease>(first).unwrap());
        assert_eq!(code(find::<Lease>(first)), 500);
        assert_eq!(code(remove::<Lease>(first)), 500);
        let second = insert(lease()).unwrap();
        assert_ne!(first, second);
        assert_eq!(code(find::<Lease>(first)), 500);
        drop(remove::<Lease>(second).unwrap());
    }

    #[test]
    fn other_kinds_and_other_numbers_are_refused_by_name() {
        let handle = insert(lease()).unwrap();
        assert_eq!(code(find::<Stream>(handle)), 271);
        for wrong in [0, 1, u64::MAX, handle + 1 + (1 << 20), handle | 1 << 55] {
            assert_eq!(code(find::<Lease>(wrong)), 270, "{wrong:#x}");
        }
        drop(remove::<Lease>(handle).unwrap());
    }

    #[test]
    fn a_lease_that_cannot_end_keeps_its_handle() {
        let handle = insert(lease()).unwrap();
        let held = find::<Lease>(handle).unwrap();
        assert_eq!(code(release(handle)), 600);
        assert!(find::<Lease>(handle).is_ok());
        drop(held);
        assert_eq!(code(release(handle)), 0);
        assert_eq!(code(release(handle)), 500);
    }
}
