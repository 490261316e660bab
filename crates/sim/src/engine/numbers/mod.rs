//! Arithmetic for compiled code, where the CPU has no instruction with PTX's result.
//!
//! Functions that compiled code calls are `extern "C"`, take and return plain numbers and never unwind. [`find`] finds
//! those of instructions by name, [`math::find`] the mathematical functions of C. Sixteen-bit parameters
//! must be extended according to their type.
#![forbid(unsafe_code)]

mod externs;

pub mod approximate;
pub mod bits;
pub mod convert;
pub mod exact;
pub mod half;
pub mod math;
pub mod matrix;
pub mod print;
pub mod rounding;
pub mod warp;

pub use externs::{Extern, all, find};

/// The rounding direction of an inexact result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// To the nearest, ties to even.
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
