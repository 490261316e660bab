//! Bytes at addresses: the memory of the machine, and that of its callers.
//!
//! This is the only module below `api` that touches memory by address. It takes [`Range`]s, and a `Range`
//! exists only if its creator guarantees its bytes.

mod mapping;

use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use gpulend_common::page_size;

pub use self::mapping::{Mapping, memory_file};

/// How many pages one question to the kernel is about.
const PAGES: usize = 4096;

/// Who guarantees that the bytes of a range exist.
#[derive(Clone, Debug)]
enum Keeper {
    /// The machine's memory, kept mapped.
    Mapping { _kept: Arc<Mapping> },
    /// A read-only copy made at the time of the call.
    Staged { _kept: Arc<[u8]> },
    /// The caller of the driver function, as CUDA's rules require.
    Caller,
}

/// Bytes that may be read and written until the range is dropped.
#[derive(Clone, Debug)]
pub struct Range {
    address: usize,
    bytes: usize,
    keeper: Keeper,
}

impl Range {
    /// Returns a range of a mapping, or `None` if it is not inside.
    #[must_use]
    pub fn of_mapping(mapping: &Arc<Mapping>, address: usize, bytes: usize) -> Option<Self> {
        let offset = address.checked_sub(mapping.address())?;
        let end = offset.checked_add(bytes)?;
        let keeper = Keeper::Mapping { _kept: Arc::clone(mapping) };
        (end <= mapping.bytes()).then_some(Self { address, bytes, keeper })
    }

    /// Makes a range of the caller's memory.
    ///
    /// # Safety
    ///
    /// 1. The bytes stay readable, and writable if the operation they are for writes them, until that operation is
    ///    complete; or reading or writing them ends the process as it would with a real driver.
    #[must_use]
    pub unsafe fn of_caller(address: usize, bytes: usize) -> Self {
        Self { address, bytes, keeper: Keeper::Caller }
    }

    /// Copies the current bytes, for an operation that runs later.
    #[must_use]
    pub fn staged(&self) -> Self {
        let mut copy = vec![0_u8; self.bytes];
        // SAFETY: the creator of the range guarantees that it can be read; the vector is as long, and not shared.
        unsafe { ptr::copy_nonoverlapping(at(self.address), copy.as_mut_ptr(), self.bytes) };
        let kept: Arc<[u8]> = copy.into();
        Self {
            address: kept.as_ptr().addr(),
            bytes: self.bytes,
            keeper: Keeper::Staged { _kept: kept },
        }
    }

    /// Keeps a copy of bytes for an operation.
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Self {
        let kept: Arc<[u8]> = bytes.into();
        Self {
            address: kept.as_ptr().expose_provenance(),
            bytes: bytes.len(),
            keeper: Keeper::Staged { _kept: kept },
        }
    }

    /// Returns a part of the range, or `None` if it is not inside.
    #[must_use]
    pub fn part(&self, offset: usize, bytes: usize) -> Option<Self> {
        self.holds(offset, bytes).then(|| Self {
            address: self.address + offset,
            bytes,
            keeper: self.keeper.clone(),
        })
    }

    /// Returns the address of the first byte.
    #[must_use]
    pub fn address(&self) -> usize {
        self.address
    }

    /// Returns the number of bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether the kernel allows writing, as far as a quick check shows. It checks all pages up to 1
    /// MiB, and the first and last pages of a larger range. The machine's own memory is always writable.
    #[must_use]
    pub fn may_be_written(&self) -> bool {
        const WHOLE: usize = 1 << 20;
        if !matches!(self.keeper, Keeper::Caller) || self.bytes == 0 {
            return self.is_writable();
        }
        let end = self.address + self.bytes;
        if self.bytes <= WHOLE {
            return populate(self.address, end);
        }
        populate(self.address, self.address + 1) && populate(end - 1, end)
    }

    /// Returns whether it is the machine's own memory, which no caller can unmap.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        !matches!(self.keeper, Keeper::Caller)
    }

    /// Returns whether every page of the range is mapped.
    ///
    /// The machine's own memory always is. A caller's address can be anything.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        if !matches!(self.keeper, Keeper::Caller) || self.bytes == 0 {
            return true;
        }
        let Some(end) = self.address.checked_add(self.bytes) else { return false };
        let mut resident = [0_u8; PAGES];
        let mut start = self.address - self.address % page_size();
        while start < end {
            let length = (end - start).min(PAGES * page_size());
            // SAFETY: the call reads page tables only; `resident` has a byte for each page of `length`.
            if unsafe { libc::mincore(at(start).cast(), length, resident.as_mut_ptr()) } != 0 {
                return false;
            }
            start += length;
        }
        true
    }

    fn holds(&self, offset: usize, bytes: usize) -> bool {
        offset.checked_add(bytes).is_some_and(|end| end <= self.bytes)
    }

    fn is_writable(&self) -> bool {
        !matches!(self.keeper, Keeper::Staged { .. })
    }
}

/// Asks the kernel to make pages writable, which fails if they cannot be. Kernels before 5.14 do not support
/// this; there it is skipped.
fn populate(start: usize, end: usize) -> bool {
    static KNOWN: LazyLock<bool> = LazyLock::new(|| {
        let here = 0_u8;
        ask(std::ptr::from_ref(&here).addr(), 1)
    });
    fn ask(start: usize, bytes: usize) -> bool {
        let low = start - start % page_size();
        let length = (start + bytes).next_multiple_of(page_size()) - low;
        // SAFETY: pages that are there already keep their bytes; those that are not become zeros, as a write would.
        unsafe { libc::madvise(at(low).cast(), length, libc::MADV_POPULATE_WRITE) == 0 }
    }
    !*KNOWN || ask(start, end - start)
}

/// Makes a pointer of an address.
fn at(address: usize) -> *mut u8 {
    ptr::with_exposed_provenance_mut(address)
}

/// The shape of a copy: rows of bytes along up to three axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes in a row.
    pub width: usize,
    /// Rows in a slice.
    pub height: usize,
    /// Number of slices.
    pub depth: usize,
    /// The source's row pitch and slice pitch in bytes.
    pub source: (usize, usize),
    /// The same for the target.
    pub target: (usize, usize),
}

impl Shape {
    /// Returns the shape of a contiguous copy.
    #[must_use]
    pub fn line(bytes: usize) -> Self {
        Self { width: bytes, height: 1, depth: 1, source: (0, 0), target: (0, 0) }
    }
}

/// Copies rows. Rows outside a range are skipped: ranges are checked where they are made.
pub fn copy(target: &Range, source: &Range, shape: &Shape) {
    if !target.is_writable() {
        return;
    }
    for slice in 0..shape.depth {
        for row in 0..shape.height {
            let from = slice * shape.source.1 + row * shape.source.0;
            let to = slice * shape.target.1 + row * shape.target.0;
            if !source.holds(from, shape.width) || !target.holds(to, shape.width) {
                return;
            }
            let (from, to) = (at(source.address + from), at(target.address + to));
            // SAFETY: both rows are inside guaranteed ranges; they may overlap, and others may read or write
            // them at the same time as on any GPU: no reference is made.
            unsafe { ptr::copy(from, to, shape.width) };
        }
    }
}

/// A value that fills rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// One byte.
    Byte(u8),
    /// Two bytes.
    Half(u16),
    /// Four bytes.
    Word(u32),
}

impl Pattern {
    /// Returns the size of an element in bytes.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            Self::Byte(_) => 1,
            Self::Half(_) => 2,
            Self::Word(_) => 4,
        }
    }
}

/// Fills `height` rows of `width` elements, `pitch` bytes apart.
pub fn fill(target: &Range, pattern: Pattern, width: usize, height: usize, pitch: usize) {
    let Some(bytes) = width.checked_mul(pattern.size()) else { return };
    for row in 0..height {
        let offset = row * pitch;
        if !target.is_writable() || !target.holds(offset, bytes) {
            return;
        }
        let start = at(target.address + offset);
        match pattern {
            // SAFETY: the row is inside a guaranteed range.
            Pattern::Byte(value) => unsafe { ptr::write_bytes(start, value, bytes) },
            Pattern::Half(value) => fill_elements(start, &value.to_ne_bytes(), bytes),
            Pattern::Word(value) => fill_elements(start, &value.to_ne_bytes(), bytes),
        }
    }
}

/// Fills the resident pages of a range of the machine's own memory.
pub fn fill_resident(range: &Range, value: u8) {
    let end = range.address + range.bytes;
    let mut start = range.address - range.address % page_size();
    let mut resident = [0_u8; PAGES];
    while start < end {
        let length = (end - start).min(PAGES * page_size());
        // SAFETY: the call reads page tables only; `resident` has a byte for each page of `length`.
        let known = unsafe { libc::mincore(at(start).cast(), length, resident.as_mut_ptr()) } == 0;
        let pages = &resident[..length.div_ceil(page_size())];
        let mut page = 0;
        // One fill for each run of pages: a call for each page would cost more than the fill itself.
        for run in pages.chunk_by(|one, other| one & 1 == other & 1) {
            let low = (start + page * page_size()).max(range.address);
            page += run.len();
            let high = (start + page * page_size()).min(end);
            let touched = !known || run[0] & 1 == 1;
            if let Some(part) = range.part(low - range.address, high - low).filter(|_| touched) {
                fill(&part, Pattern::Byte(value), high - low, 1, 0);
            }
        }
        start += length;
    }
}

/// Writes one element and then doubles the written part.
fn fill_elements(start: *mut u8, element: &[u8], bytes: usize) {
    if bytes == 0 {
        return;
    }
    // SAFETY: `fill` checked that the row of `bytes`, at least one element, is inside its range.
    unsafe { ptr::copy_nonoverlapping(element.as_ptr(), start, element.len()) };
    let mut done = element.len();
    while done < bytes {
        let more = done.min(bytes - done);
        // SAFETY: `done + more` is at most `bytes`, which `fill` checked.
        let next = unsafe { start.add(done) };
        // SAFETY: the part that was written is before the part that is written now, in the same row.
        unsafe { ptr::copy_nonoverlapping(start, next, more) };
        done += more;
    }
}

/// Returns whether every byte of the range is `value`.
#[must_use]
pub fn is_filled(range: &Range, value: u8) -> bool {
    (0..range.bytes).all(|offset| {
        // SAFETY: the byte is inside a guaranteed range; volatile, as others may write it.
        let found = unsafe { ptr::read_volatile(at(range.address + offset)) };
        found == value
    })
}

/// Reads an aligned value of 4 or, if `wide`, 8 bytes at the start of the range.
#[must_use]
pub fn load(range: &Range, wide: bool) -> u64 {
    let address = range.address;
    if !range.holds(0, if wide { 8 } else { 4 }) {
        return 0;
    }
    if wide {
        // SAFETY: the bytes are in the range, and `machine/copy.rs` checked that the address is aligned.
        unsafe { AtomicU64::from_ptr(at(address).cast()) }.load(Ordering::SeqCst)
    } else {
        // SAFETY: as above.
        u64::from(unsafe { AtomicU32::from_ptr(at(address).cast()) }.load(Ordering::SeqCst))
    }
}

/// Writes an aligned value of 4 or, if `wide`, 8 bytes at the start of the range.
pub fn store(range: &Range, value: u64, wide: bool) {
    let address = range.address;
    if !range.is_writable() || !range.holds(0, if wide { 8 } else { 4 }) {
        return;
    }
    if wide {
        // SAFETY: the bytes are in the range, and `machine/copy.rs` checked that the address is aligned.
        unsafe { AtomicU64::from_ptr(at(address).cast()) }.store(value, Ordering::SeqCst);
    } else {
        let value = u32::try_from(value & u64::from(u32::MAX)).unwrap_or_default();
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(at(address).cast()) }.store(value, Ordering::SeqCst);
    }
}

/// Returns the aligned counter at the start of the range.
fn counter(range: &Range) -> Option<&AtomicU64> {
    let fits = range.is_writable() && range.holds(0, 8) && range.address.is_multiple_of(8);
    // SAFETY: the bytes are in the range, which the reference does not outlive, and aligned; all who share them, in other
    // processes too, use atomic accesses.
    fits.then(|| unsafe { AtomicU64::from_ptr(at(range.address).cast()) })
}

/// Adds one to a counter and returns the sum.
#[must_use]
pub fn count(range: &Range) -> u64 {
    counter(range).map_or(0, |counter| counter.fetch_add(1, Ordering::SeqCst).wrapping_add(1))
}

/// Raises a counter to a value, unless it is higher.
pub fn raise(range: &Range, value: u64) {
    if let Some(counter) = counter(range) {
        counter.fetch_max(value, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;

    fn mapping() -> Arc<Mapping> {
        Arc::new(Mapping::new(NonZeroUsize::new(1 << 20).unwrap()).unwrap())
    }

    #[test]
    fn a_range_never_leaves_its_mapping() {
        let mapping = mapping();
        let base = mapping.address();
        assert!(Range::of_mapping(&mapping, base, 1 << 20).is_some());
        assert!(Range::of_mapping(&mapping, base + 1, 1 << 20).is_none());
        assert!(Range::of_mapping(&mapping, base - 1, 1).is_none());
        assert!(Range::of_mapping(&mapping, base, usize::MAX).is_none());
    }

    #[test]
    fn patterns_repeat_over_pitched_rows() {
        let mapping = mapping();
        let range = Range::of_mapping(&mapping, mapping.address(), 64).unwrap();
        fill(&range, Pattern::Byte(0xEE), 64, 1, 0);
        fill(&range, Pattern::Word(0x0403_0201), 3, 2, 32);
        let first = Range::of_mapping(&mapping, mapping.address() + 8, 8).unwrap();
        assert_eq!(load(&first, false), 0x0403_0201);
        assert_eq!(load(&first, true), 0xEEEE_EEEE_0403_0201);
        let rest = Range::of_mapping(&mapping, mapping.address() + 44, 20).unwrap();
        assert!(is_filled(&rest, 0xEE));
    }

    #[test]
    fn staged_bytes_are_those_of_the_call() {
        let mapping = mapping();
        let source = Range::of_mapping(&mapping, mapping.address(), 16).unwrap();
        let target = Range::of_mapping(&mapping, mapping.address() + 64, 16).unwrap();
        fill(&source, Pattern::Byte(1), 16, 1, 0);
        let staged = source.staged();
        fill(&source, Pattern::Byte(2), 16, 1, 0);
        copy(&target, &staged, &Shape::line(16));
        assert!(is_filled(&target, 1));
    }

    #[test]
    fn an_address_that_nothing_is_mapped_at_is_seen() {
        let here = 7_u64;
        // SAFETY: the variable outlives the range, which is only asked about.
        assert!(unsafe { Range::of_caller((&raw const here).addr(), 8) }.is_mapped());
        // SAFETY: only asked about.
        assert!(!unsafe { Range::of_caller(0x1234_5678, 8) }.is_mapped());
        // SAFETY: only asked about.
        assert!(!unsafe { Range::of_caller(usize::MAX - 4, 8) }.is_mapped());
    }

    #[test]
    fn discarded_pages_read_as_zeros() {
        let mapping = mapping();
        let range = Range::of_mapping(&mapping, mapping.address(), 8192).unwrap();
        fill(&range, Pattern::Byte(9), 8192, 1, 0);
        mapping.discard(0, 8192);
        assert!(is_filled(&range, 0));
    }
}
