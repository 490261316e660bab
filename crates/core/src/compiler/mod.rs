//! Compiles CUDA C to an image, and finds the types of its kernels and variables.
//!
//! clang with gpulend's headers needs no NVIDIA software. NVRTC, if installed, generates better code.
//!
//! ```no_run
//! use gpulend::compiler::{Recipe, Target, compile};
//!
//! let recipe = Recipe::new("extern \"C\" __global__ void f(int *p) { *p = 1; }");
//! let program = compile(&recipe, Target::SIMULATED)?;
//! assert_eq!(program.kernels[0].to_string(), "f(int* p)");
//! # Ok::<(), gpulend::CompileError>(())
//! ```

mod cache;
mod clang;
mod clang_options;
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
mod recipe;
mod release;
mod stand_ins;
mod statics;
mod toolkit;

pub use cache::cache_folder;
pub use clang::Ptx;
pub use find::Compiler;
pub use headers::program_headers;
pub use image::is_image;
pub(crate) use names::{listed, squeezed};
pub use nvidia::describe_nvrtc;
pub use options::takes_next_word;
pub use program::{Expression, ImageKind, Program, Target, compile, read_image};
pub use recipe::{Choice, Recipe};
pub use release::with_release;
pub use toolkit::Toolkit;
