//! Export of leases: each file writes one protocol's description.

pub mod array_interface;
pub mod consumer;
pub mod dlpack;
pub mod face;
