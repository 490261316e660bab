//! What is to be compiled, and by what.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use crate::compiler::toolkit::Toolkit;
use crate::signature::ParameterNames;

/// Which compiler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// clang for the simulated GPU; for a real one NVRTC if it can be loaded, and clang if not.
    #[default]
    Auto,
    /// NVIDIA's.
    Nvrtc,
    /// clang, with headers of our own.
    Clang,
}

/// A source, and how it is to be compiled.
#[derive(Clone, Debug, Default)]
pub struct Recipe {
    /// The text, in CUDA C++.
    pub text: String,
    /// What diagnostics and the lines of the PTX call it; it need not exist.
    pub file: String,
    /// Options as nvcc, NVRTC or clang spell them.
    pub options: Vec<String>,
    /// Names and texts of files that it may include.
    pub headers: Vec<(String, String)>,
    /// Kernels that must be there, above all instances of templates: `scale<float>`.
    pub names: Vec<String>,
    /// Which compiler.
    pub choice: Choice,
    /// The program of the Python package ziglang, if there is one.
    pub ziglang: Option<PathBuf>,
    /// Where NVRTC and its headers may lie, besides where the loader looks. clang has its own.
    pub toolkit: Toolkit,
}

impl Recipe {
    /// A text on its own.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self { text: text.to_owned(), file: "kernel.cu".to_owned(), ..Self::default() }
    }

    /// The texts of the headers, then that of the source.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.headers.iter().map(|(_, text)| text.as_str()).chain([self.text.as_str()])
    }

    /// The names of parameters in a source and its headers.
    pub(super) fn parameter_names(&self) -> ParameterNames {
        let mut names = ParameterNames::default();
        names.add(&self.text);
        self.headers.iter().for_each(|(_, text)| names.add(text));
        names
    }

    /// Whether a name can be an instance of a template of the source: it says the template's name somewhere.
    #[must_use]
    pub fn may_have(&self, name: &str) -> bool {
        let word = |letter: char| letter.is_alphanumeric() || letter == '_';
        let Some((template, _)) = name.split_once('<') else { return false };
        let template = template.trim().rsplit("::").next().unwrap_or(template);
        let says = |text: &str| text.split(|letter| !word(letter)).any(|found| found == template);
        self.texts().any(says) || !self.options.is_empty()
    }
}
