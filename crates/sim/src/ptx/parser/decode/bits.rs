//! Shifts, fields and tables of bits.
#![forbid(unsafe_code)]

use super::Decoder;
use super::table::{BITS, LARGE_BITS, LARGE_INTEGERS, WORD_INTEGERS};
use crate::ptx::ast::{Binary, Float, Op, Operand, Type};
use crate::ptx::error::Result;

const SHIFTED: &[Type] = &[
    Type::B16,
    Type::B32,
    Type::B64,
    Type::U16,
    Type::U32,
    Type::U64,
    Type::S16,
    Type::S32,
    Type::S64,
];

impl Decoder<'_, '_> {
    fn shift(&mut self, op: Binary, types: &[Type]) -> Result<Op> {
        let ty = self.ty(types)?;
        self.arity(3, 3)?;
        let to = self.write(0, ty)?;
        let (left, right) = (self.read(1, ty)?, self.read(2, Type::U32)?);
        Ok(Op::Binary { op, ty, float: Float::default(), to, left, right })
    }

    fn three_words(&mut self) -> Result<[Operand; 3]> {
        Ok([self.read(1, Type::B32)?, self.read(2, Type::B32)?, self.read(3, Type::B32)?])
    }
}

/// `shl`.
pub(super) fn shift_left(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    decoder.shift(Binary::Shl, BITS)
}

/// `shr`.
pub(super) fn shift_right(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    decoder.shift(Binary::Shr, SHIFTED)
}

/// `shf`.
pub(super) fn funnel_shift(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    decoder.ty(&[Type::B32])?;
    let left = decoder.demand(&[("l", true), ("r", false)])?;
    let wrap = decoder.demand(&[("wrap", true), ("clamp", false)])?;
    decoder.arity(4, 4)?;
    let to = decoder.write(0, Type::B32)?;
    Ok(Op::FunnelShift { left, wrap, to, operands: decoder.three_words()? })
}

/// `prmt`.
pub(super) fn permute(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    decoder.ty(&[Type::B32])?;
    decoder.arity(4, 4)?;
    let to = decoder.write(0, Type::B32)?;
    Ok(Op::Permute { to, operands: decoder.three_words()? })
}

/// `lop3`.
pub(super) fn logic(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    if decoder.choice(&[("and", ()), ("or", ())]).is_some() {
        return Err(decoder.unsupported());
    }
    decoder.ty(&[Type::B32])?;
    decoder.arity(5, 5)?;
    let to = decoder.write(0, Type::B32)?;
    let operands = decoder.three_words()?;
    let table = match decoder.read(4, Type::B32)? {
        Operand::Integer(value) => u8::try_from(value).ok(),
        _ => None,
    };
    let table = table.ok_or_else(|| decoder.wrong("wants a number from 0 to 255 at the end"))?;
    Ok(Op::Logic3 { table, to, operands })
}

/// `dp4a`.
pub(super) fn dot(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    let (left, right) = decoder.two_types(WORD_INTEGERS, WORD_INTEGERS)?;
    decoder.arity(4, 4)?;
    let to = decoder.write(0, Type::B32)?;
    let signed = (left.is_signed(), right.is_signed());
    Ok(Op::Dot4 { signed, to, operands: decoder.three_words()? })
}

/// `bfe`.
pub(super) fn extract(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    let ty = decoder.ty(LARGE_INTEGERS)?;
    decoder.arity(4, 4)?;
    let to = decoder.write(0, ty)?;
    let operands = [decoder.read(1, ty)?, decoder.read(2, Type::U32)?, decoder.read(3, Type::U32)?];
    Ok(Op::ExtractBits { ty, to, operands })
}

/// `bfi`.
pub(super) fn insert(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    let ty = decoder.ty(LARGE_BITS)?;
    decoder.arity(5, 5)?;
    let to = decoder.write(0, ty)?;
    let operands = [
        decoder.read(1, ty)?,
        decoder.read(2, ty)?,
        decoder.read(3, Type::U32)?,
        decoder.read(4, Type::U32)?,
    ];
    Ok(Op::InsertBits { ty, to, operands })
}

/// `bmsk`.
pub(super) fn mask(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    decoder.ty(&[Type::B32])?;
    let wrap = decoder.demand(&[("wrap", true), ("clamp", false)])?;
    decoder.arity(3, 3)?;
    let to = decoder.write(0, Type::B32)?;
    Ok(Op::Mask {
        wrap,
        to,
        start: decoder.read(1, Type::U32)?,
        width: decoder.read(2, Type::U32)?,
    })
}

/// `bfind`.
pub(super) fn find(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    let ty = decoder.ty(LARGE_INTEGERS)?;
    let shift_amount = decoder.flag("shiftamt");
    decoder.arity(2, 2)?;
    let to = decoder.write(0, Type::U32)?;
    Ok(Op::FindBit { ty, shift_amount, to, from: decoder.read(1, ty)? })
}
