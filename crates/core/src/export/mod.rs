//! Leases out: each file writes what one protocol reads.

pub mod array_interface;
pub mod consumer;
pub mod dlpack;
pub mod face;
