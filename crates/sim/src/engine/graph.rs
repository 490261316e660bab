//! The control-flow graph: successors of statements, points where a thread can stop and resume, and the live values there.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;

use crate::ptx::ast::{Barrier, Body, Op, Reg, Statement};
use crate::ptx::visit::{Visitor, visit};

/// A basic block: entered at its beginning and left at its end.
#[derive(Clone, Debug)]
pub(super) struct Span {
    /// Its first statement.
    pub start: usize,
    /// The one after its last.
    pub end: usize,
}

/// The spans of a body, in order.
#[derive(Debug)]
pub(super) struct Graph {
    /// The spans.
    pub spans: Vec<Span>,
    /// The span that begins at each statement, if one does.
    span_at: Vec<Option<usize>>,
}

/// Whether a thread suspends at a statement until others arrive.
pub(super) fn suspends(op: &Op) -> bool {
    match op {
        Op::Barrier { kind, .. } => !matches!(kind, Barrier::Arrive),
        Op::GridBarrier
        | Op::WarpSync { .. }
        | Op::Shuffle { .. }
        | Op::Vote { .. }
        | Op::Match { .. }
        | Op::Redux { .. }
        | Op::ActiveMask { .. }
        | Op::LoadMatrix { .. }
        | Op::Multiply { .. } => true,
        _ => false,
    }
}

/// Whether threads wait for their whole block, or for more.
pub(super) const fn is_barrier(op: &Op) -> bool {
    matches!(op, Op::Barrier { .. } | Op::GridBarrier)
}

fn ends_span(op: &Op) -> bool {
    matches!(op, Op::Branch { .. } | Op::BranchTable { .. } | Op::Return | Op::Exit | Op::Trap)
        || suspends(op)
}

impl Graph {
    /// Splits a body into spans.
    pub(super) fn new(body: &Body) -> Self {
        let count = body.statements.len();
        let mut starts: BTreeSet<usize> = body.labels.iter().copied().collect();
        starts.insert(0);
        let ends = body.statements.iter().enumerate().filter(|(_, one)| ends_span(&one.op));
        starts.extend(ends.map(|(index, _)| index + 1));
        // The end of the body is a span of its own: labels may be there.
        starts.insert(count);
        let starts: Vec<usize> = starts.into_iter().filter(|start| *start <= count).collect();
        let mut span_at = vec![None; count + 1];
        let mut spans = Vec::with_capacity(starts.len());
        for (index, start) in starts.iter().enumerate() {
            span_at[*start] = Some(index);
            spans
                .push(Span { start: *start, end: starts.get(index + 1).copied().unwrap_or(count) });
        }
        Self { spans, span_at }
    }

    /// The span that begins at a statement.
    pub(super) fn span(&self, statement: usize) -> Option<usize> {
        self.span_at.get(statement).copied().flatten()
    }

    /// The successors of a span. `through`: continue past waits.
    fn successors(&self, body: &Body, span: usize, through: bool) -> Vec<usize> {
        let Span { start, end } = self.spans[span].clone();
        let last = if end > start { body.statements.get(end - 1) } else { None };
        let mut all = Vec::new();
        let falls = match last {
            Some(Statement { guard, op, .. }) => {
                let mut go = |label: usize| all.extend(self.span(body.labels[label]));
                match op {
                    Op::Branch { to } => go(to.0 as usize),
                    Op::BranchTable { to, .. } => to.iter().for_each(|label| go(label.0 as usize)),
                    _ => {}
                }
                let leaves = matches!(
                    op,
                    Op::Branch { .. } | Op::BranchTable { .. } | Op::Return | Op::Exit | Op::Trap
                );
                guard.is_some() || !(leaves || (!through && suspends(op)))
            }
            None => true,
        };
        if falls && span + 1 < self.spans.len() {
            all.push(span + 1);
        }
        all
    }

    /// The registers that are live at the start of each span: at all, or before the next wait. `None` for
    /// bodies so large that the analysis would take too long.
    pub(super) fn live(&self, body: &Body, through: bool) -> Option<Live> {
        let count = self.spans.len();
        let words = body.registers.len().div_ceil(64).max(1);
        let total = count.checked_mul(words).filter(|total| *total <= MOST_WORDS)?;
        let mut used = vec![0_u64; total];
        let mut killed = vec![0_u64; total];
        for (index, span) in self.spans.iter().enumerate() {
            let own = index * words..(index + 1) * words;
            for statement in &body.statements[span.start..span.end] {
                let always = statement.guard.is_none();
                let (used, killed) = (&mut used[own.clone()], &mut killed[own.clone()]);
                visit(&mut statement.clone(), &mut Seen { used, killed, always });
            }
        }
        let successors: Vec<Vec<usize>> =
            (0..count).map(|span| self.successors(body, span, through)).collect();
        let mut before = vec![Vec::new(); count];
        for (span, all) in successors.iter().enumerate() {
            all.iter().for_each(|next| before[*next].push(span));
        }
        let mut live = used.clone();
        let mut left: Vec<usize> = (0..count).collect();
        let mut waiting = vec![true; count];
        let mut after = vec![0_u64; words];
        let mut work = 0_usize;
        while let Some(span) = left.pop() {
            waiting[span] = false;
            work += words * (successors[span].len() + 1);
            if work > MOST_WORK {
                return None;
            }
            after.fill(0);
            for next in &successors[span] {
                let theirs = &live[next * words..(next + 1) * words];
                after.iter_mut().zip(theirs).for_each(|(sum, one)| *sum |= one);
            }
            let mut changed = false;
            for (word, after) in after.iter().enumerate() {
                let place = span * words + word;
                let found = used[place] | (after & !killed[place]);
                changed |= found != live[place];
                live[place] = found;
            }
            if changed {
                let again =
                    before[span].iter().filter(|one| !std::mem::replace(&mut waiting[**one], true));
                left.extend(again);
            }
        }
        Some(Live { words, bits: live })
    }

    /// For each register, whether only one span uses it and always writes it before reading it.
    pub(super) fn in_one_span(&self, body: &Body) -> Vec<bool> {
        let mut seen: Vec<Option<usize>> = vec![None; body.registers.len()];
        let mut alone = vec![true; body.registers.len()];
        for (index, span) in self.spans.iter().enumerate() {
            for statement in &body.statements[span.start..span.end] {
                let Touched { reads, writes } = Touched::of(statement);
                for register in reads {
                    let register = register.0 as usize;
                    alone[register] &= seen[register] == Some(index);
                }
                // The result of a wait is written where the thread resumes.
                let always = statement.guard.is_none() && !suspends(&statement.op);
                for register in writes {
                    let register = register.0 as usize;
                    alone[register] &= always && seen[register].is_none_or(|span| span == index);
                    seen[register] = Some(index);
                }
            }
        }
        alone
    }

    /// The number of backward branches.
    pub(super) fn loops(&self, body: &Body) -> usize {
        let goes_back =
            |span: &usize| self.successors(body, *span, true).into_iter().any(|next| next <= *span);
        (0..self.spans.len()).filter(goes_back).count()
    }

    /// The number of live registers, summed over all statements. Statements that become several blocks count
    /// more, because each block passes the live registers on.
    pub(super) fn pressure(&self, body: &Body, live: &Live) -> usize {
        let mut sum = 0_usize;
        for (index, span) in self.spans.iter().enumerate() {
            let mut held = vec![0_u64; live.words];
            for next in self.successors(body, index, true) {
                held.iter_mut().zip(live.span(next)).for_each(|(sum, one)| *sum |= one);
            }
            let mut held = Held { count: count_ones(&held), bits: held, always: true };
            for statement in body.statements[span.start..span.end].iter().rev() {
                held.always = statement.guard.is_none();
                let weight = if is_plain(statement) { 1 } else { WEIGHT };
                sum = sum.saturating_add(weight * held.count);
                let touched = Touched::of(statement);
                touched.writes.iter().for_each(|register| held.written(*register));
                touched.reads.iter().for_each(|register| held.read(*register));
            }
        }
        sum
    }
}

/// The most words of register bits for all spans.
const MOST_WORDS: usize = 4 << 20;
/// The most words that the analysis may visit.
const MOST_WORK: usize = 200 << 20;
/// The weight of a statement that becomes several blocks.
const WEIGHT: usize = 8;

/// The live registers at the start of each span.
#[derive(Debug, Default)]
pub(super) struct Live {
    words: usize,
    bits: Vec<u64>,
}

impl Live {
    fn span(&self, span: usize) -> &[u64] {
        self.bits.get(span * self.words..(span + 1) * self.words).unwrap_or_default()
    }

    /// Those of a span; empty for a span that does not exist.
    pub(super) fn of(&self, span: usize) -> impl Iterator<Item = Reg> {
        let number = |word: usize, bit: usize| u32::try_from(64 * word + bit).unwrap_or(u32::MAX);
        self.span(span).iter().enumerate().flat_map(move |(word, bits)| {
            let is_set = move |bit: &usize| bits >> bit & 1 != 0;
            (0..64).filter(is_set).map(move |bit| Reg(number(word, bit)))
        })
    }
}

fn count_ones(bits: &[u64]) -> usize {
    bits.iter().map(|word| word.count_ones() as usize).sum()
}

fn is_plain(statement: &Statement) -> bool {
    let several = matches!(
        statement.op,
        Op::Load { .. }
            | Op::Store { .. }
            | Op::Atomic { .. }
            | Op::CopyAsync { .. }
            | Op::Call { .. }
            | Op::CallIndirect { .. }
    );
    statement.guard.is_none() && !several && !ends_span(&statement.op)
}

/// The live registers at a statement, from the end of a span backwards.
struct Held {
    bits: Vec<u64>,
    count: usize,
    always: bool,
}

impl Held {
    fn written(&mut self, register: Reg) {
        let (word, bit) = (register.0 as usize / 64, 1_u64 << (register.0 % 64));
        if self.always && self.bits[word] & bit != 0 {
            self.bits[word] &= !bit;
            self.count -= 1;
        }
    }

    fn read(&mut self, register: Reg) {
        let (word, bit) = (register.0 as usize / 64, 1_u64 << (register.0 % 64));
        if self.bits[word] & bit == 0 {
            self.bits[word] |= bit;
            self.count += 1;
        }
    }
}

/// The registers that a statement reads and writes.
#[derive(Clone, Debug, Default)]
pub(super) struct Touched {
    /// The registers that it reads.
    pub reads: Vec<Reg>,
    /// The registers that it writes.
    pub writes: Vec<Reg>,
}

impl Touched {
    /// Those of a statement.
    pub(super) fn of(statement: &Statement) -> Self {
        let mut touched = Self::default();
        visit(&mut statement.clone(), &mut touched);
        touched
    }
}

impl Visitor for Touched {
    fn read(&mut self, register: &mut Reg) {
        self.reads.push(*register);
    }

    fn write(&mut self, register: &mut Reg) {
        self.writes.push(*register);
    }
}

/// Collects the registers that are read before they are written.
struct Seen<'a> {
    used: &'a mut [u64],
    killed: &'a mut [u64],
    /// Whether the statement is unconditional.
    always: bool,
}

impl Visitor for Seen<'_> {
    fn read(&mut self, register: &mut Reg) {
        let (word, bit) = (register.0 as usize / 64, 1_u64 << (register.0 % 64));
        if self.killed[word] & bit == 0 {
            self.used[word] |= bit;
        }
    }

    fn write(&mut self, register: &mut Reg) {
        if self.always {
            self.killed[register.0 as usize / 64] |= 1_u64 << (register.0 % 64);
        }
    }
}
