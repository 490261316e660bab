//! Options as people give them to nvcc, NVRTC or clang, as NVRTC takes them. What it does not know it refuses itself.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use crate::error::CompileError;

/// What the options ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wishes {
    /// For NVRTC, in order.
    pub(super) flags: Vec<String>,
    /// Folders of the caller's, whose files may change unseen.
    pub(super) folders: Vec<PathBuf>,
    /// Of the target, what follows its number: the `a` of `sm_90a`.
    pub(super) targets: Vec<String>,
}

/// Options with a value of which NVRTC knows nothing, and that say nothing to it.
const IGNORED_WITH_VALUE: [&str; 6] =
    ["x", "code", "gpu-code", "compiler-bindir", "compiler-options", "Xcompiler"];
/// Options that name a target: the device is known.
const TARGETS: [&str; 4] = ["arch", "gpu-architecture", "generate-code", "gencode"];
/// Options without a value that say nothing to it.
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

/// What `options` ask for; folders are taken from `here`.
pub(super) fn translate(options: &[String], here: &Path) -> Result<Wishes, CompileError> {
    let mut wishes = Wishes::default();
    let mut rest = options.iter();
    while let Some(option) = rest.next() {
        let refuse = |reason| CompileError::Option { option: option.as_str().into(), reason };
        let Some(name) = option.strip_prefix('-').filter(|name| !name.is_empty()) else {
            return Err(refuse("options begin with a dash; the source is given apart"));
        };
        if option.contains('\0') {
            return Err(refuse("it has a control character"));
        }
        let name = name.strip_prefix('-').unwrap_or(name);
        let (bare, given) = match name.split_once('=') {
            Some((bare, given)) => (bare, Some(given)),
            None => (name, None),
        };
        let mut value = || match given {
            Some(given) => Ok(given),
            None => rest.next().map(String::as_str).ok_or_else(|| refuse("a value must follow")),
        };
        let single = !option.starts_with("--");
        if TARGETS.contains(&bare) {
            wishes.targets.push(value()?.to_owned());
        } else if IGNORED_WITH_VALUE.contains(&bare) {
            value()?;
        } else if bare == "include-path" {
            wishes.folders.push(here.join(value()?));
        } else if bare == "define-macro" || bare == "undefine-macro" {
            let letter = if bare.starts_with('d') { 'D' } else { 'U' };
            wishes.flags.push(format!("-{letter}{}", value()?));
        } else if let Some(letter) = name.chars().next().filter(|c| single && "DUI".contains(*c)) {
            let after = &name[1..];
            let given = match after {
                "" => rest.next().ok_or_else(|| refuse("a value must follow"))?,
                after => after,
            };
            match letter {
                'I' => wishes.folders.push(here.join(given)),
                letter => wishes.flags.push(format!("-{letter}{given}")),
            }
        } else if IGNORED.contains(&name)
            || (single && (name.starts_with('O') || name.starts_with('W')))
        {
            // It optimises as it does, and its warnings have numbers.
        } else if matches!(name, "rdc=true" | "relocatable-device-code=true") {
            return Err(refuse("code that is still to be linked cannot be loaded"));
        } else {
            wishes.flags.push(match name {
                "ffast-math" => "--use_fast_math".to_owned(),
                "ffp-contract=off" => "--fmad=false".to_owned(),
                _ => option.clone(),
            });
        }
    }
    if !wishes.flags.iter().any(|flag| flag.trim_start_matches('-').starts_with("std=")) {
        wishes.flags.push("--std=c++17".to_owned());
    }
    Ok(wishes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wishes(options: &[&str]) -> Result<Wishes, CompileError> {
        let options: Vec<_> = options.iter().map(|option| (*option).to_owned()).collect();
        translate(&options, Path::new("/here"))
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
