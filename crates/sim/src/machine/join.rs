//! Joins several PTX texts into one, as a linker does.
//!
//! A name that only one text sees gets another one if two texts have it; of weak definitions the first counts; the
//! files of line information are numbered anew. Everything else is left to the parser, which knows declarations.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};

/// The file numbers of each text begin at a multiple of this.
const FILES: u64 = 10_000;

/// A text that defines what the device runtime offers to kernels that set conditions: the handle is an address.
pub const BUILTIN: &str = "
.visible .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value) {
.reg .b64 %rd<2>; .reg .b32 %r<2>;
ld.param.u64 %rd1, [handle]; ld.param.u32 %r1, [value]; st.global.u32 [%rd1], %r1; ret; }
";

/// The name of its function.
pub const SET_CONDITIONAL: &str = "cudaGraphSetConditional";

/// How others see a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Linkage {
    Private,
    Visible,
    Weak,
    Extern,
}

/// A part of a text on its outermost level.
#[derive(Debug)]
struct Part<'a> {
    text: &'a str,
    linkage: Linkage,
    /// The name of the variable or function, if it is one.
    name: Option<&'a str>,
}

/// Returns the end of the token that begins at `start`, which is not behind the text.
fn token_end(text: &str, start: usize) -> usize {
    let bytes = text.as_bytes();
    let rest = text.get(start..).unwrap_or_default();
    let until = |sign: &str, from: usize| {
        rest.get(from..)
            .and_then(|rest| rest.find(sign))
            .map_or(text.len(), |at| start + from + at + sign.len())
    };
    let is_name =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'%' | b'.');
    match bytes.get(start) {
        Some(b'/') if rest.starts_with("//") => until("\n", 2),
        Some(b'/') if rest.starts_with("/*") => until("*/", 2),
        Some(b'"') => until("\"", 1),
        Some(byte) if is_name(*byte) => {
            let more = bytes.iter().skip(start + 1).take_while(|byte| is_name(**byte)).count();
            start + 1 + more
        }
        // One character, which may have several bytes.
        _ => start + rest.chars().next().map_or(1, char::len_utf8),
    }
}

/// Returns the tokens of a text, with spaces and comments, which together are the text.
fn tokens(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut start = 0;
    while start < text.len() {
        let end = token_end(text, start).min(text.len());
        found.extend(text.get(start..end));
        start = end;
    }
    found
}

fn is_blank(token: &str) -> bool {
    token.trim().is_empty() || token.starts_with("//") || token.starts_with("/*")
}

/// Returns the name that a part declares: of a function after its results, of a variable after its type.
fn name_of<'a>(words: &[&'a str]) -> Option<&'a str> {
    let mut depth = 0_usize;
    let mut skips_number = false;
    for word in words {
        match *word {
            "(" => depth += 1,
            ")" => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            ".align" => skips_number = true,
            _ if word.starts_with('.') => {}
            _ if skips_number => skips_number = false,
            "{" | ";" | "=" | "[" => return None,
            word => return Some(word),
        }
    }
    None
}

/// Splits a text into its parts. The directives that come once in a text are left out.
fn parts(text: &str) -> Vec<Part<'_>> {
    let all = tokens(text);
    let mut found = Vec::new();
    let (mut next, mut offset) = (0, 0);
    while next < all.len() {
        let (first, start) = (next, offset);
        let opening = all[first];
        let by_line = matches!(opening, ".version" | ".target" | ".address_size" | ".file");
        let (mut depth, mut words) = (0_usize, Vec::new());
        let mut has_values = false;
        while next < all.len() {
            let token = all[next];
            // A directive without an end of its own ends with its line.
            if by_line && token == "\n" {
                break;
            }
            next += 1;
            offset += token.len();
            if is_blank(token) {
                if words.is_empty() {
                    break;
                }
                continue;
            }
            words.push(token);
            match token {
                "{" => depth += 1,
                "}" => depth = depth.saturating_sub(1),
                "=" => has_values = true,
                _ => {}
            }
            // A list of values closes before the semicolon.
            let ends = token == ";" || (token == "}" && !has_values);
            if !by_line && depth == 0 && ends {
                break;
            }
        }
        let whole = text.get(start..offset).unwrap_or_default();
        if words.is_empty() || matches!(opening, ".version" | ".target" | ".address_size") {
            continue;
        }
        found.push(part(whole, &words));
    }
    found
}

fn part<'a>(text: &'a str, words: &[&'a str]) -> Part<'a> {
    let mut linkage = Linkage::Private;
    for word in words {
        linkage = match *word {
            ".visible" | ".common" => Linkage::Visible,
            ".weak" => Linkage::Weak,
            ".extern" => Linkage::Extern,
            _ => break,
        };
    }
    let kinds = [".func", ".entry", ".global", ".const", ".shared"];
    let place = words.iter().position(|word| kinds.contains(word)).filter(|place| *place < 2);
    let name = place.and_then(|place| name_of(&words[place + 1..]));
    Part { text, linkage, name }
}

/// Returns a part with other names, and other numbers of files.
fn rewrite(text: &str, names: &BTreeMap<&str, String>, files: u64) -> String {
    let mut made = String::with_capacity(text.len());
    let mut numbers = false;
    for token in tokens(text) {
        let renamed = names.get(token).map(String::as_str);
        let number = token.parse::<u64>().ok().filter(|_| numbers && files > 0);
        match number {
            Some(number) => made.push_str(&(number + files).to_string()),
            None => made.push_str(renamed.unwrap_or(token)),
        }
        if !is_blank(token) {
            numbers = matches!(token, ".file" | ".loc" | "inlined_at");
        }
    }
    made
}

/// Returns the newest number after a directive in any of the texts, for instance `8.0` after `.version`.
fn newest<'a>(texts: &[&'a str], directive: &str) -> Option<&'a str> {
    let number = |word: &str| -> (u32, u32) {
        let digits = word.trim_start_matches("sm_").trim_end_matches(',');
        let (major, minor) = digits.split_once('.').unwrap_or((digits, "0"));
        (major.parse().unwrap_or(0), minor.parse().unwrap_or(0))
    };
    let found = texts.iter().filter_map(|text| {
        text.split_ascii_whitespace().skip_while(|word| *word != directive).nth(1)
    });
    found.max_by_key(|word| number(word))
}

/// Joins texts. A single one stays as it is.
#[must_use]
pub fn join(texts: &[&str]) -> String {
    if let [text] = texts {
        return (*text).to_owned();
    }
    let all: Vec<Vec<Part<'_>>> = texts.iter().map(|text| parts(text)).collect();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut weak: BTreeSet<&str> = BTreeSet::new();
    let version = newest(texts, ".version").unwrap_or("6.3");
    let target = newest(texts, ".target").unwrap_or("sm_75").trim_end_matches(',');
    let mut joined = format!(".version {version}\n.target {target}\n.address_size 64\n");
    let strong: BTreeSet<&str> = all
        .iter()
        .flatten()
        .filter(|part| part.linkage == Linkage::Visible)
        .filter_map(|part| part.name)
        .collect();
    for (index, parts) in all.iter().enumerate() {
        let private = parts.iter().filter(|part| part.linkage == Linkage::Private);
        let own: BTreeSet<&str> = private.filter_map(|part| part.name).collect();
        let again = own.iter().filter(|name| seen.contains(*name) || strong.contains(*name));
        let names = again.map(|name| (*name, format!("{name}$of${index}"))).collect();
        for part in parts {
            let defines = part.text.contains('{') || !part.text.contains(".func");
            if let (Linkage::Weak, Some(name), true) = (part.linkage, part.name, defines)
                && (strong.contains(name) || weak.contains(name))
            {
                continue;
            }
            joined.push_str(&rewrite(part.text, &names, FILES * index as u64));
            joined.push('\n');
        }
        weak.extend(
            parts
                .iter()
                .filter(|part| part.linkage == Linkage::Weak && part.text.contains('{'))
                .filter_map(|part| part.name),
        );
        seen.extend(parts.iter().filter_map(|part| part.name));
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Program;

    const HEAD: &str = ".version 6.3\n.target sm_60\n.address_size 64\n";

    fn text(body: &str) -> String {
        format!("{HEAD}{body}")
    }

    #[test]
    fn a_declaration_finds_the_definition_of_another_text() {
        let one = text(
            ".extern .func (.param .b32 out) twice(.param .b32 x);\n\
             .visible .entry k(.param .u64 p) {\n.reg .b32 %r<3>; .reg .b64 %rd<2>;\n\
             ld.param.u64 %rd1, [p];\n{ .param .b32 a; .param .b32 b; st.param.b32 [a], 2;\n\
             call.uni (b), twice, (a); ld.param.b32 %r1, [b]; }\nst.global.u32 [%rd1], %r1;\nret; }\n",
        );
        let other = text(
            ".visible .func (.param .b32 out) twice(.param .b32 x) {\n.reg .b32 %r<3>;\n\
             ld.param.u32 %r1, [x]; add.u32 %r2, %r1, %r1; st.param.b32 [out], %r2; ret; }\n",
        );
        assert!(Program::load(&one).is_err());
        for texts in [[&one[..], &other], [&other[..], &one]] {
            let program = Program::load(&join(&texts)).unwrap();
            assert_eq!(program.kernels().len(), 1);
        }
    }

    #[test]
    fn private_names_stay_apart_and_the_first_weak_definition_counts() {
        let body = |kernel: &str, value: u32| {
            text(&format!(
                ".global .align 4 .u32 table[2] = {{{value}, 2}};\n.weak .func common() {{ ret; }}\n\
                 .file 1 \"a.cu\"\n.visible .entry {kernel}() {{\n.reg .b32 %r<2>;\n.loc 1 {value} 0\n\
                 ld.global.u32 %r1, [table];\ncall.uni common, ();\nret; }}\n"
            ))
        };
        let (one, other) = (body("a", 7), body("b", 8));
        let joined = join(&[&one, &other]);
        assert!(joined.contains("table$of$1[2] = {8, 2}"), "{joined}");
        assert!(joined.contains(".loc 10001 8 0"), "{joined}");
        assert_eq!(joined.matches(".weak").count(), 1);
        let program = Program::load(&joined).unwrap();
        assert_eq!((program.kernels().len(), program.variables().len()), (2, 2));
        let twice = join(&[&one, &one]);
        assert!(Program::load(&twice).is_err(), "a kernel defined twice");
    }

    #[test]
    fn the_newest_version_and_target_count_and_one_text_stays() {
        let new = ".version 7.10\n.target sm_75, debug\n.address_size 64\n";
        assert!(join(&[HEAD, new]).starts_with(".version 7.10\n.target sm_75\n"));
        assert_eq!(join(&[new]), new);
    }
}
