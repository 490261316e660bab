//! Parses NVRTC's log.
#![forbid(unsafe_code)]

use crate::compiler::names;
use crate::error::{Diagnostic, Severity};

const MARKS: [(&str, Severity); 4] = [
    ("catastrophic error", Severity::Error),
    ("error", Severity::Error),
    ("warning", Severity::Warning),
    ("remark", Severity::Note),
];
/// The start of lines about NVRTC's internal file of requested names.
const NAME_MAP: &str = "__nv_name_map(";
const NAME_LINE: &str = "  #pragma nv_mangled_name ";

/// The log without error counts and warning numbers, with requested names in place of NVRTC's internal
/// pragma.
pub(super) fn tidy(log: &str) -> String {
    let mut kept: Vec<String> = Vec::new();
    let lines: Vec<&str> = log.lines().collect();
    let mut at = 0;
    while let Some(&line) = lines.get(at) {
        at += 1;
        let asked = lines.get(at).and_then(|next| next.strip_prefix(NAME_LINE));
        match asked.filter(|_| line.starts_with(NAME_MAP)) {
            Some(name) => {
                let caret = lines.get(at + 1).copied().unwrap_or_default();
                at += 2;
                let Some((_, text)) = line.split_once("): ") else { continue };
                // A repetition of an earlier line.
                if !text.contains("Error in parsing name expression") {
                    let place = names::place(name.trim());
                    let caret = caret.get(NAME_LINE.len() - 2..).unwrap_or("  ^");
                    kept.extend([
                        format!("{place}(1): {text}"),
                        format!("  {name}"),
                        caret.to_owned(),
                    ]);
                }
            }
            None if line.starts_with("Remark: The warnings can be suppressed") => {}
            None if line.contains("detected in the compilation of") => {}
            None if line == "Compilation terminated." => {}
            None => kept.push(line.to_owned()),
        }
    }
    // Merge empty lines.
    kept.dedup_by(|next, before| next.is_empty() && before.is_empty());
    kept.join("\n").trim().to_owned()
}

/// All diagnostics of a log, in order. A note after an error inside a requested instance names the instance.
pub(super) fn parse(log: &str, file: &str, last_line: u32, instances: &[&str]) -> Vec<Diagnostic> {
    let lines: Vec<&str> = log.lines().collect();
    let mut found: Vec<Diagnostic> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if let Some(mut one) = diagnostic(line, file, last_line) {
            // The source line follows, indented by two, and then a caret.
            let caret = lines.get(at + 2).filter(|caret| caret.trim() == "^");
            let place = caret.map_or(0, |caret| caret.len().saturating_sub(3));
            one.column = u32::try_from(place + 1).unwrap_or(1);
            found.push(one);
        } else if let Some(name) = instance(line, instances) {
            found.push(Diagnostic {
                file: names::place(name).into(),
                line: 1,
                column: 1,
                severity: Severity::Note,
                text: "in this instance, which was asked for".into(),
            });
        }
    }
    found
}

/// `file(line): severity #number: text`, or a message about the end of the source.
fn diagnostic(line: &str, file: &str, last_line: u32) -> Option<Diagnostic> {
    if line.starts_with(' ') {
        return None;
    }
    let split = |rest: &str| {
        let (mark, severity) = MARKS.into_iter().find(|(mark, _)| rest.starts_with(mark))?;
        let (number, text) = rest[mark.len()..].split_once(": ")?;
        let numbered = number.is_empty() || number.starts_with(" #");
        numbered.then(|| (severity, text.to_owned()))
    };
    let make = |file: &str, line, (severity, text): (Severity, String)| Diagnostic {
        file: file.into(),
        line,
        column: 1,
        severity,
        text: text.into(),
    };
    if let Some(rest) = line.strip_prefix("At end of source: ") {
        return Some(make(file, last_line, split(rest)?));
    }
    // A file name may contain such brackets itself.
    line.match_indices("): ").find_map(|(at, sign)| {
        let (place, number) = line[..at].rsplit_once('(')?;
        Some(make(place, number.parse().ok()?, split(&line[at + sign.len()..])?))
    })
}

/// The requested instance in which a line locates an error.
fn instance<'a>(line: &str, instances: &[&'a str]) -> Option<&'a str> {
    let (_, rest) = line.split_once("instantiation of \"")?;
    let template = |name: &str| {
        let base = name.split('<').next().unwrap_or_default();
        base.rsplit("::").next().unwrap_or_default().trim().to_owned()
    };
    let named = |name: &&&str| {
        let base = template(name);
        rest.match_indices(&base).any(|(at, _)| rest[at + base.len()..].starts_with(['(', '<']))
    };
    // `[with T=int]`
    let same = |name: &&&str| {
        let list =
            name.split_once('<').map_or("", |(_, list)| list.trim_end().trim_end_matches('>'));
        let arguments = crate::signature::split_arguments(list);
        !arguments.is_empty()
            && arguments.iter().all(|argument| {
                rest.contains(&format!("={argument}]")) || rest.contains(&format!("={argument},"))
            })
    };
    let candidates = || instances.iter().filter(named);
    candidates().find(same).or_else(|| candidates().next()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "my (1).cu(3): error: identifier \"x\" is undefined\n      *p = x;\n           ^\n\n\
        __nv_name_map(2): error: identifier \"scle\" is undefined\n  #pragma nv_mangled_name scle<float>\n                          ^\n\n\
        __nv_name_map(2): error: Error in parsing name expression for lowered name lookup. Input name expression was: \"a\"\n\
        \x20 #pragma nv_mangled_name scle<float>\n                          ^\n\n\
        k.cu(1): warning #177-D: variable \"u\" was declared but never referenced\n  int u;\n      ^\n\n\
        Remark: The warnings can be suppressed with \"-diag-suppress <warning-number>\"\n\n\
        k.cu(2): error: expression must have pointer-to-class type\n  p->foo();\n  ^\n\
        \x20         detected during instantiation of \"void t(T *) [with T=int]\" \n\n\
        At end of source: error: expected a \")\"\n\n5 errors detected in the compilation of \"k.cu\".\n";

    #[test]
    fn a_log_is_read_in_parts() {
        let log = tidy(LOG);
        assert!(
            !log.contains("pragma") && !log.contains("Remark") && !log.contains("detected in"),
            "{log}"
        );
        let parsed = parse(&log, "k.cu", 9, &["t<float>", "t<int>"]);
        let shown: Vec<_> = parsed.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "my (1).cu:3:10: error: identifier \"x\" is undefined",
                "<name scle<float>>:1:1: error: identifier \"scle\" is undefined",
                "k.cu:1:5: warning: variable \"u\" was declared but never referenced",
                "k.cu:2:1: error: expression must have pointer-to-class type",
                "<name t<int>>:1:1: note: in this instance, which was asked for",
                "k.cu:9:1: error: expected a \")\"",
            ]
        );
    }

    #[test]
    fn other_lines_are_no_diagnostics() {
        assert!(
            parse(
                "  k.cu(3): error: in a line of the source\nnvrtc: error: x\n(): error\n",
                "k",
                1,
                &[]
            )
            .is_empty()
        );
    }
}
