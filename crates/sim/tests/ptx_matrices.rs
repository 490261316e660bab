//! How matrices and asynchronous copies are written.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ptx_support;

use gpulend_sim::ptx::ParseErrorKind::Syntax;
use gpulend_sim::ptx::ast::{
    Address, Base, Element, Float, Op, Predicate, Product, Space, Type, Unary,
};
use ptx_support::{D1, P, R0, R1, R2, R3, R4, int, newer_op, op, refused, reg};

fn at(register: gpulend_sim::ptx::ast::Reg, offset: i64) -> Address {
    Address { base: Base::Register(register), offset }
}

#[test]
fn loads_of_matrices() {
    for (text, count, transposed, space) in [
        ("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {r0}, [r4+32];", 1, false, Space::Shared),
        (
            "ldmatrix.sync.aligned.m8n8.x2.trans.shared::cta.b16 {r0, r1}, [r4+32];",
            2,
            true,
            Space::Shared,
        ),
        ("ldmatrix.sync.aligned.m8n8.x4.b16 {r0, r1, r2, r3}, [r4+32];", 4, false, Space::Generic),
    ] {
        let to = [R0, R1, R2, R3][..count].iter().map(|register| Some(*register)).collect();
        assert_eq!(op(text), Op::LoadMatrix { space, transposed, to, from: at(R4, 32) }, "{text}");
    }
    let wrong = refused("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {r0, r1}, [r4];");
    assert_eq!(wrong.kind, Syntax);
    assert!(wrong.message.contains("wants 4 registers, not 2"), "{wrong}");
}

#[test]
fn products_of_matrices() {
    let text = "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {r0, r1, r2, r3}, {r0, r1}, {r2}, {r0, r1, r2, r3};";
    let four = [R0, R1, R2, R3];
    assert_eq!(
        op(text),
        Op::Multiply {
            product: Product {
                rows: 16,
                depth: 8,
                elements: [Element::F16; 2],
                sum: Type::F32,
                saturate: false
            },
            to: four.iter().map(|one| Some(*one)).collect(),
            left: vec![reg(R0), reg(R1)],
            right: vec![reg(R2)],
            sum: four.iter().map(|one| reg(*one)).collect(),
        }
    );
    let text =
        "mma.sync.aligned.m8n8k16.row.col.satfinite.s32.s8.u8.s32 {r0, r1}, {r0}, {r2}, {r0, r1};";
    let Op::Multiply { product, .. } = op(text) else { panic!("{text}") };
    assert_eq!(product.elements, [Element::S8, Element::U8]);
    assert!(product.saturate);
    for text in [
        "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {r0, r1}, {r0, r1, r2, r3}, {r2, r3}, {r0, r1};",
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {r0, r1, r2, r3}, {r0, r1, r2, r3}, {r2, r3}, {r0, r1, r2, r3};",
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {d0, d1}, {d0}, {d1}, {d2, d3};",
    ] {
        assert!(matches!(newer_op(text), Op::Multiply { .. }), "{text}");
        let wrong = refused(text);
        assert!(wrong.message.contains("wants `.target sm_80` or newer, not `sm_75`"), "{wrong}");
    }
}

#[test]
fn asynchronous_copies() {
    let copy = |bytes, taken, ignore| Op::CopyAsync {
        bytes,
        to: at(R0, 4),
        from: at(D1, 0),
        taken,
        ignore,
    };
    let ignored = Predicate { value: reg(P), negated: false };
    for (text, wanted) in [
        ("cp.async.cg.shared.global [r0+4], [d1], 16;", copy(16, None, None)),
        (
            "cp.async.ca.shared::cta.global.L2::128B [r0+4], [d1], 0x8, r2;",
            copy(8, Some(reg(R2)), None),
        ),
        ("cp.async.ca.shared.global [r0+4], [d1], 4, 0;", copy(4, Some(int(0)), None)),
        (
            "cp.async.cg.shared.global.L2::cache_hint [r0+4], [d1], 16, p, d1;",
            copy(16, None, Some(ignored)),
        ),
        ("cp.async.commit_group;", Op::CommitCopies),
        ("cp.async.wait_group 2;", Op::WaitCopies { left: Some(2) }),
        ("cp.async.wait_all;", Op::WaitCopies { left: None }),
    ] {
        assert_eq!(newer_op(text), wanted, "{text}");
        assert!(refused(text).message.contains("wants `.target sm_80`"), "{text}");
    }
    assert_eq!(
        newer_op("cvt.rna.tf32.f32 r0, r1;"),
        Op::Unary {
            op: Unary::ToTf32,
            ty: Type::F32,
            float: Float::default(),
            to: R0,
            from: reg(R1)
        }
    );
}
