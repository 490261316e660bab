//! The shadow of shared memory: which thread accessed each piece last, and after which barrier.
//!
//! Compiled code itself updates the cells for accesses that are clearly valid.
#![forbid(unsafe_code)]
#![expect(clippy::cast_possible_truncation, reason = "fields of a cell are taken by their bits")]

/// A cell: barriers passed (32 bits), thread (16), synchronisations of its warp (16). Zero: no thread.
type Cell = u64;

/// In the mark of a writer: other threads wrote the same bytes since the last barrier. No thread has such a
/// number.
const SHARED: u64 = 0x4000 << 16;
/// Marks an atomic access.
const ATOMIC: u64 = 0x8000;
/// Several threads.
pub(super) const MANY: u64 = 0x7FFF;
/// Several threads of one warp; the warp's number is added.
const MANY_OF_WARP: u64 = 0x7000;

/// A conflict of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Conflict {
    /// No thread has written there.
    Unwritten,
    /// Another thread wrote it since the last barrier. Its number, if there was only one.
    Written(Option<u32>),
    /// Another thread read it since the last barrier.
    Read(Option<u32>),
    /// An asynchronous copy of this thread is still writing it.
    Copied(u32),
}

/// An access.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    /// Its offset.
    pub offset: usize,
    /// Its size.
    pub bytes: usize,
    /// The thread.
    pub thread: u32,
    /// Whether it writes.
    pub writes: bool,
    /// Whether it is atomic.
    pub atomic: bool,
}

/// An asynchronous copy to a piece of shared memory.
#[derive(Clone, Copy, Debug, Default)]
struct Flight {
    /// How many copies of the same bytes are on their way.
    count: u32,
    /// The thread that began the last of them.
    thread: u32,
    /// Where the bytes come from; zero if they are zeros.
    from: u64,
}

/// The shadow of a block's shared memory.
#[derive(Debug, Default)]
pub(super) struct Shadow {
    /// For each piece, its last writer and its last reader.
    cells: Vec<[Cell; 2]>,
    /// The copies to each piece, if the kernel makes any.
    flights: Vec<Flight>,
    granule: usize,
    epoch: u64,
    /// For each thread, how often it has synchronised with its warp, and with which lanes last.
    warps: Vec<(u16, u32)>,
}

fn who(cell: Cell) -> u64 {
    cell >> 16 & 0xFFFF
}

fn thread(cell: Cell) -> Option<u32> {
    let who = who(cell) & !ATOMIC;
    (who < MANY_OF_WARP).then(|| who as u32 - 1)
}

fn warp(cell: Cell) -> Option<u64> {
    match who(cell) & !ATOMIC {
        MANY => None,
        many if many >= MANY_OF_WARP => Some(many - MANY_OF_WARP),
        one => Some((one - 1) / 32),
    }
}

impl Shadow {
    /// Begins a block with this much shared memory, checked in granules of 1 or 4 bytes.
    pub(super) fn begin(&mut self, bytes: usize, granule: usize, threads: usize, copies: bool) {
        self.granule = granule;
        let cells = bytes.div_ceil(granule);
        self.cells.clear();
        self.cells.resize(cells, [0, 0]);
        self.flights.clear();
        self.flights.resize(if copies { cells } else { 0 }, Flight::default());
        self.epoch += 1;
        self.warps.clear();
        self.warps.resize(threads, (0, 0));
    }

    /// The address of the cells, and the first bits of current marks, for compiled code.
    pub(super) fn for_code(&mut self) -> (*mut u64, u64) {
        (self.cells.as_mut_ptr().cast(), self.epoch << 32)
    }

    /// Records that the block has passed a barrier.
    pub(super) fn pass_barrier(&mut self) {
        self.epoch += 1;
    }

    /// Records that some lanes of a warp have synchronised.
    pub(super) fn pass_warp(&mut self, warp: usize, lanes: u32) {
        for lane in (0..32).filter(|lane| lanes >> lane & 1 != 0) {
            if let Some((count, last)) = self.warps.get_mut(32 * warp + lane) {
                *count = count.wrapping_add(1);
                *last = lanes;
            }
        }
    }

    /// Whether the thread of a mark has since synchronised with thread `me` of its warp.
    fn is_before(&self, cell: Cell, me: u32) -> bool {
        if warp(cell) != Some(u64::from(me / 32)) {
            return false;
        }
        // For several lanes, only the time of the last one is known; check it against this thread.
        let of = thread(cell).unwrap_or(me);
        let (count, lanes) = self.warps[of as usize];
        let all = thread(cell).is_some() || lanes.count_ones() == self.width(me);
        count != cell as u16 && lanes >> (me % 32) & 1 != 0 && all
    }

    /// The number of lanes in a thread's warp.
    fn width(&self, thread: u32) -> u32 {
        let first = thread as usize / 32 * 32;
        (self.warps.len() - first).min(32) as u32
    }

    /// Records an access inside the memory. `is_same` says whether a plain write leaves so many bytes at an offset as
    /// they are: such a write conflicts with no earlier access, because nobody can tell which came first.
    pub(super) fn touch(
        &mut self,
        access: Access,
        is_same: impl Fn(usize, usize) -> bool,
    ) -> Result<(), Conflict> {
        let first = access.offset / self.granule;
        let last = (access.offset + access.bytes - 1) / self.granule;
        if let Some(flights) = self.flights.get(first..=last)
            && let Some(flight) = flights.iter().find(|flight| flight.count > 0)
        {
            return Err(Conflict::Copied(flight.thread));
        }
        // Copies of structs also read padding. So only a read without any written byte is an error.
        let reads = !access.writes || access.atomic;
        if reads && self.cells[first..=last].iter().all(|[written, _]| *written == 0) {
            return Err(Conflict::Unwritten);
        }
        let granule = self.granule;
        (first..=last)
            .try_for_each(|cell| self.touch_cell(cell, access, || is_same(cell * granule, granule)))
    }

    /// Records that an asynchronous copy of a thread has begun: a write that takes effect at any time before the thread
    /// waits for it. `from` says where the bytes at a distance from its start come from, and `is_same` whether so many of
    /// them are there already.
    pub(super) fn begin_copy(
        &mut self,
        access: Access,
        from: impl Fn(usize) -> u64,
        is_same: impl Fn(usize, usize) -> bool,
    ) -> Result<(), Conflict> {
        let first = access.offset / self.granule;
        let count = access.bytes.div_ceil(self.granule);
        for piece in 0..count {
            let source = from(piece * self.granule);
            let flight = self.flights[first + piece];
            if flight.count > 0 && (flight.from != source) {
                return Err(Conflict::Copied(flight.thread));
            }
            // Several copies of the same bytes are no conflict.
            if flight.count == 0 {
                let granule = self.granule;
                self.touch_cell(first + piece, access, || is_same(piece * granule, granule))?;
            }
            let count = flight.count + 1;
            self.flights[first + piece] = Flight { count, thread: access.thread, from: source };
        }
        Ok(())
    }

    /// Records that an asynchronous copy has ended: its thread has written the bytes now.
    pub(super) fn end_copy(&mut self, access: Access) {
        let first = access.offset / self.granule;
        for cell in first..first + access.bytes.div_ceil(self.granule) {
            self.flights[cell].count = self.flights[cell].count.saturating_sub(1);
            // Nobody has touched it since the copy began but other copies of the same bytes.
            let _ = self.touch_cell(cell, access, || true);
        }
    }

    fn touch_cell(
        &mut self,
        cell: usize,
        access: Access,
        is_same: impl Fn() -> bool,
    ) -> Result<(), Conflict> {
        let own_warp = u64::from(access.thread / 32);
        let (stamp, _) = self.warps[access.thread as usize];
        let own = u64::from(access.thread) + 1;
        let [mut written, mut read] = self.cells[cell];
        let several = written & SHARED != 0;
        written &= !SHARED;
        let now = |cell: Cell| cell >> 32 == self.epoch;
        let mine = |cell: Cell| who(cell) & !ATOMIC == own;
        let others = |cell: Cell| {
            let both_atomic = access.atomic && who(cell) & ATOMIC != 0;
            now(cell) && !mine(cell) && !both_atomic && !self.is_before(cell, access.thread)
        };
        let by_others = others(written);
        // If this thread was the last of several that wrote the same bytes, it may read them, but not change them.
        let by_others_too = several && now(written) && !self.is_before(written, access.thread);
        let conflict = if by_others {
            Some(Conflict::Written(thread(written)))
        } else if access.writes && by_others_too {
            Some(Conflict::Written(None))
        } else if access.writes && others(read) {
            Some(Conflict::Read(thread(read)))
        } else {
            None
        };
        if let Some(conflict) = conflict {
            // An atomic operation before it would leave other bytes behind it.
            let after_atomic = now(written) && who(written) & ATOMIC != 0;
            if !access.writes || access.atomic || after_atomic || !is_same() {
                return Err(conflict);
            }
        }
        let mark = |cell: Cell| {
            // An earlier plain access by this thread stays plain until it synchronises with lanes of its warp: those
            // may be atomic after it, and a cell has no room for both.
            let plain = now(cell) && mine(cell) && who(cell) & ATOMIC == 0 && cell as u16 == stamp;
            let atomic = if access.atomic && !plain { ATOMIC } else { 0 };
            self.epoch << 32 | (own | atomic) << 16 | u64::from(stamp)
        };
        if access.writes {
            let shared = if by_others || by_others_too { SHARED } else { 0 };
            written = mark(written) | shared;
        } else if !now(read) || mine(read) {
            read = mark(read);
        } else {
            let many = match warp(read) {
                Some(one) if one == own_warp => MANY_OF_WARP + own_warp,
                _ => MANY,
            };
            let atomic = if access.atomic { who(read) & ATOMIC } else { 0 };
            read = self.epoch << 32 | (many | atomic) << 16 | u64::from(stamp);
        }
        let shared = if several && !access.writes { SHARED } else { 0 };
        self.cells[cell] = [written | shared, read];
        Ok(())
    }
}
