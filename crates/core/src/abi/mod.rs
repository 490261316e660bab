//! Foreign memory layouts, byte for byte. No behaviour lives here.

pub mod cuda;
pub mod dlpack;
