//! Translates an instruction's words and arguments to an operation. [`table`] lists all instructions.
#![forbid(unsafe_code)]

mod arithmetic;
mod bits;
mod compare;
mod control;
mod convert;
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

/// The words behind an instruction's name.
pub(super) type Words<'a> = SmallVec<[Token<'a>; 6]>;

/// One instruction that is read.
pub(super) struct Decoder<'d, 'a> {
    module: &'d Module,
    globals: &'d HashMap<&'a str, Global>,
    names: &'d mut Names<'a>,
    name: Token<'a>,
    /// The whole name, for messages.
    mnemonic: Words<'a>,
    /// Words that were not used yet, without types.
    words: Words<'a>,
    /// Types in their order.
    types: SmallVec<[Type; 3]>,
    arguments: Arguments<'a>,
    /// Whether it is done only where a predicate holds.
    guarded: bool,
}

/// The name of an instruction with its words.
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
            || words.iter().any(|word| is_unsupported(word.text))
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

    /// Reads the instruction.
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

    /// Puts a statement before the one that is read.
    fn before(&mut self, op: Op) {
        let (line, source) = (self.name.at.line, self.names.source);
        self.names.body.statements.push(Statement { guard: None, op, line, source });
    }

    /// Whether a word is there.
    fn flag(&mut self, wanted: &str) -> bool {
        let place = self.words.iter().position(|word| word.text == wanted);
        if let Some(place) = place {
            self.words.remove(place);
        }
        place.is_some()
    }

    /// Takes the first word that is in a list.
    fn choice<T: Copy>(&mut self, choices: &[(&str, T)]) -> Option<T> {
        let place = self
            .words
            .iter()
            .position(|word| choices.iter().any(|(name, _)| *name == word.text))?;
        let word = self.words.remove(place);
        choices.iter().find(|(name, _)| *name == word.text).map(|(_, choice)| *choice)
    }

    /// Takes the first word that is in a list, and wants that there is one.
    fn demand<T: Copy>(&mut self, choices: &[(&str, T)]) -> Result<T> {
        let found = self.choice(choices);
        found.ok_or_else(|| {
            let names: Vec<String> = choices.iter().map(|(name, _)| format!("`.{name}`")).collect();
            self.wrong(&format!("wants one of {}", names.join(", ")))
        })
    }

    /// Wants that a word is there.
    fn must(&mut self, wanted: &'static str) -> Result<()> {
        self.demand(&[(wanted, ())])
    }

    /// Takes words that change nothing here.
    fn ignore(&mut self, words: &[&str]) {
        self.words.retain(|word| !words.contains(&word.text));
    }

    /// The type, of which there is one, and one of these.
    fn ty(&self, allowed: &[Type]) -> Result<Type> {
        match self.types.as_slice() {
            [ty] => self.allowed(*ty, allowed),
            [] => Err(self.wrong("has no type")),
            _ => Err(self.wrong("has too many types")),
        }
    }

    /// The two types, as `cvt` and `set` have them.
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

    /// Wants that there are no types.
    fn no_type(&self) -> Result<()> {
        if self.types.is_empty() { Ok(()) } else { Err(self.wrong("has no types")) }
    }

    /// Wants so many arguments.
    fn arity(&self, least: usize, most: usize) -> Result<()> {
        let found = self.arguments.len();
        if (least..=most).contains(&found) {
            return Ok(());
        }
        let wanted = if least == most { format!("{least}") } else { format!("{least} to {most}") };
        Err(self.wrong(&format!("wants {wanted} operands, not {found}")))
    }
}
