use super::*;

/// A half's magnitude in units of two to the power of -48; that of infinity is what the next float would be.
fn units(half: u16) -> i128 {
    let field = half >> 10 & 31;
    let fraction = i128::from(half & 0x3ff);
    if field == 0 { fraction << 24 } else { (fraction + 0x400) << (24 + field - 1) }
}

fn signed_units(half: u16) -> i128 {
    if half & SIGN == 0 { units(half) } else { -units(half) }
}

/// The half nearest to so many units, found by looking among all of them. `negative` decides for zero.
fn nearest(value: i128, negative: bool) -> u16 {
    let sign = if value < 0 || value == 0 && negative { SIGN } else { 0 };
    let size = value.abs();
    let (mut low, mut high) = (0_u16, HALF_INFINITY);
    while high - low > 1 {
        let middle = u16::midpoint(low, high);
        if units(middle) <= size { low = middle } else { high = middle }
    }
    let (below, above) = (size - units(low), units(high) - size);
    sign | if below < above || below == above && low & 1 == 0 { low } else { high }
}

fn finite(random: &mut fastrand::Rng) -> u16 {
    loop {
        let half = random.u16(..);
        if half & !SIGN < HALF_INFINITY {
            return half;
        }
    }
}

#[test]
fn each_half_is_the_float_it_says() {
    for half in 0..=u16::MAX {
        let float = half_to_single(half);
        let magnitude = half & !SIGN;
        if magnitude > HALF_INFINITY {
            assert_eq!(float.to_bits(), 0x7fff_ffff);
            continue;
        }
        assert_eq!(float.is_sign_negative(), half & SIGN != 0);
        if magnitude == HALF_INFINITY {
            assert!(float.is_infinite());
        } else {
            assert_eq!((f64::from(float) * 281_474_976_710_656.0) as i128, signed_units(half));
        }
        assert_eq!(f16_to_f64(half).to_bits(), f64::from(float).to_bits());
    }
}

#[test]
fn each_half_and_bfloat_comes_back_from_floats_and_doubles() {
    for bits in 0..=u16::MAX {
        for direction in Direction::ALL {
            let wanted = if bits & !SIGN > HALF_INFINITY { NAN } else { bits };
            assert_eq!(single_to_half(half_to_single(bits), direction), wanted);
            assert_eq!(double_to_half(f16_to_f64(bits), direction), wanted);
            let wanted = if bits & !SIGN > BFLOAT_INFINITY { NAN } else { bits };
            assert_eq!(single_to_bfloat(bfloat_to_single(bits), direction), wanted);
            assert_eq!(double_to_bfloat(bf16_to_f64(bits), direction), wanted);
        }
    }
}

/// Checks what lies between two neighbours, given as positive floats of 16 bits.
fn check_between(
    low: u16,
    low_value: f64,
    high_value: f64,
    single: fn(f32, Direction) -> u16,
    quick: extern "C" fn(f32) -> u16,
    double: fn(f64, Direction) -> u16,
) {
    let high = low + 1;
    let middle = f64::midpoint(low_value, high_value);
    let even = if low & 1 == 0 { low } else { high };
    let single_middle = middle as f32;
    assert_eq!(f64::from(single_middle), middle);
    let singles =
        [(single_middle.next_down(), low), (single_middle, even), (single_middle.next_up(), high)];
    let doubles = [(middle.next_down(), low), (middle, even), (middle.next_up(), high)];
    for (value, near) in singles {
        let wanted = [near, low, low, high];
        let below = [near | SIGN, low | SIGN, high | SIGN, low | SIGN];
        for ((direction, wanted), below) in Direction::ALL.into_iter().zip(wanted).zip(below) {
            assert_eq!(single(value, direction), wanted, "{value} {direction:?}");
            assert_eq!(single(-value, direction), below, "-{value} {direction:?}");
        }
        assert_eq!(quick(value), near, "{value}");
        assert_eq!(quick(-value), near | SIGN, "-{value}");
    }
    for (value, near) in doubles {
        let wanted = [near, low, low, high];
        let below = [near | SIGN, low | SIGN, high | SIGN, low | SIGN];
        for ((direction, wanted), below) in Direction::ALL.into_iter().zip(wanted).zip(below) {
            assert_eq!(double(value, direction), wanted, "{value} {direction:?}");
            assert_eq!(double(-value, direction), below, "-{value} {direction:?}");
        }
    }
}

#[test]
fn what_lies_between_two_halves_goes_the_way_asked_for() {
    for low in 0..HALF_INFINITY {
        let high = if low + 1 == HALF_INFINITY { 65_536.0 } else { f16_to_f64(low + 1) };
        check_between(
            low,
            f16_to_f64(low),
            high,
            single_to_half,
            f32_to_f16_nearest,
            double_to_half,
        );
    }
}

#[test]
fn what_lies_between_two_bfloats_goes_the_way_asked_for() {
    for low in 0..BFLOAT_INFINITY {
        let high = if low + 1 == BFLOAT_INFINITY { 2_f64.powi(128) } else { bf16_to_f64(low + 1) };
        check_between(
            low,
            bf16_to_f64(low),
            high,
            single_to_bfloat,
            f32_to_bf16_nearest,
            double_to_bfloat,
        );
    }
}

#[test]
fn the_largest_doubles_and_infinity_end_where_they_are_sent() {
    assert_eq!(f64_to_f16_zero(f64::MAX), 0x7bff);
    assert_eq!(f64_to_f16_up(f64::MAX), 0x7c00);
    assert_eq!(f64_to_f16_down(-f64::MAX), 0xfc00);
    assert_eq!(f64_to_f16_up(5e-324), 1);
    assert_eq!(f64_to_f16_down(-5e-324), 0x8001);
    assert_eq!(f64_to_f16_nearest(-5e-324), 0x8000);
    assert_eq!(f32_to_f16_zero(f32::INFINITY), 0x7c00);
    assert_eq!(f32_to_f16_nearest(f32::NAN), NAN);
    assert_eq!(f32_to_bf16_nearest(-f32::NAN), NAN);
    assert_eq!(f32_to_bf16_nearest(f32::NEG_INFINITY), 0xff80);
    assert_eq!(f32_to_bf16_down(f32::MAX), 0x7f7f);
}

#[test]
fn sums_and_products_of_halves_are_rounded_once() {
    let mut random = fastrand::Rng::with_seed(11);
    for _ in 0..100_000 {
        let (a, b, c) = (finite(&mut random), finite(&mut random), finite(&mut random));
        let (x, y) = (signed_units(a), signed_units(b));
        let (p, q) = (half_to_single(a), half_to_single(b));
        assert_eq!(add_f16(a, b), nearest(x + y, (p + q).is_sign_negative()), "{a:#x} + {b:#x}");
        assert_eq!(sub_f16(a, b), nearest(x - y, (p - q).is_sign_negative()), "{a:#x} - {b:#x}");
        let product = (x >> 24) * (y >> 24);
        assert_eq!(mul_f16(a, b), nearest(product, (p * q).is_sign_negative()), "{a:#x} * {b:#x}");
        let zero = f64::from(p) * f64::from(q) + f16_to_f64(c);
        let wanted = nearest(product + signed_units(c), zero.is_sign_negative());
        assert_eq!(fma_f16(a, b, c), wanted, "{a:#x} * {b:#x} + {c:#x}");
    }
}

#[test]
fn fma_does_not_round_twice() {
    // 3 * 683 lies halfway between two halves, and a float cannot hold it with what is added.
    assert_eq!(fma_f16(0x4200, 0x6156, 0x0001), 0x6801);
    assert_eq!(fma_f16(0x4200, 0x6156, 0x0000), 0x6800);
    assert_eq!(fma_f16(0x4200, 0x6156, 0x8001), 0x6800);
    // 9 * 29 lies halfway between two of bfloat16, and a double cannot hold it with what is added.
    assert_eq!(fma_bf16(0x4110, 0x41e8, 0x0d80), 0x4383);
    assert_eq!(fma_bf16(0x4110, 0x41e8, 0x0000), 0x4382);
    assert_eq!(fma_bf16(0x4110, 0x41e8, 0x8d80), 0x4382);
}

/// A bfloat16 with an exponent between the two, and its significand and the exponent of that one's lowest bit.
fn bfloat(random: &mut fastrand::Rng, exponents: std::ops::Range<i32>) -> (u16, i128, i32) {
    let exponent = random.i32(exponents);
    let (negative, fraction) = (random.bool(), random.u16(0..128));
    let (field, significand) =
        if exponent < -126 { (0, fraction) } else { ((exponent + 127) as u16, fraction + 128) };
    let value = i128::from(significand);
    let bits = field << 7 | fraction | if negative { SIGN } else { 0 };
    (bits, if negative { -value } else { value }, exponent.max(-126) - 7)
}

/// The bfloat16 nearest to the value in units of two to the power of `unit`; never infinite.
fn nearest_bfloat_to(value: i128, unit: i32) -> u16 {
    let size = value.unsigned_abs();
    let mut lowest = -133;
    while (size >> (lowest - unit)) > 0xff {
        lowest += 1;
    }
    let (kept, lost) = (size >> (lowest - unit), size & ((1 << (lowest - unit)) - 1));
    let up = match lost.cmp(&((1 << (lowest - unit)) / 2)) {
        std::cmp::Ordering::Less => 0,
        std::cmp::Ordering::Equal => kept & 1,
        std::cmp::Ordering::Greater => 1,
    };
    let bits = (kept + up) as u16 + ((lowest + 133) as u16) * 128;
    bits | if value < 0 { SIGN } else { 0 }
}

#[test]
fn sums_and_products_of_bfloats_are_rounded_once() {
    let mut random = fastrand::Rng::with_seed(13);
    for _ in 0..50_000 {
        // Products about as large as the addend, at the end where floats have no more digits.
        let (a, x, x_unit) = bfloat(&mut random, -70..-50);
        let (b, y, y_unit) = bfloat(&mut random, -70..-50);
        let (c, z, z_unit) = bfloat(&mut random, -130..-100);
        let (d, v, v_unit) = bfloat(&mut random, -130..-100);
        const UNIT: i32 = -160;
        let product = (x * y) << (x_unit + y_unit - UNIT);
        let addend = z << (z_unit - UNIT);
        if product != 0 {
            assert_eq!(mul_bf16(a, b), nearest_bfloat_to(product, UNIT), "{a:#x} * {b:#x}");
        }
        if product + addend != 0 {
            let wanted = nearest_bfloat_to(product + addend, UNIT);
            assert_eq!(fma_bf16(a, b, c), wanted, "{a:#x} * {b:#x} + {c:#x}");
        }
        let other = v << (v_unit - UNIT);
        if addend != other {
            assert_eq!(sub_bf16(c, d), nearest_bfloat_to(addend - other, UNIT), "{c:#x} - {d:#x}");
        }
        if addend != -other {
            assert_eq!(add_bf16(c, d), nearest_bfloat_to(addend + other, UNIT), "{c:#x} + {d:#x}");
        }
    }
}

#[test]
fn results_that_are_no_finite_number_are_those_of_ieee() {
    let (infinity, below) = (0x7c00, 0xfc00);
    assert_eq!(add_f16(infinity, below), NAN);
    assert_eq!(add_f16(0x7bff, 0x7bff), infinity);
    assert_eq!(mul_f16(infinity, 0), NAN);
    assert_eq!(fma_f16(infinity, 0, 0x3c00), NAN);
    assert_eq!(fma_f16(infinity, 0x3c00, below), NAN);
    assert_eq!(fma_f16(0x7bff, 0x7bff, below), below);
    assert_eq!(fma_f16(0x3c00, 0x3c00, 0xfe00), NAN);
    assert_eq!(fma_bf16(0x7f7f, 0x7f7f, 0), 0x7f80);
    assert_eq!(add_bf16(0x7f7f, 0x7f7f), 0x7f80);
    assert_eq!(neg_f16(0), SIGN);
    assert_eq!(abs_bf16(0xff80), 0x7f80);
}

#[test]
fn whatever_is_given_there_is_a_number_where_doubles_have_one() {
    let mut random = fastrand::Rng::with_seed(31);
    let of = |nan: bool, bits: u16, infinity: u16| assert_eq!(nan, bits & !SIGN > infinity);
    for _ in 0..50_000 {
        let [a, b, c] =
            [0; 3].map(|_| random.u16(..) | if random.u8(..) < 60 { 0x7c00 } else { 0 });
        let [x, y, z] = [a, b, c].map(|bits| f16_to_f64(bits));
        of((x * y + z).is_nan(), fma_f16(a, b, c), HALF_INFINITY);
        of((x * y).is_nan(), mul_f16(a, b), HALF_INFINITY);
        of((x + y).is_nan(), add_f16(a, b), HALF_INFINITY);
        let [x, y, z] = [a, b, c].map(|bits| bf16_to_f64(bits));
        of((x * y + z).is_nan(), fma_bf16(a, b, c), BFLOAT_INFINITY);
        of((x - y).is_nan(), sub_bf16(a, b), BFLOAT_INFINITY);
        of(x.is_nan() || y.is_nan(), min_nan_bf16(a, b), BFLOAT_INFINITY);
        of(x.is_nan() && y.is_nan(), max_bf16(a, b), BFLOAT_INFINITY);
    }
}

#[test]
fn lower_and_higher_follow_ptx() {
    let (one, two, nan) = (0x3c00, 0x4000, 0xfe01);
    for (a, b, low, high) in
        [(one, two, one, two), (two, one, one, two), (0, SIGN, SIGN, 0), (SIGN, 0, SIGN, 0)]
    {
        assert_eq!((min_f16(a, b), max_f16(a, b)), (low, high));
        assert_eq!((min_nan_f16(a, b), max_nan_f16(a, b)), (low, high));
    }
    assert_eq!(min_f16(one | SIGN, two | SIGN), two | SIGN);
    assert_eq!(min_f16(nan, one), one);
    assert_eq!(max_f16(one, nan), one);
    assert_eq!(max_f16(nan, nan), NAN);
    assert_eq!(min_nan_f16(nan, one), NAN);
    assert_eq!(max_nan_f16(one, nan), NAN);
    assert_eq!(max_bf16(0x7f81, 0x7f80), 0x7f80);
    assert_eq!(max_f16(0x7c00, one), 0x7c00);
}

#[test]
fn powers_and_tangents_have_their_special_cases() {
    assert_eq!(ex2_f16(0x4200), 0x4800);
    assert_eq!(ex2_f16(0xfc00), 0);
    assert_eq!(ex2_f16(0x7c00), 0x7c00);
    assert_eq!(ex2_f16(NAN), NAN);
    assert_eq!(ex2_bf16(0x3f80), 0x4000);
    assert_eq!(tanh_f16(0x7c00), 0x3c00);
    assert_eq!(tanh_f16(SIGN), SIGN);
    assert_eq!(tanh_bf16(0xff80), 0xbf80);
}
