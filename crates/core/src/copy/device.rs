//! Copies from, to and between devices: queued in stream order, with as few driver calls as the layouts allow.

use crate::copy::staged::{Block, Direction};
use crate::copy::{How, check, host, is_host, require_reachable, staged};
use crate::device::Memory;
use crate::driver::{Driver, Rows, Side, driver};
use crate::error::hint::CaptureHint;
use crate::error::{DriverError, Error, ExportError, LayoutError};
use crate::lease::Lease;
use crate::ledger::{FixedName, Name};
use crate::pool;
use crate::stream::{Recording, Stream, current, is_capturing, refuse_capture, refuse_implicit};
use crate::view::View;

/// The largest pitch that drivers accept.
const MOST_PITCH: i64 = (1 << 31) - 1;
/// The most driver calls for one array: each takes microseconds.
const MOST_COPIES: i64 = 1 << 16;
/// From this many calls on it is faster to copy the gaps too, and rearrange on the host.
const MANY_COPIES: i64 = 64;

/// An axis with its strides on both sides, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Axis {
    extent: i64,
    from: i64,
    to: i64,
}

/// The copies that move one array: rows of bytes, repeated along other axes.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    width: i64,
    rows: Axis,
    outer: Vec<Axis>,
}

impl Plan {
    /// Finds the fewest copies for two layouts of one shape.
    fn of(source: &View, target: &View) -> Self {
        let itemsize = i64::from(source.dtype().itemsize());
        let contiguous = source.layout().is_compact() && target.layout().is_compact();
        let mut axes = Vec::new();
        let mut width = itemsize;
        if contiguous {
            width = i64::try_from(source.nbytes()).unwrap_or(i64::MAX);
        } else {
            let strides = source.layout().strides().iter().zip(target.layout().strides());
            for (extent, (from, to)) in source.layout().shape().iter().zip(strides).rev() {
                let axis = Axis { extent: *extent, from: from * itemsize, to: to * itemsize };
                push(&mut axes, &mut width, axis);
            }
        }
        let pitched = |axis: &Axis| {
            let fits = |stride: i64| (width..=MOST_PITCH).contains(&stride);
            fits(axis.from) && fits(axis.to)
        };
        let longest = axes
            .iter()
            .enumerate()
            .filter(|(_, axis)| pitched(axis))
            .max_by_key(|(_, axis)| axis.extent)
            .map(|(index, _)| index);
        let rows =
            longest.map_or(Axis { extent: 1, from: width, to: width }, |index| axes.remove(index));
        Self { width, rows, outer: axes }
    }

    /// The number of driver calls.
    fn copies(&self) -> i64 {
        self.outer.iter().fold(1, |copies, axis| copies.saturating_mul(axis.extent))
    }

    /// Calls `copy` with the offsets of each copy.
    fn each(&self, mut copy: impl FnMut(i64, i64) -> Result<(), Error>) -> Result<(), Error> {
        let mut at = vec![0_i64; self.outer.len()];
        loop {
            let steps = || at.iter().zip(&self.outer);
            let from = steps().map(|(index, axis)| index * axis.from).sum();
            let to = steps().map(|(index, axis)| index * axis.to).sum();
            copy(from, to)?;
            let next = (0..at.len()).find(|axis| at[*axis] + 1 < self.outer[*axis].extent);
            let Some(axis) = next else { return Ok(()) };
            at[axis] += 1;
            at[..axis].fill(0);
        }
    }
}

/// Adds an outer axis: it extends the run of bytes, or the last axis, or becomes a new one.
fn push(axes: &mut Vec<Axis>, width: &mut i64, axis: Axis) {
    if axis.extent == 1 {
        return;
    }
    if axes.is_empty() && axis.from == *width && axis.to == *width {
        *width *= axis.extent;
        return;
    }
    if let Some(last) = axes.last_mut()
        && (axis.from, axis.to) == (last.from * last.extent, last.to * last.extent)
    {
        last.extent *= axis.extent;
        return;
    }
    axes.push(axis);
}

/// Copies between leases that passed [`check`]; at least one is device memory.
///
/// # Safety
///
/// As [`crate::copy::copy`].
pub(super) unsafe fn copy(from: &Lease, to: &Lease, how: &mut How<'_>) -> Result<(), Error> {
    let (source, target) = (from.view(), to.view());
    // Of one step of several, only the whole may be done later.
    let background = std::mem::take(&mut how.background);
    refuse_bits(source)?;
    let device = if is_host(to) { source.device() } else { target.device() };
    let stream = current(device.index());
    if (is_host(from) || is_host(to)) && is_capturing(&stream)? {
        let problem = "it would read or write the host's memory at each replay";
        let (what, hint) = ("a copy from or to the host", CaptureHint::Outside);
        return Err(DriverError::Captured { what, problem, hint }.into());
    }
    if overlap(from, to) {
        if source == target {
            return Ok(());
        }
        let between = pool::empty(source.layout().shape(), source.dtype(), device)?;
        // SAFETY: the contract; nothing else uses the intermediate array.
        unsafe { copy(from, &between, how) }?;
        // SAFETY: as above.
        return unsafe { copy(&between, to, how) };
    }
    let plan = Plan::of(source, target);
    // SAFETY: the contract.
    if let Some(done) = unsafe { by_the_host(from, to, &plan, how) } {
        return done;
    }
    if plan.copies() > MOST_COPIES {
        return Err(LayoutError::Scattered { copies: plan.copies() }.into());
    }
    begin(from, to, &stream)?;
    // SAFETY: the contract; the stream waits for both leases.
    if unsafe { stage(&plan, from, to, &stream, how, background) }? {
        return Ok(());
    }
    // SAFETY: the contract.
    let queued = unsafe { queue(&plan, from, to, &stream) };
    // Even if a later call failed: the earlier ones are queued, and nobody will wait for them later.
    how.asynchronous &= queued.is_ok();
    let finished = finish(from, to, &stream, how);
    queued.and(finished)
}

/// Copies by standing threads, and returns when that is done, or if that may be in the background has begun. False if the driver is to copy: it is as fast for small
/// arrays, and faster for pinned memory.
///
/// # Safety
///
/// As [`crate::copy::copy`]; the stream waits for both leases.
unsafe fn stage(
    plan: &Plan,
    from: &Lease,
    to: &Lease,
    stream: &Stream,
    how: &mut How<'_>,
    background: bool,
) -> Result<bool, Error> {
    let (host, direction) = match (is_host(from), is_host(to)) {
        (true, false) => (from.view(), Direction::Up),
        (false, true) => (to.view(), Direction::Down),
        _ => return Ok(false),
    };
    let (width, height) = (plan.width.unsigned_abs(), plan.rows.extent.unsigned_abs());
    if !staged::is_worthwhile(width * height, how) || is_pinned(host)? {
        return Ok(false);
    }
    how.total = from.view().nbytes();
    let pitches = (plan.rows.from.unsigned_abs(), plan.rows.to.unsigned_abs());
    let addresses = (from.view().address(), to.view().address());
    let mut done = true;
    plan.each(|from_offset, to_offset| {
        if !done {
            return Ok(());
        }
        let source = (addresses.0.wrapping_add_signed(from_offset), pitches.0);
        let target = (addresses.1.wrapping_add_signed(to_offset), pitches.1);
        let (here, there) = match direction {
            Direction::Up => (source, target),
            Direction::Down => (target, source),
        };
        let (host, host_pitch) = here;
        let (device, device_pitch) = there;
        let block = Block { host, host_pitch, device, device_pitch, width, height };
        if background && plan.copies() == 1 {
            // SAFETY: (1) rows of both views; (2) the contract.
            how.started = unsafe { staged::start(block, direction, stream, (from, to)) }?;
            if how.started.is_some() {
                return Ok(());
            }
        }
        // SAFETY: (1) rows of both views, whose leases the caller keeps; (2) the contract.
        let copied = unsafe { staged::copy(block, direction, stream, how) };
        done = copied.map_err(|(error, unsettled)| {
            staged::note_unsettled(from, to, &unsettled);
            error
        })?;
        Ok(())
    })?;
    Ok(done)
}

/// Whether host memory is pinned, perhaps without its lease knowing.
fn is_pinned(view: &View) -> Result<bool, Error> {
    let (low, bytes) = view.extent();
    let driver = driver()?;
    Ok(view.memory() == Memory::Pinned
        || (driver.is_pinned(low)? && driver.is_pinned(low + bytes.saturating_sub(1))?))
}

/// Rearranges an array on the host if it would take many calls and one side is on the host.
///
/// # Safety
///
/// As [`crate::copy::copy`].
unsafe fn by_the_host(
    from: &Lease,
    to: &Lease,
    plan: &Plan,
    how: &mut How<'_>,
) -> Option<Result<(), Error>> {
    if plan.copies() <= MANY_COPIES {
        return None;
    }
    if is_host(from) && to.view().layout().is_compact() {
        // SAFETY: the contract.
        let compact = match unsafe { crate::copy::duplicate(from) } {
            Ok(compact) => compact,
            Err(error) => return Some(Err(error)),
        };
        // SAFETY: the contract.
        return Some(unsafe { copy(&compact, to, how) });
    }
    let (low, bytes) = from.view().extent();
    if !is_host(to) || bytes / 4 > from.view().nbytes() {
        return None;
    }
    let mut sort = || {
        let whole = from.bytes(low, bytes)?;
        // SAFETY: the contract.
        let there = unsafe { crate::copy::duplicate_as(&whole, how) }?;
        let view =
            from.view().moved_to_host(there.view().address() + (from.view().address() - low))?;
        // SAFETY: the copy contains every element of the source, and is kept until the end.
        let there = unsafe {
            crate::import::raw::wrap(view, crate::owner::Owner::keep(there), Name::UNKNOWN)
        };
        // SAFETY: the contract.
        unsafe { crate::copy::copy(&there, to) }
    };
    Some(sort())
}

/// Refuses packed elements that end inside a byte: a device cannot write part of one.
fn refuse_bits(source: &View) -> Result<(), Error> {
    let bits = source.layout().size().unsigned_abs() * u64::from(source.dtype().storage_bits());
    if bits.is_multiple_of(8) {
        return Ok(());
    }
    let (from, to) = (source.dtype().name().into(), "uint8".into());
    let reason = "packed elements that end inside a byte cannot be copied from or to a device";
    Err(LayoutError::View { from, to, reason }.into())
}

fn overlap(from: &Lease, to: &Lease) -> bool {
    let ((low, bytes), (target_low, target_bytes)) = (from.view().extent(), to.view().extent());
    low < target_low + target_bytes && target_low < low + bytes
}

/// Makes the stream wait for the writers of the source and the users of the target.
fn begin(from: &Lease, to: &Lease, stream: &Stream) -> Result<(), Error> {
    refuse_implicit(stream)?;
    if let Some(timeline) = from.timeline() {
        timeline.check_live()?;
        timeline.ready_for(stream, false)?;
        from.record_on(stream, false)?;
        timeline.used_once_on(stream, false)?;
    }
    if let Some(timeline) = to.timeline() {
        timeline.check_live()?;
        timeline.ready_for(stream, true)?;
        to.record_on(stream, true)?;
        timeline.used_once_on(stream, true)?;
    }
    Ok(())
}

/// Waits for the copy if a side is on the host or shared with it, unless the caller waits later.
fn finish(from: &Lease, to: &Lease, stream: &Stream, how: &mut How<'_>) -> Result<(), Error> {
    let asynchronous = how.asynchronous;
    let shared = |lease: &Lease| match lease.timeline() {
        Some(timeline) => Ok(timeline.is_shared_with_host()),
        None => Ok::<_, Error>(!(asynchronous && is_pinned(lease.view())?)),
    };
    // Noted again, now that the work is queued: another thread may have seen the stream idle before and forgotten it,
    // and a stream that cannot be named later is only waited for up to its note.
    let note = |(lease, writes): (&Lease, bool)| {
        lease.timeline().map_or(Ok(()), |timeline| timeline.used_once_on(stream, writes))
    };
    let noted = [(from, false), (to, true)].into_iter().try_for_each(note);
    // What could not be noted is waited for: the memory could be freed too early.
    if noted.is_err() || shared(from).unwrap_or(true) || shared(to).unwrap_or(true) {
        return stream.synchronize().and(noted);
    }
    how.queued = Some(stream.clone());
    Ok(())
}

fn side(view: &View) -> Side {
    match view.memory() {
        Memory::Host | Memory::Pinned => Side::Host,
        _ => Side::Device(view.device().index()),
    }
}

/// # Safety
///
/// As [`crate::copy::copy`]; the stream waits for both leases.
unsafe fn queue(plan: &Plan, from: &Lease, to: &Lease, stream: &Stream) -> Result<(), Error> {
    let (source, target) = (from.view(), to.view());
    let driver: &'static Driver = driver()?;
    let _entered = driver.enter(stream.device())?;
    let sides = (side(source), side(target));
    let width = plan.width.unsigned_abs();
    plan.each(|from, to| {
        let from = source.address().wrapping_add_signed(from);
        let to = target.address().wrapping_add_signed(to);
        if plan.rows.extent == 1 {
            // SAFETY: a run of both views; their leases are kept until the stream is done with them.
            return unsafe { driver.copy((to, sides.1), (from, sides.0), width, stream.handle()) };
        }
        let rows = Rows {
            from,
            from_pitch: plan.rows.from.unsigned_abs(),
            to,
            to_pitch: plan.rows.to.unsigned_abs(),
            width,
            height: plan.rows.extent.unsigned_abs(),
        };
        // SAFETY: as above.
        Ok(unsafe { driver.copy_rows(&rows, sides, stream.handle()) }?)
    })
}

/// Fills an array with one element; on a device the fill is queued.
///
/// # Safety
///
/// As (2) of [`crate::copy::copy`].
///
/// # Errors
///
/// If the lease is read-only or overlaps itself, or the driver refuses.
pub unsafe fn fill(to: &Lease, element: &[u8]) -> Result<(), Error> {
    let view = to.view();
    check(view, view)?;
    if view.readonly() {
        return Err(ExportError::WriteReadOnly.into());
    }
    if view.layout().is_empty() {
        return Ok(());
    }
    if !view.layout().is_compact() {
        // SAFETY: the contract.
        return unsafe { fill_strided(to, element) };
    }
    if is_host(to) {
        require_reachable(to)?;
        host::fill(view, element);
        return Ok(());
    }
    let stream = current(view.device().index());
    begin(to, to, &stream)?;
    let driver = driver()?;
    let entered = driver.enter(stream.device())?;
    let word = shortest(element);
    let fits = word.len() <= 4;
    let count = view.nbytes() / word.len() as u64;
    if fits {
        // SAFETY: the contract; the lease is kept until the stream is done with it.
        unsafe { driver.fill(view.address(), word, count, stream.handle()) }?;
    } else {
        // SAFETY: as above.
        unsafe { driver.fill_words(view.address(), word, count, stream.handle()) }?;
    }
    drop(entered);
    finish(to, to, &stream, &mut How::default())
}

/// Fills a compact array, and copies that: drivers fill rows only.
///
/// # Safety
///
/// As [`fill`].
unsafe fn fill_strided(to: &Lease, element: &[u8]) -> Result<(), Error> {
    static WHO: FixedName = FixedName::new("a fill");
    let (shape, dtype, device) =
        (to.view().layout().shape(), to.view().dtype(), to.view().device());
    let compact = if is_host(to) {
        Lease::zeros(shape, dtype, WHO.get())?
    } else {
        let stream = current(device.index());
        // A graph of gpulend's keeps the array that is copied; of others nobody would.
        if Recording::on(&stream)?.is_none() {
            refuse_capture(&stream, "a fill of memory with gaps")?;
        }
        pool::empty(shape, dtype, device)?
    };
    // SAFETY: the memory is new.
    unsafe { fill(&compact, element) }?;
    // SAFETY: the contract; nothing else uses the new array.
    unsafe { crate::copy::copy(&compact, to) }
}

/// The shortest part that an element repeats.
fn shortest(element: &[u8]) -> &[u8] {
    let repeats = |length: &usize| {
        element.len().is_multiple_of(*length)
            && element.chunks(*length).all(|part| part == &element[..*length])
    };
    let length = [1, 2, 4, 8].into_iter().find(repeats).unwrap_or(element.len());
    &element[..length]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::Dtype;
    use crate::layout::Layout;

    fn view(shape: &[i64], strides: &[i64]) -> View {
        let layout = Layout::new(shape, strides, Dtype::FLOAT32).unwrap();
        View::host(0x10_0000, Dtype::FLOAT32, layout, false).unwrap()
    }

    fn plan(shape: &[i64], from: &[i64], to: &[i64]) -> (i64, i64, i64) {
        let plan = Plan::of(&view(shape, from), &view(shape, to));
        (plan.width, plan.rows.extent, plan.copies())
    }

    #[test]
    fn the_fewest_copies_are_found() {
        assert_eq!(plan(&[4, 5, 6], &[30, 6, 1], &[30, 6, 1]), (480, 1, 1));
        assert_eq!(plan(&[4, 5], &[10, 1], &[5, 1]), (20, 4, 1));
        assert_eq!(plan(&[4, 5], &[10, 2], &[5, 1]), (4, 20, 1));
        assert_eq!(plan(&[4, 5], &[1, 4], &[5, 1]), (4, 5, 4));
        assert_eq!(plan(&[3, 4, 5], &[100, 10, 1], &[20, 5, 1]), (20, 4, 3));
        assert_eq!(plan(&[4, 5], &[0, 1], &[5, 1]), (20, 1, 4));
    }

    #[test]
    fn every_element_is_moved_once() {
        let shape = [3, 2, 4];
        let (source, target) = (view(&shape, &[1, 30, 3]), view(&shape, &[8, 4, 1]));
        let plan = Plan::of(&source, &target);
        let mut moved = Vec::new();
        plan.each(|from, to| {
            for row in 0..plan.rows.extent {
                let (from, to) = (from + row * plan.rows.from, to + row * plan.rows.to);
                moved.extend((0..plan.width / 4).map(|at| (to / 4 + at, from / 4 + at)));
            }
            Ok(())
        })
        .unwrap();
        moved.sort_unstable();
        let expected: Vec<_> =
            (0..24).map(|to| (to, to / 8 + to / 4 % 2 * 30 + to % 4 * 3)).collect();
        assert_eq!(moved, expected);
    }

    #[test]
    fn an_element_is_filled_by_its_shortest_part() {
        assert_eq!(shortest(&[0; 8]), [0]);
        assert_eq!(shortest(&[1, 2, 1, 2]), [1, 2]);
        assert_eq!(shortest(&[1, 2, 3, 4, 1, 2, 3, 4]), [1, 2, 3, 4]);
        assert_eq!(shortest(&[1, 2, 3, 4, 5, 6, 7, 8]), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(shortest(&[9; 16]), [9]);
    }
}
