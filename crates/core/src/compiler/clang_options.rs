//! Translates options for clang.
#![forbid(unsafe_code)]

use crate::compiler::options::{Given, What};
use crate::error::CompileError;

/// The translated options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wishes {
    /// Flags for clang, in order.
    pub(super) flags: Vec<String>,
    /// Macros, as lines of source. As flags they would also affect gpulend's headers.
    pub(super) macros: String,
    /// Whether clang reads files that are not part of the recipe.
    pub(super) reads_folders: bool,
    /// Whether functions without a keyword are also device functions.
    pub(super) device_by_default: bool,
}

/// Options without a value that have no effect here: there is one target, line information is always kept,
/// and there are no registers and no host compiler.
const IGNORED: [&str; 20] = [
    "G",
    "device-debug",
    "dopt",
    "dlto",
    "dw",
    "expt-extended-lambda",
    "expt-relaxed-constexpr",
    "extended-lambda",
    "extra-device-vectorization",
    "fmad=true",
    "ftz=false",
    "g",
    "generate-line-info",
    "lineinfo",
    "m64",
    "prec-div=true",
    "prec-sqrt=true",
    "rdc=false",
    "relocatable-device-code=false",
    "split-compile=0",
];

const UNKNOWN: &str = "this option is not known; docs/compiler.md lists those that are";
const STANDARDS: &str =
    "known are c++03 to c++23, and what is older than c++17 is compiled as c++17";

/// Approximate functions, flushed denormals. Infinities and NaNs keep their meaning, as with nvcc.
const FAST_MATH: [&str; 4] = [
    "-ffast-math",
    "-fno-finite-math-only",
    "-fcuda-flush-denormals-to-zero",
    "-D__GPULEND_FAST_MATH",
];

/// Translates `options`.
pub(super) fn translate(options: &[Given<'_>]) -> Result<Wishes, CompileError> {
    let mut wishes = Wishes::default();
    for given in options {
        match &given.what {
            What::Define(value) => {
                let line = one_line(given, value)?;
                let (name, value) = line.split_once('=').unwrap_or((line, "1"));
                wishes.macros += &format!("#define {name} {value}\n");
            }
            What::Undefine(name) => {
                wishes.macros += &format!("#undef {}\n", one_line(given, name)?);
            }
            What::Folder(folder) => {
                wishes.reads_folders = true;
                let folder = folder.to_string_lossy();
                wishes.flags.push(format!("-I{}", one_line(given, &folder)?));
            }
            What::Valued("x", _) => return Err(given.refuse(UNKNOWN)),
            // Without effect, for the same reasons as `IGNORED`.
            What::Valued(..) => {}
            What::Plain(name) => plain(given, name, &mut wishes)?,
        }
    }
    Ok(wishes)
}

/// The value, if it is on one line: it becomes a line of source.
fn one_line<'a>(given: &Given<'_>, value: &'a str) -> Result<&'a str, CompileError> {
    if value.chars().any(char::is_control) {
        return Err(given.refuse("it has a control character"));
    }
    Ok(value)
}

/// An option without a value of its own.
fn plain(given: &Given<'_>, name: &str, wishes: &mut Wishes) -> Result<(), CompileError> {
    let option = given.option();
    if IGNORED.contains(&name) || name.starts_with("diag_suppress") {
        return Ok(());
    }
    if let Some(standard) = name.strip_prefix("std=") {
        let known = known_standard(standard).ok_or_else(|| given.refuse(STANDARDS))?;
        wishes.flags.push(format!("-std={known}"));
        return Ok(());
    }
    if let Some(level) = name.strip_prefix('O').filter(|_| given.is_short()) {
        if !matches!(level, "" | "0" | "1" | "2" | "3" | "s" | "z") {
            return Err(given.refuse("known are -O0 to -O3"));
        }
        wishes.flags.push(option.to_owned());
        return Ok(());
    }
    match name {
        "w" | "disable-warnings" => wishes.flags.push("-w".to_owned()),
        "use_fast_math" | "ffast-math" => wishes.flags.extend(FAST_MATH.map(str::to_owned)),
        "ftz=true" => wishes.flags.push("-fcuda-flush-denormals-to-zero".to_owned()),
        // A correctly rounded result is a valid approximation.
        "prec-div=false" | "prec-sqrt=false" => {}
        "fmad=false" | "ffp-contract=off" => wishes.flags.push("-ffp-contract=off".to_owned()),
        "ffp-contract=fast" | "ffp-contract=on" => wishes.flags.push(option.to_owned()),
        "device-as-default-execution-space" | "default-device" => wishes.device_by_default = true,
        _ if is_warning(option) => wishes.flags.push(option.to_owned()),
        _ => return Err(given.refuse(UNKNOWN)),
    }
    Ok(())
}

/// The language standard for clang. The headers need C++17.
fn known_standard(name: &str) -> Option<&str> {
    match name {
        "c++03" | "c++11" | "c++14" | "c++17" => Some("c++17"),
        "c++20" => Some("c++20"),
        // The name that older clangs also know.
        "c++23" => Some("c++2b"),
        _ => None,
    }
}

/// `-Wall`, but not `-Wl,`, `-Wp,` and `-Wa,`, which are for other programs.
fn is_warning(option: &str) -> bool {
    option.strip_prefix("-W").is_some_and(|name| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-+=".contains(c))
    })
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

    fn flags(options: &[&str]) -> Result<Vec<String>, CompileError> {
        wishes(options).map(|wishes| wishes.flags)
    }

    #[test]
    fn options_of_nvcc_are_said_to_clang() {
        let wishes = wishes(&["-DA=1", "-D", "B", "--define-macro=C(x)=x=1", "-UD"]).unwrap();
        assert_eq!(wishes.macros, "#define A 1\n#define B 1\n#define C(x) x=1\n#undef D\n");
        let folders = flags(&["-I", "x", "-I/y", "--include-path=z"]).unwrap();
        assert_eq!(folders, ["-I/here/x", "-I/y", "-I/here/z"]);
        assert_eq!(flags(&["--std=c++14", "-std=c++20"]).unwrap(), ["-std=c++17", "-std=c++20"]);
        assert_eq!(flags(&["--fmad=false"]).unwrap(), ["-ffp-contract=off"]);
        assert_eq!(flags(&["-use_fast_math"]).unwrap(), FAST_MATH);
        assert_eq!(
            flags(&["-Wall", "-Wno-unused", "-O1", "-w"]).unwrap(),
            ["-Wall", "-Wno-unused", "-O1", "-w"]
        );
    }

    #[test]
    fn options_that_mean_nothing_here_are_left_out_with_their_values() {
        let given = [
            "-arch",
            "sm_80",
            "-gencode=arch=x",
            "-lineinfo",
            "-G",
            "-Xptxas",
            "-v",
            "--maxrregcount=32",
        ];
        assert_eq!(flags(&given).unwrap(), [""; 0]);
    }

    #[test]
    fn an_unknown_option_is_refused_by_name() {
        for wrong in [
            "-fplugin=x.so",
            "-Wl,-x",
            "-Wp,-x",
            "-o",
            "kernel.cu",
            "-",
            "-std=c++99",
            "-O9",
            "--D",
            "-DA=\n1",
            "-rdc=true",
        ] {
            let error = flags(&[wrong]).unwrap_err();
            assert!(error.to_string().contains(&format!("{wrong:?}")), "{error}");
        }
        assert!(flags(&["-D"]).is_err());
        assert!(flags(&["-arch"]).is_err());
    }
}
