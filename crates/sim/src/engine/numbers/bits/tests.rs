use super::*;

/// A bit at a time, as the manual has it.
fn slow_extract(value: u64, position: u32, length: u32, width: u32, signed: bool) -> u64 {
    let (position, length) = (position & 0xff, length & 0xff);
    let sign = if !signed || length == 0 {
        0
    } else {
        value >> (position + length - 1).min(width - 1) & 1
    };
    (0..width).fold(0, |result, place| {
        let bit = if place < length && position + place < width {
            value >> (position + place) & 1
        } else {
            sign
        };
        result | bit << place
    })
}

fn slow_insert(field: u64, into: u64, position: u32, length: u32, width: u32) -> u64 {
    let (position, length) = (position & 0xff, length & 0xff);
    (0..length).filter(|place| position + place < width).fold(into, |result, place| {
        let bit = 1 << (position + place);
        if field >> place & 1 == 1 { result | bit } else { result & !bit }
    })
}

/// Positions and lengths at the ends, and any.
fn counts() -> Vec<u32> {
    vec![
        0,
        1,
        5,
        8,
        16,
        30,
        31,
        32,
        33,
        40,
        62,
        63,
        64,
        65,
        127,
        128,
        200,
        254,
        255,
        256,
        0x105,
        0xffff_ffff,
    ]
}

#[test]
fn fields_are_extracted_and_inserted_as_the_manual_says() {
    let mut random = fastrand::Rng::with_seed(3);
    let values: Vec<u64> = [0, u64::MAX, 1 << 63, 0x8000_0000, 0x7fff_ffff]
        .into_iter()
        .chain(std::iter::repeat_with(|| random.u64(..)).take(30))
        .collect();
    for position in counts() {
        for length in counts() {
            for &value in &values {
                let short = value as u32;
                let context = format!("{value:#x} from {position} length {length}");
                let wide = u64::from(short);
                let wanted = slow_extract(wide, position, length, 32, false) as u32;
                assert_eq!(bfe_u32(short, position, length), wanted, "{context}");
                let wanted = slow_extract(wide, position, length, 32, true) as i32;
                assert_eq!(bfe_s32(short as i32, position, length), wanted, "{context}");
                assert_eq!(
                    bfe_u64(value, position, length),
                    slow_extract(value, position, length, 64, false)
                );
                let wanted = slow_extract(value, position, length, 64, true) as i64;
                assert_eq!(bfe_s64(value as i64, position, length), wanted, "{context}");
                let into = value.rotate_left(17) ^ 0x5555;
                let wanted = slow_insert(value, into, position, length, 64);
                assert_eq!(bfi_b64(value, into, position, length), wanted, "{context}");
                let wanted = slow_insert(value, into & 0xffff_ffff, position, length, 32) as u32;
                assert_eq!(bfi_b32(short, into as u32, position, length), wanted, "{context}");
            }
        }
    }
}

#[test]
fn the_highest_bit_is_found() {
    assert_eq!(bfind_u32(0), u32::MAX);
    assert_eq!(bfind_shift_u32(0), u32::MAX);
    assert_eq!(bfind_s32(-1), u32::MAX);
    assert_eq!(bfind_shift_s64(-1), u32::MAX);
    assert_eq!(bfind_u32(1 << 31), 31);
    assert_eq!(bfind_s32(i32::MIN), 30);
    assert_eq!(bfind_s64(i64::MIN), 62);
    assert_eq!(bfind_s32(-2), 0);
    assert_eq!(bfind_u64(1 << 40), 40);
    for place in 0..32 {
        assert_eq!(bfind_u32(1 << place | 1), place);
        assert_eq!(bfind_shift_u32(1 << place | 1), 31 - place);
        assert_eq!(bfind_shift_u64(1 << place | 1), 63 - place);
    }
    assert_eq!(bfind_shift_s32(1), 31);
}

#[test]
fn masks_have_ones_from_a_bit_on() {
    assert_eq!(bmsk_clamp_b32(4, 3), 0b111_0000);
    assert_eq!(bmsk_clamp_b32(0, 32), u32::MAX);
    assert_eq!(bmsk_clamp_b32(30, 5), 3 << 30);
    assert_eq!(bmsk_clamp_b32(32, 1), 0);
    assert_eq!(bmsk_clamp_b32(u32::MAX, u32::MAX), 0);
    assert_eq!(bmsk_wrap_b32(33, 34), 0b110);
    assert_eq!(bmsk_wrap_b32(0, 32), 0);
}

#[test]
fn bytes_are_chosen_and_signs_spread() {
    let (low, high) = (0x8372_6150, 0xc7b6_a594);
    assert_eq!(prmt_b32(low, high, 0x3210), low);
    assert_eq!(prmt_b32(low, high, 0x7654), high);
    assert_eq!(prmt_b32(low, high, 0x0123), low.swap_bytes());
    assert_eq!(prmt_b32(low, high, 0xfba8), 0xffff_0000);
    assert_eq!(prmt_b32(low, high, 0xabcd_5140), 0xa561_9450);
}

#[test]
fn funnels_wrap_or_clamp() {
    let (low, high) = (0x89ab_cdef, 0x0123_4567);
    for by in 0..32 {
        let pair = u64::from(high) << 32 | u64::from(low);
        let (left, right) = ((pair << by >> 32) as u32, (pair >> by) as u32);
        for amount in [by, by + 32, by + 64] {
            assert_eq!(shf_left_wrap_b32(low, high, amount), left);
            assert_eq!(shf_right_wrap_b32(low, high, amount), right);
        }
        assert_eq!(shf_left_clamp_b32(low, high, by), left);
        assert_eq!(shf_right_clamp_b32(low, high, by), right);
    }
    for by in [32, 33, u32::MAX] {
        assert_eq!(shf_left_clamp_b32(low, high, by), low);
        assert_eq!(shf_right_clamp_b32(low, high, by), high);
    }
}

#[test]
fn three_operands_follow_their_table() {
    let (a, b, c) = (0x1234_5678, 0x9abc_def0, 0x0f1e_2d3c);
    // The tables of expressions are the expressions of these three.
    let (x, y, z): (u32, u32, u32) = (0xf0, 0xcc, 0xaa);
    assert_eq!(lop3_b32(a, b, c, x & y & z), a & b & c);
    assert_eq!(lop3_b32(a, b, c, x ^ y ^ z), a ^ b ^ c);
    assert_eq!(lop3_b32(a, b, c, (x & y | z) & 0xff), a & b | c);
    assert_eq!(lop3_b32(a, b, c, (x & !y ^ z) & 0xff), a & !b ^ c);
    assert_eq!(lop3_b32(a, b, c, 0), 0);
    assert_eq!(lop3_b32(a, b, c, 0xff), u32::MAX);
}

#[test]
fn four_products_are_added() {
    assert_eq!(dp4a_u32_u32(0xffff_ffff, 0xffff_ffff, 1), 4 * 255 * 255 + 1);
    assert_eq!(dp4a_s32_s32(0xffff_ffff, 0xffff_ffff, 1), 5);
    assert_eq!(dp4a_s32_u32(0xffff_ffff, 0xffff_ffff, 0), (-1020_i32) as u32);
    assert_eq!(dp4a_u32_s32(0x0403_0201, 0x80ff_0102, 10), (10 - 512 - 3 + 2 + 2_i32) as u32);
    assert_eq!(dp4a_u32_u32(0x0000_0001, 0x0000_0001, u32::MAX), 0);
}

#[test]
fn differences_and_short_products_wrap() {
    assert_eq!(sad_u32(3, 5, 10), 12);
    assert_eq!(sad_u32(5, 3, u32::MAX), 1);
    assert_eq!(sad_s32(i32::MIN, i32::MAX, 1), 0);
    assert_eq!(sad_s16(-5, 5, 1), 11);
    assert_eq!(sad_u16(1, 3, u16::MAX), 1);
    assert_eq!(sad_u64(1, 3, 4), 6);
    assert_eq!(sad_s64(-1, 3, 4), 8);
    assert_eq!(mul24_u32(0xff00_0002, 3), 6);
    assert_eq!(mul24_s32(0x00ff_ffff, 5), -5);
    assert_eq!(mul24_u32(0x00ff_ffff, 0x00ff_ffff), 0xfe00_0001);
    assert_eq!(mul24_high_u32(0x00ff_ffff, 0x00ff_ffff), 0xffff_fe00);
    assert_eq!(mul24_high_s32(0x0080_0000, 0x0080_0000), 0x4000_0000);
    assert_eq!(mul24_high_s32(0x00ff_ffff, 1), -1);
    assert_eq!(mad24_u32(0x0100_0003, 4, 5), 17);
    assert_eq!(mad24_s32(0x00ff_ffff, 2, 5), 3);
}
