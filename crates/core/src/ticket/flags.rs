//! Order between processes: numbers in shared memory that streams write and wait for.
//!
//! If the bytes of a lease are not ready when its ticket is made, a stream of the lender waits for them and then writes a number into a page
//! that lender and borrower share. A stream of the borrower waits for that number, and the claimed lease for the stream.
//! No host waits. An event of another process would hang its waiter for ever if that process dies; a number can be written by
//! anybody: the borrower's [watch](crate::ticket::watch) does so when the lender has ended, after it has marked the lease as lost.
//!
//! A slot of the page is used again when its number has come. Numbers of a slot only grow.

use std::mem;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::driver::driver;
use crate::error::Error;
use crate::fork::ProcessLock;
use crate::host::{SharedFile, SharedPages};
use crate::lease::Lease;
use crate::stream::{Event, Stream};

/// Bytes of the page.
pub(super) const BYTES: u64 = 4096;
/// How many numbers it has.
const SLOTS: u32 = 1024;
/// So many streams of a device are used for numbers.
const MOST_STREAMS: usize = 32;

/// A shared page, registered with the driver.
#[derive(Debug)]
pub(super) struct Page {
    file: SharedFile,
    pages: SharedPages,
    /// Its address for devices.
    device: u64,
}

impl Page {
    /// Maps and registers a page of this process, or one that came from a lender.
    pub(super) fn new(file: SharedFile, on: u8) -> Result<Self, Error> {
        let pages = file.map(true)?;
        let driver = driver()?;
        let _entered = driver.enter(on)?;
        let _relaxed = driver.relax()?;
        // SAFETY: the pages are unmapped after they are no longer registered.
        let device = unsafe { driver.register(pages.address(), BYTES) }?;
        Ok(Self { file, pages, device })
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.descriptor().as_fd()
    }

    fn slot(&self, slot: u32) -> &AtomicU32 {
        let start = usize::try_from(self.pages.address()).unwrap_or(0);
        let place =
            ptr::with_exposed_provenance_mut::<u32>(start).wrapping_add(slot as usize % 1024);
        // SAFETY: the slot is inside the page, aligned, and mapped as long as `self`; other processes write it atomically.
        unsafe { AtomicU32::from_ptr(place) }
    }

    /// Whether a number, or a later one, has come.
    pub(super) fn has(&self, slot: u32, value: u32) -> bool {
        let found = self.slot(slot).load(Ordering::Acquire);
        found.wrapping_sub(value) < 1 << 31
    }

    /// Writes a number in the place of a lender that has ended.
    pub(super) fn release(&self, slot: u32, value: u32) {
        self.slot(slot).store(value, Ordering::Release);
    }

    fn address(&self, slot: u32) -> u64 {
        self.device + 4 * u64::from(slot)
    }

    /// An event after a number has come, on a stream of this process.
    pub(super) fn event(&self, on: u8, slot: u32, value: u32) -> Result<Arc<Event>, Error> {
        let stream = free_stream(on)?;
        let driver = driver()?;
        let _entered = driver.enter(on)?;
        let _relaxed = driver.relax()?;
        // SAFETY: the stream is ours; a page is never unregistered while something waits for it.
        unsafe { driver.wait_for_value(stream.handle(), self.address(slot), value) }?;
        stream.record().map(Arc::new)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // If the driver fails here, it has ended.
        let _ = driver().and_then(|driver| {
            // SAFETY: it was registered by `new`, and who waits for a number keeps the page.
            unsafe { driver.unregister(self.pages.address()) }
        });
    }
}

/// The numbers of this process, as a lender.
struct Numbers {
    page: Option<Arc<Page>>,
    /// The last number of each slot that was ever used.
    last: Vec<u32>,
    free: Vec<u32>,
    /// Slots that nobody needs any more, and whose number has not come yet.
    retired: Vec<u32>,
}

static NUMBERS: ProcessLock<Numbers> = ProcessLock::with(
    Numbers { page: None, last: Vec::new(), free: Vec::new(), retired: Vec::new() },
    |numbers| {
        // The driver is the parent's.
        mem::forget(numbers.page.take());
        numbers.last.clear();
        numbers.free.clear();
        numbers.retired.clear();
    },
);

/// Streams for numbers, by device.
static STREAMS: ProcessLock<Vec<(u8, Stream)>> =
    ProcessLock::with(Vec::new(), |all| mem::forget(mem::take(all)));

/// A stream on which nothing waits, so that one late number does not hold another back. If there are too many, any.
fn free_stream(device: u8) -> Result<Stream, Error> {
    let all: Vec<Stream> = {
        let all = STREAMS.lock();
        all.iter().filter(|(of, _)| *of == device).map(|(_, stream)| stream.clone()).collect()
    };
    let driver = driver()?;
    driver.only_look(true);
    let idle = all.iter().find(|stream| stream.is_idle_now()).cloned();
    driver.only_look(crate::stream::is_reaper());
    if let Some(idle) = idle {
        return Ok(idle);
    }
    if let Some(any) = all.first().filter(|_| all.len() >= MOST_STREAMS) {
        return Ok(any.clone());
    }
    let made = Stream::create(device, false)?;
    STREAMS.lock().push((device, made.clone()));
    Ok(made)
}

/// A number that says when bytes are ready.
#[derive(Debug)]
pub(super) struct Flag {
    page: Arc<Page>,
    slot: u32,
    value: u32,
}

impl Flag {
    /// The slot and the number, if it has not come yet.
    pub(super) fn pending(&self) -> Option<(u32, u32)> {
        (!self.page.has(self.slot, self.value)).then_some((self.slot, self.value))
    }

    pub(super) const fn page(&self) -> &Arc<Page> {
        &self.page
    }
}

impl Drop for Flag {
    fn drop(&mut self) {
        let mut numbers = NUMBERS.lock();
        match self.page.has(self.slot, self.value) {
            true => numbers.free.push(self.slot),
            // An earlier number that comes after a later one would take it back.
            false => numbers.retired.push(self.slot),
        }
    }
}

/// A number that comes when the bytes of a lease are ready; none if they are. `writes`: the borrower may write.
pub(super) fn flag(lease: &Lease, writes: bool) -> Result<Option<Arc<Flag>>, Error> {
    let Some(timeline) = lease.timeline() else { return Ok(None) };
    if lease.looks_ready_for(writes)? {
        return Ok(None);
    }
    let device = timeline.device();
    let Some(flag) = take(device)? else {
        // As many wait as there are slots.
        lease.wait_until_ready()?;
        return Ok(None);
    };
    let stream = free_stream(device)?;
    timeline.ready_for(&stream, writes)?;
    let driver = driver()?;
    let _entered = driver.enter(device)?;
    let _relaxed = driver.relax()?;
    // SAFETY: the stream is ours, and the page of this process is never unregistered.
    unsafe { driver.write_value(stream.handle(), flag.page.address(flag.slot), flag.value) }?;
    Ok(Some(Arc::new(flag)))
}

/// A slot that is free, with its next number.
fn take(device: u8) -> Result<Option<Flag>, Error> {
    let known = NUMBERS.lock().page.clone();
    let page = match known {
        Some(page) => page,
        None => {
            let made = Arc::new(Page::new(SharedFile::new(BYTES)?, device)?);
            // If another thread was faster, its page is used.
            let mut numbers = NUMBERS.lock();
            let page = Arc::clone(numbers.page.get_or_insert_with(|| Arc::clone(&made)));
            drop(numbers);
            page
        }
    };
    let mut numbers = NUMBERS.lock();
    let Numbers { last, free, retired, .. } = &mut *numbers;
    retired.retain(|slot| {
        let come = page.has(*slot, last[*slot as usize]);
        if come {
            free.push(*slot);
        }
        !come
    });
    let next = || u32::try_from(last.len()).ok().filter(|slot| *slot < SLOTS);
    let Some(slot) = free.pop().or_else(next) else { return Ok(None) };
    if slot as usize == last.len() {
        last.push(0);
    }
    last[slot as usize] = last[slot as usize].wrapping_add(1);
    let value = last[slot as usize];
    drop(numbers);
    Ok(Some(Flag { page, slot, value }))
}
