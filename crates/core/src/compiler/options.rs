//! Options as people give them to nvcc, NVRTC or clang, as this compiler takes them.
#![forbid(unsafe_code)]

use std::path::Path;

use crate::error::CompileError;

/// What the options ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wishes {
    /// For clang, in order.
    pub(super) flags: Vec<String>,
    /// Macros, as lines of the source: before our headers they would change those.
    pub(super) macros: String,
    /// Whether files are read that are not part of the source.
    pub(super) reads_folders: bool,
    /// Whether functions without a keyword are the device's too.
    pub(super) device_by_default: bool,
}

/// Options that take a value, as `--name=value`, `-name value` or both, and mean nothing here: there is one
/// target, each line is known, and registers and host compilers do not exist.
const IGNORED_WITH_VALUE: [&str; 13] = [
    "arch",
    "code",
    "compiler-bindir",
    "compiler-options",
    "diag-suppress",
    "generate-code",
    "gencode",
    "gpu-architecture",
    "gpu-code",
    "maxrregcount",
    "ptxas-options",
    "Xcompiler",
    "Xptxas",
];

/// Options without a value that mean nothing here, for the same reasons.
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

/// Approximations by name, denormals as zero; infinities and NaNs stay, as nvcc has it.
const FAST_MATH: [&str; 4] = [
    "-ffast-math",
    "-fno-finite-math-only",
    "-fcuda-flush-denormals-to-zero",
    "-D__GPULEND_FAST_MATH",
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
        let name = name.strip_prefix('-').unwrap_or(name);
        let mut value = || rest.next().ok_or_else(|| refuse("a value must follow"));
        if let Some((letter, given)) = lettered(option, name) {
            let given = if given.is_empty() { value()?.as_str() } else { given };
            if given.chars().any(char::is_control) {
                return Err(refuse("it has a control character"));
            }
            match letter {
                'I' => {
                    wishes.reads_folders = true;
                    wishes.flags.push(format!("-I{}", here.join(given).to_string_lossy()));
                }
                'U' => wishes.macros += &format!("#undef {given}\n"),
                _ => {
                    let (name, value) = given.split_once('=').unwrap_or((given, "1"));
                    wishes.macros += &format!("#define {name} {value}\n");
                }
            }
        } else if IGNORED.contains(&name) || name.starts_with("diag_suppress") {
            continue;
        } else if let Some(ignored) = ignored_with_value(name) {
            if !ignored {
                value()?;
            }
        } else if let Some(standard) = name.strip_prefix("std=") {
            wishes.flags.push(format!("-std={}", known_standard(standard).ok_or_else(|| {
                refuse("known are c++03 to c++23, and what is older than c++17 is compiled as c++17")
            })?));
        } else if let Some(level) = name.strip_prefix('O').filter(|_| !option.starts_with("--")) {
            if !matches!(level, "" | "0" | "1" | "2" | "3" | "s" | "z") {
                return Err(refuse("known are -O0 to -O3"));
            }
            wishes.flags.push(option.clone());
        } else if is_warning(option) {
            wishes.flags.push(option.clone());
        } else {
            match name {
                "w" | "disable-warnings" => wishes.flags.push("-w".to_owned()),
                "use_fast_math" | "ffast-math" => {
                    wishes.flags.extend(FAST_MATH.map(str::to_owned));
                }
                "ftz=true" => wishes.flags.push("-fcuda-flush-denormals-to-zero".to_owned()),
                // Correctly rounded is allowed where an approximation is.
                "prec-div=false" | "prec-sqrt=false" => {}
                "fmad=false" | "ffp-contract=off" => {
                    wishes.flags.push("-ffp-contract=off".to_owned());
                }
                "ffp-contract=fast" | "ffp-contract=on" => wishes.flags.push(option.clone()),
                "device-as-default-execution-space" | "default-device" => {
                    wishes.device_by_default = true;
                }
                _ => {
                    return Err(refuse(
                        "this option is not known; docs/compiler.md lists those that are",
                    ));
                }
            }
        }
    }
    Ok(wishes)
}

/// `-DNAME`, `-D NAME`, `--define-macro=NAME`, and the like: the letter, and the value if it is there.
fn lettered<'a>(option: &str, name: &'a str) -> Option<(char, &'a str)> {
    const LONG: [(&str, char); 3] =
        [("define-macro", 'D'), ("undefine-macro", 'U'), ("include-path", 'I')];
    for (long, letter) in LONG {
        if let Some(rest) = name.strip_prefix(long) {
            return match rest.strip_prefix('=') {
                Some(value) => Some((letter, value)),
                None => rest.is_empty().then_some((letter, "")),
            };
        }
    }
    let letter = name.chars().next().filter(|letter| matches!(letter, 'D' | 'U' | 'I'))?;
    (!option.starts_with("--")).then(|| (letter, &name[1..]))
}

/// Whether `name` is ignored together with a value, and whether the value is in it.
fn ignored_with_value(name: &str) -> Option<bool> {
    let (bare, has_value) = match name.split_once('=') {
        Some((bare, _)) => (bare, true),
        None => (name, false),
    };
    IGNORED_WITH_VALUE.contains(&bare).then_some(has_value)
}

/// The standard that is compiled for: the headers need C++17.
fn known_standard(name: &str) -> Option<&str> {
    match name {
        "c++03" | "c++11" | "c++14" | "c++17" => Some("c++17"),
        "c++20" => Some("c++20"),
        // By the name that older clangs know too.
        "c++23" => Some("c++2b"),
        _ => None,
    }
}

/// `-Wall`, but not `-Wl,`, `-Wp,` and `-Wa,`, which speak to other programs.
fn is_warning(option: &str) -> bool {
    option.strip_prefix("-W").is_some_and(|name| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-+=".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(options: &[&str]) -> Result<Vec<String>, CompileError> {
        let options: Vec<_> = options.iter().map(|option| (*option).to_owned()).collect();
        translate(&options, Path::new("/here")).map(|wishes| wishes.flags)
    }

    #[test]
    fn options_of_nvcc_are_said_to_clang() {
        let given = ["-DA=1", "-D", "B", "--define-macro=C(x)=x=1", "-UD"].map(str::to_owned);
        let wishes = translate(&given, Path::new("/here")).unwrap();
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
