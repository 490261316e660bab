//! Copies with attributes, and operations on several ranges at once.

use super::pointer::{Address, In, Out};
use super::pools::Location;
use super::{Call, entry};
use crate::bytes::{Pattern, Shape};
use crate::machine::copy::Form;
use crate::machine::memory::FRESH;
use crate::machine::stream::Role;
use crate::status::{Outcome, Status};

const INVALID: Status = Status::ERROR_INVALID_VALUE;

/// `CU_MEMCPY_SRC_ACCESS_ORDER_*`.
const STREAM: i32 = 1;
const DURING_API_CALL: i32 = 2;
const ANY: i32 = 3;

/// `CUmemcpyAttributes`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Attributes {
    order: i32,
    source: Location,
    target: Location,
    flags: u32,
}

const _: () = assert!(size_of::<Attributes>() == 24);

impl Attributes {
    /// Returns the form of a copy. The places are hints, and ignored.
    fn form(self) -> Outcome<Form<'static>> {
        // `PREFER_OVERLAP_WITH_COMPUTE`.
        if self.flags > 1 {
            return Err(INVALID);
        }
        match self.order {
            STREAM => Ok(Form::Ordered),
            DURING_API_CALL => Ok(Form::Early),
            ANY => Ok(Form::Asynchronous),
            _ => Err(INVALID),
        }
    }
}

/// Returns for each of `count` operations which of `kinds` applies: `starts` holds the first operation of each.
fn spread<T: Copy>(count: usize, kinds: &[T], starts: &[usize]) -> Outcome<Vec<T>> {
    let rises = starts.windows(2).all(|two| two[0] < two[1]);
    let ends = starts.last().is_none_or(|last| *last < count);
    if kinds.is_empty() || kinds.len() > count || starts.first() != Some(&0) || !rises || !ends {
        return Err(INVALID);
    }
    let of = |index: usize| {
        let kind = starts.partition_point(|start| *start <= index) - 1;
        kinds.get(kind).copied().ok_or(INVALID)
    };
    (0..count).map(of).collect()
}

impl Call {
    /// Returns a stream for operations that cannot be captured, and for which the legacy stream is refused.
    fn plain_stream(self, stream: usize) -> Outcome<usize> {
        let stream = self.stream(stream)?;
        let mut state = self.machine()?.lock();
        if state.stream(&self.caller(), stream)?.role == Role::Legacy {
            return Err(INVALID);
        }
        state.refuse_captured_stream(stream)?;
        Ok(stream)
    }

    fn copy_batch(
        self,
        (targets, sources, sizes): (In<Address>, In<Address>, In<usize>),
        count: usize,
        (attributes, starts, kinds): (In<Attributes>, In<usize>, usize),
        stream: usize,
    ) -> Outcome<()> {
        let stream = self.plain_stream(stream)?;
        if count == 0 || kinds > count {
            return Err(INVALID);
        }
        // The lists first: a count alone says nothing about what is there.
        let ends = targets.list(count)?.into_iter().zip(sources.list(count)?);
        let sizes = sizes.list(count)?;
        let forms: Vec<Form<'static>> =
            attributes.list(kinds)?.into_iter().map(Attributes::form).collect::<Outcome<_>>()?;
        let forms = spread(count, &forms, &starts.list(kinds)?)?;
        let mut copies = Vec::with_capacity(count);
        for (((target, source), bytes), form) in ends.zip(sizes).zip(forms) {
            if bytes == 0 {
                return Err(INVALID);
            }
            copies.push((target.any(bytes), source.any(bytes), form));
        }
        // As on an H200: a wrong pair ends the batch, and those before it are copied.
        let machine = self.machine()?;
        for (target, source, form) in &copies {
            let shape = Shape::line(source.range.bytes());
            machine.copy(&self.caller(), stream, (target, source), shape, *form)?;
        }
        Ok(())
    }
}

entry! {
    /// Copies between several pairs of addresses, in stream order; among each other in any order.
    fn [cuMemcpyBatchAsync, cuMemcpyBatchAsync_ptsz](
        targets: In<Address>,
        sources: In<Address>,
        sizes: In<usize>,
        count: usize,
        attributes: In<Attributes>,
        starts: In<usize>,
        kinds: usize,
        failed: Out<usize>,
        stream: usize,
    ) |call| {
        let copied = call.copy_batch((targets, sources, sizes), count, (attributes, starts, kinds), stream);
        if copied.is_err() {
            // Which one it was is not said.
            failed.offer(usize::MAX);
        }
        copied
    }
}

entry! {
    /// Copies between several pairs of addresses, in stream order; among each other in any order.
    fn [cuMemcpyBatchAsync_v2, cuMemcpyBatchAsync_v2_ptsz](
        targets: In<Address>,
        sources: In<Address>,
        sizes: In<usize>,
        count: usize,
        attributes: In<Attributes>,
        starts: In<usize>,
        kinds: usize,
        stream: usize,
    ) |call| { call.copy_batch((targets, sources, sizes), count, (attributes, starts, kinds), stream) }
}

entry! {
    /// Copies in stream order; the attributes say when the source is read.
    fn [cuMemcpyWithAttributesAsync, cuMemcpyWithAttributesAsync_ptsz](
        target: Address,
        source: Address,
        bytes: usize,
        attributes: In<Attributes>,
        stream: usize,
    ) |call| {
        let stream = call.plain_stream(stream)?;
        let form = attributes.get()?.form()?;
        let (target, source) = (target.any(bytes), source.any(bytes));
        call.machine()?.copy(&call.caller(), stream, (&target, &source), Shape::line(bytes), form)
    }
}

/// The ranges of a batch: their addresses, sizes and number.
type Ranges = (In<Address>, In<usize>, usize);

impl Call {
    /// Reads ranges of managed memory.
    fn ranges(self, (addresses, sizes, count): Ranges) -> Outcome<Vec<(Address, usize)>> {
        if count == 0 {
            return Err(INVALID);
        }
        let found: Vec<(Address, usize)> =
            addresses.list(count)?.into_iter().zip(sizes.list(count)?).collect();
        for (address, bytes) in &found {
            self.machine()?.lock().advise(address.number(), *bytes, None)?;
        }
        Ok(found)
    }

    /// Overwrites the beginning of discarded memory: what it held is lost.
    fn discard(self, found: &[(Address, usize)], stream: usize) -> Outcome<()> {
        for (address, bytes) in found {
            let (target, pattern) = (address.device(*bytes), Pattern::Byte(FRESH));
            let row = (*bytes, 1, 0);
            self.machine()?.fill(&self.caller(), stream, &target, pattern, row, false)?;
        }
        Ok(())
    }

    fn prefetch_all(
        self,
        found: &[(Address, usize)],
        (places, starts, kinds): (In<Location>, In<usize>, usize),
        stream: usize,
    ) -> Outcome<()> {
        let places = spread(found.len(), &places.list(kinds)?, &starts.list(kinds)?)?;
        for ((address, bytes), place) in found.iter().zip(places) {
            self.prefetch(address.number(), *bytes, place, stream)?;
        }
        Ok(())
    }
}

entry! {
    /// Prefetches several ranges of managed memory in stream order: nothing to move.
    fn [cuMemPrefetchBatchAsync, cuMemPrefetchBatchAsync_ptsz](
        addresses: In<Address>,
        sizes: In<usize>,
        count: usize,
        places: In<Location>,
        starts: In<usize>,
        kinds: usize,
        flags: u64,
        stream: usize,
    ) |call| {
        let plain = call.plain_stream(stream)?;
        if flags != 0 {
            return Err(INVALID);
        }
        let found = call.ranges((addresses, sizes, count))?;
        call.prefetch_all(&found, (places, starts, kinds), plain)
    }
}

entry! {
    /// Discards several ranges of managed memory in stream order.
    fn [cuMemDiscardBatchAsync, cuMemDiscardBatchAsync_ptsz](
        addresses: In<Address>,
        sizes: In<usize>,
        count: usize,
        flags: u64,
        stream: usize,
    ) |call| {
        let stream = call.plain_stream(stream)?;
        if flags != 0 {
            return Err(INVALID);
        }
        call.discard(&call.ranges((addresses, sizes, count))?, stream)
    }
}

entry! {
    /// Discards several ranges of managed memory and prefetches them, in stream order.
    fn [cuMemDiscardAndPrefetchBatchAsync, cuMemDiscardAndPrefetchBatchAsync_ptsz](
        addresses: In<Address>,
        sizes: In<usize>,
        count: usize,
        places: In<Location>,
        starts: In<usize>,
        kinds: usize,
        flags: u64,
        stream: usize,
    ) |call| {
        let stream = call.plain_stream(stream)?;
        if flags != 0 {
            return Err(INVALID);
        }
        let found = call.ranges((addresses, sizes, count))?;
        call.prefetch_all(&found, (places, starts, kinds), stream)?;
        call.discard(&found, stream)
    }
}

/// `CU_MEM_RANGE_ATTRIBUTE_*`.
const READ_MOSTLY: i32 = 1;
const PREFERRED_LOCATION: i32 = 2;
const ACCESSED_BY: i32 = 3;
const LAST_PREFETCH_LOCATION: i32 = 4;

/// `CU_DEVICE_CPU` and `CU_DEVICE_INVALID`.
const CPU: i32 = -1;
const NOWHERE: i32 = -2;

impl Call {
    /// Returns an attribute of a range of managed memory as so many bytes hold it.
    fn range_attribute(
        self,
        attribute: i32,
        room: usize,
        (address, bytes): (usize, usize),
    ) -> Outcome<Vec<i32>> {
        let facts = self.machine()?.facts(&self.caller(), address, bytes)?;
        let device = |place: Option<(i32, i32)>| match place {
            None => NOWHERE,
            Some((1, id)) => id,
            Some(_) => CPU,
        };
        let one = |value: i32| if room == 4 { Ok(vec![value]) } else { Err(INVALID) };
        let (preferred, last) = (facts.preferred, facts.prefetched);
        match attribute {
            READ_MOSTLY => one(i32::from(facts.read_mostly)),
            PREFERRED_LOCATION => one(device(preferred)),
            LAST_PREFETCH_LOCATION => one(device(last)),
            ACCESSED_BY if room > 0 && room.is_multiple_of(4) => {
                let all = facts.accessed_by.iter().map(|place| device(Some(*place)));
                Ok(all.chain(std::iter::repeat(NOWHERE)).take(room / 4).collect())
            }
            // The types and ids of the same places.
            5 => one(preferred.map_or(0, |place| place.0)),
            6 => one(preferred.map_or(0, |place| place.1)),
            7 => one(last.map_or(0, |place| place.0)),
            8 => one(last.map_or(0, |place| place.1)),
            _ => Err(INVALID),
        }
    }
}

entry! {
    /// Returns an attribute of a range of managed memory.
    fn cuMemRangeGetAttribute(data: Out<i32>, room: usize, attribute: i32, address: usize, bytes: usize) |call| {
        call.machine()?;
        data.required()?;
        let found = call.range_attribute(attribute, room, (address, bytes))?;
        data.put_list(found.into_iter());
        Ok(())
    }
}

entry! {
    /// Returns several attributes of a range of managed memory.
    fn cuMemRangeGetAttributes(
        data: In<Address>,
        rooms: In<usize>,
        attributes: In<i32>,
        count: usize,
        address: usize,
        bytes: usize,
    ) |call| {
        call.machine()?;
        if count == 0 {
            return Err(INVALID);
        }
        // The lists first: a count alone says nothing about what is there.
        let (places, attributes, rooms) = (data.list(count)?, attributes.list(count)?, rooms.list(count)?);
        let mut found = Vec::new();
        for (attribute, room) in attributes.into_iter().zip(rooms) {
            found.push(call.range_attribute(attribute, room, (address, bytes))?);
        }
        for (place, values) in places.into_iter().zip(found) {
            place.as_out::<i32>().put_list(values.into_iter());
        }
        Ok(())
    }
}
