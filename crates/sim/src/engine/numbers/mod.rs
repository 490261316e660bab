//! Sums that the engine's code calls for, where the CPU has no instruction that does them as PTX wants.
//!
//! Functions that compiled code calls are `extern "C"`, take and give plain numbers and never unwind. [`find`] knows
//! those of instructions by name, [`math::find`] those that a kernel calls as C's mathematics. Sixteen-bit parameters
//! want to be extended as their type says.
#![forbid(unsafe_code)]

mod externs;

pub mod approximate;
pub mod bits;
pub mod convert;
pub mod exact;
pub mod half;
pub mod math;
pub mod print;
pub mod rounding;
pub mod warp;

pub use externs::{Extern, all, find};

/// Which way a result goes that is no float.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// To the nearest; of two, to the even one.
    Nearest,
    /// Towards zero.
    Zero,
    /// Down.
    Down,
    /// Up.
    Up,
}

impl Direction {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Nearest, Self::Zero, Self::Down, Self::Up];
}
