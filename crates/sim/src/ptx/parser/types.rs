//! The names of types and state spaces.
#![forbid(unsafe_code)]

use crate::ptx::ast::{Space, Type};

/// Every type by its word.
pub(super) fn type_of(word: &str) -> Option<Type> {
    Some(match word {
        "pred" => Type::Pred,
        "b8" => Type::B8,
        "b16" => Type::B16,
        "b32" => Type::B32,
        "b64" => Type::B64,
        "u8" => Type::U8,
        "u16" => Type::U16,
        "u32" => Type::U32,
        "u64" => Type::U64,
        "s8" => Type::S8,
        "s16" => Type::S16,
        "s32" => Type::S32,
        "s64" => Type::S64,
        "f16" => Type::F16,
        "f16x2" => Type::F16x2,
        "bf16" => Type::BF16,
        "bf16x2" => Type::BF16x2,
        "f32" => Type::F32,
        "f64" => Type::F64,
        _ => return None,
    })
}

/// The word for a type.
pub(super) const fn word_of(ty: Type) -> &'static str {
    match ty {
        Type::Pred => "pred",
        Type::B8 => "b8",
        Type::B16 => "b16",
        Type::B32 => "b32",
        Type::B64 => "b64",
        Type::U8 => "u8",
        Type::U16 => "u16",
        Type::U32 => "u32",
        Type::U64 => "u64",
        Type::S8 => "s8",
        Type::S16 => "s16",
        Type::S32 => "s32",
        Type::S64 => "s64",
        Type::F16 => "f16",
        Type::F16x2 => "f16x2",
        Type::BF16 => "bf16",
        Type::BF16x2 => "bf16x2",
        Type::F32 => "f32",
        Type::F64 => "f64",
    }
}

/// Every state space by its word.
pub(super) fn space_of(word: &str) -> Option<Space> {
    Some(match word {
        "global" => Space::Global,
        "const" => Space::Const,
        "shared" | "shared::cta" => Space::Shared,
        "local" => Space::Local,
        "param" | "param::entry" | "param::func" => Space::Param,
        _ => return None,
    })
}

/// The word for a state space.
pub(super) const fn word_of_space(space: Space) -> &'static str {
    match space {
        Space::Generic => "generic",
        Space::Global => "global",
        Space::Const => "const",
        Space::Shared => "shared",
        Space::Local => "local",
        Space::Param => "param",
    }
}

/// Words of PTX that the tree does not represent.
const WITHOUT_MEANING: &[&str] = &[
    "abs",
    "async",
    "b128",
    "b4e",
    "bulk",
    "cluster",
    "e2m1x2",
    "e2m3x2",
    "e3m2x2",
    "e4m3",
    "e4m3x2",
    "e5m2",
    "e5m2x2",
    "ecl",
    "ecr",
    "f32x2",
    "f4e",
    "mbarrier_init",
    "multicast",
    "pack",
    "proxy",
    "rc16",
    "rc8",
    "relu",
    "rna",
    "rs",
    "s16x2",
    "samplerref",
    "satfinite",
    "shared::cluster",
    "surfref",
    "tensormap",
    "texref",
    "tf32",
    "u16x2",
    "u8x4",
    "ue8m0x2",
    "v8",
    "xorsign",
];

/// Whether a word of an instruction is PTX that is not supported.
pub(super) fn is_unsupported(instruction: &str, word: &str) -> bool {
    let means = match instruction {
        "mma" => matches!(word, "satfinite" | "tf32"),
        "cp" => word == "async",
        "cvt" => matches!(word, "rna" | "tf32"),
        _ => false,
    };
    !means && WITHOUT_MEANING.binary_search(&word).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_without_meaning_are_in_order() {
        assert!(WITHOUT_MEANING.is_sorted());
    }

    #[test]
    fn the_word_of_a_type_is_its_own() {
        for word in ["pred", "b8", "u16", "s32", "f16x2", "bf16", "f64"] {
            assert_eq!(type_of(word).map(word_of), Some(word));
        }
    }
}
