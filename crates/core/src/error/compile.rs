//! Kernels that cannot be compiled.
#![forbid(unsafe_code)]

use std::fmt;
use std::time::Duration;

use thiserror::Error;

/// How much a diagnostic weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// It cannot be compiled.
    Error,
    /// It can, and is probably not what was meant.
    Warning,
    /// More about the diagnostic before it.
    Note,
}

impl Severity {
    /// As compilers write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// One remark of the compiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file, as the caller named it.
    pub file: Box<str>,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
    /// How much it weighs.
    pub severity: Severity,
    /// What it says.
    pub text: Box<str>,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, severity, text } = self;
        write!(out, "{file}:{line}:{column}: {}: {text}", severity.name())
    }
}

/// A source that is not compiled, and why.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CompileError {
    /// There is no compiler.
    #[error(
        "no compiler for kernels: neither GPULEND_CLANG, nor the Python package ziglang, nor a clang 14 or newer \
         on PATH that compiles for NVPTX; install one with `pip install gpulend[sim]`"
    )]
    NoCompiler,
    /// The compiler that was asked for does not work.
    #[error("{program} compiles no CUDA C: {reason}; give another in GPULEND_CLANG, or unset it")]
    BadCompiler {
        /// Which one.
        program: Box<str>,
        /// What it said.
        reason: Box<str>,
    },
    /// An option that is not known here.
    #[error("option {option:?}: {reason}")]
    Option {
        /// The option.
        option: Box<str>,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The source has mistakes.
    #[error("{file} cannot be compiled:\n{report}")]
    Source {
        /// The file, as the caller named it.
        file: Box<str>,
        /// All that the compiler said.
        report: Box<str>,
        /// The same in parts.
        diagnostics: Vec<Diagnostic>,
    },
    /// A launch in the source.
    #[error(
        "{file} launches a kernel with <<<...>>>, and only the device's part of a source is compiled; take the \
         host code out, and launch with `gpulend.compile(source)[\"kernel\"][grid, block](...)`\n{report}"
    )]
    Launch {
        /// The file, as the caller named it.
        file: Box<str>,
        /// All that the compiler said.
        report: Box<str>,
        /// The same in parts.
        diagnostics: Vec<Diagnostic>,
    },
    /// The compiler does not end.
    #[error("the compiler was stopped after {} seconds; compile less at once", limit.as_secs())]
    TooLong {
        /// How long it was given.
        limit: Duration,
    },
    /// The compiler broke down.
    #[error("the compiler failed on {file} ({status}):\n{report}")]
    Crashed {
        /// The file, as the caller named it.
        file: Box<str>,
        /// How it ended.
        status: Box<str>,
        /// All that it said.
        report: Box<str>,
    },
    /// A name that no file can have.
    #[error("{name:?} cannot name {what}; {wanted}")]
    Name {
        /// The name.
        name: Box<str>,
        /// What it should name.
        what: &'static str,
        /// What would do.
        wanted: &'static str,
    },
    /// Code that the device does not take.
    #[error("the compiled code cannot be loaded: {reason}")]
    Load {
        /// The driver's words.
        reason: Box<str>,
    },
    /// The folder in which a source is compiled.
    #[error("cannot compile in {folder}: {reason}; TMPDIR names another folder")]
    Folder {
        /// Where.
        folder: Box<str>,
        /// Why not.
        reason: Box<str>,
    },
    /// A template instance that was asked for.
    #[error("{expression} was asked for by name, and cannot be compiled:\n{report}")]
    Instance {
        /// As it was asked for.
        expression: Box<str>,
        /// All that the compiler said.
        report: Box<str>,
        /// The same in parts.
        diagnostics: Vec<Diagnostic>,
    },
    /// A name that was asked for and names no kernel.
    #[error(
        "{expression:?} was asked for by name, and names no kernel of {file}; it has {kernels}"
    )]
    UnknownKernel {
        /// As it was asked for.
        expression: Box<str>,
        /// The file, as the caller named it.
        file: Box<str>,
        /// What there is, in words.
        kernels: Box<str>,
    },
    /// NVIDIA's compiler was asked for.
    #[error(
        "NVIDIA's compiler was asked for and cannot be loaded: {reason}; install it with \
         `pip install nvidia-cuda-nvrtc`, or let gpulend choose the compiler"
    )]
    NoNvrtc {
        /// What was tried, and what the loader said.
        reason: Box<str>,
    },
    /// What was given for an image is none.
    #[error("this is no image that a GPU loads: {found}; give PTX, a cubin or a fatbin")]
    Image {
        /// What it is instead, in words.
        found: Box<str>,
    },
    /// The compiler is too new or too old for the device.
    #[error(
        "{compiler} compiles for compute capability {oldest} and newer, and the device has {found}; {advice}"
    )]
    Architecture {
        /// Which one, with its version.
        compiler: Box<str>,
        /// The oldest that it knows.
        oldest: Box<str>,
        /// The device's.
        found: Box<str>,
        /// What to do.
        advice: &'static str,
    },
    /// Functions that only NVIDIA's compiler or the simulated GPU have.
    #[error(
        "{file} calls {functions}, and clang's code for a real GPU has no library with them; install NVIDIA's \
         compiler with `pip install nvidia-cuda-nvrtc`, which is then used"
    )]
    Unresolved {
        /// The file, as the caller named it.
        file: Box<str>,
        /// The functions, in words.
        functions: Box<str>,
    },
    /// NVIDIA's compiler was asked for, and the device is simulated.
    #[error(
        "NVIDIA's compiler was asked for, and the simulated GPU takes only what clang compiles; leave the compiler \
         to gpulend (\"auto\"), or ask for \"clang\""
    )]
    NvrtcSimulated,
}

impl CompileError {
    /// What the compiler said about the source, in parts.
    #[must_use]
    pub fn diagnostics(&self) -> &[Diagnostic] {
        match self {
            Self::Source { diagnostics, .. }
            | Self::Launch { diagnostics, .. }
            | Self::Instance { diagnostics, .. } => diagnostics,
            _ => &[],
        }
    }

    pub(super) fn number(&self) -> u32 {
        match self {
            Self::NoCompiler => 1,
            Self::BadCompiler { .. } => 2,
            Self::Option { .. } => 3,
            Self::Source { .. } => 4,
            Self::Launch { .. } => 5,
            Self::TooLong { .. } => 6,
            Self::Crashed { .. } => 7,
            Self::Name { .. } => 8,
            Self::Folder { .. } => 9,
            Self::Instance { .. } => 10,
            Self::UnknownKernel { .. } => 11,
            Self::NoNvrtc { .. } => 12,
            Self::Image { .. } => 13,
            Self::Architecture { .. } => 14,
            Self::Unresolved { .. } => 15,
            Self::NvrtcSimulated => 16,
            Self::Load { .. } => 20,
        }
    }
}
