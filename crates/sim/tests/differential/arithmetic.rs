//! What instructions do to values, as the PTX manual describes them. Values are bits in a `u64`.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "registers are bits; instructions take the low ones"
)]

use std::cmp::Ordering;

use gpulend_sim::ptx::ast::{
    Atomic, Binary, Compare, Float, Reduce, Rounding, Ternary, Test, Type, Unary,
};

use crate::numbers::{DOUBLE, Format, HALF, Number, SINGLE};

/// How many bits a value has.
pub(crate) const fn width(ty: Type) -> u32 {
    if matches!(ty, Type::Pred) { 1 } else { ty.bytes() * 8 }
}

/// The low bits.
pub(crate) const fn low(value: u64, bits: u32) -> u64 {
    if bits >= 64 { value } else { value & ((1 << bits) - 1) }
}

/// The integer that bits of a type stand for.
pub(crate) const fn whole(value: u64, ty: Type) -> i128 {
    let bits = width(ty);
    let value = low(value, bits) as i128;
    if ty.is_signed() && value >> (bits - 1) == 1 { value - (1 << bits) } else { value }
}

/// The least and the largest integer of a type.
const fn limits(ty: Type) -> (i128, i128) {
    let bits = width(ty);
    if ty.is_signed() { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

/// What a value becomes in a wider register: signed ones are extended with their sign.
pub(crate) const fn extended(value: u64, ty: Type) -> u64 {
    whole(value, ty) as u64
}

const fn is_pair(ty: Type) -> bool {
    matches!(ty, Type::F16x2 | Type::BF16x2)
}

/// The type of a pair's halves.
const fn half_of(ty: Type) -> Type {
    if matches!(ty, Type::F16x2) { Type::F16 } else { Type::BF16 }
}

/// Does the same to both halves of pairs.
fn by_halves<const N: usize>(values: [u64; N], each: impl Fn([u64; N]) -> u64) -> u64 {
    let below = each(values.map(|value| low(value, 16)));
    let above = each(values.map(|value| low(value >> 16, 16)));
    low(below, 16) | low(above, 16) << 16
}

fn input(format: Format, float: Float, bits: u64) -> Number {
    format.decode(if float.flush { format.flush(bits) } else { bits })
}

/// Rounds, flushes and saturates a result.
fn output(format: Format, float: Float, number: Number) -> u64 {
    let bits = format.encode(number, float.rounding.unwrap_or(Rounding::Nearest));
    finish(format, float, bits)
}

fn finish(format: Format, float: Float, bits: u64) -> u64 {
    let bits = if float.flush { format.flush(bits) } else { bits };
    if !float.saturate {
        return bits;
    }
    match format.decode(bits) {
        Number::Nan => 0,
        number if number.compare(Number::zero(false)) != Some(Ordering::Greater) => 0,
        number if number.compare(Number::whole(1)) == Some(Ordering::Greater) => format.one(),
        _ => bits,
    }
}

/// Functions that hardware only approaches; here through the host's doubles.
fn approximate(op: Unary, format: Format, float: Float, bits: u64) -> u64 {
    let wide = DOUBLE.encode(input(format, float, bits), Rounding::Nearest);
    let value = f64::from_bits(wide);
    let result = match op {
        Unary::Sin => value.sin(),
        Unary::Cos => value.cos(),
        Unary::Ex2 => value.exp2(),
        Unary::Lg2 => value.log2(),
        Unary::Tanh => value.tanh(),
        Unary::Rsqrt => value.sqrt().recip(),
        _ => f64::NAN,
    };
    output(format, float, DOUBLE.decode(result.to_bits()))
}

/// Instructions with one operand.
pub(crate) fn unary(op: Unary, ty: Type, float: Float, value: u64) -> u64 {
    if is_pair(ty) {
        return by_halves([value], |[half]| unary(op, half_of(ty), float, half));
    }
    let bits = width(ty);
    if let Some(format) = Format::of(ty) {
        let flushed = if float.flush { format.flush(value) } else { value };
        return match op {
            Unary::Abs => finish(format, float, format.unsigned(flushed)),
            Unary::Neg => finish(format, float, flushed ^ (1 << (bits - 1))),
            Unary::Sqrt => output(format, float, input(format, float, value).square_root()),
            Unary::Rcp => {
                output(format, float, Number::whole(1).divide(input(format, float, value)))
            }
            _ => approximate(op, format, float, value),
        };
    }
    let result = match op {
        Unary::Abs => whole(value, ty).unsigned_abs() as u64,
        Unary::Neg => value.wrapping_neg(),
        Unary::Not => !value,
        Unary::CNot => u64::from(low(value, bits) == 0),
        Unary::Popc => u64::from(low(value, bits).count_ones()),
        Unary::Clz => u64::from(low(value, bits).leading_zeros() - (64 - bits)),
        Unary::Brev => low(value, bits).reverse_bits() >> (64 - bits),
        _ => 0,
    };
    low(result, bits)
}

/// The lesser or the larger float: numbers win over not-a-number unless `.NaN`; -0 is below +0.
fn extreme(format: Format, float: Float, larger: bool, left: u64, right: u64) -> u64 {
    let flushed = |bits| if float.flush { format.flush(bits) } else { bits };
    let (left, right) = (flushed(left), flushed(right));
    let (a, b) = (format.decode(left), format.decode(right));
    match a.compare(b) {
        None if float.keep_nan || a == b => format.nan(),
        None => {
            if a == Number::Nan {
                right
            } else {
                left
            }
        }
        Some(Ordering::Equal) => {
            let left_is_less = format.sign_of(left) != 0;
            if left_is_less == larger { right } else { left }
        }
        Some(order) => {
            if (order == Ordering::Greater) == larger {
                left
            } else {
                right
            }
        }
    }
}

fn float_binary(op: Binary, format: Format, float: Float, left: u64, right: u64) -> u64 {
    let rounding = float.rounding.unwrap_or(Rounding::Nearest);
    let (a, b) = (input(format, float, left), input(format, float, right));
    match op {
        Binary::Add => output(format, float, a.add(b, rounding)),
        Binary::Sub => output(format, float, a.add(b.negate(), rounding)),
        Binary::Mul => output(format, float, a.multiply(b)),
        Binary::Div => output(format, float, a.divide(b)),
        Binary::Min => extreme(format, float, false, left, right),
        Binary::Max => extreme(format, float, true, left, right),
        Binary::CopySign => format.sign_of(left) | format.unsigned(right),
        _ => format.nan(),
    }
}

/// The low 24 bits as a number.
fn low24(value: u64, ty: Type) -> i128 {
    let value = i128::from(low(value, 24));
    if ty.is_signed() && value >> 23 == 1 { value - (1 << 24) } else { value }
}

/// Instructions with two operands. The result of `mul.wide` has twice the width.
pub(crate) fn binary(op: Binary, ty: Type, float: Float, left: u64, right: u64) -> u64 {
    if is_pair(ty) {
        return by_halves([left, right], |[a, b]| binary(op, half_of(ty), float, a, b));
    }
    if let Some(format) = Format::of(ty) {
        return float_binary(op, format, float, left, right);
    }
    let bits = width(ty);
    let (a, b) = (whole(left, ty), whole(right, ty));
    let product = || a.wrapping_mul(b) as u128;
    let amount = u32::try_from(low(right, 32)).unwrap_or(u32::MAX).min(bits);
    let result = match op {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => product() as i128,
        Binary::MulHi => (product() >> bits) as i128,
        Binary::MulWide => return product() as u64,
        Binary::Div if b == 0 => -1,
        Binary::Div => a / b,
        Binary::Rem if b == 0 => a,
        Binary::Rem => a % b,
        Binary::Min => a.min(b),
        Binary::Max => a.max(b),
        Binary::And => a & b,
        Binary::Or => a | b,
        Binary::Xor => a ^ b,
        Binary::Shl => a << amount,
        Binary::Shr => a >> amount,
        Binary::CopySign => 0,
        Binary::Mul24 => low24(left, ty).wrapping_mul(low24(right, ty)),
    };
    if float.saturate {
        let (least, largest) = limits(ty);
        return low(result.clamp(least, largest) as u64, bits);
    }
    low(result as u64, bits)
}

/// Instructions with three operands. The third of `mad.wide` and its result have twice the width.
pub(crate) fn ternary(op: Ternary, ty: Type, float: Float, values: [u64; 3]) -> u64 {
    if is_pair(ty) {
        return by_halves(values, |halves| ternary(op, half_of(ty), float, halves));
    }
    let [x, y, z] = values;
    if let Some(format) = Format::of(ty) {
        let [a, b, c] = values.map(|value| input(format, float, value));
        let rounding = float.rounding.unwrap_or(Rounding::Nearest);
        return output(format, float, a.multiply(b).add(c, rounding));
    }
    let bits = width(ty);
    let (a, b, c) = (whole(x, ty), whole(y, ty), whole(z, ty));
    let product = a.wrapping_mul(b) as u128;
    let result = match op {
        Ternary::Mad | Ternary::Fma => (product as i128).wrapping_add(c),
        Ternary::MadHi => (product >> bits) as i128 + c,
        Ternary::MadWide => return (product as u64).wrapping_add(z),
        Ternary::Sad => (a - b).abs() + c,
        Ternary::Mad24 => low24(x, ty) * low24(y, ty) + c,
    };
    // `mad.hi.sat.s32`: the high half of the product is a number of its own.
    if float.saturate {
        let high = whole((product >> bits) as u64, ty);
        let (least, largest) = limits(ty);
        return low((high + c).clamp(least, largest) as u64, bits);
    }
    low(result as u64, bits)
}

/// Adds or subtracts with a carry, which for a difference is the borrow. Gives the result and the carry out.
pub(crate) fn with_carry(
    subtract: bool,
    bits: u32,
    left: u64,
    right: u64,
    carry: bool,
) -> (u64, bool) {
    let (a, b) = (i128::from(low(left, bits)), i128::from(low(right, bits)));
    let result = if subtract { a - b - i128::from(carry) } else { a + b + i128::from(carry) };
    (low(result as u64, bits), result < 0 || result >> bits != 0)
}

/// Whether a comparison holds.
pub(crate) fn compare(how: Compare, ty: Type, flush: bool, left: u64, right: u64) -> bool {
    let order = if let Some(format) = Format::of(ty) {
        let float = Float { flush, ..Float::default() };
        input(format, float, left).compare(input(format, float, right))
    } else {
        Some(whole(left, ty).cmp(&whole(right, ty)))
    };
    let Some(order) = order else {
        return matches!(
            how,
            Compare::UnEq
                | Compare::UnNe
                | Compare::UnLt
                | Compare::UnLe
                | Compare::UnGt
                | Compare::UnGe
                | Compare::Nan
        );
    };
    match how {
        Compare::Eq | Compare::UnEq => order.is_eq(),
        Compare::Ne | Compare::UnNe => order.is_ne(),
        Compare::Lt | Compare::UnLt => order.is_lt(),
        Compare::Le | Compare::UnLe => order.is_le(),
        Compare::Gt | Compare::UnGt => order.is_gt(),
        Compare::Ge | Compare::UnGe => order.is_ge(),
        Compare::Num => true,
        Compare::Nan => false,
    }
}

/// What `testp` answers.
pub(crate) fn test(test: Test, ty: Type, value: u64) -> bool {
    let Some(format) = Format::of(ty) else { return false };
    let number = format.decode(value);
    let finite = matches!(number, Number::Finite { .. });
    match test {
        Test::Finite => finite,
        Test::Infinite => matches!(number, Number::Infinite { .. }),
        Test::Number => number != Number::Nan,
        Test::NotANumber => number == Number::Nan,
        // Zeros count as normal.
        Test::Normal => finite && !format.is_subnormal(value),
        Test::Subnormal => format.is_subnormal(value),
    }
}

/// `cvt`; the result has the width of its type.
pub(crate) fn convert(to: Type, from: Type, float: Float, value: u64) -> u64 {
    // `.ftz` of a conversion concerns floats of 32 bits only.
    let flushes = |ty| Float { flush: float.flush && ty == Type::F32, ..float };
    match (Format::of(to), Format::of(from)) {
        (None, None) => {
            let mut result = whole(value, from);
            if float.saturate {
                let (least, largest) = limits(to);
                result = result.clamp(least, largest);
            }
            low(result as u64, width(to))
        }
        (Some(format), None) => output(format, float, Number::whole(whole(value, from))),
        (None, Some(format)) => {
            let number = input(format, flushes(from), value);
            let wide = from == Type::F64 || width(to) == 64;
            let Some(result) = number.to_whole(float.rounding.unwrap_or(Rounding::IntegerZero))
            else {
                return if wide { 1 << (width(to) - 1) } else { 0 };
            };
            let (least, largest) = limits(to);
            low(result.clamp(least, largest) as u64, width(to))
        }
        (Some(to_format), Some(format)) => {
            let mut number = input(format, flushes(from), value);
            if let Some(
                rounding @ (Rounding::IntegerNearest
                | Rounding::IntegerZero
                | Rounding::IntegerDown
                | Rounding::IntegerUp),
            ) = float.rounding
            {
                number = number.to_integral(rounding);
            }
            output(to_format, flushes(to), number)
        }
    }
}

/// `bfe`.
pub(crate) fn extract_bits(ty: Type, value: u64, position: u64, length: u64) -> u64 {
    let top = u64::from(width(ty)) - 1;
    let (position, length) = (position & 0xff, length & 0xff);
    let bit = |at: u64| value >> at & 1;
    let fill =
        if ty.is_signed() && length != 0 { bit((position + length - 1).min(top)) } else { 0 };
    (0..=top).fold(0, |result, at| {
        let taken = if at < length && position + at <= top { bit(position + at) } else { fill };
        result | taken << at
    })
}

/// `bfi`.
pub(crate) fn insert_bits(ty: Type, what: u64, into: u64, position: u64, length: u64) -> u64 {
    let top = u64::from(width(ty)) - 1;
    let (position, length) = (position & 0xff, length & 0xff);
    (0..length).filter(|at| position + at <= top).fold(into, |result, at| {
        let place = position + at;
        result & !(1 << place) | (what >> at & 1) << place
    })
}

/// `bfind`.
pub(crate) fn find_bit(ty: Type, shift_amount: bool, value: u64) -> u64 {
    let bits = width(ty);
    let value = low(if whole(value, ty) < 0 { !value } else { value }, bits);
    if value == 0 {
        return 0xffff_ffff;
    }
    let position = 63 - value.leading_zeros();
    u64::from(if shift_amount { bits - 1 - position } else { position })
}

/// `bmsk`.
pub(crate) fn mask(wrap: bool, start: u64, width: u64) -> u64 {
    let (start, width) = if wrap { (start & 31, width & 31) } else { (start, width) };
    (0..32).filter(|at| (start..start + width).contains(at)).map(|at| 1 << at).sum()
}

/// `prmt`.
pub(crate) fn permute(a: u64, b: u64, selectors: u64) -> u64 {
    let bytes = low(a, 32) | b << 32;
    (0..4).fold(0, |result, at| {
        let selector = selectors >> (4 * at) & 0xf;
        let byte = bytes >> (8 * (selector & 7)) & 0xff;
        let byte = if selector & 8 == 0 { byte } else { (byte >> 7) * 0xff };
        result | byte << (8 * at)
    })
}

/// `shf`.
pub(crate) fn funnel_shift(left: bool, wrap: bool, below: u64, above: u64, amount: u64) -> u64 {
    let amount = if wrap { amount & 31 } else { low(amount, 32).min(32) };
    let both = low(below, 32) | above << 32;
    low(if left { both << amount >> 32 } else { both >> amount }, 32)
}

/// `lop3`.
pub(crate) fn logic3(table: u8, a: u64, b: u64, c: u64) -> u64 {
    (0..32).fold(0, |result, at| {
        let row = (a >> at & 1) << 2 | (b >> at & 1) << 1 | (c >> at & 1);
        result | (u64::from(table) >> row & 1) << at
    })
}

/// `dp4a`.
pub(crate) fn dot4(signed: (bool, bool), a: u64, b: u64, c: u64) -> u64 {
    let element = |value: u64, at: u32, signed| {
        whole(value >> (8 * at), if signed { Type::S8 } else { Type::U8 })
    };
    let sum: i128 = (0..4).map(|at| element(a, at, signed.0) * element(b, at, signed.1)).sum();
    low((sum + i128::from(c)) as u64, 32)
}

/// What memory holds after an atomic operation.
pub(crate) fn atomic(op: Atomic, ty: Type, old: u64, first: u64, second: u64) -> u64 {
    let bits = width(ty);
    let (first, second) = (low(first, bits), low(second, bits));
    let plain = Float::default();
    match op {
        Atomic::And => old & first,
        Atomic::Or => old | first,
        Atomic::Xor => old ^ first,
        Atomic::Exch => first,
        Atomic::Cas => {
            if old == first {
                second
            } else {
                old
            }
        }
        Atomic::Add => binary(Binary::Add, ty, plain, old, first),
        Atomic::Min => binary(Binary::Min, ty, plain, old, first),
        Atomic::Max => binary(Binary::Max, ty, plain, old, first),
        Atomic::Inc => {
            if old >= first {
                0
            } else {
                old + 1
            }
        }
        Atomic::Dec => {
            if old == 0 || old > first {
                first
            } else {
                old - 1
            }
        }
    }
}

/// One step of `redux`.
pub(crate) fn reduce(op: Reduce, ty: Type, left: u64, right: u64) -> u64 {
    let op = match op {
        Reduce::Add | Reduce::Popc => Binary::Add,
        Reduce::Min => Binary::Min,
        Reduce::Max => Binary::Max,
        Reduce::And => Binary::And,
        Reduce::Or => Binary::Or,
        Reduce::Xor => Binary::Xor,
    };
    binary(op, ty, Float::default(), left, right)
}

/// The bits of a float that stands in the text, for an instruction of a type.
pub(crate) fn literal(ty: Type, format: Format, bits: u64) -> u64 {
    match ty {
        Type::F64 if format == SINGLE => DOUBLE.encode(SINGLE.decode(bits), Rounding::Nearest),
        Type::F32 if format == DOUBLE => SINGLE.encode(DOUBLE.decode(bits), Rounding::Nearest),
        Type::F16 if format != HALF => HALF.encode(format.decode(bits), Rounding::Nearest),
        _ => bits,
    }
}
