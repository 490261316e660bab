//! The names of a function: registers, variables and labels, in scopes.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use crate::ptx::ast::{Body, Label, Op, Place, Prototype, Reg, Register, Source, Type};
use crate::ptx::error::{Position, Result};
use crate::ptx::lexer::{Token, shorten};

/// A name of a function.
#[derive(Clone, Copy, Debug)]
pub(super) enum Name {
    Register(Reg),
    Place(Place),
}

#[derive(Debug, Default)]
struct Scope<'a> {
    names: HashMap<&'a str, Name>,
    /// Ranges of registers such as `%r<91>`: by `%r`, their number and type.
    ranges: HashMap<&'a str, (u32, Type)>,
    labels: HashMap<&'a str, u32>,
    /// The lists of `.branchtargets`.
    tables: HashMap<&'a str, Vec<Label>>,
    /// Prototypes, by their index in the body.
    prototypes: HashMap<&'a str, usize>,
}

/// A label that was seen, defined or not.
#[derive(Debug)]
struct Seen<'a> {
    name: Token<'a>,
    statement: Option<usize>,
    /// The label of an outer scope that it refers to.
    same_as: Option<u32>,
}

/// No compiler nests deeper; a lookup searches all of them.
const MOST_SCOPES: usize = 64;

/// A list is copied to each branch that uses it. This limits the copies in a function.
const MOST_TABLE_ENTRIES: usize = 1 << 20;

/// The names of the function being read.
#[derive(Debug)]
pub(super) struct Names<'a> {
    pub(super) body: Body,
    /// The current source location.
    pub(super) source: Option<Source>,
    /// The last known location in each file.
    pub(super) known: HashMap<u32, Source>,
    scopes: Vec<Scope<'a>>,
    seen: Vec<Seen<'a>>,
    table_entries_left: usize,
}

impl<'a> Names<'a> {
    pub(super) fn new() -> Self {
        Self {
            body: Body::default(),
            source: None,
            known: HashMap::new(),
            scopes: vec![Scope::default()],
            seen: Vec::new(),
            table_entries_left: MOST_TABLE_ENTRIES,
        }
    }

    /// The number of open scopes, including the function's own.
    pub(super) fn depth(&self) -> usize {
        self.scopes.len()
    }

    pub(super) fn open(&mut self, at: Position) -> Result<()> {
        if self.scopes.len() >= MOST_SCOPES {
            return Err(at.unsupported(format!("more than {MOST_SCOPES} scopes in each other")));
        }
        self.scopes.push(Scope::default());
        Ok(())
    }

    /// Closes a scope. Labels that it used but did not define are looked up in the enclosing scope.
    pub(super) fn close(&mut self) {
        let Some(scope) = self.scopes.pop() else { return };
        let Some(outer) = self.scopes.last_mut() else { return };
        for (name, number) in scope.labels {
            let Some(seen) = self.seen.get_mut(number as usize) else { continue };
            if seen.statement.is_none() {
                let same = *outer.labels.entry(name).or_insert(number);
                seen.same_as = (same != number).then_some(same);
            }
        }
    }

    pub(super) fn declare(&mut self, token: Token<'a>, name: Name) -> Result<()> {
        let Some(scope) = self.scopes.last_mut() else { return Ok(()) };
        if scope.names.insert(token.text, name).is_some() {
            return Err(token.at.syntax(format!("{} is declared twice", token.describe())));
        }
        Ok(())
    }

    pub(super) fn declare_range(&mut self, token: Token<'a>, count: u32, ty: Type) -> Result<()> {
        let Some(scope) = self.scopes.last_mut() else { return Ok(()) };
        if scope.ranges.insert(token.text, (count, ty)).is_some() {
            return Err(token.at.syntax(format!("{} is declared twice", token.describe())));
        }
        Ok(())
    }

    pub(super) fn add_register(&mut self, name: &str, ty: Type, at: Position) -> Result<Reg> {
        let number = u32::try_from(self.body.registers.len())
            .map_err(|_| at.syntax("a function of more registers than there are numbers"))?;
        self.body.registers.push(Register { name: name.to_owned(), ty });
        Ok(Reg(number))
    }

    /// Looks up a name. A register of a range is created at its first use.
    pub(super) fn find(&mut self, token: Token<'a>) -> Result<Option<Name>> {
        let text = token.text;
        for depth in (0..self.scopes.len()).rev() {
            let Some(scope) = self.scopes.get(depth) else { break };
            if let Some(name) = scope.names.get(text) {
                return Ok(Some(*name));
            }
            if let Some(ty) = in_ranges(&scope.ranges, text) {
                let name = Name::Register(self.add_register(text, ty, token.at)?);
                if let Some(scope) = self.scopes.get_mut(depth) {
                    scope.names.insert(text, name);
                }
                return Ok(Some(name));
            }
        }
        Ok(None)
    }

    /// The label with this name in the current scope, defined or not yet.
    pub(super) fn label(&mut self, name: Token<'a>) -> Result<Label> {
        let number = u32::try_from(self.seen.len())
            .map_err(|_| name.at.syntax("a function of more labels than there are numbers"))?;
        let Some(scope) = self.scopes.last_mut() else { return Ok(Label(0)) };
        let label = *scope.labels.entry(name.text).or_insert(number);
        if label == number {
            self.seen.push(Seen { name, statement: None, same_as: None });
        }
        Ok(Label(label))
    }

    /// Defines a label before the next statement.
    pub(super) fn define_label(&mut self, name: Token<'a>) -> Result<()> {
        let statement = self.body.statements.len();
        let Label(number) = self.label(name)?;
        let Some(seen) = self.seen.get_mut(number as usize) else { return Ok(()) };
        if seen.statement.replace(statement).is_some() {
            return Err(name.at.syntax(format!("label {} is defined twice", name.describe())));
        }
        Ok(())
    }

    /// Stores the list of a `.branchtargets`.
    pub(super) fn declare_table(&mut self, name: Token<'a>, labels: Vec<Label>) -> Result<()> {
        let Some(scope) = self.scopes.last_mut() else { return Ok(()) };
        if scope.tables.insert(name.text, labels).is_some() {
            return Err(name.at.syntax(format!("{} is declared twice", name.describe())));
        }
        Ok(())
    }

    /// Returns the list of the `.branchtargets` with a name.
    pub(super) fn table(&mut self, name: Token<'a>) -> Result<Vec<Label>> {
        let tables = self.scopes.iter().rev();
        let Some(labels) = tables.filter_map(|scope| scope.tables.get(name.text)).next() else {
            return Err(name.at.unresolved("the list of branch targets", &shorten(name.text)));
        };
        self.table_entries_left =
            self.table_entries_left.checked_sub(labels.len()).ok_or_else(|| {
                name.at.unsupported(format!("more than {MOST_TABLE_ENTRIES} branch targets"))
            })?;
        Ok(labels.clone())
    }

    /// Stores a `.callprototype`.
    pub(super) fn declare_prototype(&mut self, name: Token<'a>, found: Prototype) -> Result<()> {
        let Some(scope) = self.scopes.last_mut() else { return Ok(()) };
        if scope.prototypes.insert(name.text, self.body.prototypes.len()).is_some() {
            return Err(name.at.syntax(format!("{} is declared twice", name.describe())));
        }
        self.body.prototypes.push(found);
        Ok(())
    }

    /// Returns the index of the prototype with a name.
    pub(super) fn prototype(&self, name: Token<'a>) -> Result<usize> {
        let mut scopes = self.scopes.iter().rev();
        scopes
            .find_map(|scope| scope.prototypes.get(name.text).copied())
            .ok_or_else(|| name.at.unresolved("prototype", &shorten(name.text)))
    }

    /// Returns the body. Its labels are those that something branches to, in the order of their first use.
    pub(super) fn finish(mut self) -> Result<Body> {
        let mut numbers: Vec<Option<u32>> = vec![None; self.seen.len()];
        let mut labels = Vec::new();
        for statement in &mut self.body.statements {
            let targets = match &mut statement.op {
                Op::Branch { to } => std::slice::from_mut(to),
                Op::BranchTable { to, .. } => to.as_mut_slice(),
                _ => continue,
            };
            for target in targets {
                *target = resolve(&self.seen, &mut numbers, &mut labels, *target)?;
            }
        }
        self.body.labels = labels;
        Ok(self.body)
    }
}

fn resolve(
    seen: &[Seen<'_>],
    numbers: &mut [Option<u32>],
    labels: &mut Vec<usize>,
    label: Label,
) -> Result<Label> {
    let mut number = label.0 as usize;
    // Each step goes one scope out, so this ends.
    while let Some(outer) = seen.get(number).and_then(|seen| seen.same_as) {
        number = outer as usize;
    }
    let (Some(found), Some(known)) = (seen.get(number), numbers.get_mut(number)) else {
        return Ok(label);
    };
    if let Some(number) = *known {
        return Ok(Label(number));
    }
    let Some(statement) = found.statement else {
        return Err(found.name.at.unresolved("label", &shorten(found.name.text)));
    };
    let number = u32::try_from(labels.len()).unwrap_or(u32::MAX);
    labels.push(statement);
    *known = Some(number);
    Ok(Label(number))
}

/// The type of `%r12`, if there is a range `%r<13>` or longer.
fn in_ranges(ranges: &HashMap<&str, (u32, Type)>, name: &str) -> Option<Type> {
    const MOST_DIGITS: usize = 10;
    if ranges.is_empty() {
        return None;
    }
    let digits = name.bytes().rev().take(MOST_DIGITS).take_while(u8::is_ascii_digit).count();
    (1..=digits).find_map(|count| {
        let (prefix, number) = name.split_at_checked(name.len() - count)?;
        if count > 1 && number.starts_with('0') {
            return None;
        }
        let &(most, ty) = ranges.get(prefix)?;
        (number.parse::<u32>().ok()? < most).then_some(ty)
    })
}
