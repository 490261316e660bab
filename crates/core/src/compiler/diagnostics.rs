//! Parses clang's output.
#![forbid(unsafe_code)]

use crate::compiler::headers::OURS;
use crate::error::{Diagnostic, Severity};

/// A mark that ends with another comes before it.
const MARKS: [(&str, Severity); 4] = [
    (": fatal error: ", Severity::Error),
    (": error: ", Severity::Error),
    (": warning: ", Severity::Warning),
    (": note: ", Severity::Note),
];

/// All diagnostics of a report, in order.
pub(super) fn parse(report: &str) -> Vec<Diagnostic> {
    report.lines().filter_map(diagnostic).collect()
}

/// Removes the entries of `list` that errors in `file` refer to by line number. Returns whether there were
/// any.
pub(super) fn withdraw<T>(list: &mut [Option<T>], file: &str, diagnostics: &[Diagnostic]) -> bool {
    let mut some = false;
    for found in diagnostics {
        if found.severity == Severity::Error && &*found.file == file {
            let number = usize::try_from(found.line).unwrap_or(0).wrapping_sub(1);
            some |= list.get_mut(number).is_some_and(|one| one.take().is_some());
        }
    }
    some
}

/// Whether a diagnostic's file is one of gpulend's headers, or text that gpulend appended.
pub(super) fn is_ours(file: &str) -> bool {
    is_tail(file) || file.strip_prefix(OURS).is_some_and(|rest| rest.starts_with('/'))
}

/// Whether it is text that gpulend appended to the source.
fn is_tail(file: &str) -> bool {
    file.starts_with("<gpulend ")
}

/// The report without the compiler's error count and without excerpts of gpulend's headers, which the caller
/// did not write.
pub(super) fn tidy(report: &str) -> String {
    let mut kept = Vec::new();
    let mut inside_ours = false;
    for line in report.lines() {
        let counted = line.split(' ').next().is_some_and(|word| word.parse::<u32>().is_ok());
        if counted && line.contains(" generated") {
            continue;
        }
        if let Some(found) = diagnostic(line) {
            inside_ours = is_ours(&found.file) && found.severity == Severity::Note;
            if inside_ours
                && (is_tail(&found.file) || found.text.starts_with("expanded from macro"))
            {
                continue;
            }
        } else if inside_ours && !line.starts_with("In file included from ") {
            continue;
        }
        kept.push(line);
    }
    kept.join("\n")
}

/// `file:line:column: severity: text`.
fn diagnostic(line: &str) -> Option<Diagnostic> {
    // An excerpt of the source, after its line number.
    if line.starts_with(' ') {
        return None;
    }
    let found =
        MARKS.iter().filter_map(|(mark, severity)| Some((line.find(mark)?, *mark, *severity)));
    let (at, mark, severity) = found.min_by_key(|(at, ..)| *at)?;
    let mut place = line[..at].rsplitn(3, ':');
    let column = place.next()?.parse().ok()?;
    let number = place.next()?.parse().ok()?;
    let file = place.next()?.into();
    Some(Diagnostic { file, line: number, column, severity, text: line[at + mark.len()..].into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "a:b.cu:3:7: error: no member named 'q': warning: x\n    3 | a.b:1:2: error: q\n\
        kernel.cu:1:1: fatal error: 'x.h' file not found\nclang: note: no place\n2 errors generated.";

    #[test]
    fn a_diagnostic_is_read_from_its_line_only() {
        let found = parse(REPORT);
        let shown: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "a:b.cu:3:7: error: no member named 'q': warning: x",
                "kernel.cu:1:1: error: 'x.h' file not found"
            ]
        );
    }

    #[test]
    fn notes_about_text_of_ours_are_left_out() {
        let report = "<name f<>>:1:2: error: no\n    1 | &f<>\n<gpulend names>:1:9: note: declared here\n    1 | ours";
        assert_eq!(tidy(report), "<name f<>>:1:2: error: no\n    1 | &f<>");
    }

    #[test]
    fn the_count_is_left_out() {
        assert!(!tidy(REPORT).contains("generated"));
        assert_eq!(tidy(REPORT).lines().count(), 4);
    }

    #[test]
    fn of_our_headers_only_what_is_said_is_kept() {
        let report = "k.cu:1:2: error: no match\n    1 | f();\n\
            gpulend-headers/a.h:5:1: note: candidate\n    5 | MACRO\n      | ^\n\
            gpulend-headers/a.h:2:1: note: expanded from macro 'MACRO'\n    2 | int f(int);\n\
            k.cu:9:2: note: here\n    9 | g();";
        let wanted = "k.cu:1:2: error: no match\n    1 | f();\n\
            gpulend-headers/a.h:5:1: note: candidate\nk.cu:9:2: note: here\n    9 | g();";
        assert_eq!(tidy(report), wanted);
    }
}
