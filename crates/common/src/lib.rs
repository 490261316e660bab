//! What `gpulend` and `gpulend-sim` both read: the simulated GPU is a library on its own, so neither can ask the other.
#![forbid(unsafe_code)]

pub mod image;
pub mod maps;
mod settings;

pub use settings::{Check, parse_size};
