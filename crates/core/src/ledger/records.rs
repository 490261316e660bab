//! The lines of the ledger: one record for each lease and export, written without a lock.
//!
//! Each hand-over writes a line and removes it, so this is a part of the price of every borrow. A lock for either would cost more
//! than the writing.
//!
//! # How it works
//!
//! Records are allocated in blocks, which are never freed. A free record belongs to the thread that has it in its store, or to the
//! common one, behind a lock, which is asked for 16 at a time. The thread that takes a record is the only one to write it, until
//! it removes the line or hands the lease to another thread. Others read it only for a [`snapshot`].
//!
//! # Order
//!
//! A serial is never used twice, and 0 says that a record is free. A line is written in three steps: the serial is 0, the fields,
//! the new serial. A reader reads the serial before and after the fields. If both are the same and not 0, all fields are of that
//! line:
//!
//! - It read the serial with `Acquire`, which was stored with `Release` after the fields: it sees these fields or later ones.
//! - Later ones are stored after a `Release` fence that follows the store of 0. A reader that saw one of them sees that 0, or what
//!   came after it, when it reads the serial again after its `Acquire` fence. So the serials differ.
#![forbid(unsafe_code)]

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::{Kind, Name};
use crate::fork::ProcessLock;

/// The memory of one line.
#[derive(Debug, Default)]
pub(crate) struct Record {
    serial: AtomicU64,
    of: AtomicU64,
    address: AtomicU64,
    nbytes: AtomicU64,
    /// Age, name and kind: see [`Line::packed`].
    about: AtomicU64,
}

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) serial: u64,
    /// Serial of the lease that this one keeps, or its own.
    pub(super) of: u64,
    pub(super) address: u64,
    pub(super) nbytes: u64,
    /// Hundredths of a second on the monotonic clock: enough for 497 days of uptime.
    pub(super) since: u32,
    pub(super) who: Name,
    pub(super) kind: Kind,
}

impl Line {
    const fn packed(since: u32, who: Name, kind: Kind) -> u64 {
        (since as u64) << 32 | (who.0 as u64) << 8 | kind as u64
    }

    const fn unpacked(about: u64) -> (u32, Name, Kind) {
        let kind = match about & 0xFF {
            0 => Kind::Lease,
            1 => Kind::SubLease,
            _ => Kind::Export,
        };
        ((about >> 32) as u32, Name((about >> 8 & 0xFFFF) as u16), kind)
    }
}

impl Record {
    /// Writes a line into a free record, and returns its serial. `of` is the serial of the lease that it keeps.
    #[inline]
    pub(super) fn write(
        &self,
        (address, nbytes): (u64, u64),
        of: Option<u64>,
        (since, who, kind): (u32, Name, Kind),
    ) -> u64 {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let serial = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        fence(Ordering::Release);
        self.of.store(of.unwrap_or(serial), Ordering::Relaxed);
        self.address.store(address, Ordering::Relaxed);
        self.nbytes.store(nbytes, Ordering::Relaxed);
        self.about.store(Line::packed(since, who, kind), Ordering::Relaxed);
        self.serial.store(serial, Ordering::Release);
        serial
    }

    /// Which line it holds; 0 if none.
    pub(super) fn serial(&self) -> u64 {
        self.serial.load(Ordering::Acquire)
    }

    /// The memory that its line is about, for the holder of the line.
    pub(super) fn extent(&self) -> (u64, u64) {
        (self.address.load(Ordering::Relaxed), self.nbytes.load(Ordering::Relaxed))
    }

    /// The line, unless there is none, or it changes meanwhile: then it is not the one that was there.
    pub(super) fn read(&self) -> Option<Line> {
        let serial = self.serial.load(Ordering::Acquire);
        let of = self.of.load(Ordering::Relaxed);
        let address = self.address.load(Ordering::Relaxed);
        let nbytes = self.nbytes.load(Ordering::Relaxed);
        let about = self.about.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let (since, who, kind) = Line::unpacked(about);
        (serial != 0 && self.serial.load(Ordering::Relaxed) == serial).then_some(Line {
            serial,
            of,
            address,
            nbytes,
            since,
            who,
            kind,
        })
    }
}

/// How many free records a thread keeps.
const KEPT: usize = 32;
/// How many it takes from the common store, or gives to it, at a time.
const MOVED: usize = 16;
/// How many a new block has.
const BLOCK: usize = 512;

/// All records, and those that no thread keeps.
struct Store {
    blocks: Vec<&'static [Record]>,
    free: Vec<&'static Record>,
}

static STORE: ProcessLock<Store> = ProcessLock::new(Store { blocks: Vec::new(), free: Vec::new() });

/// A thread's own free records.
struct Free {
    count: Cell<usize>,
    records: [Cell<Option<&'static Record>>; KEPT],
}

impl Free {
    #[inline]
    fn take(&self) -> Option<&'static Record> {
        let count = self.count.get().checked_sub(1)?;
        self.count.set(count);
        self.records.get(count)?.take()
    }

    /// Whether there was room for it.
    #[inline]
    fn put(&self, record: &'static Record) -> bool {
        let count = self.count.get();
        let Some(place) = self.records.get(count) else { return false };
        place.set(Some(record));
        self.count.set(count + 1);
        true
    }
}

impl Drop for Free {
    fn drop(&mut self) {
        let mut store = STORE.lock();
        store.free.extend(std::iter::from_fn(|| self.take()));
    }
}

thread_local! {
    static FREE: Free =
        const { Free { count: Cell::new(0), records: [const { Cell::new(None) }; KEPT] } };
}

/// A free record, which is the caller's until [`put`].
#[inline]
pub(super) fn take() -> &'static Record {
    // A thread that ends has no store any more.
    FREE.try_with(Free::take).ok().flatten().unwrap_or_else(refill)
}

/// Takes records from the common store, and returns one of them.
#[cold]
fn refill() -> &'static Record {
    let mut store = STORE.lock();
    if store.free.len() < MOVED {
        let block: &'static [Record] = Vec::leak((0..BLOCK).map(|_| Record::default()).collect());
        store.blocks.push(block);
        store.free.extend(block);
    }
    let rest = store.free.len() - MOVED;
    let _ = FREE.try_with(|free| {
        for record in store.free.drain(rest..) {
            // An empty store has room for them.
            free.put(record);
        }
    });
    let record = FREE.try_with(Free::take).ok().flatten().or_else(|| store.free.pop());
    record.unwrap_or_else(|| Box::leak(Box::default()))
}

/// Removes the line from a record, which is free then.
#[inline]
pub(super) fn put(record: &'static Record) {
    record.serial.store(0, Ordering::Relaxed);
    if !FREE.try_with(|free| free.put(record)).unwrap_or(false) {
        spill(record);
    }
}

/// Gives records to the common store.
#[cold]
fn spill(record: &'static Record) {
    let mut store = STORE.lock();
    store.free.push(record);
    let _ = FREE.try_with(|free| {
        store.free.extend(std::iter::from_fn(|| free.take()).take(MOVED));
    });
}

/// All lines, in no order. Those that come or go meanwhile may be there or not.
pub(super) fn lines() -> impl Iterator<Item = Line> {
    let blocks = STORE.lock().blocks.clone();
    blocks.into_iter().flatten().filter_map(Record::read)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use super::*;

    /// A line whose fields all follow from one number, so that a mixture of two is seen.
    fn write(record: &Record, number: u64) -> u64 {
        let about = (u32::try_from(number).unwrap(), Name::UNKNOWN, Kind::Export);
        record.write((number, number), Some(number), about)
    }

    fn is_whole(line: &Line) -> bool {
        let number = line.address;
        (line.nbytes, line.of, u64::from(line.since)) == (number, number, number)
    }

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let record = Record::default();
        assert_eq!(record.read(), None);
        let serial = record.write((7, 8), None, (9, Name(258), Kind::SubLease));
        let line = Line {
            serial,
            of: serial,
            address: 7,
            nbytes: 8,
            since: 9,
            who: Name(258),
            kind: Kind::SubLease,
        };
        assert_eq!(record.read(), Some(line));
        let next = record.write((0, 0), Some(serial), (u32::MAX, Name(u16::MAX), Kind::Export));
        assert!(next > serial);
        let line = record.read().unwrap();
        assert_eq!(
            (line.since, line.who, line.kind, line.of),
            (u32::MAX, Name(u16::MAX), Kind::Export, serial)
        );
    }

    #[test]
    fn readers_never_see_a_mixture_of_two_lines() {
        static DONE: AtomicBool = AtomicBool::new(false);
        let record: &'static Record = Box::leak(Box::default());
        // The last line stays: the reader sees it, whenever its turn comes.
        let reader = thread::spawn(|| {
            loop {
                let done = DONE.load(Ordering::Acquire);
                match record.read() {
                    Some(line) => assert!(is_whole(&line), "{line:?}"),
                    None => assert!(!done, "nobody writes it any more"),
                }
                if done {
                    break;
                }
            }
        });
        for number in 1..200_000 {
            write(record, number);
            record.serial.store(0, Ordering::Relaxed);
        }
        write(record, 1);
        DONE.store(true, Ordering::Release);
        reader.join().unwrap();
    }

    #[test]
    fn no_record_is_given_to_two_threads() {
        let work = || {
            for round in 0..200_usize {
                let taken: Vec<_> = (0..round).map(|_| take()).collect();
                for record in &taken {
                    assert_eq!(record.serial(), 0, "it is somebody's");
                    write(record, 5);
                }
                // Dropped by another thread, as deleters are.
                if round % 50 == 0 {
                    thread::spawn(move || taken.into_iter().for_each(put)).join().unwrap();
                } else {
                    taken.into_iter().rev().for_each(put);
                }
            }
        };
        let threads: Vec<_> = (0..4).map(|_| thread::spawn(work)).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }

    #[test]
    fn the_records_of_a_thread_that_ended_serve_others() {
        let many = || thread::spawn(|| put(take())).join().unwrap();
        many();
        let before = STORE.lock().blocks.len();
        (0..2 * BLOCK).for_each(|_| many());
        // Other tests run beside this one, and need a few.
        assert!(STORE.lock().blocks.len() < before + 8);
    }
}
