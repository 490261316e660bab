//! What lender and borrower say to each other. Each message is one packet.
#![forbid(unsafe_code)]

use crate::error::TicketError;
use crate::ticket::bytes::Reader;

/// What a borrower asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Request<'a> {
    /// A claim, which the borrower numbers. `mapped`: it has the allocation open. `knows`: it has board and log.
    Claim { number: u64, mapped: bool, knows: bool, ticket: &'a [u8] },
    /// The end of claims. There is no answer.
    Release { numbers: Vec<u64> },
    /// A new ticket for the memory of a claim, for a third process: claims that may be made (0: any number), milliseconds to keep
    /// it, and a ticket whose origin means nothing.
    Forward { number: u64, claims: u32, keep: u64, place: &'a [u8] },
}

/// What a lender answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The claim is entered.
    Granted(Grant),
    /// The new ticket.
    Ticket(Box<[u8]>),
    /// It is not, and why.
    Refused(Refusal),
}

/// How to open an allocation. A descriptor may come with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Grant {
    /// The way, as `source.rs` numbers them.
    pub(super) way: u8,
    /// How many bytes the allocation has.
    pub(super) bytes: u64,
    /// The driver's handle, if it has one.
    pub(super) handle: Vec<u8>,
    /// Which flag says that the bytes are ready, and from which value on; none if they are.
    pub(super) flag: Option<(u32, u32)>,
    /// Whether the descriptors of the board and of the borrower's log come last.
    pub(super) shares: bool,
}

/// Why a lender refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Unknown,
    Expired,
    TooMany,
    NotShareable,
    Malformed,
}

impl Refusal {
    /// The error that the borrower reports.
    pub(super) fn error(self, lender: i32) -> TicketError {
        match self {
            Self::Unknown => TicketError::Forged { lender },
            Self::Expired => TicketError::Expired,
            Self::TooMany => TicketError::TooMany { what: "claims", count: MOST_CLAIMS },
            Self::NotShareable => {
                TicketError::NotShareable { reason: "the lender could not export it" }
            }
            Self::Malformed => {
                TicketError::LenderGone { problem: "it does not understand this release".into() }
            }
        }
    }
}

/// The most claims of one borrower.
pub(super) const MOST_CLAIMS: usize = 1 << 16;
/// The most claims that one message ends.
pub(super) const MOST_RELEASED: usize = 1024;

const CLAIM: u8 = 1;
const RELEASE: u8 = 2;
const FORWARD: u8 = 3;
const GRANTED: u8 = 4;
const TICKET: u8 = 5;
const REFUSED: u8 = 6;

fn put_part(bytes: &mut Vec<u8>, part: &[u8]) {
    bytes.extend(u16::try_from(part.len()).unwrap_or(0).to_le_bytes());
    bytes.extend(part);
}

impl<'a> Request<'a> {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self {
            Self::Claim { number, mapped, knows, ticket } => {
                bytes.extend([CLAIM, u8::from(*mapped) | u8::from(*knows) << 1]);
                bytes.extend(number.to_le_bytes());
                put_part(&mut bytes, ticket);
            }
            Self::Release { numbers } => {
                bytes.push(RELEASE);
                numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
            }
            Self::Forward { number, claims, keep, place } => {
                bytes.push(FORWARD);
                bytes.extend(number.to_le_bytes());
                bytes.extend(claims.to_le_bytes());
                bytes.extend(keep.to_le_bytes());
                put_part(&mut bytes, place);
            }
        }
        bytes
    }

    /// Reads a request. `None` if it is none.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut rest = Reader(bytes);
        let [kind] = rest.take()?;
        let request = match kind {
            CLAIM => {
                let [bits] = rest.take()?;
                let number = rest.number()?;
                let (mapped, knows) = (bits & 1 != 0, bits & 2 != 0);
                Self::Claim { number, mapped, knows, ticket: rest.part()? }
            }
            RELEASE => {
                let count = rest.0.len() / 8;
                if count > MOST_RELEASED {
                    return None;
                }
                let numbers = (0..count).map(|_| rest.number()).collect::<Option<_>>()?;
                Self::Release { numbers }
            }
            FORWARD => Self::Forward {
                number: rest.number()?,
                claims: rest.take().map(u32::from_le_bytes)?,
                keep: rest.number()?,
                place: rest.part()?,
            },
            _ => return None,
        };
        rest.0.is_empty().then_some(request)
    }
}

impl Answer {
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Granted(Grant { way, bytes: size, handle, flag, shares }) => {
                let (slot, value) = flag.unwrap_or_default();
                let bits = u8::from(flag.is_some()) | u8::from(*shares) << 1;
                let mut bytes = vec![GRANTED, *way, bits];
                bytes.extend(size.to_le_bytes());
                bytes.extend(slot.to_le_bytes());
                bytes.extend(value.to_le_bytes());
                put_part(&mut bytes, handle);
                bytes
            }
            Self::Ticket(ticket) => {
                let mut bytes = vec![TICKET];
                put_part(&mut bytes, ticket);
                bytes
            }
            Self::Refused(refusal) => vec![REFUSED, *refusal as u8],
        }
    }

    /// Reads an answer. `None` if it is none.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let mut rest = Reader(bytes);
        let [kind] = rest.take()?;
        let answer = match kind {
            GRANTED => {
                let [way, bits] = rest.take()?;
                let size = rest.number()?;
                let slot = rest.take().map(u32::from_le_bytes)?;
                let value = rest.take().map(u32::from_le_bytes)?;
                let flag = (bits & 1 != 0).then_some((slot, value));
                let shares = bits & 2 != 0;
                let handle = rest.part()?.to_vec();
                Self::Granted(Grant { way, bytes: size, handle, flag, shares })
            }
            TICKET => Self::Ticket(rest.part()?.into()),
            REFUSED => {
                let [why] = rest.take()?;
                let all = [
                    Refusal::Unknown,
                    Refusal::Expired,
                    Refusal::TooMany,
                    Refusal::NotShareable,
                    Refusal::Malformed,
                ];
                Self::Refused(*all.get(usize::from(why))?)
            }
            _ => return None,
        };
        rest.0.is_empty().then_some(answer)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        for request in [
            Request::Claim { number: 7, mapped: true, knows: false, ticket: b"ticket" },
            Request::Claim { number: 7, mapped: false, knows: true, ticket: b"ticket" },
            Request::Release { numbers: vec![1, 2, u64::MAX] },
            Request::Forward { number: 1, claims: 2, keep: 500, place: b"" },
        ] {
            assert_eq!(Request::read(&request.encode()), Some(request));
        }
        let grant = Grant {
            way: 1,
            bytes: 1 << 40,
            handle: vec![9; 64],
            flag: Some((3, 4)),
            shares: false,
        };
        for answer in [
            Answer::Granted(Grant { flag: None, shares: true, ..grant.clone() }),
            Answer::Granted(grant),
            Answer::Ticket(Box::new([1, 2])),
            Answer::Refused(Refusal::Malformed),
        ] {
            assert_eq!(Answer::read(&answer.encode()), Some(answer));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Some(request) = Request::read(&bytes) {
                // What a byte that stands for yes or no says otherwise is no.
                let again = request.encode();
                prop_assert_eq!(Request::read(&again), Some(request));
            }
            let _ = Answer::read(&bytes);
        }
    }
}
