//! Parses one conversion of a format.

/// The flags after the percent sign.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flags {
    pub(super) left: bool,
    pub(super) plus: bool,
    pub(super) space: bool,
    pub(super) alternate: bool,
    pub(super) zero: bool,
}

/// A width or a precision.
#[derive(Clone, Copy, Debug)]
pub(super) enum Count {
    None,
    Number(usize),
    /// `*`.
    Argument,
}

/// The size of an integer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Length {
    Byte,
    Short,
    Int,
    Long,
}

impl Length {
    pub(super) const fn is_long(self) -> bool {
        matches!(self, Self::Long)
    }

    pub(super) fn cut_signed(self, value: i32) -> i32 {
        let [first, second, ..] = value.to_le_bytes();
        match self {
            Self::Byte => i8::from_le_bytes([first]).into(),
            Self::Short => i16::from_le_bytes([first, second]).into(),
            Self::Int | Self::Long => value,
        }
    }

    pub(super) const fn cut_unsigned(self, value: u32) -> u32 {
        match self {
            Self::Byte => value & 0xff,
            Self::Short => value & 0xffff,
            Self::Int | Self::Long => value,
        }
    }
}

/// The notation of a float.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Fixed,
    Exponent,
    General,
    Hexadecimal,
}

/// The kind of a conversion.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Percent,
    Character,
    Text,
    Pointer,
    Signed,
    Unsigned { base: u64, upper: bool },
    Float { style: Style, upper: bool },
}

/// A conversion.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conversion {
    pub(super) flags: Flags,
    pub(super) width: Count,
    pub(super) precision: Count,
    pub(super) length: Length,
    pub(super) kind: Kind,
}

/// The number at the start of a text, if there is one.
fn digits(text: &[u8]) -> (Option<usize>, &[u8]) {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    let value = number.iter().fold(0_usize, |value, byte| {
        value.saturating_mul(10).saturating_add(usize::from(byte - b'0'))
    });
    ((end > 0).then_some(value), rest)
}

fn count(text: &[u8]) -> (Count, &[u8]) {
    match text {
        [b'*', rest @ ..] => (Count::Argument, rest),
        _ => match digits(text) {
            (Some(number), rest) => (Count::Number(number), rest),
            (None, rest) => (Count::None, rest),
        },
    }
}

/// The conversion that begins with the text's first byte, a percent sign, and the text after it.
pub(super) fn read(text: &[u8]) -> Option<(Conversion, &[u8])> {
    let (_, mut rest) = text.split_first()?;
    let mut flags = Flags::default();
    while let [flag, after @ ..] = rest {
        match flag {
            b'-' => flags.left = true,
            b'+' => flags.plus = true,
            b' ' => flags.space = true,
            b'#' => flags.alternate = true,
            b'0' => flags.zero = true,
            _ => break,
        }
        rest = after;
    }
    let (width, rest) = count(rest);
    let (precision, rest) = match rest {
        [b'.', rest @ ..] => match count(rest) {
            (Count::None, rest) => (Count::Number(0), rest),
            found => found,
        },
        _ => (Count::None, rest),
    };
    let (length, rest) = match rest {
        [b'h', b'h', rest @ ..] => (Length::Byte, rest),
        [b'h', rest @ ..] => (Length::Short, rest),
        [b'l', b'l', rest @ ..] | [b'l' | b'q' | b'z' | b'j' | b't' | b'L', rest @ ..] => {
            (Length::Long, rest)
        }
        _ => (Length::Int, rest),
    };
    let (letter, rest) = rest.split_first()?;
    let upper = letter.is_ascii_uppercase();
    let kind = match letter {
        b'%' => Kind::Percent,
        b'c' => Kind::Character,
        b's' => Kind::Text,
        b'p' => Kind::Pointer,
        b'd' | b'i' => Kind::Signed,
        b'u' => Kind::Unsigned { base: 10, upper },
        b'o' => Kind::Unsigned { base: 8, upper },
        b'x' | b'X' => Kind::Unsigned { base: 16, upper },
        b'f' | b'F' => Kind::Float { style: Style::Fixed, upper },
        b'e' | b'E' => Kind::Float { style: Style::Exponent, upper },
        b'g' | b'G' => Kind::Float { style: Style::General, upper },
        b'a' | b'A' => Kind::Float { style: Style::Hexadecimal, upper },
        _ => return None,
    };
    Some((Conversion { flags, width, precision, length, kind }, rest))
}
