//! Branches, calls and ends.
#![forbid(unsafe_code)]

use super::Decoder;
use super::operands::Width;
use crate::ptx::ast::{Op, Param, Place, Space, Type};
use crate::ptx::error::Result;
use crate::ptx::lexer::{Token, shorten};
use crate::ptx::parser::Global;
use crate::ptx::parser::argument::{Atom, Shape};
use crate::ptx::parser::names::Name;

impl<'a> Decoder<'_, 'a> {
    fn plain(&mut self, op: Op) -> Result<Op> {
        self.ignore(&["uni"]);
        self.no_type()?;
        self.arity(0, 0)?;
        Ok(op)
    }

    /// An argument that is only a name.
    fn name(&self, number: usize) -> Result<Token<'a>> {
        match self.arguments.get(number).map(|argument| &argument.shape) {
            Some(Shape::Atom(Atom::Name(token, 0))) => Ok(*token),
            _ => Err(self.wrong("wants a name here")),
        }
    }

    /// The variables in a call's brackets, checked against the function's declaration.
    fn places(&mut self, number: usize, wanted: &[Param], what: &str) -> Result<Vec<Place>> {
        let Some(argument) = self.arguments.get(number) else {
            return Err(self.wrong("has too few operands"));
        };
        let at = argument.at;
        let Shape::Group(atoms) = &argument.shape else {
            return Err(at.syntax(format!("{} wants a bracket here", self.mnemonic())));
        };
        let atoms = atoms.clone();
        self.check_length(number, atoms.len(), wanted.len(), what)?;
        let mut places = Vec::with_capacity(atoms.len());
        for (atom, param) in atoms.into_iter().zip(wanted) {
            let Atom::Name(token, 0) = atom else {
                return Err(at.unsupported("a call whose arguments are not `.param` variables"));
            };
            let place = match self.names.find(token)? {
                Some(Name::Place(place)) if self.space_of(place) == Space::Param => place,
                None => return Err(token.at.unresolved("variable", &shorten(token.text))),
                Some(_) => {
                    return Err(token
                        .at
                        .unsupported("a call whose arguments are not `.param` variables"));
                }
            };
            if let Place::Body(own) = place
                && let Some(own) = self.names.body.variables.get(own)
                && own.bytes != u64::from(param.bytes)
            {
                return Err(token.at.syntax(format!(
                    "{} has {} bytes, and `{}` wants {}",
                    token.describe(),
                    own.bytes,
                    shorten(&param.name),
                    param.bytes
                )));
            }
            places.push(place);
        }
        Ok(places)
    }

    /// The variables for the results and arguments of a call, around the function at `first`.
    fn slots(
        &mut self,
        first: usize,
        returns: &[Param],
        params: &[Param],
    ) -> Result<(Vec<Place>, Vec<Place>)> {
        let results = if first == 1 {
            self.places(0, returns, "results")?
        } else {
            self.check_length(first, 0, returns.len(), "results")?;
            Vec::new()
        };
        let arguments = if self.is_group(first + 1) {
            self.places(first + 1, params, "parameters")?
        } else {
            self.check_length(first, 0, params.len(), "parameters")?;
            Vec::new()
        };
        Ok((results, arguments))
    }

    fn check_length(&self, number: usize, found: usize, wanted: usize, what: &str) -> Result<()> {
        if found == wanted {
            return Ok(());
        }
        let at = self.arguments.get(number).map_or(self.name.at, |argument| argument.at);
        Err(at.syntax(format!("the function has {wanted} {what}, and {found} are given")))
    }

    fn is_group(&self, number: usize) -> bool {
        matches!(self.arguments.get(number).map(|argument| &argument.shape), Some(Shape::Group(_)))
    }
}

/// `bra`.
pub(super) fn branch(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    decoder.ignore(&["uni"]);
    decoder.no_type()?;
    decoder.arity(1, 1)?;
    let name = decoder.name(0)?;
    Ok(Op::Branch { to: decoder.names.label(name)? })
}

/// `brx.idx`.
pub(super) fn branch_table(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    decoder.must("idx")?;
    decoder.ignore(&["uni"]);
    decoder.no_type()?;
    decoder.arity(2, 2)?;
    let index = decoder.read(0, Type::U32)?;
    let name = decoder.name(1)?;
    Ok(Op::BranchTable { index, to: decoder.names.table(name)? })
}

/// `call`.
pub(super) fn call(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    decoder.ignore(&["uni"]);
    decoder.no_type()?;
    let first = usize::from(decoder.is_group(0));
    let token = decoder.name(first)?;
    let number = match decoder.globals.get(token.text) {
        Some(Global::Function(number)) if decoder.names.find(token)?.is_none() => *number,
        _ if matches!(decoder.names.find(token)?, Some(Name::Register(_))) => {
            return call_indirect(decoder, first);
        }
        None => return Err(token.at.unresolved("function", &shorten(token.text))),
        Some(_) => return Err(token.at.syntax(format!("{} is no function", token.describe()))),
    };
    let module = decoder.module;
    let Some(function) = module.functions.get(number) else {
        return Err(decoder.wrong("has no function"));
    };
    if function.entry {
        return Err(token
            .at
            .syntax(format!("{} is a kernel, which nobody can call", token.describe())));
    }
    let count = first + 1 + usize::from(decoder.is_group(first + 1));
    decoder.arity(count, count)?;
    let (returns, arguments) = decoder.slots(first, &function.returns, &function.params)?;
    Ok(Op::Call { function: number, returns, arguments })
}

/// `call` through a register, whose last argument names the prototype.
fn call_indirect(decoder: &mut Decoder<'_, '_>, first: usize) -> Result<Op> {
    let last = first + 1 + usize::from(decoder.is_group(first + 1));
    decoder.arity(last + 1, last + 1)?;
    let address = decoder.read(first, Type::U64)?;
    let name = decoder.name(last)?;
    let prototype = decoder.names.prototype(name)?;
    let Some(found) = decoder.names.body.prototypes.get(prototype).cloned() else {
        return Err(decoder.wrong("has no prototype"));
    };
    let (returns, arguments) = decoder.slots(first, &found.returns, &found.params)?;
    Ok(Op::CallIndirect { address, prototype, returns, arguments })
}

/// `ret`.
pub(super) fn ret(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    decoder.plain(Op::Return)
}

/// `exit`.
pub(super) fn exit(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    decoder.plain(Op::Exit)
}

/// `trap` and `brkpt`.
pub(super) fn trap(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    decoder.plain(Op::Trap)
}

/// `nanosleep`.
pub(super) fn sleep(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    decoder.ty(&[Type::U32])?;
    decoder.arity(1, 1)?;
    decoder.read(0, Type::U32)?;
    Ok(Op::Nothing)
}

/// `pmevent`.
pub(super) fn event(decoder: &mut Decoder<'_, '_>) -> Result<Op> {
    decoder.ignore(&["mask"]);
    decoder.arity(1, 1)?;
    decoder.read_width(0, Type::B16, Width::AtLeast)?;
    Ok(Op::Nothing)
}
