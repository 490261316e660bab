//! Each instruction on memory, on threads together and on the flow of control means what the manual says.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ptx_support;

use gpulend_sim::ptx::ast::{
    Address, Atomic, Axis, Barrier, Base, Label, Op, Operand, Place, Predicate, Reduce, Shuffle,
    Space, Special, Strength, Type, Vote,
};
use ptx_support::*;

const AT_D1: Address = Address { base: Base::Register(D1), offset: 0 };

#[test]
fn loads() {
    let load =
        |space, ty, strength, from| Op::Load { space, ty, strength, to: vec![Some(R0)], from };
    for text in
        ["ld.u32 r0, [d1];", "ld.weak.u32 r0, [d1];", "ld.ca.L1::evict_last.L2::128B.u32 r0, [d1];"]
    {
        assert_eq!(op(text), load(Space::Generic, Type::U32, Strength::Weak, AT_D1), "{text}");
    }
    for text in [
        "ld.global.nc.f32 r0, [d1];",
        "ld.global.cs.f32 r0, [d1];",
        "ldu.global.f32 r0, [d1];",
        "ld.global.L2::cache_hint.f32 r0, [d1], d2;",
    ] {
        assert_eq!(op(text), load(Space::Global, Type::F32, Strength::Weak, AT_D1), "{text}");
    }
    for (text, strength) in [
        ("ld.volatile.shared.b32 r0, [d1];", Strength::Volatile),
        ("ld.relaxed.gpu.shared.b32 r0, [d1];", Strength::Strong),
        ("ld.acquire.cta.shared::cta.b32 r0, [d1];", Strength::Strong),
    ] {
        assert_eq!(op(text), load(Space::Shared, Type::B32, strength, AT_D1), "{text}");
    }
    let parameter = Address { base: Base::Place(Place::Param(1)), offset: 0 };
    assert_eq!(
        op("ld.param.u32 r0, [second];"),
        load(Space::Param, Type::U32, Strength::Weak, parameter)
    );
    let below = Address { base: Base::Register(D1), offset: -8 };
    assert_eq!(
        op("ld.global.u32 r0, [d1+-8];"),
        load(Space::Global, Type::U32, Strength::Weak, below)
    );
    assert_eq!(
        op("ld.global.u32 r0, [d1-8];"),
        load(Space::Global, Type::U32, Strength::Weak, below)
    );
    let variable = Address { base: Base::Place(Place::Module(0)), offset: 4 };
    assert_eq!(
        op("ld.global.u32 r0, [word+4];"),
        load(Space::Global, Type::U32, Strength::Weak, variable)
    );
    let zero = Address { base: Base::Zero, offset: 0 };
    assert_eq!(op("ld.shared.s8 r0, [0];"), load(Space::Shared, Type::S8, Strength::Weak, zero));
    assert_eq!(
        op("ld.global.v4.b8 {h0, _, r2, d3}, [d1];"),
        Op::Load {
            space: Space::Global,
            ty: Type::B8,
            strength: Strength::Weak,
            to: vec![Some(H0), None, Some(R2), Some(D3)],
            from: AT_D1,
        }
    );
}

#[test]
fn stores() {
    let store = |strength, from| Op::Store {
        space: Space::Global,
        ty: Type::B32,
        strength,
        to: AT_D1,
        from,
    };
    assert_eq!(op("st.global.b32 [d1], 7;"), store(Strength::Weak, vec![int(7)]));
    assert_eq!(
        op("st.global.wb.v2.b32 [d1], {r0, 7};"),
        store(Strength::Weak, vec![reg(R0), int(7)])
    );
    assert_eq!(op("st.release.sys.global.b32 [d1], r0;"), store(Strength::Strong, vec![reg(R0)]));
    assert_eq!(op("st.volatile.global.b32 [d1], r0;"), store(Strength::Volatile, vec![reg(R0)]));
    assert_eq!(
        op("st.global.b32 [d1], 0f00000000;"),
        store(Strength::Weak, vec![Operand::Single(0)])
    );
}

#[test]
fn moves() {
    let thread = Operand::Special(Special::Thread(Axis::Y));
    assert_eq!(op("mov.u32 r0, %tid.y;"), Op::Move { ty: Type::U32, to: R0, from: thread });
    assert_eq!(
        op("mov.u32 r0, WARP_SZ;"),
        Op::Move { ty: Type::U32, to: R0, from: Operand::Special(Special::WarpSize) }
    );
    assert_eq!(
        op("mov.u64 d0, block+4;"),
        Op::Move { ty: Type::U64, to: D0, from: Operand::AddressOf(Place::Module(2), 4) }
    );
    assert_eq!(op("mov.pred p, 1;"), Op::Move { ty: Type::Pred, to: P, from: int(1) });
    assert_eq!(
        op("mov.b64 d0, {r1, r2};"),
        Op::Pack { ty: Type::B64, to: D0, from: vec![reg(R1), reg(R2)] }
    );
    assert_eq!(
        op("mov.b32 {_, h1}, r2;"),
        Op::Unpack { ty: Type::B32, to: vec![None, Some(H1)], from: reg(R2) }
    );
    let (ty, to, from) = (Type::U64, D0, reg(D1));
    assert_eq!(op("cvta.local.u64 d0, d1;"), Op::ToGeneric { space: Space::Local, ty, to, from });
    assert_eq!(
        op("cvta.to.global.u64 d0, d1;"),
        Op::FromGeneric { space: Space::Global, ty, to, from }
    );
    assert_eq!(op("isspacep.shared p, d1;"), Op::IsSpace { space: Space::Shared, to: P, from });
}

#[test]
fn atomics() {
    let atomic = |space, op, ty, to, first, second| Op::Atomic {
        space,
        op,
        ty,
        to,
        at: AT_D1,
        first,
        second,
    };
    assert_eq!(
        op("atom.global.add.u32 r0, [d1], 1;"),
        atomic(Space::Global, Atomic::Add, Type::U32, Some(R0), int(1), None)
    );
    assert_eq!(
        op("atom.acq_rel.gpu.shared.cas.b64 d0, [d1], d2, d3;"),
        atomic(Space::Shared, Atomic::Cas, Type::B64, Some(D0), reg(D2), Some(reg(D3)))
    );
    assert_eq!(
        op("atom.exch.b32 _, [d1], r2;"),
        atomic(Space::Generic, Atomic::Exch, Type::B32, None, reg(R2), None)
    );
    assert_eq!(
        op("red.relaxed.sys.global.max.s64 [d1], d2;"),
        atomic(Space::Global, Atomic::Max, Type::S64, None, reg(D2), None)
    );
    assert_eq!(
        op("red.global.add.noftz.f16x2 [d1], r2;"),
        atomic(Space::Global, Atomic::Add, Type::F16x2, None, reg(R2), None)
    );
}

#[test]
fn barriers_and_fences() {
    let barrier = |kind, id, threads| Op::Barrier { kind, id: int(id), threads };
    for text in ["bar.sync 0;", "bar.cta.sync 0;", "barrier.sync.aligned 0;", "barrier.cta.sync 0;"]
    {
        assert_eq!(op(text), barrier(Barrier::Sync, 0, None), "{text}");
    }
    assert_eq!(op("bar.sync 1, r0;"), barrier(Barrier::Sync, 1, Some(reg(R0))));
    assert_eq!(op("bar.arrive 1, 64;"), barrier(Barrier::Arrive, 1, Some(int(64))));
    let not_q = Predicate { value: reg(Q), negated: true };
    assert_eq!(
        op("bar.red.and.pred p, 0, !q;"),
        barrier(Barrier::Reduce(Reduce::And, P, not_q), 0, None)
    );
    assert_eq!(
        op("barrier.cta.red.popc.aligned.u32 r0, 2, 64, !q;"),
        barrier(Barrier::Reduce(Reduce::Popc, R0, not_q), 2, Some(int(64)))
    );
    assert_eq!(op("bar.warp.sync -1;"), Op::WarpSync { mask: int(u64::MAX) });
    for text in ["membar.gl;", "fence.sc.cta;", "fence.acq_rel.gpu;", "membar.sys;"] {
        assert_eq!(op(text), Op::Fence, "{text}");
    }
    for text in
        ["nanosleep.u32 100;", "prefetch.global.L2 [d1];", "prefetchu.L1 [d1];", "pmevent 3;"]
    {
        assert_eq!(op(text), Op::Nothing, "{text}");
    }
}

#[test]
fn warps() {
    let shuffle = |mode, valid| Op::Shuffle {
        mode,
        to: R0,
        valid,
        value: reg(R1),
        lane: int(16),
        clamp: int(31),
        mask: Some(reg(R2)),
    };
    assert_eq!(op("shfl.sync.bfly.b32 r0, r1, 16, 31, r2;"), shuffle(Shuffle::Butterfly, None));
    assert_eq!(op("shfl.sync.idx.b32 r0|p, r1, 16, 31, r2;"), shuffle(Shuffle::Index, Some(P)));
    let value = Predicate { value: reg(Q), negated: true };
    assert_eq!(
        op("vote.sync.ballot.b32 r0, !q, r2;"),
        Op::Vote { mode: Vote::Ballot, to: R0, value, mask: Some(reg(R2)) }
    );
    assert_eq!(
        op("vote.sync.uni.pred p, !q, r2;"),
        Op::Vote { mode: Vote::Uniform, to: P, value, mask: Some(reg(R2)) }
    );
    assert_eq!(
        op("match.all.sync.b64 r0|p, d1, -1;"),
        Op::Match {
            all: true,
            ty: Type::B64,
            to: R0,
            valid: Some(P),
            value: reg(D1),
            mask: int(u64::MAX)
        }
    );
    assert_eq!(
        op("redux.sync.xor.b32 r0, r1, r2;"),
        Op::Redux { op: Reduce::Xor, ty: Type::B32, to: R0, value: reg(R1), mask: reg(R2) }
    );
    assert_eq!(op("activemask.b32 r0;"), Op::ActiveMask { to: R0 });
}

#[test]
fn the_flow_of_control() {
    let body = body(
        "@p bra FORWARD; BACK: @!q bra.uni BACK; ret; FORWARD: exit; trap; bra END;
        targets: .branchtargets BACK, END, BACK; brx.idx r0, targets; UNUSED: END:",
    );
    let ops: Vec<&Op> = body.statements.iter().map(|statement| &statement.op).collect();
    assert_eq!(
        ops,
        [
            &Op::Branch { to: Label(0) },
            &Op::Branch { to: Label(1) },
            &Op::Return,
            &Op::Exit,
            &Op::Trap,
            &Op::Branch { to: Label(2) },
            &Op::BranchTable { index: reg(R0), to: vec![Label(1), Label(2), Label(1)] },
        ]
    );
    assert_eq!(body.labels, [3, 1, 7]);
    assert_eq!(body.statements[0].guard, Some(Predicate { value: reg(P), negated: false }));
    assert_eq!(body.statements[1].guard, Some(Predicate { value: reg(Q), negated: true }));
    assert_eq!(body.statements[2].guard, None);
}

#[test]
fn calls() {
    let body = body(
        "{ .param .b32 a; .param .b64 b; .param .b32 back; call.uni (back), callee, (a, b); }
        { .param .b32 a; .param .b64 b; .param .b32 back; call (back), callee, (a, b); }",
    );
    let call = |first| Op::Call {
        function: 0,
        returns: vec![Place::Body(first + 2)],
        arguments: vec![Place::Body(first), Place::Body(first + 1)],
    };
    assert_eq!(body.statements[0].op, call(0));
    assert_eq!(body.statements[1].op, call(3));
}

#[test]
fn calls_through_addresses() {
    let body = body(
        "mov.u64 d0, callee; mov.b64 d0, callee;
        { .param .b32 a; .param .b64 b; P : .callprototype (.param .b32 _) _ (.param .b64 _);
        call (a), d0, (b), P; call.uni (a), d0, (b), P; }
        { P: .callprototype ()_ (); call d0, P; call.uni d0, (), P; Q: .callprototype _ .noreturn; call () , d0, (), Q; }",
    );
    let took = |ty| Op::Move { ty, to: D0, from: Operand::Function(0) };
    let call = |prototype, places: &[usize]| Op::CallIndirect {
        address: reg(D0),
        prototype,
        returns: places.iter().take(1).copied().map(Place::Body).collect(),
        arguments: places.iter().skip(1).copied().map(Place::Body).collect(),
    };
    let found: Vec<&Op> = body.statements.iter().map(|statement| &statement.op).collect();
    assert_eq!(found[..2], [&took(Type::U64), &took(Type::B64)]);
    let (two, none, last) = (call(0, &[0, 1]), call(1, &[]), call(2, &[]));
    assert_eq!(found[2..], [&two, &two, &none, &none, &last]);
    assert_eq!(body.prototypes[0].params[0].bytes, 8);
    assert_eq!(body.prototypes[0].returns[0].bytes, 4);
}
