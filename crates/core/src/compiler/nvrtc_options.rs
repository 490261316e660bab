//! Translates options for NVRTC. It refuses unknown ones itself.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use crate::compiler::options::{Given, What};
use crate::error::CompileError;

/// The translated options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wishes {
    /// Flags for NVRTC, in order.
    pub(super) flags: Vec<String>,
    /// The caller's include folders. Their files may change without notice.
    pub(super) folders: Vec<PathBuf>,
    /// What follows the number of a target: the `a` of `sm_90a`.
    pub(super) targets: Vec<String>,
}

/// Options with a value that NVRTC does not have and does not need.
const IGNORED_WITH_VALUE: [&str; 6] =
    ["x", "code", "gpu-code", "compiler-bindir", "compiler-options", "Xcompiler"];
/// Options that name a target. They are ignored, because the device is known.
const TARGETS: [&str; 4] = ["arch", "gpu-architecture", "generate-code", "gencode"];
/// Options without a value that NVRTC does not have and does not need.
const IGNORED: [&str; 10] = [
    "expt-extended-lambda",
    "expt-relaxed-constexpr",
    "m64",
    "g",
    "dlto",
    "rdc=false",
    "relocatable-device-code=false",
    "ffp-contract=fast",
    "ffp-contract=on",
    "cuda",
];

/// Translates `options`.
pub(super) fn translate(options: &[Given<'_>]) -> Result<Wishes, CompileError> {
    let mut wishes = Wishes::default();
    for given in options {
        match &given.what {
            What::Define(value) => wishes.flags.push(format!("-D{value}")),
            What::Undefine(name) => wishes.flags.push(format!("-U{name}")),
            What::Folder(folder) => wishes.folders.push(folder.clone()),
            What::Valued(name, value) if TARGETS.contains(name) => {
                wishes.targets.push((*value).to_owned());
            }
            What::Valued(name, _) if IGNORED_WITH_VALUE.contains(name) => {}
            What::Valued(..) => wishes.flags.extend_from_slice(given.words),
            What::Plain(name) if is_ignored(given, name) => {}
            What::Plain("rdc=true" | "relocatable-device-code=true") => {
                return Err(given.refuse("code that is still to be linked cannot be loaded"));
            }
            What::Plain("ffast-math") => wishes.flags.push("--use_fast_math".to_owned()),
            What::Plain("ffp-contract=off") => wishes.flags.push("--fmad=false".to_owned()),
            What::Plain(_) => wishes.flags.extend_from_slice(given.words),
        }
    }
    if !wishes.flags.iter().any(|flag| flag.trim_start_matches('-').starts_with("std=")) {
        wishes.flags.push("--std=c++17".to_owned());
    }
    Ok(wishes)
}

/// Whether an option without a value is ignored: NVRTC has no optimisation levels, and names warnings by
/// number.
fn is_ignored(given: &Given<'_>, name: &str) -> bool {
    IGNORED.contains(&name) || (given.is_short() && name.starts_with(['O', 'W']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compiler::options;
    use std::path::Path;

    fn wishes(options: &[&str]) -> Result<Wishes, CompileError> {
        let options: Vec<_> = options.iter().map(|option| (*option).to_owned()).collect();
        translate(&options::read(&options, Path::new("/here"))?)
    }

    #[test]
    fn options_of_clang_and_nvcc_are_said_to_nvrtc() {
        let given = [
            "-DA=1",
            "-D",
            "B",
            "--define-macro=C=2",
            "-UD",
            "-ffast-math",
            "--fmad=false",
            "-std=c++20",
        ];
        let wanted =
            ["-DA=1", "-DB", "-DC=2", "-UD", "--use_fast_math", "--fmad=false", "-std=c++20"];
        assert_eq!(wishes(&given).unwrap().flags, wanted);
        let folders = wishes(&["-I", "x", "-I/y", "--include-path=z", "--include-path", "w"])
            .unwrap()
            .folders;
        assert_eq!(folders, ["/here/x", "/y", "/here/z", "/here/w"].map(PathBuf::from));
        let nothing = wishes(&[
            "-O3",
            "-x",
            "cu",
            "-Wall",
            "-arch",
            "sm_90a",
            "--gpu-architecture=compute_80",
            "-Xcompiler",
            "-fPIC",
        ]);
        let nothing = nothing.unwrap();
        assert_eq!(nothing.flags, ["--std=c++17"]);
        assert_eq!(nothing.targets, ["sm_90a", "compute_80"]);
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        for wrong in ["kernel.cu", "-", "-rdc=true", "-DA\0", "-D", "-arch"] {
            let error = wishes(&[wrong]).unwrap_err().to_string();
            assert!(error.contains(&format!("{wrong:?}")), "{error}");
        }
    }
}
