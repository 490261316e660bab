//! The initial values of variables.
#![forbid(unsafe_code)]

use super::Parser;
use super::types::word_of_space;
use super::variable::{Declaration, describe_type};
use crate::ptx::ast::{AddressOf, Named, Operand, Space, Type};
use crate::ptx::error::{Position, Result};
use crate::ptx::lexer::Kind;

/// The limit for a module of zeros between values, which are stored.
pub(super) const MOST_PADDING: u64 = 1 << 26;

/// The initialiser being read.
struct Filling<'d> {
    ty: Type,
    shape: &'d [u64],
    bytes: Vec<u8>,
    addresses: Vec<AddressOf>,
    /// The offset of the next value in bytes.
    next: u64,
}

impl Filling<'_> {
    /// The number of bytes that a pair of braces at this depth covers.
    fn extent(&self, depth: usize) -> u64 {
        let inner = self.shape.get(depth..).unwrap_or_default();
        // The total size was checked for overflow; an open axis is the first, whose length is not needed here.
        inner.iter().fold(u64::from(self.ty.bytes()), |bytes, length| bytes.saturating_mul(*length))
    }
}

impl<'a> Parser<'a> {
    /// Reads `= …`, if present, and sets the length of `x[]`.
    pub(super) fn initial(
        &mut self,
        space: Space,
        declared: &mut Declaration<'a>,
    ) -> Result<(Vec<u8>, Vec<AddressOf>)> {
        let at = self.token.at;
        if !self.take(b'=')? {
            return Ok((Vec::new(), Vec::new()));
        }
        if !matches!(space, Space::Global | Space::Const) {
            let space = word_of_space(space);
            return Err(at.syntax(format!("a variable in `.{space}` cannot begin with a value")));
        }
        let mut filling = Filling {
            ty: declared.ty,
            shape: &declared.shape,
            bytes: Vec::new(),
            addresses: Vec::new(),
            next: 0,
        };
        self.fill(&mut filling)?;
        let open = declared.shape.first() == Some(&0);
        let (end, bytes, addresses) = (filling.next, filling.bytes, filling.addresses);
        if open {
            declared.bytes = end;
        } else if end > declared.bytes {
            return Err(at.syntax(format!(
                "{} has {} bytes, and {end} are given",
                declared.name.describe(),
                declared.bytes
            )));
        }
        Ok((bytes, addresses))
    }

    /// Reads values and braces. A closing brace advances to the end of the part that its opening brace began.
    fn fill(&mut self, filling: &mut Filling<'_>) -> Result<()> {
        // The ends of the open parts; `None` for `x[]`.
        let mut ends: Vec<Option<u64>> = Vec::new();
        loop {
            while self.token.is(b'{') {
                let depth = ends.len();
                if depth >= filling.shape.len() {
                    return Err(self.token.at.syntax("more braces than the array has axes"));
                }
                let open = depth == 0 && filling.shape.first() == Some(&0);
                ends.push((!open).then(|| filling.next.saturating_add(filling.extent(depth))));
                self.advance()?;
            }
            if !self.token.is(b'}') {
                self.value(filling)?;
            }
            while self.token.is(b'}') {
                let at = self.token.at;
                let Some(end) = ends.pop() else { return Err(at.syntax("a `}` without its `{`")) };
                if end.is_some_and(|end| filling.next > end) {
                    return Err(at.syntax("more values than the array has elements"));
                }
                // Missing values at the end are zero anyway.
                if !ends.is_empty() {
                    filling.next = end.unwrap_or(filling.next);
                }
                self.advance()?;
            }
            if ends.is_empty() {
                return Ok(());
            }
            self.expect(b',')?;
        }
    }

    fn value(&mut self, filling: &mut Filling<'_>) -> Result<()> {
        let at = self.token.at;
        let length = u64::from(filling.ty.bytes());
        let have = filling.bytes.len() as u64;
        let gap = filling.next.saturating_sub(have);
        self.padding_left = self.padding_left.checked_sub(gap).ok_or_else(|| {
            at.unsupported(format!("more than {MOST_PADDING} zeros between values"))
        })?;
        let start = usize::try_from(filling.next).unwrap_or(usize::MAX);
        filling.bytes.resize(start, 0);
        let value = if self.token.kind == Kind::Name {
            self.address_value(filling)?;
            0
        } else {
            let operand = self.literal()?;
            if self.token.is(b'(') {
                return Err(at.unsupported("a masked address in an initialiser"));
            }
            bits_of(operand, filling.ty, at)?
        };
        let taken = usize::try_from(length).unwrap_or(8);
        filling.bytes.extend(value.to_le_bytes().into_iter().take(taken));
        filling.next = filling.next.saturating_add(length);
        Ok(())
    }

    /// Reads `x`, `x+4`, `generic(x)` or `generic(x)+4`.
    fn address_value(&mut self, filling: &mut Filling<'_>) -> Result<()> {
        let mut name = self.advance()?;
        let generic = name.text == "generic" && self.token.is(b'(');
        if generic {
            self.advance()?;
            name = self.expect_name("a variable")?;
            self.expect(b')')?;
        } else if self.token.is(b'(') {
            return Err(name.at.unsupported(format!("`{}()` in an initialiser", name.text)));
        }
        if filling.ty.bytes() != 8 {
            let ty = describe_type(filling.ty);
            return Err(name.at.unsupported(format!("an address in a variable of type {ty}")));
        }
        let addend = self.addend()?;
        let of = Named::Variable(self.pending.len());
        self.pending.push(name);
        filling.addresses.push(AddressOf { at: filling.next, of, addend, generic });
        Ok(())
    }
}

/// The bits of a number in a variable of this type.
fn bits_of(operand: Operand, ty: Type, at: Position) -> Result<u64> {
    let wrong =
        || at.syntax(format!("the value does not fit a variable of type {}", describe_type(ty)));
    Ok(match (operand, ty) {
        (Operand::Integer(_), Type::F32 | Type::F64) => return Err(wrong()),
        (Operand::Integer(value), _) => value,
        (Operand::Single(bits), Type::F32 | Type::B32 | Type::U32 | Type::S32) => u64::from(bits),
        (Operand::Single(bits), Type::F64) => f64::from(f32::from_bits(bits)).to_bits(),
        (Operand::Double(bits), Type::F64 | Type::B64 | Type::U64 | Type::S64) => bits,
        (Operand::Double(bits), Type::F32) => u64::from(narrow(f64::from_bits(bits)).to_bits()),
        _ => return Err(wrong()),
    })
}

#[expect(clippy::cast_possible_truncation, reason = "a float is what is wanted")]
fn narrow(value: f64) -> f32 {
    value as f32
}
