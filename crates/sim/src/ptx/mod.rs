//! PTX: parses text to a typed syntax tree.
//!
//! [`parse`] reads the output of LLVM's NVPTX back end, and hand-written PTX in the style of the manual. Its time
//! and memory are linear in the length of the text; no text makes it panic or recurse.
#![forbid(unsafe_code)]

pub mod ast;
mod error;
mod lexer;
mod parser;
pub mod visit;

pub use error::{ParseError, ParseErrorKind};

/// Parses a module.
///
/// Registers of a range such as `%r<91>` are in the tree only if used, numbered in the order of their first
/// use. Labels are in the tree only if something branches to them.
///
/// # Errors
///
/// The first error, with its line and column.
pub fn parse(text: &str) -> Result<ast::Module, ParseError> {
    parser::Parser::new(text)?.module()
}
