//! Copies between host arrays.

use std::ptr;

use crate::copy::duplicate;
use crate::error::Error;
use crate::import::raw;
use crate::layout::Layout;
use crate::lease::{Element, Lease};
use crate::ledger::Name;
use crate::owner::Owner;
use crate::view::View;

/// Copies between two host leases that passed the checks and are not empty.
///
/// # Safety
///
/// As [`crate::copy::copy`].
pub(super) unsafe fn copy(from: &Lease, to: &Lease) -> Result<(), Error> {
    let (source, target) = (from.view(), to.view());
    let ((low, bytes), (target_low, target_bytes)) = (source.extent(), target.extent());
    let disjoint = low + bytes <= target_low || target_low + target_bytes <= low;
    let contiguous = source.layout().is_compact() && target.layout().is_compact();
    if contiguous || disjoint {
        move_elements(source, target);
        return Ok(());
    }
    // SAFETY: the contract.
    let between = unsafe { duplicate(from) }?;
    move_elements(between.view(), target);
    Ok(())
}

/// The elements in row-major order.
///
/// # Safety
///
/// As (1) of [`crate::copy::copy`].
///
/// # Errors
///
/// If the element type is another one.
pub unsafe fn to_vec<T: Element>(from: &Lease) -> Result<Vec<T>, Error> {
    let size = usize::try_from(from.view().layout().size()).unwrap_or(0);
    let mut elements = vec![T::default(); size];
    let address = elements.as_mut_ptr().expose_provenance() as u64;
    let layout = Layout::compact(from.view().layout().shape(), T::DTYPE)?;
    let target = View::host(address, T::DTYPE, layout, false)?;
    // SAFETY: the vector's memory lives as long as the copy, and nothing else uses it.
    let target = unsafe { raw::wrap(target, Owner::nobody(), Name::UNKNOWN) };
    // SAFETY: the contract.
    unsafe { crate::copy::copy(from, &target) }?;
    Ok(elements)
}

/// Fills a compact array, whose bytes are a whole number of `element`.
pub(super) fn fill(target: &View, element: &[u8]) {
    let first = element.as_ptr().expose_provenance() as u64;
    let steps = (0..target.nbytes()).step_by(element.len());
    steps.for_each(|at| move_bytes(first, target.address() + at, element.len() as u64));
}

/// Moves element by element, in runs as long as both layouts allow.
pub(super) fn move_elements(source: &View, target: &View) {
    let itemsize = i64::from(source.dtype().itemsize());
    let shape = source.layout().shape();
    if source.layout().is_compact() && target.layout().is_compact() {
        let bits = source.layout().size().unsigned_abs() * u64::from(source.dtype().storage_bits());
        // Read before the bytes move: if the two overlap, the move may overwrite it.
        let last = (!bits.is_multiple_of(8)).then(|| read_byte(source.address() + bits / 8));
        move_bytes(source.address(), target.address(), bits / 8);
        if let Some(byte) = last {
            write_bits(byte, target.address() + bits / 8, bits % 8);
        }
        return;
    }
    let strides = [source.layout().strides(), target.layout().strides()];
    // The number of trailing axes without gaps in both: together they are one run.
    let mut run = 1;
    let mut outer = shape.len();
    while outer > 0 {
        let axis = outer - 1;
        if shape[axis] > 1 && strides.iter().any(|strides| strides[axis] != run) {
            break;
        }
        run *= shape[axis];
        outer = axis;
    }
    let bytes = run.unsigned_abs() * itemsize.unsigned_abs();
    let mut at = vec![0_i64; outer];
    loop {
        let offset = |strides: &[i64]| {
            at.iter().zip(strides).map(|(index, stride)| index * stride).sum::<i64>() * itemsize
        };
        move_bytes(
            source.address().wrapping_add_signed(offset(strides[0])),
            target.address().wrapping_add_signed(offset(strides[1])),
            bytes,
        );
        let Some(axis) = (0..outer).rev().find(|&axis| at[axis] + 1 < shape[axis]) else {
            return;
        };
        at[axis] += 1;
        at[axis + 1..].fill(0);
    }
}

fn read_byte(at: u64) -> u8 {
    let at = ptr::with_exposed_provenance::<u8>(usize::try_from(at).unwrap_or(0));
    // SAFETY: as in `move_bytes`.
    unsafe { at.read() }
}

/// Writes the lowest `bits` of a byte that packed elements share with their neighbours.
fn write_bits(byte: u8, to: u64, bits: u64) {
    let mask = (1_u8 << bits) - 1;
    let neighbours = read_byte(to) & !mask;
    let to = ptr::with_exposed_provenance_mut::<u8>(usize::try_from(to).unwrap_or(0));
    // SAFETY: as in `move_bytes`.
    unsafe { to.write(neighbours | byte & mask) }
}

/// Moves bytes inside two views of live leases, or buffers of gpulend's own.
pub(super) fn move_bytes(from: u64, to: u64, bytes: u64) {
    // Host addresses and spans fit a pointer; a view checked that.
    let [from, to, bytes] = [from, to, bytes].map(|number| usize::try_from(number).unwrap_or(0));
    let from = ptr::with_exposed_provenance::<u8>(from);
    let to = ptr::with_exposed_provenance_mut::<u8>(to);
    // SAFETY: both ranges are inside the views of two live leases, whose creators
    // guarantee readable, and for the target writable, memory (`import::raw::wrap`, 1 and 2).
    unsafe { ptr::copy(from, to, bytes) }
}
