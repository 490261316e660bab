//! The body of a function.
#![forbid(unsafe_code)]

use smallvec::SmallVec;

use super::decode::Decoder;
use super::names::{Name, Names};
use super::types::space_of;
use super::variable::describe_type;
use super::{Global, Parser};
use crate::ptx::ast::{Body, Linkage, Operand, Place, Predicate, Source, Space, Statement, Type};
use crate::ptx::error::Result;
use crate::ptx::lexer::{Kind, Token};

impl<'a> Parser<'a> {
    /// Reads a body, starting at its opening brace.
    pub(super) fn body(&mut self, mut names: Names<'a>) -> Result<Body> {
        let begin = self.expect(b'{')?;
        let outermost = names.depth();
        loop {
            let token = self.token;
            match token.kind {
                Kind::Sign(b'{') => {
                    names.open(token.at)?;
                    self.advance()?;
                }
                Kind::Sign(b'}') => {
                    self.advance()?;
                    if names.depth() == outermost {
                        return names.finish();
                    }
                    names.close();
                }
                // An empty statement.
                Kind::Sign(b';') => drop(self.advance()?),
                Kind::Word => self.body_directive(&mut names)?,
                Kind::Name if self.second_is(b':') => self.label(&mut names)?,
                Kind::Name | Kind::Sign(b'@') => self.instruction(&mut names)?,
                Kind::End => return Err(begin.at.syntax("the body that begins here does not end")),
                _ => {
                    let found = token.describe();
                    return Err(token
                        .at
                        .syntax(format!("an instruction was expected, not {found}")));
                }
            }
        }
    }

    fn body_directive(&mut self, names: &mut Names<'a>) -> Result<()> {
        let token = self.advance()?;
        match token.text {
            "reg" => self.registers(names),
            "local" | "shared" | "param" => {
                let space = space_of(token.text).unwrap_or(Space::Local);
                for (name, variable) in self.variables(space, Linkage::Private)? {
                    names.declare(name, Name::Place(Place::Body(names.body.variables.len())))?;
                    names.body.variables.push(variable);
                }
                Ok(())
            }
            "global" | "const" => {
                let space = space_of(token.text).unwrap_or(Space::Global);
                for (name, variable) in self.variables(space, Linkage::Private)? {
                    names.declare(name, Name::Place(Place::Module(self.module.variables.len())))?;
                    self.module.variables.push(variable);
                }
                Ok(())
            }
            "loc" => self.location(names),
            "file" => self.file(),
            "pragma" => self.skip_statement(),
            "branchtargets" | "callprototype" | "calltargets" => {
                Err(token.at.syntax(format!("{} wants a label before it", token.describe())))
            }
            _ => Err(token.at.syntax(format!("no function has {} in it", token.describe()))),
        }
    }

    /// Reads `.reg .b32 %r<91>, x;` after `.reg`.
    fn registers(&mut self, names: &mut Names<'a>) -> Result<()> {
        let token = self.advance()?;
        if matches!(token.text, "v2" | "v4") && token.kind == Kind::Word {
            return Err(token.at.unsupported(format!("a register of type {}", token.describe())));
        }
        let found = (token.kind == Kind::Word).then(|| super::types::type_of(token.text)).flatten();
        let Some(ty) = found else {
            if token.kind == Kind::Word && super::types::is_unsupported("", token.text) {
                return Err(token
                    .at
                    .unsupported(format!("a register of type {}", token.describe())));
            }
            return Err(token.at.syntax(format!("a type was expected, not {}", token.describe())));
        };
        loop {
            let name = self.expect_name("a register")?;
            if self.take(b'<')? {
                let count = self.expect_small("a number of registers")?;
                self.expect(b'>')?;
                names.declare_range(name, count, ty)?;
            } else {
                let register = names.add_register(name.text, ty, name.at)?;
                names.declare(name, Name::Register(register))?;
            }
            if !self.take(b',')? {
                self.expect(b';')?;
                return Ok(());
            }
        }
    }

    /// Reads `.loc 1 3 0` after `.loc`, and skips the inlining information.
    fn location(&mut self, names: &mut Names<'a>) -> Result<()> {
        let file = self.expect_small("the file's number")?;
        let line = self.expect_small("a line")?;
        let column = self.expect_small("a column")?;
        while self.take(b',')? {
            let token = self.expect_name("`function_name` or `inlined_at`")?;
            if token.text == "inlined_at" {
                for what in ["the file's number", "a line", "a column"] {
                    self.expect_small(what)?;
                }
            } else {
                self.expect_name("a label")?;
                self.addend()?;
            }
        }
        if line == 0 {
            names.source = names.known.get(&file).copied();
        } else {
            let source = Source { file, line, column };
            names.known.insert(file, source);
            names.source = Some(source);
        }
        Ok(())
    }

    /// Reads `name:` and the directives that have a name.
    fn label(&mut self, names: &mut Names<'a>) -> Result<()> {
        let name = self.advance()?;
        self.expect(b':')?;
        if self.take_word("branchtargets")? {
            let mut labels = Vec::new();
            loop {
                let target = self.expect_name("a label")?;
                labels.push(names.label(target)?);
                if !self.take(b',')? {
                    self.expect(b';')?;
                    return names.declare_table(name, labels);
                }
            }
        }
        if self.take_word("callprototype")? {
            let prototype = self.prototype()?;
            return names.declare_prototype(name, prototype);
        }
        // A call that names such a list is refused, because no prototype has that name.
        if self.take_word("calltargets")? {
            return self.skip_statement();
        }
        names.define_label(name)
    }

    fn instruction(&mut self, names: &mut Names<'a>) -> Result<()> {
        let line = self.token.at.line;
        let guard = if self.take(b'@')? { Some(self.guard(names)?) } else { None };
        let name = self.expect_name("an instruction")?;
        let mut words = SmallVec::new();
        while self.token.kind == Kind::Word {
            words.push(self.advance()?);
        }
        let form = Decoder::form(name, &words)?;
        let arguments = self.arguments()?;
        let mut decoder = Decoder::new(
            &self.module,
            &self.globals,
            names,
            name,
            words,
            arguments,
            guard.is_some(),
        );
        let op = decoder.decode(form)?;
        let source = names.source;
        names.body.statements.push(Statement { guard, op, line, source });
        Ok(())
    }

    /// Reads `%p` or `!%p` after `@`.
    fn guard(&mut self, names: &mut Names<'a>) -> Result<Predicate> {
        let negated = self.take(b'!')?;
        let name = self.expect_name("a predicate")?;
        let register = register_of(names, &self.globals, name)?;
        let ty = names
            .body
            .registers
            .get(register.0 as usize)
            .map_or(Type::Pred, |register| register.ty);
        if ty != Type::Pred {
            return Err(name.at.syntax(format!(
                "{} is {}, and `@` wants `.pred`",
                name.describe(),
                describe_type(ty)
            )));
        }
        Ok(Predicate { value: Operand::Register(register), negated })
    }
}

/// The register of a name.
pub(super) fn register_of<'a>(
    names: &mut Names<'a>,
    globals: &std::collections::HashMap<&'a str, Global>,
    token: Token<'a>,
) -> Result<crate::ptx::ast::Reg> {
    match names.find(token)? {
        Some(Name::Register(register)) => Ok(register),
        None if !globals.contains_key(token.text) => {
            Err(token.at.unresolved("register", &crate::ptx::lexer::shorten(token.text)))
        }
        _ => Err(token.at.syntax(format!("{} is no register", token.describe()))),
    }
}
