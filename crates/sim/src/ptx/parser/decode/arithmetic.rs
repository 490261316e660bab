//! Arithmetic and mathematical functions.
#![forbid(unsafe_code)]

use super::Decoder;
use super::table::{FLOATS, INTEGERS, LARGE_FLOATS, LARGE_INTEGERS, NUMBERS, WORD_INTEGERS};
use crate::ptx::ast::{Binary, Float, Op, Rounding, Ternary, Type, Unary};
use crate::ptx::error::Result;

const ROUNDINGS: &[(&str, Rounding)] = &[
    ("rn", Rounding::Nearest),
    ("rz", Rounding::Zero),
    ("rm", Rounding::Down),
    ("rp", Rounding::Up),
];
const SUM_WORDS: &[&str] = &["rn", "rz", "rm", "rp", "ftz", "sat"];

/// The part of a product.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Low,
    High,
    Wide,
}

const PARTS: &[(&str, Part)] = &[("lo", Part::Low), ("hi", Part::High), ("wide", Part::Wide)];

/// The type of the full product.
const fn wide(ty: Type) -> Type {
    match ty {
        Type::U16 => Type::U32,
        Type::S16 => Type::S32,
        Type::U32 => Type::U64,
        _ => Type::S64,
    }
}

impl Decoder<'_, '_> {
    /// Takes the floating-point modifiers that an instruction may have.
    fn float(&mut self, ty: Type, allowed: &[&str]) -> Result<Float> {
        let mut float = Float::default();
        for word in allowed {
            if !self.flag(word) {
                continue;
            }
            let rounding =
                ROUNDINGS.iter().find(|(name, _)| name == word).map(|(_, rounding)| *rounding);
            let exclusive = rounding.is_some() || matches!(*word, "approx" | "full");
            if exclusive && (float.rounding.is_some() || float.approximate) {
                return Err(self.wrong("says twice how it is rounded"));
            }
            match *word {
                "ftz" => float.flush = true,
                "sat" => float.saturate = true,
                "NaN" => float.keep_nan = true,
                "approx" | "full" => float.approximate = true,
                _ => float.rounding = rounding,
            }
        }
        let only_floats =
            float.rounding.is_some() || float.flush || float.approximate || float.keep_nan;
        if !ty.is_float() && (only_floats || float.saturate && ty != Type::S32) {
            return Err(self.wrong("has a word that its type cannot have"));
        }
        Ok(float)
    }

    /// Requires a rounding mode, where PTX does.
    fn rounded(&self, float: Float) -> Result<Float> {
        if float.rounding.is_some() || float.approximate {
            return Ok(float);
        }
        Err(self.wrong("does not say how it is rounded, as `.rn` or `.approx`"))
    }

    pub(super) fn one(&mut self, op: Unary, types: &[Type], words: &[&str]) -> Result<Op> {
        let ty = self.ty(types)?;
        let mut float = self.float(ty, words)?;
        match op {
            Unary::Sqrt | Unary::Rcp => float = self.rounded(float)?,
            Unary::Rsqrt | Unary::Sin | Unary::Cos | Unary::Ex2 | Unary::Lg2 | Unary::Tanh
                if !float.approximate =>
            {
                return Err(self.wrong("wants `.approx`"));
            }
            _ => {}
        }
        self.arity(2, 2)?;
        let result = if matches!(op, Unary::Popc | Unary::Clz) { Type::U32 } else { ty };
        Ok(Op::Unary { op, ty, float, to: self.write(0, result)?, from: self.read(1, ty)? })
    }

    pub(super) fn two(&mut self, op: Binary, types: &[Type], words: &[&str]) -> Result<Op> {
        let ty = self.ty(types)?;
        let mut float = self.float(ty, words)?;
        if op == Binary::Div && ty.is_float() {
            float = self.rounded(float)?;
        }
        self.binary(op, ty, float)
    }

    fn binary(&mut self, op: Binary, ty: Type, float: Float) -> Result<Op> {
        self.arity(3, 3)?;
        let result = if op == Binary::MulWide { wide(ty) } else { ty };
        let to = self.write(0, result)?;
        Ok(Op::Binary { op, ty, float, to, left: self.read(1, ty)?, right: self.read(2, ty)? })
    }

    pub(super) fn three(&mut self, op: Ternary, types: &[Type], words: &[&str]) -> Result<Op> {
        let ty = self.ty(types)?;
        let mut float = self.float(ty, words)?;
        if op == Ternary::Fma {
            float = self.rounded(float)?;
        }
        self.ternary(op, ty, float)
    }

    fn ternary(&mut self, op: Ternary, ty: Type, float: Float) -> Result<Op> {
        self.arity(4, 4)?;
        let result = if op == Ternary::MadWide { wide(ty) } else { ty };
        let to = self.write(0, result)?;
        let operands = [self.read(1, ty)?, self.read(2, ty)?, self.read(3, result)?];
        Ok(Op::Ternary { op, ty, float, to, operands })
    }

    /// The part of a product, which is mandatory for integers.
    fn part(&mut self, ty: Type) -> Result<Part> {
        let part = self.demand(PARTS)?;
        if part == Part::Wide && ty.bytes() == 8 {
            return Err(self.wrong("has a result wider than registers are"));
        }
        Ok(part)
    }

    fn carry(&mut self, subtract: bool, reads: bool) -> Result<Op> {
        let ty = self.ty(LARGE_INTEGERS)?;
        let writes = self.flag("cc");
        self.arity(3, 3)?;
        let to = self.write(0, ty)?;
        let (left, right) = (self.read(1, ty)?, self.read(2, ty)?);
        Ok(Op::Carry { subtract, ty, reads, writes, to, left, right })
    }

    fn mad_carry(&mut self, reads: bool) -> Result<Op> {
        let ty = self.ty(LARGE_INTEGERS)?;
        let writes = self.flag("cc");
        let high = self.demand(&[("lo", false), ("hi", true)])?;
        self.arity(4, 4)?;
        let to = self.write(0, ty)?;
        let operands = [self.read(1, ty)?, self.read(2, ty)?, self.read(3, ty)?];
        Ok(Op::MadCarry { high, ty, reads, writes, to, operands })
    }

    fn has(&self, wanted: &str) -> bool {
        self.words.iter().any(|word| word.text == wanted)
    }

    fn sum(&mut self, op: Binary) -> Result<Op> {
        if self.has("cc") {
            return self.carry(op == Binary::Sub, false);
        }
        self.two(op, NUMBERS, SUM_WORDS)
    }
}

/// `add`, `add.cc`.
pub(super) fn add(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    decoder.sum(Binary::Add)
}

/// `sub`, `sub.cc`.
pub(super) fn sub(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    decoder.sum(Binary::Sub)
}

/// `addc`.
pub(super) fn add_with_carry(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    decoder.carry(false, true)
}

/// `subc`.
pub(super) fn subtract_with_carry(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    decoder.carry(true, true)
}

/// `mul`.
pub(super) fn mul(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    let ty = decoder.ty(NUMBERS)?;
    if ty.is_float() {
        return decoder.two(Binary::Mul, FLOATS, SUM_WORDS);
    }
    let op = match decoder.part(ty)? {
        Part::Low => Binary::Mul,
        Part::High => Binary::MulHi,
        Part::Wide => Binary::MulWide,
    };
    decoder.two(op, INTEGERS, &[])
}

/// `mad`, `mad.cc`.
pub(super) fn mad(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    if decoder.has("cc") {
        return decoder.mad_carry(false);
    }
    if decoder.types.iter().any(|ty| ty.is_float()) {
        return decoder.three(Ternary::Fma, LARGE_FLOATS, SUM_WORDS);
    }
    let ty = decoder.ty(INTEGERS)?;
    let (op, words): (_, &[&str]) = match decoder.part(ty)? {
        Part::Low => (Ternary::Mad, &[]),
        Part::High => (Ternary::MadHi, &["sat"]),
        Part::Wide => (Ternary::MadWide, &[]),
    };
    decoder.three(op, INTEGERS, words)
}

/// `madc`.
pub(super) fn mad_with_carry(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    decoder.mad_carry(true)
}

/// Refuses `mul24.hi` and `mad24.hi`, and takes `.lo`.
fn low_24(decoder: &mut Decoder<'_, '_>) -> Result<()> {
    if decoder.has("hi") {
        return Err(decoder.unsupported());
    }
    decoder.must("lo")
}

/// `mul24.lo`.
pub(super) fn mul_24(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    low_24(decoder)?;
    decoder.two(Binary::Mul24, WORD_INTEGERS, &[])
}

/// `mad24.lo`.
pub(super) fn mad_24(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    low_24(decoder)?;
    decoder.three(Ternary::Mad24, WORD_INTEGERS, &[])
}
