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
//!
//! A [`Module`](module::Module) holds the kernels of a source in CUDA C++, of PTX or of a cubin, a
//! [`Kernel`](kernel::Kernel) is launched on leases. Each argument is checked against the kernel's own
//! [signature](signature::Signature), the launch waits for whatever made the arrays, and their memory stays until
//! it is done.
//!
//! ```no_run
//! use gpulend::kernel::{Kernel, Size};
//! use gpulend::module::{Module, Recipe};
//! use gpulend::{Device, DeviceKind, Dtype, copy, pool};
//!
//! let source = "__global__ void fill(int *x, int n) { if (threadIdx.x < n) x[threadIdx.x] = threadIdx.x; }";
//! let fill = Kernel::new(Module::compile(Recipe::new(source), 0)?.find("fill")?);
//! let array = pool::empty(&[100], Dtype::INT32, Device::new(DeviceKind::Cuda, 0))?;
//! // The kernel stays inside the array, which nobody else knows.
//! unsafe { fill.with(Size::of(1, 128)).array(&array).integer(100).launch() }?;
//! assert_eq!(unsafe { copy::to_vec::<i32>(&array) }?[99], 99);
//! # Ok::<(), gpulend::Error>(())
//! ```

pub mod abi;
pub mod compiler;
pub mod copy;
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
mod view;

pub use device::{Device, DeviceKind, Memory};
pub use dtype::Dtype;
pub use error::{
    AddressError, CompileError, DeviceError, Diagnostic, DriverError, Error, ExportError,
    KernelError, LayoutError, ProtocolError, Severity, SignatureError, codes, hint,
};
pub use layout::{ByteSpan, Index, Layout, MOST_AXES};
pub use lease::{Element, Export, Handed, Lease};
pub use owner::Owner;
pub use view::View;
