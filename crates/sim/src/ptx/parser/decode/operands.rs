//! Arguments with resolved names and checked widths.
#![forbid(unsafe_code)]

use super::Decoder;
use crate::ptx::ast::{Address, Base, Operand, Place, Predicate, Reg, Space, Type};
use crate::ptx::error::{Position, Result};
use crate::ptx::lexer::{Token, shorten};
use crate::ptx::parser::Global;
use crate::ptx::parser::argument::{Atom, Shape};
use crate::ptx::parser::body::register_of;
use crate::ptx::parser::module::address_of_function;
use crate::ptx::parser::names::Name;
use crate::ptx::parser::types::{word_of, word_of_space};
use crate::ptx::parser::variable::describe_type;

/// How a register's width must fit the type of its instruction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    /// It is the same.
    Same,
    /// It is the same or larger: `ld`, `st` and `cvt`.
    AtLeast,
}

impl<'a> Decoder<'_, 'a> {
    fn check_width(&self, register: Reg, ty: Type, width: Width, token: Token<'a>) -> Result<Reg> {
        let own =
            self.names.body.registers.get(register.0 as usize).map_or(ty, |register| register.ty);
        let fits = match width {
            _ if (own == Type::Pred) != (ty == Type::Pred) => false,
            Width::Same => own.bytes() == ty.bytes(),
            Width::AtLeast => own.bytes() >= ty.bytes(),
        };
        if fits {
            return Ok(register);
        }
        Err(token.at.syntax(format!(
            "register `{}` is {}, which does not fit {} of {}",
            shorten(token.text),
            describe_type(own),
            describe_type(ty),
            self.mnemonic()
        )))
    }

    fn register(&mut self, token: Token<'a>, ty: Type, width: Width) -> Result<Reg> {
        let register = register_of(self.names, self.globals, token)?;
        self.check_width(register, ty, width, token)
    }

    fn no_such_argument(&self) -> crate::ptx::ParseError {
        self.wrong("has too few operands")
    }

    fn shape_error(&self, at: Position, wanted: &str) -> crate::ptx::ParseError {
        at.syntax(format!("{} wants {wanted} here", self.mnemonic()))
    }

    /// A register that is written.
    pub(super) fn write(&mut self, number: usize, ty: Type) -> Result<Reg> {
        self.write_width(number, ty, Width::Same)
    }

    pub(super) fn write_width(&mut self, number: usize, ty: Type, width: Width) -> Result<Reg> {
        let Some(argument) = self.arguments.get(number) else {
            return Err(self.no_such_argument());
        };
        match argument.shape {
            Shape::Atom(Atom::Name(token, 0)) => self.register(token, ty, width),
            _ => Err(self.shape_error(argument.at, "a register")),
        }
    }

    /// `d`, `d|p` or `_|p`: a register that is written, and a predicate if there is one.
    pub(super) fn write_pair(
        &mut self,
        number: usize,
        ty: Type,
    ) -> Result<(Option<Reg>, Option<Reg>)> {
        let Some(argument) = self.arguments.get(number) else {
            return Err(self.no_such_argument());
        };
        match argument.shape {
            Shape::Pair(first, second) => Ok((
                self.sink(first, ty, Width::Same)?,
                self.sink(second, Type::Pred, Width::Same)?,
            )),
            Shape::Atom(Atom::Name(token, 0)) => Ok((self.sink(token, ty, Width::Same)?, None)),
            _ => Err(self.shape_error(argument.at, "a register")),
        }
    }

    /// A register that is written, or `_`.
    fn sink(&mut self, token: Token<'a>, ty: Type, width: Width) -> Result<Option<Reg>> {
        if token.text == "_" { Ok(None) } else { self.register(token, ty, width).map(Some) }
    }

    /// One register or `{a, b, _}` that are written.
    pub(super) fn write_many(
        &mut self,
        number: usize,
        ty: Type,
        width: Width,
    ) -> Result<Vec<Option<Reg>>> {
        self.each_atom(number, |decoder, atom, at| match atom {
            Atom::Name(token, 0) => decoder.sink(token, ty, width),
            _ => Err(decoder.shape_error(at, "registers")),
        })
    }

    /// One value or `{a, b}` that are read.
    pub(super) fn read_many(
        &mut self,
        number: usize,
        ty: Type,
        width: Width,
    ) -> Result<Vec<Operand>> {
        self.each_atom(number, |decoder, atom, at| decoder.value(atom, ty, width, at))
    }

    fn each_atom<T>(
        &mut self,
        number: usize,
        take: impl Fn(&mut Self, Atom<'a>, Position) -> Result<T>,
    ) -> Result<Vec<T>> {
        let Some(argument) = self.arguments.get(number) else {
            return Err(self.no_such_argument());
        };
        let at = argument.at;
        match &argument.shape {
            Shape::Atom(atom) => {
                let atom = *atom;
                Ok(vec![take(self, atom, at)?])
            }
            Shape::Vector(atoms) => {
                let atoms = atoms.clone();
                atoms.into_iter().map(|atom| take(self, atom, at)).collect()
            }
            _ => Err(self.shape_error(at, "registers")),
        }
    }

    /// Whether an argument is in braces.
    pub(super) fn is_vector(&self, number: usize) -> bool {
        matches!(self.arguments.get(number).map(|argument| &argument.shape), Some(Shape::Vector(_)))
    }

    /// The number of elements of an argument in braces.
    pub(super) fn vector_length(&self, number: usize) -> usize {
        match self.arguments.get(number).map(|argument| &argument.shape) {
            Some(Shape::Vector(atoms)) => atoms.len(),
            _ => 0,
        }
    }

    /// A value that is read.
    pub(super) fn read(&mut self, number: usize, ty: Type) -> Result<Operand> {
        self.read_width(number, ty, Width::Same)
    }

    pub(super) fn read_width(&mut self, number: usize, ty: Type, width: Width) -> Result<Operand> {
        let Some(argument) = self.arguments.get(number) else {
            return Err(self.no_such_argument());
        };
        match argument.shape {
            Shape::Atom(atom) => {
                let at = argument.at;
                self.value(atom, ty, width, at)
            }
            _ => Err(self.shape_error(argument.at, "a register or number")),
        }
    }

    fn value(&mut self, atom: Atom<'a>, ty: Type, width: Width, at: Position) -> Result<Operand> {
        match atom {
            Atom::Value(operand) => self.check_literal(operand, ty, at),
            Atom::Name(token, addend) => match self.names.find(token)? {
                Some(Name::Register(register)) if addend == 0 => {
                    self.check_width(register, ty, width, token).map(Operand::Register)
                }
                Some(Name::Register(_)) => Err(self.shape_error(at, "a register without a sum")),
                Some(Name::Place(place)) => self.address_of(place, addend, ty, token),
                None => match self.globals.get(token.text) {
                    Some(Global::Function(number)) if ty.bytes() == 8 && addend == 0 => {
                        let functions = &self.module.functions;
                        address_of_function(functions, *number, token).map(Operand::Function)
                    }
                    _ => {
                        let place = self.global(token, "register or variable")?;
                        self.address_of(place, addend, ty, token)
                    }
                },
            },
        }
    }

    fn address_of(&self, place: Place, addend: i64, ty: Type, token: Token<'a>) -> Result<Operand> {
        if ty.bytes() >= 4 && !ty.is_float() {
            return Ok(Operand::AddressOf(place, addend));
        }
        Err(token.at.syntax(format!(
            "the address of {} is no {}",
            token.describe(),
            describe_type(ty)
        )))
    }

    fn global(&self, token: Token<'a>, what: &str) -> Result<Place> {
        match self.globals.get(token.text) {
            Some(Global::Variable(number)) => Ok(Place::Module(*number)),
            Some(Global::Function(_)) => {
                let what = format!("this use of the address of function {}", token.describe());
                Err(token.at.unsupported(what))
            }
            None => Err(token.at.unresolved(what, &shorten(token.text))),
        }
    }

    fn check_literal(&self, operand: Operand, ty: Type, at: Position) -> Result<Operand> {
        let fits = match operand {
            Operand::Integer(_) => !matches!(ty, Type::F32 | Type::F64),
            Operand::Single(_) => matches!(ty, Type::F32 | Type::F64 | Type::B32),
            Operand::Double(_) => matches!(ty, Type::F32 | Type::F64 | Type::B64),
            _ => ty != Type::Pred,
        };
        if fits {
            return Ok(operand);
        }
        let hint = if ty.is_float() { "; a float is written as `0f3F800000` or `1.0`" } else { "" };
        Err(at.syntax(format!(
            "the operand is no `.{}` for {}{hint}",
            word_of(ty),
            self.mnemonic()
        )))
    }

    /// A predicate that is read, possibly negated.
    pub(super) fn predicate(&mut self, number: usize) -> Result<Predicate> {
        let Some(argument) = self.arguments.get(number) else {
            return Err(self.no_such_argument());
        };
        let at = argument.at;
        let (atom, negated) = match argument.shape {
            Shape::Atom(atom) => (atom, false),
            Shape::Not(atom) => (atom, true),
            _ => return Err(self.shape_error(at, "a predicate")),
        };
        Ok(Predicate { value: self.value(atom, Type::Pred, Width::Same, at)?, negated })
    }

    /// The address of a memory operand in a space.
    pub(super) fn address(&mut self, number: usize, space: Space) -> Result<Address> {
        let Some(argument) = self.arguments.get(number) else {
            return Err(self.no_such_argument());
        };
        let at = argument.at;
        let (base, offset) = match argument.shape {
            Shape::Address(Atom::Value(Operand::Integer(_)), offset) => (Base::Zero, offset),
            Shape::Address(Atom::Name(token, _), offset) => (self.base(token, space)?, offset),
            _ => return Err(self.shape_error(at, "an address in brackets")),
        };
        Ok(Address { base, offset })
    }

    fn base(&mut self, token: Token<'a>, space: Space) -> Result<Base> {
        let place = match self.names.find(token)? {
            Some(Name::Register(register)) => {
                let own = self.names.body.registers.get(register.0 as usize);
                if own.is_some_and(|own| own.ty == Type::Pred || own.ty.bytes() < 4) {
                    return Err(token
                        .at
                        .syntax(format!("register {} holds no address", token.describe())));
                }
                return Ok(Base::Register(register));
            }
            Some(Name::Place(place)) => place,
            None => self.global(token, "register or variable")?,
        };
        let own = self.space_of(place);
        if space != Space::Generic && own != space {
            return Err(token.at.syntax(format!(
                "{} lies in `.{}`, not in `.{}`",
                token.describe(),
                word_of_space(own),
                word_of_space(space)
            )));
        }
        Ok(Base::Place(place))
    }

    /// The state space of a variable.
    pub(super) fn space_of(&self, place: Place) -> Space {
        match place {
            Place::Module(number) => {
                self.module.variables.get(number).map_or(Space::Global, |own| own.space)
            }
            Place::Body(number) => {
                self.names.body.variables.get(number).map_or(Space::Local, |own| own.space)
            }
            Place::Param(_) | Place::Return(_) => Space::Param,
        }
    }
}
