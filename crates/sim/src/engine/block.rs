//! Runs blocks whose threads wait for each other: threads run, suspend and resume.

use std::collections::BTreeMap;

use super::context::{Record, answer};
use super::fault::FaultKind;
use super::graph::is_barrier;
use super::numbers::{matrix, warp};
use super::worker::Worker;
use crate::ptx::ast::{Barrier, Op, Operand, Reduce, Type};

const LANES: usize = 32;

/// The state of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It can continue.
    Ready,
    /// It waits at a site of the code.
    Waits(u32),
    /// It has ended.
    Ended,
}

/// The launch must end.
#[derive(Debug)]
pub(super) struct Stopped;

/// Runs one block whose threads do not wait for each other. Returns whether the launch continues.
pub(super) fn run_independent(worker: &mut Worker<'_>) -> bool {
    let context = &raw mut *worker;
    let code = worker.work.code;
    // SAFETY: (1) and (2): only blocks of such code are run here, by the worker made for it.
    let answered = unsafe { code.run_block(context.cast()) };
    answered == answer::DONE
}

/// Why a block does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    /// All threads have ended.
    Ended,
    /// They wait for the other blocks, at this site.
    Joins(u32),
}

/// Runs one block whose threads wait for each other, and for no other block.
pub(super) fn run(worker: &mut Worker<'_>) -> Result<(), Stopped> {
    let mut standing = vec![Standing::Ready; worker.threads()];
    match resume(worker, &mut standing)? {
        Pause::Ended => Ok(()),
        Pause::Joins(_) => {
            let thread = standing.iter().position(|one| *one != Standing::Ended).unwrap_or(0);
            let what = "waits at a barrier of the whole grid, in a launch that is not cooperative";
            let block = Block { standing: &mut standing, worker };
            block.fail(FaultKind::BarrierDivergence, thread, what.to_owned())
        }
    }
}

/// Runs one block until it ends, or waits for others.
pub(super) fn resume(worker: &mut Worker<'_>, standing: &mut [Standing]) -> Result<Pause, Stopped> {
    let threads = standing.len();
    let mut block = Block { standing, worker };
    loop {
        if block.worker.work.code.exchanges {
            for warp in 0..threads.div_ceil(LANES) {
                block.run_warp(warp)?;
            }
        } else {
            block.run_ready(0..threads)?;
        }
        if block.standing.iter().all(|one| *one == Standing::Ended) {
            return Ok(Pause::Ended);
        }
        if let Some(pause) = block.joins()? {
            return Ok(pause);
        }
        block.open_barriers()?;
    }
}

/// Lets the threads of a block go on that wait for other blocks.
pub(super) fn release(worker: &mut Worker<'_>, standing: &mut [Standing]) {
    let waits = standing.iter_mut().filter(|one| matches!(one, Standing::Waits(_)));
    waits.for_each(|one| *one = Standing::Ready);
    worker.pass_barrier();
}

struct Block<'a, 'b> {
    worker: &'a mut Worker<'b>,
    standing: &'a mut [Standing],
}

impl Block<'_, '_> {
    fn lanes(&self, warp: usize) -> std::ops::Range<usize> {
        warp * LANES..((warp + 1) * LANES).min(self.standing.len())
    }

    /// Runs a warp until each lane waits for the block or has ended.
    fn run_warp(&mut self, warp: usize) -> Result<(), Stopped> {
        loop {
            self.run_ready(self.lanes(warp))?;
            if self.settle_whole_warp(warp)? {
                continue;
            }
            if !self.settle_warp(warp)? {
                return Ok(());
            }
        }
    }

    /// Runs the threads that can continue.
    fn run_ready(&mut self, threads: std::ops::Range<usize>) -> Result<(), Stopped> {
        let context = &raw mut *self.worker;
        let code = self.worker.work.code;
        for thread in threads {
            if self.standing[thread] != Standing::Ready {
                continue;
            }
            let record = self.worker.record(thread);
            // SAFETY: (1) to (3): blocks of such code are run here, by the worker made for it; the thread has not ended.
            let answered = unsafe { code.run_thread(context.cast(), record) };
            self.standing[thread] = match answered {
                answer::DONE => Standing::Ended,
                // SAFETY: the record of a thread of this block.
                answer::WAITS => Standing::Waits(unsafe { (*record).site }),
                _ => return Err(Stopped),
            };
        }
        Ok(())
    }

    fn record(&mut self, thread: usize) -> &mut Record {
        let record = self.worker.record(thread);
        // SAFETY: a record of this block, which begin() wrote, and no code runs.
        unsafe { &mut *record }
    }

    fn op(&self, site: u32) -> &Op {
        &self.worker.work.code.sites[site as usize].op
    }

    /// Performs a warp operation if all lanes wait at one site, the usual case.
    fn settle_whole_warp(&mut self, warp: usize) -> Result<bool, Stopped> {
        let lanes = self.lanes(warp);
        let first = self.standing[lanes.start];
        let Standing::Waits(site) = first else { return Ok(false) };
        if self.standing[lanes.clone()].iter().any(|one| *one != first)
            || is_barrier(self.op(site))
            || matches!(self.op(site), Op::ActiveMask { .. })
            || (is_matrix(self.op(site)) && lanes.len() < LANES)
        {
            return Ok(false);
        }
        let members = u32::MAX >> (LANES - lanes.len());
        let [mask, ..] = self.record(lanes.start).operands;
        if lanes.clone().any(|thread| self.record(thread).operands[0] != mask)
            || u32::try_from(mask).unwrap_or(0) & members != members
        {
            return Ok(false);
        }
        self.exchange(warp, lanes, members)?;
        Ok(true)
    }

    /// Performs operations that all participating lanes have reached. Returns whether some lanes can
    /// continue.
    fn settle_warp(&mut self, warp: usize) -> Result<bool, Stopped> {
        let mut groups: BTreeMap<(u32, String), Vec<usize>> = BTreeMap::new();
        for thread in self.lanes(warp) {
            let Standing::Waits(site) = self.standing[thread] else { continue };
            let key = match self.op(site) {
                op if is_barrier(op) => continue,
                // Lanes that arrive together are active together.
                op if takes_active(op) => (0, format!("active {site}")),
                op => {
                    let kind = kind(op, site);
                    let [mask, ..] = self.record(thread).operands;
                    (u32::try_from(mask).unwrap_or(u32::MAX), kind)
                }
            };
            groups.entry(key).or_default().push(thread);
        }
        let mut moved = false;
        for ((mask, kind), group) in groups {
            let members = group.iter().fold(0_u32, |bits, thread| bits | 1 << (thread % LANES));
            if kind.starts_with("active") {
                self.exchange(warp, group.iter().copied(), members)?;
                moved = true;
                continue;
            }
            if members & !mask != 0 {
                let lane = (members & !mask).trailing_zeros() as usize;
                let what = format!("lane {lane} is not in the mask {mask:#010x} that it gives");
                return self.fail(FaultKind::WarpDeadlock, warp * LANES + lane, what);
            }
            let alive = self
                .lanes(warp)
                .filter(|thread| self.standing[*thread] != Standing::Ended)
                .fold(0_u32, |bits, thread| bits | 1 << (thread % LANES));
            if mask & alive == members {
                if kind.starts_with("matrix") && members != u32::MAX {
                    let what = format!(
                        "does with {} lanes of its warp what takes all 32: the others have ended, or were never there",
                        members.count_ones()
                    );
                    return self.fail(FaultKind::WarpDeadlock, group[0], what);
                }
                self.exchange(warp, group.iter().copied(), members)?;
                moved = true;
            }
        }
        Ok(moved)
    }

    /// Computes the results of a warp operation for a group of lanes.
    fn exchange(
        &mut self,
        warp: usize,
        group: impl Iterator<Item = usize> + Clone,
        members: u32,
    ) -> Result<(), Stopped> {
        let Some(Standing::Waits(site)) = group.clone().next().map(|one| self.standing[one]) else {
            return Ok(());
        };
        let code = self.worker.work.code;
        let op = &code.sites[site as usize].op;
        let mut lanes = [matrix::Brought::default(); LANES];
        for thread in group.clone() {
            lanes[thread % LANES] = self.record(thread).operands;
        }
        let row = |operand: usize| lanes.map(|lane| lane[operand]);
        let words = |operand: usize| row(operand).map(|value| u32::try_from(value).unwrap_or(0));
        let mut results = [[0_u64; 2]; LANES];
        match op {
            Op::Shuffle { mode, .. } => {
                let (values, valid) =
                    warp::shuffle(*mode, &words(1), &words(2), &words(3), members);
                for lane in 0..LANES {
                    results[lane] = [u64::from(values[lane]), u64::from(valid >> lane & 1)];
                }
            }
            Op::Vote { mode, .. } => {
                let holds =
                    (0..LANES).fold(0, |bits, lane| bits | u32::from(lanes[lane][1] != 0) << lane);
                results = [[u64::from(warp::vote(*mode, holds, members)), 0]; LANES];
            }
            Op::Match { all: false, .. } => {
                let found = warp::match_any(&row(1), members);
                results = found.map(|lanes| [u64::from(lanes), 0]);
            }
            Op::Match { .. } => {
                let (lanes, same) = warp::match_all(&row(1), members);
                results = [[u64::from(lanes), u64::from(same)]; LANES];
            }
            Op::Redux { op, ty, .. } => {
                let value = warp::redux(*op, *ty == Type::S32, &words(1), members);
                results = [[u64::from(value), 0]; LANES];
            }
            Op::ActiveMask { .. } => results = [[u64::from(members), 0]; LANES],
            Op::LoadMatrix { transposed, to, .. } => {
                let rows = row(1);
                let loaded = self.load_matrices(warp, site, &rows[..8 * to.len()], *transposed);
                results = loaded.ok_or(Stopped)?;
            }
            Op::Multiply { product, .. } => results = matrix::multiply(product, &lanes),
            _ if self.worker.work.launch.checks.shared => {
                self.worker.shadow.pass_warp(warp, members);
            }
            _ => {}
        }
        for thread in group {
            self.record(thread).results = results[thread % LANES];
            self.standing[thread] = Standing::Ready;
        }
        Ok(())
    }

    /// Loads a matrix for every eight rows. Each lane gets two elements of each: neighbours in a row, or, if the matrix is
    /// transposed, in a column. `None` if the launch must end.
    fn load_matrices(
        &mut self,
        warp: usize,
        site: u32,
        rows: &[u64],
        transposed: bool,
    ) -> Option<[[u64; 2]; LANES]> {
        let (site, first) = (site as usize, (warp * LANES) as u64);
        for (lane, row) in (first..).zip(rows) {
            self.worker.matrix_row(lane, site, *row)?;
        }
        let mut results = [[0_u64; 2]; LANES];
        for (lane, thread) in (0..LANES).zip(first..) {
            let (group, place) = (lane / 4, lane % 4);
            for (matrix, rows) in rows.chunks(8).enumerate() {
                let bytes = if transposed {
                    let column = 2 * group as u64;
                    let [upper, lower] = [rows[2 * place], rows[2 * place + 1]];
                    let upper =
                        self.worker.read_matrix(thread, site, upper.wrapping_add(column))?;
                    let lower =
                        self.worker.read_matrix(thread, site, lower.wrapping_add(column))?;
                    let ([a, b], [c, d]) = (upper, lower);
                    [a, b, c, d]
                } else {
                    let start = rows[group].wrapping_add(4 * place as u64);
                    self.worker.read_matrix(thread, site, start)?
                };
                let bits = u64::from(u32::from_le_bytes(bytes));
                results[lane][matrix / 2] |= bits << (32 * (matrix % 2));
            }
        }
        Some(results)
    }

    /// Releases all threads if all wait at one barrier of the whole block, the usual case.
    fn open_whole_block(&mut self) -> bool {
        let first = self.standing[0];
        let Standing::Waits(site) = first else { return false };
        let code = self.worker.work.code;
        let plain = matches!(
            code.sites[site as usize].op,
            Op::Barrier { kind: Barrier::Sync, id: Operand::Integer(_), threads: None }
        );
        if !plain || self.standing.iter().any(|one| *one != first) {
            return false;
        }
        self.standing.fill(Standing::Ready);
        self.worker.pass_barrier();
        true
    }

    /// Releases the threads of each barrier that all participants have reached.
    fn open_barriers(&mut self) -> Result<(), Stopped> {
        if self.open_whole_block() {
            return Ok(());
        }
        let mut waiting: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        let mut lonely = None;
        for thread in 0..self.standing.len() {
            let Standing::Waits(site) = self.standing[thread] else { continue };
            match self.op(site) {
                Op::Barrier { .. } => {}
                // The threads at a barrier of the block miss them.
                Op::GridBarrier => continue,
                _ => {
                    lonely.get_or_insert(thread);
                    continue;
                }
            }
            let (id, _) = self.barrier(thread, site);
            waiting.entry(id).or_default().push(thread);
        }
        let ended = self.standing.iter().filter(|one| **one == Standing::Ended).count();
        let total = self.standing.len();
        let mut opened = false;
        let mut stuck = None;
        for (id, group) in waiting {
            let Standing::Waits(site) = self.standing[group[0]] else { continue };
            let (_, wanted) = self.barrier(group[0], site);
            let slot = usize::try_from(id).unwrap_or(usize::MAX);
            let arrived = self.worker.arrived.get(slot).copied().unwrap_or(0) as usize;
            let complete = match usize::try_from(wanted).unwrap_or(0) {
                0 => group.len() + arrived + ended >= total,
                wanted => group.len() + arrived >= wanted,
            };
            if !complete {
                stuck = Some(group[0]);
                continue;
            }
            self.check_barrier(&group, wanted == 0)?;
            self.open(&group);
            if let Some(count) = self.worker.arrived.get_mut(slot) {
                *count = 0;
            }
            opened = true;
        }
        match (lonely, stuck) {
            _ if opened => Ok(()),
            (Some(thread), _) => {
                let what = "waits for lanes of its mask that never come: they wait elsewhere";
                self.fail(FaultKind::WarpDeadlock, thread, what.to_owned())
            }
            (None, Some(thread)) => {
                let what = "waits at a barrier that other threads of the block never reach: they wait at another";
                self.fail(FaultKind::BarrierDivergence, thread, what.to_owned())
            }
            (None, None) => Ok(()),
        }
    }

    /// Whether no thread can continue before other blocks come. All threads must be there.
    fn joins(&mut self) -> Result<Option<Pause>, Stopped> {
        if !self.worker.work.code.joins {
            return Ok(None);
        }
        let at_grid = |one: &Standing| match one {
            Standing::Waits(site) => matches!(self.op(*site), Op::GridBarrier),
            _ => false,
        };
        let count = self.standing.iter().filter(|one| at_grid(one)).count();
        let ended = self.standing.iter().filter(|one| **one == Standing::Ended).count();
        if count == 0 || count + ended < self.standing.len() {
            return Ok(None);
        }
        let group: Vec<usize> =
            (0..self.standing.len()).filter(|one| at_grid(&self.standing[*one])).collect();
        if ended > 0 && self.worker.work.launch.checks.memory {
            let gone = self.standing.iter().position(|one| *one == Standing::Ended).unwrap_or(0);
            let what = format!(
                "waits at a barrier of the whole grid where thread {gone} of the block never waits: it has ended"
            );
            return self.fail(FaultKind::BarrierDivergence, group[0], what);
        }
        self.check_barrier(&group, true)?;
        let Standing::Waits(site) = self.standing[group[0]] else { return Ok(None) };
        Ok(Some(Pause::Joins(site)))
    }

    /// The barrier that a thread waits at, and the number of threads it needs; 0 means all.
    fn barrier(&mut self, thread: usize, site: u32) -> (u64, u64) {
        match self.op(site) {
            Op::Barrier { kind: Barrier::Sync, id: Operand::Integer(id), threads: None } => {
                (*id, 0)
            }
            _ => {
                let [id, wanted, ..] = self.record(thread).operands;
                (id, wanted)
            }
        }
    }

    /// Refuses a barrier of the whole block that threads reach at different sites. Hardware may accept that,
    /// but CUDA does not define it. Threads that have ended are not waited for.
    fn check_barrier(&mut self, group: &[usize], whole: bool) -> Result<(), Stopped> {
        if !self.worker.work.launch.checks.memory || !whole {
            return Ok(());
        }
        let first = self.standing[group[0]];
        if let Some(other) = group.iter().find(|thread| self.standing[**thread] != first) {
            let line = |standing| match standing {
                Standing::Waits(site) => self.worker.work.code.line(site),
                _ => 0,
            };
            let what = format!(
                "waits at the barrier of line {}, and thread {other} of the block at that of line {}",
                line(first),
                line(self.standing[*other])
            );
            return self.fail(FaultKind::BarrierDivergence, group[0], what);
        }
        Ok(())
    }

    fn open(&mut self, group: &[usize]) {
        let Standing::Waits(site) = self.standing[group[0]] else { return };
        let truths: Vec<bool> =
            group.iter().map(|thread| self.record(*thread).operands[2] != 0).collect();
        let count = truths.iter().filter(|truth| **truth).count() as u64;
        let result = match self.op(site) {
            Op::Barrier { kind: Barrier::Reduce(reduce, ..), .. } => match reduce {
                Reduce::Popc => count,
                Reduce::And => u64::from(count == truths.len() as u64),
                _ => u64::from(count > 0),
            },
            _ => 0,
        };
        for thread in group {
            self.record(*thread).results = [result, 0];
            self.standing[*thread] = Standing::Ready;
        }
        self.worker.pass_barrier();
    }

    fn fail<T>(&self, kind: FaultKind, thread: usize, what: String) -> Result<T, Stopped> {
        if let Standing::Waits(site) = self.standing[thread] {
            self.worker.fail(kind, thread as u64, site as usize, None, what);
        }
        Err(Stopped)
    }
}

/// Whether it works on matrices, which takes all lanes of a warp.
const fn is_matrix(op: &Op) -> bool {
    matches!(op, Op::LoadMatrix { .. } | Op::Multiply { .. })
}

/// Whether it is done by the lanes that arrive, without waiting for others.
const fn takes_active(op: &Op) -> bool {
    matches!(
        op,
        Op::ActiveMask { .. } | Op::Shuffle { mask: None, .. } | Op::Vote { mask: None, .. }
    )
}

/// Lanes wait for the same operation if their instructions have the same kind. Those on matrices must be the same
/// instruction.
fn kind(op: &Op, site: u32) -> String {
    match op {
        Op::Shuffle { mode, .. } => format!("shuffle {mode:?}"),
        Op::Vote { mode, .. } => format!("vote {mode:?}"),
        Op::Match { all, ty, .. } => format!("match {all} {ty:?}"),
        Op::Redux { op, ty, .. } => format!("redux {op:?} {ty:?}"),
        op if is_matrix(op) => format!("matrix {site}"),
        _ => "sync".to_owned(),
    }
}
