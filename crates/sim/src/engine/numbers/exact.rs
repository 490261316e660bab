//! Floats as integers times powers of two, rounded once.
//!
//! For all operations that the CPU does not round as PTX requires. A value is widened so that no bit that decides the
//! rounding is lost, and `pack` rounds it. If bits must be dropped before that, the lowest remaining bit is set if any
//! of them was ("jammed"): it is below the place where `pack` rounds, so it decides as the dropped bits would.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "fields of floats are cut out and put together"
)]

use std::cmp::Ordering;

use super::Direction;

/// The layout of a float format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Binary digits of the significand, with the hidden one.
    digits: u32,
    /// Bits of the exponent.
    exponent: u32,
    /// The NaN that operations return.
    nan: u64,
}

/// IEEE binary16.
pub const HALF: Format = Format { digits: 11, exponent: 5, nan: 0x7fff };
/// bfloat16.
pub const BFLOAT: Format = Format { digits: 8, exponent: 8, nan: 0x7fff };
/// IEEE binary32.
pub const SINGLE: Format = Format { digits: 24, exponent: 8, nan: 0x7fff_ffff };
/// IEEE binary64.
pub const DOUBLE: Format = Format { digits: 53, exponent: 11, nan: 0xfff8_0000_0000_0000 };

impl Format {
    /// The power of two of the lowest bit of the smallest float.
    const fn least(self) -> i32 {
        3 - (1 << (self.exponent - 1)) - self.digits as i32
    }

    const fn infinity(self) -> u64 {
        ((1 << self.exponent) - 1) << (self.digits - 1)
    }

    const fn sign(self) -> u64 {
        1 << (self.digits + self.exponent - 1)
    }

    const fn signed(self, negative: bool, bits: u64) -> u64 {
        if negative { bits | self.sign() } else { bits }
    }
}

/// A finite number: the magnitude times two to the exponent.
#[derive(Clone, Copy, Debug)]
struct Finite {
    negative: bool,
    magnitude: u128,
    exponent: i32,
}

impl Finite {
    /// The power of two of its highest bit. Not for zero.
    const fn top(self) -> i32 {
        127 - self.magnitude.leading_zeros() as i32 + self.exponent
    }
}

#[derive(Clone, Copy, Debug)]
enum Value {
    Nan,
    Infinite(bool),
    Finite(Finite),
}

fn unpack(bits: u64, format: Format) -> Value {
    let negative = bits & format.sign() != 0;
    let magnitude = bits & (format.sign() - 1);
    match magnitude.cmp(&format.infinity()) {
        Ordering::Greater => Value::Nan,
        Ordering::Equal => Value::Infinite(negative),
        Ordering::Less => {
            let hidden = 1 << (format.digits - 1);
            let field = (magnitude >> (format.digits - 1)) as i32;
            let fraction = magnitude & (hidden - 1);
            Value::Finite(if field == 0 {
                Finite { negative, magnitude: fraction.into(), exponent: format.least() }
            } else {
                Finite {
                    negative,
                    magnitude: (fraction | hidden).into(),
                    exponent: format.least() + field - 1,
                }
            })
        }
    }
}

/// The nearest float in the rounding direction.
fn pack(value: Finite, format: Format, direction: Direction) -> u64 {
    let Finite { negative, magnitude, exponent } = value;
    if magnitude == 0 {
        return format.signed(negative, 0);
    }
    let unit = (value.top() + 1 - format.digits as i32).max(format.least());
    let shift = unit - exponent;
    let (kept, rest) = match shift {
        ..=0 => (magnitude << shift.unsigned_abs(), None),
        1..=127 => {
            let lost = magnitude & ((1 << shift) - 1);
            (magnitude >> shift, (lost != 0).then(|| lost.cmp(&(1 << (shift - 1)))))
        }
        // Sums and products have no 128th bit, and quotients that do are not small.
        _ => (0, Some(Ordering::Less)),
    };
    let away = rest.is_some_and(|rest| match direction {
        Direction::Nearest => rest == Ordering::Greater || rest == Ordering::Equal && kept & 1 == 1,
        Direction::Zero => false,
        Direction::Down => negative,
        Direction::Up => !negative,
    });
    let kept = kept as u64 + u64::from(away);
    let above = (unit - format.least()) as u64;
    // The hidden bit adds one to the exponent, and so does a carry out of the significand. The largest quotient of
    // doubles is below two to the power of 2100, so nothing is shifted out.
    let bits = (above << (format.digits - 1)) + kept;
    if bits < format.infinity() {
        return format.signed(negative, bits);
    }
    let finite = match direction {
        Direction::Nearest => false,
        Direction::Zero => true,
        Direction::Down => !negative,
        Direction::Up => negative,
    };
    format.signed(negative, format.infinity() - u64::from(finite))
}

/// The first NaN of some operands, made quiet. Doubles keep its payload; the other formats have a single NaN.
fn nan(operands: &[u64], format: Format) -> u64 {
    if format.digits != DOUBLE.digits {
        return format.nan;
    }
    let found = operands.iter().find(|bits| matches!(unpack(**bits, format), Value::Nan));
    found.map_or(format.nan, |bits| bits | 1 << (format.digits - 2))
}

/// The value without its sign, with bits below `1 << by` jammed.
const fn shift_right(magnitude: u128, by: u32) -> u128 {
    if by >= 128 {
        return (magnitude != 0) as u128;
    }
    let lost = magnitude & ((1 << by) - 1);
    (magnitude >> by) | (lost != 0) as u128
}

/// Magnitudes have at most 106 bits.
fn sum(left: Finite, right: Finite, format: Format, direction: Direction) -> u64 {
    if left.magnitude == 0 && right.magnitude == 0 {
        let negative = if left.negative == right.negative {
            left.negative
        } else {
            direction == Direction::Down
        };
        return format.signed(negative, 0);
    }
    if left.magnitude == 0 {
        return pack(right, format, direction);
    }
    if right.magnitude == 0 {
        return pack(left, format, direction);
    }
    let (large, small) = if left.top() >= right.top() { (left, right) } else { (right, left) };
    // The larger gets at least 20 zeros at its end. If the smaller loses bits beyond them, it is so much smaller
    // that the difference keeps all but one of the leading bits.
    let exponent = large.top() - 125;
    let high = large.magnitude << (large.exponent - exponent);
    let shift = exponent - small.exponent;
    let low = if shift <= 0 {
        small.magnitude << shift.unsigned_abs()
    } else {
        shift_right(small.magnitude, shift.unsigned_abs())
    };
    let (negative, magnitude) = if large.negative == small.negative {
        (large.negative, high + low)
    } else {
        match high.cmp(&low) {
            Ordering::Greater => (large.negative, high - low),
            Ordering::Less => (small.negative, low - high),
            Ordering::Equal => (direction == Direction::Down, 0),
        }
    };
    pack(Finite { negative, magnitude, exponent }, format, direction)
}

/// `left + right`.
#[must_use]
pub fn add(left: u64, right: u64, format: Format, direction: Direction) -> u64 {
    match (unpack(left, format), unpack(right, format)) {
        (Value::Nan, _) | (_, Value::Nan) => nan(&[left, right], format),
        (Value::Infinite(a), Value::Infinite(b)) if a != b => nan(&[], format),
        (Value::Infinite(negative), _) | (_, Value::Infinite(negative)) => {
            format.signed(negative, format.infinity())
        }
        (Value::Finite(a), Value::Finite(b)) => sum(a, b, format, direction),
    }
}

/// `left - right`.
#[must_use]
pub fn sub(left: u64, right: u64, format: Format, direction: Direction) -> u64 {
    match unpack(right, format) {
        Value::Nan => add(left, right, format, direction),
        _ => add(left, right ^ format.sign(), format, direction),
    }
}

fn product(left: Finite, right: Finite) -> Finite {
    Finite {
        negative: left.negative != right.negative,
        magnitude: left.magnitude * right.magnitude,
        exponent: left.exponent + right.exponent,
    }
}

fn times(left: Value, right: Value) -> Value {
    match (left, right) {
        (Value::Nan, _) | (_, Value::Nan) => Value::Nan,
        (Value::Infinite(a), Value::Infinite(b)) => Value::Infinite(a != b),
        (Value::Infinite(negative), Value::Finite(other))
        | (Value::Finite(other), Value::Infinite(negative)) => {
            if other.magnitude == 0 {
                Value::Nan
            } else {
                Value::Infinite(negative != other.negative)
            }
        }
        (Value::Finite(a), Value::Finite(b)) => Value::Finite(product(a, b)),
    }
}

/// `left * right`.
#[must_use]
pub fn mul(left: u64, right: u64, format: Format, direction: Direction) -> u64 {
    match times(unpack(left, format), unpack(right, format)) {
        Value::Nan => nan(&[left, right], format),
        Value::Infinite(negative) => format.signed(negative, format.infinity()),
        Value::Finite(value) => pack(value, format, direction),
    }
}

/// `left * right + addend`, rounded once.
#[must_use]
pub fn fma(left: u64, right: u64, addend: u64, format: Format, direction: Direction) -> u64 {
    match (times(unpack(left, format), unpack(right, format)), unpack(addend, format)) {
        (Value::Nan, _) | (_, Value::Nan) => nan(&[left, right, addend], format),
        (Value::Infinite(a), Value::Infinite(b)) if a != b => nan(&[], format),
        (Value::Infinite(negative), _) | (_, Value::Infinite(negative)) => {
            format.signed(negative, format.infinity())
        }
        (Value::Finite(a), Value::Finite(b)) => sum(a, b, format, direction),
    }
}

/// `left / right`.
#[must_use]
pub fn div(left: u64, right: u64, format: Format, direction: Direction) -> u64 {
    match (unpack(left, format), unpack(right, format)) {
        (Value::Nan, _) | (_, Value::Nan) => nan(&[left, right], format),
        (Value::Infinite(_), Value::Infinite(_)) => nan(&[], format),
        (Value::Infinite(a), Value::Finite(b)) => format.signed(a != b.negative, format.infinity()),
        (Value::Finite(a), Value::Infinite(b)) => format.signed(a.negative != b, 0),
        (Value::Finite(a), Value::Finite(b)) => {
            let negative = a.negative != b.negative;
            match (a.magnitude, b.magnitude) {
                (0, 0) => nan(&[], format),
                (_, 0) => format.signed(negative, format.infinity()),
                (0, _) => format.signed(negative, 0),
                (above, below) => {
                    // The quotient has at least 74 bits.
                    let shift = above.leading_zeros();
                    let above = above << shift;
                    let magnitude = (above / below) | u128::from(!above.is_multiple_of(below));
                    let exponent = a.exponent - b.exponent - shift as i32;
                    pack(Finite { negative, magnitude, exponent }, format, direction)
                }
            }
        }
    }
}

/// The square root.
#[must_use]
pub fn sqrt(bits: u64, format: Format, direction: Direction) -> u64 {
    match unpack(bits, format) {
        Value::Nan => nan(&[bits], format),
        Value::Infinite(false) => bits,
        Value::Finite(value) if value.magnitude == 0 => bits,
        Value::Infinite(true) | Value::Finite(Finite { negative: true, .. }) => nan(&[], format),
        Value::Finite(value) => {
            // The exponent must be even; the root has at least 63 bits.
            let shift = value.magnitude.leading_zeros() as i32;
            let shift = shift - (value.exponent - shift).rem_euclid(2);
            let square = value.magnitude << shift;
            let root = square.isqrt();
            let magnitude = root | u128::from(root * root != square);
            pack(
                Finite { negative: false, magnitude, exponent: (value.exponent - shift) / 2 },
                format,
                direction,
            )
        }
    }
}

/// Converts between float formats. NaN becomes the target's NaN.
#[must_use]
pub fn convert(bits: u64, from: Format, to: Format, direction: Direction) -> u64 {
    match unpack(bits, from) {
        Value::Nan => nan(&[], to),
        Value::Infinite(negative) => to.signed(negative, to.infinity()),
        Value::Finite(value) => pack(value, to, direction),
    }
}

/// Converts an integer to a float.
#[must_use]
pub fn from_integer(value: i128, to: Format, direction: Direction) -> u64 {
    let value = Finite { negative: value < 0, magnitude: value.unsigned_abs(), exponent: 0 };
    pack(value, to, direction)
}
