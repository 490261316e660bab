//! Parses options in the style of nvcc, NVRTC or clang. Each compiler interprets them itself.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use crate::error::CompileError;

/// Options that take a value: `--name=value`, `-name value` and so on.
const WITH_VALUE: [&str; 14] = [
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
    "x",
    "Xcompiler",
    "Xptxas",
];
/// The long names of `-D`, `-U` and `-I`.
const LETTERS: [(&str, char); 3] =
    [("define-macro", 'D'), ("undefine-macro", 'U'), ("include-path", 'I')];

/// One option with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Given<'a> {
    /// As given: one word, or two if the value is a separate word.
    pub(super) words: &'a [String],
    /// Its meaning.
    pub(super) what: What<'a>,
}

/// The meaning of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What<'a> {
    /// A macro: `NAME` or `NAME=VALUE`.
    Define(&'a str),
    /// A macro to undefine: `NAME`.
    Undefine(&'a str),
    /// A folder of the caller's own headers.
    Folder(PathBuf),
    /// An option with a value: its name without dashes, and the value.
    Valued(&'a str, &'a str),
    /// Any other option, without dashes.
    Plain(&'a str),
}

impl Given<'_> {
    /// The option itself.
    pub(super) fn option(&self) -> &str {
        &self.words[0]
    }

    /// Whether it has one dash.
    pub(super) fn is_short(&self) -> bool {
        !self.option().starts_with("--")
    }

    pub(super) fn refuse(&self, reason: &'static str) -> CompileError {
        refuse(self.option(), reason)
    }
}

/// Whether an option takes the next word as its value.
#[must_use]
pub fn takes_next_word(option: &str) -> bool {
    match bare(option) {
        Some(name) => match letter(option, name) {
            Some((_, value)) => value.is_empty(),
            None => WITH_VALUE.contains(&name),
        },
        None => false,
    }
}

/// Parses options. Relative folders are relative to `here`.
pub(super) fn read<'a>(options: &'a [String], here: &Path) -> Result<Vec<Given<'a>>, CompileError> {
    let mut found = Vec::new();
    let mut rest = options;
    while let Some(option) = rest.first() {
        let Some(name) = bare(option) else {
            let reason = "options begin with a dash; the source is given apart";
            return Err(refuse(option, reason));
        };
        if option.contains('\0') {
            return Err(refuse(option, "it has a control character"));
        }
        let count = if takes_next_word(option) { 2 } else { 1 };
        let Some((words, after)) = rest.split_at_checked(count) else {
            return Err(refuse(option, "a value must follow"));
        };
        rest = after;
        let next = words.get(1).map(String::as_str);
        let what = match (letter(option, name), name.split_once('=')) {
            (Some((letter, attached)), _) => {
                let value = next.unwrap_or(attached);
                match letter {
                    'D' => What::Define(value),
                    'U' => What::Undefine(value),
                    _ => What::Folder(here.join(value)),
                }
            }
            (None, Some((name, value))) if WITH_VALUE.contains(&name) => What::Valued(name, value),
            _ => next.map_or(What::Plain(name), |value| What::Valued(name, value)),
        };
        found.push(Given { words, what });
    }
    Ok(found)
}

fn refuse(option: &str, reason: &'static str) -> CompileError {
    CompileError::Option { option: option.into(), reason }
}

/// An option without its dashes.
fn bare(option: &str) -> Option<&str> {
    let name = option.strip_prefix('-').filter(|name| !name.is_empty())?;
    Some(name.strip_prefix('-').unwrap_or(name))
}

/// `-DNAME`, `-D NAME`, `--define-macro=NAME` and similar: the letter, and the value if it is in the same
/// word.
fn letter<'a>(option: &str, name: &'a str) -> Option<(char, &'a str)> {
    for (long, letter) in LETTERS {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn words(options: &[&str]) -> Vec<String> {
        options.iter().map(|option| (*option).to_owned()).collect()
    }

    #[test]
    fn values_are_found_in_the_option_or_after_it() {
        let given = words(&[
            "-DA=1",
            "-D",
            "B",
            "--define-macro=C(x)=x=1",
            "--undefine-macro",
            "D",
            "-I",
            "x",
            "--include-path=/y",
            "-arch",
            "sm_80",
            "--maxrregcount=32",
            "-lineinfo",
            "--fmad=false",
        ]);
        let found = read(&given, Path::new("/here")).unwrap();
        let what: Vec<_> = found.iter().map(|given| given.what.clone()).collect();
        let wanted = [
            What::Define("A=1"),
            What::Define("B"),
            What::Define("C(x)=x=1"),
            What::Undefine("D"),
            What::Folder("/here/x".into()),
            What::Folder("/y".into()),
            What::Valued("arch", "sm_80"),
            What::Valued("maxrregcount", "32"),
            What::Plain("lineinfo"),
            What::Plain("fmad=false"),
        ];
        assert_eq!(what, wanted);
        let back: Vec<_> = found.iter().flat_map(|given| given.words.iter().cloned()).collect();
        assert_eq!(back, given);
        assert_eq!(found.iter().filter(|given| given.is_short()).count(), 5);
    }

    #[test]
    fn an_option_says_whether_the_next_word_is_its_own() {
        for option in ["-D", "-I", "-arch", "--gpu-code", "--define-macro", "-Xptxas"] {
            assert!(takes_next_word(option), "{option}");
        }
        for option in ["-DA", "-Ix", "-arch=sm_80", "--D", "-lineinfo", "kernel.cu", "-", ""] {
            assert!(!takes_next_word(option), "{option}");
        }
    }

    #[test]
    fn what_is_no_option_is_refused_by_name() {
        for wrong in ["kernel.cu", "-", "", "-DA\0", "-D", "-arch"] {
            let error = read(&words(&[wrong]), Path::new("/here")).unwrap_err().to_string();
            assert!(error.contains(&format!("{wrong:?}")), "{error}");
        }
    }
}
