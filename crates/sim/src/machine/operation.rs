//! The operations of a stream.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::graph::Graph;
use super::launch::Launched;
use crate::bytes::{self, Pattern, Range, Shape};
use crate::foreign::HostFunction;

/// The number of an operation; later ones are greater.
pub type OperationId = u64;

/// How a stream waits for a value in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// Until the value, as a cyclic difference, is at least the wanted one.
    GreaterOrEqual,
    /// Until it is the wanted one.
    Equal,
    /// Until it shares a bit with the wanted one.
    And,
    /// Until neither has every bit: `~(value | wanted) != 0`.
    Nor,
}

/// One piece of work. Everything in it is checked; running it cannot fail, but for a kernel's own mistakes.
#[derive(Clone, Debug)]
pub enum Work {
    /// Nothing: a place in the order, for events and joins.
    Mark,
    /// The end of a graph's run, until which what the graph keeps is kept.
    End(Arc<Graph>),
    /// Rows from one range to another.
    Copy {
        /// Where to.
        target: Range,
        /// Where from.
        source: Range,
        /// How many rows, and how far apart.
        shape: Shape,
    },
    /// A pattern over rows.
    Fill {
        /// Where to.
        target: Range,
        /// What.
        pattern: Pattern,
        /// Elements of a row.
        width: usize,
        /// Rows.
        height: usize,
        /// Bytes from row to row.
        pitch: usize,
    },
    /// A function of the caller's.
    Call(HostFunction),
    /// A kernel.
    Launch(Arc<Launched>),
    /// A value into memory.
    Write {
        /// Where to.
        target: Range,
        /// What.
        value: u64,
        /// Whether it has 8 bytes rather than 4.
        wide: bool,
    },
    /// Until memory holds a value.
    Wait {
        /// Where.
        source: Range,
        /// What.
        value: u64,
        /// Whether it has 8 bytes rather than 4.
        wide: bool,
        /// How.
        compare: Compare,
    },
    /// Memory of a pool becomes usable.
    Acquire {
        /// Its address.
        base: usize,
    },
    /// Memory goes back to its pool.
    Release {
        /// Its address.
        base: usize,
        /// Its number: another allocation may have the address by then.
        buffer_id: u64,
    },
}

impl Work {
    /// Returns whether it could run now, as far as values in memory decide.
    #[must_use]
    pub fn may_run(&self) -> bool {
        let Self::Wait { source, value, wide, compare } = self else { return true };
        let found = bytes::load(source, *wide);
        let mask = if *wide { u64::MAX } else { u64::from(u32::MAX) };
        match compare {
            Compare::GreaterOrEqual => {
                let sign = if *wide { 1 << 63 } else { 1 << 31 };
                found.wrapping_sub(*value) & mask & sign == 0
            }
            Compare::Equal => found == *value & mask,
            Compare::And => found & value & mask != 0,
            Compare::Nor => !(found | value) & mask != 0,
        }
    }

    /// Does what touches bytes. The rest is the machine's.
    pub fn run(&self) {
        match self {
            Self::Copy { target, source, shape } => bytes::copy(target, source, shape),
            Self::Fill { target, pattern, width, height, pitch } => {
                bytes::fill(target, *pattern, *width, *height, *pitch);
            }
            Self::Write { target, value, wide } => bytes::store(target, *value, *wide),
            Self::Mark
            | Self::End(_)
            | Self::Wait { .. }
            | Self::Acquire { .. }
            | Self::Release { .. }
            | Self::Call(_)
            | Self::Launch(_) => {}
        }
    }

    /// Returns whether it can still be done when the process ends: functions of the caller's are not begun any more, and
    /// memory of the caller's may be gone.
    #[must_use]
    pub fn may_be_last(&self) -> bool {
        match self {
            Self::Call(_) => false,
            Self::Copy { target, source, .. } => target.is_ours() && source.is_ours(),
            Self::Fill { target, .. } | Self::Write { target, .. } => target.is_ours(),
            Self::Wait { source, .. } => source.is_ours() && self.may_run(),
            Self::Mark
            | Self::End(_)
            | Self::Acquire { .. }
            | Self::Release { .. }
            | Self::Launch(_) => true,
        }
    }
}
