//! Translates an instruction's modifiers and arguments to an operation. [`table`] lists all instructions.
#![forbid(unsafe_code)]

mod arithmetic;
mod bits;
mod compare;
mod control;
mod convert;
mod matrix;
mod memory;
mod operands;
mod table;
mod warp;

use std::collections::HashMap;

use smallvec::SmallVec;

use super::Global;
use super::argument::Arguments;
use super::names::Names;
use super::types::{is_unsupported, type_of, word_of};
use crate::ptx::ast::{Module, Op, Statement, Type};
use crate::ptx::error::{ParseError, Result};
use crate::ptx::lexer::{Token, shorten};
pub(super) use table::Form;

/// The modifiers after an instruction's name.
pub(super) type Words<'a> = SmallVec<[Token<'a>; 6]>;

/// Decodes one instruction.
pub(super) struct Decoder<'d, 'a> {
    module: &'d Module,
    globals: &'d HashMap<&'a str, Global>,
    names: &'d mut Names<'a>,
    name: Token<'a>,
    /// The full name, for messages.
    mnemonic: Words<'a>,
    /// Unused modifiers, without types.
    words: Words<'a>,
    /// Types in order.
    types: SmallVec<[Type; 3]>,
    arguments: Arguments<'a>,
    /// Whether it is guarded by a predicate.
    guarded: bool,
}

/// The name of an instruction with its modifiers.
fn mnemonic(name: Token<'_>, words: &[Token<'_>]) -> String {
    let mut text = name.text.to_owned();
    for word in words {
        text.push('.');
        text.push_str(word.text);
    }
    format!("`{}`", shorten(&text))
}

impl<'d, 'a> Decoder<'d, 'a> {
    /// Finds the decoder of an instruction, and refuses unsupported ones before their arguments are read.
    pub(super) fn form(name: Token<'a>, words: &[Token<'a>]) -> Result<Form> {
        let form = table::find(name.text);
        if matches!(form, Some(Form::Unsupported))
            || words.iter().any(|word| is_unsupported(name.text, word.text))
        {
            return Err(name.at.unsupported(mnemonic(name, words)));
        }
        form.ok_or_else(|| {
            name.at.syntax(format!("PTX has no instruction {}", mnemonic(name, words)))
        })
    }

    pub(super) fn new(
        module: &'d Module,
        globals: &'d HashMap<&'a str, Global>,
        names: &'d mut Names<'a>,
        name: Token<'a>,
        mnemonic: Words<'a>,
        arguments: Arguments<'a>,
        guarded: bool,
    ) -> Self {
        let mut words = Words::new();
        let mut types = SmallVec::new();
        for word in &mnemonic {
            match type_of(word.text) {
                Some(ty) => types.push(ty),
                None => words.push(*word),
            }
        }
        Self { module, globals, names, name, mnemonic, words, types, arguments, guarded }
    }

    /// Decodes the instruction.
    pub(super) fn decode(&mut self, form: Form) -> Result<Op> {
        let op = match form {
            Form::One(op, types, words) => self.one(op, types, words),
            Form::Two(op, types, words) => self.two(op, types, words),
            Form::Three(op, types, words) => self.three(op, types, words),
            Form::Own(read) => read(self),
            Form::Unsupported => Err(self.unsupported()),
        }?;
        match self.words.first() {
            None => Ok(op),
            Some(word) => Err(word.at.syntax(format!(
                "`.{}` does not belong to {}",
                shorten(word.text),
                self.mnemonic()
            ))),
        }
    }

    fn mnemonic(&self) -> String {
        mnemonic(self.name, &self.mnemonic)
    }

    fn unsupported(&self) -> ParseError {
        self.name.at.unsupported(self.mnemonic())
    }

    fn wrong(&self, what: &str) -> ParseError {
        self.name.at.syntax(format!("{} {what}", self.mnemonic()))
    }

    /// Inserts a statement before the current one.
    fn before(&mut self, op: Op) {
        let (line, source) = (self.name.at.line, self.names.source);
        self.names.body.statements.push(Statement { guard: None, op, line, source });
    }

    /// Takes a modifier. Returns whether it was there.
    fn flag(&mut self, wanted: &str) -> bool {
        let place = self.words.iter().position(|word| word.text == wanted);
        if let Some(place) = place {
            self.words.remove(place);
        }
        place.is_some()
    }

    /// Takes the first modifier that is in a list.
    fn choice<T: Copy>(&mut self, choices: &[(&str, T)]) -> Option<T> {
        let place = self
            .words
            .iter()
            .position(|word| choices.iter().any(|(name, _)| *name == word.text))?;
        let word = self.words.remove(place);
        choices.iter().find(|(name, _)| *name == word.text).map(|(_, choice)| *choice)
    }

    /// Takes the first modifier that is in a list, which must exist.
    fn demand<T: Copy>(&mut self, choices: &[(&str, T)]) -> Result<T> {
        let found = self.choice(choices);
        found.ok_or_else(|| {
            let names: Vec<String> = choices.iter().map(|(name, _)| format!("`.{name}`")).collect();
            self.wrong(&format!("wants one of {}", names.join(", ")))
        })
    }

    /// Takes a mandatory modifier.
    fn must(&mut self, wanted: &'static str) -> Result<()> {
        self.demand(&[(wanted, ())])
    }

    /// Takes modifiers without effect.
    fn ignore(&mut self, words: &[&str]) {
        self.words.retain(|word| !words.contains(&word.text));
    }

    /// The only type, which must be one of these.
    fn ty(&self, allowed: &[Type]) -> Result<Type> {
        match self.types.as_slice() {
            [ty] => self.allowed(*ty, allowed),
            [] => Err(self.wrong("has no type")),
            _ => Err(self.wrong("has too many types")),
        }
    }

    /// The two types of `cvt` and `set`.
    fn two_types(&self, first: &[Type], second: &[Type]) -> Result<(Type, Type)> {
        match self.types.as_slice() {
            [left, right] => Ok((self.allowed(*left, first)?, self.allowed(*right, second)?)),
            _ => Err(self.wrong("wants two types")),
        }
    }

    fn allowed(&self, ty: Type, allowed: &[Type]) -> Result<Type> {
        if allowed.contains(&ty) {
            return Ok(ty);
        }
        Err(self.wrong(&format!("cannot have type `.{}`", word_of(ty))))
    }

    /// Requires that there are no types.
    fn no_type(&self) -> Result<()> {
        if self.types.is_empty() { Ok(()) } else { Err(self.wrong("has no types")) }
    }

    /// Refuses an instruction that only newer processors have.
    fn newer(&self, target: u32) -> Result<()> {
        if self.module.target >= target {
            return Ok(());
        }
        Err(self.wrong(&format!(
            "wants `.target sm_{target}` or newer, not `sm_{}`",
            self.module.target
        )))
    }

    /// Checks the number of arguments.
    fn arity(&self, least: usize, most: usize) -> Result<()> {
        let found = self.arguments.len();
        if (least..=most).contains(&found) {
            return Ok(());
        }
        let wanted = if least == most { format!("{least}") } else { format!("{least} to {most}") };
        Err(self.wrong(&format!("wants {wanted} operands, not {found}")))
    }
}
