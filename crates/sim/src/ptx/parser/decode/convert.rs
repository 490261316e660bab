//! Moves and conversions.
#![forbid(unsafe_code)]

use super::Decoder;
use super::operands::Width;
use crate::ptx::ast::{Float, Op, Rounding, Space, Type, Unary};
use crate::ptx::error::Result;

const MOVED: &[Type] = &[
    Type::Pred,
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
    Type::F16x2,
    Type::BF16,
    Type::BF16x2,
    Type::F32,
    Type::F64,
];
const CONVERTED: &[Type] = &[
    Type::U8,
    Type::U16,
    Type::U32,
    Type::U64,
    Type::S8,
    Type::S16,
    Type::S32,
    Type::S64,
    Type::F16,
    Type::BF16,
    Type::F32,
    Type::F64,
    Type::F16x2,
    Type::BF16x2,
];
const ADDRESSES: &[Type] = &[Type::U32, Type::U64];
const SPACES: &[(&str, Space)] = &[
    ("global", Space::Global),
    ("const", Space::Const),
    ("shared", Space::Shared),
    ("shared::cta", Space::Shared),
    ("local", Space::Local),
    ("param", Space::Param),
    ("param::entry", Space::Param),
];
const ROUNDINGS: &[(&str, Rounding)] = &[
    ("rn", Rounding::Nearest),
    ("rz", Rounding::Zero),
    ("rm", Rounding::Down),
    ("rp", Rounding::Up),
    ("rni", Rounding::IntegerNearest),
    ("rzi", Rounding::IntegerZero),
    ("rmi", Rounding::IntegerDown),
    ("rpi", Rounding::IntegerUp),
];

/// The type of one of several parts.
const fn part_of(ty: Type, parts: usize) -> Option<Type> {
    match (ty.bytes(), parts) {
        (2, 2) | (4, 4) => Some(Type::B8),
        (4, 2) | (8, 4) => Some(Type::B16),
        (8, 2) => Some(Type::B32),
        _ => None,
    }
}

/// `mov`.
pub(super) fn mov(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    let ty = decoder.ty(MOVED)?;
    decoder.arity(2, 2)?;
    if decoder.is_vector(1) {
        let to = decoder.write(0, ty)?;
        let part = decoder.element(1, ty)?;
        return Ok(Op::Pack { ty, to, from: decoder.read_many(1, part, Width::Same)? });
    }
    if decoder.is_vector(0) {
        let part = decoder.element(0, ty)?;
        let to = decoder.write_many(0, part, Width::Same)?;
        return Ok(Op::Unpack { ty, to, from: decoder.read(1, ty)? });
    }
    Ok(Op::Move { ty, to: decoder.write(0, ty)?, from: decoder.read(1, ty)? })
}

/// `cvta`.
pub(super) fn address(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    let ty = decoder.ty(ADDRESSES)?;
    let from_generic = decoder.flag("to");
    let space = decoder.demand(SPACES)?;
    decoder.arity(2, 2)?;
    let (to, from) = (decoder.write(0, ty)?, decoder.read(1, ty)?);
    Ok(if from_generic {
        Op::FromGeneric { space, ty, to, from }
    } else {
        Op::ToGeneric { space, ty, to, from }
    })
}

/// `isspacep`.
pub(super) fn is_space(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    let space = decoder.demand(SPACES)?;
    decoder.no_type()?;
    decoder.arity(2, 2)?;
    let to = decoder.write(0, Type::Pred)?;
    Ok(Op::IsSpace { space, to, from: decoder.read_width(1, Type::U32, Width::AtLeast)? })
}

/// `cvt.rna.tf32.f32`: a float with the digits that `mma` takes.
fn to_tf32(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    decoder.newer(80)?;
    decoder.must("rna")?;
    let ty = decoder.ty(&[Type::F32])?;
    decoder.arity(2, 2)?;
    let (to, from) = (decoder.write(0, Type::B32)?, decoder.read(1, ty)?);
    Ok(Op::Unary { op: Unary::ToTf32, ty, float: Float::default(), to, from })
}

/// `cvt`.
pub(super) fn convert(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    if decoder.flag("tf32") {
        return to_tf32(decoder);
    }
    let (to_ty, from_ty) = decoder.two_types(CONVERTED, CONVERTED)?;
    let float = Float {
        rounding: decoder.choice(ROUNDINGS),
        flush: decoder.flag("ftz"),
        saturate: decoder.flag("sat"),
        ..Float::default()
    };
    if from_ty.is_float() || to_ty.is_float() {
        decoder.check_rounding(to_ty, from_ty, float)?;
    } else if float.rounding.is_some() || float.flush {
        return Err(decoder.wrong("has a word that its types cannot have"));
    }
    if matches!(to_ty, Type::F16x2 | Type::BF16x2) {
        decoder.allowed(from_ty, &[Type::F32])?;
        decoder.arity(3, 3)?;
        let to = decoder.write(0, to_ty)?;
        return Ok(Op::ConvertPair {
            to_ty,
            float,
            to,
            high: decoder.read(1, from_ty)?,
            low: decoder.read(2, from_ty)?,
        });
    }
    if matches!(from_ty, Type::F16x2 | Type::BF16x2) {
        return Err(decoder.wrong("cannot convert a pair"));
    }
    decoder.arity(2, 2)?;
    let to = decoder.write_width(0, to_ty, Width::AtLeast)?;
    let from = decoder.read_width(1, from_ty, Width::AtLeast)?;
    Ok(Op::Convert { to_ty, from_ty, float, to, from })
}

impl Decoder<'_, '_> {
    /// Requires a rounding mode if the conversion is inexact, and an integer one if an integer is involved.
    fn check_rounding(&self, to: Type, from: Type, float: Float) -> Result<()> {
        let integer = matches!(
            float.rounding,
            Some(
                Rounding::IntegerNearest
                    | Rounding::IntegerZero
                    | Rounding::IntegerDown
                    | Rounding::IntegerUp
            )
        );
        let scalar = |ty: Type| match ty {
            Type::F16x2 => Type::F16,
            Type::BF16x2 => Type::BF16,
            other => other,
        };
        let (to, from) = (scalar(to), scalar(from));
        let narrows = to != from && to.bytes() <= from.bytes();
        match (to.is_float(), from.is_float()) {
            (false, true) if !integer => Err(self.wrong("wants a rounding to integers, as `.rzi`")),
            (true, false) if float.rounding.is_none() || integer => {
                Err(self.wrong("wants a rounding, as `.rn`"))
            }
            (true, true) if narrows && (float.rounding.is_none() || integer) => {
                Err(self.wrong("wants a rounding, as `.rn`"))
            }
            (true, true) if to == from && float.rounding.is_some() && !integer => {
                Err(self.wrong("has nothing to round"))
            }
            _ => Ok(()),
        }
    }

    /// The element type of a vector that makes up `ty`.
    fn element(&self, number: usize, ty: Type) -> Result<Type> {
        part_of(ty, self.vector_length(number))
            .ok_or_else(|| self.wrong("does not fit as many parts"))
    }
}
