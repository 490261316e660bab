//! Host memory: is it there, what maps it, and memory of our own.
#![forbid(unsafe_code)]

use std::fs;
use std::io::IoSliceMut;

use nix::errno::Errno;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

use crate::error::{AddressError, Error};
use crate::owner::Owner;

const PAGE: u64 = 4096;
/// Up to this many pages one system call touches each; beyond, the list of mappings is read.
const MOST_PROBED: usize = 64;

/// One line of the kernel's list of mappings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First byte.
    pub start: u64,
    /// First byte after it.
    pub end: u64,
    /// Whether the process may read it.
    pub readable: bool,
    /// Whether the process may write it.
    pub writable: bool,
}

/// Checks that `bytes` bytes from `low` can be read, without touching them by a load.
///
/// # Errors
///
/// If some byte is not mapped readable; the error names the nearest mapping.
pub fn check_mapped(low: u64, bytes: u64) -> Result<(), AddressError> {
    if bytes == 0 {
        return Ok(());
    }
    let last = low.saturating_add(bytes - 1);
    if last / PAGE - low / PAGE < MOST_PROBED as u64
        && let Some(answer) = probe(low, last)
    {
        return if answer { Ok(()) } else { Err(explain(low, bytes)) };
    }
    match mappings() {
        Some(mappings) if !covers(&mappings, low, last) => Err(explain(low, bytes)),
        _ => Ok(()),
    }
}

/// Has the kernel read one byte of each page; it answers an error where a load would fault.
///
/// Says nothing where the system call is not allowed, as in some containers.
fn probe(low: u64, last: u64) -> Option<bool> {
    let mut bytes = [0_u8; MOST_PROBED];
    let mut pages = [RemoteIoVec { base: 0, len: 1 }; MOST_PROBED];
    let mut count = 0;
    let mut at = low;
    while at <= last {
        pages[count].base = usize::try_from(at).ok()?;
        count += 1;
        at = (at / PAGE + 1).checked_mul(PAGE)?;
    }
    let mut local = [IoSliceMut::new(&mut bytes[..count])];
    match process_vm_readv(Pid::this(), &mut local, &pages[..count]) {
        Ok(read) => Some(read == count),
        Err(Errno::EFAULT) => Some(false),
        Err(_) => None,
    }
}

/// Whether readable mappings cover every byte from `low` to `last`.
fn covers(mappings: &[Mapping], low: u64, last: u64) -> bool {
    let mut at = low;
    for mapping in mappings.iter().filter(|mapping| mapping.readable) {
        if mapping.start <= at && at < mapping.end {
            if last < mapping.end {
                return true;
            }
            at = mapping.end;
        }
    }
    false
}

/// What maps `address`, if anything does that can be read: GPU drivers reserve addresses of the process for memory that
/// is not the host's.
#[must_use]
pub fn mapping_of(address: u64) -> Option<Mapping> {
    let holds = |mapping: &Mapping| mapping.start <= address && address < mapping.end;
    mappings()?.into_iter().find(|mapping| mapping.readable && holds(mapping))
}

fn explain(low: u64, bytes: u64) -> AddressError {
    let mappings = mappings().unwrap_or_default();
    let mut end = low;
    for mapping in mappings.iter().filter(|mapping| mapping.readable) {
        if mapping.start <= end && end < mapping.end {
            end = mapping.end;
        }
    }
    if end > low {
        return AddressError::TooShort { address: low, needed: bytes, found: end - low };
    }
    let distance = |mapping: &&Mapping| {
        if mapping.end <= low { low - mapping.end } else { mapping.start.saturating_sub(low) }
    };
    let nearest = match mappings.iter().min_by_key(distance) {
        Some(mapping) => {
            format!("the nearest mapping is {:#x} to {:#x}", mapping.start, mapping.end)
        }
        None => "no mapping is known".to_owned(),
    };
    AddressError::NotMapped { address: low, nearest: nearest.into() }
}

/// The kernel's list, ascending; nothing where there is no `/proc`.
fn mappings() -> Option<Vec<Mapping>> {
    let text = fs::read_to_string("/proc/self/maps").ok()?;
    Some(text.lines().filter_map(parse_mapping).collect())
}

fn parse_mapping(line: &str) -> Option<Mapping> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let mut flags = rest.chars();
    Some(Mapping {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        readable: flags.next()? == 'r',
        writable: flags.next()? == 'w',
    })
}

/// What host memory of our own is aligned to: a pair of cache lines.
const ALIGNMENT: usize = 128;

/// Allocates host memory, zeroed, aligned to 128 bytes.
///
/// # Errors
///
/// If there is no room.
pub fn allocate(bytes: u64) -> Result<(u64, Owner), Error> {
    let refused = Error::OutOfMemory { bytes };
    let room = usize::try_from(bytes).ok().and_then(|bytes| bytes.checked_add(ALIGNMENT));
    let room = room.ok_or_else(|| refused.clone())?;
    // Asked first, because `vec!`, which gets zeroed pages for nothing, ends the process if refused.
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
        let mapping = mapping_of(address).unwrap();
        assert!(mapping.readable && mapping.writable);
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
        let mapping = |start, end, readable| Mapping { start, end, readable, writable: false };
        let list = [mapping(0, 10, true), mapping(10, 20, true), mapping(30, 40, true)];
        assert!(covers(&list, 5, 19));
        assert!(!covers(&list, 5, 20));
        assert!(!covers(&list, 25, 35));
        assert!(!covers(&[mapping(0, 10, false)], 1, 2));
    }

    #[test]
    fn what_we_allocate_is_aligned_and_bounded() {
        let (address, _owner) = allocate(1000).unwrap();
        assert_eq!(address % 128, 0);
        assert_eq!(check_mapped(address, 1000), Ok(()));
        assert!(matches!(allocate(u64::MAX / 2), Err(Error::OutOfMemory { .. })));
    }
}
