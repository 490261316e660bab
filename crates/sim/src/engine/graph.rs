//! Which statement follows which, where a thread can be left and taken up again, and what is needed then.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;

use crate::ptx::ast::{Barrier, Body, Op, Reg, Statement};
use crate::ptx::visit::{Visitor, visit};

/// A run of statements that is entered at its beginning and left at its end.
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
    /// The span that begins at each statement that begins one.
    span_at: Vec<Option<usize>>,
}

/// Whether a thread is left at a statement until others have come.
pub(super) fn suspends(op: &Op) -> bool {
    match op {
        Op::Barrier { kind, .. } => !matches!(kind, Barrier::Arrive),
        Op::WarpSync { .. }
        | Op::Shuffle { .. }
        | Op::Vote { .. }
        | Op::Match { .. }
        | Op::Redux { .. }
        | Op::ActiveMask { .. } => true,
        _ => false,
    }
}

fn ends_span(op: &Op) -> bool {
    matches!(op, Op::Branch { .. } | Op::BranchTable { .. } | Op::Return | Op::Exit | Op::Trap)
        || suspends(op)
}

impl Graph {
    /// Parts a body into spans.
    pub(super) fn new(body: &Body) -> Self {
        let count = body.statements.len();
        let mut starts: BTreeSet<usize> = body.labels.iter().copied().collect();
        starts.insert(0);
        let ends = body.statements.iter().enumerate().filter(|(_, one)| ends_span(&one.op));
        starts.extend(ends.map(|(index, _)| index + 1));
        // The end of the body is a span of its own: labels may stand there.
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

    /// The spans that may follow one; `through` waits, or without leaving the thread there.
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

    /// The registers that are read after each span begins, before they are written: at all, or before the next wait.
    pub(super) fn live(&self, body: &Body, through: bool) -> Vec<BTreeSet<Reg>> {
        let count = self.spans.len();
        let words = body.registers.len().div_ceil(64);
        let mut used = vec![vec![0_u64; words]; count];
        let mut killed = vec![vec![0_u64; words]; count];
        for (index, span) in self.spans.iter().enumerate() {
            for statement in &body.statements[span.start..span.end] {
                let always = statement.guard.is_none();
                let mut seen = Seen { used: &mut used[index], killed: &mut killed[index], always };
                visit(&mut statement.clone(), &mut seen);
            }
        }
        let mut live = used.clone();
        let mut changed = true;
        while changed {
            changed = false;
            for span in (0..count).rev() {
                let mut after = vec![0_u64; words];
                for next in self.successors(body, span, through) {
                    after.iter_mut().zip(&live[next]).for_each(|(sum, one)| *sum |= one);
                }
                for word in 0..words {
                    let found = used[span][word] | (after[word] & !killed[span][word]);
                    changed |= found != live[span][word];
                    live[span][word] = found;
                }
            }
        }
        live.iter().map(|bits| members(bits)).collect()
    }
}

fn members(bits: &[u64]) -> BTreeSet<Reg> {
    let number = |word: usize, bit: usize| u32::try_from(64 * word + bit).unwrap_or(u32::MAX);
    bits.iter()
        .enumerate()
        .flat_map(|(word, bits)| {
            let is_set = move |bit: &usize| bits >> bit & 1 != 0;
            (0..64).filter(is_set).map(move |bit| Reg(number(word, bit)))
        })
        .collect()
}

/// Collects what is read before it is written.
struct Seen<'a> {
    used: &'a mut [u64],
    killed: &'a mut [u64],
    /// Whether the statement is done in any case.
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

/// The registers that a statement writes.
pub(super) fn written(statement: &Statement) -> BTreeSet<Reg> {
    struct Written(BTreeSet<Reg>);
    impl Visitor for Written {
        fn write(&mut self, register: &mut Reg) {
            self.0.insert(*register);
        }
    }
    let mut found = Written(BTreeSet::new());
    visit(&mut statement.clone(), &mut found);
    found.0
}
