//! Moves loads down to the first use of their values.
//!
//! GPU compilers load early, because GPUs have many registers and slow memory. A CPU has few registers, so a
//! value loaded early is spilled until its use.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use super::graph::{Graph, Touched};
use crate::ptx::ast::{Body, Op, Reg, Statement, Strength};

fn may_move(statement: &Statement) -> bool {
    statement.guard.is_none() && matches!(statement.op, Op::Load { strength: Strength::Weak, .. })
}

/// Whether a statement may change memory or leave the span.
fn is_fence(statement: &Statement) -> bool {
    !matches!(
        statement.op,
        Op::Load { strength: Strength::Weak, .. }
            | Op::Move { .. }
            | Op::Pack { .. }
            | Op::Unpack { .. }
            | Op::ToGeneric { .. }
            | Op::FromGeneric { .. }
            | Op::Convert { .. }
            | Op::Unary { .. }
            | Op::Binary { .. }
            | Op::Ternary { .. }
            | Op::SetPredicate { .. }
            | Op::Select { .. }
    )
}

/// The pending loads in order, and which loads depend on each register.
#[derive(Default)]
struct Waiting {
    /// Loads that were placed are `None`.
    loads: Vec<Option<Statement>>,
    readers: HashMap<Reg, Vec<usize>>,
    writers: HashMap<Reg, Vec<usize>>,
}

impl Waiting {
    fn add(&mut self, load: Statement, touched: &Touched) {
        let number = self.loads.len();
        for register in &touched.reads {
            self.readers.entry(*register).or_default().push(number);
        }
        for register in &touched.writes {
            self.writers.entry(*register).or_default().push(number);
        }
        self.loads.push(Some(load));
    }

    /// Takes the loads that must precede a statement, in order. Registers that the statement uses are removed
    /// with their loads, so that no load is visited often.
    fn due(&mut self, touched: &Touched) -> Vec<Statement> {
        let mut due = Vec::new();
        for register in touched.reads.iter().chain(&touched.writes) {
            due.extend(self.writers.remove(register).into_iter().flatten());
        }
        for register in &touched.writes {
            due.extend(self.readers.remove(register).into_iter().flatten());
        }
        due.sort_unstable();
        due.into_iter().filter_map(|number| self.loads[number].take()).collect()
    }

    fn all(&mut self) -> impl Iterator<Item = Statement> {
        std::mem::take(self).loads.into_iter().flatten()
    }
}

/// Moves the loads of each span down.
pub(super) fn sink_loads(body: &mut Body) {
    let spans = Graph::new(body).spans;
    let mut placed = Vec::with_capacity(body.statements.len());
    let mut statements = std::mem::take(&mut body.statements).into_iter();
    for span in spans {
        let mut waiting = Waiting::default();
        for statement in statements.by_ref().take(span.end - span.start) {
            let touched = Touched::of(&statement);
            if is_fence(&statement) {
                placed.extend(waiting.all());
            } else {
                // Dependent loads keep their order: the earlier one is placed first.
                placed.extend(waiting.due(&touched));
            }
            if may_move(&statement) {
                waiting.add(statement, &touched);
            } else {
                placed.push(statement);
            }
        }
        placed.extend(waiting.all());
    }
    body.statements = placed;
}
