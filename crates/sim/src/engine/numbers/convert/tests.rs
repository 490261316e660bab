use super::*;

/// The float that is nearest in the direction, found from the one Rust gives.
macro_rules! directed {
    ($value:expr, $float:ty, $direction:expr) => {{
        let value: i128 = $value.into();
        let near = $value as $float;
        let found = near as i128;
        match $direction {
            Direction::Nearest => near,
            Direction::Down if found > value => near.next_down(),
            Direction::Up if found < value => near.next_up(),
            Direction::Zero if found.abs() > value.abs() && value > 0 => near.next_down(),
            Direction::Zero if found.abs() > value.abs() => near.next_up(),
            _ => near,
        }
    }};
}

/// Integers that lie at and beside powers of two and halfway between floats, and any.
fn integers() -> impl Iterator<Item = u64> {
    let mut random = fastrand::Rng::with_seed(7);
    let edges = (0..64).flat_map(|power| {
        let one = 1_u64 << power;
        [
            one,
            one - 1,
            one + 1,
            one.wrapping_neg(),
            (one | one >> 24),
            (one | one >> 24) + 1,
            one | one >> 53,
        ]
    });
    edges.chain(std::iter::repeat_with(move || random.u64(..) >> random.u32(0..64)).take(2000))
}

macro_rules! check_integers {
    ($($direction:ident: $s32:ident $u32:ident $s64:ident $u64:ident, $float:ty;)*) => {$(
        let direction = Direction::$direction;
        for bits in integers() {
            let (s32, u32, s64, u64) = (bits as i32, bits as u32, bits.cast_signed(), bits);
            assert_eq!($s32(s32).to_bits(), directed!(s32, $float, direction).to_bits(), "{s32} {direction:?}");
            assert_eq!($u32(u32).to_bits(), directed!(u32, $float, direction).to_bits(), "{u32} {direction:?}");
            assert_eq!($s64(s64).to_bits(), directed!(s64, $float, direction).to_bits(), "{s64} {direction:?}");
            assert_eq!($u64(u64).to_bits(), directed!(u64, $float, direction).to_bits(), "{u64} {direction:?}");
        }
    )*};
}

#[test]
fn integers_become_the_float_on_the_side_asked_for() {
    check_integers! {
        Nearest: s32_to_f32_nearest u32_to_f32_nearest s64_to_f32_nearest u64_to_f32_nearest, f32;
        Zero: s32_to_f32_zero u32_to_f32_zero s64_to_f32_zero u64_to_f32_zero, f32;
        Down: s32_to_f32_down u32_to_f32_down s64_to_f32_down u64_to_f32_down, f32;
        Up: s32_to_f32_up u32_to_f32_up s64_to_f32_up u64_to_f32_up, f32;
        Nearest: s32_to_f64_nearest u32_to_f64_nearest s64_to_f64_nearest u64_to_f64_nearest, f64;
        Zero: s32_to_f64_zero u32_to_f64_zero s64_to_f64_zero u64_to_f64_zero, f64;
        Down: s32_to_f64_down u32_to_f64_down s64_to_f64_down u64_to_f64_down, f64;
        Up: s32_to_f64_up u32_to_f64_up s64_to_f64_up u64_to_f64_up, f64;
    }
}

#[test]
fn integers_become_sixteen_bits_rounded_once() {
    // As a float or double this would first become the number halfway between two halves, and then the lower one.
    assert_eq!(s64_to_f16_nearest(2049), 0x6800);
    assert_eq!(s64_to_bf16_nearest((0x101 << 52) + 1), 0x5d81);
    assert_eq!(s64_to_bf16_nearest(0x101 << 52), 0x5d80);
    assert_eq!(u64_to_f16_nearest(65_519), 0x7bff);
    assert_eq!(u64_to_f16_nearest(65_520), 0x7c00);
    assert_eq!(u64_to_f16_zero(u64::MAX), 0x7bff);
    assert_eq!(s32_to_f16_down(-65_505), 0xfc00);
    assert_eq!(s32_to_f16_up(-70_000), 0xfbff);
    assert_eq!(u32_to_bf16_up(0x101), 0x4381);
    assert_eq!(u32_to_bf16_down(0x101), 0x4380);
}

#[test]
fn not_a_number_becomes_zero_only_from_short_into_short() {
    assert_eq!(f32_to_s32_zero(f32::NAN), 0);
    assert_eq!(f32_to_u32_zero(f32::NAN), 0);
    assert_eq!(f32_to_s16_zero(f32::NAN), 0);
    assert_eq!(f32_to_s64_zero(f32::NAN), i64::MIN);
    assert_eq!(f32_to_u64_zero(f32::NAN), 1 << 63);
    assert_eq!(f64_to_s32_zero(f64::NAN), i32::MIN);
    assert_eq!(f64_to_u32_zero(f64::NAN), 1 << 31);
    assert_eq!(f64_to_s16_zero(f64::NAN), i16::MIN);
    assert_eq!(f64_to_u8_zero(f64::NAN), 1 << 7);
    assert_eq!(f64_to_s64_zero(f64::NAN), i64::MIN);
    assert_eq!(f64_to_u64_zero(f64::NAN), 1 << 63);
}

#[test]
fn what_does_not_fit_becomes_the_nearest_that_does() {
    assert_eq!(f32_to_s32_nearest(3e9), i32::MAX);
    assert_eq!(f32_to_s32_nearest(f32::NEG_INFINITY), i32::MIN);
    assert_eq!(f32_to_u32_nearest(-3.0), 0);
    assert_eq!(f32_to_u32_nearest(f32::INFINITY), u32::MAX);
    assert_eq!(f32_to_s8_down(-128.5), -128);
    assert_eq!(f32_to_u8_up(254.5), 255);
    assert_eq!(f32_to_u8_up(255.5), 255);
    assert_eq!(f32_to_u16_nearest(65_536.0), u16::MAX);
    assert_eq!(f64_to_s64_nearest(9.3e18), i64::MAX);
    assert_eq!(f64_to_u64_nearest(1.9e19), u64::MAX);
    assert_eq!(f64_to_s32_up(2_147_483_646.5), i32::MAX);
}

#[test]
fn whole_numbers_keep_the_sign_of_zero() {
    assert_eq!(whole_f32_nearest(2.5).to_bits(), 2.0_f32.to_bits());
    assert_eq!(whole_f32_nearest(3.5).to_bits(), 4.0_f32.to_bits());
    assert_eq!(whole_f32_nearest(-0.5).to_bits(), (-0.0_f32).to_bits());
    assert_eq!(whole_f32_zero(-0.9).to_bits(), (-0.0_f32).to_bits());
    assert_eq!(whole_f32_down(-0.1).to_bits(), (-1.0_f32).to_bits());
    assert_eq!(whole_f32_up(-0.9).to_bits(), (-0.0_f32).to_bits());
    assert_eq!(whole_f32_up(f32::MAX).to_bits(), f32::MAX.to_bits());
    assert_eq!(whole_f32_up(-f32::NAN).to_bits(), 0x7fff_ffff);
    assert_eq!(whole_f64_up(1e-300).to_bits(), 1.0_f64.to_bits());
    assert_eq!(whole_f64_nearest(0.5).to_bits(), 0.0_f64.to_bits());
    assert_eq!(whole_f64_zero(-1.9).to_bits(), (-1.0_f64).to_bits());
    assert_eq!(whole_f64_down(f64::NEG_INFINITY), f64::NEG_INFINITY);
}

#[test]
fn saturation_ends_at_zero_and_one() {
    for (given, wanted) in
        [(f32::NAN, 0.0), (-0.0, 0.0), (-3.0, 0.0), (0.25, 0.25), (7.0, 1.0), (f32::INFINITY, 1.0)]
    {
        assert_eq!(saturate_f32(given).to_bits(), f32::to_bits(wanted));
        assert_eq!(saturate_f64(given.into()).to_bits(), f64::from(wanted).to_bits());
    }
}
