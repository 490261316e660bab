//! The arguments of an instruction, before names are resolved.
#![forbid(unsafe_code)]

use smallvec::SmallVec;

use super::Parser;
use crate::ptx::ast::{Axis, Operand, Special};
use crate::ptx::error::{Position, Result};
use crate::ptx::lexer::{Kind, Token};

/// A name or a number.
#[derive(Clone, Copy, Debug)]
pub(super) enum Atom<'a> {
    /// A number or special register.
    Value(Operand),
    /// A name and an offset.
    Name(Token<'a>, i64),
}

/// The shape of an argument.
#[derive(Debug)]
pub(super) enum Shape<'a> {
    Atom(Atom<'a>),
    /// `!p`.
    Not(Atom<'a>),
    /// `d|p`.
    Pair(Token<'a>, Token<'a>),
    /// `[x+4]`.
    Address(Atom<'a>, i64),
    /// `{a, b}`.
    Vector(SmallVec<[Atom<'a>; 4]>),
    /// `(a, b)`, of calls.
    Group(SmallVec<[Atom<'a>; 4]>),
}

/// An argument.
#[derive(Debug)]
pub(super) struct Argument<'a> {
    pub(super) at: Position,
    pub(super) shape: Shape<'a>,
}

/// The arguments of one instruction.
pub(super) type Arguments<'a> = SmallVec<[Argument<'a>; 5]>;

impl<'a> Parser<'a> {
    /// Reads arguments up to and including `;`.
    pub(super) fn arguments(&mut self) -> Result<Arguments<'a>> {
        let mut arguments = Arguments::new();
        if self.take(b';')? {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.argument()?);
            if !self.take(b',')? {
                self.expect(b';')?;
                return Ok(arguments);
            }
        }
    }

    fn argument(&mut self) -> Result<Argument<'a>> {
        let at = self.token.at;
        let shape = match self.token.kind {
            Kind::Sign(b'[') => self.address()?,
            Kind::Sign(b'{') => Shape::Vector(self.atoms(b'}')?),
            Kind::Sign(b'(') => Shape::Group(self.atoms(b')')?),
            Kind::Sign(b'!') => {
                self.advance()?;
                Shape::Not(self.atom()?)
            }
            _ => match self.atom()? {
                Atom::Name(first, 0) if self.take(b'|')? => {
                    Shape::Pair(first, self.expect_name("a second register")?)
                }
                atom => Shape::Atom(atom),
            },
        };
        Ok(Argument { at, shape })
    }

    fn address(&mut self) -> Result<Shape<'a>> {
        self.expect(b'[')?;
        let shape = match self.atom()? {
            Atom::Name(name, offset) => Shape::Address(Atom::Name(name, 0), offset),
            Atom::Value(Operand::Integer(value)) => {
                Shape::Address(Atom::Value(Operand::Integer(0)), value.cast_signed())
            }
            atom @ Atom::Value(_) => Shape::Address(atom, 0),
        };
        self.expect(b']')?;
        Ok(shape)
    }

    /// Reads names and numbers between brackets, starting at the opening one.
    fn atoms(&mut self, end: u8) -> Result<SmallVec<[Atom<'a>; 4]>> {
        let mut atoms = SmallVec::new();
        self.advance()?;
        if self.take(end)? {
            return Ok(atoms);
        }
        loop {
            atoms.push(self.atom()?);
            if !self.take(b',')? {
                self.expect(end)?;
                return Ok(atoms);
            }
        }
    }

    fn atom(&mut self) -> Result<Atom<'a>> {
        if self.token.kind != Kind::Name {
            return self.literal().map(Atom::Value);
        }
        let name = self.advance()?;
        if let Some(special) = self.special(name)? {
            return Ok(Atom::Value(Operand::Special(special)));
        }
        let addend = self.addend()?;
        Ok(Atom::Name(name, addend))
    }

    /// Reads `+4`, `-4` or `+-4`, if present.
    pub(super) fn addend(&mut self) -> Result<i64> {
        let plus = self.take(b'+')?;
        let negative = self.take(b'-')?;
        if !plus && !negative {
            return Ok(0);
        }
        let value = self.expect_integer("a number of bytes")?.cast_signed();
        Ok(if negative { value.wrapping_neg() } else { value })
    }

    /// Reads a number.
    pub(super) fn literal(&mut self) -> Result<Operand> {
        let negative = self.take(b'-')?;
        if !negative {
            self.take(b'+')?;
        }
        let operand = match self.token.kind {
            Kind::Integer(value) if negative => Operand::Integer(value.wrapping_neg()),
            Kind::Integer(value) => Operand::Integer(value),
            Kind::Single(bits) => Operand::Single(bits ^ (u32::from(negative) << 31)),
            Kind::Double(bits) => Operand::Double(bits ^ (u64::from(negative) << 63)),
            _ => {
                let found = self.token.describe();
                return Err(self.token.at.syntax(format!("an operand was expected, not {found}")));
            }
        };
        self.advance()?;
        Ok(operand)
    }

    /// The special register of a name, if it is one.
    fn special(&mut self, name: Token<'a>) -> Result<Option<Special>> {
        let on_axis = match name.text {
            "%tid" => Special::Thread,
            "%ntid" => Special::Threads,
            "%ctaid" => Special::Block,
            "%nctaid" => Special::Blocks,
            text => return plain_special(text, name.at),
        };
        let axis = match self.token.text {
            _ if self.token.kind != Kind::Word => None,
            "x" => Some(Axis::X),
            "y" => Some(Axis::Y),
            "z" => Some(Axis::Z),
            _ => None,
        };
        let Some(axis) = axis else {
            return Err(self.token.at.syntax(format!(
                "`{}` wants `.x`, `.y` or `.z`, not {}",
                name.text,
                self.token.describe()
            )));
        };
        self.advance()?;
        Ok(Some(on_axis(axis)))
    }
}

/// Special registers that have no axis.
fn plain_special(name: &str, at: Position) -> Result<Option<Special>> {
    const UNSUPPORTED: &[&str] = &[
        "%aggr_smem_size",
        "%clock_hi",
        "%cluster_ctaid",
        "%cluster_ctarank",
        "%cluster_nctaid",
        "%cluster_nctarank",
        "%clusterid",
        "%current_graph_exec",
        "%globaltimer_hi",
        "%globaltimer_lo",
        "%is_explicit_cluster",
        "%nclusterid",
    ];
    Ok(Some(match name {
        "%laneid" => Special::Lane,
        "%warpid" => Special::Warp,
        "%nwarpid" => Special::Warps,
        "%smid" => Special::Processor,
        "%nsmid" => Special::Processors,
        "%gridid" => Special::Grid,
        "WARP_SZ" => Special::WarpSize,
        "%lanemask_eq" => Special::LaneEqual,
        "%lanemask_lt" => Special::LanesBelow,
        "%lanemask_le" => Special::LanesUpTo,
        "%lanemask_gt" => Special::LanesAbove,
        "%lanemask_ge" => Special::LanesFrom,
        "%clock" => Special::Clock,
        "%clock64" => Special::Clock64,
        "%globaltimer" => Special::Timer,
        "%dynamic_smem_size" => Special::DynamicShared,
        "%total_smem_size" => Special::TotalShared,
        _ if UNSUPPORTED.contains(&name) => {
            return Err(at.unsupported(format!("special register `{name}`")));
        }
        _ => return Ok(None),
    }))
}
