//! Information about leases, slices and views, and their addresses.

use gpulend::export::face::is_host_visible;
use gpulend::{DeviceKind, ExportError, Index, Lease, Memory, host};

use crate::about::{dtype_of, number_of};
use crate::devices::number;
use crate::guard::guard;
use crate::memory::refuse_stream;
use crate::pointer::{Form, Out, numbers};
use crate::refusal::Refusal;
use crate::streams::of;
use crate::table::{find, insert};
use crate::types::{
    DtypeNumber, GPULEND_COMPACT, GPULEND_HOST_VISIBLE, GPULEND_KNOWN_ALLOCATION,
    GPULEND_KNOWN_HOST, GPULEND_KNOWN_POOL_BLOCK, GPULEND_KNOWN_RESERVATION, GPULEND_MEMORY_DEVICE,
    GPULEND_MEMORY_HOST, GPULEND_MEMORY_MANAGED, GPULEND_MEMORY_PINNED, GPULEND_PADDED,
    GPULEND_READONLY, GPULEND_SHARE_DESCRIPTOR, GPULEND_SHARE_FABRIC, GPULEND_SHARE_HANDLE,
    GPULEND_SIMULATED, Info, LeaseHandle, Passport, Status, StreamHandle,
};

/// Describes a lease.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_info(lease: LeaseHandle, info: *mut Info) -> Status {
    guard(|| {
        // SAFETY: (1) of the crate.
        let info = unsafe { Form::at(info, "info") }?;
        let lease: Lease = find(lease)?;
        lease.note_unseen_work();
        let view = lease.view();
        let flags = [
            (GPULEND_READONLY, view.readonly()),
            (GPULEND_SIMULATED, lease.is_simulated()),
            (GPULEND_PADDED, view.dtype().is_padded()),
            (GPULEND_COMPACT, view.layout().is_compact()),
            (GPULEND_HOST_VISIBLE, is_host_visible(&lease)),
        ];
        info.fill(Info {
            size: 0,
            address: view.address(),
            bytes: view.nbytes(),
            device: number(view.device()),
            memory: kind(view.memory()),
            dtype: number_of(view.dtype()),
            ndim: i32::try_from(view.layout().rank()).unwrap_or(i32::MAX),
            flags: flags.iter().filter(|(_, set)| *set).map(|(flag, _)| flag).sum(),
            reserved: 0,
        });
        Ok(())
    })
}

/// Writes the extents and the strides, counted in elements, of a lease with `ndim` axes. Either
/// pointer may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_shape(
    lease: LeaseHandle,
    ndim: i32,
    shape: *mut i64,
    strides: *mut i64,
) -> Status {
    guard(|| {
        let lease: Lease = find(lease)?;
        let layout = lease.view().layout();
        if usize::try_from(ndim) != Ok(layout.rank()) {
            let problem = format!("is {ndim}, but the lease has {} axes", layout.rank());
            return Err(Refusal::argument("ndim", problem));
        }
        for (place, numbers) in [(shape, layout.shape()), (strides, layout.strides())] {
            for (axis, number) in numbers.iter().enumerate().filter(|_| !place.is_null()) {
                // SAFETY: (1) of the crate: there is room for `ndim` numbers.
                unsafe { Out::at(place.wrapping_add(axis), "shape") }?.put(*number);
            }
        }
        Ok(())
    })
}

/// Slices an axis: every `step`-th element from `start` to before `stop`, with Python's rules for
/// negative numbers. The result is a new lease of the same memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_slice(
    lease: LeaseHandle,
    axis: i32,
    start: i64,
    stop: i64,
    step: i64,
    slice: *mut LeaseHandle,
) -> Status {
    let make = |whole: &Lease| {
        let rank = whole.view().layout().rank();
        let Some(axis) = usize::try_from(axis).ok().filter(|axis| *axis < rank) else {
            let problem = format!("is {axis}, but the lease has {rank} axes, counted from 0");
            return Err(Refusal::argument("axis", problem));
        };
        let all = Index::Slice { start: None, stop: None, step: None };
        let mut indices = vec![all; axis];
        indices.push(Index::Slice { start: Some(start), stop: Some(stop), step: Some(step) });
        indices.push(Index::Rest);
        Ok(whole.index(&indices)?)
    };
    // SAFETY: (1) of the crate.
    guard(|| unsafe { part(lease, slice, make) })
}

/// The same elements under another shape, in which one extent may be -1, without a copy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_reshape(
    lease: LeaseHandle,
    ndim: i32,
    shape: *const i64,
    reshaped: *mut LeaseHandle,
) -> Status {
    guard(|| {
        // SAFETY: (1) of the crate.
        let shape = unsafe { numbers(shape, ndim, "shape") }?;
        // SAFETY: (1) of the crate.
        unsafe { part(lease, reshaped, |whole| Ok(whole.reshaped(shape)?)) }
    })
}

/// The axes in reverse order, without a copy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_transpose(
    lease: LeaseHandle,
    transposed: *mut LeaseHandle,
) -> Status {
    // SAFETY: (1) of the crate.
    guard(|| unsafe { part(lease, transposed, |whole| Ok(whole.transposed())) })
}

/// The same bytes read as another element type, without a copy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_view(
    lease: LeaseHandle,
    dtype: DtypeNumber,
    view: *mut LeaseHandle,
) -> Status {
    // SAFETY: (1) of the crate.
    guard(|| unsafe { part(lease, view, |whole| Ok(whole.viewed(dtype_of(dtype)?)?)) })
}

/// The same memory, read-only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_readonly(
    lease: LeaseHandle,
    readonly: *mut LeaseHandle,
) -> Status {
    // SAFETY: (1) of the crate.
    guard(|| unsafe { part(lease, readonly, |whole| Ok(whole.as_readonly())) })
}

/// Makes a sub-lease.
///
/// # Safety
///
/// (1) of the crate.
unsafe fn part(
    lease: LeaseHandle,
    place: *mut LeaseHandle,
    make: impl FnOnce(&Lease) -> Result<Lease, Refusal>,
) -> Result<(), Refusal> {
    // SAFETY: the contract.
    let place = unsafe { Out::at(place, "the result's place") }?;
    place.put(insert(make(&find(lease)?)?)?);
    Ok(())
}

/// The address of the first element, for work on `stream`: the stream waits until
/// the bytes are ready, and the memory is not released before the work that the stream has at the
/// release is done. Valid as long as the lease.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_pointer(
    lease: LeaseHandle,
    stream: StreamHandle,
    address: *mut u64,
) -> Status {
    guard(|| {
        // SAFETY: (1) of the crate.
        let address = unsafe { Out::at(address, "address") }?;
        let lease: Lease = find(lease)?;
        let device = lease.view().device();
        if device.kind() == DeviceKind::Cpu {
            refuse_stream(stream)?;
        } else {
            lease.hand_over(&of(stream, device.index())?)?;
        }
        address.put(lease.view().address());
        Ok(())
    })
}

/// The address for host code, which may read and write the memory from now on. Waits until the bytes
/// are ready. Refused for memory that the host cannot read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_host_pointer(lease: LeaseHandle, address: *mut u64) -> Status {
    guard(|| {
        // SAFETY: (1) of the crate.
        let address = unsafe { Out::at(address, "address") }?;
        let lease: Lease = find(lease)?;
        if !is_host_visible(&lease) {
            let found = lease.view().device().to_string().into();
            return Err(ExportError::Device { found, wanted: "the host".into() }.into());
        }
        lease.hand_to_host()?;
        address.put(lease.view().address());
        Ok(())
    })
}

/// Notes that work on the memory was queued on a stream: the release and the next user of the memory
/// wait for it.
#[unsafe(no_mangle)]
pub extern "C" fn gpulend_used_on(lease: LeaseHandle, stream: StreamHandle) -> Status {
    guard(|| {
        let lease: Lease = find(lease)?;
        let device = lease.view().device();
        if device.kind() == DeviceKind::Cpu {
            return refuse_stream(stream);
        }
        Ok(lease.used_on(&of(stream, device.index())?)?)
    })
}

/// Describes an address: asks the driver, and the kernel for memory that the driver does not know.
/// It starts no driver.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_describe(address: u64, passport: *mut Passport) -> Status {
    guard(|| {
        // SAFETY: (1) of the crate.
        let passport = unsafe { Form::at(passport, "passport") }?;
        passport.fill(describe(address)?);
        Ok(())
    })
}

fn describe(address: u64) -> Result<Passport, Refusal> {
    let Some(found) = gpulend::driver::passport(address)? else {
        host::check_mapped(address, 1)?;
        let mapping = host::mapping_of(address);
        let (base, bytes) = mapping.map_or((address, 1), |it| (it.start, it.end - it.start));
        return Ok(Passport {
            size: 0,
            address,
            base,
            bytes,
            buffer_id: 0,
            context: 0,
            pool: 0,
            uuid: [0; 16],
            device: number(gpulend::Device::CPU),
            memory: GPULEND_MEMORY_HOST,
            known: GPULEND_KNOWN_HOST,
            shareable: 0,
        });
    };
    let shareable = [
        (GPULEND_SHARE_HANDLE, found.by_handle),
        (GPULEND_SHARE_DESCRIPTOR, found.by_descriptor),
        (GPULEND_SHARE_FABRIC, found.by_fabric),
    ];
    Ok(Passport {
        size: 0,
        address,
        base: found.base,
        bytes: found.size,
        buffer_id: found.buffer_id,
        context: found.context.unwrap_or(0),
        pool: found.pool.unwrap_or(0),
        uuid: found.uuid,
        device: number(found.device),
        memory: kind(found.memory),
        known: match found.known {
            gpulend::driver::Known::Allocation => GPULEND_KNOWN_ALLOCATION,
            gpulend::driver::Known::PoolBlock => GPULEND_KNOWN_POOL_BLOCK,
            gpulend::driver::Known::Reservation => GPULEND_KNOWN_RESERVATION,
        },
        shareable: shareable.iter().filter(|(_, can)| *can).map(|(by, _)| by).sum(),
    })
}

fn kind(memory: Memory) -> u32 {
    match memory {
        Memory::Pinned => GPULEND_MEMORY_PINNED,
        Memory::Managed => GPULEND_MEMORY_MANAGED,
        Memory::Device => GPULEND_MEMORY_DEVICE,
        _ => GPULEND_MEMORY_HOST,
    }
}
