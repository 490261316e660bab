//! Runs clang on a source with gpulend's headers, to get PTX.
#![forbid(unsafe_code)]

use std::env;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use crate::compiler::cache::{Cache, Entry, Key, find_or_make};
use crate::compiler::clang_options::Wishes;
use crate::compiler::find::Compiler;
use crate::compiler::folder::Folder;
use crate::compiler::headers::{HEADERS, IN_PRELUDE, OURS, SAME_AS};
use crate::compiler::recipe::Recipe;
use crate::compiler::release::with_release;
use crate::compiler::{clang_options, diagnostics, options, process};
use crate::error::{CompileError, Diagnostic, Severity};

const LIMIT: Duration = Duration::from_secs(120);

/// Flags for every source. C library mathematics stay calls by name, which the simulated GPU implements. With
/// builtins, clang would turn them into instructions that no GPU has.
const FLAGS: [&str; 15] = [
    "-O3",
    "-std=c++17",
    "-gline-tables-only",
    "-fdebug-compilation-dir=.",
    "-ffp-contract=fast",
    "-fno-builtin",
    "-fno-math-errno",
    "-fno-exceptions",
    "-fno-crash-diagnostics",
    "-fno-color-diagnostics",
    "-Wno-unused-command-line-argument",
    "-Iuser",
    "-isystem",
    OURS,
    "-Wno-unknown-cuda-version",
];

/// A compiled source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ptx {
    /// The PTX.
    pub text: String,
    /// Warnings about the caller's own files, with their notes.
    pub warnings: Vec<Diagnostic>,
    /// Whether it came from the cache.
    pub cached: bool,
}

impl Compiler {
    /// Compiles a recipe's text with its options and headers, or takes it from the cache. The rest of the
    /// recipe is for [`compile`](crate::compiler::compile).
    ///
    /// # Errors
    ///
    /// If the source does not compile, launches kernels itself, has unknown options or names, or if the
    /// compiler crashes or takes more than two minutes.
    pub fn compile(&self, recipe: &Recipe) -> Result<Ptx, CompileError> {
        self.compile_with(recipe, "", &[])
    }

    /// The same with text appended to the source, and more flags.
    pub(super) fn compile_with(
        &self,
        recipe: &Recipe,
        tail: &str,
        flags: &[&str],
    ) -> Result<Ptx, CompileError> {
        let here = env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        let mut wishes = clang_options::translate(&options::read(&recipe.options, &here)?)?;
        wishes.flags.extend(flags.iter().map(|&flag| flag.to_owned()));
        let mut text = head(recipe, &wishes) + &numbered(&recipe.file, &recipe.text)?;
        // A newline first: the source may end in a backslash.
        if !tail.is_empty() {
            text = text + "\n#pragma clang diagnostic ignored \"-Weverything\"\n" + tail;
        }
        let mut headers = Vec::new();
        for (name, text) in &recipe.headers {
            headers.push((header_path(name)?, numbered(name, text)?));
        }
        // The caller's files may change without notice.
        let reads_files = wishes.reads_folders || recipe.reads_other_files();
        let cache = if reads_files { None } else { Cache::open() };
        let key = self.key(&wishes, &text, &headers);
        let make = || self.run(&recipe.file, &wishes, &text, &headers);
        let (entry, cached) = find_or_make(cache.as_ref(), &key, make)?;
        Ok(ptx(entry, cached))
    }

    fn key(&self, wishes: &Wishes, text: &str, headers: &[(String, String)]) -> String {
        let mut key = Key::new();
        key.add(env!("CARGO_PKG_VERSION"));
        key.add(self.identity());
        let flags = wishes.flags.iter().map(String::as_str);
        for flag in self.target().into_iter().chain(FLAGS).chain(flags) {
            key.add(flag);
        }
        key.add("");
        for (name, text) in HEADERS {
            key.add(name);
            key.add(text);
        }
        key.add("");
        for (name, text) in headers {
            key.add(name);
            key.add(text);
        }
        key.add("");
        key.add(text);
        key.name()
    }

    fn run(
        &self,
        file: &str,
        wishes: &Wishes,
        text: &str,
        headers: &[(String, String)],
    ) -> Result<Entry, CompileError> {
        let failed = |error: io::Error| CompileError::Folder {
            folder: env::temp_dir().to_string_lossy().into(),
            reason: error.to_string().into(),
        };
        let folder = Folder::new().map_err(failed)?;
        furnish(&folder, text, headers).map_err(failed)?;
        let mut command = self.command();
        command.args(self.target()).args(FLAGS).args(&wishes.flags).args(["source.cu", "-o", "-"]);
        let done = process::run(&mut command, folder.path(), LIMIT)
            .map_err(failed)?
            .ok_or(CompileError::TooLong { limit: LIMIT })?;
        let report = diagnostics::tidy(&done.report);
        if done.status.success() {
            return Ok(Entry { report, ptx: renamed(&done.output), ..Entry::default() });
        }
        let diagnostics = diagnostics::parse(&report);
        if !diagnostics.iter().any(|found| found.severity == Severity::Error) {
            let status = done.ending().into();
            return Err(CompileError::Crashed { file: file.into(), status, report: report.into() });
        }
        let launches = |found: &Diagnostic| {
            found.severity == Severity::Error && found.text.contains("cudaConfigureCall")
        };
        let (file, report) = (file.into(), report.into());
        if diagnostics.iter().any(launches) {
            return Err(CompileError::Launch { file, report, diagnostics });
        }
        Err(CompileError::Source { file, report, diagnostics })
    }
}

/// Writes the source, the caller's headers and gpulend's headers.
fn furnish(folder: &Folder, text: &str, headers: &[(String, String)]) -> io::Result<()> {
    folder.write("source.cu", text)?;
    for (name, text) in headers {
        folder.write(&format!("user/{name}"), text)?;
    }
    for (name, text) in HEADERS {
        folder.write(&format!("{OURS}/{name}"), text)?;
    }
    for name in IN_PRELUDE {
        folder.write(&format!("{OURS}/{name}"), "// The prelude has it.\n")?;
    }
    for (name, other) in SAME_AS {
        folder.write(&format!("{OURS}/{name}"), &format!("#include <{other}>\n"))?;
    }
    Ok(())
}

/// The text before the source: gpulend's headers, then the caller's macros, which must not affect those
/// headers.
fn head(recipe: &Recipe, wishes: &Wishes) -> String {
    const LATE: [&str; 3] = ["cuda_fp16.h", "cuda_bf16.h", "cooperative_groups.h"];
    let mut head = "#include <gpulend/prelude.h>\n".to_owned();
    // A source may define macros before it includes these.
    for name in LATE.into_iter().filter(|name| recipe.texts().any(|text| text.contains(name))) {
        head += &format!("#include <{name}>\n");
    }
    head += "#line 1 \"<options>\"\n";
    head += &wishes.macros;
    // After the macros: it depends on NDEBUG.
    head += "#include <assert.h>\n";
    if wishes.device_by_default {
        head += "#pragma clang force_cuda_host_device begin\n";
    }
    head
}

/// `text` after a line directive that names it `file`.
fn numbered(file: &str, text: &str) -> Result<String, CompileError> {
    let quoted = checked_file(file)?.replace('\\', "\\\\").replace('"', "\\\"");
    Ok(format!("#line 1 \"{quoted}\"\n{text}\n"))
}

/// A source's name, if it can appear in diagnostics.
pub(super) fn checked_file(file: &str) -> Result<&str, CompileError> {
    if file.is_empty() || file.chars().any(char::is_control) {
        return Err(CompileError::Name {
            name: file.into(),
            what: "a source",
            wanted: "it needs a character, and none that is a control character",
        });
    }
    Ok(file)
}

/// A header's path, if it stays inside the folder that it is written to.
pub(super) fn header_path(name: &str) -> Result<String, CompileError> {
    let inside = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    if name.is_empty() || name.ends_with('/') || !Path::new(name).components().all(inside) {
        return Err(CompileError::Name {
            name: name.into(),
            what: "a header",
            wanted: "give a relative path without `..`, as the source includes it",
        });
    }
    Ok(name.to_owned())
}

/// The PTX with the caller's file names: the compiler puts `./` before them.
fn renamed(ptx: &str) -> String {
    let lines = ptx.split_inclusive('\n').map(|line| {
        let file = line.trim_start().starts_with(".file");
        if file { line.replacen("\"./", "\"", 1) } else { line.to_owned() }
    });
    lines.collect()
}

fn ptx(entry: Entry, cached: bool) -> Ptx {
    let said = diagnostics::parse(&entry.report).into_iter();
    // gpulend's headers are system headers, so warnings concern only the caller's files.
    let warnings = said.filter(|found| !diagnostics::is_ours(&found.file)).collect();
    Ptx { text: with_release(entry.ptx), warnings, cached }
}
