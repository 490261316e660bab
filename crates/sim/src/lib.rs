//! A simulated GPU: NVIDIA's public CUDA driver API over host memory.
//!
//! `api` is the `extern "C"` surface, one thin function for each of the driver's. `machine` is the model behind it:
//! devices, contexts, memory, streams, events, captures. `ptx` parses PTX, `engine` compiles and runs kernels. It is
//! written from the published documentation and from the observed behaviour of a
//! real driver; it has no private interface, and `cuGetExportTable` finds no table.
//!
//! It is an adversary, not a stub: queued work runs as late as ordering allows, freed memory is poisoned, and a
//! program's error returns the driver's error code and adds an entry to a report.

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
compile_error!("the simulated GPU is for Linux on x86-64 and aarch64");

pub mod api;
pub mod bytes;
pub mod config;
pub mod engine;
pub mod foreign;
pub mod machine;
pub mod ptx;
pub mod status;
