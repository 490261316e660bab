//! Kernels: their parameters and launches.

use std::ffi::{c_char, c_void};
use std::slice;

use gpulend::Owner;
use gpulend::kernel::{self, Kernel, Options, Plan, Size};
use gpulend::ledger::FixedName;

use crate::guard::guard;
use crate::pointer::{Form, put_text, read_sized};
use crate::refusal::Refusal;
use crate::streams::check_flags;
use crate::table::{Found, find, find_for_launch, remove};
use crate::types::{
    Argument, GPULEND_ARGUMENT_BYTES, GPULEND_ARGUMENT_DOUBLE, GPULEND_ARGUMENT_INT,
    GPULEND_ARGUMENT_LEASE, GPULEND_ARGUMENT_NULL, GPULEND_ARGUMENT_UINT, GPULEND_STRIDED,
    GPULEND_UNCHECKED, KernelHandle, KernelInfo, LaunchShape, Status, StreamHandle,
};

/// No kernel has so many parameters: they would not fit into a GPU's parameter space.
const MOST_ARGUMENTS: u64 = 1 << 16;

/// The name of a lease argument in messages.
static WHAT: FixedName = FixedName::new("a lease");

/// Writes a kernel's name and parameters, such as "add(const float* a, float* b, int n)", as
/// gpulend_dtype_name() writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_kernel_signature(
    kernel: KernelHandle,
    text: *mut c_char,
    room: u64,
    needed: *mut u64,
) -> Status {
    guard(|| {
        let signature = find::<Kernel>(kernel)?.signature().to_string();
        // SAFETY: (1) of the crate.
        unsafe { put_text(&signature, text, room, needed) }
    })
}

/// A kernel's resources and limits on its GPU.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_kernel_attributes(
    kernel: KernelHandle,
    info: *mut KernelInfo,
) -> Status {
    guard(|| {
        // SAFETY: (1) of the crate.
        let info = unsafe { Form::at(info, "info") }?;
        let found = find::<Kernel>(kernel)?.attributes()?;
        info.fill(KernelInfo {
            size: 0,
            max_threads_per_block: found.max_threads_per_block,
            shared_bytes: found.shared_bytes,
            constant_bytes: found.constant_bytes,
            local_bytes: found.local_bytes,
            registers: found.registers,
            ptx_version: found.ptx_version,
            binary_version: found.binary_version,
            max_dynamic_shared_bytes: found.max_dynamic_shared_bytes,
        });
        Ok(())
    })
}

/// Queues a launch after the work that the leases wait for; their memory is kept until the kernel is done.
/// Count, types, devices and sizes are checked against the kernel's parameters first: a mismatch is
/// refused, and nothing is queued. A mistake of the kernel on the GPU is reported by a
/// later call that waits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_launch(
    kernel: KernelHandle,
    shape: *const LaunchShape,
    arguments: *const Argument,
    count: u64,
) -> Status {
    guard(|| {
        // SAFETY: (1) of the crate.
        let shape = unsafe { read_sized(shape, "shape") }?;
        check_flags(shape.flags, GPULEND_STRIDED | GPULEND_UNCHECKED)?;
        let options = Options {
            check: shape.flags & GPULEND_UNCHECKED == 0,
            strided: shape.flags & GPULEND_STRIDED != 0,
        };
        let size = Size { grid: shape.grid, block: shape.block, shared: shape.shared };
        // SAFETY: (1) of the crate.
        let arguments = unsafe { list(arguments, count) }?;
        // SAFETY: (1) and (5) of the crate.
        unsafe { launch(kernel, &size, shape.stream, arguments, options) }
    })
}

/// Queues a launch with at least one thread for each of `elements` elements, in blocks that fill the GPU
/// best, as gpulend_launch(). For 0 elements nothing is launched.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_forall(
    kernel: KernelHandle,
    elements: u64,
    arguments: *const Argument,
    count: u64,
    stream: StreamHandle,
) -> Status {
    guard(|| {
        // SAFETY: (1) of the crate.
        let arguments = unsafe { list(arguments, count) }?;
        let size = find::<Kernel>(kernel)?.size_for(elements.max(1), 0)?;
        if elements == 0 {
            return Ok(());
        }
        // SAFETY: (1) and (5) of the crate.
        unsafe { launch(kernel, &size, stream, arguments, Options::default()) }
    })
}

/// Frees the handle.
#[unsafe(no_mangle)]
pub extern "C" fn gpulend_kernel_free(kernel: KernelHandle) -> Status {
    guard(|| {
        drop(remove::<Kernel>(kernel)?);
        Ok(())
    })
}

/// # Safety
///
/// (1) and (5) of the crate.
unsafe fn launch(
    kernel: KernelHandle,
    size: &Size,
    stream: StreamHandle,
    arguments: &[Argument],
    options: Options,
) -> Result<(), Refusal> {
    let is_lease = |argument: &&Argument| argument.kind == GPULEND_ARGUMENT_LEASE;
    let named = arguments.iter().filter(is_lease).map(|argument| argument.value);
    let Found { kernel, stream, leases } = find_for_launch(kernel, stream, named)?;
    let mut leases = leases.iter();
    let mut plan = kernel.prepare()?.plan(options);
    // The current stream is what a plan takes by itself, without a reference of its own.
    if let Some(stream) = stream {
        plan.on(stream);
    }
    for argument in arguments {
        let lease = if is_lease(&argument) { leases.next() } else { None };
        match lease {
            Some(lease) if plan.fit_lease(lease) => {}
            Some(lease) => plan.push_lease(lease.clone(), WHAT.get(), false)?,
            // SAFETY: the contract.
            None => unsafe { push(&mut plan, argument) }?,
        }
    }
    // SAFETY: (1) is the contract; (2) every array is a lease's; (3) only our code ran since.
    match unsafe { plan.queue(size) }? {
        Some(stream) => {
            let waited = stream.synchronize();
            Ok(waited.inspect_err(|_| plan.keep_until_done(stream, Owner::nobody()))?)
        }
        None => Ok(()),
    }
}

/// Gives a plan an argument that is no lease.
///
/// # Safety
///
/// (1) of the crate.
unsafe fn push(plan: &mut Plan<'_>, argument: &Argument) -> Result<(), Refusal> {
    let Argument { kind, bytes, value } = *argument;
    // A type with a size: parameters without a known type need it.
    let exact = u8::try_from(bytes).ok().filter(|bytes| *bytes > 0);
    let argument = match kind {
        GPULEND_ARGUMENT_NULL => kernel::Argument::Null,
        GPULEND_ARGUMENT_INT => kernel::Argument::Integer(value.cast_signed().into()),
        GPULEND_ARGUMENT_UINT => kernel::Argument::Integer(value.into()),
        GPULEND_ARGUMENT_DOUBLE => kernel::Argument::Float(f64::from_bits(value), exact),
        GPULEND_ARGUMENT_BYTES => {
            // SAFETY: the contract.
            kernel::Argument::Bytes(unsafe { content(value, bytes) }?)
        }
        other => {
            let problem = format!("have one of kind {other}; say GPULEND_ARGUMENT_...");
            return Err(Refusal::argument("arguments", problem));
        }
    };
    Ok(plan.push(&argument)?)
}

/// The bytes of an argument.
///
/// # Safety
///
/// (1) of the crate; the result is used only until the function returns.
unsafe fn content<'a>(address: u64, bytes: u32) -> Result<&'a [u8], Refusal> {
    let place =
        usize::try_from(address).map_or(std::ptr::null(), std::ptr::with_exposed_provenance);
    let place: *const c_void = place;
    if place.is_null() {
        return Err(Refusal::argument("arguments", "have bytes at NULL"));
    }
    // SAFETY: the contract; null was refused.
    Ok(unsafe { slice::from_raw_parts(place.cast(), bytes as usize) })
}

/// The arguments of a launch.
///
/// # Safety
///
/// (1) of the crate; the result is used only until the function returns.
unsafe fn list<'a>(first: *const Argument, count: u64) -> Result<&'a [Argument], Refusal> {
    let length = usize::try_from(count).ok().filter(|_| count <= MOST_ARGUMENTS);
    let Some(length) = length else {
        return Err(Refusal::argument("count", format!("is {count}; no kernel takes so many")));
    };
    if length == 0 {
        return Ok(&[]);
    }
    if first.is_null() {
        let problem = format!("is NULL although count is {count}");
        return Err(Refusal::argument("arguments", problem));
    }
    if !first.is_aligned() {
        return Err(Refusal::argument("arguments", "is not aligned as an array of them"));
    }
    // SAFETY: the contract; null was refused.
    Ok(unsafe { slice::from_raw_parts(first, length) })
}
