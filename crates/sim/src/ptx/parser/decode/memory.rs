//! Loads, stores, atomics and fences.
#![forbid(unsafe_code)]

use super::Decoder;
use super::operands::Width;
use crate::ptx::ast::{Address, Atomic, Op, Operand, Space, Strength, Type};
use crate::ptx::error::Result;

const STORED: &[Type] = &[
    Type::B8,
    Type::B16,
    Type::B32,
    Type::B64,
    Type::U8,
    Type::U16,
    Type::U32,
    Type::U64,
    Type::S8,
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
const SPACES: &[(&str, Space)] = &[
    ("global", Space::Global),
    ("const", Space::Const),
    ("shared", Space::Shared),
    ("shared::cta", Space::Shared),
    ("local", Space::Local),
    ("param", Space::Param),
    ("param::entry", Space::Param),
    ("param::func", Space::Param),
];
const STRENGTHS: &[(&str, Strength)] = &[
    ("volatile", Strength::Volatile),
    ("relaxed", Strength::Strong),
    ("acquire", Strength::Strong),
    ("release", Strength::Strong),
    ("mmio", Strength::Strong),
];
/// Cache operators, scopes and orderings that have no effect here.
const CACHES: &[&str] = &[
    "weak", "ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "unified", "cta", "gpu", "sys",
    "relaxed",
];
const VECTORS: &[(&str, usize)] = &[("v2", 2), ("v4", 4)];
const ATOMICS: &[(&str, Atomic)] = &[
    ("and", Atomic::And),
    ("or", Atomic::Or),
    ("xor", Atomic::Xor),
    ("exch", Atomic::Exch),
    ("cas", Atomic::Cas),
    ("add", Atomic::Add),
    ("inc", Atomic::Inc),
    ("dec", Atomic::Dec),
    ("min", Atomic::Min),
    ("max", Atomic::Max),
];

/// The types of an atomic operation.
const fn atomic_types(op: Atomic) -> &'static [Type] {
    match op {
        Atomic::And | Atomic::Or | Atomic::Xor | Atomic::Exch => &[Type::B32, Type::B64],
        Atomic::Cas => &[Type::B16, Type::B32, Type::B64],
        Atomic::Add => &[
            Type::U32,
            Type::S32,
            Type::U64,
            Type::F32,
            Type::F64,
            Type::F16,
            Type::F16x2,
            Type::BF16,
            Type::BF16x2,
        ],
        Atomic::Inc | Atomic::Dec => &[Type::U32],
        Atomic::Min | Atomic::Max => &[Type::U32, Type::S32, Type::U64, Type::S64],
    }
}

impl Decoder<'_, '_> {
    /// Takes the modifiers that `ld` and `st` share: the space, the ordering and the vector length.
    fn access(&mut self) -> Result<(Space, Strength, usize)> {
        self.hints()?;
        let space = self.choice(SPACES).unwrap_or(Space::Generic);
        let strength = self.choice(STRENGTHS).unwrap_or_default();
        self.ignore(CACHES);
        let count = self.choice(VECTORS).unwrap_or(1);
        Ok((space, strength, count))
    }

    /// Takes `.L1::evict_last` and the like, and the operand of `.L2::cache_hint`.
    pub(super) fn hints(&mut self) -> Result<()> {
        if self.flag("L2::cache_hint") {
            let last = self.arguments.len().saturating_sub(1);
            self.read(last, Type::B64)?;
            self.arguments.pop();
        }
        self.words.retain(|word| {
            !["L1::", "L2::", "level::"].iter().any(|level| word.text.starts_with(level))
        });
        Ok(())
    }

    fn check_count(&self, found: usize, wanted: usize, ty: Type) -> Result<()> {
        if found != wanted {
            return Err(self.wrong(&format!("wants {wanted} registers, not {found}")));
        }
        if ty.bytes() as usize * wanted > 16 {
            return Err(self.wrong("is longer than 16 bytes"));
        }
        Ok(())
    }

    /// Reads `atom` and `red` after the result, if there is one.
    fn atomic_from(
        &mut self,
        next: usize,
    ) -> Result<(Space, Atomic, Type, Address, Operand, Option<Operand>)> {
        if !self.words.iter().all(|word| word.text != "v2" && word.text != "v4") {
            return Err(self.unsupported());
        }
        self.hints()?;
        let op = self.demand(ATOMICS)?;
        let ty = self.ty(atomic_types(op))?;
        let space = self.choice(SPACES).unwrap_or(Space::Generic);
        if !matches!(space, Space::Generic | Space::Global | Space::Shared) {
            return Err(self.wrong("cannot work on this space"));
        }
        self.ignore(&["acquire", "release", "acq_rel", "relaxed", "cta", "gpu", "sys", "noftz"]);
        let count = next + if op == Atomic::Cas { 3 } else { 2 };
        self.arity(count, count)?;
        let at = self.address(next, space)?;
        let first = self.read(next + 1, ty)?;
        let second = if op == Atomic::Cas { Some(self.read(next + 2, ty)?) } else { None };
        Ok((space, op, ty, at, first, second))
    }
}

/// `ld` and `ldu`.
pub(super) fn load(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    let (space, strength, count) = decoder.access()?;
    let ty = decoder.ty(STORED)?;
    decoder.arity(2, 2)?;
    let to = decoder.write_many(0, ty, Width::AtLeast)?;
    decoder.check_count(to.len(), count, ty)?;
    Ok(Op::Load { space, ty, strength, to, from: decoder.address(1, space)? })
}

/// `st`.
pub(super) fn store(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    let (space, strength, count) = decoder.access()?;
    if space == Space::Const {
        return Err(decoder.wrong("cannot write what is constant"));
    }
    let ty = decoder.ty(STORED)?;
    decoder.arity(2, 2)?;
    let to = decoder.address(0, space)?;
    let from = decoder.read_many(1, ty, Width::AtLeast)?;
    decoder.check_count(from.len(), count, ty)?;
    Ok(Op::Store { space, ty, strength, to, from })
}

/// `atom`.
pub(super) fn atomic(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    let (space, op, ty, at, first, second) = decoder.atomic_from(1)?;
    let (to, more) = decoder.write_pair(0, ty)?;
    if more.is_some() {
        return Err(decoder.wrong("has one result"));
    }
    Ok(Op::Atomic { space, op, ty, to, at, first, second })
}

/// `red`.
pub(super) fn reduce(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    let (space, op, ty, at, first, second) = decoder.atomic_from(0)?;
    if matches!(op, Atomic::Cas | Atomic::Exch) {
        return Err(decoder.wrong("gives back nothing, and this would be of no use"));
    }
    Ok(Op::Atomic { space, op, ty, to: None, at, first, second })
}

/// `membar` and `fence`.
pub(super) fn fence(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    decoder.no_type()?;
    decoder.arity(0, 0)?;
    if decoder.words.is_empty() {
        return Err(decoder.wrong("does not say for whom"));
    }
    decoder.ignore(&["cta", "gl", "gpu", "sys", "sc", "acq_rel", "acquire", "release"]);
    Ok(Op::Fence)
}

/// `prefetch` and `prefetchu`.
pub(super) fn prefetch(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    decoder.no_type()?;
    decoder.hints()?;
    let space = decoder.choice(SPACES).unwrap_or(Space::Generic);
    decoder.ignore(&["L1", "L2"]);
    decoder.arity(1, 1)?;
    decoder.address(0, space)?;
    Ok(Op::Nothing)
}
