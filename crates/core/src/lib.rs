//! gpulend shares GPU and host memory between frameworks without copies. Pointers are validated, hand-overs are
//! stream-ordered, and memory is released once.
//!
//! A foreign array comes in through [`import`], becomes a [`View`] and an [`Owner`], together a [`Lease`], and
//! goes out through [`export`]. `ARCHITECTURE.md` has pictures.
//!
//! ```
//! use gpulend::{Lease, copy};
//!
//! let source = Lease::from_vec(vec![1.0_f32, 2.0, 3.0, 4.0])?;
//! let square = source.reshaped(&[2, 2])?;
//! // Nobody else has seen the memory.
//! let columns = unsafe { copy::to_vec::<f32>(&square.transposed()) }?;
//! assert_eq!(columns, [1.0, 3.0, 2.0, 4.0]);
//! assert!(source.release().is_err(), "the square keeps it");
//! # Ok::<(), gpulend::Error>(())
//! ```
//!
//! A [`Module`](module::Module) contains the kernels of a CUDA C++ source, of PTX or of a cubin. A
//! [`Kernel`](kernel::Kernel) is launched on leases: each argument is checked against the kernel's
//! [signature](signature::Signature), the launch waits for the work that made the arrays, and their memory is kept until
//! the kernel is done.
//!
//! ```no_run
//! use gpulend::kernel::{Kernel, Size};
//! use gpulend::module::{Module, Recipe};
//! use gpulend::{Device, DeviceKind, Dtype, copy, pool};
//!
//! let source = "__global__ void fill(int *x, int n) { if (threadIdx.x < n) x[threadIdx.x] = threadIdx.x; }";
//! let fill = Kernel::new(Module::compile(Recipe::new(source), 0)?.find("fill")?);
//! let array = pool::empty(&[100], Dtype::INT32, Device::new(DeviceKind::Cuda, 0))?;
//! // The kernel stays inside the array, which nothing else uses.
//! unsafe { fill.with(Size::of(1, 128)).array(&array).integer(100).launch() }?;
//! assert_eq!(unsafe { copy::to_vec::<i32>(&array) }?[99], 99);
//! # Ok::<(), gpulend::Error>(())
//! ```

// Built for its library, which `driver` finds; none of its functions is called by name.
#[cfg(feature = "sim")]
use gpulend_sim as _;

pub mod abi;
mod blocks;
pub mod compiler;
pub mod copy;
#[cfg(feature = "cudarc")]
pub mod cudarc;
mod device;
pub mod driver;
mod dtype;
mod error;
pub mod export;
pub mod fork;
pub mod host;
pub mod import;
pub mod kernel;
mod layout;
mod lease;
pub mod ledger;
pub mod module;
mod owner;
pub mod pool;
pub mod signature;
pub mod stream;
pub mod ticket;
mod view;

pub use device::{Device, DeviceKind, Memory};
pub use dtype::Dtype;
pub use error::{
    AddressError, CompileError, DeviceError, Diagnostic, DriverError, Error, ExportError,
    KernelError, LayoutError, ProtocolError, Report, Severity, SignatureError, TicketError, codes,
    hint,
};
pub use layout::{ByteSpan, Index, Layout, MOST_AXES};
pub use lease::{Element, Export, Handed, Lease};
pub use owner::Owner;
pub use view::View;

/// The programs of the pages about this crate.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/rust.md")]
    struct Guide;
}
