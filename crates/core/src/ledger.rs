//! The ledger: all leases and exports of the process, with holder and age.
//!
//! It is always on. Each lease and each export has one line (`records.rs`), written and removed
//! in constant time without a lock; texts are put together only for a snapshot. Names are behind a
//! private lock, which is never held while foreign code runs, so a deleter may take it on any thread.
#![forbid(unsafe_code)]

mod records;

use std::sync::MutexGuard;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use crate::fork::ProcessLock;
use records::{Line, Record};

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

/// A line of the ledger, known to its one holder. [`remove`] returns it.
#[derive(Debug)]
pub(crate) struct Slot(&'static Record);

struct Book {
    /// The first is number 1: 0 is `Name::UNKNOWN`.
    names: Vec<Box<str>>,
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

static BOOK: ProcessLock<Book> = ProcessLock::new(Book { names: Vec::new(), leaked: 0 });

fn book() -> MutexGuard<'static, Book> {
    BOOK.lock()
}

/// Hundredths of a second since a fixed time, from a clock that takes 5 ns to read.
fn now() -> u32 {
    clock_gettime(ClockId::CLOCK_MONOTONIC_COARSE).map_or(0, |time| {
        let hundredths = time.tv_sec() * 100 + time.tv_nsec() / 10_000_000;
        u32::try_from(hundredths).unwrap_or(u32::MAX)
    })
}

/// Writes a line. `of` is that of the lease that this one keeps.
pub(crate) fn insert(kind: Kind, who: Name, extent: (u64, u64), of: Option<&Slot>) -> Slot {
    let record = records::take();
    record.write(extent, of.map(|lease| lease.0.serial()), (now(), who, kind));
    Slot(record)
}

/// Writes a line for an export of all of a lease's memory.
pub(crate) fn insert_export(who: Name, of: &Slot) -> Slot {
    insert(Kind::Export, who, of.0.extent(), Some(of))
}

/// Removes a line; its holder does so once.
pub(crate) fn remove(slot: &Slot) {
    records::put(slot.0);
}

/// Which line a slot holds now, whatever the slot is used for later.
#[derive(Clone, Copy)]
pub(crate) struct Identity(&'static Record, u64);

impl Identity {
    pub(crate) fn of(slot: &Slot) -> Self {
        Self(slot.0, slot.0.serial())
    }

    /// Whether that line is still there.
    pub(crate) fn is_live(self) -> bool {
        self.1 != 0 && self.0.serial() == self.1
    }
}

/// Owners that wait for the end of GPU work.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// Counts an owner that waits for the end of GPU work.
pub(crate) fn count_waiting() {
    WAITING.fetch_add(1, Ordering::Relaxed);
}

/// Ends what [`count_waiting`] counted.
pub(crate) fn count_waited() {
    WAITING.fetch_sub(1, Ordering::Relaxed);
}

/// How many owners wait for the end of GPU work.
pub(crate) fn waiting() -> usize {
    WAITING.load(Ordering::Relaxed)
}

/// In a forked child nobody waits: the owners stayed with the parent.
pub(crate) fn forget_waiting() {
    WAITING.store(0, Ordering::Relaxed);
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
    /// Owners of memory that was dropped and is released when the GPU work on it is done.
    pub waiting: usize,
    /// Owners that were leaked on purpose because their runtime had ended.
    pub leaked: u64,
}

/// Returns all entries.
#[must_use]
pub fn snapshot() -> Snapshot {
    let now = now();
    let mut lines: Vec<Line> = records::lines().collect();
    lines.sort_unstable_by_key(|line| line.serial);
    let book = book();
    let entry = |line: &Line| Entry {
        serial: line.serial,
        kind: line.kind,
        who: book.text(line.who),
        of: line.of,
        address: line.address,
        nbytes: line.nbytes,
        age: Duration::from_millis(u64::from(now.saturating_sub(line.since)) * 10),
    };
    let entries = lines.iter().map(entry).collect();
    Snapshot { entries, waiting: WAITING.load(Ordering::Relaxed), leaked: book.leaked }
}

/// How many leases, sub-leases and exports are alive.
#[must_use]
pub fn live() -> usize {
    records::lines().count()
}

/// The origin of a lease, or of the lease that it is a part of.
pub(crate) fn origin(slot: &Slot) -> Box<str> {
    let mut line = slot.0.read();
    while let Some(Line { serial, of, .. }) = line
        && of != serial
    {
        line = records::lines().find(|line| line.serial == of);
    }
    line.map_or(Name::UNKNOWN, |line| line.who).text()
}

/// The exports and sub-leases of a lease as text, such as `torch and 2 sub-leases`.
pub(crate) fn holders(slot: &Slot) -> Box<str> {
    let lease = slot.0.serial();
    let mut held: Vec<Line> = records::lines().collect();
    held.retain(|line| line.of == lease && line.serial != lease);
    held.sort_unstable_by_key(|line| line.serial);
    let mut names: Vec<(Kind, Name, usize)> = Vec::new();
    for line in held {
        match names.iter_mut().find(|(kind, who, _)| (*kind, *who) == (line.kind, line.who)) {
            Some((_, _, count)) => *count += 1,
            None => names.push((line.kind, line.who, 1)),
        }
    }
    if names.is_empty() {
        return "a call in progress".into();
    }
    let book = book();
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
