//! Slices and streams of the crate cudarc, in and out, on two simulated GPUs.
//!
//! cudarc loads `libcuda.so` by itself. The simulated GPU must be what it finds: `make test-rust` names its folder. It runs queued
//! work as late as it may, so a wait that is missing shows as an old value.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod order;
mod refusals;
mod release;
mod setup;
mod streams;
