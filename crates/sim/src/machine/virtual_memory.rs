//! Memory that is made, mapped and given access to in separate steps.
//!
//! Physical memory is an in-memory file of its own, and the descriptor by which it is shared is one of that file. The
//! bytes stay as long as there is a descriptor, a mapping or a handle.
#![forbid(unsafe_code)]

use std::ffi::CString;
use std::fs::File;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::memory::{FILLED, FRESH, Found, Kind};
use super::operation::OperationId;
use super::share::is_memory_file;
use super::{Caller, Machine, State};
use crate::bytes::{Mapping, Range, memory_file};
use crate::config::Check;
use crate::status::{Outcome, Status};

/// The granularity of sizes, addresses and mappings.
pub const GRANULARITY: usize = 2 << 20;
/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`.
pub const POSIX_FILE_DESCRIPTOR: u32 = 1;

/// `CU_MEM_ACCESS_FLAGS_PROT_*`, for each device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access(u16);

impl Access {
    /// No access.
    pub const NONE: u8 = 0;
    /// Reads alone.
    pub const READ: u8 = 1;
    /// Reads and writes.
    pub const READ_WRITE: u8 = 3;

    /// Returns the access of a device.
    #[must_use]
    pub fn of(self, device: usize) -> u8 {
        u8::try_from(self.0 >> (2 * device) & 3).unwrap_or(0)
    }

    /// Returns whether no device has any.
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    fn set(&mut self, device: usize, flags: u8) {
        self.0 = self.0 & !(3 << (2 * device)) | u16::from(flags & 3) << (2 * device);
    }
}

/// Physical memory.
#[derive(Debug)]
pub struct Physical {
    file: OwnedFd,
    /// Its size.
    pub bytes: usize,
    /// Its device.
    pub device: usize,
    /// How it can be shared.
    pub handle_types: u32,
    /// Whether another process, or another handle, counts its bytes.
    imported: bool,
    /// How often its handle was made and not released.
    references: usize,
    /// The number of its mappings.
    mapped: usize,
}

/// The name of the file of a device's memory.
fn name(device: usize) -> String {
    format!("gpulend-simulated-memory-{device}")
}

impl State {
    /// Returns physical memory by its handle.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub fn physical(&mut self, caller: &Caller, handle: usize) -> Outcome<&mut Physical> {
        let invalid = Status::ERROR_INVALID_VALUE;
        if self.physical.get(handle).is_none_or(|found| found.references == 0) {
            let what = "use of a released allocation handle";
            let known = self.physical.was(handle) || self.physical.get(handle).is_some();
            return Err(if known { self.fault(caller, invalid, what, handle) } else { invalid });
        }
        self.physical.get_mut(handle).ok_or(invalid)
    }

    /// Ends physical memory that neither a handle nor a mapping refers to.
    fn settle_physical(&mut self, handle: usize) {
        let unused = |found: &Physical| found.references == 0 && found.mapped == 0;
        if self.physical.get(handle).is_some_and(unused)
            && let Some(gone) = self.physical.remove(handle)
            && !gone.imported
        {
            self.memory.uncount(gone.device, gone.bytes);
        }
    }

    /// Returns the mappings that begin in a range. It may have gaps if it is in a reservation.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE` if it cuts a mapping, or is not reserved.
    fn mappings_within(
        &mut self,
        caller: &Caller,
        address: usize,
        bytes: usize,
    ) -> Outcome<Vec<usize>> {
        let invalid = Status::ERROR_INVALID_VALUE;
        let whole = [address, bytes].iter().all(|number| number.is_multiple_of(GRANULARITY));
        let end = address.checked_add(bytes).filter(|end| *end > address && whole);
        let end = end.filter(|_| self.reservation(address, bytes).is_some()).ok_or(invalid)?;
        let cut = |edge: usize| {
            let before = self.memory.before(edge);
            before.is_some_and(|(base, other)| base + other.range.bytes() > edge)
        };
        if cut(address) || cut(end) {
            let what = "a range that cuts a mapping";
            return Err(self.fault(caller, invalid, what, address));
        }
        let inside = |base: &usize| (address..end).contains(base);
        Ok(self.memory.iter().map(|(base, _)| base).filter(inside).collect())
    }

    /// Returns the start of the reservation that a range is in.
    fn reservation(&self, address: usize, bytes: usize) -> Option<usize> {
        let (start, length) = self.reservations.range(..=address).next_back()?;
        (address.checked_add(bytes)? <= start + length).then_some(*start)
    }

    /// Returns the mappings that fill a range.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE` if they do not, or reach beyond it.
    fn mappings(&mut self, caller: &Caller, address: usize, bytes: usize) -> Outcome<Vec<usize>> {
        let mut found = Vec::new();
        let mut next = address;
        let end = address.checked_add(bytes).filter(|end| *end > address);
        while let Some(end) = end.filter(|end| next < *end) {
            let mapping = self.memory.get(next).filter(|found| {
                matches!(found.kind, Kind::Mapped { .. }) && found.range.bytes() <= end - next
            });
            let Some(mapping) = mapping else { break };
            found.push(next);
            next += mapping.range.bytes();
        }
        if end == Some(next) {
            return Ok(found);
        }
        let what = "a range that is not made of whole mappings";
        Err(self.fault(caller, Status::ERROR_INVALID_VALUE, what, next))
    }
}

impl Machine {
    /// Reserves addresses.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`, `OUT_OF_MEMORY`.
    pub fn reserve(&self, bytes: usize, align: usize) -> Outcome<usize> {
        let invalid = Status::ERROR_INVALID_VALUE;
        let whole = bytes.is_multiple_of(GRANULARITY) && (align == 0 || align.is_power_of_two());
        let size = NonZeroUsize::new(bytes).filter(|_| whole).ok_or(invalid)?;
        let window = Mapping::window(size, align.max(GRANULARITY));
        let window = Arc::new(window.map_err(|_| Status::ERROR_OUT_OF_MEMORY)?);
        let address = window.address();
        let mut state = self.lock();
        state.memory.add_window(window);
        state.reservations.insert(address, bytes);
        Ok(address)
    }

    /// Ends a reservation.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE` for another range than was reserved, and while memory is mapped there.
    pub fn end_reservation(&self, caller: &Caller, address: usize, bytes: usize) -> Outcome<()> {
        let mut state = self.lock();
        let invalid = Status::ERROR_INVALID_VALUE;
        if state.reservations.get(&address) != Some(&bytes) {
            let what = "free of addresses that were not reserved in this way";
            return Err(state.fault(caller, invalid, what, address));
        }
        let inside = |base: &usize| (address..address + bytes).contains(base);
        let mapped = state.memory.iter().map(|(base, _)| base).find(inside);
        if let Some(base) = mapped {
            let what = "free of addresses where memory is mapped";
            return Err(state.fault(caller, invalid, what, base));
        }
        state.reservations.remove(&address);
        state.memory.close_window(address);
        Ok(())
    }

    /// Makes physical memory.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`, `OUT_OF_MEMORY`.
    pub fn make_physical(&self, device: usize, bytes: usize, handle_types: u32) -> Outcome<usize> {
        if bytes == 0 || !bytes.is_multiple_of(GRANULARITY) {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        let mut state = self.lock();
        let held = state.spare(device);
        state.memory.count(device, bytes, held)?;
        let named = CString::new(name(device)).map_err(|_| Status::ERROR_UNKNOWN)?;
        let Ok(file) = memory_file(&named, bytes) else {
            state.memory.uncount(device, bytes);
            return Err(Status::ERROR_OUT_OF_MEMORY);
        };
        let file = File::from(file);
        if state.config.check != Check::Off {
            // As for other memory: it is not zero. Where this fails, it is.
            let _ = file.write_all_at(&vec![FRESH; FILLED], 0);
        }
        let (file, imported) = (OwnedFd::from(file), false);
        let made =
            Physical { file, bytes, device, handle_types, imported, references: 1, mapped: 0 };
        Ok(state.physical.add(made))
    }

    /// Releases a handle. The memory stays while it is mapped.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub fn release_physical(&self, caller: &Caller, handle: usize) -> Outcome<()> {
        let mut state = self.lock();
        state.physical(caller, handle)?.references -= 1;
        state.settle_physical(handle);
        Ok(())
    }

    /// Returns the handle of the memory that is mapped at an address, which is to be released.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub fn retain_physical(&self, address: usize) -> Outcome<usize> {
        let mut state = self.lock();
        let kind = state.passport(address).map(|passport| passport.kind);
        let Some(Kind::Mapped { physical, .. }) = kind else {
            return Err(Status::ERROR_INVALID_VALUE);
        };
        let found = state.physical.get_mut(physical).ok_or(Status::ERROR_INVALID_VALUE)?;
        found.references += 1;
        Ok(physical)
    }

    /// Maps physical memory at reserved addresses. Nothing may access it yet.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`; `NOT_SUPPORTED` for a part of it.
    pub fn map(
        &self,
        caller: &Caller,
        address: usize,
        bytes: usize,
        offset: usize,
        handle: usize,
    ) -> Outcome<()> {
        let invalid = Status::ERROR_INVALID_VALUE;
        let mut state = self.lock();
        let found = state.physical(caller, handle)?;
        let (size, device) = (found.bytes, found.device);
        if !address.is_multiple_of(GRANULARITY) {
            return Err(invalid);
        }
        // Parts cannot be mapped.
        if offset != 0 || bytes != size {
            return Err(Status::ERROR_NOT_SUPPORTED);
        }
        let Some(start) = state.reservation(address, bytes) else {
            let what = "mapping at addresses that are not reserved";
            return Err(state.fault(caller, invalid, what, address));
        };
        let overlaps = state
            .memory
            .before(address + bytes)
            .is_some_and(|(base, other)| base + other.range.bytes() > address);
        if overlaps {
            let what = "mapping at addresses where memory is mapped";
            return Err(state.fault(caller, invalid, what, address));
        }
        let window = state.memory.window(start).cloned().ok_or(invalid)?;
        let physical = state.physical.get_mut(handle).ok_or(invalid)?;
        let shown = window.show(address - start, bytes, physical.file.as_fd(), 0);
        shown.map_err(|_| Status::ERROR_OPERATING_SYSTEM)?;
        physical.mapped += 1;
        let range = Range::of_mapping(&window, address, bytes).ok_or(invalid)?;
        let kind = Kind::Mapped { physical: handle, access: Access::default() };
        state.memory.insert(address, range, kind, (device, 0), None);
        Ok(())
    }

    /// Unmaps what is mapped in a range, after the work that uses it.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE` if the range cuts a mapping, or is not reserved.
    pub fn unmap(&self, caller: &Caller, address: usize, bytes: usize) -> Outcome<()> {
        loop {
            let mut state = self.lock();
            let bases = state.mappings_within(caller, address, bytes)?;
            let users = bases.iter().filter_map(|base| state.memory.get(*base));
            let goals: Vec<OperationId> =
                users.flat_map(|found| found.users.iter().copied()).collect();
            if goals.is_empty() {
                bases.into_iter().for_each(|base| state.end_mapping(caller, base));
                return Ok(());
            }
            drop(state);
            // On a lost device there is nothing to wait for.
            let _ = self.finish(caller, &goals);
        }
    }

    /// Sets the access of devices to mapped memory.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE`.
    pub fn set_access(
        &self,
        caller: &Caller,
        (address, bytes): (usize, usize),
        devices: &[(usize, u8)],
    ) -> Outcome<()> {
        let mut state = self.lock();
        for base in state.mappings(caller, address, bytes)? {
            if let Some(found) = state.memory.get_mut(base)
                && let Kind::Mapped { access, .. } = &mut found.kind
            {
                devices.iter().for_each(|(device, flags)| access.set(*device, *flags));
            }
        }
        Ok(())
    }

    /// Returns a descriptor by which other processes import physical memory.
    ///
    /// # Errors
    ///
    /// `INVALID_VALUE` if it was not made for that, or imported: the process that made it shares it.
    pub fn share_physical(&self, caller: &Caller, handle: usize) -> Outcome<OwnedFd> {
        let mut state = self.lock();
        let found = state.physical(caller, handle)?;
        if found.imported || found.handle_types & POSIX_FILE_DESCRIPTOR == 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        found.file.try_clone().map_err(|_| Status::ERROR_OPERATING_SYSTEM)
    }

    /// Imports physical memory by a descriptor.
    ///
    /// # Errors
    ///
    /// `UNKNOWN` for a descriptor of anything else, as a real driver says.
    pub fn import_physical(&self, caller: &Caller, file: BorrowedFd<'_>) -> Outcome<usize> {
        let mut state = self.lock();
        let device = (0..state.devices.len()).find(|device| is_memory_file(file, &name(*device)));
        let Some(device) = device else {
            let what = "import of a descriptor that is not of memory of these devices";
            return Err(state.fault(caller, Status::ERROR_UNKNOWN, what, 0));
        };
        let system = Status::ERROR_OPERATING_SYSTEM;
        let file = file.try_clone_to_owned().map_err(|_| system)?;
        let bytes = nix::sys::stat::fstat(&file).ok();
        let bytes = bytes.and_then(|found| usize::try_from(found.st_size).ok()).ok_or(system)?;
        let (handle_types, imported) = (POSIX_FILE_DESCRIPTOR, true);
        let made =
            Physical { file, bytes, device, handle_types, imported, references: 1, mapped: 0 };
        Ok(state.physical.add(made))
    }
}

impl State {
    fn end_mapping(&mut self, caller: &Caller, base: usize) {
        let Some(found) = self.memory.get(base) else { return };
        let (kind, bytes) = (found.kind, found.range.bytes());
        if let Some(window) = self.memory.window(base) {
            // Where the kernel refuses, the bytes merely stay.
            let _ = window.hide(base - window.address(), bytes);
        }
        self.end_allocation(caller, base);
        if let Kind::Mapped { physical, .. } = kind {
            if let Some(found) = self.physical.get_mut(physical) {
                found.mapped -= 1;
            }
            self.settle_physical(physical);
        }
    }

    /// Returns a range that goes over several neighbouring mappings, and the mappings, if a device may access all.
    pub(super) fn across(
        &self,
        address: usize,
        bytes: usize,
        allowed: impl Fn(Kind) -> bool,
    ) -> Option<(Range, Vec<usize>)> {
        let mut bases = Vec::new();
        let (mut next, end) = (address, address.checked_add(bytes)?);
        while next < end {
            let Found::Allocation(base, found) = self.memory.find(next) else { return None };
            if !matches!(found.kind, Kind::Mapped { .. }) || !allowed(found.kind) {
                return None;
            }
            bases.push(base);
            next = base + found.range.bytes();
        }
        let window = self.memory.window(address)?;
        Some((Range::of_mapping(window, address, bytes)?, bases))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_device_has_its_own_access() {
        let mut access = Access::default();
        access.set(0, Access::READ);
        access.set(7, Access::READ_WRITE);
        assert_eq!([0, 1, 7].map(|device| access.of(device)), [1, 0, 3]);
        access.set(7, Access::NONE);
        assert_eq!([0, 7].map(|device| access.of(device)), [1, 0]);
    }
}
