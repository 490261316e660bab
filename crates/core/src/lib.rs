//! gpulend lends memory between frameworks: no copies, checked pointers, one owner.
//!
//! There is one way through: a foreign array comes in by [`import`], becomes a
//! [`View`] and an [`Owner`], together a [`Lease`], and goes out by [`export`].
//!
//! ```
//! use gpulend::{Lease, copy};
//!
//! let source = Lease::from_vec(vec![1.0_f32, 2.0, 3.0, 4.0])?;
//! let square = source.reshaped(&[2, 2])?;
//! // Nobody else has seen the memory.
//! let columns = unsafe { copy::to_vec::<f32>(&square.transposed()) }?;
//! assert_eq!(columns, [1.0, 3.0, 2.0, 4.0]);
//! assert!(source.release().is_err(), "the square still hangs on it");
//! # Ok::<(), gpulend::Error>(())
//! ```

#[macro_use]
pub mod fork;

pub mod abi;
pub mod compiler;
pub mod copy;
mod device;
pub mod driver;
mod dtype;
mod error;
pub mod export;
pub mod host;
pub mod import;
mod layout;
mod lease;
pub mod ledger;
mod owner;
pub mod pool;
pub mod stream;
mod view;

pub use device::{Device, DeviceKind, Memory};
pub use dtype::Dtype;
pub use error::{
    AddressError, CompileError, DeviceError, Diagnostic, DriverError, Error, ExportError,
    LayoutError, ProtocolError, Severity,
};
pub use layout::{ByteSpan, Index, Layout, MOST_AXES};
pub use lease::{Element, Export, Lease};
pub use owner::Owner;
pub use view::View;
