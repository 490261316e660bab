//! A module and its directives.
#![forbid(unsafe_code)]

use super::types::space_of;
use super::{Global, Parser};
use crate::ptx::ast::{Function, Linkage, Module, Named, Space};
use crate::ptx::error::{Position, Result};
use crate::ptx::lexer::{Kind, Token};

/// The newest PTX version that is accepted.
const NEWEST: u32 = 9;
/// The newest target whose code is accepted.
const MOST_TARGET: u32 = 80;

impl<'a> Parser<'a> {
    /// Parses the whole text.
    pub(in crate::ptx) fn module(mut self) -> Result<Module> {
        self.version()?;
        self.target()?;
        while self.token.kind != Kind::End {
            self.directive()?;
        }
        self.look_up_addresses()?;
        Ok(self.module)
    }

    fn version(&mut self) -> Result<()> {
        if !self.take_word("version")? {
            return Err(self.token.at.syntax("a module begins with `.version`"));
        }
        let token = self.advance()?;
        let numbers = token.text.split_once('.').and_then(|(major, minor)| {
            Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
        });
        let Some(version) = numbers else {
            return Err(token
                .at
                .syntax(format!("a version was expected, not {}", token.describe())));
        };
        if version.0 > NEWEST {
            return Err(token.at.unsupported(format!("version {} of PTX", token.text)));
        }
        self.module.version = version;
        Ok(())
    }

    fn target(&mut self) -> Result<()> {
        if !self.take_word("target")? {
            return Err(self.token.at.syntax("`.target` comes after `.version`"));
        }
        let token = self.expect_name("a processor")?;
        let number = token.text.strip_prefix("sm_").unwrap_or_default();
        // Newer targets have a letter after their number.
        let digits = number.trim_end_matches(|letter: char| letter.is_ascii_lowercase());
        let Ok(target) = digits.parse::<u32>() else {
            return Err(token
                .at
                .syntax(format!("a processor as `sm_75` was expected, not {}", token.describe())));
        };
        if target > MOST_TARGET || digits != number {
            return Err(token.at.unsupported(format!(
                "code for `{}` (the newest is `sm_{MOST_TARGET}`)",
                token.text
            )));
        }
        self.module.target = target;
        while self.take(b',')? {
            let option = self.expect_name("an option of `.target`")?;
            if !matches!(option.text, "debug" | "texmode_unified" | "texmode_independent") {
                return Err(option.at.unsupported(format!("target option {}", option.describe())));
            }
        }
        Ok(())
    }

    fn directive(&mut self) -> Result<()> {
        let first = self.token;
        let mut linkage = Linkage::Private;
        while self.token.kind == Kind::Word {
            linkage = match self.token.text {
                "visible" | "common" => Linkage::Visible,
                "weak" => Linkage::Weak,
                "extern" => Linkage::Extern,
                _ => break,
            };
            self.advance()?;
        }
        let token = self.token;
        if token.kind != Kind::Word {
            return Err(token
                .at
                .syntax(format!("a directive was expected, not {}", token.describe())));
        }
        self.advance()?;
        match token.text {
            "entry" => self.function(true, linkage),
            "func" => self.function(false, linkage),
            "global" | "const" | "shared" => {
                self.module_variables(space_of(token.text).unwrap_or(Space::Global), linkage)
            }
            _ if token.at != first.at => Err(token
                .at
                .syntax(format!("a variable or function was expected, not {}", token.describe()))),
            "address_size" => self.address_size(),
            "file" => self.file(),
            "section" => self.section(token.at),
            "pragma" => self.skip_statement(),
            "tex" | "alias" | "local" | "param" | "reg" | "sreg" => {
                Err(token.at.unsupported(format!("{} outside of functions", token.describe())))
            }
            "version" | "target" => {
                Err(token.at.syntax(format!("{} comes once", token.describe())))
            }
            _ => Err(token.at.syntax(format!("PTX has no directive {}", token.describe()))),
        }
    }

    fn address_size(&mut self) -> Result<()> {
        let at = self.token.at;
        match self.expect_integer("a size of addresses")? {
            64 => Ok(()),
            32 => Err(at.unsupported("code with addresses of 32 bits")),
            other => Err(at.syntax(format!("addresses have 32 or 64 bits, not {other}"))),
        }
    }

    /// Reads `.file 1 "name"` and skips time and size.
    pub(super) fn file(&mut self) -> Result<()> {
        let number = self.expect_small("the file's number")?;
        let name = self.advance()?;
        if name.kind != Kind::String {
            return Err(name
                .at
                .syntax(format!("the file's name was expected, not {}", name.describe())));
        }
        while self.take(b',')? {
            self.expect_integer("the file's time or size")?;
        }
        self.module.files.insert(number, name.text.to_owned());
        Ok(())
    }

    /// Skips debug sections.
    fn section(&mut self, at: Position) -> Result<()> {
        if !matches!(self.token.kind, Kind::Name | Kind::Word) {
            return Err(self.token.at.syntax("a section has a name"));
        }
        self.advance()?;
        self.expect(b'{')?;
        while !self.take(b'}')? {
            if self.token.kind == Kind::End {
                return Err(at.syntax("the section that begins here does not end"));
            }
            self.advance()?;
        }
        Ok(())
    }

    fn look_up_addresses(&mut self) -> Result<()> {
        for variable in &mut self.module.variables {
            for address in &mut variable.addresses {
                let Named::Variable(index) = address.of else { continue };
                let Some(name) = self.pending.get(index) else { continue };
                address.of = match self.globals.get(name.text) {
                    Some(Global::Variable(number)) => Named::Variable(*number),
                    Some(Global::Function(number)) => {
                        let number = address_of_function(&self.module.functions, *number, *name)?;
                        if address.addend != 0 {
                            return Err(name.at.unsupported("an offset from a function"));
                        }
                        Named::Function(number)
                    }
                    None => return Err(name.at.unresolved("variable", name.text)),
                };
            }
        }
        Ok(())
    }
}

/// A function whose address is used. Kernels have none: only the host starts them.
pub(super) fn address_of_function(
    functions: &[Function],
    number: usize,
    name: Token<'_>,
) -> Result<usize> {
    match functions.get(number) {
        Some(found) if found.entry => {
            Err(name.at.unsupported(format!("the address of kernel {}", name.describe())))
        }
        _ => Ok(number),
    }
}
