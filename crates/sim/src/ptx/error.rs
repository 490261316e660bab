//! Reasons to refuse PTX.
#![forbid(unsafe_code)]

use std::fmt;

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseErrorKind {
    /// It is not PTX, or invalid PTX.
    Syntax,
    /// It is PTX that the simulated GPU does not support.
    Unsupported,
    /// It uses an undeclared name.
    Unresolved,
}

/// Why a text is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The line, from 1.
    pub line: u32,
    /// The byte in the line, from 1.
    pub column: u32,
    /// The kind of the error.
    pub kind: ParseErrorKind,
    /// The message: what was found and what was expected.
    pub message: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "line {}, column {}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for ParseError {}

pub(super) type Result<T> = std::result::Result<T, ParseError>;

/// A position in the text; both numbers count from 1.
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

    /// Refuses an unsupported feature by name.
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
