//! Comparisons and selections.
#![forbid(unsafe_code)]

use super::Decoder;
use super::table::LARGE_FLOATS;
use crate::ptx::ast::{Combine, Compare, Op, Operand, Reg, Test, Type};
use crate::ptx::error::Result;

const COMPARED: &[Type] = &[
    Type::B16,
    Type::B32,
    Type::B64,
    Type::U16,
    Type::U32,
    Type::U64,
    Type::S16,
    Type::S32,
    Type::S64,
    Type::F16,
    Type::BF16,
    Type::F32,
    Type::F64,
];
const CHOSEN: &[Type] = &[
    Type::B16,
    Type::B32,
    Type::B64,
    Type::U16,
    Type::U32,
    Type::U64,
    Type::S16,
    Type::S32,
    Type::S64,
    Type::F32,
    Type::F64,
];
const SET: &[Type] =
    &[Type::U32, Type::S32, Type::F32, Type::U16, Type::S16, Type::F16, Type::BF16];
const COMBINES: &[(&str, Combine)] =
    &[("and", Combine::And), ("or", Combine::Or), ("xor", Combine::Xor)];

/// The purpose of a comparison.
#[derive(Clone, Copy, PartialEq, Eq)]
enum For {
    All,
    Order,
    Unsigned,
    Floats,
}

const COMPARES: &[(&str, (Compare, For))] = &[
    ("eq", (Compare::Eq, For::All)),
    ("ne", (Compare::Ne, For::All)),
    ("lt", (Compare::Lt, For::Order)),
    ("le", (Compare::Le, For::Order)),
    ("gt", (Compare::Gt, For::Order)),
    ("ge", (Compare::Ge, For::Order)),
    ("lo", (Compare::Lt, For::Unsigned)),
    ("ls", (Compare::Le, For::Unsigned)),
    ("hi", (Compare::Gt, For::Unsigned)),
    ("hs", (Compare::Ge, For::Unsigned)),
    ("equ", (Compare::UnEq, For::Floats)),
    ("neu", (Compare::UnNe, For::Floats)),
    ("ltu", (Compare::UnLt, For::Floats)),
    ("leu", (Compare::UnLe, For::Floats)),
    ("gtu", (Compare::UnGt, For::Floats)),
    ("geu", (Compare::UnGe, For::Floats)),
    ("num", (Compare::Num, For::Floats)),
    ("nan", (Compare::Nan, For::Floats)),
];

const TESTS: &[(&str, Test)] = &[
    ("finite", Test::Finite),
    ("infinite", Test::Infinite),
    ("number", Test::Number),
    ("notanumber", Test::NotANumber),
    ("normal", Test::Normal),
    ("subnormal", Test::Subnormal),
];

impl Decoder<'_, '_> {
    fn compare(&mut self, ty: Type) -> Result<(Compare, bool)> {
        let (compare, wanted) = self.demand(COMPARES)?;
        let flush = self.flag("ftz");
        let bits = matches!(ty, Type::B16 | Type::B32 | Type::B64);
        let fits = match wanted {
            For::All => true,
            For::Order => !bits,
            For::Unsigned => matches!(ty, Type::U16 | Type::U32 | Type::U64),
            For::Floats => ty.is_float(),
        };
        if !fits || flush && !ty.is_float() {
            return Err(self.wrong("has a word that its type cannot have"));
        }
        Ok((compare, flush))
    }

    /// The halves of a pair, in registers that no text can name.
    fn halves(&mut self, number: usize, pair: Type, ty: Type) -> Result<[Reg; 2]> {
        let from = self.read(number, pair)?;
        let at = self.name.at;
        let halves = [
            self.names.add_register("low half", ty, at)?,
            self.names.add_register("high half", ty, at)?,
        ];
        self.before(Op::Unpack { ty: Type::B32, to: halves.map(Some).to_vec(), from });
        Ok(halves)
    }
}

/// `setp`.
pub(super) fn set_predicate(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    if decoder.types.contains(&Type::F16x2) || decoder.types.contains(&Type::BF16x2) {
        return set_predicates_of_pairs(decoder);
    }
    let ty = decoder.ty(COMPARED)?;
    let (compare, flush) = decoder.compare(ty)?;
    let combine = decoder.choice(COMBINES);
    let count = if combine.is_some() { 4 } else { 3 };
    decoder.arity(count, count)?;
    let (to, opposite) = decoder.write_pair(0, Type::Pred)?;
    let (left, right) = (decoder.read(1, ty)?, decoder.read(2, ty)?);
    let combine = match combine {
        Some(combine) => Some((combine, decoder.predicate(3)?)),
        None => None,
    };
    Ok(Op::SetPredicate { compare, ty, flush, combine, to, opposite, left, right })
}

/// `setp.f16x2 p|q`: the low halves to the first and the high halves to the second, as two comparisons.
fn set_predicates_of_pairs(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    let pair = decoder.ty(&[Type::F16x2, Type::BF16x2])?;
    let ty = if pair == Type::F16x2 { Type::F16 } else { Type::BF16 };
    let (compare, flush) = decoder.compare(ty)?;
    // The first comparison could change what a guard or the second one reads.
    if decoder.guarded || decoder.choice(COMBINES).is_some() {
        return Err(decoder.unsupported());
    }
    decoder.arity(3, 3)?;
    let (low, high) = decoder.write_pair(0, Type::Pred)?;
    let left = decoder.halves(1, pair, ty)?;
    let right = decoder.halves(2, pair, ty)?;
    let set = |to, left, right| Op::SetPredicate {
        compare,
        ty,
        flush,
        combine: None,
        to,
        opposite: None,
        left: Operand::Register(left),
        right: Operand::Register(right),
    };
    decoder.before(set(low, left[0], right[0]));
    Ok(set(high, left[1], right[1]))
}

/// `set`.
pub(super) fn set_number(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    if decoder.choice(COMBINES).is_some() || decoder.types.contains(&Type::F16x2) {
        return Err(decoder.unsupported());
    }
    let (to_ty, ty) = decoder.two_types(SET, COMPARED)?;
    let (compare, flush) = decoder.compare(ty)?;
    decoder.arity(3, 3)?;
    let to = decoder.write(0, to_ty)?;
    Ok(Op::SetNumber {
        compare,
        to_ty,
        ty,
        flush,
        to,
        left: decoder.read(1, ty)?,
        right: decoder.read(2, ty)?,
    })
}

/// `selp`.
pub(super) fn select(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    let ty = decoder.ty(CHOSEN)?;
    decoder.arity(4, 4)?;
    let to = decoder.write(0, ty)?;
    let (yes, no) = (decoder.read(1, ty)?, decoder.read(2, ty)?);
    Ok(Op::Select { ty, to, yes, no, choose: decoder.predicate(3)? })
}

/// `testp`.
pub(super) fn test(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    let ty = decoder.ty(LARGE_FLOATS)?;
    let test = decoder.demand(TESTS)?;
    decoder.arity(2, 2)?;
    Ok(Op::TestFloat { test, ty, to: decoder.write(0, Type::Pred)?, from: decoder.read(1, ty)? })
}
