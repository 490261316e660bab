//! The engine: runs PTX kernels on the CPU, with checks.
//!
//! A [`Program`] is a parsed module. Its kernels are compiled at their first launch. The machine provides
//! memory for its variables, and says which memory a launch may access. The engine knows nothing of devices
//! and streams.

mod block;
mod code;
mod compiled;
mod context;
mod copies;
pub mod fault;
mod graph;
mod hooks;
mod inline;
pub mod launch;
mod lower;
pub mod numbers;
mod pointers;
pub mod program;
mod shadow;
mod shared;
mod sink;
mod together;
mod transfer;
mod watch;
mod worker;

pub use fault::{FaultKind, KernelFault};
pub use launch::{Checks, Heap, Launch, Reach, Spot, run};
pub use program::{Kernel, LoadError, LoadErrorKind, Program};
