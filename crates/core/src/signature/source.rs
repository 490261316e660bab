//! Finds the names of kernels' parameters in a source. They are only for messages, so a rough scan is enough.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use crate::signature::split_arguments;

/// Attributes with arguments that may stand between `__global__` and a kernel's name.
const ATTRIBUTES: [&str; 7] = [
    "__launch_bounds__",
    "__attribute__",
    "__cluster_dims__",
    "__maxnreg__",
    "__block_size__",
    "__declspec",
    "alignas",
];

/// The parameter names of one declaration. Some may have none.
type Names = Vec<Option<Box<str>>>;

/// Parameter names, by the last part of the kernel's name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParameterNames(HashMap<Box<str>, Vec<Names>>);

impl ParameterNames {
    /// Adds the declarations of a text. Macros are not expanded.
    pub fn add(&mut self, text: &str) {
        let text = without_comments(text);
        for part in text.split("__global__").skip(1) {
            if let Some((name, list)) = declaration(part) {
                let names = split_arguments(list).into_iter().map(parameter_name).collect();
                self.0.entry(name.into()).or_default().push(names);
            }
        }
    }

    /// The names of a kernel's `count` parameters, if its declarations with that many agree.
    #[must_use]
    pub fn of(&self, kernel: &str, count: usize) -> Option<&[Option<Box<str>>]> {
        let name = kernel.split('<').next().unwrap_or_default();
        let name = name.rsplit("::").next().unwrap_or_default();
        let mut fitting = self.0.get(name)?.iter().filter(|names| names.len() == count);
        let first = fitting.next()?;
        fitting.all(|names| names == first).then_some(first)
    }
}

/// The device variables with internal linkage in a text: `static`, or `const` without `extern`.
#[must_use]
pub fn static_variables(text: &str) -> Vec<Box<str>> {
    let text = without_comments(text);
    let mut found: Vec<Box<str>> = Vec::new();
    for part in text.split([';', '{', '}']) {
        let declared = part.split(['=', '[']).next().unwrap_or_default();
        let has = |word: &str| {
            declared
                .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .any(|found| found == word)
        };
        let local = (has("static") || has("const")) && !has("extern") && !has("__shared__");
        // A bracket means that it is a function.
        if local && (has("__device__") || has("__constant__")) && !declared.contains('(') {
            let name = last_word(declared).map(Into::into);
            found.extend(name.filter(|name| !found.contains(name)));
        }
    }
    found
}

/// A kernel's name and the text between its brackets, given the text after `__global__`.
fn declaration(text: &str) -> Option<(&str, &str)> {
    let mut rest = text;
    loop {
        let open = rest.find(['(', ';', '{', '}', '#'])?;
        let list = rest[open..].strip_prefix('(')?;
        let name = last_word(&rest[..open])?;
        let end = closing(list)?;
        if !ATTRIBUTES.contains(&name) {
            return Some((
                name,
                match list[..end].trim() {
                    "void" => "",
                    list => list,
                },
            ));
        }
        rest = &list[end + 1..];
    }
}

/// The index of the bracket that closes the one before `text`.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 1;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// The name in `const float* __restrict__ a = nullptr`, if there is one.
fn parameter_name(text: &str) -> Option<Box<str>> {
    let declared = text.split('=').next()?;
    let declared = declared.split('[').next()?;
    // `void (*name)(int)`, `float (*name)[4]`
    let declared = declared
        .split_once("(*")
        .map_or(declared, |(_, rest)| rest.split(')').next().unwrap_or(rest));
    let name = last_word(declared)?;
    // Only a type.
    let alone = declared.trim() == name && !text.contains("(*");
    let word = [
        "int",
        "float",
        "double",
        "char",
        "bool",
        "unsigned",
        "long",
        "short",
        "const",
        "__restrict__",
    ];
    (!alone && !word.contains(&name)).then(|| name.into())
}

/// The last word of a text.
fn last_word(text: &str) -> Option<&str> {
    let text = text.trim_end();
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let start = text
        .rfind(|c| !word(c))
        .map_or(0, |at| at + text[at..].chars().next().map_or(1, char::len_utf8));
    Some(&text[start..])
        .filter(|name| name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'))
}

/// The text with each comment replaced by a space, and with empty string literals.
fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['/', '"', '\'']) {
        out.push_str(&rest[..at]);
        let here = &rest[at..];
        let end = if here.starts_with("//") {
            here.find('\n').unwrap_or(here.len())
        } else if here.starts_with("/*") {
            here.find("*/").map_or(here.len(), |end| end + 2)
        } else if here.starts_with('/') {
            out.push('/');
            1
        } else {
            quoted(here)
        };
        out.push(' ');
        rest = &here[end..];
    }
    out + rest
}

/// The length of the string literal at the start of `text`. Without an end on its line, only the quote
/// counts.
fn quoted(text: &str) -> usize {
    let quote = text.as_bytes()[0];
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            b'\n' => break,
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            _ if byte == quote => return at + 1,
            _ => {}
        }
    }
    1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(text: &str, kernel: &str, count: usize) -> Option<Vec<String>> {
        let mut found = ParameterNames::default();
        found.add(text);
        let names = found.of(kernel, count)?;
        Some(names.iter().map(|name| name.as_deref().unwrap_or("-").to_owned()).collect())
    }

    #[test]
    fn names_are_read_from_declarations() {
        let text = r#"
            // __global__ void vectorAdd(int wrong)
            const char *text = "__global__ void vectorAdd(int wrong)";
            extern "C" __global__ void __launch_bounds__(256, 2) vectorAdd(const float* __restrict__ a, /* b, */
                float (*rows)[4], float c[], int n = f(1, 2), Pair<int, int> pair, void (*call)(int), int) {}
            template <class T> __global__ void scale(T *values, T by);
            __global__ void none(void) {}
            __global__ void two(int a) {} __global__ void two(float b) {}
        "#;
        let wanted = ["a", "rows", "c", "n", "pair", "call", "-"].map(str::to_owned).to_vec();
        assert_eq!(names(text, "vectorAdd", 7), Some(wanted));
        assert_eq!(
            names(text, "ns::scale<ns::T<int>>", 2),
            Some(vec!["values".into(), "by".into()])
        );
        assert_eq!(names(text, "scale", 3), None);
        assert_eq!(names(text, "none", 0), Some(vec![]));
        assert_eq!(names(text, "two", 1), None);
    }

    #[test]
    fn variables_of_the_source_alone_are_found() {
        let text = "
            #define X 1
            static __device__ int counter;
            __constant__ static float table[3] = {1, 2, 3};
            __constant__ const float fixed[] = {1};
            __device__ int seen; extern __constant__ const int elsewhere; // static __device__ int commented;
            static __device__ float function(float x) { static __shared__ int s; return x; }
        ";
        let found = static_variables(text);
        assert_eq!(found, ["counter", "table", "fixed"].map(Into::into));
    }

    #[test]
    #[cfg_attr(miri, ignore = "text only, and long")]
    fn a_long_row_of_openings_takes_no_longer_than_it_is() {
        let text = "__global__ f(".repeat(100_000) + &"/*".repeat(100_000) + &"\"".repeat(100_000);
        ParameterNames::default().add(&text);
    }

    proptest! {
        #[test]
        #[cfg_attr(miri, ignore = "text only, and many cases")]
        fn any_text_can_be_read(text in "(__global__|[a-z(),<>\\[\\]*=/\"'\\\\{};# \\né]){0,80}") {
            let mut found = ParameterNames::default();
            found.add(&text);
            let _ = static_variables(&text);
        }
    }
}
