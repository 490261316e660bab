//! The compiler as plain values; `gpulend.compiler` names them.

use std::path::PathBuf;

use gpulend::Diagnostic;
use gpulend::compiler::{self, Compiler, Recipe, Toolkit};
use gpulend::signature;
use pyo3::prelude::*;

use crate::errors::raise;

/// File, line, column, severity and text.
pub(crate) type Remark = (String, u32, u32, &'static str, String);

pub(crate) fn remark(said: &Diagnostic) -> Remark {
    (said.file.to_string(), said.line, said.column, said.severity.name(), said.text.to_string())
}

/// Compiles a source: its PTX, warnings about the caller's files, and whether it was compiled before.
#[pyfunction]
#[pyo3(signature = (text, file, options, headers, ziglang, /))]
pub(crate) fn compile_ptx(
    py: Python<'_>,
    text: String,
    file: String,
    options: Vec<String>,
    headers: Vec<(String, String)>,
    ziglang: Option<PathBuf>,
) -> PyResult<(String, Vec<Remark>, bool)> {
    let recipe = Recipe { text, file, options, headers, ziglang, ..Recipe::default() };
    let compile = || Compiler::find(recipe.ziglang.as_deref())?.compile(&recipe);
    let ptx = py.detach(compile).map_err(|error: gpulend::CompileError| raise(error))?;
    Ok((ptx.text, ptx.warnings.iter().map(remark).collect(), ptx.cached))
}

/// The compiler that is used now: its program, and what identifies it.
#[pyfunction]
#[pyo3(signature = (ziglang, /))]
pub(crate) fn describe_compiler(
    py: Python<'_>,
    ziglang: Option<PathBuf>,
) -> PyResult<(PathBuf, String)> {
    let found = py.detach(|| Compiler::find(ziglang.as_deref())).map_err(raise)?;
    Ok((found.program().to_owned(), found.identity().to_owned()))
}

/// The NVRTC that is used now, found as a compilation finds it: what was loaded, and its version.
#[pyfunction]
#[pyo3(signature = (folders, /))]
pub(crate) fn describe_nvrtc(
    py: Python<'_>,
    folders: Vec<PathBuf>,
) -> PyResult<(PathBuf, (i32, i32))> {
    let (path, version) = py.detach(|| compiler::describe_nvrtc(&folders)).map_err(raise)?;
    Ok((path.to_owned(), version))
}

/// Whether a text is loaded and not compiled: PTX, by its first words.
#[pyfunction]
#[pyo3(signature = (text, /))]
pub(crate) fn is_image(text: &str) -> bool {
    compiler::is_image(text.as_bytes())
}

/// Whether the next word belongs to an option.
#[pyfunction]
#[pyo3(signature = (option, /))]
pub(crate) fn takes_next_word(option: &str) -> bool {
    compiler::takes_next_word(option)
}

/// clang's PTX with the release that has all of its instructions.
#[pyfunction]
#[pyo3(signature = (ptx, /))]
pub(crate) fn with_release(ptx: String) -> String {
    compiler::with_release(ptx)
}

/// A mangled name as C++ writes it; nothing if it is none.
#[pyfunction]
#[pyo3(signature = (name, /))]
pub(crate) fn demangled(name: &str) -> Option<String> {
    signature::demangled(name)
}

/// The name and text of each header that a whole program finds besides the system's.
#[pyfunction]
pub(crate) fn program_headers() -> Vec<(&'static str, String)> {
    compiler::program_headers()
}

/// Where NVRTC and CUDA's headers may lie: below an installed CUDA, then below `roots`.
#[pyfunction]
#[pyo3(signature = (roots, /))]
pub(crate) fn toolkit_folders(roots: Vec<PathBuf>) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let Toolkit { libraries, headers } = Toolkit::find(&roots);
    (libraries, headers)
}

/// A folder in the user's cache, made if need be; nothing if others could write to it, or there is none.
#[pyfunction]
#[pyo3(signature = (name, /))]
pub(crate) fn cache_folder(name: &str) -> Option<PathBuf> {
    compiler::cache_folder(name)?.ok()
}
