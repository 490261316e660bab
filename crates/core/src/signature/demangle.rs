//! Demangled names, in C++ notation.
#![forbid(unsafe_code)]

use std::fmt;

use cpp_demangle::{DemangleOptions, DemangleWrite, ParseOptions, Symbol};

use crate::signature::{Type, parse_type, split_arguments};

/// Substitutions can make a short symbol very long.
const LONGEST: usize = 1 << 16;
const MOST_NESTED: u32 = 160;

/// A string that refuses to grow beyond a limit.
#[derive(Default)]
struct Bounded(String);

impl DemangleWrite for Bounded {
    fn write_string(&mut self, part: &str) -> fmt::Result {
        if self.0.len() + part.len() > LONGEST {
            return Err(fmt::Error);
        }
        self.0.push_str(part);
        Ok(())
    }
}

/// The C++ name of a mangled symbol, with parameters but without the return type.
#[must_use]
pub fn demangled(symbol: &str) -> Option<String> {
    written(symbol, options())
}

fn options() -> DemangleOptions {
    DemangleOptions::new()
        .no_return_type()
        .hide_expression_literal_types()
        .recursion_limit(MOST_NESTED)
}

fn written(symbol: &str, options: DemangleOptions) -> Option<String> {
    if !symbol.starts_with("_Z") || symbol.len() > LONGEST {
        return None;
    }
    let limits = ParseOptions::default().recursion_limit(MOST_NESTED);
    let parsed = Symbol::new_with_options(symbol, &limits).ok()?;
    let mut out = Bounded::default();
    parsed.structured_demangle(&mut out, &options).ok()?;
    Some(closed(&out.0))
}

/// The text with `> >` written as `>>`.
fn closed(text: &str) -> String {
    let bytes = text.as_bytes();
    let between = |at: usize| {
        bytes[at] == b' ' && at > 0 && bytes[at - 1] == b'>' && bytes.get(at + 1) == Some(&b'>')
    };
    text.char_indices().filter(|(at, _)| !between(*at)).map(|(_, c)| c).collect()
}

/// A kernel's name without parameters, and the parameters' types if the symbol encodes them.
#[must_use]
pub fn kernel(symbol: &str) -> (Box<str>, Option<Vec<Type>>) {
    let parts = demangled(symbol).zip(written(symbol, options().no_params()));
    let Some((full, name)) = parts else { return (symbol.into(), None) };
    let list = full
        .strip_prefix(&name)
        .and_then(|rest| rest.strip_prefix('('))
        .and_then(|rest| rest.strip_suffix(')'));
    let types = list.map(|list| match list.trim() {
        "void" | "" => Vec::new(),
        list => split_arguments(list).into_iter().map(parse_type).collect(),
    });
    (plain(&name), types)
}

/// A variable's name.
#[must_use]
pub fn variable_name(symbol: &str) -> Box<str> {
    demangled(symbol).map_or_else(|| symbol.into(), |name| plain(&name))
}

/// The name without namespaces that a source cannot name.
fn plain(name: &str) -> Box<str> {
    let name = name.replace("(anonymous namespace)::", "");
    // NVRTC puts names without linkage into namespaces of its own.
    let mut parts: Vec<&str> = name.split("::").collect();
    parts.retain(|part| !part.starts_with("_INTERNAL_") && !part.starts_with("_GLOBAL__N_"));
    parts.join("::").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(symbol: &str) -> String {
        let (name, types) = kernel(symbol);
        let types = types.map(|types| types.iter().map(Type::to_string).collect::<Vec<_>>());
        format!("{name} {}", types.map_or_else(|| "?".to_owned(), |types| types.join(", ")))
    }

    #[test]
    fn a_kernel_tells_its_types_by_its_symbol() {
        assert_eq!(
            shown("_Z9vectorAddPKfS0_Pfi"),
            "vectorAdd const float*, const float*, float*, int"
        );
        assert_eq!(shown("vectorAdd"), "vectorAdd ?");
        assert_eq!(shown("_Z5emptyv"), "empty ");
        assert_eq!(shown("_ZN2ns5scaleIfEEvPT_S1_"), "ns::scale<float> float*, float");
        assert_eq!(shown("_ZN2ns1kILi3EEEvPf"), "ns::k<3> float*");
        assert_eq!(shown("_Z1fP6__halfm6float4"), "f __half*, unsigned long long, float4");
        assert_eq!(shown("_ZN12_GLOBAL__N_12akEPi"), "ak int*");
        assert_eq!(shown("_ZN38_GLOBAL__N__00000000_10_my_file_cu_add2akEPi"), "ak int*");
        assert_eq!(shown("_ZL2skPf"), "sk float*");
        assert_eq!(shown("_Z1fPFviE"), "f void (*)(int)");
        assert_eq!(
            shown("_Z5scaleIfEvN2TrIT_E4typeES1_i4Mode"),
            "scale<float> Tr<float>::type, float, int, Mode"
        );
        assert_eq!(
            shown("_Z1fISt4pairIiS0_IifEEEvPT_"),
            "f<std::pair<int, std::pair<int, float>>> std::pair<int, std::pair<int, float>>*"
        );
    }

    #[test]
    fn variables_are_named_without_what_cannot_be_said() {
        assert_eq!(&*variable_name("_ZN2ns7counterE"), "ns::counter");
        assert_eq!(&*variable_name("counter"), "counter");
        let hidden = "_ZN36_INTERNAL_00000000_10_my_file_cu_add38_GLOBAL__N__00000000_10_my_file_cu_add4anonE";
        assert_eq!(&*variable_name(hidden), "anon");
    }

    #[test]
    #[cfg_attr(miri, ignore = "text only, and long")]
    fn a_name_that_explodes_is_left_as_it_is() {
        // Each type is a pair of the one before.
        let mut symbol = "_Z1f1AIiiE".to_owned();
        for level in 0..40 {
            let last = if level == 0 {
                "S0_".to_owned()
            } else {
                format!("S{}_", char::from(b'0' + u8::try_from(level.min(9)).unwrap()))
            };
            symbol += &format!("S_I{last}{last}E");
        }
        let (name, _) = kernel(&symbol);
        assert_eq!(*name, *symbol);
    }

    proptest! {
        #[test]
        #[cfg_attr(miri, ignore = "text only, and many cases")]
        fn any_symbol_has_a_name(symbol in "_Z[A-Za-z0-9_]{0,60}") {
            let _ = kernel(&symbol);
            let _ = variable_name(&symbol);
        }
    }
}
