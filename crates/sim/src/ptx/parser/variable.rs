//! Declarations of variables and parameters.
#![forbid(unsafe_code)]

use super::types::{is_unsupported, space_of, type_of, word_of};
use super::{Global, Parser};
use crate::ptx::ast::{Linkage, Param, Space, Type, Variable};
use crate::ptx::error::Result;
use crate::ptx::lexer::{Kind, Token};

/// A declaration without its initialiser.
#[derive(Debug)]
pub(super) struct Declaration<'a> {
    pub(super) name: Token<'a>,
    pub(super) ty: Type,
    pub(super) align: u32,
    /// The extents, a vector's last; 0 first for `x[]`.
    pub(super) shape: Vec<u64>,
    pub(super) bytes: u64,
}

/// The part of a declaration before the names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    ty: Type,
    vector: Option<u32>,
    align: Option<u32>,
}

/// No memory is larger, and sums of addresses in it cannot overflow.
const MOST_BYTES: u64 = 1 << 40;
/// More than any compiler uses.
const MOST_ALIGN: u32 = 1 << 16;
/// The most axes of an array.
const MOST_AXES: usize = 16;

impl<'a> Parser<'a> {
    /// Reads `.align 8 .v2 .b32` and the like.
    pub(super) fn head(&mut self) -> Result<Head> {
        let (mut ty, mut vector, mut align) = (None, None, None);
        while self.token.kind == Kind::Word {
            let token = self.advance()?;
            match token.text {
                "align" => align = Some(self.alignment()?),
                "v2" => vector = Some(2),
                "v4" => vector = Some(4),
                // The pointee does not affect how a pointer is passed.
                "ptr" => {
                    while self.token.kind == Kind::Word && space_of(self.token.text).is_some() {
                        self.advance()?;
                    }
                    if self.take_word("align")? {
                        self.alignment()?;
                    }
                }
                word if is_unsupported("", word) || word == "attribute" => {
                    return Err(token.at.unsupported(token.describe()));
                }
                word => {
                    let found = type_of(word).filter(|_| ty.is_none());
                    ty = Some(found.ok_or_else(|| {
                        token.at.syntax(format!("a type was expected, not {}", token.describe()))
                    })?);
                }
            }
        }
        let Some(ty) = ty else {
            return Err(self
                .token
                .at
                .syntax(format!("a type was expected, not {}", self.token.describe())));
        };
        Ok(Head { ty, vector, align })
    }

    fn alignment(&mut self) -> Result<u32> {
        let at = self.token.at;
        let align = self.expect_small("an alignment")?;
        if !align.is_power_of_two() || align > MOST_ALIGN {
            return Err(
                at.syntax(format!("an alignment of {align} is no power of two up to {MOST_ALIGN}"))
            );
        }
        Ok(align)
    }

    /// Reads a name and its extents: `x[4][2]`.
    pub(super) fn declaration(&mut self, head: Head) -> Result<Declaration<'a>> {
        let name = self.expect_name("a name")?;
        if head.ty == Type::Pred {
            return Err(name
                .at
                .syntax(format!("{} of type `.pred` is no register", name.describe())));
        }
        if self.token.is(b'<') {
            return Err(self.token.at.unsupported("a range of variables"));
        }
        let mut shape = Vec::new();
        while self.take(b'[')? {
            let open = shape.is_empty() && self.token.is(b']');
            shape.push(if open { 0 } else { self.expect_integer("a length")? });
            self.expect(b']')?;
            if shape.len() > MOST_AXES {
                return Err(name.at.unsupported(format!("an array of more than {MOST_AXES} axes")));
            }
        }
        shape.extend(head.vector.map(u64::from));
        let own = head.ty.bytes() * head.vector.unwrap_or(1);
        let bytes = shape
            .iter()
            .try_fold(u64::from(head.ty.bytes()), |bytes, length| bytes.checked_mul(*length));
        let Some(bytes) = bytes.filter(|bytes| *bytes <= MOST_BYTES) else {
            return Err(name.at.syntax(format!("{} is larger than any memory", name.describe())));
        };
        let align = head.align.unwrap_or(own).max(own);
        Ok(Declaration { name, ty: head.ty, align, shape, bytes })
    }

    /// Reads variables of one space after its word, up to and including `;`.
    pub(super) fn variables(
        &mut self,
        space: Space,
        linkage: Linkage,
    ) -> Result<Vec<(Token<'a>, Variable)>> {
        let head = self.head()?;
        let mut variables = Vec::new();
        loop {
            let mut declared = self.declaration(head)?;
            let (initial, addresses) = self.initial(space, &mut declared)?;
            let open = declared.bytes == 0;
            if open && !(linkage == Linkage::Extern || space == Space::Shared) {
                let name = declared.name;
                return Err(name.at.syntax(format!("{} has no length", name.describe())));
            }
            variables.push((
                declared.name,
                Variable {
                    name: declared.name.text.to_owned(),
                    space,
                    ty: declared.ty,
                    align: declared.align,
                    bytes: declared.bytes,
                    initial,
                    addresses,
                    linkage,
                    line: declared.name.at.line,
                },
            ));
            if !self.take(b',')? {
                self.expect(b';')?;
                return Ok(variables);
            }
        }
    }

    /// Reads variables of the module.
    pub(super) fn module_variables(&mut self, space: Space, linkage: Linkage) -> Result<()> {
        for (name, variable) in self.variables(space, linkage)? {
            let number = self.module.variables.len();
            match self.globals.insert(name.text, Global::Variable(number)) {
                None => self.module.variables.push(variable),
                Some(Global::Variable(old)) => {
                    self.globals.insert(name.text, Global::Variable(old));
                    self.redeclare(name, old, variable)?;
                }
                Some(Global::Function(_)) => {
                    return Err(name.at.syntax(format!("{} is a function too", name.describe())));
                }
            }
        }
        Ok(())
    }

    /// Handles a repeated declaration. A variable may be declared several times and defined once.
    fn redeclare(&mut self, name: Token<'a>, old: usize, variable: Variable) -> Result<()> {
        let Some(known) = self.module.variables.get_mut(old) else { return Ok(()) };
        if known.space != variable.space || known.ty.bytes() != variable.ty.bytes() {
            return Err(name.at.syntax(format!("{} was declared differently", name.describe())));
        }
        match (known.linkage, variable.linkage) {
            (_, Linkage::Extern) => {}
            (Linkage::Extern, _) => *known = variable,
            _ => return Err(name.at.syntax(format!("{} is defined twice", name.describe()))),
        }
        Ok(())
    }

    /// Reads `(.param .b32 x, …)`, starting at the opening bracket.
    pub(super) fn params(&mut self) -> Result<Vec<(Token<'a>, Param)>> {
        self.expect(b'(')?;
        let mut params = Vec::new();
        let mut end = 0_u32;
        if self.take(b')')? {
            return Ok(params);
        }
        loop {
            let at = self.token.at;
            if self.take_word("reg")? {
                return Err(at.unsupported("a parameter in a register"));
            }
            if !self.take_word("param")? {
                return Err(
                    at.syntax(format!("`.param` was expected, not {}", self.token.describe()))
                );
            }
            let head = self.head()?;
            let declared = self.declaration(head)?;
            let (name, align) = (declared.name, declared.align);
            if declared.bytes == 0 {
                return Err(name
                    .at
                    .unsupported(format!("parameter {} without length", name.describe())));
            }
            let place = u32::try_from(declared.bytes).ok().and_then(|bytes| {
                let offset = end.checked_next_multiple_of(align)?;
                Some((bytes, offset, offset.checked_add(bytes)?))
            });
            let Some((bytes, offset, next)) = place else {
                return Err(name
                    .at
                    .syntax(format!("{} is larger than parameters can be", name.describe())));
            };
            end = next;
            let text = name.text.to_owned();
            params.push((name, Param { name: text, ty: declared.ty, align, bytes, offset }));
            if !self.take(b',')? {
                self.expect(b')')?;
                return Ok(params);
            }
        }
    }
}

/// The description of a type in messages.
pub(super) fn describe_type(ty: Type) -> String {
    format!("`.{}`", word_of(ty))
}
