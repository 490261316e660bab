//! CUDA C to what a GPU loads, and the types of what is in it.
//!
//! By clang and headers of our own no NVIDIA software is needed; by NVRTC, where it is, the code is NVIDIA's best.
//!
//! ```no_run
//! use gpulend::compiler::{Choice, Request, Source, compile};
//!
//! let source = Source::new("extern \"C\" __global__ void f(int *p) { *p = 1; }");
//! let program = compile(&Request::new(source))?;
//! assert_eq!(program.kernels[0].to_string(), "f(int* p)");
//! # Ok::<(), gpulend::CompileError>(())
//! ```

mod cache;
mod clang;
mod diagnostics;
mod find;
mod folder;
mod headers;
mod image;
mod names;
mod nvidia;
mod nvrtc;
mod nvrtc_log;
mod nvrtc_options;
mod options;
mod probe;
mod process;
mod program;
mod stand_ins;
mod statics;

pub use clang::{Ptx, Source};
pub use find::Compiler;
pub use image::is_image;
pub use nvidia::describe_nvrtc;
pub use program::{Choice, Expression, ImageKind, Program, Request, compile, read_image};
