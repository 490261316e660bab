//! Floats of any format by their definition: exact sums on integers, rounded once at the end.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "bits of floats are taken apart and put together"
)]

use gpulend_sim::ptx::ast::{Rounding, Type};

/// How a float is laid out: sign, exponent, fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    exponent_bits: u32,
    fraction_bits: u32,
}

/// Half.
pub(crate) const HALF: Format = Format { exponent_bits: 5, fraction_bits: 10 };
/// bfloat16.
pub(crate) const BRAIN: Format = Format { exponent_bits: 8, fraction_bits: 7 };
/// Float.
pub(crate) const SINGLE: Format = Format { exponent_bits: 8, fraction_bits: 23 };
/// Double.
pub(crate) const DOUBLE: Format = Format { exponent_bits: 11, fraction_bits: 52 };

/// What a float stands for. A finite one is `magnitude * 2^exponent`; the last bit of a long magnitude may stand for
/// anything that is not zero below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Number {
    /// Not a number.
    Nan,
    /// Infinite.
    Infinite { negative: bool },
    /// All others.
    Finite { negative: bool, magnitude: u128, exponent: i32 },
}

/// Bits that the larger of two summands is given: one is left for the carry.
const SUM_BITS: i32 = 126;
/// Bits that a dividend is given, so that the quotient with its trace is no longer than a summand.
const QUOTIENT_BITS: i32 = SUM_BITS - 1;

impl Format {
    /// Of the type's elements, if it is a float.
    pub(crate) const fn of(ty: Type) -> Option<Self> {
        match ty {
            Type::F16 | Type::F16x2 => Some(HALF),
            Type::BF16 | Type::BF16x2 => Some(BRAIN),
            Type::F32 => Some(SINGLE),
            Type::F64 => Some(DOUBLE),
            _ => None,
        }
    }

    /// The exponent of the last bit of the smallest numbers.
    const fn lowest(self) -> i32 {
        2 - (1 << (self.exponent_bits - 1)) - self.fraction_bits as i32
    }

    const fn sign(self, negative: bool) -> u64 {
        (negative as u64) << (self.exponent_bits + self.fraction_bits)
    }

    /// Infinity.
    pub(crate) const fn infinity(self, negative: bool) -> u64 {
        self.sign(negative) | (((1 << self.exponent_bits) - 1) << self.fraction_bits)
    }

    /// The one not-a-number that operations give.
    pub(crate) const fn nan(self) -> u64 {
        self.infinity(false) | (1 << (self.fraction_bits - 1))
    }

    /// One.
    pub(crate) const fn one(self) -> u64 {
        ((1 << (self.exponent_bits - 1)) - 1) << self.fraction_bits
    }

    /// All bits but the sign.
    pub(crate) const fn unsigned(self, bits: u64) -> u64 {
        bits & (self.sign(true) - 1)
    }

    /// The sign's bit.
    pub(crate) const fn sign_of(self, bits: u64) -> u64 {
        bits & self.sign(true)
    }

    /// Whether it is not zero, and below the smallest that has all its bits.
    pub(crate) const fn is_subnormal(self, bits: u64) -> bool {
        let rest = self.unsigned(bits);
        rest != 0 && rest < (1 << self.fraction_bits)
    }

    /// A subnormal becomes a zero of its sign.
    pub(crate) const fn flush(self, bits: u64) -> u64 {
        if self.is_subnormal(bits) { self.sign_of(bits) } else { bits }
    }

    /// What the bits stand for.
    pub(crate) const fn decode(self, bits: u64) -> Number {
        let negative = self.sign_of(bits) != 0;
        let rest = self.unsigned(bits);
        let fraction = rest & ((1 << self.fraction_bits) - 1);
        let field = (rest >> self.fraction_bits) as i32;
        if field == (1 << self.exponent_bits) - 1 {
            return if fraction == 0 { Number::Infinite { negative } } else { Number::Nan };
        }
        if field == 0 {
            return Number::Finite {
                negative,
                magnitude: fraction as u128,
                exponent: self.lowest(),
            };
        }
        let magnitude = (fraction | (1 << self.fraction_bits)) as u128;
        Number::Finite { negative, magnitude, exponent: self.lowest() + field - 1 }
    }

    /// The float of a number.
    pub(crate) fn encode(self, number: Number, rounding: Rounding) -> u64 {
        let (negative, magnitude, exponent) = match number {
            Number::Nan => return self.nan(),
            Number::Infinite { negative } => return self.infinity(negative),
            Number::Finite { negative, magnitude, exponent } => (negative, magnitude, exponent),
        };
        if magnitude == 0 {
            return self.sign(negative);
        }
        let last =
            (exponent + length(magnitude) - 1 - self.fraction_bits as i32).max(self.lowest());
        let kept = round_to(negative, magnitude, exponent, last, rounding);
        let rest = (u128::from((last - self.lowest()) as u32) << self.fraction_bits) + kept;
        let infinity = self.infinity(false);
        if rest < u128::from(infinity) {
            return self.sign(negative) | rest as u64;
        }
        let outward = match rounding {
            Rounding::Zero | Rounding::IntegerZero => false,
            Rounding::Down | Rounding::IntegerDown => negative,
            Rounding::Up | Rounding::IntegerUp => !negative,
            Rounding::Nearest | Rounding::IntegerNearest => true,
        };
        self.sign(negative) | (infinity - u64::from(!outward))
    }
}

/// How many bits it takes.
const fn length(magnitude: u128) -> i32 {
    128 - magnitude.leading_zeros() as i32
}

/// `magnitude * 2^exponent` in units of `2^last`.
fn round_to(negative: bool, magnitude: u128, exponent: i32, last: i32, rounding: Rounding) -> u128 {
    let drop = last - exponent;
    if drop <= 0 {
        return magnitude << -drop;
    }
    let (kept, rest, half) = if drop > 127 {
        (0, magnitude.min(1), 2)
    } else {
        (magnitude >> drop, magnitude & ((1 << drop) - 1), 1 << (drop - 1))
    };
    let up = match rounding {
        Rounding::Nearest | Rounding::IntegerNearest => {
            rest > half || (rest == half && kept & 1 == 1)
        }
        Rounding::Zero | Rounding::IntegerZero => false,
        Rounding::Down | Rounding::IntegerDown => negative && rest != 0,
        Rounding::Up | Rounding::IntegerUp => !negative && rest != 0,
    };
    kept + u128::from(up)
}

/// Shifts down; what falls off leaves its trace in the last bit.
const fn shift_down(magnitude: u128, by: i32) -> u128 {
    if by > 127 {
        return (magnitude != 0) as u128;
    }
    let kept = magnitude >> by;
    kept | ((kept << by != magnitude) as u128)
}

impl Number {
    /// A zero.
    pub(crate) const fn zero(negative: bool) -> Self {
        Self::Finite { negative, magnitude: 0, exponent: 0 }
    }

    /// A whole number.
    pub(crate) const fn whole(value: i128) -> Self {
        Self::Finite { negative: value < 0, magnitude: value.unsigned_abs(), exponent: 0 }
    }

    /// Its opposite.
    pub(crate) const fn negate(self) -> Self {
        match self {
            Self::Nan => Self::Nan,
            Self::Infinite { negative } => Self::Infinite { negative: !negative },
            Self::Finite { negative, magnitude, exponent } => {
                Self::Finite { negative: !negative, magnitude, exponent }
            }
        }
    }

    const fn is_negative(self) -> bool {
        match self {
            Self::Nan => false,
            Self::Infinite { negative } | Self::Finite { negative, .. } => negative,
        }
    }

    const fn is_zero(self) -> bool {
        matches!(self, Self::Finite { magnitude: 0, .. })
    }

    /// The sum. How it will be rounded decides on the sign of a zero.
    pub(crate) fn add(self, other: Self, rounding: Rounding) -> Self {
        let (Self::Finite { negative, magnitude, exponent }, other) = (self, other) else {
            return match (self, other) {
                (Self::Nan, _) | (_, Self::Nan) => Self::Nan,
                (a @ Self::Infinite { .. }, b @ Self::Infinite { .. }) if a != b => Self::Nan,
                _ => self,
            };
        };
        let Self::Finite {
            negative: other_negative,
            magnitude: other_magnitude,
            exponent: other_exponent,
        } = other
        else {
            return other;
        };
        match (magnitude, other_magnitude) {
            (0, 0) if negative == other_negative => return self,
            (0, 0) => return Self::zero(rounding == Rounding::Down),
            (0, _) => return other,
            (_, 0) => return self,
            _ => {}
        }
        if exponent + length(magnitude) < other_exponent + length(other_magnitude) {
            return other.add(self, rounding);
        }
        let up = SUM_BITS - length(magnitude);
        let common = exponent - up;
        let large = magnitude << up;
        let apart = other_exponent - common;
        let small =
            if apart >= 0 { other_magnitude << apart } else { shift_down(other_magnitude, -apart) };
        if negative == other_negative {
            return Self::Finite { negative, magnitude: large + small, exponent: common };
        }
        match large.cmp(&small) {
            std::cmp::Ordering::Equal => Self::zero(rounding == Rounding::Down),
            std::cmp::Ordering::Greater => {
                Self::Finite { negative, magnitude: large - small, exponent: common }
            }
            std::cmp::Ordering::Less => Self::Finite {
                negative: other_negative,
                magnitude: small - large,
                exponent: common,
            },
        }
    }

    /// The product, exact.
    pub(crate) const fn multiply(self, other: Self) -> Self {
        let negative = self.is_negative() != other.is_negative();
        match (self, other) {
            (Self::Nan, _) | (_, Self::Nan) => Self::Nan,
            (Self::Infinite { .. }, _) | (_, Self::Infinite { .. }) => {
                if self.is_zero() || other.is_zero() {
                    Self::Nan
                } else {
                    Self::Infinite { negative }
                }
            }
            (
                Self::Finite { magnitude: a, exponent: e, .. },
                Self::Finite { magnitude: b, exponent: f, .. },
            ) => Self::Finite { negative, magnitude: a * b, exponent: e + f },
        }
    }

    /// The quotient, with more bits than any format has.
    pub(crate) const fn divide(self, other: Self) -> Self {
        let negative = self.is_negative() != other.is_negative();
        match (self, other) {
            (Self::Nan, _) | (_, Self::Nan) | (Self::Infinite { .. }, Self::Infinite { .. }) => {
                Self::Nan
            }
            (Self::Infinite { .. }, _) => Self::Infinite { negative },
            (_, Self::Infinite { .. }) => Self::zero(negative),
            (
                Self::Finite { magnitude: a, exponent: e, .. },
                Self::Finite { magnitude: b, exponent: f, .. },
            ) => {
                if b == 0 {
                    return if a == 0 { Self::Nan } else { Self::Infinite { negative } };
                }
                if a == 0 {
                    return Self::zero(negative);
                }
                let up = QUOTIENT_BITS - length(a);
                let quotient = (a << up) / b;
                let inexact = quotient * b != a << up;
                Self::Finite {
                    negative,
                    magnitude: (quotient << 1) | inexact as u128,
                    exponent: e - f - up - 1,
                }
            }
        }
    }

    /// The square root, with more bits than any format has.
    pub(crate) const fn square_root(self) -> Self {
        match self {
            Self::Nan | Self::Infinite { negative: true } => Self::Nan,
            Self::Infinite { negative: false } | Self::Finite { magnitude: 0, .. } => self,
            Self::Finite { negative: true, .. } => Self::Nan,
            Self::Finite { magnitude, exponent, .. } => {
                let up = SUM_BITS - length(magnitude);
                let up = if (exponent - up) % 2 == 0 { up } else { up - 1 };
                let square = magnitude << up;
                let root = square.isqrt();
                let inexact = root * root != square;
                let magnitude = (root << 1) | inexact as u128;
                Self::Finite { negative: false, magnitude, exponent: (exponent - up) / 2 - 1 }
            }
        }
    }

    /// Rounded to a whole number of at most 126 bits; larger ones are the largest such. None for not-a-number.
    pub(crate) fn to_whole(self, rounding: Rounding) -> Option<i128> {
        let limit = 1_i128 << SUM_BITS;
        match self {
            Self::Nan => None,
            Self::Infinite { negative } => Some(if negative { -limit } else { limit }),
            Self::Finite { magnitude: 0, .. } => Some(0),
            Self::Finite { negative, magnitude, exponent } => {
                let value = if exponent + length(magnitude) > SUM_BITS {
                    limit
                } else {
                    round_to(negative, magnitude, exponent, 0, rounding) as i128
                };
                Some(if negative { -value } else { value })
            }
        }
    }

    /// Rounded to a whole number, still a float.
    pub(crate) fn to_integral(self, rounding: Rounding) -> Self {
        match self {
            Self::Finite { negative, magnitude, exponent } if exponent < 0 && magnitude != 0 => {
                Self::Finite {
                    negative,
                    magnitude: round_to(negative, magnitude, exponent, 0, rounding),
                    exponent: 0,
                }
            }
            _ => self,
        }
    }

    /// Which is larger; zeros are equal, not-a-number is beside all others.
    pub(crate) fn compare(self, other: Self) -> Option<std::cmp::Ordering> {
        if self == Self::Nan || other == Self::Nan {
            return None;
        }
        if let (Self::Infinite { negative: a }, Self::Infinite { negative: b }) = (self, other) {
            return Some(b.cmp(&a));
        }
        let difference = self.add(other.negate(), Rounding::Nearest);
        Some(if difference.is_zero() {
            std::cmp::Ordering::Equal
        } else if difference.is_negative() {
            std::cmp::Ordering::Less
        } else {
            std::cmp::Ordering::Greater
        })
    }
}
