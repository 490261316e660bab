//! Launches whose blocks wait for each other: each block runs to the barrier of the grid, and goes on when all are there.
//!
//! Host threads share the blocks for the whole launch. Each runs its blocks one after another, then meets the others; the
//! last one to come decides what happens next.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::block::{Pause, Standing, release, resume};
use super::fault::FaultKind;
use super::worker::{Work, Worker};

/// Runs all blocks on so many host threads. Returns whether one could be started.
pub(super) fn run(work: Work<'_>, helpers: u64) -> bool {
    let meeting = Meeting { strict: work.launch.checks.memory, ..Meeting::default() };
    let own = work.stack.is_none();
    thread::scope(|scope| {
        let mut made = u64::from(own);
        for _ in u64::from(own)..helpers {
            let (meeting, share) = (&meeting, made);
            let job = move || run_share(work, meeting, share);
            made += u64::from(work.thread().spawn_scoped(scope, job).is_ok());
        }
        meeting.begin(made);
        if own {
            run_share(work, &meeting, 0);
        }
        made > 0
    })
}

/// A block of the launch.
struct Resident<'a> {
    number: u64,
    worker: Box<Worker<'a>>,
    standing: Vec<Standing>,
}

impl<'a> Resident<'a> {
    fn new(work: Work<'a>, number: u64) -> Self {
        let mut worker = work.worker();
        worker.begin(work.block(number));
        let standing = vec![Standing::Ready; worker.threads()];
        Self { number, worker, standing }
    }

    /// Runs it until it ends or waits for the others. `None` if the launch must end.
    fn resume(&mut self) -> Option<Pause> {
        if self.worker.work.outcome.stop.load(Ordering::Relaxed) != 0 {
            return None;
        }
        resume(&mut self.worker, &mut self.standing).ok()
    }

    /// Reports that it waits for a block which never comes.
    fn report(&self, (number, pause): (u64, Pause)) {
        let work = self.worker.work;
        let Some((thread, site)) = self.waits() else { return };
        let [x, y, z] = work.block(number);
        let what = match pause {
            Pause::Ended => format!(
                "waits at a barrier of the whole grid where block ({x}, {y}, {z}) never waits: it has ended"
            ),
            Pause::Joins(other) => format!(
                "waits at the barrier of line {}, and block ({x}, {y}, {z}) at that of line {}",
                work.code.line(site),
                work.code.line(other)
            ),
        };
        self.worker.fail(FaultKind::BarrierDivergence, thread as u64, site as usize, None, what);
    }

    /// Its first thread that waits, and where.
    fn waits(&self) -> Option<(usize, u32)> {
        self.standing.iter().enumerate().find_map(|(thread, one)| match one {
            Standing::Waits(site) => Some((thread, *site)),
            _ => None,
        })
    }
}

/// Runs one of equal shares of the blocks.
fn run_share(work: Work<'_>, meeting: &Meeting, share: u64) {
    let _seat = Seat(meeting);
    let helpers = meeting.helpers();
    let numbers = (share..work.blocks()).step_by(helpers);
    let mut blocks: Vec<Resident<'_>> = numbers.map(|number| Resident::new(work, number)).collect();
    loop {
        let mut reached = BTreeMap::new();
        for block in &mut blocks {
            let Some(pause) = block.resume() else { return block.worker.end() };
            reached.insert(block.number, pause);
        }
        match meeting.meet(reached) {
            Verdict::GoOn => {}
            Verdict::Over => return,
            Verdict::Stuck { first, other } => {
                if let Some(block) = blocks.iter().find(|block| block.number == first) {
                    block.report(other);
                }
                return;
            }
        }
        blocks.iter_mut().for_each(|block| release(&mut block.worker, &mut block.standing));
    }
}

/// What the host threads of a launch do after they have met.
#[derive(Clone, Copy, Debug, Default)]
enum Verdict {
    /// All blocks go on.
    GoOn,
    /// The launch is over.
    #[default]
    Over,
    /// The first block that waits would wait for ever: for a block that is elsewhere.
    Stuck { first: u64, other: (u64, Pause) },
}

/// Decides about blocks that have ended or wait. `strict`: all must wait at the same place.
fn judge(reached: &BTreeMap<u64, Pause>, strict: bool) -> Verdict {
    let joins = |(_, pause): &(&u64, &Pause)| matches!(pause, Pause::Joins(..));
    let Some((first, Pause::Joins(site))) = reached.iter().find(joins) else {
        return Verdict::Over;
    };
    let is_elsewhere = |(_, pause): &(&u64, &Pause)| match pause {
        Pause::Ended => true,
        Pause::Joins(other) => strict && other != site,
    };
    match reached.iter().find(is_elsewhere) {
        Some((number, pause)) => Verdict::Stuck { first: *first, other: (*number, *pause) },
        None => Verdict::GoOn,
    }
}

/// Where the host threads of a launch wait for each other.
#[derive(Debug, Default)]
struct Meeting {
    table: Mutex<Table>,
    turned: Condvar,
    /// Whether all blocks must wait at the same place.
    strict: bool,
}

#[derive(Debug, Default)]
struct Table {
    /// How many host threads meet; 0 until all have been started.
    helpers: u64,
    /// How many are there.
    here: u64,
    /// Where their blocks are.
    reached: BTreeMap<u64, Pause>,
    /// How often they have met.
    turn: u64,
    /// What came of the last time.
    verdict: Verdict,
    /// Whether one of them has left.
    over: bool,
}

impl Meeting {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the host threads begin: so many were started.
    fn begin(&self, helpers: u64) {
        self.table().helpers = helpers;
        self.turned.notify_all();
    }

    /// Waits until all host threads have been started. Returns their number.
    fn helpers(&self) -> usize {
        let table = self.turned.wait_while(self.table(), |table| table.helpers == 0);
        let helpers = table.unwrap_or_else(PoisonError::into_inner).helpers;
        usize::try_from(helpers).unwrap_or(usize::MAX)
    }

    /// Says where the blocks of a host thread are, and waits for the others.
    fn meet(&self, mut reached: BTreeMap<u64, Pause>) -> Verdict {
        let mut table = self.table();
        table.reached.append(&mut reached);
        table.here += 1;
        if table.here == table.helpers {
            table.verdict = judge(&table.reached, self.strict);
            table.reached.clear();
            table.here = 0;
            table.turn += 1;
            self.turned.notify_all();
            return table.verdict;
        }
        let turn = table.turn;
        let waits = |table: &mut Table| table.turn == turn && !table.over;
        let table = self.turned.wait_while(table, waits).unwrap_or_else(PoisonError::into_inner);
        if table.turn == turn { Verdict::Over } else { table.verdict }
    }
}

/// A host thread's place at the meeting. The others do not wait for one that has left, whatever the reason.
struct Seat<'a>(&'a Meeting);

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.0.table().over = true;
        self.0.turned.notify_all();
    }
}
