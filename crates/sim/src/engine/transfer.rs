//! Memory that a warp loads as matrices, and that threads copy asynchronously.

use std::ptr;

use super::copies::Copy;
use super::shadow::Access;
use super::worker::Worker;
use crate::ptx::ast::Space;

impl Worker<'_> {
    fn access(&self, thread: u64, offset: u64, bytes: u32, writes: bool) -> Access {
        Access {
            offset: usize::try_from(offset).unwrap_or(usize::MAX),
            bytes: bytes as usize,
            thread: u32::try_from(thread).unwrap_or(u32::MAX),
            writes,
            atomic: false,
        }
    }

    /// Whether a piece of shared memory is inside and aligned to its size. Reports it if not, and if that is checked.
    fn is_inside(&mut self, thread: u64, site: usize, offset: u64, bytes: u32) -> Option<bool> {
        let size = u64::from(bytes);
        let fits = offset.checked_add(size).is_some_and(|end| end <= self.context.shared_bytes);
        let aligned = offset.is_multiple_of(size);
        if !self.work.launch.checks.memory || (fits && aligned) {
            return Some(fits);
        }
        if fits {
            self.misaligned(thread, site, offset, "an offset");
        } else {
            self.beyond(thread, site, offset, Space::Shared);
        }
        None
    }

    /// Checks the row of a matrix that a thread names. `None` if the launch must end.
    pub(super) fn matrix_row(&mut self, thread: u64, site: usize, offset: u64) -> Option<()> {
        self.is_inside(thread, site, offset, 16).map(|_| ())
    }

    /// Reads bytes of a row of a matrix for a thread. `None` if the launch must end.
    pub(super) fn read_matrix<const BYTES: usize>(
        &mut self,
        thread: u64,
        site: usize,
        offset: u64,
    ) -> Option<[u8; BYTES]> {
        let count = u32::try_from(BYTES).unwrap_or(u32::MAX);
        let mut read = [0; BYTES];
        if offset.checked_add(BYTES as u64).is_none_or(|end| end > self.context.shared_bytes) {
            // Not checked: a wrong address reads zeros.
            return Some(read);
        }
        let access = self.access(thread, offset, count, false);
        if self.work.launch.checks.shared
            && let Err(conflict) = self.shadow.touch(access, |_, _| false)
        {
            self.conflict(thread, site, access, conflict);
            return None;
        }
        for (index, byte) in read.iter_mut().enumerate() {
            // SAFETY: all of them are inside shared memory.
            *byte = unsafe { self.context.shared.wrapping_add(access.offset + index).read() };
        }
        Some(read)
    }

    /// Begins an asynchronous copy. The site before `site` is that of its source. Returns 0 if it is valid.
    pub(super) fn begin_copy(
        &mut self,
        thread: u64,
        site: usize,
        to: u64,
        from: u64,
        taken: u64,
    ) -> u64 {
        let bytes = self.work.code.sites[site].bytes;
        // PTX leaves more than that undefined.
        let taken = u32::try_from(taken).unwrap_or(u32::MAX).min(bytes);
        let checks = self.work.launch.checks;
        if checks.memory && taken > 0 && self.look_up(thread, site - 1, from, taken) != 0 {
            return 1;
        }
        match self.is_inside(thread, site, to, bytes) {
            Some(true) => {}
            // Not checked: a wrong address writes nothing.
            Some(false) => return 0,
            None => return 1,
        }
        let access = self.access(thread, to, bytes, true);
        if checks.shared {
            let source = |distance: usize| {
                if distance < taken as usize { from + distance as u64 } else { 0 }
            };
            let shared = self.context.shared;
            // Only asked for where there is a conflict, which is rare.
            let is_same = |distance: usize, length: usize| {
                (distance..distance + length).all(|index| {
                    // SAFETY: the destination is inside shared memory.
                    let old = unsafe { shared.wrapping_add(access.offset + index).read() };
                    if index >= taken as usize {
                        return old == 0;
                    }
                    // SAFETY: the source was looked up, or the kernel answers for it.
                    old == unsafe { (from as *const u8).wrapping_add(index).read() }
                })
            };
            if let Err(conflict) = self.shadow.begin_copy(access, source, is_same) {
                return self.conflict(thread, site, access, conflict);
            }
        }
        let thread = access.thread as usize;
        let surplus = self.copies.surplus(thread);
        self.perform(thread, surplus);
        self.copies.add(thread, Copy { to: access.offset, from, bytes, taken });
        0
    }

    /// Makes a group of the copies of a thread that are in none.
    pub(super) fn commit_copies(&mut self, thread: usize) {
        let surplus = self.copies.surplus(thread);
        self.perform(thread, surplus);
        self.copies.commit(thread);
    }

    /// Ends the asynchronous copies of a thread, but for the last few groups.
    pub(super) fn end_copies(&mut self, thread: usize, left: Option<usize>) {
        let ended = self.copies.take(thread, left);
        self.perform(thread, ended);
    }

    fn perform(&mut self, thread: usize, copies: Vec<Copy>) {
        for copy in copies {
            let place = self.context.shared.wrapping_add(copy.to);
            let (taken, rest) = (copy.taken as usize, (copy.bytes - copy.taken) as usize);
            // SAFETY: the destination is inside shared memory. The source was looked up when the copy began, and kernels do
            // not unmap memory; without checks the kernel answers for its addresses, as for those of its loads.
            unsafe { ptr::copy(copy.from as *const u8, place, taken) };
            // SAFETY: as above.
            unsafe { place.wrapping_add(taken).write_bytes(0, rest) };
            if self.work.launch.checks.shared {
                let access = self.access(thread as u64, copy.to as u64, copy.bytes, true);
                self.shadow.end_copy(access);
            }
        }
    }
}
