//! The operations of a stream.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::condition::Branch;
use super::graph::Frozen;
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

/// A unit of work. It was validated, so running it cannot fail, except for a kernel's own errors.
#[derive(Clone, Debug)]
pub enum Work {
    /// Nothing: a point in the order, for events and joins.
    Mark,
    /// The end of a graph launch. It keeps the graph's user objects until then.
    End(Arc<Frozen>),
    /// Runs one of several graphs, or one several times.
    Branch(Arc<Branch<Arc<Frozen>>>),
    /// Copies rows.
    Copy {
        /// The target.
        target: Range,
        /// The source.
        source: Range,
        /// The rows and pitches.
        shape: Shape,
    },
    /// Fills rows with a pattern.
    Fill {
        /// The target.
        target: Range,
        /// The pattern.
        pattern: Pattern,
        /// Elements in a row.
        width: usize,
        /// Number of rows.
        height: usize,
        /// Row pitch in bytes.
        pitch: usize,
    },
    /// Calls a host function.
    Call(HostFunction),
    /// Launches a kernel.
    Launch(Arc<Launched>),
    /// Writes a value to memory.
    Write {
        /// The target.
        target: Range,
        /// The value.
        value: u64,
        /// Whether it has 8 bytes rather than 4.
        wide: bool,
    },
    /// Raises 8 bytes of memory to a value, unless they are higher.
    Raise {
        /// The target.
        target: Range,
        /// The value.
        value: u64,
    },
    /// Waits until memory contains a value.
    Wait {
        /// The address.
        source: Range,
        /// The value.
        value: u64,
        /// Whether it has 8 bytes rather than 4.
        wide: bool,
        /// The comparison.
        compare: Compare,
    },
    /// Pool memory becomes usable.
    Acquire {
        /// Its address.
        base: usize,
    },
    /// Pool memory is freed.
    Release {
        /// Its address.
        base: usize,
        /// Its buffer id: the address may belong to another allocation by then.
        buffer_id: u64,
    },
}

impl Work {
    /// Returns whether it can run now, as far as values in memory decide.
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

    /// Moves the bytes. The machine does the rest.
    pub fn run(&self) {
        match self {
            Self::Copy { target, source, shape } => bytes::copy(target, source, shape),
            Self::Fill { target, pattern, width, height, pitch } => {
                bytes::fill(target, *pattern, *width, *height, *pitch);
            }
            Self::Write { target, value, wide } => bytes::store(target, *value, *wide),
            Self::Raise { target, value } => bytes::raise(target, *value),
            Self::Mark
            | Self::End(_)
            | Self::Branch(_)
            | Self::Wait { .. }
            | Self::Acquire { .. }
            | Self::Release { .. }
            | Self::Call(_)
            | Self::Launch(_) => {}
        }
    }

    /// Returns whether it can still run when the process ends. Host functions are not started any more, and
    /// the caller's memory may be unmapped.
    #[must_use]
    pub fn may_be_last(&self) -> bool {
        match self {
            Self::Call(_) => false,
            Self::Copy { target, source, .. } => target.is_ours() && source.is_ours(),
            Self::Fill { target, .. } | Self::Write { target, .. } | Self::Raise { target, .. } => {
                target.is_ours()
            }
            Self::Wait { source, .. } => source.is_ours() && self.may_run(),
            Self::Mark
            | Self::End(_)
            | Self::Branch(_)
            | Self::Acquire { .. }
            | Self::Release { .. }
            | Self::Launch(_) => true,
        }
    }
}
