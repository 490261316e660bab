//! Kernels and functions.
#![forbid(unsafe_code)]

use super::names::{Name, Names};
use super::{Global, Parser};
use crate::ptx::ast::{Function, Linkage, Param, Place, Prototype};
use crate::ptx::error::Result;
use crate::ptx::lexer::{Kind, Token};

impl<'a> Parser<'a> {
    /// Reads a kernel or function after `.entry` or `.func`.
    pub(super) fn function(&mut self, entry: bool, linkage: Linkage) -> Result<()> {
        let returns = if !entry && self.token.is(b'(') { self.params()? } else { Vec::new() };
        let name = self.expect_name("a function's name")?;
        let params = if self.token.is(b'(') { self.params()? } else { Vec::new() };
        let mut names = Names::new();
        for (number, (name, _)) in returns.iter().enumerate() {
            names.declare(*name, Name::Place(Place::Return(number)))?;
        }
        for (number, (name, _)) in params.iter().enumerate() {
            names.declare(*name, Name::Place(Place::Param(number)))?;
        }
        let mut function = Function {
            name: name.text.to_owned(),
            entry,
            linkage,
            returns: without_tokens(returns),
            params: without_tokens(params),
            max_threads: None,
            exact_threads: false,
            body: None,
            line: name.at.line,
        };
        self.performance_directives(&mut function)?;
        let defines = self.token.is(b'{');
        // Before the body, which may call it.
        let number = self.announce(name, function, defines)?;
        if !defines {
            self.expect(b';')?;
            return Ok(());
        }
        let body = self.body(names)?;
        if let Some(function) = self.module.functions.get_mut(number) {
            function.body = Some(body);
        }
        Ok(())
    }

    /// Reads `(.param .b32 _) _ (.param .b64 _);` after `.callprototype`.
    pub(super) fn prototype(&mut self) -> Result<Prototype> {
        let returns = if self.token.is(b'(') { self.params()? } else { Vec::new() };
        self.expect_name("`_`")?;
        let params = if self.token.is(b'(') { self.params()? } else { Vec::new() };
        // Words such as `.noreturn` do not change how it is called.
        self.skip_statement()?;
        Ok(Prototype { returns: without_tokens(returns), params: without_tokens(params) })
    }

    fn performance_directives(&mut self, function: &mut Function) -> Result<()> {
        while self.token.kind == Kind::Word {
            let token = self.advance()?;
            match token.text {
                "maxntid" | "reqntid" => {
                    function.max_threads = Some(self.up_to_three()?);
                    function.exact_threads = token.text == "reqntid";
                }
                "minnctapersm"
                | "maxnctapersm"
                | "maxnreg"
                | "abi_preserve"
                | "abi_preserve_control" => {
                    self.expect_small("a number")?;
                }
                "noreturn" => {}
                "pragma" => self.skip_statement()?,
                "alias" | "attribute" | "blocksareclusters" | "explicitcluster"
                | "maxclusterrank" | "reqnctapercluster" | "unique" => {
                    return Err(token.at.unsupported(token.describe()));
                }
                _ => {
                    return Err(token.at.syntax(format!("no function has {}", token.describe())));
                }
            }
        }
        Ok(())
    }

    fn up_to_three(&mut self) -> Result<[u32; 3]> {
        let mut sizes = [1; 3];
        for (number, size) in sizes.iter_mut().enumerate() {
            if number > 0 && !self.take(b',')? {
                break;
            }
            *size = self.expect_small("a number of threads")?;
        }
        Ok(sizes)
    }

    /// Adds a function to the module, or checks it against an earlier declaration.
    fn announce(&mut self, name: Token<'a>, function: Function, defines: bool) -> Result<usize> {
        match self.globals.get(name.text) {
            None => {
                let number = self.module.functions.len();
                self.globals.insert(name.text, Global::Function(number));
                self.module.functions.push(function);
                self.defined.push(defines);
                Ok(number)
            }
            Some(Global::Variable(_)) => {
                Err(name.at.syntax(format!("{} is a variable too", name.describe())))
            }
            Some(Global::Function(number)) => {
                let number = *number;
                let (Some(known), Some(defined)) =
                    (self.module.functions.get_mut(number), self.defined.get_mut(number))
                else {
                    return Ok(number);
                };
                if known.entry != function.entry
                    || !same_sizes(&known.params, &function.params)
                    || !same_sizes(&known.returns, &function.returns)
                {
                    return Err(name
                        .at
                        .syntax(format!("{} was declared differently", name.describe())));
                }
                if defines && *defined {
                    return Err(name.at.syntax(format!("{} is defined twice", name.describe())));
                }
                if defines {
                    *known = function;
                    *defined = true;
                }
                Ok(number)
            }
        }
    }
}

fn without_tokens(params: Vec<(Token<'_>, Param)>) -> Vec<Param> {
    params.into_iter().map(|(_, param)| param).collect()
}

fn same_sizes(left: &[Param], right: &[Param]) -> bool {
    left.len() == right.len()
        && left.iter().zip(right).all(|(left, right)| left.bytes == right.bytes)
}
