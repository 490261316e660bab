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
         host code out, load the PTX with cuModuleLoadData of the CUDA driver, and launch it with cuLaunchKernel\n{report}"
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
    /// The folder in which a source is compiled.
    #[error("cannot compile in {folder}: {reason}; TMPDIR names another folder")]
    Folder {
        /// Where.
        folder: Box<str>,
        /// Why not.
        reason: Box<str>,
    },
}

impl CompileError {
    /// What the compiler said about the source, in parts.
    #[must_use]
    pub fn diagnostics(&self) -> &[Diagnostic] {
        match self {
            Self::Source { diagnostics, .. } | Self::Launch { diagnostics, .. } => diagnostics,
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
        }
    }
}
