//! Mappings of in-memory files.

use std::ffi::CStr;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

/// Makes an in-memory file of zeros. Its size is sealed: whoever maps it can touch all of it for ever.
///
/// # Errors
///
/// The kernel's error.
pub fn memory_file(name: &CStr, bytes: usize) -> nix::Result<OwnedFd> {
    let file = memfd_create(name, MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?;
    let length = i64::try_from(bytes).map_err(|_| nix::Error::EOVERFLOW)?;
    nix::unistd::ftruncate(&file, length)?;
    let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
    Ok(file)
}

/// A shared mapping of an in-memory file. Pages that were never written take no memory.
///
/// Parts of other files can be shown in its place. Whatever is shown, all its bytes can be read and written while
/// the mapping exists.
#[derive(Debug)]
pub struct Mapping {
    /// The start and size of what is mapped.
    whole: (NonNull<libc::c_void>, NonZeroUsize),
    /// How far the first aligned byte is from the start.
    lead: usize,
    bytes: NonZeroUsize,
    file: OwnedFd,
}

// SAFETY: the mapping is not tied to a thread; its bytes are only touched through raw pointers.
unsafe impl Send for Mapping {}
// SAFETY: as above; no Rust reference to its bytes is ever made.
unsafe impl Sync for Mapping {}

const READ_WRITE: ProtFlags = ProtFlags::PROT_READ.union(ProtFlags::PROT_WRITE);
const SHARED: MapFlags = MapFlags::MAP_SHARED.union(MapFlags::MAP_NORESERVE);

impl Mapping {
    /// Maps `bytes` of zeros.
    ///
    /// # Errors
    ///
    /// The kernel's error.
    pub fn new(bytes: NonZeroUsize) -> nix::Result<Self> {
        Self::aligned(bytes, 1)
    }

    /// Maps `bytes` of zeros at a multiple of `align`, a power of two.
    ///
    /// # Errors
    ///
    /// The kernel's error.
    pub fn aligned(bytes: NonZeroUsize, align: usize) -> nix::Result<Self> {
        // The kernel aligns to pages only.
        let room = if align > gpulend_common::page_size() { align } else { 0 };
        let total = bytes.checked_add(room).ok_or(nix::Error::ENOMEM)?;
        let file = memory_file(FILE, total.get())?;
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
        let start = unsafe { mmap(None, total, READ_WRITE, SHARED, &file, 0) }?;
        let lead = start.as_ptr().addr().next_multiple_of(align) - start.as_ptr().addr();
        Ok(Self { whole: (start, total), lead, bytes, file })
    }

    /// Returns the address of the first byte.
    #[must_use]
    pub fn address(&self) -> usize {
        self.whole.0.as_ptr().expose_provenance() + self.lead
    }

    /// Returns the number of bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// Returns its file, which begins with the first byte if it was made without an alignment.
    #[must_use]
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Returns whether an address is in it.
    #[must_use]
    pub fn spans(&self, address: usize) -> bool {
        (self.address()..self.address() + self.bytes()).contains(&address)
    }

    /// Returns whether a range overlaps it.
    #[must_use]
    pub fn meets(&self, address: usize, bytes: usize) -> bool {
        let end = self.address() + self.bytes();
        address < end && address.saturating_add(bytes) > self.address()
    }

    /// Returns the pages of a range to the kernel. They read as zeros afterwards.
    pub fn discard(&self, offset: usize, bytes: usize) {
        let Some(end) = offset.checked_add(bytes).filter(|end| *end <= self.bytes()) else {
            return;
        };
        let (Ok(start), Ok(length)) =
            (i64::try_from(self.lead + offset), i64::try_from(end - offset))
        else {
            return;
        };
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: a system call on our own file. If it fails the pages are merely kept.
        let _ = unsafe { libc::fallocate(self.file.as_raw_fd(), mode, start, length) };
    }

    /// Shows `bytes` of another file, from its byte `from`, at `offset`. All three are multiples of the page size.
    ///
    /// # Errors
    ///
    /// The kernel's error; `EINVAL` if they are not inside, or if the file could shrink: touching what it has lost
    /// would end the process.
    pub fn show(
        &self,
        offset: usize,
        bytes: usize,
        file: BorrowedFd<'_>,
        from: usize,
    ) -> nix::Result<()> {
        let seals = SealFlag::from_bits_truncate(fcntl(file, FcntlArg::F_GET_SEALS)?);
        let size = usize::try_from(nix::sys::stat::fstat(file)?.st_size).unwrap_or(0);
        let inside = from.checked_add(bytes).is_some_and(|end| end <= size);
        if !inside || !seals.contains(SealFlag::F_SEAL_SHRINK) {
            return Err(nix::Error::EINVAL);
        }
        self.replace(offset, bytes, file, from)
    }

    /// Ends what is shown at a range: it reads as zeros afterwards.
    ///
    /// # Errors
    ///
    /// As of [`Mapping::show`].
    pub fn hide(&self, offset: usize, bytes: usize) -> nix::Result<()> {
        self.replace(offset, bytes, self.file.as_fd(), self.lead + offset)?;
        // Work that came too late may have written here.
        self.discard(offset, bytes);
        Ok(())
    }

    fn replace(
        &self,
        offset: usize,
        bytes: usize,
        file: BorrowedFd<'_>,
        from: usize,
    ) -> nix::Result<()> {
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= self.bytes());
        let (Some(length), true) = (NonZeroUsize::new(bytes), inside) else {
            return Err(nix::Error::EINVAL);
        };
        let place = NonZeroUsize::new(self.address() + offset);
        let from = i64::try_from(from).map_err(|_| nix::Error::EOVERFLOW)?;
        // SAFETY: the pages that are replaced are this mapping's, and stay readable and writable; a kernel that
        // refuses leaves them. `show` checked that the file is as long, and stays so.
        unsafe { mmap(place, length, READ_WRITE, SHARED | MapFlags::MAP_FIXED, file, from) }?;
        Ok(())
    }
}

/// The name of the machine's memory in the kernel's lists.
const FILE: &CStr = c"gpulend-simulated";

impl Drop for Mapping {
    fn drop(&mut self) {
        let (start, total) = self.whole;
        // SAFETY: `aligned` mapped exactly this; every `Range` into it holds an `Arc` of it, so none is left.
        let _ = unsafe { munmap(start, total.get()) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{Pattern, Range, fill, is_filled};
    use super::*;

    fn pages(count: usize) -> NonZeroUsize {
        NonZeroUsize::new(count * gpulend_common::page_size()).unwrap()
    }

    #[test]
    fn another_files_bytes_are_shown_and_hidden() {
        let page = gpulend_common::page_size();
        let (one, other) = (
            Arc::new(Mapping::new(pages(4)).unwrap()),
            Arc::new(Mapping::aligned(pages(4), 2 << 20).unwrap()),
        );
        assert!(other.address().is_multiple_of(2 << 20));
        let range = |mapping: &Arc<Mapping>, at: usize| {
            Range::of_mapping(mapping, mapping.address() + at * page, page).unwrap()
        };
        fill(&range(&one, 2), Pattern::Byte(7), page, 1, 0);
        other.show(page, page, one.file(), 2 * page).unwrap();
        assert!(is_filled(&range(&other, 1), 7) && is_filled(&range(&other, 0), 0));
        fill(&range(&other, 1), Pattern::Byte(8), page, 1, 0);
        assert!(is_filled(&range(&one, 2), 8));
        other.hide(page, page).unwrap();
        assert!(is_filled(&range(&other, 1), 0) && is_filled(&range(&one, 2), 8));
    }

    #[test]
    fn nothing_is_shown_that_could_end_the_process() {
        let page = gpulend_common::page_size();
        let (one, other) = (Mapping::new(pages(2)).unwrap(), Mapping::new(pages(4)).unwrap());
        let invalid = Err(nix::Error::EINVAL);
        assert_eq!(other.show(0, 4 * page, one.file(), 0), invalid);
        assert_eq!(one.show(page, 2 * page, other.file(), 0), invalid);
        assert_eq!(other.show(0, page, one.file(), usize::MAX), invalid);
        assert_eq!(other.hide(4 * page, page), invalid);
        let open = memfd_create(c"test", MFdFlags::MFD_ALLOW_SEALING).unwrap();
        nix::unistd::ftruncate(&open, 8192).unwrap();
        assert_eq!(one.show(0, page, open.as_fd(), 0), invalid);
        let null = std::fs::File::open("/dev/null").unwrap();
        assert!(one.show(0, page, null.as_fd(), 0).is_err());
    }
}
