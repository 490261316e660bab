//! Instructions on bits.
//!
//! Named after the instruction and its type. Positions and lengths are the low byte of the operand, as in PTX.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "the same bits are read as signed and unsigned"
)]

use super::externs::externs;

/// The bits below `length`.
const fn ones(length: u32) -> u64 {
    if length >= 64 { u64::MAX } else { (1 << length) - 1 }
}

/// `value >> by`, which is 0 from 64 on.
const fn down(value: u64, by: u32) -> u64 {
    if by >= 64 { 0 } else { value >> by }
}

const fn up(value: u64, by: u32) -> u64 {
    if by >= 64 { 0 } else { value << by }
}

/// A bit field of a value of `width` bits.
fn extract(value: u64, position: u32, length: u32, width: u32, signed: bool) -> u64 {
    let (position, length) = (position & 0xff, length & 0xff);
    let field = down(value, position) & ones(length);
    let highest = (position + length).saturating_sub(1).min(width - 1);
    if !signed || length == 0 || value >> highest & 1 == 0 {
        return field;
    }
    // Bits of the field beyond the value are copies of the sign.
    field | !ones(length.min(width.saturating_sub(position)))
}

fn insert(field: u64, into: u64, position: u32, length: u32) -> u64 {
    let (position, length) = (position & 0xff, length & 0xff);
    let mask = up(ones(length), position);
    (into & !mask) | (up(field, position) & mask)
}

/// The highest bit that differs from the sign, or all ones; for a shift, its distance from the top.
fn find_bit(value: u64, width: u32, for_shift: bool) -> u32 {
    match value.checked_ilog2() {
        None => u32::MAX,
        Some(place) if for_shift => width - 1 - place,
        Some(place) => place,
    }
}

fn permute(low: u32, high: u32, selector: u32) -> u32 {
    let bytes = (u64::from(high) << 32 | u64::from(low)).to_le_bytes();
    let mut result = [0; 4];
    for (place, byte) in result.iter_mut().enumerate() {
        let choice = selector >> (4 * place);
        let chosen = bytes[(choice & 7) as usize];
        *byte = match (choice & 8 != 0, chosen & 0x80 != 0) {
            (false, _) => chosen,
            (true, true) => 0xff,
            (true, false) => 0,
        };
    }
    u32::from_le_bytes(result)
}

const fn pair(low: u32, high: u32) -> u64 {
    (high as u64) << 32 | low as u64
}

/// The `width` bits from `start` on that a word has.
const fn mask(start: u32, width: u32) -> u32 {
    up(ones(width), start) as u32
}

/// `.l`: the high half of the pair, shifted left.
const fn funnel_left(low: u32, high: u32, by: u32) -> u32 {
    ((pair(low, high) << by) >> 32) as u32
}

/// `.r`: the low half of the pair, shifted right.
const fn funnel_right(low: u32, high: u32, by: u32) -> u32 {
    (pair(low, high) >> by) as u32
}

fn logic(a: u32, b: u32, c: u32, table: u32) -> u32 {
    (0..8).filter(|row| table >> row & 1 == 1).fold(0, |result, row| {
        let pick = |value: u32, bit: u32| if row & bit == 0 { !value } else { value };
        result | (pick(a, 4) & pick(b, 2) & pick(c, 1))
    })
}

fn dot(a: u32, b: u32, c: u32, signed_a: bool, signed_b: bool) -> u32 {
    let wide =
        |byte: u8, signed: bool| if signed { i32::from(byte as i8) } else { i32::from(byte) };
    a.to_le_bytes()
        .into_iter()
        .zip(b.to_le_bytes())
        .fold(c, |sum, (x, y)| sum.wrapping_add((wide(x, signed_a) * wide(y, signed_b)) as u32))
}

/// The low 24 bits as a signed number.
const fn low24_signed(value: i32) -> i64 {
    ((value << 8) >> 8) as i64
}

const fn low24(value: u32) -> u64 {
    (value & 0x00ff_ffff) as u64
}

externs! {
    /// The `c` bits of `a` from `b` on.
    bfe_u32(a: U32, b: U32, c: U32) -> U32 = extract(a.into(), b, c, 32, false) as u32;
    /// The `c` bits of `a` from `b` on, extended with their sign.
    bfe_s32(a: S32, b: U32, c: U32) -> S32 = extract(u64::from(a as u32), b, c, 32, true) as i32;
    /// The `c` bits of `a` from `b` on.
    bfe_u64(a: U64, b: U32, c: U32) -> U64 = extract(a, b, c, 64, false);
    /// The `c` bits of `a` from `b` on, extended with their sign.
    bfe_s64(a: S64, b: U32, c: U32) -> S64 = extract(a as u64, b, c, 64, true) as i64;
    /// `b` with `d` bits from `c` on replaced by the low ones of `a`.
    bfi_b32(a: B32, b: B32, c: U32, d: U32) -> B32 = insert(a.into(), b.into(), c, d) as u32;
    /// `b` with `d` bits from `c` on replaced by the low ones of `a`.
    bfi_b64(a: U64, b: U64, c: U32, d: U32) -> U64 = insert(a, b, c, d);
    /// The highest bit that differs from the sign; all ones if there is none.
    bfind_u32(a: U32) -> U32 = find_bit(u64::from(a), 32, false);
    /// `bfind.shiftamt`: how far that bit is from the highest; all ones if there is none.
    bfind_shift_u32(a: U32) -> U32 = find_bit(u64::from(a), 32, true);
    /// The highest bit that differs from the sign; all ones if there is none.
    bfind_s32(a: S32) -> U32 = find_bit(u64::from((a ^ (a >> 31)) as u32), 32, false);
    /// `bfind.shiftamt`: how far that bit is from the highest; all ones if there is none.
    bfind_shift_s32(a: S32) -> U32 = find_bit(u64::from((a ^ (a >> 31)) as u32), 32, true);
    /// The highest bit that differs from the sign; all ones if there is none.
    bfind_u64(a: U64) -> U32 = find_bit(a, 64, false);
    /// `bfind.shiftamt`: how far that bit is from the highest; all ones if there is none.
    bfind_shift_u64(a: U64) -> U32 = find_bit(a, 64, true);
    /// The highest bit that differs from the sign; all ones if there is none.
    bfind_s64(a: S64) -> U32 = find_bit((a ^ (a >> 63)) as u64, 64, false);
    /// `bfind.shiftamt`: how far that bit is from the highest; all ones if there is none.
    bfind_shift_s64(a: S64) -> U32 = find_bit((a ^ (a >> 63)) as u64, 64, true);
    /// Ones at the `b` bits from bit `a` on.
    bmsk_clamp_b32(a: U32, b: U32) -> B32 = mask(a, b);
    /// Ones at the `b` bits from bit `a` on; only the low five bits of both count.
    bmsk_wrap_b32(a: U32, b: U32) -> B32 = mask(a & 31, b & 31);
    /// Four bytes of the eight of `a` and `b`, as `c` chooses; bit 3 of a choice spreads the byte's sign.
    prmt_b32(a: B32, b: B32, c: B32) -> B32 = permute(a, b, c);
    /// `b` shifted left by the low five bits of `c`, filled from `a`.
    shf_left_wrap_b32(a: B32, b: B32, c: U32) -> B32 = funnel_left(a, b, c & 31);
    /// `b` shifted left by `c`, at most 32, filled from `a`.
    shf_left_clamp_b32(a: B32, b: B32, c: U32) -> B32 = funnel_left(a, b, c.min(32));
    /// `a` shifted right by the low five bits of `c`, filled from `b`.
    shf_right_wrap_b32(a: B32, b: B32, c: U32) -> B32 = funnel_right(a, b, c & 31);
    /// `a` shifted right by `c`, at most 32, filled from `b`.
    shf_right_clamp_b32(a: B32, b: B32, c: U32) -> B32 = funnel_right(a, b, c.min(32));
    /// Each bit as the table `d` has it for those of `a`, `b` and `c`.
    lop3_b32(a: B32, b: B32, c: B32, d: U32) -> B32 = logic(a, b, c, d);
    /// `c` plus the products of the bytes of `a`, unsigned, and `b`, unsigned.
    dp4a_u32_u32(a: B32, b: B32, c: B32) -> B32 = dot(a, b, c, false, false);
    /// `c` plus the products of the bytes of `a`, unsigned, and `b`, signed.
    dp4a_u32_s32(a: B32, b: B32, c: B32) -> B32 = dot(a, b, c, false, true);
    /// `c` plus the products of the bytes of `a`, signed, and `b`, unsigned.
    dp4a_s32_u32(a: B32, b: B32, c: B32) -> B32 = dot(a, b, c, true, false);
    /// `c` plus the products of the bytes of `a`, signed, and `b`, signed.
    dp4a_s32_s32(a: B32, b: B32, c: B32) -> B32 = dot(a, b, c, true, true);
    /// `c` plus the difference of `a` and `b`, without sign.
    sad_u16(a: U16, b: U16, c: U16) -> U16 = c.wrapping_add(a.abs_diff(b));
    /// `c` plus the difference of `a` and `b`, without sign.
    sad_s16(a: S16, b: S16, c: S16) -> S16 = c.wrapping_add_unsigned(a.abs_diff(b));
    /// `c` plus the difference of `a` and `b`, without sign.
    sad_u32(a: U32, b: U32, c: U32) -> U32 = c.wrapping_add(a.abs_diff(b));
    /// `c` plus the difference of `a` and `b`, without sign.
    sad_s32(a: S32, b: S32, c: S32) -> S32 = c.wrapping_add_unsigned(a.abs_diff(b));
    /// `c` plus the difference of `a` and `b`, without sign.
    sad_u64(a: U64, b: U64, c: U64) -> U64 = c.wrapping_add(a.abs_diff(b));
    /// `c` plus the difference of `a` and `b`, without sign.
    sad_s64(a: S64, b: S64, c: S64) -> S64 = c.wrapping_add_unsigned(a.abs_diff(b));
    /// The low half of the product of the low 24 bits.
    mul24_u32(a: U32, b: U32) -> U32 = (low24(a) * low24(b)) as u32;
    /// The low half of the product of the low 24 bits.
    mul24_s32(a: S32, b: S32) -> S32 = (low24_signed(a) * low24_signed(b)) as i32;
    /// The product of the low 24 bits, from bit 16 on.
    mul24_high_u32(a: U32, b: U32) -> U32 = ((low24(a) * low24(b)) >> 16) as u32;
    /// The product of the low 24 bits, from bit 16 on.
    mul24_high_s32(a: S32, b: S32) -> S32 = ((low24_signed(a) * low24_signed(b)) >> 16) as i32;
    /// `mul24_u32` plus `c`.
    mad24_u32(a: U32, b: U32, c: U32) -> U32 = mul24_u32(a, b).wrapping_add(c);
    /// `mul24_s32` plus `c`.
    mad24_s32(a: S32, b: S32, c: S32) -> S32 = mul24_s32(a, b).wrapping_add(c);
}

#[cfg(test)]
mod tests;
