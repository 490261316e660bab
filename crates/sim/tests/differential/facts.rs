//! What the manual says, in examples worked out by hand, so that the interpreter is not trusted blindly.

use gpulend_sim::ptx::ast::{
    Atomic, Binary, Compare, Float, Reduce, Rounding, Ternary, Test, Type, Unary,
};

use crate::arithmetic::{
    atomic, binary, compare, convert, dot4, extended, extract_bits, find_bit, funnel_shift,
    insert_bits, logic3, permute, reduce, ternary, test, unary, with_carry,
};
use crate::numbers::{BRAIN, DOUBLE, HALF, Number, SINGLE};

const PLAIN: Float =
    Float { rounding: None, flush: false, saturate: false, approximate: false, keep_nan: false };
const FLUSH: Float = Float { flush: true, ..PLAIN };
const SATURATE: Float = Float { saturate: true, ..PLAIN };

fn rounded(rounding: Rounding) -> Float {
    Float { rounding: Some(rounding), ..PLAIN }
}

fn single(value: f32) -> u64 {
    u64::from(value.to_bits())
}

#[test]
fn bit_fields_follow_the_manual() {
    assert_eq!(extract_bits(Type::U32, 0xdead_beef, 8, 8), 0xbe);
    assert_eq!(extract_bits(Type::S32, 0xdead_beef, 8, 8), 0xffff_ffbe);
    assert_eq!(extract_bits(Type::U32, 0xffff_ffff, 4, 0), 0);
    assert_eq!(extract_bits(Type::S32, 0x8000_0000, 40, 4), 0xffff_ffff);
    assert_eq!(extract_bits(Type::S32, 0x8000_0000, 28, 16), 0xffff_fff8);
    assert_eq!(extract_bits(Type::U64, 0x1234_5678_9abc_def0, 60, 8), 1);
    assert_eq!(insert_bits(Type::B32, 0xff, 0, 28, 8), 0xf000_0000);
    assert_eq!(insert_bits(Type::B32, 0xab, 0x1111_1111, 8, 8), 0x1111_ab11);
    assert_eq!(insert_bits(Type::B32, 0xab, 0x1111_1111, 8, 0), 0x1111_1111);
    assert_eq!(find_bit(Type::U32, false, 0x10), 4);
    assert_eq!(find_bit(Type::U32, true, 0x10), 27);
    assert_eq!(find_bit(Type::S32, false, 0xffff_ffff), 0xffff_ffff);
    assert_eq!(find_bit(Type::S32, false, 0xffff_fffe), 0);
    assert_eq!(find_bit(Type::U64, false, 0), 0xffff_ffff);
}

#[test]
fn bytes_and_tables_follow_the_manual() {
    assert_eq!(permute(0x3322_1100, 0x7766_5544, 0x7531), 0x7755_3311);
    assert_eq!(permute(0x80, 0, 0x1118), 0x0000_00ff);
    assert_eq!(permute(0x7f, 0, 0x1118), 0);
    assert_eq!(logic3(0x80, 0xf0, 0xcc, 0xaa), 0x80);
    assert_eq!(logic3(0xfe, 0xf0, 0xcc, 0x02), 0xfe);
    assert_eq!(logic3(0x1a, 0xf0, 0xcc, 0xaa), 0x1a);
    assert_eq!(funnel_shift(true, false, 0x8000_0000, 1, 1), 3);
    assert_eq!(funnel_shift(true, false, 0x1234_5678, 1, 40), 0x1234_5678);
    assert_eq!(funnel_shift(true, true, 0x1234_5678, 1, 32), 1);
    assert_eq!(funnel_shift(false, false, 0x1234_5678, 9, 33), 9);
    assert_eq!(funnel_shift(false, true, 2, 1, 1), 0x8000_0001);
    assert_eq!(dot4((true, true), 0xff01_ff01, 0x0202_0202, 10), 10);
    assert_eq!(dot4((false, false), 0xff01_ff01, 0x0202_0202, 10), 1034);
}

#[test]
fn integers_follow_the_manual() {
    let int = |op, ty, a, b| binary(op, ty, PLAIN, a, b);
    assert_eq!(int(Binary::MulHi, Type::S32, 0xffff_ffff, 2), 0xffff_ffff);
    assert_eq!(int(Binary::MulHi, Type::U32, 0xffff_ffff, 2), 1);
    assert_eq!(int(Binary::MulHi, Type::U64, u64::MAX, u64::MAX), u64::MAX - 1);
    assert_eq!(int(Binary::MulHi, Type::S64, 1 << 63, 1 << 63), 1 << 62);
    assert_eq!(int(Binary::MulWide, Type::S16, 0xffff, 3) & 0xffff_ffff, 0xffff_fffd);
    assert_eq!(int(Binary::MulWide, Type::U32, 0xffff_ffff, 0xffff_ffff), 0xffff_fffe_0000_0001);
    assert_eq!(int(Binary::Mul24, Type::S32, 0x00ff_ffff, 2), 0xffff_fffe);
    assert_eq!(int(Binary::Mul24, Type::U32, 0xffff_ffff, 0x0100_0002), 0x01ff_fffe);
    assert_eq!(int(Binary::Shl, Type::B32, 1, 32), 0);
    assert_eq!(int(Binary::Shr, Type::S32, 0x8000_0000, 99), 0xffff_ffff);
    assert_eq!(int(Binary::Shr, Type::U32, 0x8000_0000, 99), 0);
    assert_eq!(int(Binary::Div, Type::S32, 0xffff_fff9, 2), 0xffff_fffd);
    assert_eq!(int(Binary::Rem, Type::S32, 0xffff_fff9, 2), 0xffff_ffff);
    assert_eq!(int(Binary::Div, Type::S32, 0x8000_0000, 0xffff_ffff), 0x8000_0000);
    assert_eq!(binary(Binary::Add, Type::S32, SATURATE, 0x7fff_ffff, 1), 0x7fff_ffff);
    assert_eq!(binary(Binary::Sub, Type::S32, SATURATE, 0x8000_0000, 1), 0x8000_0000);
    assert_eq!(ternary(Ternary::Sad, Type::U32, PLAIN, [3, 10, 5]), 12);
    assert_eq!(ternary(Ternary::Sad, Type::S32, PLAIN, [0xffff_ffff, 1, 5]), 7);
    assert_eq!(
        ternary(Ternary::MadHi, Type::S32, SATURATE, [0x7fff_ffff, 0x7fff_ffff, 0x7fff_ffff]),
        0x7fff_ffff
    );
    assert_eq!(unary(Unary::Clz, Type::B32, PLAIN, 1), 31);
    assert_eq!(unary(Unary::Clz, Type::B64, PLAIN, 0), 64);
    assert_eq!(unary(Unary::Brev, Type::B32, PLAIN, 1), 0x8000_0000);
    assert_eq!(unary(Unary::CNot, Type::B16, PLAIN, 0), 1);
    assert_eq!(unary(Unary::Abs, Type::S32, PLAIN, 0x8000_0000), 0x8000_0000);
    assert_eq!(with_carry(false, 32, 0xffff_ffff, 0, true), (0, true));
    assert_eq!(with_carry(true, 32, 0, 0, true), (0xffff_ffff, true));
    assert_eq!(with_carry(true, 64, 1, 1, false), (0, false));
    assert_eq!(extended(0x80, Type::S8), 0xffff_ffff_ffff_ff80);
    assert_eq!(extended(0x80, Type::U8), 0x80);
    assert_eq!(atomic(Atomic::Inc, Type::U32, 5, 5, 0), 0);
    assert_eq!(atomic(Atomic::Inc, Type::U32, 4, 5, 0), 5);
    assert_eq!(atomic(Atomic::Dec, Type::U32, 0, 5, 0), 5);
    assert_eq!(atomic(Atomic::Dec, Type::U32, 9, 5, 0), 5);
    assert_eq!(atomic(Atomic::Cas, Type::B32, 9, 9, 1), 1);
    assert_eq!(reduce(Reduce::Min, Type::S32, 1, 0xffff_ffff), 0xffff_ffff);
}

#[test]
fn floats_follow_the_manual() {
    let nan = single(f32::NAN);
    let (zero, minus_zero) = (single(0.0), single(-0.0));
    let float = |op, float, a, b| binary(op, Type::F32, float, a, b);
    assert_eq!(float(Binary::Min, PLAIN, nan, single(1.0)), single(1.0));
    assert_eq!(float(Binary::Max, PLAIN, single(1.0), nan), single(1.0));
    assert_eq!(
        float(Binary::Min, Float { keep_nan: true, ..PLAIN }, nan, single(1.0)),
        SINGLE.nan()
    );
    assert_eq!(float(Binary::Min, PLAIN, zero, minus_zero), minus_zero);
    assert_eq!(float(Binary::Max, PLAIN, minus_zero, zero), zero);
    assert_eq!(float(Binary::Add, SATURATE, single(0.75), single(0.75)), single(1.0));
    assert_eq!(float(Binary::Add, SATURATE, nan, single(0.75)), zero);
    assert_eq!(float(Binary::Add, FLUSH, 1, minus_zero), zero);
    assert_eq!(float(Binary::Mul, FLUSH, single(-1e-30), single(1e-10)), minus_zero);
    assert_eq!(float(Binary::Sub, rounded(Rounding::Down), single(1.0), single(1.0)), minus_zero);
    assert_eq!(
        float(Binary::Add, rounded(Rounding::Up), single(1.0), single(1e-30)),
        single(1.0) + 1
    );
    assert_eq!(
        float(Binary::Add, rounded(Rounding::Zero), single(-1.0), single(1e-30)),
        single(-1.0) - 1
    );
    assert_eq!(
        float(Binary::Mul, rounded(Rounding::Zero), single(1e38), single(1e38)),
        single(f32::MAX)
    );
    assert_eq!(float(Binary::CopySign, PLAIN, single(-2.0), single(3.0)), single(-3.0));
    assert_eq!(
        unary(Unary::Rcp, Type::F32, rounded(Rounding::Nearest), minus_zero),
        single(f32::NEG_INFINITY)
    );
    assert_eq!(unary(Unary::Sqrt, Type::F32, rounded(Rounding::Nearest), minus_zero), minus_zero);
    assert!(compare(Compare::UnLt, Type::F32, false, nan, zero));
    assert!(!compare(Compare::Ne, Type::F32, false, nan, zero));
    assert!(compare(Compare::Eq, Type::F32, true, 1, minus_zero));
    assert!(!compare(Compare::Eq, Type::F32, false, 1, minus_zero));
    assert!(compare(Compare::Lt, Type::S32, false, 0xffff_ffff, 0));
    assert!(compare(Compare::Gt, Type::U32, false, 0xffff_ffff, 0));
    assert!(test(Test::Subnormal, Type::F32, 1));
    assert!(test(Test::Normal, Type::F32, 0));
    assert!(test(Test::Finite, Type::F64, 0));
}

#[test]
fn conversions_follow_the_manual() {
    let to_int =
        |to, value: f32, rounding| convert(to, Type::F32, rounded(rounding), single(value));
    assert_eq!(to_int(Type::S32, 2.5, Rounding::IntegerNearest), 2);
    assert_eq!(to_int(Type::S32, 3.5, Rounding::IntegerNearest), 4);
    assert_eq!(to_int(Type::S32, -2.5, Rounding::IntegerDown), 0xffff_fffd);
    assert_eq!(to_int(Type::S32, 2.1, Rounding::IntegerUp), 3);
    assert_eq!(to_int(Type::S32, 3e9, Rounding::IntegerZero), 0x7fff_ffff);
    assert_eq!(to_int(Type::U32, -1.0, Rounding::IntegerZero), 0);
    assert_eq!(to_int(Type::S32, f32::NAN, Rounding::IntegerZero), 0);
    assert_eq!(to_int(Type::S64, f32::NAN, Rounding::IntegerZero), 1 << 63);
    assert_eq!(
        convert(Type::S32, Type::F64, rounded(Rounding::IntegerZero), f64::NAN.to_bits()),
        0x8000_0000
    );
    assert_eq!(
        convert(Type::F32, Type::S32, rounded(Rounding::Nearest), 0x0100_0001),
        single(16_777_216.0)
    );
    assert_eq!(
        convert(Type::F32, Type::S32, rounded(Rounding::Up), 0x0100_0001),
        single(16_777_218.0)
    );
    assert_eq!(convert(Type::U8, Type::S32, SATURATE, 0xffff_ffff), 0);
    assert_eq!(convert(Type::S8, Type::U32, SATURATE, 200), 127);
    assert_eq!(convert(Type::S8, Type::U32, PLAIN, 200), 200);
    assert_eq!(
        convert(Type::F16, Type::F32, rounded(Rounding::Nearest), single(65520.0)),
        HALF.infinity(false)
    );
    assert_eq!(convert(Type::F16, Type::F32, rounded(Rounding::Zero), single(65520.0)), 0x7bff);
    assert_eq!(convert(Type::F16, Type::F32, rounded(Rounding::Nearest), single(1.0)), 0x3c00);
    assert_eq!(convert(Type::F16, Type::F32, rounded(Rounding::Nearest), single(6e-8)), 1);
    assert_eq!(convert(Type::BF16, Type::F32, rounded(Rounding::Nearest), 0x3f80_8000), 0x3f80);
    assert_eq!(convert(Type::BF16, Type::F32, rounded(Rounding::Nearest), 0x3f81_8000), 0x3f82);
    assert_eq!(convert(Type::F32, Type::BF16, PLAIN, 0x3f82), 0x3f82_0000);
    assert_eq!(
        convert(Type::F32, Type::F32, rounded(Rounding::IntegerNearest), single(-0.3)),
        single(-0.0)
    );
    let half_flush = Float { rounding: Some(Rounding::Nearest), ..FLUSH };
    assert_eq!(convert(Type::F16, Type::F32, half_flush, single(6e-8)), 1);
}

#[test]
fn pairs_are_two_halves() {
    let sum = binary(Binary::Add, Type::F16x2, PLAIN, 0x3c00_4000, 0x3c00_3c00);
    assert_eq!(sum, 0x4000_4200);
    let fused = ternary(Ternary::Fma, Type::BF16x2, PLAIN, [0x3f80_4000, 0x4000_4000, 0x3f80_3f80]);
    assert_eq!(fused, 0x4040_40a0);
    assert_eq!(unary(Unary::Neg, Type::F16x2, PLAIN, 0x3c00_bc00), 0xbc00_3c00);
}

#[test]
fn own_floats_agree_with_the_host_where_both_round_to_nearest() {
    let mut rng = fastrand::Rng::with_seed(7);
    let number = |value: f64| DOUBLE.decode(value.to_bits());
    let same = |own: Number, host: f64| {
        let own = f64::from_bits(DOUBLE.encode(own, Rounding::Nearest));
        assert!(
            own.to_bits() == host.to_bits() || own.is_nan() && host.is_nan(),
            "{own:e} {host:e}"
        );
    };
    for _ in 0..20_000 {
        let [a, b, c] =
            [(); 3].map(|()| f64::from_bits(crate::generator::interesting_float(&mut rng, 11, 52)));
        same(number(a).add(number(b), Rounding::Nearest), a + b);
        same(number(a).multiply(number(b)), a * b);
        same(number(a).divide(number(b)), a / b);
        same(number(a).square_root(), a.sqrt());
        same(number(a).multiply(number(b)).add(number(c), Rounding::Nearest), a.mul_add(b, c));
        assert_eq!(number(a).compare(number(b)), a.partial_cmp(&b));
    }
    for _ in 0..20_000 {
        let bits = [(); 3].map(|()| crate::generator::interesting_float(&mut rng, 8, 23));
        let [a, b, c] = bits.map(|bits| f32::from_bits(u32::try_from(bits).unwrap()));
        let own = ternary(Ternary::Fma, Type::F32, PLAIN, bits);
        let host = a.mul_add(b, c);
        assert!(own == single(host) || host.is_nan() && own == SINGLE.nan(), "{a:e} {b:e} {c:e}");
        let own = binary(Binary::Div, Type::F32, PLAIN, bits[0], bits[1]);
        assert!(own == single(a / b) || (a / b).is_nan() && own == SINGLE.nan(), "{a:e} {b:e}");
        let narrow = convert(Type::F32, Type::F64, PLAIN, (f64::from(a) * 1.000_000_1).to_bits());
        #[expect(
            clippy::cast_possible_truncation,
            reason = "it is the host's rounding that is wanted"
        )]
        let host = (f64::from(a) * 1.000_000_1) as f32;
        assert!(narrow == single(host) || host.is_nan(), "{a:e}");
    }
}

#[test]
fn directed_roundings_enclose_the_nearest() {
    let mut rng = fastrand::Rng::with_seed(8);
    for format in [HALF, BRAIN, SINGLE, DOUBLE] {
        let (exponent, fraction) = match format {
            HALF => (5, 10),
            BRAIN => (8, 7),
            SINGLE => (8, 23),
            _ => (11, 52),
        };
        for _ in 0..5000 {
            let [a, b] = [(); 2].map(|()| {
                format.decode(crate::generator::interesting_float(&mut rng, exponent, fraction))
            });
            let exact = a.divide(b);
            if exact == Number::Nan {
                continue;
            }
            let [down, up, nearest, zero] =
                [Rounding::Down, Rounding::Up, Rounding::Nearest, Rounding::Zero]
                    .map(|rounding| format.decode(format.encode(exact, rounding)));
            assert!(down.compare(exact) != Some(std::cmp::Ordering::Greater));
            assert!(up.compare(exact) != Some(std::cmp::Ordering::Less));
            assert!(nearest == down || nearest == up);
            assert!(zero == down || zero == up);
            let is_exact = down.compare(exact).is_some_and(std::cmp::Ordering::is_eq);
            assert_eq!(is_exact, up.compare(down).is_some_and(std::cmp::Ordering::is_eq));
        }
    }
}
