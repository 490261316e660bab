//! Reasons to refuse PTX.
#![forbid(unsafe_code)]

use std::fmt;

/// What kind of wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseErrorKind {
    /// It is no PTX, or wrong PTX.
    Syntax,
    /// It is PTX, of a kind the simulated GPU does not have.
    Unsupported,
    /// It uses a name that was not declared.
    Unresolved,
}

/// Why a text is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The line, from 1.
    pub line: u32,
    /// The byte in the line, from 1.
    pub column: u32,
    /// What kind of wrong.
    pub kind: ParseErrorKind,
    /// In words: what was found and what was wanted.
    pub message: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "line {}, column {}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for ParseError {}

pub(super) type Result<T> = std::result::Result<T, ParseError>;

/// A place in the text, each number from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) line: u32,
    pub(super) column: u32,
}

impl Position {
    fn error(self, kind: ParseErrorKind, message: String) -> ParseError {
        ParseError { line: self.line, column: self.column, kind, message }
    }

    pub(super) fn syntax(self, message: impl Into<String>) -> ParseError {
        self.error(ParseErrorKind::Syntax, message.into())
    }

    /// Refuses `what`, by name.
    pub(super) fn unsupported(self, what: impl fmt::Display) -> ParseError {
        self.error(
            ParseErrorKind::Unsupported,
            format!("{what} is not supported by the simulated GPU"),
        )
    }

    pub(super) fn unresolved(self, what: &str, name: &str) -> ParseError {
        self.error(ParseErrorKind::Unresolved, format!("{what} `{name}` is not declared"))
    }
}
