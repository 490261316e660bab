//! Host memory for the results of large copies: in huge pages, and kept for the next result.
//!
//! The kernel clears each new page when it is first touched. With pages of 4 KiB that takes longer than the copy itself. With
//! huge pages it takes a fifth, and memory that is kept need not be cleared again. The kernel may take kept
//! pages back whenever memory is short (`MADV_FREE`).

use std::ffi::c_void;
use std::ptr;

use crate::error::Error;
use crate::fork::ProcessLock;
use crate::host::ALIGNMENT;
use crate::owner::Owner;

/// Smaller results come from the allocator.
const LARGE: u64 = 4 << 20;
/// Bytes of a huge page.
const HUGE: usize = 2 << 20;
/// The most bytes that are kept.
const MOST_KEPT: usize = 1 << 30;

/// Mappings that no result uses, oldest first.
static KEPT: ProcessLock<Vec<Pages>> = ProcessLock::new(Vec::new());

/// A mapping that starts at a huge page, unmapped when dropped.
struct Pages {
    start: usize,
    bytes: usize,
}

impl Pages {
    fn map(bytes: usize) -> Option<Self> {
        let room = bytes.checked_add(HUGE)?;
        let (flags, access) =
            (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: new pages, wherever the kernel finds room for them.
        let found = unsafe { libc::mmap(ptr::null_mut(), room, access, flags, -1, 0) };
        if found == libc::MAP_FAILED {
            return None;
        }
        let found = found.expose_provenance();
        let start = found.next_multiple_of(HUGE);
        // What is not needed goes back at once.
        drop(Self { start: found, bytes: start - found });
        drop(Self { start: start + bytes, bytes: found + room - start - bytes });
        let pages = Self { start, bytes };
        pages.advise(libc::MADV_HUGEPAGE);
        Some(pages)
    }

    /// Tells the kernel something that it may ignore.
    fn advise(&self, advice: i32) {
        // SAFETY: the mapping is ours, and nothing in it is needed when one of the two advices used here is given.
        let _ = unsafe { libc::madvise(self.pointer(), self.bytes, advice) };
    }

    fn pointer(&self) -> *mut c_void {
        ptr::with_exposed_provenance_mut(self.start)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: the mapping is ours, and nobody uses it any more.
            let _ = unsafe { libc::munmap(self.pointer(), self.bytes) };
        }
    }
}

/// A mapping in use, kept when dropped.
struct Used(Option<Pages>);

impl Drop for Used {
    fn drop(&mut self) {
        let Some(pages) = self.0.take() else { return };
        if pages.bytes > MOST_KEPT {
            return;
        }
        pages.advise(libc::MADV_FREE);
        let mut kept = KEPT.lock();
        kept.push(pages);
        let mut total: usize = kept.iter().map(|pages| pages.bytes).sum();
        let surplus = kept.iter().take_while(|pages| {
            let over = total > MOST_KEPT;
            total -= if over { pages.bytes } else { 0 };
            over
        });
        let surplus = surplus.count();
        let gone: Vec<Pages> = kept.drain(..surplus).collect();
        drop(kept);
        // Unmapping takes a while, and others wait for the lock.
        drop(gone);
    }
}

/// Allocates host memory for the result of a copy. Its bytes are whatever they are.
///
/// # Errors
///
/// If there is not enough memory.
pub fn room(bytes: u64) -> Result<(u64, Owner), Error> {
    let refused = Error::OutOfMemory { bytes };
    if bytes < LARGE {
        return small(bytes).ok_or(refused);
    }
    let needed = usize::try_from(bytes).ok().and_then(|bytes| bytes.checked_next_multiple_of(HUGE));
    let needed = needed.ok_or_else(|| refused.clone())?;
    let pages = take(needed).or_else(|| Pages::map(needed)).ok_or(refused)?;
    Ok((pages.start as u64, Owner::keep(Used(Some(pages)))))
}

/// Memory of the allocator, which is not cleared.
fn small(bytes: u64) -> Option<(u64, Owner)> {
    let mut memory = Vec::<u8>::new();
    memory.try_reserve_exact(usize::try_from(bytes).ok()?.checked_add(ALIGNMENT)?).ok()?;
    let start = memory.as_mut_ptr().expose_provenance();
    Some((start.next_multiple_of(ALIGNMENT) as u64, Owner::keep(memory)))
}

/// The smallest kept mapping that is large enough, and not much larger.
fn take(needed: usize) -> Option<Pages> {
    let mut kept = KEPT.lock();
    let fits = |pages: &Pages| (needed..=needed + needed / 4).contains(&pages.bytes);
    let best = kept.iter().enumerate().filter(|(_, pages)| fits(pages));
    let (index, _) = best.min_by_key(|(_, pages)| pages.bytes)?;
    Some(kept.remove(index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_results_are_in_memory_that_is_kept_and_bounded() {
        let (first, owner) = room(64 << 20).unwrap();
        assert_eq!(first % HUGE as u64, 0);
        drop(owner);
        let (second, owner) = room((64 << 20) - 5).unwrap();
        assert_eq!(second, first);
        let (third, other) = room(64 << 20).unwrap();
        assert_ne!(third, first);
        drop((owner, other));
        let many: Vec<_> = (0..20).map(|_| room(128 << 20).unwrap()).collect();
        drop(many);
        let kept: usize = KEPT.lock().iter().map(|pages| pages.bytes).sum();
        assert_eq!(kept, MOST_KEPT);
        assert!(matches!(room(1 << 60), Err(Error::OutOfMemory { .. })));
        let (huge, owner) = room(MOST_KEPT as u64 + 1).unwrap();
        assert_eq!(huge % HUGE as u64, 0);
        drop(owner);
        assert!(KEPT.lock().iter().all(|pages| pages.bytes <= MOST_KEPT));
    }
}
