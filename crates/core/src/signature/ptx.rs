//! Scans PTX for kernels, variables and unresolved functions. It does not validate the text.
#![forbid(unsafe_code)]

use std::collections::HashSet;

/// A kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its symbol.
    pub symbol: Box<str>,
    /// Size and alignment of each parameter, in bytes.
    pub parameters: Vec<(u32, u32)>,
}

/// A variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its symbol.
    pub symbol: Box<str>,
    /// Size in bytes.
    pub size: u64,
    /// Whether it is in constant memory.
    pub constant: bool,
    /// Whether other modules can see it: `.visible`, `.weak` or `.common`.
    pub linked: bool,
}

/// What was found, in the order of the text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// Kernels with a body.
    pub entries: Vec<Entry>,
    /// Global and constant variables defined in this module, without the string literals of `printf` and
    /// `assert`.
    pub variables: Vec<Stored>,
    /// Functions that are called but not defined.
    pub unresolved: Vec<Box<str>>,
}

/// Scans any text in linear time.
#[must_use]
pub fn scan(text: &str) -> Scan {
    let mut found = Scan::default();
    let mut defined = HashSet::new();
    let mut seen = HashSet::new();
    let mut statement: Vec<&str> = Vec::new();
    let mut depth = 0_usize;
    // Whether braces contain an initialiser rather than a body.
    let mut assigned = false;
    for token in Tokens(text) {
        match token {
            "{" => {
                if depth == 0 && !assigned {
                    body(&statement, &mut found, &mut defined, &mut seen);
                    statement.clear();
                }
                depth += 1;
            }
            "}" => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            ";" => {
                declaration(&statement, &mut found, &mut seen);
                statement.clear();
                assigned = false;
            }
            _ => {
                assigned |= token == "=";
                statement.push(token);
            }
        }
    }
    found.unresolved.retain(|name| !defined.contains(&**name));
    found
}

/// The keyword of a statement, and its index.
fn keyword<'a>(statement: &[&'a str]) -> Option<(usize, &'a str)> {
    let known = [".entry", ".func", ".global", ".const"];
    statement
        .iter()
        .enumerate()
        .find(|(_, token)| known.contains(token))
        .map(|(at, token)| (at, *token))
}

/// Handles a kernel or function with a body.
fn body<'a>(
    statement: &[&'a str],
    found: &mut Scan,
    defined: &mut HashSet<&'a str>,
    seen: &mut HashSet<&'a str>,
) {
    let Some((at, word)) = keyword(statement) else { return };
    let rest = &statement[at + 1..];
    match word {
        ".entry" => {
            let Some((name, rest)) = rest.split_first().filter(|(name, _)| is_name(name)) else {
                return;
            };
            if seen.insert(*name) {
                let parameters = list(rest).split(|token| *token == ",").filter_map(parameter);
                found
                    .entries
                    .push(Entry { symbol: (*name).into(), parameters: parameters.collect() });
            }
        }
        ".func" => {
            defined.extend(function_name(rest));
        }
        _ => {}
    }
}

/// Handles a statement that ends in a semicolon.
fn declaration<'a>(statement: &[&'a str], found: &mut Scan, seen: &mut HashSet<&'a str>) {
    let Some((at, word)) = keyword(statement) else { return };
    let external = at > 0 && statement[..at].contains(&".extern");
    let rest = &statement[at + 1..];
    if word == ".func" {
        let name = function_name(rest).filter(|_| external);
        if let Some(name) = name.filter(|name| seen.insert(name)) {
            found.unresolved.push(name.into());
        }
    } else if word != ".entry" && !external {
        let linked =
            statement[..at].iter().any(|token| [".visible", ".weak", ".common"].contains(token));
        variables(rest, word == ".const", linked, found, seen);
    }
}

/// The tokens inside the brackets that follow.
fn list<'a, 'b>(rest: &'b [&'a str]) -> &'b [&'a str] {
    match rest {
        ["(", inner @ ..] => {
            let end = inner.iter().position(|token| *token == ")").unwrap_or(inner.len());
            &inner[..end]
        }
        _ => &[],
    }
}

fn function_name<'a>(rest: &[&'a str]) -> Option<&'a str> {
    let after = match rest {
        // The return value.
        ["(", ..] => &rest[rest.iter().position(|token| *token == ")")? + 1..],
        _ => rest,
    };
    after.iter().copied().find(|token| is_name(token))
}

/// The size and alignment of a parameter.
fn parameter(tokens: &[&str]) -> Option<(u32, u32)> {
    let (mut unit, mut align, mut count) = (None, None, 1_u64);
    let mut points = false;
    for (at, &token) in tokens.iter().enumerate() {
        match token {
            // What follows describes the pointee.
            ".ptr" => points = true,
            ".align" if !points => align = number(tokens.get(at + 1)?),
            "[" => count = count.checked_mul(number(tokens.get(at + 1)?)?)?,
            _ if unit.is_none() => unit = bytes(token),
            _ => {}
        }
    }
    let unit = unit?;
    let size = u32::try_from(unit.checked_mul(count)?).ok()?;
    Some((size, u32::try_from(align.unwrap_or(unit)).ok()?))
}

/// The variables of one statement: `.align 4 .b8 a[16], b[4] = {…}`.
fn variables<'a>(
    tokens: &[&'a str],
    constant: bool,
    linked: bool,
    found: &mut Scan,
    seen: &mut HashSet<&'a str>,
) {
    let (mut unit, mut lanes) = (None, 1);
    let mut at = 0;
    while let Some(token) = tokens.get(at).filter(|token| !is_name(token)) {
        match *token {
            ".v2" => lanes = 2,
            ".v4" => lanes = 4,
            // `.attribute(.managed)`
            "(" => at += list(&tokens[at..]).len(),
            token if unit.is_none() => unit = bytes(token),
            _ => {}
        }
        at += 1;
    }
    // Textures and samplers have no size.
    let Some(unit) = unit else { return };
    for declared in tokens[at..].split(|token| *token == ",") {
        let declared = declared.split(|token| *token == "=").next().unwrap_or_default();
        let Some((&name, extents)) = declared.split_first().filter(|(name, _)| is_name(name))
        else {
            return;
        };
        let extents = extents.split(|token| *token == "[").skip(1);
        let size = extents
            .map(|extent| extent.first().and_then(number))
            .try_fold(unit * lanes, |size, extent| size.checked_mul(extent?));
        if let Some(size) = size.filter(|&size| size > 0 && !is_text(name))
            && seen.insert(name)
        {
            found.variables.push(Stored { symbol: name.into(), size, constant, linked });
        }
    }
}

/// Whether a compiler generated this name for a string literal.
fn is_text(name: &str) -> bool {
    name.contains("$str")
        || name.starts_with("$")
        || name.starts_with("__unnamed_")
        || name.starts_with("_$_")
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_alphabetic() || "_$%".contains(c))
}

fn number(token: &&str) -> Option<u64> {
    let digits = token.trim_end_matches('U');
    match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => digits.parse().ok(),
    }
}

/// The size of a PTX type.
fn bytes(token: &str) -> Option<u64> {
    Some(match token {
        ".b8" | ".u8" | ".s8" | ".pred" => 1,
        ".b16" | ".u16" | ".s16" | ".f16" | ".bf16" => 2,
        ".b32" | ".u32" | ".s32" | ".f32" | ".f16x2" | ".bf16x2" => 4,
        ".b64" | ".u64" | ".s64" | ".f64" => 8,
        ".b128" => 16,
        _ => return None,
    })
}

/// Tokens without comments. A string in quotes is one token.
struct Tokens<'a>(&'a str);

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        loop {
            self.0 = self.0.trim_start();
            let end = if self.0.starts_with("//") {
                self.0.find('\n').unwrap_or(self.0.len())
            } else if self.0.starts_with("/*") {
                self.0.find("*/").map_or(self.0.len(), |end| end + 2)
            } else {
                break;
            };
            self.0 = &self.0[end..];
        }
        let word = |c: char| c.is_ascii_alphanumeric() || "._$%".contains(c);
        let first = self.0.chars().next()?;
        let end = if word(first) {
            self.0.find(|c| !word(c)).unwrap_or(self.0.len())
        } else if first == '"' {
            // A string in PTX ends on its line.
            let rest = &self.0[1..];
            rest.find(['"', '\n']).map_or(self.0.len(), |end| end + 2)
        } else {
            first.len_utf8()
        };
        let (token, rest) = self.0.split_at(end);
        self.0 = rest;
        Some(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = r#"
// .visible .entry commented(
.version 6.3
.target sm_75
.address_size 64
.file 1 "a { .entry b() .cu"
.extern .func (.param .b32 func_retval0) vprintf ( .param .b64 a, .param .b64 b );
.extern .func sinf(.param .b32 x);
.extern .func here(.param .b32 x);
.visible .entry declared(.param .u64 declared_param_0);
.global .align 1 .b8 $str[4] = {110, 62, 48};
.global .align 1 .b8 __unnamed_1[46] = {118, 111};
.visible .global .align 4 .u32 counter = 5;
.visible .const .align 4 .b8 table[12] = {0, 1};
.global .attribute(.managed) .align 16 .v4 .f32 vectors[2][0x3];
.extern .global .align 4 .u32 elsewhere;
.extern .shared .align 4 .b8 shared[];
.global .texref texture;
/* .entry inside(.param .u32 x) { } */
.visible .entry declared(
	.param .u64 .ptr .global .align 4 declared_param_0,
	.param .align 8 .b8 declared_param_1[24],
	.param .u8 declared_param_2
)
.maxntid 256, 1, 1
{
	.reg .b32 %r<2>;
	{ .param .b64 param0; }
	ret;
}
.weak .entry empty() { ret; }
.visible .func here(.param .b32 x) { ret; }
.section .debug_info { .b8 1 }
.entry last(.param .b32 x) { ret; }
"#;

    #[test]
    fn kernels_variables_and_missing_functions_are_found() {
        let found = scan(TEXT);
        let entries: Vec<_> =
            found.entries.iter().map(|entry| (&*entry.symbol, entry.parameters.clone())).collect();
        assert_eq!(
            entries,
            [
                ("declared", vec![(8, 8), (24, 8), (1, 1)]),
                ("empty", vec![]),
                ("last", vec![(4, 4)])
            ]
        );
        let variables: Vec<_> = found
            .variables
            .iter()
            .map(|found| (&*found.symbol, found.size, found.constant, found.linked))
            .collect();
        assert_eq!(
            variables,
            [("counter", 4, false, true), ("table", 12, true, true), ("vectors", 96, false, false)]
        );
        assert_eq!(found.unresolved, ["vprintf".into(), "sinf".into()]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "text only, and long")]
    fn a_part_of_a_text_is_no_mistake() {
        for (end, _) in TEXT.char_indices() {
            let _ = scan(&TEXT[..end]);
            let _ = scan(&TEXT[end..]);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "text only, and long")]
    fn a_long_text_takes_no_longer_than_it_is() {
        for part in ["x ", "{ } ", "/* ", "\" ", ".global .b8 a, ", ".entry f(", "} ; "] {
            let _ = scan(&(part.repeat(200_000) + "= " + &"{ } ".repeat(200_000)));
        }
    }

    #[test]
    fn what_overflows_is_left_out() {
        let found = scan(
            ".global .b64 a[99999999999][99999999999]; .entry f(.param .b64 a[4294967295]) {}",
        );
        assert!(found.variables.is_empty());
        assert_eq!(found.entries[0].parameters, []);
    }

    proptest! {
        #[test]
        #[cfg_attr(miri, ignore = "text only, and many cases")]
        fn any_text_can_be_skimmed(text in "\\PC{0,200}") {
            let _ = scan(&text);
        }

        #[test]
        #[cfg_attr(miri, ignore = "text only, and many cases")]
        fn any_tokens_can_be_skimmed(
            tokens in prop::collection::vec(prop::sample::select(vec![
                ".entry", ".func", ".global", ".const", ".param", ".align", ".ptr", ".b8", ".v4", "name", "4", "[", "]",
                "(", ")", "{", "}", ",", ";", "=", "\"", "//", "/*", "*/", "\n", ".extern", ".visible", "é",
            ]), 0..60),
        ) {
            let _ = scan(&tokens.join(" "));
        }
    }
}
