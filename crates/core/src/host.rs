//! Host memory: whether it is mapped, its mapping, and gpulend's own allocations.

mod room;
mod shared;

use std::ffi::c_void;
use std::io::IoSliceMut;
use std::ops::Range;
use std::ptr;

use gpulend_common::maps::{self, Mapping};
use gpulend_common::page_size;
use nix::errno::Errno;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

use crate::error::{AddressError, Error};
use crate::owner::Owner;

pub use room::room;
pub use shared::allocate_shared;
pub(crate) use shared::{SharedFile, SharedPages, shared_at};

/// Up to this many pages, one system call reads a byte of each. Beyond that, the list of mappings is read.
const MOST_PROBED: usize = 64;
/// Before a copy, only the first and the last page of a range are touched.
const ENDS: u64 = 2;

/// Checks that `bytes` bytes from `low` can be read, without a load that could fault.
///
/// # Errors
///
/// If some byte is not mapped readable; the error names the nearest mapping.
pub fn check_mapped(low: u64, bytes: u64) -> Result<(), AddressError> {
    let Some((last, pages)) = span(low, bytes) else { return Ok(()) };
    if pages <= MOST_PROBED as u64
        && let Some(answer) = probe(low, last, pages)
    {
        return if answer { Ok(()) } else { judge(low, bytes) };
    }
    check_listed(low, bytes)
}

/// Like [`check_mapped`], at a cost that does not grow with the range. Used before copies. Every page must be
/// mapped, and the first and the last must be readable.
///
/// # Errors
///
/// As [`check_mapped`]. A page in the middle that is mapped but not readable is missed.
pub fn check_reachable(low: u64, bytes: u64) -> Result<(), AddressError> {
    let Some((last, pages)) = span(low, bytes) else { return Ok(()) };
    if pages > ENDS {
        match has_hole(low, last) {
            Some(true) => return Err(explain(low, bytes)),
            Some(false) => {}
            None => return check_listed(low, bytes),
        }
    }
    if is_readable(low, last, pages) {
        return Ok(());
    }
    match probe(low, last, pages.min(ENDS)) {
        Some(true) => Ok(()),
        Some(false) => judge(low, bytes),
        None => check_listed(low, bytes),
    }
}

/// The address of the last byte and the number of pages; `None` for an empty range.
fn span(low: u64, bytes: u64) -> Option<(u64, u64)> {
    let last = low.saturating_add(bytes.checked_sub(1)?);
    Some((last, last / page_bytes() - low / page_bytes() + 1))
}

fn page_bytes() -> u64 {
    page_size() as u64
}

/// Makes the kernel read one byte in each of `count` evenly spaced pages. It returns an error where a load
/// would fault.
///
/// `None` if the system call is not allowed, as in some containers.
fn probe(low: u64, last: u64, count: u64) -> Option<bool> {
    let mut bytes = [0_u8; MOST_PROBED];
    let mut places = [RemoteIoVec { base: 0, len: 1 }; MOST_PROBED];
    let (first, steps) = (low / page_bytes(), (count - 1).max(1));
    let count = usize::try_from(count).ok()?;
    for (place, step) in places[..count].iter_mut().zip(0_u64..) {
        // In 128 bits, because an invalid range can span the whole address space.
        let pages = u128::from(last / page_bytes() - first) * u128::from(step) / u128::from(steps);
        let page = first + u64::try_from(pages).ok()?;
        place.base = usize::try_from((page * page_bytes()).max(low)).ok()?;
    }
    let mut local = [IoSliceMut::new(&mut bytes[..count])];
    match process_vm_readv(Pid::this(), &mut local, &places[..count]) {
        Ok(read) => Some(read == count),
        Err(Errno::EFAULT) => Some(false),
        Err(_) => None,
    }
}

/// Whether the kernel can make the first and the last page readable. This takes half the time of [`probe`].
/// It needs Linux 5.14 and fails for device pages, so false proves nothing.
fn is_readable(low: u64, last: u64, pages: u64) -> bool {
    let populate = |from: u64, to: u64| {
        let Some((start, bytes)) = pages_of(from, to) else { return false };
        // SAFETY: `MADV_POPULATE_READ` does to pages what a load does, and returns an error where that would fault.
        unsafe { libc::madvise(start, bytes, libc::MADV_POPULATE_READ) == 0 }
    };
    if pages <= ENDS { populate(low, last) } else { populate(low, low) && populate(last, last) }
}

/// Whether some page of the range is not mapped. The cost depends on the number of mappings in the range, not
/// of pages. `None` if the kernel does not say.
fn has_hole(low: u64, last: u64) -> Option<bool> {
    let (start, bytes) = pages_of(low, last)?;
    // SAFETY: `MS_ASYNC` alone only looks the range up in the list of mappings; no memory is read or written.
    match Errno::result(unsafe { libc::msync(start, bytes, libc::MS_ASYNC) }) {
        Ok(_) => Some(false),
        Err(Errno::ENOMEM) => Some(true),
        Err(_) => None,
    }
}

/// A range rounded down to the start of its first page, for system calls.
fn pages_of(low: u64, last: u64) -> Option<(*mut c_void, usize)> {
    let start = low / page_bytes() * page_bytes();
    let bytes = usize::try_from(last - start).ok()?.checked_add(1)?;
    Some((ptr::without_provenance_mut(usize::try_from(start).ok()?), bytes))
}

/// Looks the range up in the kernel's list of mappings, if available.
fn check_listed(low: u64, bytes: u64) -> Result<(), AddressError> {
    match maps::read() {
        Some(list) if !covers(maps::parse(&list), low, low.saturating_add(bytes - 1)) => {
            Err(explain(low, bytes))
        }
        _ => Ok(()),
    }
}

/// Decides about a range that `process_vm_readv` cannot read. Only mappings of device files are accepted.
fn judge(low: u64, bytes: u64) -> Result<(), AddressError> {
    let list = maps::read().unwrap_or_default();
    let last = low.saturating_add(bytes - 1);
    if covers(maps::parse(&list).filter(is_of_device), low, last) {
        return Ok(());
    }
    Err(explain(low, bytes))
}

/// Whether it maps a device file, like a GPU driver's pinned memory, which `process_vm_readv` cannot read.
fn is_of_device(mapping: &Mapping<'_>) -> bool {
    // POSIX shared memory and `/dev/zero` are host memory.
    let of_host = ["/dev/shm/", "/dev/zero"].iter().any(|host| mapping.name.starts_with(host));
    mapping.name.starts_with("/dev/") && !of_host
}

/// Whether readable mappings cover every byte from `low` to `last`.
fn covers<'a>(mappings: impl Iterator<Item = Mapping<'a>>, low: u64, last: u64) -> bool {
    let mut at = low;
    for mapping in mappings.filter(|mapping| mapping.readable) {
        if mapping.holds(at) {
            if last < mapping.end {
                return true;
            }
            at = mapping.end;
        }
    }
    false
}

/// The readable mapping of `address`, if any. Unreadable ones do not count: GPU drivers reserve addresses for
/// memory that the CPU cannot access.
#[must_use]
pub fn mapping_of(address: u64) -> Option<Range<u64>> {
    let list = maps::read()?;
    let found = maps::parse(&list).find(|mapping| mapping.readable && mapping.holds(address))?;
    Some(found.start..found.end)
}

fn explain(low: u64, bytes: u64) -> AddressError {
    let list = maps::read().unwrap_or_default();
    let mut end = low;
    for mapping in maps::parse(&list).filter(|mapping| mapping.readable) {
        if mapping.holds(end) {
            end = mapping.end;
        }
    }
    if end > low {
        return AddressError::TooShort { address: low, needed: bytes, found: end - low };
    }
    let distance = |mapping: &Mapping<'_>| {
        if mapping.end <= low { low - mapping.end } else { mapping.start.saturating_sub(low) }
    };
    let nearest = match maps::parse(&list).min_by_key(distance) {
        Some(mapping) => {
            format!("the nearest mapping is {:#x} to {:#x}", mapping.start, mapping.end)
        }
        None => "no mapping is known".to_owned(),
    };
    AddressError::NotMapped { address: low, nearest: nearest.into() }
}

/// The alignment of gpulend's host memory: two cache lines.
const ALIGNMENT: usize = 128;

/// Allocates host memory, zeroed, aligned to 128 bytes.
///
/// # Errors
///
/// If there is not enough memory.
pub fn allocate(bytes: u64) -> Result<(u64, Owner), Error> {
    let refused = Error::OutOfMemory { bytes };
    let room = usize::try_from(bytes).ok().and_then(|bytes| bytes.checked_add(ALIGNMENT));
    let room = room.ok_or_else(|| refused.clone())?;
    // Reserved first: `vec!`, which gets zeroed pages for free, aborts the process on failure.
    Vec::<u8>::new().try_reserve_exact(room).map_err(|_| refused)?;
    let mut memory = vec![0_u8; room];
    let start = memory.as_mut_ptr().expose_provenance();
    Ok((start.next_multiple_of(ALIGNMENT) as u64, Owner::keep(memory)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mapped_is_found_and_what_is_not_is_refused() {
        let memory = vec![0_u8; 3 << 20];
        let address = memory.as_ptr().addr() as u64;
        assert_eq!(check_mapped(address, memory.len() as u64), Ok(()));
        assert_eq!(check_mapped(address + 5, 1), Ok(()));
        assert_eq!(check_mapped(address, 0), Ok(()));
        assert!(mapping_of(address).unwrap().contains(&address));
        for address in [0x10, 0x1234_5678_9012_3456, u64::MAX - 1] {
            assert!(matches!(check_mapped(address, 4), Err(AddressError::NotMapped { .. })));
        }
    }

    #[test]
    fn a_mapping_that_ends_too_early_is_told_from_one_that_is_not_there() {
        let memory = vec![0_u8; 1 << 20];
        let address = memory.as_ptr().addr() as u64;
        for bytes in [1 << 46, i64::MAX as u64] {
            assert!(matches!(check_mapped(address, bytes), Err(AddressError::TooShort { .. })));
        }
    }

    #[test]
    fn holes_are_seen() {
        let mapping =
            |start, end, readable| Mapping { start, end, readable, writable: false, name: "" };
        let covers = |list: &[Mapping<'_>], low, last| covers(list.iter().copied(), low, last);
        let list = [mapping(0, 10, true), mapping(10, 20, true), mapping(30, 40, true)];
        assert!(covers(&list, 5, 19));
        assert!(!covers(&list, 5, 20));
        assert!(!covers(&list, 25, 35));
        assert!(!covers(&[mapping(0, 10, false)], 1, 2));
    }

    #[test]
    fn what_is_about_to_be_copied_is_asked_for_as_a_whole() {
        let memory = vec![0_u8; 3 << 20];
        let address = memory.as_ptr().addr() as u64;
        for bytes in [0, 1, 4096, 100_000, memory.len() as u64] {
            assert_eq!(check_reachable(address, bytes), Ok(()), "{bytes}");
        }
        for bytes in [1 << 46, i64::MAX as u64] {
            assert!(matches!(check_reachable(address, bytes), Err(AddressError::TooShort { .. })));
        }
        for bytes in [1, 4 << 20] {
            let refused = check_reachable(0x10_000, bytes);
            assert!(matches!(refused, Err(AddressError::NotMapped { .. })), "{refused:?}");
        }
    }

    #[test]
    fn pages_that_are_asked_for_are_evenly_chosen_and_the_ends_among_them() {
        let memory = vec![0_u8; 100 * 4096];
        let (low, last) =
            (memory.as_ptr().addr() as u64 + 77, memory.as_ptr().addr() as u64 + 99 * 4096);
        for count in [1, 2, 3, 16, 64] {
            assert_eq!(probe(low, last, count), Some(true), "{count}");
        }
        // Only the last page is missing.
        assert_eq!(probe(low, 1 << 62, 2), Some(false));
        assert_eq!(has_hole(low, last), Some(false));
        assert_eq!(has_hole(low, 1 << 62), Some(true));
    }

    #[test]
    fn memory_that_a_driver_maps_is_told_by_its_path() {
        let line = |path: &str| {
            let line = format!("7f0000000000-7f0000001000 rw-s 00000000 00:05 123    {path}");
            maps::parse(&line).any(|mapping| is_of_device(&mapping))
        };
        assert!(line("/dev/nvidiactl") && line("/dev/nvidia-uvm") && line("/dev/dri/card0"));
        assert!(!line("/dev/shm/torch_1") && !line("/dev/zero (deleted)") && !line("[heap]"));
        assert!(!line("/home/somebody/dev/a.bin") && !line(""));
    }

    #[test]
    fn what_we_allocate_is_aligned_and_bounded() {
        let (address, _owner) = allocate(1000).unwrap();
        assert_eq!(address % 128, 0);
        assert_eq!(check_mapped(address, 1000), Ok(()));
        assert!(matches!(allocate(u64::MAX / 2), Err(Error::OutOfMemory { .. })));
    }
}
