//! Splits text into tokens.
#![forbid(unsafe_code)]

use super::error::{Position, Result};

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// A name, for instance `%r1`, `$L__BB0_1` or `ld`.
    Name,
    /// A word after a dot, for instance `.u32` or `.L1::evict_last`. Its text excludes the dot.
    Word,
    /// An integer.
    Integer(u64),
    /// The bits of a float, written `0f…`.
    Single(u32),
    /// The bits of a double, written `0d…` or as a decimal.
    Double(u64),
    /// A string. Its text excludes the quotes.
    String,
    /// Any other character.
    Sign(u8),
    /// The end of the text.
    End,
}

/// A token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a str,
    pub(super) at: Position,
}

impl Token<'_> {
    /// Whether it is this sign.
    pub(super) fn is(&self, sign: u8) -> bool {
        self.kind == Kind::Sign(sign)
    }

    /// Its description in messages.
    pub(super) fn describe(&self) -> String {
        match self.kind {
            Kind::End => "the end of the text".to_owned(),
            Kind::Word => format!("`.{}`", shorten(self.text)),
            _ => format!("`{}`", shorten(self.text)),
        }
    }
}

/// The start of a text, short enough for a message.
pub(super) fn shorten(text: &str) -> String {
    const MOST: usize = 80;
    if text.chars().nth(MOST).is_none() {
        return text.to_owned();
    }
    text.chars().take(MOST).chain("…".chars()).collect()
}

/// Returns the tokens of a text one after the other. A copy looks ahead.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lexer<'a> {
    text: &'a str,
    next: usize,
    line: u32,
    line_start: usize,
}

const fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$')
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, next: 0, line: 1, line_start: 0 }
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.next + ahead).copied().unwrap_or(0)
    }

    fn position(&self) -> Position {
        let column = u32::try_from(self.next - self.line_start + 1).unwrap_or(u32::MAX);
        Position { line: self.line, column }
    }

    fn slice(&self, from: usize) -> &'a str {
        self.text.get(from..self.next).unwrap_or_default()
    }

    fn skip_while(&mut self, holds: impl Fn(u8) -> bool) {
        let rest = self.text.as_bytes().get(self.next..).unwrap_or_default();
        self.next += rest.iter().position(|&byte| !holds(byte)).unwrap_or(rest.len());
    }

    fn newline(&mut self) {
        self.line = self.line.saturating_add(1);
        self.line_start = self.next;
    }

    fn skip_space(&mut self) -> Result<()> {
        while self.next < self.text.len() {
            match (self.peek(0), self.peek(1)) {
                (b'\n', _) => {
                    self.next += 1;
                    self.newline();
                }
                (byte, _) if byte.is_ascii_whitespace() || byte == 0x0b => self.next += 1,
                (b'/', b'/') => self.skip_while(|byte| byte != b'\n'),
                (b'/', b'*') => self.skip_block_comment()?,
                _ => break,
            }
        }
        Ok(())
    }

    fn skip_block_comment(&mut self) -> Result<()> {
        let at = self.position();
        self.next += 2;
        while self.next < self.text.len() {
            match (self.peek(0), self.peek(1)) {
                (b'*', b'/') => {
                    self.next += 2;
                    return Ok(());
                }
                (b'\n', _) => {
                    self.next += 1;
                    self.newline();
                }
                _ => self.next += 1,
            }
        }
        Err(at.syntax("the comment that begins here does not end"))
    }

    /// Returns the next token; after the last one, always `End`.
    pub(super) fn token(&mut self) -> Result<Token<'a>> {
        self.skip_space()?;
        let at = self.position();
        let start = self.next;
        if start >= self.text.len() {
            return Ok(Token { kind: Kind::End, text: "", at });
        }
        let first = self.peek(0);
        let kind = match first {
            b'0'..=b'9' => self.number(at)?,
            b'"' => return self.string(at),
            b'.' if is_name_byte(self.peek(1)) => {
                self.next += 1;
                self.skip_while(is_name_byte);
                while self.peek(0) == b':' && self.peek(1) == b':' && is_name_byte(self.peek(2)) {
                    self.next += 2;
                    self.skip_while(is_name_byte);
                }
                return Ok(Token { kind: Kind::Word, text: self.slice(start + 1), at });
            }
            b'%' if is_name_byte(self.peek(1)) => {
                self.next += 1;
                self.skip_while(is_name_byte);
                Kind::Name
            }
            _ if is_name_byte(first) => {
                self.skip_while(is_name_byte);
                Kind::Name
            }
            _ if first.is_ascii_graphic() => {
                self.next += 1;
                Kind::Sign(first)
            }
            _ => return Err(at.syntax("a character that PTX does not have")),
        };
        Ok(Token { kind, text: self.slice(start), at })
    }

    fn string(&mut self, at: Position) -> Result<Token<'a>> {
        self.next += 1;
        let start = self.next;
        self.skip_while(|byte| !matches!(byte, b'"' | b'\n'));
        if self.peek(0) != b'"' {
            return Err(at.syntax("the string that begins here does not end on its line"));
        }
        let text = self.slice(start);
        self.next += 1;
        Ok(Token { kind: Kind::String, text, at })
    }

    fn number(&mut self, at: Position) -> Result<Kind> {
        let start = self.next;
        let kind = match (self.peek(0), self.peek(1)) {
            (b'0', b'f' | b'F') => {
                self.bits(8).and_then(|bits| u32::try_from(bits).ok()).map(Kind::Single)
            }
            (b'0', b'd' | b'D') => self.bits(16).map(Kind::Double),
            (b'0', b'x' | b'X') => self.integer(2, 16),
            (b'0', b'b' | b'B') => self.integer(2, 2),
            _ => self.decimal(),
        };
        let ends = !is_name_byte(self.peek(0));
        if !ends {
            self.skip_while(is_name_byte);
        }
        kind.filter(|_| ends).ok_or_else(|| {
            at.syntax(format!("`{}` is no number, or one too large", shorten(self.slice(start))))
        })
    }

    /// Reads the hexadecimal digits after `0f` or `0d`: exactly `digits` of them.
    fn bits(&mut self, digits: usize) -> Option<u64> {
        self.next += 2;
        let start = self.next;
        self.skip_while(|byte| byte.is_ascii_hexdigit());
        let text = self.slice(start);
        (text.len() == digits).then(|| u64::from_str_radix(text, 16).ok()).flatten()
    }

    fn integer(&mut self, prefix: usize, radix: u32) -> Option<Kind> {
        self.next += prefix;
        let start = self.next;
        self.skip_while(|byte| char::from(byte).is_digit(radix));
        let value = u64::from_str_radix(self.slice(start), radix).ok().map(Kind::Integer);
        if self.peek(0) == b'U' {
            self.next += 1;
        }
        value
    }

    fn decimal(&mut self) -> Option<Kind> {
        let start = self.next;
        self.skip_while(|byte| byte.is_ascii_digit());
        let fraction = self.peek(0) == b'.' && self.peek(1).is_ascii_digit();
        if fraction {
            self.next += 1;
            self.skip_while(|byte| byte.is_ascii_digit());
        }
        let sign = usize::from(matches!(self.peek(1), b'+' | b'-'));
        let power = matches!(self.peek(0), b'e' | b'E') && self.peek(1 + sign).is_ascii_digit();
        if power {
            self.next += 1 + sign;
            self.skip_while(|byte| byte.is_ascii_digit());
        }
        if fraction || power {
            return self
                .slice(start)
                .parse::<f64>()
                .ok()
                .map(|value| Kind::Double(value.to_bits()));
        }
        let text = self.slice(start);
        self.next = start;
        if text.len() > 1 && text.starts_with('0') {
            self.integer(1, 8)
        } else {
            self.integer(0, 10)
        }
    }
}
