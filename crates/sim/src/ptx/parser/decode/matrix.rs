//! Matrices of a warp, and asynchronous copies.
#![forbid(unsafe_code)]

use super::Decoder;
use super::operands::Width;
use crate::ptx::ast::{Element, Op, Operand, Product, Reg, Space, Type};
use crate::ptx::error::Result;
use crate::ptx::parser::argument::{Atom, Shape};

/// Shapes of `mma`: rows and depth.
const SHAPES: &[(&str, (usize, usize))] = &[
    ("m8n8k4", (8, 4)),
    ("m8n8k16", (8, 16)),
    ("m16n8k4", (16, 4)),
    ("m16n8k8", (16, 8)),
    ("m16n8k16", (16, 16)),
    ("m16n8k32", (16, 32)),
];
const COUNTS: &[(&str, usize)] = &[("x1", 1), ("x2", 2), ("x4", 4)];
const SHARED: &[&str] = &["shared", "shared::cta"];

/// The elements that a word means.
fn element(word: &str) -> Option<Element> {
    Some(match word {
        "f16" => Element::F16,
        "bf16" => Element::BF16,
        "tf32" => Element::TF32,
        "f64" => Element::F64,
        "s8" => Element::S8,
        "u8" => Element::U8,
        _ => return None,
    })
}

/// The oldest processor that has a product; `None` if there is no such product, or it is not supported.
fn oldest(product: &Product) -> Option<u32> {
    use Element::{BF16, F16, F64, S8, TF32, U8};
    let Product { rows, depth, elements, sum, saturate } = *product;
    let integer = elements.iter().all(|one| matches!(one, S8 | U8));
    if saturate && !integer {
        return None;
    }
    match (elements, sum, rows, depth) {
        ([F16, F16], Type::F16 | Type::F32, 16, 8) => Some(75),
        ([F16, F16], Type::F16 | Type::F32, 16, 16) => Some(80),
        ([BF16, BF16], Type::F32, 16, 8 | 16) => Some(80),
        ([TF32, TF32], Type::F32, 16, 4 | 8) => Some(80),
        ([F64, F64], Type::F64, 8, 4) => Some(80),
        (_, Type::S32, 8, 16) if integer => Some(75),
        (_, Type::S32, 16, 16 | 32) if integer => Some(80),
        _ => None,
    }
}

impl Decoder<'_, '_> {
    fn shared(&mut self) -> Space {
        let named = SHARED.iter().any(|word| self.flag(word));
        if named { Space::Shared } else { Space::Generic }
    }

    /// Operands in braces, or a single one without.
    fn parts(&mut self, number: usize, ty: Type, wanted: usize) -> Result<Vec<Operand>> {
        let found = self.read_many(number, ty, Width::Same)?;
        self.count(found.len(), wanted)?;
        Ok(found)
    }

    fn results(&mut self, ty: Type, wanted: usize) -> Result<Vec<Option<Reg>>> {
        let found = self.write_many(0, ty, Width::Same)?;
        self.count(found.len(), wanted)?;
        Ok(found)
    }

    fn count(&self, found: usize, wanted: usize) -> Result<()> {
        if found == wanted {
            return Ok(());
        }
        Err(self.wrong(&format!("wants {wanted} registers, not {found}")))
    }

    /// A number that is written out.
    fn constant(&self, number: usize) -> Result<u64> {
        match self.arguments.get(number).map(|argument| &argument.shape) {
            Some(Shape::Atom(Atom::Value(Operand::Integer(value)))) => Ok(*value),
            _ => Err(self.wrong("wants a number here")),
        }
    }

    /// Whether an argument is a predicate.
    fn is_predicate(&mut self, number: usize) -> bool {
        match self.arguments.get(number).map(|argument| &argument.shape) {
            Some(Shape::Not(_)) => true,
            _ => self.predicate(number).is_ok_and(|one| matches!(one.value, Operand::Register(_))),
        }
    }
}

/// `ldmatrix`.
pub(super) fn load(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    // Matrices of bytes are newer.
    if !decoder.flag("m8n8") {
        return Err(decoder.unsupported());
    }
    decoder.newer(75)?;
    decoder.must("sync")?;
    decoder.must("aligned")?;
    let count = decoder.demand(COUNTS)?;
    let transposed = decoder.flag("trans");
    let space = decoder.shared();
    decoder.ty(&[Type::B16])?;
    decoder.arity(2, 2)?;
    let to = decoder.results(Type::B32, count)?;
    Ok(Op::LoadMatrix { space, transposed, to, from: decoder.address(1, space)? })
}

/// `mma.sync`.
pub(super) fn multiply(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    let shape = decoder.choice(SHAPES);
    let words: Vec<&str> = decoder.mnemonic.iter().map(|word| word.text).collect();
    let saturate = words.contains(&"satfinite");
    // The last four words are types: of the result, of both matrices, and of what is added.
    let [.., to, left, right, sum] = words.as_slice() else { return Err(decoder.unsupported()) };
    let sum_type = match *sum {
        "f16" => Type::F16,
        "f32" => Type::F32,
        "f64" => Type::F64,
        "s32" => Type::S32,
        _ => return Err(decoder.unsupported()),
    };
    let (Some((rows, depth)), Some(left), Some(right)) = (shape, element(left), element(right))
    else {
        return Err(decoder.unsupported());
    };
    let product = Product { rows, depth, elements: [left, right], sum: sum_type, saturate };
    let (true, Some(target)) = (to == sum, oldest(&product)) else {
        return Err(decoder.unsupported());
    };
    decoder.newer(target)?;
    for word in ["sync", "aligned", "row", "col"] {
        decoder.must(word)?;
    }
    decoder.ignore(&["satfinite", "tf32"]);
    decoder.arity(4, 4)?;
    let (word, sums) = match sum_type {
        Type::F64 => (Type::F64, 2),
        Type::F16 => (Type::B32, rows / 8),
        _ => (Type::B32, rows / 4),
    };
    let columns = depth / (4 * left.per_register());
    Ok(Op::Multiply {
        product,
        to: decoder.results(word, sums)?,
        left: decoder.parts(1, word, columns * rows / 8)?,
        right: decoder.parts(2, word, columns)?,
        sum: decoder.parts(3, word, sums)?,
    })
}

/// `cp.async`.
pub(super) fn copy(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    // Everything else that begins with `cp` copies in bulk or reduces.
    if !decoder.flag("async") {
        return Err(decoder.unsupported());
    }
    decoder.newer(80)?;
    decoder.no_type()?;
    if decoder.flag("commit_group") {
        decoder.arity(0, 0)?;
        return Ok(Op::CommitCopies);
    }
    if decoder.flag("wait_all") {
        decoder.arity(0, 0)?;
        return Ok(Op::WaitCopies { left: None });
    }
    if decoder.flag("wait_group") {
        decoder.arity(1, 1)?;
        return Ok(Op::WaitCopies { left: Some(decoder.constant(0)?) });
    }
    let cached = decoder.flag("ca");
    if !cached && !decoder.flag("cg") {
        return Err(decoder.unsupported());
    }
    decoder.hints()?;
    if decoder.shared() != Space::Shared || !decoder.flag("global") {
        return Err(decoder.wrong("wants `.shared.global`"));
    }
    decoder.arity(3, 4)?;
    let bytes = match decoder.constant(2)? {
        16 => 16,
        8 if cached => 8,
        4 if cached => 4,
        _ => return Err(decoder.wrong("copies 16 bytes, or with `.ca` 4 or 8")),
    };
    let (to, from) = (decoder.address(0, Space::Shared)?, decoder.address(1, Space::Global)?);
    let (mut taken, mut ignore) = (None, None);
    if decoder.arguments.len() == 4 {
        if decoder.is_predicate(3) {
            ignore = Some(decoder.predicate(3)?);
        } else {
            taken = Some(decoder.read(3, Type::B32)?);
        }
    }
    Ok(Op::CopyAsync { bytes, to, from, taken, ignore })
}
