//! What to compile, and with which compiler.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use crate::compiler::toolkit::Toolkit;
use crate::signature::ParameterNames;

/// Which compiler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// clang for the simulated GPU. For a real one NVRTC if it can be loaded, else clang.
    #[default]
    Auto,
    /// NVRTC.
    Nvrtc,
    /// clang, with gpulend's headers.
    Clang,
}

/// A source, and how to compile it.
#[derive(Clone, Debug, Default)]
pub struct Recipe {
    /// The text, in CUDA C++.
    pub text: String,
    /// Its name in diagnostics and line information. The file need not exist.
    pub file: String,
    /// Options as nvcc, NVRTC or clang spell them.
    pub options: Vec<String>,
    /// Names and texts of headers that it may include.
    pub headers: Vec<(String, String)>,
    /// Kernels that must exist, usually template instances: `scale<float>`.
    pub names: Vec<String>,
    /// Which compiler.
    pub choice: Choice,
    /// The program of the Python package ziglang, if installed.
    pub ziglang: Option<PathBuf>,
    /// Folders with NVRTC and its headers, besides the loader's. clang does not use them.
    pub toolkit: Toolkit,
}

impl Recipe {
    /// A recipe with this text and defaults.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self { text: text.to_owned(), file: "kernel.cu".to_owned(), ..Self::default() }
    }

    /// The texts of the headers, then that of the source.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.headers.iter().map(|(_, text)| text.as_str()).chain([self.text.as_str()])
    }

    /// What the `#include` lines of a source and its headers name; none for a macro.
    pub(super) fn included(&self) -> impl Iterator<Item = Option<&str>> {
        self.texts().flat_map(included)
    }

    /// Whether a compiler may read files of the caller that are neither part of this nor in a folder of headers.
    pub(super) fn reads_other_files(&self) -> bool {
        let is_path =
            |name: &str| name.starts_with('/') || name.split('/').any(|part| part == "..");
        self.included().any(|name| name.is_none_or(is_path))
    }

    /// The names of parameters in a source and its headers.
    pub(super) fn parameter_names(&self) -> ParameterNames {
        let mut names = ParameterNames::default();
        names.add(&self.text);
        self.headers.iter().for_each(|(_, text)| names.add(text));
        names
    }

    /// Whether a name can be an instance of one of the source's templates: the source contains the template's
    /// name.
    #[must_use]
    pub fn may_have(&self, name: &str) -> bool {
        let word = |letter: char| letter.is_alphanumeric() || letter == '_';
        let Some((template, _)) = name.split_once('<') else { return false };
        let template = template.trim().rsplit("::").next().unwrap_or(template);
        let says = |text: &str| text.split(|letter| !word(letter)).any(|found| found == template);
        self.texts().any(says) || !self.options.is_empty()
    }
}

/// What the `#include` lines of a text name; none for a macro.
fn included(text: &str) -> impl Iterator<Item = Option<&str>> {
    text.lines().filter_map(|line| {
        let rest = line.trim_start().strip_prefix('#')?.trim_start();
        let rest = ["include_next", "include", "import", "embed"]
            .iter()
            .find_map(|word| rest.strip_prefix(word))?;
        let quoted = rest.trim_start().strip_prefix(['<', '"']);
        Some(quoted.and_then(|rest| rest.split(['>', '"']).next()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn includes_are_read_from_their_lines() {
        let text = "#include <a.h>\n  # include \"b/c.h\" // x\n// #include <no.h>\n#include MACRO\n#define X\n";
        assert_eq!(included(text).collect::<Vec<_>>(), [Some("a.h"), Some("b/c.h"), None]);
    }

    #[test]
    fn files_outside_of_the_recipe_are_seen() {
        let reads = |text: &str| Recipe::new(text).reads_other_files();
        assert!(!reads("#include <cuda_fp16.h>\n#include \"a/b.h\"\n"));
        for line in ["#include \"/tmp/a.h\"", "#include \"../a.h\"", "#include NAME", "#embed </a>"]
        {
            assert!(reads(&format!("{line}\nint x;\n")), "{line}");
        }
    }
}
