//! Finds a compiler: from the environment, ziglang's, or a clang on PATH.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::compiler::folder::Folder;
use crate::compiler::process;
use crate::error::CompileError;
use crate::fork::ProcessLock;

const VARIABLE: &str = "GPULEND_CLANG";
/// The path of ziglang's program, for programs without Python. `gpulend run` sets it.
const ZIGLANG: &str = "GPULEND_ZIGLANG";
const OLDEST: u32 = 14;
const NEWEST: u32 = 22;
const LIMIT: Duration = Duration::from_secs(30);
/// A minimal source that only a compiler with the NVPTX target compiles.
const PROBE: &str =
    "__attribute__((global)) void probe(unsigned *p) { *p = __nvvm_read_ptx_sreg_tid_x(); }\n";

/// A program that compiles CUDA C.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiler {
    program: PathBuf,
    /// Whether it is zig, which runs clang as a subcommand.
    zig: bool,
    version: u32,
    identity: String,
}

/// Compilers by path, size and modification time.
type Probed = BTreeMap<(PathBuf, u64, i64), Result<Compiler, CompileError>>;

/// The compilers that were tried, with the result.
static PROBED: ProcessLock<Probed> = ProcessLock::new(BTreeMap::new());

impl Compiler {
    /// The compiler to use: that of `GPULEND_CLANG`, else `ziglang` if it exists, else that of
    /// `GPULEND_ZIGLANG`, else the first on PATH of `clang`, `clang-22` and so on down to `clang-14` that
    /// works.
    ///
    /// # Errors
    ///
    /// If there is none, or that of `GPULEND_CLANG` does not work.
    pub fn find(ziglang: Option<&Path>) -> Result<Self, CompileError> {
        if let Some(given) = env::var_os(VARIABLE).filter(|given| !given.is_empty()) {
            return Self::probed(Path::new(&given));
        }
        let passed_on = env::var_os(ZIGLANG).map(PathBuf::from);
        let mut known = [ziglang, passed_on.as_deref()].into_iter().flatten();
        if let Some(found) = known.find(|path| path.is_file()) {
            return Self::probed(found);
        }
        let path = env::var_os("PATH").unwrap_or_default();
        let names = (OLDEST..=NEWEST).rev().map(|version| format!("clang-{version}"));
        for name in std::iter::once("clang".to_owned()).chain(names) {
            for folder in env::split_paths(&path).filter(|folder| folder.is_absolute()) {
                let program = folder.join(&name);
                if program.is_file()
                    && let Ok(found) = Self::probed(&program)
                {
                    return Ok(found);
                }
            }
        }
        Err(CompileError::NoCompiler)
    }

    /// The program.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Its major clang version.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Identifies this compiler: path, size, modification time and version line.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// A command for it, without arguments.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        if self.zig {
            command.arg("clang");
        }
        command
    }

    /// Arguments that compile CUDA C to PTX in any version without NVIDIA's files.
    pub(super) fn target(&self) -> Vec<&'static str> {
        let mut flags = vec![
            "-x",
            "cuda",
            "--cuda-device-only",
            "--cuda-gpu-arch=sm_75",
            "-nocudainc",
            "-nocudalib",
            "-nostdinc",
            "-S",
        ];
        // Otherwise these versions emit a PTX version older than the target requires.
        if self.version >= 16 {
            flags.push("--cuda-feature=+ptx63");
        } else {
            flags.extend(["-Xclang", "-target-feature", "-Xclang", "+ptx63"]);
        }
        flags
    }

    /// Checks that `program` works. Each file is tried once per process.
    fn probed(program: &Path) -> Result<Self, CompileError> {
        let refuse = |reason: String| CompileError::BadCompiler {
            program: program.to_string_lossy().into(),
            reason: reason.trim_end().into(),
        };
        let path = fs::canonicalize(program).map_err(|error| refuse(error.to_string()))?;
        let about = fs::metadata(&path).map_err(|error| refuse(error.to_string()))?;
        let key = (path.clone(), about.size(), about.mtime());
        let known = PROBED.lock().get(&key).cloned();
        if let Some(known) = known {
            return known;
        }
        // No lock while a compiler runs. Two threads may both try it and get the same result.
        let found = Self::probe(&path, &about).map_err(refuse);
        PROBED.lock().insert(key, found.clone());
        found
    }

    fn probe(path: &Path, about: &fs::Metadata) -> Result<Self, String> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let zig = name.starts_with("zig");
        let mut found = Self { program: path.to_owned(), zig, version: 0, identity: String::new() };
        let folder = Folder::new().map_err(|error| error.to_string())?;
        let run = |command: &mut Command| {
            let done =
                process::run(command, folder.path(), LIMIT).map_err(|error| error.to_string())?;
            let done = done.ok_or("it does not end")?;
            if done.status.success() {
                Ok(done.output)
            } else {
                Err(done.ending() + ": " + &done.report)
            }
        };
        let output = run(found.command().arg("--version"))?;
        let line = output.lines().find(|line| line.contains("clang version ")).unwrap_or_default();
        let number = line.split("clang version ").nth(1).unwrap_or_default();
        found.version = number.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0);
        if found.version < OLDEST {
            let first = output.lines().next().unwrap_or_default();
            return Err(format!("it says {first:?}, and clang {OLDEST} or newer is needed"));
        }
        folder.write("probe.cu", PROBE).map_err(|error| error.to_string())?;
        let ptx = run(found.command().args(found.target()).args(["probe.cu", "-o", "-"]))?;
        if !ptx.contains(".target sm_75") {
            return Err("what it wrote is not PTX".to_owned());
        }
        found.identity = format!(
            "{} {} {}.{} {line}",
            path.display(),
            about.size(),
            about.mtime(),
            about.mtime_nsec()
        );
        Ok(found)
    }
}
