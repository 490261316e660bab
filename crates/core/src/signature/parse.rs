//! Parses C++ types as demanglers and people write them.
#![forbid(unsafe_code)]

use crate::signature::{Scalar, Type};

/// The deepest nesting of pointers. Deeper types are known by name only.
const DEEPEST: u8 = 12;
const QUALIFIERS: [&str; 5] = ["const", "volatile", "__restrict__", "__restrict", "restrict"];

/// Parses a type. An unknown one is [`Type::Other`].
#[must_use]
pub fn parse_type(text: &str) -> Type {
    parse(text, 0).0
}

/// Splits `text` at commas outside of all brackets. Empty for an empty text.
#[must_use]
pub fn split_arguments(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0_i32, 0);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'{' | b'<' => depth += 1,
            // `->` is not a closing bracket.
            b'>' if at > 0 && text.as_bytes()[at - 1] == b'-' => {}
            b')' | b']' | b'}' | b'>' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    if !parts.is_empty() || !text.trim().is_empty() {
        parts.push(text[start..].trim());
    }
    parts
}

/// The type, and whether it is itself `const`.
fn parse(text: &str, depth: u8) -> (Type, bool) {
    let (text, constant) = without_qualifiers(text);
    let other = || (Type::Other(text.into()), constant);
    if depth == DEEPEST {
        return other();
    }
    // `int Class::*` is not an address.
    if let Some(inner) = text.strip_suffix('*').filter(|inner| !inner.ends_with("::")) {
        let (to, points_to_constant) = parse(inner, depth + 1);
        return (Type::Pointer { to: Box::new(to), constant: points_to_constant }, constant);
    }
    if text.ends_with(']') {
        return array(text, depth).map_or_else(other, |(kind, inner)| (kind, constant || inner));
    }
    if text.ends_with(['&', ')', '*']) {
        return other();
    }
    let name = ["struct ", "class ", "union ", "enum "]
        .iter()
        .find_map(|keyword| text.strip_prefix(keyword))
        .unwrap_or(text)
        .trim()
        .trim_start_matches("::");
    (base(name).unwrap_or_else(|| Type::Other(name.into())), constant)
}

/// `float [4][5]`, or `float (*) [5]`, which is a pointer.
fn array(text: &str, depth: u8) -> Option<(Type, bool)> {
    let mut extents = Vec::new();
    let mut rest = text;
    while let Some(inner) = rest.strip_suffix(']') {
        let (before, extent) = inner.rsplit_once('[')?;
        extents.push(extent.trim().trim_end_matches(['u', 'U', 'l', 'L']).parse().ok()?);
        rest = before.trim_end();
    }
    extents.reverse();
    let pointee = rest.strip_suffix(')').and_then(|rest| rest.trim_end().strip_suffix('*'));
    let pointee = pointee.and_then(|rest| rest.trim_end().strip_suffix('('));
    let (of, constant) = parse(pointee.unwrap_or(rest), depth + 1);
    let array = Type::Array { of: Box::new(of), extents };
    if pointee.is_some() {
        return Some((Type::Pointer { to: Box::new(array), constant }, false));
    }
    Some((array, constant))
}

/// The text without qualifiers, and whether `const` was one of them.
fn without_qualifiers(text: &str) -> (&str, bool) {
    let mut constant = false;
    let mut text = text.trim();
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let behind = |text| {
        let one = |name| str::strip_suffix(text, name).filter(|rest| !rest.ends_with(word));
        QUALIFIERS.iter().find_map(|name| Some((*name, one(*name)?)))
    };
    while let Some((name, rest)) = behind(text) {
        constant |= name == "const";
        text = rest.trim_end();
    }
    // In front, `const` belongs to the innermost type: a text without `*` or `&` at its end.
    let before = |text| {
        let one = |name| str::strip_prefix(text, name).filter(|rest| !rest.starts_with(word));
        QUALIFIERS.iter().find_map(|name| Some((*name, one(*name)?)))
    };
    while let Some((name, rest)) = before(text).filter(|_| !text.ends_with(['*', ']', ')', '&'])) {
        constant |= name == "const";
        text = rest.trim_start();
    }
    (text, constant)
}

/// A type with a single name.
fn base(text: &str) -> Option<Type> {
    if text == "void" {
        return Some(Type::Void);
    }
    if let Some(scalar) = scalar(text) {
        return Some(Type::Scalar(scalar));
    }
    vector(text).or_else(|| complex(text))
}

fn scalar(text: &str) -> Option<Scalar> {
    let int = |bits, signed| Some(Scalar::Int { bits, signed });
    match text {
        "bool" => Some(Scalar::Bool),
        "char" => Some(Scalar::Char),
        "float" => Some(Scalar::Float32),
        "double" => Some(Scalar::Float64),
        "__half" | "half" | "__nv_half" | "_Float16" | "__fp16" => Some(Scalar::Float16),
        "__nv_bfloat16" | "nv_bfloat16" | "__bf16" | "std::bfloat16_t" => Some(Scalar::BFloat16),
        "__nv_fp8_e4m3" => Some(Scalar::Float8E4M3),
        "__nv_fp8_e5m2" => Some(Scalar::Float8E5M2),
        "int8_t" => int(8, true),
        "uint8_t" | "unsigned char" | "char8_t" => int(8, false),
        "int16_t" => int(16, true),
        "uint16_t" | "ushort" | "char16_t" => int(16, false),
        "int32_t" | "wchar_t" => int(32, true),
        "uint32_t" | "uint" | "char32_t" => int(32, false),
        "int64_t" | "ssize_t" | "ptrdiff_t" | "intptr_t" => int(64, true),
        "uint64_t" | "size_t" | "ulong" | "uintptr_t" => int(64, false),
        "__int128" => int(128, true),
        "unsigned __int128" => int(128, false),
        _ => integer(text),
    }
}

/// `unsigned long int`, with its words in any order.
fn integer(text: &str) -> Option<Scalar> {
    let (mut signed, mut bits, mut long) = (None, None, 0);
    let mut words = 0;
    for word in text.split_ascii_whitespace() {
        words += 1;
        match word {
            "signed" if signed.is_none() => signed = Some(true),
            "unsigned" if signed.is_none() => signed = Some(false),
            "char" if bits.is_none() => bits = Some(8),
            "short" if bits.is_none() => bits = Some(16),
            "int" if words < 5 => {}
            "long" if long < 2 => long += 1,
            _ => return None,
        }
    }
    // `long` has 64 bits on every supported platform.
    let bits = if long > 0 { 64 } else { bits.unwrap_or(32) };
    (words > 0).then_some(Scalar::Int { bits, signed: signed.unwrap_or(true) })
}

fn vector(text: &str) -> Option<Type> {
    let of = |element, lanes| Some(Type::Vector { element, lanes });
    match text {
        "__half2" | "half2" | "__nv_half2" => return of(Scalar::Float16, 2),
        "__nv_bfloat162" | "nv_bfloat162" => return of(Scalar::BFloat16, 2),
        "__nv_fp8x2_e4m3" => return of(Scalar::Float8E4M3, 2),
        "__nv_fp8x4_e4m3" => return of(Scalar::Float8E4M3, 4),
        "__nv_fp8x2_e5m2" => return of(Scalar::Float8E5M2, 2),
        "__nv_fp8x4_e5m2" => return of(Scalar::Float8E5M2, 4),
        _ => {}
    }
    // Newer toolkits add the alignment to the names of vectors larger than 16 bytes. It has always been 16.
    let text = text.strip_suffix("_16a").unwrap_or(text);
    let lanes = match text.as_bytes().last()? {
        digit @ b'1'..=b'4' => digit - b'0',
        _ => return None,
    };
    let int = |bits, signed| Scalar::Int { bits, signed };
    let element = match &text[..text.len() - 1] {
        "char" => int(8, true),
        "uchar" => int(8, false),
        "short" => int(16, true),
        "ushort" => int(16, false),
        "int" => int(32, true),
        "uint" => int(32, false),
        "long" | "longlong" => int(64, true),
        "ulong" | "ulonglong" => int(64, false),
        "float" => Scalar::Float32,
        "double" => Scalar::Float64,
        _ => return None,
    };
    of(element, lanes)
}

/// `complex<float>` of a library that stores the two parts one after the other.
fn complex(text: &str) -> Option<Type> {
    let (path, rest) = text.split_once("complex<")?;
    if !["std::", "cuda::", "thrust::", "c10::"].iter().any(|known| path.starts_with(known)) {
        return None;
    }
    let part = scalar(rest.strip_suffix('>')?.trim())?;
    let known =
        matches!(part, Scalar::Float16 | Scalar::BFloat16 | Scalar::Float32 | Scalar::Float64);
    (known && path.ends_with("::")).then_some(Type::Complex(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn types_read_the_same_in_each_spelling() {
        for (text, wanted) in [
            ("float const*", "const float*"),
            ("const float *", "const float*"),
            ("float * const __restrict__", "float*"),
            ("const volatile float* __restrict", "const float*"),
            ("float const* const*", "const float* const*"),
            ("float**", "float**"),
            ("unsigned", "unsigned int"),
            ("uint", "unsigned int"),
            ("long", "long long"),
            ("unsigned long int", "unsigned long long"),
            ("long long unsigned", "unsigned long long"),
            ("signed char", "signed char"),
            ("char", "char"),
            ("uint8_t*", "unsigned char*"),
            ("half", "__half"),
            ("__nv_bfloat162*", "__nv_bfloat162*"),
            ("__nv_fp8_e4m3 const*", "const __nv_fp8_e4m3*"),
            ("ulonglong2", "ulonglong2"),
            ("double4_16a", "double4"),
            ("cuda::std::__4::complex<float>*", "complex<float>*"),
            ("thrust::complex<double>", "complex<double>"),
            ("std::complex<int>", "std::complex<int>"),
            ("mine::complex<float>", "mine::complex<float>"),
            ("struct Particle const*", "const Particle*"),
            ("ns::Pair<int, float const*>", "ns::Pair<int, float const*>"),
            ("float [4][5]", "float[4][5]"),
            ("float const [3]", "float[3]"),
            ("float (*) [4]", "float (*)[4]"),
            ("float const (*) [4]", "const float (*)[4]"),
            ("void (*)(int)", "void (*)(int)"),
            ("float&", "float&"),
            ("int Particle::*", "int Particle::*"),
            ("void*", "void*"),
            ("constant", "constant"),
            ("float5", "float5"),
            ("double4_32a", "double4_32a"),
            ("", ""),
        ] {
            assert_eq!(parse_type(text).to_string(), wanted, "{text}");
        }
    }

    #[test]
    fn only_names_that_are_not_known_are_other() {
        for known in ["unsigned long", "float4", "__half2*", "float[3]", "std::complex<float>"] {
            assert!(!parse_type(known).has_other(), "{known}");
        }
        for unknown in ["Particle", "Particle*", "float&", "void (*)(int)", "short char"] {
            assert!(parse_type(unknown).has_other(), "{unknown}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "text only, and long")]
    fn a_deep_type_ends_in_a_name() {
        let deep = "*".repeat(100_000);
        assert!(parse_type(&deep).has_other());
    }

    #[test]
    fn commas_inside_of_brackets_do_not_split() {
        assert_eq!(
            split_arguments("A<int, B<c, d>>, void (*)(int, float), e"),
            ["A<int, B<c, d>>", "void (*)(int, float)", "e"]
        );
        assert!(split_arguments("  ").is_empty());
        assert_eq!(split_arguments("a,"), ["a", ""]);
    }

    proptest! {
        #[test]
        #[cfg_attr(miri, ignore = "text only, and many cases")]
        fn any_text_is_some_type(text in "[a-z*&<>(),\\[\\]: 0-9_é]{0,40}") {
            let kind = parse_type(&text);
            let _ = (kind.size(), kind.align(), kind.dtype(), kind.to_string());
            let _ = split_arguments(&text);
        }

        #[test]
        #[cfg_attr(miri, ignore = "text only, and many cases")]
        fn a_known_type_reads_back_as_it_is_written(
            base in prop::sample::select(vec!["float", "int", "unsigned char", "float4", "__half2", "bool", "double"]),
            levels in prop::collection::vec(any::<bool>(), 0..5),
        ) {
            let mut kind = parse_type(base);
            for constant in levels {
                kind = Type::Pointer { to: Box::new(kind), constant };
            }
            prop_assert_eq!(parse_type(&kind.to_string()), kind);
        }
    }
}
