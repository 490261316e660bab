//! Loads moved down to where their values are first needed.
//!
//! Compilers for GPUs load early, because hardware has many registers and waits long for memory. A CPU has few: what is
//! loaded early is stored away again until it is needed.
#![forbid(unsafe_code)]

use super::graph::Graph;
use crate::ptx::ast::{Body, Op, Reg, Statement, Strength};
use crate::ptx::visit::{Visitor, visit};

/// What a statement reads and writes.
#[derive(Clone, Debug, Default)]
struct Touched {
    reads: Vec<Reg>,
    writes: Vec<Reg>,
}

impl Visitor for Touched {
    fn read(&mut self, register: &mut Reg) {
        self.reads.push(*register);
    }

    fn write(&mut self, register: &mut Reg) {
        self.writes.push(*register);
    }
}

impl Touched {
    fn of(statement: &Statement) -> Self {
        let mut touched = Self::default();
        visit(&mut statement.clone(), &mut touched);
        touched
    }

    /// Whether two statements may not change places.
    fn meets(&self, other: &Self) -> bool {
        let any = |these: &[Reg], those: &[Reg]| these.iter().any(|one| those.contains(one));
        any(&self.writes, &other.reads)
            || any(&self.writes, &other.writes)
            || any(&self.reads, &other.writes)
    }
}

fn may_move(statement: &Statement) -> bool {
    statement.guard.is_none() && matches!(statement.op, Op::Load { strength: Strength::Weak, .. })
}

/// Whether memory may change, or the thread go elsewhere.
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

/// Moves the loads of each span down.
pub(super) fn sink_loads(body: &mut Body) {
    let spans = Graph::new(body).spans;
    for span in spans {
        let statements: Vec<Statement> = body.statements[span.start..span.end].to_vec();
        let mut waiting: Vec<(Statement, Touched)> = Vec::new();
        let mut placed = Vec::with_capacity(statements.len());
        for statement in statements {
            let touched = Touched::of(&statement);
            if is_fence(&statement) {
                placed.extend(waiting.drain(..).map(|(load, _)| load));
            } else {
                // Two loads that meet keep their order: the one goes before the other does.
                let (due, stay): (Vec<_>, Vec<_>) =
                    waiting.into_iter().partition(|(_, load)| load.meets(&touched));
                placed.extend(due.into_iter().map(|(load, _)| load));
                waiting = stay;
            }
            if may_move(&statement) {
                waiting.push((statement, touched));
            } else {
                placed.push(statement);
            }
        }
        placed.extend(waiting.into_iter().map(|(load, _)| load));
        body.statements.splice(span.start..span.end, placed);
    }
}
