//! A simulated GPU: NVIDIA's public CUDA driver API over host memory.
//!
//! `api` is the `extern "C"` surface, one thin function for each of the driver's. `machine` is the model behind it:
//! devices, contexts, memory, streams, events, captures. It is written from the published documentation and from what a
//! real driver answers; it holds no private interface, and `cuGetExportTable` knows no table.
//!
//! It is an adversary, not a stub: queued work runs as late as ordering allows, freed memory is poisoned, and what a
//! program does wrong is answered with the driver's code and an entry in a report.

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
compile_error!("the simulated GPU is for Linux on x86-64");

pub mod api;
pub mod bytes;
pub mod config;
pub mod engine;
pub mod foreign;
pub mod machine;
pub mod ptx;
pub mod status;
