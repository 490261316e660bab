//! Kernels requested by name, so that templates are instantiated: how to request them from clang, and which
//! errors are theirs.
#![forbid(unsafe_code)]

use crate::error::{CompileError, Severity};
use crate::signature::Signature;

/// The file name of the text around the names. Diagnostics do not show it.
const FILE: &str = "<gpulend names>";

/// The name without a leading `&`. Refuses one that could end its line or start a declaration.
pub(super) fn checked(name: &str) -> Result<&str, CompileError> {
    let said = name.trim().trim_start_matches('&').trim();
    let wrong = |c: char| c.is_control() || ";{}#\\\"".contains(c);
    if said.is_empty() || said.contains(wrong) {
        return Err(CompileError::Name {
            name: name.into(),
            what: "a kernel",
            wanted: "say it as in C++, without parameters: `vectorAdd`, `scale<float>`",
        });
    }
    Ok(said)
}

/// Whether a name is that of a template instance, which exists only if requested.
pub(super) fn is_instance(name: &str) -> bool {
    name.contains('<')
}

/// Source text that makes clang compile the instances and emits nothing else: a template argument counts as a
/// use.
pub(super) fn wants(instances: &[&str]) -> String {
    let mut text = String::new();
    for (number, name) in instances.iter().enumerate() {
        if number == 0 {
            text += &format!("#line 1 \"{FILE}\"\ntemplate <auto> struct gpulend_want {{}};\n");
        }
        // Errors then refer to a file with its name.
        text += &format!(
            "using gpulend_want_{number} = gpulend_want<\n#line 1 \"{}\"\n&{name}\n>;\n",
            place(name)
        );
    }
    text
}

/// The file name of a requested name in diagnostics.
pub(super) fn place(name: &str) -> String {
    format!("<name {name}>")
}

/// Attributes an error to the source, or to an instance if all errors are inside it.
pub(super) fn blame(error: CompileError, instances: &[&str]) -> CompileError {
    let CompileError::Source { file, report, diagnostics } = error else { return error };
    let asked = |file: &str| instances.iter().find(|name| file == place(name)).copied();
    let mut blamed: Option<&str> = None;
    // Each error with its notes.
    let starts: Vec<usize> = diagnostics
        .iter()
        .enumerate()
        .filter(|(_, found)| found.severity == Severity::Error)
        .map(|(at, _)| at)
        .collect();
    for (position, &start) in starts.iter().enumerate() {
        let end = starts.get(position + 1).copied().unwrap_or(diagnostics.len());
        let Some(name) = diagnostics[start..end].iter().find_map(|found| asked(&found.file)) else {
            return CompileError::Source { file, report, diagnostics };
        };
        blamed.get_or_insert(name);
    }
    match blamed {
        Some(name) => CompileError::Instance { expression: name.into(), report, diagnostics },
        None => CompileError::Source { file, report, diagnostics },
    }
}

/// The symbols of the kernels that a name matches: by name, by symbol, or by name with types.
pub(super) fn find<'a>(name: &str, kernels: &'a [Signature]) -> Vec<&'a str> {
    let said = squeezed(name.trim_start_matches("::"));
    let means = |kernel: &&Signature| {
        [&kernel.name, &kernel.symbol, &*kernel.types()].iter().any(|known| squeezed(known) == said)
    };
    kernels.iter().filter(means).map(|kernel| &*kernel.symbol).collect()
}

/// The error for a name without a kernel.
pub(super) fn unknown(name: &str, file: &str, kernels: &[Signature]) -> CompileError {
    let overloaded = |name: &str| kernels.iter().filter(|kernel| &*kernel.name == name).count() > 1;
    let shown = |kernel: &Signature| {
        if overloaded(&kernel.name) { kernel.to_string() } else { kernel.name.to_string() }
    };
    CompileError::UnknownKernel {
        expression: name.into(),
        file: file.into(),
        kernels: listed(kernels.iter().map(shown)),
    }
}

/// Names as a list for an error message.
pub(crate) fn listed(names: impl Iterator<Item = impl AsRef<str>>) -> Box<str> {
    let names: Vec<String> = names.map(|name| name.as_ref().to_owned()).collect();
    if names.is_empty() { "none".into() } else { names.join(", ").into() }
}

/// The text without spaces, except between words.
pub(crate) fn squeezed(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let word = |c: char| c.is_alphanumeric() || c == '_';
    for part in text.split_whitespace() {
        if out.ends_with(word) && part.starts_with(word) {
            out.push(' ');
        }
        out.push_str(part);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Diagnostic;
    use crate::signature::kernel;

    #[test]
    fn a_name_is_no_declaration() {
        for wrong in ["", " ", "&", "a;b", "f\n<1>", "f{}", "f\\", "#define x", "f<\"x\">"] {
            assert!(matches!(checked(wrong), Err(CompileError::Name { .. })), "{wrong:?}");
        }
        assert_eq!(checked(" &ns::f<int> ").unwrap(), "ns::f<int>");
    }

    #[test]
    fn spaces_do_not_matter_to_names() {
        let signature = |symbol: &str| {
            let (name, _) = kernel(symbol);
            Signature { name, symbol: symbol.into(), parameters: Vec::new() }
        };
        let kernels = ["_ZN2ns1fIP1AIjEEEvv", "_Z1gi", "_Z1gf"].map(signature);
        assert_eq!(find("::ns::f< A<unsigned  int> * >", &kernels), ["_ZN2ns1fIP1AIjEEEvv"]);
        assert_eq!(find("g", &kernels), ["_Z1gi", "_Z1gf"]);
        assert_eq!(find("_Z1gf", &kernels), ["_Z1gf"]);
        assert!(find("h", &kernels).is_empty());
        let message = unknown("h", "k.cu", &kernels).to_string();
        assert!(
            message.contains("\"h\"") && message.contains("ns::f<A<unsigned int>*>, g(), g()"),
            "{message}"
        );
    }

    #[test]
    fn an_instance_is_blamed_only_if_nothing_else_is_wrong() {
        let found = |file: &str, severity| Diagnostic {
            file: file.into(),
            line: 1,
            column: 1,
            severity,
            text: "t".into(),
        };
        let error = |diagnostics| CompileError::Source {
            file: "k.cu".into(),
            report: "r".into(),
            diagnostics,
        };
        let own = || {
            vec![
                found("k.cu", Severity::Warning),
                found("k.cu", Severity::Error),
                found("<name f<int>>", Severity::Note),
            ]
        };
        let blamed = blame(error(own()), &["g<int>", "f<int>"]);
        assert!(
            matches!(&blamed, CompileError::Instance { expression, .. } if &**expression == "f<int>")
        );
        let mut both = own();
        both.push(found("k.cu", Severity::Error));
        assert!(matches!(blame(error(both), &["f<int>"]), CompileError::Source { .. }));
    }
}
