//! Builds the tree from tokens.
#![forbid(unsafe_code)]

mod argument;
mod body;
mod decode;
mod function;
mod initializer;
mod module;
mod names;
mod types;
mod variable;

use std::collections::HashMap;

use super::ast::Module;
use super::error::Result;
use super::lexer::{Kind, Lexer, Token};

/// A name of the module.
#[derive(Clone, Copy, Debug)]
pub(super) enum Global {
    /// A variable, by its index in the tree.
    Variable(usize),
    /// A function, by its index in the tree.
    Function(usize),
}

/// Parses one text.
#[derive(Debug)]
pub(super) struct Parser<'a> {
    lexer: Lexer<'a>,
    /// The next token.
    token: Token<'a>,
    module: Module,
    /// For each function of the module, whether it is defined.
    defined: Vec<bool>,
    globals: HashMap<&'a str, Global>,
    /// Names whose addresses are in variables. They are resolved when all variables and functions are known.
    /// Until then, an address is that of a variable with the index of its name in this list.
    pending: Vec<Token<'a>>,
    /// How many zeros initialisers may still put between their values.
    padding_left: u64,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str) -> Result<Self> {
        let mut lexer = Lexer::new(text);
        let token = lexer.token()?;
        Ok(Self {
            lexer,
            token,
            module: Module::default(),
            defined: Vec::new(),
            globals: HashMap::new(),
            pending: Vec::new(),
            padding_left: initializer::MOST_PADDING,
        })
    }

    /// Advances by one token, and returns the current one.
    fn advance(&mut self) -> Result<Token<'a>> {
        let next = self.lexer.token()?;
        Ok(std::mem::replace(&mut self.token, next))
    }

    /// Whether the token after the next one is this sign.
    fn second_is(&self, sign: u8) -> bool {
        let mut ahead = self.lexer;
        ahead.token().is_ok_and(|token| token.is(sign))
    }

    /// Advances if the next token is this sign.
    fn take(&mut self, sign: u8) -> Result<bool> {
        let found = self.token.is(sign);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    /// Advances if the next token is this word.
    fn take_word(&mut self, word: &str) -> Result<bool> {
        let found = self.token.kind == Kind::Word && self.token.text == word;
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn expect(&mut self, sign: u8) -> Result<Token<'a>> {
        if self.token.is(sign) {
            return self.advance();
        }
        let wanted = char::from(sign);
        Err(self.token.at.syntax(format!("`{wanted}` was expected, not {}", self.token.describe())))
    }

    fn expect_name(&mut self, what: &str) -> Result<Token<'a>> {
        if self.token.kind == Kind::Name {
            return self.advance();
        }
        Err(self.token.at.syntax(format!("{what} was expected, not {}", self.token.describe())))
    }

    fn expect_integer(&mut self, what: &str) -> Result<u64> {
        if let Kind::Integer(value) = self.token.kind {
            self.advance()?;
            return Ok(value);
        }
        Err(self.token.at.syntax(format!("{what} was expected, not {}", self.token.describe())))
    }

    fn expect_small(&mut self, what: &str) -> Result<u32> {
        let at = self.token.at;
        let value = self.expect_integer(what)?;
        u32::try_from(value).map_err(|_| at.syntax(format!("{what} of {value} is too large")))
    }

    /// Advances past the next `;`.
    fn skip_statement(&mut self) -> Result<()> {
        let at = self.token.at;
        while !self.take(b';')? {
            if self.token.kind == Kind::End {
                return Err(at.syntax("the statement that begins here has no `;`"));
            }
            self.advance()?;
        }
        Ok(())
    }
}
