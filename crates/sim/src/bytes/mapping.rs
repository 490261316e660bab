//! Mappings of in-memory files.

use std::ffi::CStr;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// Makes an in-memory file of zeros. Its size is sealed, so a process that maps it can always touch all of it.
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

/// A mapping: of an in-memory file of its own, or a window in which parts of other files are shown. Pages that were
/// never written take no memory.
///
/// Whatever is shown, all its bytes can be read and written while the mapping exists.
#[derive(Debug)]
pub struct Mapping {
    /// The start and size of what is mapped.
    whole: (NonNull<libc::c_void>, NonZeroUsize),
    /// How far the first aligned byte is from the start.
    lead: usize,
    bytes: NonZeroUsize,
    /// None of a window: a process may have many, and few descriptors.
    file: Option<OwnedFd>,
}

// SAFETY: the mapping is not tied to a thread; its bytes are only touched through raw pointers.
unsafe impl Send for Mapping {}
// SAFETY: as above; no Rust reference to its bytes is ever made.
unsafe impl Sync for Mapping {}

const READ_WRITE: ProtFlags = ProtFlags::PROT_READ.union(ProtFlags::PROT_WRITE);
const SHARED: MapFlags = MapFlags::MAP_SHARED.union(MapFlags::MAP_NORESERVE);
const PRIVATE: MapFlags = MapFlags::MAP_PRIVATE.union(MapFlags::MAP_NORESERVE);

impl Mapping {
    /// Maps `bytes` of zeros.
    ///
    /// # Errors
    ///
    /// The kernel's error.
    pub fn new(bytes: NonZeroUsize) -> nix::Result<Self> {
        let file = memory_file(FILE, bytes.get())?;
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
        let start = unsafe { mmap(None, bytes, READ_WRITE, SHARED, &file, 0) }?;
        Ok(Self { whole: (start, bytes), lead: 0, bytes, file: Some(file) })
    }

    /// Makes an empty window of zeros at a multiple of `align`, a power of two.
    ///
    /// # Errors
    ///
    /// The kernel's error.
    pub fn window(bytes: NonZeroUsize, align: usize) -> nix::Result<Self> {
        // The kernel aligns to pages only.
        let room = if align > gpulend_common::page_size() { align } else { 0 };
        let total = bytes.checked_add(room).ok_or(nix::Error::ENOMEM)?;
        // SAFETY: as in `new`.
        let start = unsafe { mmap_anonymous(None, total, READ_WRITE, PRIVATE) }?;
        let lead = start.as_ptr().addr().next_multiple_of(align) - start.as_ptr().addr();
        Ok(Self { whole: (start, total), lead, bytes, file: None })
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

    /// Returns the file of its bytes; a window has none.
    #[must_use]
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(OwnedFd::as_fd)
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
        let (Some(file), Ok(start), Ok(length)) =
            (&self.file, i64::try_from(offset), i64::try_from(end - offset))
        else {
            return;
        };
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: a system call on our own file. If it fails the pages are merely kept.
        let _ = unsafe { libc::fallocate(file.as_raw_fd(), mode, start, length) };
    }

    /// Shows `bytes` of a file, from its byte `from`, at `offset` of a window. All three are multiples of the page size.
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
        let (place, length) = self.part(offset, bytes)?;
        let from = i64::try_from(from).map_err(|_| nix::Error::EOVERFLOW)?;
        // SAFETY: the pages that are replaced are this window's, and stay readable and writable; a kernel that
        // refuses leaves them. The file is as long, and stays so.
        unsafe { mmap(place, length, READ_WRITE, SHARED | MapFlags::MAP_FIXED, file, from) }?;
        Ok(())
    }

    /// Ends what is shown at a range: it reads as zeros afterwards.
    ///
    /// # Errors
    ///
    /// As of [`Mapping::show`].
    pub fn hide(&self, offset: usize, bytes: usize) -> nix::Result<()> {
        let (place, length) = self.part(offset, bytes)?;
        // SAFETY: as in `show`.
        unsafe { mmap_anonymous(place, length, READ_WRITE, PRIVATE | MapFlags::MAP_FIXED) }?;
        Ok(())
    }

    /// Returns the place of a part of a window.
    fn part(
        &self,
        offset: usize,
        bytes: usize,
    ) -> nix::Result<(Option<NonZeroUsize>, NonZeroUsize)> {
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= self.bytes());
        match NonZeroUsize::new(bytes) {
            Some(length) if inside && self.file.is_none() => {
                Ok((NonZeroUsize::new(self.address() + offset), length))
            }
            _ => Err(nix::Error::EINVAL),
        }
    }
}

/// The name of the machine's memory in the kernel's lists.
const FILE: &CStr = c"gpulend-simulated";

impl Drop for Mapping {
    fn drop(&mut self) {
        let (start, total) = self.whole;
        // SAFETY: `new` or `window` mapped exactly this; every `Range` into it holds an `Arc` of it, so none is left.
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
            Arc::new(Mapping::window(pages(4), 2 << 20).unwrap()),
        );
        assert!(other.address().is_multiple_of(2 << 20));
        let range = |mapping: &Arc<Mapping>, at: usize| {
            Range::of_mapping(mapping, mapping.address() + at * page, page).unwrap()
        };
        fill(&range(&one, 2), Pattern::Byte(7), page, 1, 0);
        other.show(page, page, one.file().unwrap(), 2 * page).unwrap();
        assert!(is_filled(&range(&other, 1), 7) && is_filled(&range(&other, 0), 0));
        fill(&range(&other, 1), Pattern::Byte(8), page, 1, 0);
        assert!(is_filled(&range(&one, 2), 8));
        other.hide(page, page).unwrap();
        assert!(is_filled(&range(&other, 1), 0) && is_filled(&range(&one, 2), 8));
    }

    #[test]
    fn nothing_is_shown_that_could_end_the_process() {
        let page = gpulend_common::page_size();
        let (one, other) = (Mapping::new(pages(2)).unwrap(), Mapping::window(pages(4), 1).unwrap());
        let (invalid, file) = (Err(nix::Error::EINVAL), one.file().unwrap());
        assert_eq!(other.show(0, 4 * page, file, 0), invalid);
        assert_eq!(other.show(3 * page, 2 * page, file, 0), invalid);
        assert_eq!(other.show(0, page, file, usize::MAX), invalid);
        assert_eq!(other.hide(4 * page, page), invalid);
        // Only windows show other files.
        assert_eq!(one.show(0, page, file, page), invalid);
        let open = memfd_create(c"test", MFdFlags::MFD_ALLOW_SEALING).unwrap();
        nix::unistd::ftruncate(&open, 8192).unwrap();
        assert_eq!(other.show(0, page, open.as_fd(), 0), invalid);
        let null = std::fs::File::open("/dev/null").unwrap();
        assert!(other.show(0, page, null.as_fd(), 0).is_err());
    }
}
