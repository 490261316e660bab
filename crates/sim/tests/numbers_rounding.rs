//! Directed rounding, against the same sums done by the CPU in the mode asked for.
// The processor is the oracle, by its register for rounding modes; that of x86-64 is written down here.
#![cfg(target_arch = "x86_64")]

use std::arch::asm;

use gpulend_sim::engine::numbers::{Direction, convert, rounding};

const USUAL: u32 = 0x1f80;

/// The CPU's control word: exceptions masked, rounding as asked for.
fn control(direction: Direction) -> u32 {
    USUAL
        | match direction {
            Direction::Nearest => 0,
            Direction::Down => 1 << 13,
            Direction::Up => 2 << 13,
            Direction::Zero => 3 << 13,
        }
}

macro_rules! oracle {
    ($name:ident: $ty:ty, $result:ty, $kind:ident, $instruction:literal) => {
        fn $name(mut a: $result, b: $ty, direction: Direction) -> $result {
            let (mode, usual) = (control(direction), USUAL);
            // SAFETY: the instruction touches its registers alone, both words are read where they lie, and the usual
            // mode is there again when it ends.
            unsafe {
                asm!(
                    "ldmxcsr [{mode}]", $instruction, "ldmxcsr [{usual}]",
                    mode = in(reg) &raw const mode, usual = in(reg) &raw const usual,
                    a = inout($kind) a, b = in(xmm_reg) b, options(nostack, readonly)
                );
            }
            a
        }
    };
}

oracle!(add_single: f32, f32, xmm_reg, "addss {a}, {b}");
oracle!(sub_single: f32, f32, xmm_reg, "subss {a}, {b}");
oracle!(mul_single: f32, f32, xmm_reg, "mulss {a}, {b}");
oracle!(div_single: f32, f32, xmm_reg, "divss {a}, {b}");
oracle!(sqrt_single: f32, f32, xmm_reg, "sqrtss {a}, {b}");
oracle!(add_double: f64, f64, xmm_reg, "addsd {a}, {b}");
oracle!(sub_double: f64, f64, xmm_reg, "subsd {a}, {b}");
oracle!(mul_double: f64, f64, xmm_reg, "mulsd {a}, {b}");
oracle!(div_double: f64, f64, xmm_reg, "divsd {a}, {b}");
oracle!(sqrt_double: f64, f64, xmm_reg, "sqrtsd {a}, {b}");
oracle!(narrow: f64, f32, xmm_reg, "cvtsd2ss {a}, {b}");
oracle!(single_to_integer: f32, i64, reg, "cvtss2si {a}, {b}");
oracle!(double_to_integer: f64, i64, reg, "cvtsd2si {a}, {b}");

macro_rules! fma_oracle {
    ($name:ident: $ty:ty, $instruction:literal) => {
        fn $name(mut a: $ty, b: $ty, c: $ty, direction: Direction) -> $ty {
            assert!(std::arch::is_x86_feature_detected!("fma"), "this test wants a CPU with FMA");
            let (mode, usual) = (control(direction), USUAL);
            // SAFETY: as above, and the CPU has the instruction.
            unsafe {
                asm!(
                    "ldmxcsr [{mode}]", $instruction, "ldmxcsr [{usual}]",
                    mode = in(reg) &raw const mode, usual = in(reg) &raw const usual,
                    a = inout(xmm_reg) a, b = in(xmm_reg) b, c = in(xmm_reg) c, options(nostack, readonly)
                );
            }
            a
        }
    };
}

fma_oracle!(fma_single: f32, "vfmadd213ss {a}, {b}, {c}");
fma_oracle!(fma_double: f64, "vfmadd213sd {a}, {b}, {c}");

const EDGES_SINGLE: [u32; 14] = [
    0,
    1,
    2,
    0x007f_ffff,
    0x0080_0000,
    0x0080_0001,
    0x3f80_0000,
    0x3f80_0001,
    0x3f7f_ffff,
    0x4b80_0000,
    0x7f7f_ffff,
    0x7f80_0000,
    0x7fc0_0001,
    0x7f80_0001,
];

const EDGES_DOUBLE: [u64; 14] = [
    0,
    1,
    2,
    0x000f_ffff_ffff_ffff,
    0x0010_0000_0000_0000,
    0x0010_0000_0000_0001,
    0x3ff0_0000_0000_0000,
    0x3ff0_0000_0000_0001,
    0x3fef_ffff_ffff_ffff,
    0x4340_0000_0000_0000,
    0x7fef_ffff_ffff_ffff,
    0x7ff0_0000_0000_0000,
    0x7ff8_0000_0000_0001,
    0x7ff0_0000_0000_0001,
];

/// All edges with each other and both signs, then floats whose exponents are near each other, then any. Many have few
/// digits, so that exact results, ties and cancellations occur.
fn singles() -> Vec<[f32; 3]> {
    let edges: Vec<u32> = EDGES_SINGLE.iter().flat_map(|bits| [*bits, bits | 1 << 31]).collect();
    let mut all = Vec::new();
    for a in &edges {
        for b in &edges {
            for c in &edges {
                all.push([*a, *b, *c].map(f32::from_bits));
            }
        }
    }
    let mut random = fastrand::Rng::with_seed(17);
    for round in 0..40_000 {
        let mask = u32::MAX << random.u32(0..23);
        let near = random.i32(-60..60);
        all.push([0, 1, 2].map(|_| {
            let bits = random.u32(..) & mask;
            if round % 4 == 0 {
                return f32::from_bits(bits);
            }
            let exponent = (127 + near / (round % 4) + random.i32(-26..26)).cast_unsigned();
            f32::from_bits(bits & 0x807f_ffff | exponent << 23)
        }));
    }
    all
}

fn doubles() -> Vec<[f64; 3]> {
    let edges: Vec<u64> = EDGES_DOUBLE.iter().flat_map(|bits| [*bits, bits | 1 << 63]).collect();
    let mut all = Vec::new();
    for a in &edges {
        for b in &edges {
            for c in &edges {
                all.push([*a, *b, *c].map(f64::from_bits));
            }
        }
    }
    let mut random = fastrand::Rng::with_seed(19);
    for round in 0..40_000 {
        let mask = u64::MAX << random.u64(0..52);
        let near = random.i64(-500..500);
        all.push([0, 1, 2].map(|_| {
            let bits = random.u64(..) & mask;
            if round % 4 == 0 {
                return f64::from_bits(bits);
            }
            let exponent = (1023 + near / (round % 4) + random.i64(-56..56)).cast_unsigned();
            f64::from_bits(bits & 0x800f_ffff_ffff_ffff | exponent << 52)
        }));
    }
    all
}

fn same_single(found: f32, wanted: f32, context: &dyn std::fmt::Debug) {
    let wanted = if wanted.is_nan() { 0x7fff_ffff } else { wanted.to_bits() };
    assert_eq!(found.to_bits(), wanted, "{context:?}: {found:?}");
}

fn same_double(found: f64, wanted: f64, context: &dyn std::fmt::Debug) {
    assert_eq!(found.to_bits(), wanted.to_bits(), "{context:?}: {found:?} is not {wanted:?}");
}

macro_rules! check {
    ($cases:expr, $same:ident, $($direction:ident: $add:ident $sub:ident $mul:ident $div:ident $sqrt:ident $rcp:ident;)*;
     $oadd:ident $osub:ident $omul:ident $odiv:ident $osqrt:ident) => {
        for case @ [a, b, _] in $cases {$(
            let direction = Direction::$direction;
            $same(rounding::$add(a, b), $oadd(a, b, direction), &("+", case, direction));
            $same(rounding::$sub(a, b), $osub(a, b, direction), &("-", case, direction));
            $same(rounding::$mul(a, b), $omul(a, b, direction), &("*", case, direction));
            $same(rounding::$div(a, b), $odiv(a, b, direction), &("/", case, direction));
            $same(rounding::$sqrt(a), $osqrt(0.0, a, direction), &("sqrt", case, direction));
            $same(rounding::$rcp(a), $odiv(1.0, a, direction), &("rcp", case, direction));
        )*}
    };
}

#[test]
fn sums_of_floats_are_those_of_the_cpu_in_that_mode() {
    check!(singles(), same_single,
        Zero: add_f32_zero sub_f32_zero mul_f32_zero div_f32_zero sqrt_f32_zero rcp_f32_zero;
        Down: add_f32_down sub_f32_down mul_f32_down div_f32_down sqrt_f32_down rcp_f32_down;
        Up: add_f32_up sub_f32_up mul_f32_up div_f32_up sqrt_f32_up rcp_f32_up;;
        add_single sub_single mul_single div_single sqrt_single);
}

#[test]
fn sums_of_doubles_are_those_of_the_cpu_in_that_mode() {
    check!(doubles(), same_double,
        Zero: add_f64_zero sub_f64_zero mul_f64_zero div_f64_zero sqrt_f64_zero rcp_f64_zero;
        Down: add_f64_down sub_f64_down mul_f64_down div_f64_down sqrt_f64_down rcp_f64_down;
        Up: add_f64_up sub_f64_up mul_f64_up div_f64_up sqrt_f64_up rcp_f64_up;;
        add_double sub_double mul_double div_double sqrt_double);
}

macro_rules! check_fma {
    ($cases:expr, $same:ident, $oracle:ident, $($direction:ident: $fma:ident;)*) => {
        for case @ [a, b, c] in $cases {
            let nan = a.is_nan() || b.is_nan() || c.is_nan();
            $(
                let wanted = $oracle(a, b, c, Direction::$direction);
                if nan {
                    // Which one is kept depends on the order of the CPU's operands.
                    assert!(rounding::$fma(a, b, c).is_nan());
                } else {
                    $same(rounding::$fma(a, b, c), wanted, &("fma", case, Direction::$direction));
                }
            )*
        }
    };
}

#[test]
fn fma_of_floats_is_that_of_the_cpu_in_that_mode() {
    check_fma!(singles(), same_single, fma_single, Nearest: fma_f32_nearest; Zero: fma_f32_zero; Down: fma_f32_down;
        Up: fma_f32_up;);
}

#[test]
fn fma_of_doubles_is_that_of_the_cpu_in_that_mode() {
    check_fma!(doubles(), same_double, fma_double, Nearest: fma_f64_nearest; Zero: fma_f64_zero; Down: fma_f64_down;
        Up: fma_f64_up;);
}

/// Doubles where floats end, and between floats.
fn narrowable() -> impl Iterator<Item = f64> {
    let floats = singles().into_iter().map(|[a, ..]| f64::from(a));
    let between =
        floats.flat_map(|a| [a, a.next_up(), a * (1.0 + 2_f64.powi(-25)), a + a * 2_f64.powi(-24)]);
    between.chain(doubles().into_iter().map(|[a, ..]| a))
}

#[test]
fn doubles_become_floats_as_the_cpu_makes_them_in_that_mode() {
    for value in narrowable() {
        for (direction, found) in [
            (Direction::Nearest, convert::f64_to_f32_nearest(value)),
            (Direction::Zero, convert::f64_to_f32_zero(value)),
            (Direction::Down, convert::f64_to_f32_down(value)),
            (Direction::Up, convert::f64_to_f32_up(value)),
        ] {
            same_single(found, narrow(0.0, value, direction), &(value, direction));
        }
    }
}

macro_rules! check_integers {
    ($value:ident, $whole:ident, $($function:ident as $ty:ty),*) => {$(
        let wanted = $whole.clamp(i128::from(<$ty>::MIN), i128::from(<$ty>::MAX));
        assert_eq!(i128::from(convert::$function($value)), wanted, "{} of {:?}", stringify!($function), $value);
    )*};
}

macro_rules! check_to_integers {
    ($values:expr, $oracle:ident, $($direction:ident: $s8:ident $u8:ident $s16:ident $u16:ident $s32:ident $u32:ident
     $s64:ident $u64:ident;)*) => {
        for value in $values {$(
            let whole = i128::from($oracle(0, value, Direction::$direction));
            check_integers!(value, whole, $s8 as i8, $u8 as u8, $s16 as i16, $u16 as u16, $s32 as i32, $u32 as u32,
                $s64 as i64, $u64 as u64);
        )*}
    };
}

#[test]
fn floats_become_integers_as_the_cpu_makes_them_in_that_mode() {
    let values =
        singles().into_iter().map(|[a, ..]| a).chain((-600..600).map(|half| half as f32 / 2.0));
    check_to_integers!(values.filter(|value| value.abs() < 9e18), single_to_integer,
        Nearest: f32_to_s8_nearest f32_to_u8_nearest f32_to_s16_nearest f32_to_u16_nearest
            f32_to_s32_nearest f32_to_u32_nearest f32_to_s64_nearest f32_to_u64_nearest;
        Zero: f32_to_s8_zero f32_to_u8_zero f32_to_s16_zero f32_to_u16_zero
            f32_to_s32_zero f32_to_u32_zero f32_to_s64_zero f32_to_u64_zero;
        Down: f32_to_s8_down f32_to_u8_down f32_to_s16_down f32_to_u16_down
            f32_to_s32_down f32_to_u32_down f32_to_s64_down f32_to_u64_down;
        Up: f32_to_s8_up f32_to_u8_up f32_to_s16_up f32_to_u16_up
            f32_to_s32_up f32_to_u32_up f32_to_s64_up f32_to_u64_up;);
}

#[test]
fn doubles_become_integers_as_the_cpu_makes_them_in_that_mode() {
    let values =
        doubles().into_iter().map(|[a, ..]| a).chain((-600..600).map(|half| f64::from(half) / 2.0));
    check_to_integers!(values.filter(|value| value.abs() < 9e18), double_to_integer,
        Nearest: f64_to_s8_nearest f64_to_u8_nearest f64_to_s16_nearest f64_to_u16_nearest
            f64_to_s32_nearest f64_to_u32_nearest f64_to_s64_nearest f64_to_u64_nearest;
        Zero: f64_to_s8_zero f64_to_u8_zero f64_to_s16_zero f64_to_u16_zero
            f64_to_s32_zero f64_to_u32_zero f64_to_s64_zero f64_to_u64_zero;
        Down: f64_to_s8_down f64_to_u8_down f64_to_s16_down f64_to_u16_down
            f64_to_s32_down f64_to_u32_down f64_to_s64_down f64_to_u64_down;
        Up: f64_to_s8_up f64_to_u8_up f64_to_s16_up f64_to_u16_up
            f64_to_s32_up f64_to_u32_up f64_to_s64_up f64_to_u64_up;);
}
