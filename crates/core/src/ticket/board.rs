//! Offers and claims in shared memory: a borrower whom a lender knows need not ask it for each claim.
//!
//! The answer to a borrower's first claim brings two files. The lender's *board* has the offers that can be claimed any number of
//! times; only the lender can write it. The borrower's *log* has the claims that it made by itself; it and the lender write it, and
//! nobody else has it.
//!
//! ```text
//!   borrower                                       lender
//!   writes its claim into its log                  takes an offer off the board
//!   looks whether the offer is on the board        looks into every log
//!     yes: it has the memory                         enters the claims of the offer, marks them as taken over
//!     no: takes the claim out, asks by the socket    lets the memory go if there are none
//!   takes the claim out at its end;
//!     tells the lender if it was taken over
//! ```
//!
//! Each writes before it looks, so one of them sees what the other wrote. The board shows nothing of use to who has no ticket:
//! a ticket is compared by a hash of all its bytes, and handles are hidden behind a hash of its secret. A log says the secret of each
//! ticket, and the lender compares it. When a borrower's process has ended, its log is forgotten, and the claims in it with it.
#![forbid(unsafe_code)]

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use sha2::{Digest, Sha256};

use crate::error::Error;
use crate::host::{SharedFile, SharedPages};
use crate::ticket::connection::open;
use crate::ticket::message::Grant;

/// How many offers a board has room for. Others are claimed by the socket.
const SLOTS: usize = 1 << 14;
/// Words of an offer: number, deadline, hash of the ticket (2), number to wait for, way, bytes, whether there is a handle, handle (8).
const SLOT: usize = 16;
const BOARD_BYTES: u64 = (SLOTS * SLOT * 8) as u64;

/// How many claims a log has room for. Others are made by the socket.
const ENTRIES: usize = 1 << 12;
/// Words before the first claim: whether the lender has closed it, and how many places were ever used.
const HEAD: usize = 8;
/// Words of a claim: offer, the borrower's number of the claim, secret (2).
const ENTRY: usize = 4;
const LOG_BYTES: u64 = ((HEAD + ENTRIES * ENTRY) * 8) as u64;
/// Beside the number of an offer: the lender has entered the claim, and is told of its end.
const TAKEN: u64 = 1 << 63;
/// Beside a way: there is a number to wait for.
const WAITS: u64 = 1 << 8;

/// Nanoseconds on a clock that all processes of the machine share.
fn now() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from);
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn slot(pages: &SharedPages, number: u64) -> &[AtomicU64] {
    let start = usize::try_from(number).unwrap_or(0) % SLOTS * SLOT;
    &pages.words()[start..start + SLOT]
}

/// What tells two tickets apart.
fn hash(ticket: &[u8]) -> [u64; 2] {
    let hash = Sha256::new().chain_update(b"ticket").chain_update(ticket).finalize();
    [word(&hash, 0), word(&hash, 1)]
}

fn word(bytes: &[u8], index: usize) -> u64 {
    let part = bytes.chunks_exact(8).nth(index).and_then(|part| part.try_into().ok());
    part.map_or(0, u64::from_le_bytes)
}

/// What handles are hidden behind.
fn mask(secret: [u8; 16]) -> [u64; 8] {
    let half = |part: u8| Sha256::new().chain_update([part]).chain_update(secret).finalize();
    let (first, second) = (half(1), half(2));
    std::array::from_fn(
        |index| if index < 4 { word(&first, index) } else { word(&second, index - 4) },
    )
}

/// The lender's offers.
#[derive(Debug)]
pub(super) struct Board {
    file: SharedFile,
    pages: SharedPages,
}

impl Board {
    /// An empty board. None if the kernel has no files that others cannot write: before Linux 5.1.
    pub(super) fn new() -> Option<Self> {
        let (file, pages) = SharedFile::shown(BOARD_BYTES).ok()?;
        Some(Self { file, pages })
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.descriptor().as_fd()
    }

    /// Shows an offer. False if there is no room for it. One thread at a time writes the board.
    pub(super) fn post(
        &self,
        number: u64,
        (ticket, secret): (&[u8], [u8; 16]),
        keep: Duration,
        grant: &Grant,
    ) -> bool {
        let slot = slot(&self.pages, number);
        if slot[0].load(Ordering::Relaxed) != 0 {
            return false;
        }
        // Who reads what follows finds that the offer before it has gone.
        fence(Ordering::Release);
        let keep = u64::try_from(keep.as_nanos()).unwrap_or(u64::MAX);
        let (place, value) = grant.flag.unwrap_or_default();
        let waits = if grant.flag.is_some() { WAITS } else { 0 };
        let [first, second] = hash(ticket);
        let has_handle = grant.handle.len() == 64;
        let fields = [
            now().saturating_add(keep),
            first,
            second,
            u64::from(place) << 32 | u64::from(value),
            u64::from(grant.way) | waits,
            grant.bytes,
            u64::from(has_handle),
        ];
        for (place, field) in slot[1..8].iter().zip(fields) {
            place.store(field, Ordering::Relaxed);
        }
        if has_handle {
            for (index, (place, mask)) in slot[8..].iter().zip(mask(secret)).enumerate() {
                place.store(word(&grant.handle, index) ^ mask, Ordering::Relaxed);
            }
        }
        slot[0].store(number, Ordering::Release);
        true
    }

    /// Has an offer that is shown last longer.
    pub(super) fn prolong(&self, number: u64, keep: Duration) {
        let keep = u64::try_from(keep.as_nanos()).unwrap_or(u64::MAX);
        slot(&self.pages, number)[1].store(now().saturating_add(keep), Ordering::Relaxed);
    }

    /// Takes an offer off the board. Who looks into the logs afterwards finds every claim of it.
    pub(super) fn end(&self, number: u64) {
        slot(&self.pages, number)[0].store(0, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }
}

/// A lender's board, as a borrower has it.
#[derive(Debug)]
pub(super) struct Posted(SharedPages);

impl Posted {
    pub(super) fn received(descriptor: OwnedFd) -> Result<Self, Error> {
        SharedFile::received(descriptor, BOARD_BYTES)?.map(false).map(Self)
    }

    /// The offer of a ticket, if it is there and its time is not over. Its claim was written before.
    pub(super) fn find(&self, number: u64, (ticket, secret): (&[u8], [u8; 16])) -> Option<Grant> {
        fence(Ordering::SeqCst);
        let slot = slot(&self.0, number);
        if slot[0].load(Ordering::SeqCst) != number {
            return None;
        }
        let found: [u64; SLOT] = std::array::from_fn(|index| slot[index].load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        let stays = slot[0].load(Ordering::Relaxed) == number;
        let [_, deadline, first, second, waited, way, bytes, has_handle, handle @ ..] = found;
        if !stays || hash(ticket) != [first, second] || deadline <= now() {
            return None;
        }
        let hidden = handle.into_iter().zip(mask(secret));
        let handle = match has_handle {
            1 => hidden.flat_map(|(word, mask)| (word ^ mask).to_le_bytes()).collect(),
            _ => Vec::new(),
        };
        let narrow = |word: u64| u32::try_from(word & u64::from(u32::MAX)).unwrap_or(0);
        let flag = (way & WAITS != 0).then_some((narrow(waited >> 32), narrow(waited)));
        let way = u8::try_from(way & !WAITS).ok()?;
        Some(Grant { way, bytes, handle, flag, shares: false })
    }
}

/// A claim that a borrower made by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Noted {
    pub(super) offer: u64,
    pub(super) number: u64,
    pub(super) secret: [u8; 16],
    place: usize,
}

/// A borrower's claims, as its lender has them.
#[derive(Debug)]
pub(super) struct Log {
    file: SharedFile,
    pages: SharedPages,
}

impl Log {
    pub(super) fn new() -> Option<Self> {
        let file = SharedFile::new(LOG_BYTES).ok()?;
        let pages = file.map(true).ok()?;
        Some(Self { file, pages })
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.descriptor().as_fd()
    }

    /// The claims that were not taken over. What a borrower wrote there may be a lie.
    pub(super) fn claims(&self) -> impl Iterator<Item = Noted> {
        let words = self.pages.words();
        let used = usize::try_from(words[1].load(Ordering::SeqCst)).unwrap_or(ENTRIES);
        let entries = words[HEAD..HEAD + ENTRIES * ENTRY].chunks_exact(ENTRY);
        entries.take(used).enumerate().filter_map(|(place, entry)| {
            let offer = entry[0].load(Ordering::SeqCst);
            if offer == 0 || offer & TAKEN != 0 {
                return None;
            }
            let [_, number, first, second] =
                std::array::from_fn(|index| entry[index].load(Ordering::Relaxed));
            let secret = u128::from(second) << 64 | u128::from(first);
            Some(Noted { offer, number, secret: secret.to_le_bytes(), place })
        })
    }

    /// Marks a claim as entered here. False if it has ended meanwhile.
    pub(super) fn take_over(&self, noted: &Noted) -> bool {
        let state = &self.pages.words()[HEAD + noted.place * ENTRY];
        let taken = noted.offer | TAKEN;
        state.compare_exchange(noted.offer, taken, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// No claim is made here from now on.
    pub(super) fn close(&self) {
        self.pages.words()[0].store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }
}

/// A log, as its borrower has it.
#[derive(Debug)]
pub(super) struct Notes {
    pages: SharedPages,
    /// Places that are free, and how many were ever used.
    free: Mutex<(Vec<usize>, usize)>,
}

impl Notes {
    pub(super) fn received(descriptor: OwnedFd) -> Result<Self, Error> {
        let pages = SharedFile::received(descriptor, LOG_BYTES)?.map(true)?;
        Ok(Self { pages, free: Mutex::new((Vec::new(), 0)) })
    }

    /// Writes a claim, before its offer is looked for. None if there is no room, or the lender has closed the log.
    pub(super) fn enter(&self, offer: u64, number: u64, secret: [u8; 16]) -> Option<usize> {
        let words = self.pages.words();
        let place = {
            let mut free = open(&self.free);
            let (places, used) = &mut *free;
            let place = places.pop().or_else(|| {
                *used += 1;
                (*used <= ENTRIES).then_some(*used - 1)
            });
            *used = (*used).min(ENTRIES);
            words[1].store(*used as u64, Ordering::SeqCst);
            place?
        };
        let entry = &words[HEAD + place * ENTRY..][..ENTRY];
        for (index, value) in [(1, number), (2, word(&secret, 0)), (3, word(&secret, 1))] {
            entry[index].store(value, Ordering::Relaxed);
        }
        entry[0].store(offer, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if words[0].load(Ordering::SeqCst) != 0 {
            // Who closed it may have entered the claim, and ends it with the process.
            self.leave(place);
            return None;
        }
        Some(place)
    }

    /// Takes a claim out. Whether the lender has entered it, and must be told.
    pub(super) fn leave(&self, place: usize) -> bool {
        let before = self.pages.words()[HEAD + place * ENTRY].swap(0, Ordering::SeqCst);
        open(&self.free).0.push(place);
        before & TAKEN != 0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    const KEEP: Duration = Duration::from_secs(60);

    fn grant() -> Grant {
        let handle = (0..64).collect();
        Grant { way: 2, bytes: 4096, handle, flag: Some((7, 9)), shares: false }
    }

    fn boards() -> (Board, Posted) {
        let board = Board::new().unwrap();
        let posted = Posted::received(board.descriptor().try_clone_to_owned().unwrap()).unwrap();
        (board, posted)
    }

    fn logs() -> (Log, Notes) {
        let log = Log::new().unwrap();
        let notes = Notes::received(log.descriptor().try_clone_to_owned().unwrap()).unwrap();
        (log, notes)
    }

    #[test]
    fn an_offer_is_found_by_its_ticket_alone_until_it_ends() {
        let (board, posted) = boards();
        let ticket = (&b"a ticket"[..], [3; 16]);
        assert!(board.post(5, ticket, KEEP, &grant()));
        assert_eq!(posted.find(5, ticket), Some(grant()));
        assert_eq!(posted.find(5, (b"another", [3; 16])), None);
        assert_eq!(posted.find(5 + SLOTS as u64, ticket), None);
        // The place is taken.
        assert!(!board.post(5 + SLOTS as u64, ticket, KEEP, &grant()));
        board.end(5);
        assert_eq!(posted.find(5, ticket), None);
        assert!(board.post(5 + SLOTS as u64, ticket, Duration::ZERO, &grant()));
        assert_eq!(posted.find(5 + SLOTS as u64, ticket), None, "its time is over");
    }

    #[test]
    fn a_board_shows_no_handle_and_no_ticket_and_cannot_be_written() {
        let (board, posted) = boards();
        assert!(board.post(5, (b"GLTK a whole ticket with a secret", [3; 16]), KEEP, &grant()));
        let bytes: Vec<u8> = posted
            .0
            .words()
            .iter()
            .flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes())
            .collect();
        for hidden in [&grant().handle[..8], b"GLTK", &[3; 16][..]] {
            assert!(!bytes.windows(hidden.len()).any(|part| part == hidden), "{hidden:?}");
        }
        let other = board.descriptor().try_clone_to_owned().unwrap();
        assert!(SharedFile::received(other, BOARD_BYTES).unwrap().map(true).is_err());
    }

    #[test]
    fn a_claim_that_was_taken_over_is_told_at_its_end() {
        let (log, notes) = logs();
        let one = notes.enter(5, 1, [1; 16]).unwrap();
        let two = notes.enter(5, 2, [2; 16]).unwrap();
        let found: Vec<_> = log.claims().collect();
        assert_eq!(
            found.iter().map(|one| (one.offer, one.number, one.secret)).collect::<Vec<_>>(),
            [(5, 1, [1; 16]), (5, 2, [2; 16])]
        );
        assert!(!notes.leave(one));
        assert!(!log.take_over(&found[0]), "it has ended");
        assert!(log.take_over(&found[1]));
        assert_eq!(log.claims().count(), 0);
        assert!(notes.leave(two));
        // Places are used again.
        assert!(notes.enter(6, 3, [0; 16]).is_some_and(|place| place < 2));
    }

    #[test]
    fn a_log_has_an_end_and_can_be_closed() {
        let (log, notes) = logs();
        for number in 0..ENTRIES as u64 {
            assert!(notes.enter(1, number, [0; 16]).is_some());
        }
        assert_eq!(notes.enter(1, 0, [0; 16]), None);
        assert_eq!(log.claims().count(), ENTRIES);
        notes.leave(77);
        log.close();
        assert_eq!(notes.enter(1, 0, [0; 16]), None);
        // What a liar says about its size is not believed.
        log.pages.words()[1].store(u64::MAX, Ordering::Relaxed);
        assert_eq!(log.claims().count(), ENTRIES - 1);
    }

    /// The law that memory depends on: of a claim and the end of its offer, one sees the other.
    #[test]
    fn no_claim_is_missed_by_the_end_of_its_offer() {
        let ((board, posted), (log, notes)) = (boards(), logs());
        let (board, log) = (Arc::new(board), Arc::new(log));
        let ticket = (&b"a ticket"[..], [3; 16]);
        for number in 1..20_000_u64 {
            assert!(board.post(number, ticket, KEEP, &grant()));
            let (claimed, place, seen) = thread::scope(|scope| {
                let lender = scope.spawn(|| {
                    board.end(number);
                    log.claims().any(|noted| noted.offer == number && log.take_over(&noted))
                });
                let place = notes.enter(number, number, [3; 16]).unwrap();
                let claimed = posted.find(number, ticket).is_some();
                (claimed, place, lender.join().unwrap())
            });
            assert!(!claimed || seen, "claim {number} was missed");
            assert_eq!(notes.leave(place), seen);
            if number > 500 && cfg!(miri) {
                break;
            }
        }
    }
}
