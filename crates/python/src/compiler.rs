//! The compiler as plain values; `gpulend.compiler` names them.

use std::path::PathBuf;

use gpulend::Diagnostic;
use gpulend::compiler::{self, Compiler, Source};
use pyo3::prelude::*;

use crate::errors::raise;

/// File, line, column, severity and text.
pub(crate) type Remark = (String, u32, u32, &'static str, String);

pub(crate) fn remark(said: &Diagnostic) -> Remark {
    (said.file.to_string(), said.line, said.column, said.severity.name(), said.text.to_string())
}

/// Compiles a source: its PTX, warnings about the caller's files, and whether it was compiled before.
#[pyfunction]
#[pyo3(signature = (source, file, options, headers, ziglang, /))]
pub(crate) fn compile_ptx(
    py: Python<'_>,
    source: &str,
    file: &str,
    options: Vec<String>,
    headers: Vec<(String, String)>,
    ziglang: Option<PathBuf>,
) -> PyResult<(String, Vec<Remark>, bool)> {
    let compile = || {
        let source = Source { text: source, file, options: &options, headers: &headers };
        Compiler::find(ziglang.as_deref())?.compile(&source)
    };
    let ptx = py.detach(compile).map_err(|error: gpulend::CompileError| raise(error))?;
    Ok((ptx.text, ptx.warnings.iter().map(remark).collect(), ptx.cached))
}

/// The compiler that is used now: its program, and what tells it from any other.
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
