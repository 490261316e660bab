//! The ledger: all leases and exports of the process, with holder and age.
//!
//! It is always on. Each lease and each export has one slot in a slab, taken and
//! returned in constant time; texts are put together only for a snapshot.
//! The lock is private, is held for a few instructions and
//! never while foreign code runs, so a deleter may take it on any thread.
#![forbid(unsafe_code)]

use std::num::NonZeroU64;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use slab::Slab;

use crate::fork::ProcessLock;

/// The name of a holder or an origin, interned: two bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Name(u16);

impl Name {
    /// The name of everything without a better one.
    pub const UNKNOWN: Self = Self(0);

    /// Interns the name of a consumer, of a function or of a framework's class. There are few of them, and they are kept.
    #[must_use]
    pub fn intern(text: &str) -> Self {
        book().intern(text, usize::from(u16::MAX))
    }

    /// Interns the name of a class that a program can create any number of. Once there are 4,096 names, new ones share
    /// [`Name::UNKNOWN`]; long names are cut.
    #[must_use]
    pub fn intern_passing(text: &str) -> Self {
        const MOST_NAMES: usize = 4096;
        const MOST_BYTES: usize = 256;
        let end = (0..=MOST_BYTES.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
        book().intern(&text[..end.unwrap_or(0)], MOST_NAMES)
    }

    /// The name's text.
    #[must_use]
    pub fn text(self) -> Box<str> {
        book().text(self)
    }
}

/// A name that is part of the program, interned at its first use.
///
/// Unlike a `LazyLock` it holds no lock while it is made, which could stay locked in a forked child.
#[derive(Debug)]
pub struct FixedName {
    text: &'static str,
    /// The number of the interned name, or a value that no name has.
    number: AtomicU32,
}

impl FixedName {
    /// A name to be interned later.
    #[must_use]
    pub const fn new(text: &'static str) -> Self {
        Self { text, number: AtomicU32::new(u32::MAX) }
    }

    /// The name.
    #[inline]
    pub fn get(&self) -> Name {
        match u16::try_from(self.number.load(Ordering::Relaxed)) {
            Ok(number) => Name(number),
            Err(_) => self.intern(),
        }
    }

    #[cold]
    fn intern(&self) -> Name {
        let name = Name::intern(self.text);
        self.number.store(name.0.into(), Ordering::Relaxed);
        name
    }
}

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A lease, named after the origin of its memory.
    Lease,
    /// A slice, transpose, reshape or view of another lease.
    SubLease,
    /// An export, named after its receiver.
    Export,
}

impl Kind {
    /// Its name in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lease => "lease",
            Self::SubLease => "sub-lease",
            Self::Export => "export",
        }
    }
}

/// A slot, known to its one holder. [`remove`] returns it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Slot(usize);

struct Record {
    serial: NonZeroU64,
    /// Slot of the lease that this one keeps, or its own.
    of: usize,
    address: u64,
    nbytes: u64,
    /// Hundredths of a second on the monotonic clock: enough for 497 days of uptime.
    since: u32,
    who: Name,
    kind: Kind,
}

struct Book {
    records: Slab<Record>,
    /// The first is number 1: 0 is `Name::UNKNOWN`.
    names: Vec<Box<str>>,
    last: NonZeroU64,
    leaked: u64,
}

impl Book {
    /// Finds a name, or adds it if there are fewer than `most`.
    fn intern(&mut self, text: &str, most: usize) -> Name {
        let known = self.names.iter().position(|name| **name == *text);
        let number = known.or_else(|| {
            let number = self.names.len();
            (number < most).then(|| self.names.push(text.into())).map(|()| number)
        });
        number.and_then(|number| u16::try_from(number + 1).ok()).map_or(Name::UNKNOWN, Name)
    }

    fn text(&self, name: Name) -> Box<str> {
        let position = usize::from(name.0).checked_sub(1);
        position
            .and_then(|position| self.names.get(position))
            .map_or("something".into(), Clone::clone)
    }
}

static BOOK: ProcessLock<Book> = ProcessLock::new(Book {
    records: Slab::new(),
    names: Vec::new(),
    last: NonZeroU64::MIN,
    leaked: 0,
});

fn book() -> MutexGuard<'static, Book> {
    BOOK.lock()
}

/// Hundredths of a second since a fixed time, from a clock that takes 5 ns to read.
fn now() -> u32 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC_COARSE).map_or(Duration::ZERO, Into::into);
    u32::try_from(time.as_millis() / 10).unwrap_or(u32::MAX)
}

pub(crate) fn insert(
    kind: Kind,
    who: Name,
    (address, nbytes): (u64, u64),
    of: Option<&Slot>,
) -> Slot {
    let since = now();
    let mut book = book();
    book.last = book.last.saturating_add(1);
    let serial = book.last;
    let entry = book.records.vacant_entry();
    let slot = entry.key();
    let of = of.map_or(slot, |parent| parent.0);
    entry.insert(Record { serial, of, address, nbytes, since, who, kind });
    Slot(slot)
}

pub(crate) fn remove(slot: &Slot) {
    book().records.try_remove(slot.0);
}

/// Which entry a slot holds now: its index and serial, which together are never used twice.
pub(crate) fn identify(slot: &Slot) -> (usize, u64) {
    (slot.0, book().records.get(slot.0).map_or(0, |record| record.serial.get()))
}

/// Whether that entry is still alive.
pub(crate) fn is_live((index, serial): (usize, u64)) -> bool {
    book().records.get(index).is_some_and(|record| record.serial.get() == serial)
}

/// Counts an owner that was leaked because its runtime had ended.
pub fn count_leak() {
    let mut book = book();
    book.leaked = book.leaked.saturating_add(1);
}

/// One line of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Grows with each entry; never used twice.
    pub serial: u64,
    /// Lease, sub-lease or export.
    pub kind: Kind,
    /// The origin of a lease, or the holder of an export.
    pub who: Box<str>,
    /// Serial of the lease that a sub-lease or an export keeps; its own for a lease.
    pub of: u64,
    /// The lowest byte reachable.
    pub address: u64,
    /// Bytes from there to the highest.
    pub nbytes: u64,
    /// Its age.
    pub age: Duration,
}

/// The ledger at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// All entries, oldest first.
    pub entries: Vec<Entry>,
    /// Owners that were leaked on purpose because their runtime had ended.
    pub leaked: u64,
}

/// Returns all entries.
#[must_use]
pub fn snapshot() -> Snapshot {
    let now = now();
    let book = book();
    let entry = |record: &Record| {
        let of = book.records.get(record.of).map_or(record.serial, |parent| parent.serial);
        Entry {
            serial: record.serial.get(),
            kind: record.kind,
            who: book.text(record.who),
            of: of.get(),
            address: record.address,
            nbytes: record.nbytes,
            age: Duration::from_millis(u64::from(now.saturating_sub(record.since)) * 10),
        }
    };
    let mut entries: Vec<_> = book.records.iter().map(|(_, record)| entry(record)).collect();
    let leaked = book.leaked;
    drop(book);
    entries.sort_unstable_by_key(|entry| entry.serial);
    Snapshot { entries, leaked }
}

/// How many leases, sub-leases and exports are alive.
#[must_use]
pub fn live() -> usize {
    book().records.len()
}

/// The origin of a lease, or of the lease that it is a part of.
pub(crate) fn origin(slot: &Slot) -> Box<str> {
    let book = book();
    let mut key = slot.0;
    while let Some(record) = book.records.get(key) {
        if record.of == key {
            return book.text(record.who);
        }
        key = record.of;
    }
    book.text(Name::UNKNOWN)
}

/// The exports and sub-leases of a lease as text, such as `torch and 2 sub-leases`.
pub(crate) fn holders(slot: &Slot) -> Box<str> {
    let book = book();
    let mut names: Vec<(Kind, Name, usize)> = Vec::new();
    for (key, record) in &book.records {
        if record.of == slot.0 && key != slot.0 {
            match names.iter_mut().find(|(kind, who, _)| (*kind, *who) == (record.kind, record.who))
            {
                Some((_, _, count)) => *count += 1,
                None => names.push((record.kind, record.who, 1)),
            }
        }
    }
    if names.is_empty() {
        return "another thread's call".into();
    }
    let words: Vec<String> = names
        .into_iter()
        .map(|(kind, who, count)| match (kind, count) {
            (Kind::Export, 1) => book.text(who).into(),
            (Kind::Export, count) => format!("{} ({count} times)", book.text(who)),
            (_, 1) => format!("a {} ({})", kind.name(), book.text(who)),
            (_, count) => format!("{count} {}s ({})", kind.name(), book.text(who)),
        })
        .collect();
    words.join(" and ").into()
}
