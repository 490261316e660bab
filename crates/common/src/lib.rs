//! Code that `gpulend` and `gpulend-sim` share. The simulated GPU is a separate library, so neither can call
//! the other.
#![forbid(unsafe_code)]

pub mod image;
pub mod maps;
mod pages;
mod settings;

pub use pages::page_size;
pub use settings::{Check, parse_size};
