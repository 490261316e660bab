//! The bytes of a ticket.
//!
//! A ticket says where its lender is and what the memory looks like. It holds no address, no descriptor, no path and no code: reading
//! it runs nothing and opens nothing. Its lender compares all of it with what it gave, so a changed ticket is refused.
//!
//! ```text
//!   0  "GLTK"          magic
//!   4  u16             version
//!   6  u16             flags: 1 read-only, 2 on a GPU
//!   8  [u8; 16]        id of the machine's boot
//!  24  [u8; 16]        the lender, which also names its socket
//!  40  u64             number of the offer
//!  48  [u8; 16]        secret of the offer
//!  64  [u8; 16]        UUID of the device; zero for host memory
//!  80  u64             the allocation, as the lender numbers it
//!  88  u64             offset of the first element in the allocation
//!  96  u8 u8 u8 u8     element type: DLPack code, bits, whether padded; number of axes
//! 100  u32             zero
//! 104  i64 × axes      shape
//!      i64 × axes      strides, in elements
//! ```
//!
//! Numbers are little-endian.
#![forbid(unsafe_code)]

use crate::abi::dlpack::DataType;
use crate::dtype::Dtype;
use crate::error::{Error, LayoutError, TicketError};
use crate::layout::{Layout, MOST_AXES};
use crate::view::View;

const MAGIC: [u8; 4] = *b"GLTK";
const VERSION: u16 = 1;
const READ_ONLY: u16 = 1;
const ON_GPU: u16 = 2;
const HEAD: usize = 104;
/// The most bytes that a ticket can have.
pub const MOST_BYTES: usize = HEAD + 16 * MOST_AXES;

/// Who made a ticket, and which of its offers it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) boot: [u8; 16],
    pub(super) lender: [u8; 16],
    pub(super) offer: u64,
    pub(super) secret: [u8; 16],
}

/// An array inside an allocation, wherever a process maps that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The UUID of the device; none for host memory.
    pub(super) device: Option<[u8; 16]>,
    /// The allocation, as the lender numbers it.
    pub(super) allocation: u64,
    /// Bytes from the start of the allocation to the first element.
    pub(super) offset: u64,
    pub(super) dtype: Dtype,
    pub(super) layout: Layout,
    pub(super) readonly: bool,
}

impl Place {
    /// Where the lowest byte is in the allocation, and how many bytes there are up to the highest. None if that is before its
    /// start, or past 64 bits.
    pub(super) fn extent(&self) -> Option<(u64, u64)> {
        let span = self.layout.byte_span(self.dtype);
        let low = self.offset.checked_add_signed(span.low)?;
        low.checked_add(span.bytes())?;
        Some((low, span.bytes()))
    }

    /// The place of a view in an allocation that starts at `base`.
    pub(super) fn of(
        view: &View,
        (allocation, base): (u64, u64),
        device: Option<[u8; 16]>,
        readonly: bool,
    ) -> Self {
        Self {
            device,
            allocation,
            offset: view.address().wrapping_sub(base),
            dtype: view.dtype(),
            layout: view.layout().clone(),
            readonly: readonly || view.readonly(),
        }
    }
}

/// A ticket that was read. Whether its lender gave it, the lender alone can say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parsed {
    pub(super) origin: Origin,
    pub(super) place: Place,
}

impl Parsed {
    pub(super) fn encode(&self) -> Box<[u8]> {
        let Self { origin, place } = self;
        let rank = place.layout.rank();
        let mut bytes = Vec::with_capacity(HEAD + 16 * rank);
        let flags = if place.readonly { READ_ONLY } else { 0 }
            | if place.device.is_some() { ON_GPU } else { 0 };
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(flags.to_le_bytes());
        bytes.extend(origin.boot);
        bytes.extend(origin.lender);
        bytes.extend(origin.offer.to_le_bytes());
        bytes.extend(origin.secret);
        bytes.extend(place.device.unwrap_or_default());
        bytes.extend(place.allocation.to_le_bytes());
        bytes.extend(place.offset.to_le_bytes());
        let dtype = place.dtype;
        // A layout has at most 64 axes.
        let rank = u8::try_from(rank).unwrap_or(u8::MAX);
        bytes.extend([dtype.code(), dtype.bits(), u8::from(dtype.is_padded()), rank]);
        bytes.extend([0; 4]);
        for number in place.layout.shape().iter().chain(place.layout.strides()) {
            bytes.extend(number.to_le_bytes());
        }
        bytes.into()
    }

    /// Reads a ticket.
    ///
    /// # Errors
    ///
    /// If the bytes are not a ticket of this version.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, Error> {
        let refused = |problem| TicketError::Malformed { bytes: bytes.len(), problem };
        if bytes.len() > MOST_BYTES {
            return Err(refused("they are too many").into());
        }
        let mut rest = Reader(bytes);
        if rest.take::<4>() != Some(MAGIC) {
            return Err(refused("they begin otherwise").into());
        }
        let version = rest.take().map(u16::from_le_bytes).ok_or(refused("they were cut"))?;
        if version != VERSION {
            return Err(TicketError::Version { found: version, wanted: VERSION }.into());
        }
        let parsed = Self::read_body(&mut rest).ok_or(refused("they were cut"))?;
        let parsed = parsed.map_err(|_| refused("they describe no array"))?;
        if !rest.0.is_empty() {
            return Err(refused("there are more than the shape needs").into());
        }
        // Bits that this version does not know, or a device without its flag, do not survive.
        if *parsed.encode() != *bytes {
            return Err(refused("a reserved field is not zero").into());
        }
        if parsed.place.extent().is_none() {
            return Err(refused("the array begins before its allocation").into());
        }
        Ok(parsed)
    }

    fn read_body(rest: &mut Reader<'_>) -> Option<Result<Self, LayoutError>> {
        let flags = rest.take().map(u16::from_le_bytes)?;
        let (boot, lender) = (rest.take()?, rest.take()?);
        let offer = rest.number()?;
        let secret = rest.take()?;
        let device = rest.take()?;
        let (allocation, offset) = (rest.number()?, rest.number()?);
        let [code, bits, padded, rank] = rest.take()?;
        rest.take::<4>()?;
        let shape = rest.numbers(rank)?;
        let strides = rest.numbers(rank)?;
        let made = Dtype::from_dlpack(DataType { code, bits, lanes: 1 }, padded == 1)
            .and_then(|dtype| Ok((dtype, Layout::new(&shape, &strides, dtype)?)));
        Some(made.map(|(dtype, layout)| Self {
            origin: Origin { boot, lender, offer, secret },
            place: Place {
                device: (flags & ON_GPU != 0).then_some(device),
                allocation,
                offset,
                dtype,
                layout,
                readonly: flags & READ_ONLY != 0,
            },
        }))
    }
}

/// Bytes that are read from the front.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn numbers(&mut self, count: u8) -> Option<Vec<i64>> {
        (0..count).map(|_| self.take().map(i64::from_le_bytes)).collect()
    }

    /// Bytes with their length before them.
    pub(super) fn part(&mut self) -> Option<&'a [u8]> {
        let length = usize::from(self.take().map(u16::from_le_bytes)?);
        let (first, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(first)
    }
}

/// Whether two byte strings are the same. How long it takes says nothing about where they differ.
pub(super) fn are_equal(one: &[u8], other: &[u8]) -> bool {
    let differing = one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b));
    one.len() == other.len() && std::hint::black_box(differing) == 0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ticket(shape: &[i64], dtype: Dtype) -> Parsed {
        Parsed {
            origin: Origin { boot: [1; 16], lender: [2; 16], offer: 3, secret: [4; 16] },
            place: Place {
                device: Some([5; 16]),
                allocation: 6,
                offset: 4096,
                dtype,
                layout: Layout::compact(shape, dtype).unwrap(),
                readonly: true,
            },
        }
    }

    #[test]
    fn a_ticket_is_read_as_it_was_written() {
        for shape in [&[][..], &[0], &[2, 3, 4], &[1; 64]] {
            let made = ticket(shape, Dtype::FLOAT32);
            assert_eq!(Parsed::read(&made.encode()), Ok(made));
        }
        assert_eq!(ticket(&[1; 64], Dtype::FLOAT32).encode().len(), MOST_BYTES);
    }

    #[test]
    fn what_was_cut_or_lengthened_is_refused() {
        let bytes = ticket(&[2, 3], Dtype::FLOAT32).encode();
        for end in 0..bytes.len() {
            assert_eq!(Parsed::read(&bytes[..end]).unwrap_err().code(), 1101, "{end} bytes");
        }
        let more = [&bytes, &[0; 8][..]].concat();
        assert_eq!(Parsed::read(&more).unwrap_err().code(), 1101);
        assert_eq!(Parsed::read(&vec![0; 1 << 20]).unwrap_err().code(), 1101);
    }

    #[test]
    fn another_version_is_refused_by_name() {
        let mut bytes = ticket(&[2], Dtype::FLOAT32).encode();
        bytes[4] = 2;
        assert_eq!(Parsed::read(&bytes).unwrap_err().code(), 1103);
    }

    #[test]
    fn a_compared_secret_must_be_whole() {
        assert!(are_equal(b"abc", b"abc") && are_equal(b"", b""));
        assert!(!are_equal(b"abc", b"abd") && !are_equal(b"abc", b"ab") && !are_equal(b"", b"a"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = Parsed::read(&bytes);
        }

        /// What is accepted is written back byte for byte: nothing in a ticket is ignored.
        #[test]
        fn a_changed_ticket_is_refused_or_another_ticket(at in 0_usize..136, bit in 0_u8..8) {
            let mut bytes = ticket(&[2, 3], Dtype::FLOAT32).encode();
            bytes[at] ^= 1 << bit;
            if let Ok(read) = Parsed::read(&bytes) {
                prop_assert_eq!(read.encode(), bytes);
            }
        }
    }
}
