//! Host memory that other processes can open: each allocation is a file that only its descriptor names.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use gpulend_common::page_size;
use nix::fcntl::{FcntlArg, OFlag, SealFlag, fcntl, open};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use nix::sys::stat::{Mode, fstat};
use nix::unistd::ftruncate;

use crate::error::{Error, TicketError};
use crate::fork::ProcessLock;
use crate::owner::Owner;

/// A file of memory.
#[derive(Debug)]
pub(crate) struct SharedFile {
    descriptor: OwnedFd,
    /// The same file, for those who may only read it.
    for_reading: OnceLock<OwnedFd>,
    bytes: u64,
}

impl SharedFile {
    /// Makes a file of zeros, whose size nobody can change.
    pub(crate) fn new(bytes: u64) -> Result<Self, Error> {
        let file = Self::unsealed(bytes)?;
        file.seal(SealFlag::empty())?;
        Ok(file)
    }

    /// Like [`SharedFile::new`]. Only who gets the pages can write it: others can map it to be read.
    pub(crate) fn shown(bytes: u64) -> Result<(Self, SharedPages), Error> {
        let file = Self::unsealed(bytes)?;
        let pages = file.map(true)?;
        file.seal(SealFlag::F_SEAL_FUTURE_WRITE)?;
        Ok((file, pages))
    }

    fn unsealed(bytes: u64) -> Result<Self, Error> {
        let bytes = bytes.max(1).next_multiple_of(page_size() as u64);
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let made = memfd_create(c"gpulend-shared", flags);
        let descriptor = made.map_err(|error| failed("making a file of memory", &error))?;
        let size = i64::try_from(bytes).map_err(|_| Error::OutOfMemory { bytes })?;
        ftruncate(&descriptor, size).map_err(|_| Error::OutOfMemory { bytes })?;
        Ok(Self { descriptor, for_reading: OnceLock::new(), bytes })
    }

    /// Who cut it would kill everybody that reads it.
    fn seal(&self, more: SealFlag) -> Result<(), Error> {
        let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL | more;
        let sealed = fcntl(&self.descriptor, FcntlArg::F_ADD_SEALS(seals));
        sealed.map(drop).map_err(|error| failed("sealing a file of memory", &error))
    }

    /// Takes over the file of another process, which says that it has `bytes` bytes.
    pub(crate) fn received(descriptor: OwnedFd, bytes: u64) -> Result<Self, Error> {
        let seals = fcntl(&descriptor, FcntlArg::F_GET_SEALS).unwrap_or(0);
        let sealed = SealFlag::from_bits_retain(seals).contains(SealFlag::F_SEAL_SHRINK);
        let size = fstat(&descriptor).map_or(0, |about| about.st_size);
        if !sealed || u64::try_from(size).is_ok_and(|size| size < bytes) {
            return Err(failed("opening the lender's memory", &"its file is too short"));
        }
        Ok(Self { descriptor, for_reading: OnceLock::new(), bytes })
    }

    pub(crate) const fn descriptor(&self) -> &OwnedFd {
        &self.descriptor
    }

    /// A descriptor by which the file can only be read: pages that were mapped by it cannot be made writable either.
    pub(crate) fn descriptor_for_reading(&self) -> Result<BorrowedFd<'_>, Error> {
        if let Some(known) = self.for_reading.get() {
            return Ok(known.as_fd());
        }
        let path = format!("/proc/self/fd/{}", self.descriptor.as_raw_fd());
        let opened = open(path.as_str(), OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty());
        let opened =
            opened.map_err(|error| failed("opening a file of memory to be read", &error))?;
        // If another thread was faster, its descriptor is as good.
        Ok(self.for_reading.get_or_init(|| opened).as_fd())
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Maps all of it.
    pub(crate) fn map(&self, writable: bool) -> Result<SharedPages, Error> {
        let bytes = self.bytes;
        let refused = || Error::OutOfMemory { bytes };
        let length = usize::try_from(bytes).ok().and_then(NonZeroUsize::new).ok_or_else(refused)?;
        let read = ProtFlags::PROT_READ;
        let access = if writable { read | ProtFlags::PROT_WRITE } else { read };
        // SAFETY: new pages, wherever the kernel finds room for them.
        let made =
            unsafe { mmap(None, length, access, MapFlags::MAP_SHARED, self.descriptor.as_fd(), 0) };
        let start = made.map_err(|_| refused())?.as_ptr().expose_provenance();
        Ok(SharedPages { start, length: length.get() })
    }
}

/// Mapped pages of such a file, unmapped when dropped.
#[derive(Debug)]
pub(crate) struct SharedPages {
    start: usize,
    length: usize,
}

impl SharedPages {
    pub(crate) const fn address(&self) -> u64 {
        self.start as u64
    }

    /// The pages as words, which other processes may change at any time. Those that are mapped to be read are never stored to.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        let start = ptr::with_exposed_provenance::<AtomicU64>(self.start);
        // SAFETY: whole pages, mapped as long as `self`; who uses them as words touches them in no other way.
        unsafe { slice::from_raw_parts(start, self.length / 8) }
    }
}

impl Drop for SharedPages {
    fn drop(&mut self) {
        let start = ptr::with_exposed_provenance_mut::<c_void>(self.start);
        if let Some(start) = NonNull::new(start) {
            // SAFETY: the mapping is ours, and nobody uses it any more.
            let _ = unsafe { munmap(start, self.length) };
        }
    }
}

/// The files that this process allocated, by the address where they are mapped.
static FILES: ProcessLock<BTreeMap<u64, Arc<SharedFile>>> = ProcessLock::new(BTreeMap::new());

/// An allocation, which leaves the list when dropped.
struct Allocation(SharedPages);

impl Drop for Allocation {
    fn drop(&mut self) {
        let gone = FILES.lock().remove(&self.0.address());
        // Closed without the lock.
        drop(gone);
    }
}

/// Allocates host memory that other processes can open, zeroed.
///
/// # Errors
///
/// If there is not enough memory, or no file descriptor is left.
pub fn allocate_shared(bytes: u64) -> Result<(u64, Owner), Error> {
    let file = Arc::new(SharedFile::new(bytes)?);
    let pages = file.map(true)?;
    let address = pages.address();
    FILES.lock().insert(address, file);
    Ok((address, Owner::keep(Allocation(pages))))
}

/// The start and the file of the allocation that contains an address, if [`allocate_shared`] made it.
pub(crate) fn shared_at(address: u64) -> Option<(u64, Arc<SharedFile>)> {
    let files = FILES.lock();
    let (start, file) = files.range(..=address).next_back()?;
    (address - start < file.bytes).then(|| (*start, Arc::clone(file)))
}

fn failed(what: &'static str, error: &dyn std::fmt::Display) -> Error {
    TicketError::System { what, reason: error.to_string().into() }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_seen_through_every_mapping_and_found_by_address() {
        let (address, owner) = allocate_shared(5000).unwrap();
        let (start, file) = shared_at(address + 4999).unwrap();
        assert_eq!((start, file.bytes() % 4096), (address, 0));
        let again = file.map(false).unwrap();
        let first = std::ptr::with_exposed_provenance_mut::<u8>(usize::try_from(address).unwrap());
        let second = std::ptr::with_exposed_provenance::<u8>(again.start);
        // SAFETY: the page is mapped writable, and nobody else uses it.
        unsafe { first.write_volatile(7) };
        // SAFETY: the page is mapped.
        assert_eq!(unsafe { second.read_volatile() }, 7);
        drop(owner);
        assert!(shared_at(address).is_none());
        // The other mapping stays.
        // SAFETY: the page is mapped.
        assert_eq!(unsafe { second.read_volatile() }, 7);
    }

    #[test]
    fn a_descriptor_for_reading_maps_no_page_that_can_be_written() {
        let file = SharedFile::new(1).unwrap();
        let given = file.descriptor_for_reading().unwrap().try_clone_to_owned().unwrap();
        let received = SharedFile::received(given, 1).unwrap();
        assert!(received.map(true).is_err());
        let pages = received.map(false).unwrap();
        let start = NonNull::new(ptr::with_exposed_provenance_mut(pages.start)).unwrap();
        let writable = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: the pages are mapped, and nobody counts on their protection.
        assert!(unsafe { nix::sys::mman::mprotect(start, pages.length, writable) }.is_err());
    }

    #[test]
    fn nobody_can_cut_a_file() {
        let file = SharedFile::new(1).unwrap();
        assert!(ftruncate(&file.descriptor, 0).is_err());
        let cut = memfd_create(c"other", MFdFlags::MFD_CLOEXEC).unwrap();
        assert!(SharedFile::received(cut, 1).is_err());
    }
}
