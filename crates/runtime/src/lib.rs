//! The public CUDA runtime API over the public CUDA driver API.
//!
//! Each function here has the name, the arguments and the results that CUDA's documentation gives it. The driver,
//! `libcuda.so.1`, is opened at the first use and never closed.
//!
//! Every function that C calls is `unsafe` for one reason: its pointers must be what CUDA's documentation wants.
//! Null where a result belongs is `cudaErrorInvalidValue`. No panic reaches C.

pub mod arrays;
pub mod copies;
pub mod devices;
mod driver;
pub mod error;
mod error_table;
pub mod events;
pub mod functions;
pub mod graph_nodes;
pub mod graphs;
pub mod ipc;
pub mod launch;
pub mod memory;
pub mod occupancy;
mod parts;
pub mod per_thread;
pub mod pools;
pub mod properties;
pub mod registry;
pub mod slices;
mod state;
pub mod streams;
pub mod symbols;
pub mod textures;
pub mod wire;
