//! Kernels that cannot be compiled.
#![forbid(unsafe_code)]

use std::fmt;
use std::time::Duration;

use thiserror::Error;

use crate::error::codes::{self, Code};
use crate::error::hint::CompileHint;

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

impl Diagnostic {
    /// Whether NVRTC misses a header of the CUDA toolkit. clang does not search for those.
    fn misses_toolkit_header(&self) -> bool {
        let names = ["\"cuda", "\"cooperative_groups", "\"nv/"];
        self.text.contains("open source file") && names.iter().any(|name| self.text.contains(name))
    }
}

/// A source that is not compiled, and why.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CompileError {
    /// There is no compiler.
    #[error(
        "no compiler for kernels: GPULEND_CLANG names none, and no clang 14 or newer on PATH compiles for NVPTX"
    )]
    NoCompiler,
    /// The compiler that was asked for does not work.
    #[error("{program} compiles no CUDA C: {reason}")]
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
        "{file} launches a kernel with <<<...>>>, and only the device's part of a source is compiled:\n{report}"
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
    #[error("the compiler was stopped after {} seconds", limit.as_secs())]
    TooLong {
        /// How long it was given.
        limit: Duration,
    },
    /// The compiler crashed.
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
    #[error("cannot compile in {folder}: {reason}")]
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
    #[error("NVIDIA's compiler was asked for and cannot be loaded: {reason}")]
    NoNvrtc {
        /// What was tried, and what the loader said.
        reason: Box<str>,
    },
    /// The bytes are not an image.
    #[error("this is not an image that a GPU loads: {found}")]
    Image {
        /// What it is instead, in words.
        found: Box<str>,
    },
    /// The compiler is too new or too old for the device.
    #[error(
        "{compiler} compiles for compute capability {oldest} and newer, and the device has {found}"
    )]
    Architecture {
        /// Which one, with its version.
        compiler: Box<str>,
        /// The oldest that it knows.
        oldest: Box<str>,
        /// The device's.
        found: Box<str>,
        /// What to do.
        hint: CompileHint,
    },
    /// Functions that only NVIDIA's compiler or the simulated GPU have.
    #[error("{file} calls {functions}, and clang's code for a real GPU has no library with them")]
    Unresolved {
        /// The file, as the caller named it.
        file: Box<str>,
        /// The functions, in words.
        functions: Box<str>,
    },
    /// NVIDIA's compiler was asked for, and the device is simulated.
    #[error(
        "NVIDIA's compiler was asked for, and the simulated GPU takes only what clang compiles"
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

    pub(super) const fn code(&self) -> Code {
        match self {
            Self::NoCompiler => codes::NO_COMPILER,
            Self::BadCompiler { .. } => codes::BAD_COMPILER,
            Self::Option { .. } => codes::UNKNOWN_OPTION,
            Self::Source { .. } => codes::SOURCE_MISTAKES,
            Self::Launch { .. } => codes::SOURCE_LAUNCHES,
            Self::TooLong { .. } => codes::COMPILER_TOO_LONG,
            Self::Crashed { .. } => codes::COMPILER_CRASHED,
            Self::Name { .. } => codes::BAD_NAME,
            Self::Folder { .. } => codes::BAD_FOLDER,
            Self::Instance { .. } => codes::INSTANCE_MISTAKES,
            Self::UnknownKernel { .. } => codes::NO_SUCH_INSTANCE,
            Self::NoNvrtc { .. } => codes::NO_NVRTC,
            Self::Image { .. } => codes::NOT_AN_IMAGE,
            Self::Architecture { .. } => codes::ARCHITECTURE,
            Self::Unresolved { .. } => codes::UNRESOLVED,
            Self::NvrtcSimulated => codes::NVRTC_SIMULATED,
            Self::Load { .. } => codes::NOT_LOADED,
        }
    }

    pub(super) fn hint(&self) -> Option<CompileHint> {
        // First, whatever else is wrong: without the header the rest of the report can be its consequence.
        if self.diagnostics().iter().any(Diagnostic::misses_toolkit_header) {
            return Some(CompileHint::ToolkitHeaders);
        }
        Some(match self {
            Self::NoCompiler => CompileHint::InstallCompiler,
            Self::BadCompiler { .. } => CompileHint::OtherCompiler,
            Self::Launch { .. } => CompileHint::LaunchApart,
            Self::TooLong { .. } => CompileHint::CompileLess,
            Self::Folder { .. } => CompileHint::OtherFolder,
            Self::NoNvrtc { .. } => CompileHint::InstallNvrtc,
            Self::Image { .. } => CompileHint::GiveImage,
            Self::Architecture { hint, .. } => *hint,
            Self::Unresolved { .. } => CompileHint::UseNvrtc,
            Self::NvrtcSimulated => CompileHint::LeaveCompiler,
            Self::Option { .. }
            | Self::Source { .. }
            | Self::Crashed { .. }
            | Self::Name { .. }
            | Self::Load { .. }
            | Self::Instance { .. }
            | Self::UnknownKernel { .. } => return None,
        })
    }
}
