//! The functions that compiled code calls in unusual cases.
//!
//! Each function here has the same contract, named (1) below: the context is the first field of a worker that lives during the
//! call and that nothing else uses meanwhile. Compiled code passes on the context that it received.

use std::ffi::c_int;
use std::sync::LazyLock;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::context::Context;
use super::fault::FaultKind;
use super::launch::Spot;
use super::lower::{Hooks, Site};
use super::numbers::print;
use super::pointers::is_defined;
use super::shadow::{Access, Conflict};
use super::watch;
use super::worker::Worker;
use crate::ptx::ast::Space;

/// The longest string that a kernel's `printf` may use.
const LONGEST_TEXT: u64 = 1 << 20;

/// The most that one launch may print. The rest is dropped, as with hardware's buffer.
const MOST_PRINTED: usize = 64 << 20;

/// The addresses of all of them.
pub(super) fn all() -> Hooks {
    Hooks {
        look_up: look_up as *const () as usize,
        refuse: refuse as *const () as usize,
        share: share as *const () as usize,
        stopped: stopped as *const () as usize,
        trap: trap as *const () as usize,
        wild_call: wild_call as *const () as usize,
        overflow: overflow as *const () as usize,
        print: print_text as *const () as usize,
        assert: assert_failed as *const () as usize,
        allocate: allocate as *const () as usize,
        free: free as *const () as usize,
        arrive: arrive as *const () as usize,
        copy: copy as *const () as usize,
        commit_copies: commit_copies as *const () as usize,
        wait_copies: wait_copies as *const () as usize,
        clock: clock as *const () as usize,
    }
}

/// The worker that a context is part of.
///
/// # Safety
///
/// (1).
unsafe fn worker<'a>(context: *mut Context) -> &'a mut Worker<'a> {
    // SAFETY: (1).
    unsafe { &mut *context.cast::<Worker<'a>>() }
}

fn index(site: u64) -> usize {
    usize::try_from(site).unwrap_or(usize::MAX)
}

fn verb(site: &Site) -> &'static str {
    match (site.atomic, site.writes) {
        (true, _) => "changes",
        (false, true) => "writes",
        (false, false) => "reads",
    }
}

fn bytes(count: u32) -> String {
    if count == 1 { "1 byte".to_owned() } else { format!("{count} bytes") }
}

/// The range that contains an address.
fn holding(memory: &[(u64, u64)], address: u64) -> Option<(u64, u64)> {
    let after = memory.partition_point(|(base, _)| *base <= address);
    let (base, length) = *memory.get(after.checked_sub(1)?)?;
    (address - base < length).then_some((base, length))
}

/// Looks up a device address. Returns 0 if it may be accessed.
unsafe extern "C" fn look_up(context: *mut Context, thread: u64, site: u64, address: u64) -> u64 {
    // SAFETY: (1).
    let worker = unsafe { worker(context) };
    let number = index(site);
    let size = worker.work.code.sites[number].bytes;
    worker.look_up(thread, number, address, size)
}

impl Worker<'_> {
    /// Looks up `count` bytes at a device address that a site accesses. Returns 0 if they may be accessed.
    pub(super) fn look_up(&mut self, thread: u64, number: usize, address: u64, count: u32) -> u64 {
        let code = self.work.code;
        let found = &code.sites[number];
        let size = u64::from(count);
        if found.bytes > 0 && !address.is_multiple_of(u64::from(found.bytes)) {
            self.misaligned(thread, number, address, "an address");
            return 1;
        }
        let fits = |(base, length): (u64, u64)| address - base + size <= length;
        let shared = self.context.shared as u64;
        if address >= shared && address - shared < self.context.shared_bytes {
            return self.shared_by_address(thread, number, address - shared);
        }
        let local = self.local_of(thread);
        let own = (local, self.context.local_bytes);
        let params = (self.context.params as u64, self.work.launch.params.len() as u64);
        if address >= local && address - local < own.1 && fits(own) {
            if !self.work.code.waits {
                self.remember(number, own.0, own.1);
            }
            return 0;
        }
        let readable = [params].into_iter().filter(|_| !found.writes);
        let known = holding(self.work.reach.memory, address).or_else(|| {
            readable.into_iter().find(|(base, length)| address.wrapping_sub(*base) < *length)
        });
        match known {
            Some(range) if fits(range) => {
                if found.writes && self.is_constant(address) {
                    let what =
                        format!("writes {} of constant memory at {address:#x}", bytes(count));
                    self.fail(FaultKind::OutOfBounds, thread, number, Some(address), what);
                    return 1;
                }
                if found.writes && holding(self.work.reach.read_only, address).is_some() {
                    let what = format!(
                        "{} {} at {address:#x}, which is mapped for reading only",
                        verb(found),
                        bytes(count)
                    );
                    self.fail(FaultKind::OutOfBounds, thread, number, Some(address), what);
                    return 1;
                }
                self.remember(number, range.0, range.1);
                0
            }
            Some((base, length)) => {
                let what = format!(
                    "{} {} at {address:#x}, beyond the end of {length} bytes at {base:#x}",
                    verb(found),
                    bytes(count),
                );
                self.fail(FaultKind::OutOfBounds, thread, number, Some(address), what);
                1
            }
            None => {
                let spot = self.spot(address);
                let why = match spot {
                    // Not remembered: any thread may free it at any time.
                    Spot::Live(base, length) if fits((base, length)) => return 0,
                    Spot::Live(base, length) => {
                        format!(
                            "beyond the end of {length} bytes at {base:#x} of the kernel's heap"
                        )
                    }
                    Spot::Freed => "which a kernel has freed".to_owned(),
                    Spot::Elsewhere => "where the device has no memory".to_owned(),
                };
                let what = format!("{} {} at {address:#x}, {why}", verb(found), bytes(count));
                self.fail(FaultKind::OutOfBounds, thread, number, Some(address), what);
                1
            }
        }
    }

    pub(super) fn misaligned(&mut self, thread: u64, site: usize, address: u64, of: &str) {
        let found = &self.work.code.sites[site];
        let what = format!(
            "{} {} at {address:#x}: {of} for that is a multiple of {}",
            verb(found),
            bytes(found.bytes),
            found.bytes
        );
        self.fail(FaultKind::Misaligned, thread, site, Some(address), what);
    }

    /// An access by a generic address that turns out to be shared memory.
    fn shared_by_address(&mut self, thread: u64, site: usize, offset: u64) -> u64 {
        let size = u64::from(self.work.code.sites[site].bytes);
        if offset + size > self.context.shared_bytes {
            self.beyond(thread, site, offset, Space::Shared);
            return 1;
        }
        if self.work.launch.checks.shared {
            return self.note(thread, site, offset);
        }
        let (base, length) = (self.context.shared as u64, self.context.shared_bytes);
        self.remember(site, base, length);
        0
    }

    pub(super) fn beyond(&mut self, thread: u64, site: usize, offset: u64, space: Space) {
        let found = &self.work.code.sites[site];
        let (name, length) = match space {
            Space::Shared => ("shared memory", self.context.shared_bytes),
            _ => ("the thread's own memory", self.context.local_bytes),
        };
        let what = format!(
            "{} {} of {name} at offset {}, of which there are {length}",
            verb(found),
            bytes(found.bytes),
            offset.cast_signed()
        );
        self.fail(FaultKind::OutOfBounds, thread, site, Some(offset), what);
    }

    fn is_constant(&self, address: u64) -> bool {
        let launch = self.work.launch;
        launch.program.variables().iter().zip(launch.variables.iter()).any(|(variable, base)| {
            variable.space == Space::Const && address.wrapping_sub(*base) < variable.bytes
        })
    }

    /// Records an access to shared memory. Returns 0 if there is no conflict.
    fn note(&mut self, thread: u64, site: usize, offset: u64) -> u64 {
        let found = &self.work.code.sites[site];
        if found.speculative {
            return 0;
        }
        let access = Access {
            offset: index(offset),
            bytes: found.bytes as usize,
            thread: u32::try_from(thread).unwrap_or(u32::MAX),
            writes: found.writes,
            atomic: found.atomic,
        };
        let written = self.context.written;
        let shared = self.context.shared;
        // Only asked for where there is a conflict, which is rare.
        let is_same = |at: usize, length: usize| {
            let before = at.saturating_sub(access.offset);
            let new = written.iter().flat_map(|word| word.to_le_bytes()).skip(before);
            // SAFETY: the shadow asks for pieces that it has cells for, all of which are shared memory.
            let old = (at..at + length).map(|place| unsafe { shared.wrapping_add(place).read() });
            new.take(length).eq(old)
        };
        match self.shadow.touch(access, is_same) {
            Ok(()) => 0,
            Err(conflict) => self.conflict(thread, site, access, conflict),
        }
    }

    /// Reports a conflict of an access to shared memory.
    pub(super) fn conflict(
        &self,
        thread: u64,
        site: usize,
        access: Access,
        conflict: Conflict,
    ) -> u64 {
        let found = &self.work.code.sites[site];
        let (count, offset) = (u32::try_from(access.bytes).unwrap_or(u32::MAX), access.offset);
        let did = format!("{} {} of shared memory at offset {offset}", verb(found), bytes(count));
        let by = |other: Option<u32>| match other {
            Some(other) => format!("thread {other} of the block"),
            None => "other threads of the block".to_owned(),
        };
        let (kind, what) = match conflict {
            Conflict::Unwritten if self.reads_ahead(found) => return 0,
            Conflict::Unwritten => (
                FaultKind::Uninitialised,
                format!("{did}, which no thread of the block has written"),
            ),
            Conflict::Written(other) => (
                FaultKind::Race,
                format!("{did}, which {} wrote with no barrier in between", by(other)),
            ),
            Conflict::Read(other) => (
                FaultKind::Race,
                format!("{did}, which {} read with no barrier in between", by(other)),
            ),
            Conflict::Copied(other) => (
                FaultKind::Race,
                format!(
                    "{did}, which an asynchronous copy of {} still writes: it has not waited for it",
                    by(Some(other))
                ),
            ),
        };
        self.fail(kind, thread, site, Some(offset as u64), what);
        1
    }

    /// Whether it is CUB's merge of sorted keys, which reads the key behind the last one and never looks at it.
    fn reads_ahead(&self, site: &Site) -> bool {
        let file = site.source.and_then(|from| self.work.launch.program.files().get(&from.file));
        file.is_some_and(|file| file.ends_with("/cub/block/block_merge_sort.cuh"))
    }

    /// What is at an address in the heap.
    fn spot(&self, address: u64) -> Spot {
        self.work.heap.map_or(Spot::Elsewhere, |heap| heap.find(address))
    }

    /// The C string at an address.
    fn text(&self, address: u64, thread: u64) -> Option<Vec<u8>> {
        let local = (self.local_of(thread), self.context.local_bytes);
        let inside = |(base, length): &(u64, u64)| address.wrapping_sub(*base) < *length;
        let allocated = match self.spot(address) {
            Spot::Live(base, length) => Some((base, length)),
            Spot::Freed | Spot::Elsewhere => None,
        };
        let known = holding(self.work.reach.memory, address).or(allocated);
        let range = known.or(Some(local).filter(inside))?;
        let most = (range.0 + range.1 - address).min(LONGEST_TEXT);
        let mut text = Vec::new();
        for place in address..address + most {
            // SAFETY: it is in memory that the launch may touch, in its heap, which stays mapped, or in the thread's
            // local memory.
            let byte = unsafe { (place as *const u8).read() };
            if byte == 0 {
                return Some(text);
            }
            text.push(byte);
        }
        Some(text)
    }
}

/// An access to shared or local memory is out of range or not aligned.
unsafe extern "C" fn refuse(context: *mut Context, thread: u64, site: u64, offset: u64) -> u64 {
    // SAFETY: (1).
    let worker = unsafe { worker(context) };
    let site = index(site);
    let found = &worker.work.code.sites[site];
    let (space, size) = (found.space, u64::from(found.bytes));
    let length = match space {
        Space::Shared => worker.context.shared_bytes,
        _ => worker.context.local_bytes,
    };
    if offset.checked_add(size).is_some_and(|end| end <= length) {
        worker.misaligned(thread, site, offset, "an offset");
    } else {
        worker.beyond(thread, site, offset, space);
    }
    1
}

/// Records an access to shared memory.
unsafe extern "C" fn share(context: *mut Context, thread: u64, site: u64, offset: u64) -> u64 {
    // SAFETY: (1).
    let worker = unsafe { worker(context) };
    if offset >= worker.context.shared_bytes {
        // Without memory checks, the bounds were not checked before.
        return 0;
    }
    worker.note(thread, index(site), offset)
}

/// The launch must end. If it exceeded its time limit, records where.
unsafe extern "C" fn stopped(context: *mut Context, thread: u64, site: u64) {
    // SAFETY: (1).
    let worker = unsafe { worker(context) };
    if worker.work.outcome.stop.load(Ordering::Relaxed) == watch::LATE {
        let what = "is endless here, or waits for another thread, or has not ended";
        worker.late(thread, index(site), what);
    }
}

/// `trap`.
unsafe extern "C" fn trap(context: *mut Context, thread: u64, site: u64) {
    // SAFETY: (1).
    let worker = unsafe { worker(context) };
    worker.fail(FaultKind::Trap, thread, index(site), None, "trap".to_owned());
}

/// An indirect call reaches no function of its prototype.
unsafe extern "C" fn wild_call(context: *mut Context, thread: u64, site: u64, address: u64) {
    // SAFETY: (1).
    let worker = unsafe { worker(context) };
    let what = match worker.work.launch.program.function_at(address) {
        Some(found) if is_defined(found) => format!(
            "calls {} as a function with other parameters or results than it has",
            found.name
        ),
        Some(found) => format!("calls {}, which is defined nowhere", found.name),
        None => format!("calls a function at {address:#x}, where there is none"),
    };
    worker.fail(FaultKind::WildCall, thread, index(site), None, what);
}

/// Calls are nested too deep.
unsafe extern "C" fn overflow(context: *mut Context, thread: u64, site: u64) {
    // SAFETY: (1).
    let worker = unsafe { worker(context) };
    let frame = worker.work.code.frame_bytes;
    let here = &raw const frame as u64;
    let what = if here <= worker.context.floor {
        format!(
            "calls are nested too deep for the host's stack, of which a call takes up to {frame} bytes"
        )
    } else {
        format!("calls are nested too deep for {} bytes of stack", worker.context.local_bytes)
    };
    worker.fail(FaultKind::StackOverflow, thread, index(site), None, what);
}

/// `bar.arrive`.
unsafe extern "C" fn arrive(
    context: *mut Context,
    _thread: u64,
    _site: u64,
    id: u64,
    _threads: u64,
) {
    // SAFETY: (1).
    let worker = unsafe { worker(context) };
    if let Some(count) = worker.arrived.get_mut(index(id)) {
        *count += 1;
    }
}

/// `cp.async`. Returns 0 if it is valid.
unsafe extern "C" fn copy(
    context: *mut Context,
    thread: u64,
    site: u64,
    to: u64,
    from: u64,
    taken: u64,
) -> u64 {
    // SAFETY: (1).
    let worker = unsafe { worker(context) };
    worker.begin_copy(thread, index(site), to, from, taken)
}

/// `cp.async.commit_group`.
unsafe extern "C" fn commit_copies(context: *mut Context, thread: u64) {
    // SAFETY: (1).
    let worker = unsafe { worker(context) };
    worker.commit_copies(index(thread));
}

/// `cp.async.wait_group`, or with -1 `cp.async.wait_all`.
unsafe extern "C" fn wait_copies(context: *mut Context, thread: u64, left: u64) {
    // SAFETY: (1).
    let worker = unsafe { worker(context) };
    let left = if left == u64::MAX { None } else { Some(index(left)) };
    worker.end_copies(index(thread), left);
}

/// `vprintf`.
unsafe extern "C" fn print_text(
    context: *mut Context,
    text: u64,
    arguments: u64,
    thread: u64,
    local: u64,
) -> c_int {
    // SAFETY: (1).
    let worker = unsafe { worker(context) };
    let Some(text) = worker.text(text, thread) else { return -1 };
    // Arguments are in the thread's local memory, up to its end.
    let most = (local + worker.context.local_bytes).saturating_sub(arguments);
    let packed: Vec<u8> = if arguments >= local {
        // SAFETY: the thread's memory is that long.
        (arguments..arguments + most).map(|place| unsafe { (place as *const u8).read() }).collect()
    } else {
        Vec::new()
    };
    let line = print::format(&text, &packed, &mut |address| worker.text(address, thread));
    let count = c_int::try_from(line.len()).unwrap_or(c_int::MAX);
    let mut printed = worker.work.outcome.printed.lock().unwrap_or_else(PoisonError::into_inner);
    if printed.len() + line.len() <= MOST_PRINTED {
        printed.extend(line);
    }
    count
}

/// `malloc`.
unsafe extern "C" fn allocate(context: *mut Context, bytes: u64) -> u64 {
    // SAFETY: (1).
    let worker = unsafe { worker(context) };
    worker.work.heap.map_or(0, |heap| heap.allocate(bytes))
}

/// `free`. Returns 0 if it is valid.
unsafe extern "C" fn free(context: *mut Context, thread: u64, site: u64, address: u64) -> u64 {
    // SAFETY: (1).
    let worker = unsafe { worker(context) };
    if address == 0 {
        return 0;
    }
    let freed = worker.work.heap.map_or(Err("and has no heap"), |heap| heap.free(address));
    let Err(why) = freed else { return 0 };
    let what = format!("frees {address:#x}, {why}");
    worker.fail(FaultKind::BadFree, thread, index(site), Some(address), what);
    1
}

/// `__assertfail`.
unsafe extern "C" fn assert_failed(
    context: *mut Context,
    thread: u64,
    site: u64,
    message: u64,
    file: u64,
    line: u64,
    function: u64,
) {
    // SAFETY: (1).
    let worker = unsafe { worker(context) };
    let say = |address: u64| {
        let text = worker.text(address, thread).unwrap_or_else(|| b"?".to_vec());
        String::from_utf8_lossy(&text).into_owned()
    };
    let what =
        format!("assertion `{}` failed ({}:{line}, in {})", say(message), say(file), say(function));
    worker.fail(FaultKind::Assertion, thread, index(site), None, what);
}

/// Nanoseconds since a fixed time.
extern "C" fn clock() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(START.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
