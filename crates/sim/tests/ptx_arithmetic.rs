//! Each instruction on numbers means what the manual says.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ptx_support;

use gpulend_sim::ptx::ast::{
    Binary, Combine, Compare, Float, Op, Operand, Predicate, Reg, Rounding, Ternary, Test, Type,
    Unary,
};
use ptx_support::*;

fn unary(op: Unary, ty: Type, float: Float, to: Reg, from: Reg) -> Op {
    Op::Unary { op, ty, float, to, from: reg(from) }
}

fn binary(op: Binary, ty: Type, float: Float, registers: [Reg; 3]) -> Op {
    let [to, left, right] = registers;
    Op::Binary { op, ty, float, to, left: reg(left), right: reg(right) }
}

fn ternary(op: Ternary, ty: Type, float: Float, registers: [Reg; 4]) -> Op {
    let [to, operands @ ..] = registers;
    Op::Ternary { op, ty, float, to, operands: operands.map(reg) }
}

const APPROXIMATE: Float = Float { approximate: true, ..PLAIN };
const WORDS: [Reg; 3] = [R0, R1, R2];
const LONGS: [Reg; 3] = [D0, D1, D2];
const HALVES: [Reg; 3] = [H0, H1, H2];

#[test]
fn functions_of_one_number() {
    let flush = Float { flush: true, ..PLAIN };
    for (text, wanted) in [
        ("abs.s32 r0, r1;", unary(Unary::Abs, Type::S32, PLAIN, R0, R1)),
        ("abs.ftz.f32 r0, r1;", unary(Unary::Abs, Type::F32, flush, R0, R1)),
        ("neg.f16x2 r0, r1;", unary(Unary::Neg, Type::F16x2, PLAIN, R0, R1)),
        ("neg.s64 d0, d1;", unary(Unary::Neg, Type::S64, PLAIN, D0, D1)),
        ("not.pred p, q;", unary(Unary::Not, Type::Pred, PLAIN, P, Q)),
        ("not.b16 h0, h1;", unary(Unary::Not, Type::B16, PLAIN, H0, H1)),
        ("cnot.b32 r0, r1;", unary(Unary::CNot, Type::B32, PLAIN, R0, R1)),
        ("popc.b64 r0, d1;", unary(Unary::Popc, Type::B64, PLAIN, R0, D1)),
        ("clz.b32 r0, r1;", unary(Unary::Clz, Type::B32, PLAIN, R0, R1)),
        ("brev.b64 d0, d1;", unary(Unary::Brev, Type::B64, PLAIN, D0, D1)),
        ("sqrt.rn.f64 d0, d1;", unary(Unary::Sqrt, Type::F64, rounded(Rounding::Nearest), D0, D1)),
        ("sqrt.approx.f32 r0, r1;", unary(Unary::Sqrt, Type::F32, APPROXIMATE, R0, R1)),
        ("rcp.rp.f32 r0, r1;", unary(Unary::Rcp, Type::F32, rounded(Rounding::Up), R0, R1)),
        ("rsqrt.approx.f32 r0, r1;", unary(Unary::Rsqrt, Type::F32, APPROXIMATE, R0, R1)),
        (
            "sin.approx.ftz.f32 r0, r1;",
            unary(Unary::Sin, Type::F32, Float { flush: true, ..APPROXIMATE }, R0, R1),
        ),
        ("cos.approx.f32 r0, r1;", unary(Unary::Cos, Type::F32, APPROXIMATE, R0, R1)),
        ("ex2.approx.f16 h0, h1;", unary(Unary::Ex2, Type::F16, APPROXIMATE, H0, H1)),
        ("lg2.approx.f32 r0, r1;", unary(Unary::Lg2, Type::F32, APPROXIMATE, R0, R1)),
        ("tanh.approx.f32 r0, r1;", unary(Unary::Tanh, Type::F32, APPROXIMATE, R0, R1)),
    ] {
        assert_eq!(op(text), wanted, "{text}");
    }
}

#[test]
fn functions_of_two_numbers() {
    let saturate = Float { saturate: true, ..PLAIN };
    let all = Float { rounding: Some(Rounding::Zero), flush: true, saturate: true, ..PLAIN };
    for (text, wanted) in [
        ("add.u16 h0, h1, h2;", binary(Binary::Add, Type::U16, PLAIN, HALVES)),
        ("add.sat.s32 r0, r1, r2;", binary(Binary::Add, Type::S32, saturate, WORDS)),
        ("add.rz.ftz.sat.f32 r0, r1, r2;", binary(Binary::Add, Type::F32, all, WORDS)),
        ("sub.f16 h0, h1, h2;", binary(Binary::Sub, Type::F16, PLAIN, HALVES)),
        ("mul.lo.s64 d0, d1, d2;", binary(Binary::Mul, Type::S64, PLAIN, LONGS)),
        ("mul.hi.u32 r0, r1, r2;", binary(Binary::MulHi, Type::U32, PLAIN, WORDS)),
        ("mul.wide.s32 d0, r1, r2;", binary(Binary::MulWide, Type::S32, PLAIN, [D0, R1, R2])),
        ("mul.wide.u16 r0, h1, h2;", binary(Binary::MulWide, Type::U16, PLAIN, [R0, H1, H2])),
        (
            "mul.rn.f64 d0, d1, d2;",
            binary(Binary::Mul, Type::F64, rounded(Rounding::Nearest), LONGS),
        ),
        ("mul24.lo.u32 r0, r1, r2;", binary(Binary::Mul24, Type::U32, PLAIN, WORDS)),
        ("div.s32 r0, r1, r2;", binary(Binary::Div, Type::S32, PLAIN, WORDS)),
        (
            "div.rn.f32 r0, r1, r2;",
            binary(Binary::Div, Type::F32, rounded(Rounding::Nearest), WORDS),
        ),
        ("div.full.f32 r0, r1, r2;", binary(Binary::Div, Type::F32, APPROXIMATE, WORDS)),
        ("rem.u64 d0, d1, d2;", binary(Binary::Rem, Type::U64, PLAIN, LONGS)),
        (
            "min.NaN.f32 r0, r1, r2;",
            binary(Binary::Min, Type::F32, Float { keep_nan: true, ..PLAIN }, WORDS),
        ),
        ("max.s16 h0, h1, h2;", binary(Binary::Max, Type::S16, PLAIN, HALVES)),
        ("and.pred p, q, c;", binary(Binary::And, Type::Pred, PLAIN, [P, Q, C])),
        ("or.b64 d0, d1, d2;", binary(Binary::Or, Type::B64, PLAIN, LONGS)),
        ("xor.b32 r0, r1, r2;", binary(Binary::Xor, Type::B32, PLAIN, WORDS)),
        ("shl.b64 d0, d1, r2;", binary(Binary::Shl, Type::B64, PLAIN, [D0, D1, R2])),
        ("shr.s16 h0, h1, r2;", binary(Binary::Shr, Type::S16, PLAIN, [H0, H1, R2])),
        ("copysign.f32 r0, r1, r2;", binary(Binary::CopySign, Type::F32, PLAIN, WORDS)),
    ] {
        assert_eq!(op(text), wanted, "{text}");
    }
}

#[test]
fn functions_of_three_numbers() {
    let four = [R0, R1, R2, R3];
    let nearest = rounded(Rounding::Nearest);
    for (text, wanted) in [
        ("mad.lo.s32 r0, r1, r2, r3;", ternary(Ternary::Mad, Type::S32, PLAIN, four)),
        (
            "mad.hi.sat.s32 r0, r1, r2, r3;",
            ternary(Ternary::MadHi, Type::S32, Float { saturate: true, ..PLAIN }, four),
        ),
        (
            "mad.wide.u32 d0, r1, r2, d3;",
            ternary(Ternary::MadWide, Type::U32, PLAIN, [D0, R1, R2, D3]),
        ),
        ("mad.rn.f32 r0, r1, r2, r3;", ternary(Ternary::Fma, Type::F32, nearest, four)),
        ("fma.rn.f16x2 r0, r1, r2, r3;", ternary(Ternary::Fma, Type::F16x2, nearest, four)),
        (
            "fma.rn.bf16 h0, h1, h2, h3;",
            ternary(Ternary::Fma, Type::BF16, nearest, [H0, H1, H2, H3]),
        ),
        (
            "fma.rm.f64 d0, d1, d2, d3;",
            ternary(Ternary::Fma, Type::F64, rounded(Rounding::Down), [D0, D1, D2, D3]),
        ),
        ("sad.u32 r0, r1, r2, r3;", ternary(Ternary::Sad, Type::U32, PLAIN, four)),
        ("mad24.lo.s32 r0, r1, r2, r3;", ternary(Ternary::Mad24, Type::S32, PLAIN, four)),
    ] {
        assert_eq!(op(text), wanted, "{text}");
    }
}

#[test]
fn carries_are_read_and_written_as_told() {
    let carry = |subtract, ty, reads, writes| Op::Carry {
        subtract,
        ty,
        reads,
        writes,
        to: R0,
        left: reg(R1),
        right: reg(R2),
    };
    assert_eq!(op("add.cc.u32 r0, r1, r2;"), carry(false, Type::U32, false, true));
    assert_eq!(op("addc.s32 r0, r1, r2;"), carry(false, Type::S32, true, false));
    assert_eq!(op("addc.cc.u32 r0, r1, r2;"), carry(false, Type::U32, true, true));
    assert_eq!(op("sub.cc.u32 r0, r1, r2;"), carry(true, Type::U32, false, true));
    assert_eq!(op("subc.u32 r0, r1, r2;"), carry(true, Type::U32, true, false));
    let mad = |high, reads, writes| Op::MadCarry {
        high,
        ty: Type::U32,
        reads,
        writes,
        to: R0,
        operands: [R1, R2, R3].map(reg),
    };
    assert_eq!(op("mad.lo.cc.u32 r0, r1, r2, r3;"), mad(false, false, true));
    assert_eq!(op("madc.hi.u32 r0, r1, r2, r3;"), mad(true, true, false));
}

#[test]
fn fields_and_tables_of_bits() {
    let operands = [R1, R2, R3].map(reg);
    assert_eq!(op("bfe.s32 r0, r1, r2, r3;"), Op::ExtractBits { ty: Type::S32, to: R0, operands });
    assert_eq!(
        op("bfi.b64 d0, d1, d2, r3, 8;"),
        Op::InsertBits { ty: Type::B64, to: D0, operands: [reg(D1), reg(D2), reg(R3), int(8)] }
    );
    assert_eq!(
        op("bfind.shiftamt.u64 r0, d1;"),
        Op::FindBit { ty: Type::U64, shift_amount: true, to: R0, from: reg(D1) }
    );
    assert_eq!(
        op("bmsk.clamp.b32 r0, r1, 8;"),
        Op::Mask { wrap: false, to: R0, start: reg(R1), width: int(8) }
    );
    assert_eq!(op("prmt.b32 r0, r1, r2, r3;"), Op::Permute { to: R0, operands });
    assert_eq!(
        op("shf.l.wrap.b32 r0, r1, r2, r3;"),
        Op::FunnelShift { left: true, wrap: true, to: R0, operands }
    );
    assert_eq!(
        op("shf.r.clamp.b32 r0, r1, r2, r3;"),
        Op::FunnelShift { left: false, wrap: false, to: R0, operands }
    );
    assert_eq!(op("lop3.b32 r0, r1, r2, r3, 0x96;"), Op::Logic3 { table: 0x96, to: R0, operands });
    assert_eq!(
        op("dp4a.u32.s32 r0, r1, r2, r3;"),
        Op::Dot4 { signed: (false, true), to: R0, operands }
    );
}

#[test]
fn comparisons() {
    let set = |compare, ty, flush| Op::SetPredicate {
        compare,
        ty,
        flush,
        combine: None,
        to: Some(P),
        opposite: None,
        left: reg(R1),
        right: reg(R2),
    };
    assert_eq!(op("setp.lt.s32 p, r1, r2;"), set(Compare::Lt, Type::S32, false));
    assert_eq!(op("setp.hs.u32 p, r1, r2;"), set(Compare::Ge, Type::U32, false));
    assert_eq!(op("setp.lo.u32 p, r1, r2;"), set(Compare::Lt, Type::U32, false));
    assert_eq!(op("setp.ne.b32 p, r1, r2;"), set(Compare::Ne, Type::B32, false));
    assert_eq!(op("setp.geu.ftz.f32 p, r1, r2;"), set(Compare::UnGe, Type::F32, true));
    assert_eq!(op("setp.nan.f32 p, r1, r2;"), set(Compare::Nan, Type::F32, false));
    let value = reg(C);
    assert_eq!(
        op("setp.eq.and.u16 p|q, h1, 7, !c;"),
        Op::SetPredicate {
            compare: Compare::Eq,
            ty: Type::U16,
            flush: false,
            combine: Some((Combine::And, Predicate { value, negated: true })),
            to: Some(P),
            opposite: Some(Q),
            left: reg(H1),
            right: int(7),
        }
    );
    assert_eq!(
        op("set.gt.u32.f64 r0, d1, d2;"),
        Op::SetNumber {
            compare: Compare::Gt,
            to_ty: Type::U32,
            ty: Type::F64,
            flush: false,
            to: R0,
            left: reg(D1),
            right: reg(D2),
        }
    );
    assert_eq!(
        op("selp.b32 r0, 0f3F800000, r2, c;"),
        Op::Select {
            ty: Type::B32,
            to: R0,
            yes: Operand::Single(0x3f80_0000),
            no: reg(R2),
            choose: Predicate { value, negated: false },
        }
    );
    assert_eq!(
        op("testp.subnormal.f64 p, d1;"),
        Op::TestFloat { test: Test::Subnormal, ty: Type::F64, to: P, from: reg(D1) }
    );
}

#[test]
fn pairs_are_compared_half_by_half() {
    let body = body("setp.lt.f16x2 p|q, r1, r2;");
    let [low, high, other_low, other_high] = [16, 17, 18, 19].map(Reg);
    let unpack = |low, high, from| Op::Unpack {
        ty: Type::B32,
        to: vec![Some(low), Some(high)],
        from: reg(from),
    };
    let set = |to, left, right| Op::SetPredicate {
        compare: Compare::Lt,
        ty: Type::F16,
        flush: false,
        combine: None,
        to: Some(to),
        opposite: None,
        left: reg(left),
        right: reg(right),
    };
    let ops: Vec<Op> = body.statements.into_iter().map(|statement| statement.op).collect();
    assert_eq!(
        ops,
        [
            unpack(low, high, R1),
            unpack(other_low, other_high, R2),
            set(P, low, other_low),
            set(Q, high, other_high),
        ]
    );
}

#[test]
fn conversions() {
    let convert = |to_ty, from_ty, float, to, from| Op::Convert {
        to_ty,
        from_ty,
        float,
        to,
        from: reg(from),
    };
    for (text, wanted) in [
        ("cvt.u64.u32 d0, r1;", convert(Type::U64, Type::U32, PLAIN, D0, R1)),
        ("cvt.s8.s32 r0, r1;", convert(Type::S8, Type::S32, PLAIN, R0, R1)),
        ("cvt.u16.u8 h0, r1;", convert(Type::U16, Type::U8, PLAIN, H0, R1)),
        (
            "cvt.rn.f32.s32 r0, r1;",
            convert(Type::F32, Type::S32, rounded(Rounding::Nearest), R0, R1),
        ),
        (
            "cvt.rzi.s32.f64 r0, d1;",
            convert(Type::S32, Type::F64, rounded(Rounding::IntegerZero), R0, D1),
        ),
        (
            "cvt.rmi.f32.f32 r0, r1;",
            convert(Type::F32, Type::F32, rounded(Rounding::IntegerDown), R0, R1),
        ),
        ("cvt.f64.f32 d0, r1;", convert(Type::F64, Type::F32, PLAIN, D0, R1)),
        (
            "cvt.rz.bf16.f32 h0, r1;",
            convert(Type::BF16, Type::F32, rounded(Rounding::Zero), H0, R1),
        ),
        (
            "cvt.sat.f32.f32 r0, r1;",
            convert(Type::F32, Type::F32, Float { saturate: true, ..PLAIN }, R0, R1),
        ),
        (
            "cvt.sat.u8.s32 r0, r1;",
            convert(Type::U8, Type::S32, Float { saturate: true, ..PLAIN }, R0, R1),
        ),
    ] {
        assert_eq!(op(text), wanted, "{text}");
    }
    assert_eq!(
        op("cvt.rn.f16x2.f32 r0, r1, r2;"),
        Op::ConvertPair {
            to_ty: Type::F16x2,
            float: rounded(Rounding::Nearest),
            to: R0,
            high: reg(R1),
            low: reg(R2),
        }
    );
}

#[test]
fn numbers_in_every_spelling() {
    let moved = |text: &str| match op(&format!("mov.b32 r0, {text};")) {
        Op::Move { from, .. } => from,
        other => panic!("{other:?}"),
    };
    for (text, value) in [
        ("0", 0),
        ("17", 17),
        ("17U", 17),
        ("-5", 5_u64.wrapping_neg()),
        ("0x1fU", 31),
        ("0X1F", 31),
        ("017", 15),
        ("0b101", 5),
        ("18446744073709551615", u64::MAX),
    ] {
        assert_eq!(moved(text), int(value), "{text}");
    }
    assert_eq!(moved("0F40490fdb"), Operand::Single(0x4049_0fdb));
    assert_eq!(moved("-0f3F800000"), Operand::Single(0xbf80_0000));
    let double = |text: &str| match op(&format!("mov.f64 d0, {text};")) {
        Op::Move { from: Operand::Double(bits), .. } => f64::from_bits(bits),
        other => panic!("{other:?}"),
    };
    assert_eq!(double("0d3FF8000000000000"), 1.5);
    assert_eq!(double("-2.5e-1"), -0.25);
    assert_eq!(double("1e3"), 1000.0);
}
