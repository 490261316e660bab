//! Tickets: leases for other processes of this machine.

use std::time::Duration;

use gpulend::ticket::{self, Terms};
use gpulend::{Device, DeviceKind, Lease, pool, stream::current_device};

use crate::about::dtype_of;
use crate::devices::place;
use crate::guard::guard;
use crate::memory::{WHO, refuse_stream};
use crate::pointer::{Out, bytes, numbers, put_bytes};
use crate::refusal::Refusal;
use crate::streams::{Entered, check_flags};
use crate::table::{find, insert};
use crate::types::{DtypeNumber, GPULEND_READONLY, LeaseHandle, Status, StreamHandle};

/// Allocates an array as gpulend_allocate(), of memory that other processes can open. Memory of the host
/// is zeroed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_allocate_shared(
    device: i32,
    dtype: DtypeNumber,
    ndim: i32,
    shape: *const i64,
    stream: StreamHandle,
    lease: *mut LeaseHandle,
) -> Status {
    guard(|| {
        // SAFETY: (1) of the crate.
        let lease = unsafe { Out::at(lease, "lease") }?;
        // SAFETY: (1) of the crate.
        let shape = unsafe { numbers(shape, ndim, "shape") }?;
        lease.put(insert(allocate(device, dtype, shape, stream)?)?);
        Ok(())
    })
}

fn allocate(
    device: i32,
    dtype: DtypeNumber,
    shape: &[i64],
    stream: StreamHandle,
) -> Result<Lease, Refusal> {
    let dtype = dtype_of(dtype)?;
    let any = || Device::new(DeviceKind::Cuda, current_device());
    let device = place(device)?.unwrap_or_else(any);
    if device == Device::CPU {
        refuse_stream(stream)?;
        return Ok(Lease::shared(shape, dtype, WHO.get())?);
    }
    let _entered = Entered::on(stream, device.index())?;
    Ok(pool::empty_shared(shape, dtype, device)?)
}

/// Makes a ticket of a lease: bytes by which another process of this user, in any language, opens the same
/// memory. It can be claimed `claims` times, 0 for any number, for `seconds`; the memory stays until
/// then, and as long as a claim lives. `flags` may have GPULEND_READONLY. `room` must be
/// GPULEND_TICKET_BYTES or more; `size` is set to what was written. The first ticket starts a thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_ticket(
    lease: LeaseHandle,
    claims: u32,
    seconds: f64,
    flags: u32,
    ticket: *mut u8,
    room: u64,
    size: *mut u64,
) -> Status {
    guard(|| {
        check_flags(flags, GPULEND_READONLY)?;
        // SAFETY: (1) of the crate.
        let size = unsafe { Out::at(size, "size") }?;
        if room < ticket::MOST_BYTES as u64 {
            let problem = format!("is {room}; a ticket may have {} bytes", ticket::MOST_BYTES);
            return Err(Refusal::argument("room", problem));
        }
        let Ok(keep) = Duration::try_from_secs_f64(seconds) else {
            let problem = format!("is {seconds}, which is no time");
            return Err(Refusal::argument("seconds", problem));
        };
        let lease: Lease = find(lease)?;
        if ticket.is_null() {
            return Err(Refusal::argument("ticket", "is NULL; pass where the result goes"));
        }
        let claims = (claims > 0).then_some(claims);
        let readonly = flags & GPULEND_READONLY != 0;
        let made = ticket::offer(&lease, &Terms { claims, keep, readonly })?;
        // SAFETY: (1) of the crate; a ticket has no more bytes than there is room for.
        unsafe { put_bytes(&made, ticket) };
        size.put(made.len() as u64);
        Ok(())
    })
}

/// Claims a ticket: a lease of the memory of another process, which is opened here and not copied. In the
/// process that made the ticket it is a slice of its lease.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_ticket_claim(
    ticket: *const u8,
    size: u64,
    lease: *mut LeaseHandle,
) -> Status {
    guard(|| {
        // SAFETY: (1) of the crate.
        let lease = unsafe { Out::at(lease, "lease") }?;
        // SAFETY: (1) of the crate.
        let ticket = unsafe { bytes(ticket, size, "ticket") }?;
        lease.put(insert(ticket::claim(ticket)?)?);
        Ok(())
    })
}

/// Ends a ticket of this process: nobody can claim it from now on. Claims that were made stay. `ended` is
/// set to 1 if it could still be claimed, else to 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_ticket_withdraw(
    ticket: *const u8,
    size: u64,
    ended: *mut i32,
) -> Status {
    guard(|| {
        // SAFETY: (1) of the crate.
        let ended = unsafe { Out::at(ended, "ended") }?;
        // SAFETY: (1) of the crate.
        let ticket = unsafe { bytes(ticket, size, "ticket") }?;
        ended.put(ticket::withdraw(ticket)?.into());
        Ok(())
    })
}
