//! What is wrong is refused by name, line and column.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ptx_support;

use gpulend_sim::ptx::ParseErrorKind::{self, Syntax, Unresolved, Unsupported};
use gpulend_sim::ptx::parse;
use ptx_support::{BEFORE, refused};

/// Instructions begin on this line.
const FIRST: u32 = 8;

fn check(text: &str, kind: ParseErrorKind, line: u32, column: u32, message: &str) {
    let error = refused(text);
    assert_eq!(
        (error.kind, error.line, error.column),
        (kind, line + FIRST - 1, column),
        "{text}: {error}"
    );
    assert!(error.message.contains(message), "{text}: {error}");
}

#[test]
fn names_that_are_not_declared() {
    check("ret;\n  add.s32 r0, r9, 1;", Unresolved, 2, 15, "`r9`");
    check("mov.u32 %r1, 1;", Unresolved, 1, 9, "`%r1`");
    check("@p9 ret;", Unresolved, 1, 2, "`p9`");
    check("bra NOWHERE;", Unresolved, 1, 5, "`NOWHERE`");
    check("{ bra INNER; }\n{ INNER: ret; }", Unresolved, 1, 7, "`INNER`");
    check("ld.global.u32 r0, [nothing];", Unresolved, 1, 20, "`nothing`");
    check("call stranger;", Unresolved, 1, 6, "`stranger`");
    check("brx.idx r0, list;", Unresolved, 1, 13, "`list`");
    check(".reg .b32 %r<4>; mov.u32 %r4, 1;", Unresolved, 1, 26, "`%r4`");
    check(".reg .b32 %r<4>; mov.u32 %r03, 1;", Unresolved, 1, 26, "`%r03`");
}

#[test]
fn registers_of_the_wrong_width() {
    check("add.s32 r0, d1, r2;", Syntax, 1, 13, "`d1`");
    check("add.s32 d0, r1, r2;", Syntax, 1, 9, "`d0`");
    check("setp.eq.u32 r0, r1, r2;", Syntax, 1, 13, "`r0`");
    check("and.pred p, q, r2;", Syntax, 1, 16, "`r2`");
    check("@r0 ret;", Syntax, 1, 2, "`r0`");
    check("ld.u64 r0, [d1];", Syntax, 1, 8, "`r0`");
    check("mul.wide.u32 r0, r1, r2;", Syntax, 1, 14, "`r0`");
    check("shl.b64 d0, d1, d2;", Syntax, 1, 17, "`d2`");
    check("mov.b32 r0, {r1, r2};", Syntax, 1, 14, "`r1`");
    check("ld.u32 r0, [h1];", Syntax, 1, 13, "`h1`");
}

#[test]
fn words_and_operands_that_do_not_belong() {
    check("add.s32 r0, r1;", Syntax, 1, 1, "wants 3 operands, not 2");
    check("add.s32 r0, r1, r2, r3;", Syntax, 1, 1, "wants 3 operands, not 4");
    check("add.b32 r0, r1, r2;", Syntax, 1, 1, "`.b32`");
    check("add r0, r1, r2;", Syntax, 1, 1, "no type");
    check("add.ftz.s32 r0, r1, r2;", Syntax, 1, 1, "word that its type cannot have");
    check("add.strange.s32 r0, r1, r2;", Syntax, 1, 4, "`.strange`");
    check("frobnicate.s32 r0;", Syntax, 1, 1, "`frobnicate.s32`");
    check("mul.s32 r0, r1, r2;", Syntax, 1, 1, "`.lo`");
    check("fma.f32 r0, r1, r2, r3;", Syntax, 1, 1, "rounded");
    check("div.f32 r0, r1, r2;", Syntax, 1, 1, "rounded");
    check("cvt.s32.f32 r0, r1;", Syntax, 1, 1, "`.rzi`");
    check("cvt.f32.f64 r0, d1;", Syntax, 1, 1, "`.rn`");
    check("add.f32 r0, r1, 1;", Syntax, 1, 17, "`0f3F800000`");
    check("setp.lo.s32 p, r1, r2;", Syntax, 1, 1, "word");
    check("ld.global.v2.u32 r0, [d1];", Syntax, 1, 1, "2 registers, not 1");
    check("ld.shared.u32 r0, [word];", Syntax, 1, 20, "`.global`");
    check("st.const.u32 [fixed], 1;", Syntax, 1, 1, "constant");
    check("mov.u32 r0, r1", Syntax, 2, 1, "`;`");
    check("mov.u32 r0, 99999999999999999999;", Syntax, 1, 13, "number");
    check("mov.f32 r0, 0f123;", Syntax, 1, 13, "number");
    check("mov.u32 r0, %tid;", Syntax, 1, 17, "`.x`");
    check("lop3.b32 r0, r1, r2, r3, 256;", Syntax, 1, 1, "255");
}

#[test]
fn names_twice_and_calls_that_do_not_fit() {
    check("L: ret; L: ret;", Syntax, 1, 9, "`L`");
    check(".reg .b32 r0;", Syntax, 1, 11, "`r0`");
    check("call (r0), callee, (r1, d1);", Unsupported, 1, 7, "`.param`");
    check(".param .b32 a; call callee, (a);", Syntax, 1, 21, "1 results, and 0");
    check(".param .b32 a, b; call (a), callee, (b);", Syntax, 1, 37, "2 parameters, and 1");
    check(".param .b32 a, b; call (a), callee, (b, b);", Syntax, 1, 41, "4 bytes, and `y` wants 8");
    check("call kernel;", Syntax, 1, 6, "kernel");
    check("call d1, none;", Unresolved, 1, 10, "`none`");
    check("call d1;", Syntax, 1, 1, "operands");
    check("P: .callprototype _ (.param .b32 _); call r1, P;", Syntax, 1, 43, "`r1`");
    check("P: .callprototype _ (.param .b32 _); call d1, P;", Syntax, 1, 43, "1 parameters, and 0");
    check("P: .callprototype (.param .b32 _) _ (); call d1, P;", Syntax, 1, 46, "1 results, and 0");
    check(
        ".param .b64 a; P: .callprototype _ (.param .b32 _); call d1, (a), P;",
        Syntax,
        1,
        63,
        "8 bytes",
    );
    check("P: .callprototype _; P: .callprototype _;", Syntax, 1, 22, "`P` is declared twice");
    check("T: .calltargets callee; call d1, T;", Unresolved, 1, 34, "`T`");
}

#[test]
fn what_the_simulated_gpu_does_not_have() {
    for (text, name) in [
        (
            "mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32 {r0}, {r1}, {r2}, {r3};",
            "`mma.sync.aligned.m16n8k64.",
        ),
        (
            "mma.sync.aligned.m16n8k8.row.col.f32.f16.bf16.f32 {r0}, {r1}, {r2}, {r3};",
            "`mma.sync.aligned.m16n8k8.",
        ),
        ("wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {r0}, [d0];", "`wmma.load"),
        ("ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {r0, r1}, [d0];", "`ldmatrix"),
        ("cp.async.bulk.commit_group;", "`cp.async.bulk"),
        ("cp.reduce.async.bulk.commit_group;", "`cp.reduce"),
        ("mbarrier.init.shared.b64 [d0], 1;", "`mbarrier.init"),
        ("tex.2d.v4.f32.f32 {r0, r1, r2, r3}, [t, {r0, r1}];", "`tex.2d"),
        ("suld.b.1d.b32.trap r0, [s, {r1}];", "`suld"),
        ("tcgen05.alloc.b32 r0;", "`tcgen05"),
        ("vadd.s32.s32.s32 r0, r1, r2;", "`vadd"),
        ("alloca.u64 d0, d1, 8;", "`alloca"),
        ("shfl.up.b32 r0, r1, 1, 0;", "`shfl.up.b32`"),
        ("fma.rn.relu.f16 h0, h1, h2, h3;", "`fma.rn.relu.f16`"),
        ("add.f32x2 d0, d1, d2;", "`add.f32x2`"),
        ("ld.global.u64 d0, [callee];", "function `callee`"),
        ("mov.u64 d0, kernel;", "kernel `kernel`"),
        ("mov.u32 r0, %cluster_ctarank;", "`%cluster_ctarank`"),
        (".reg .v4 .f32 v;", "`.v4`"),
    ] {
        let error = refused(text);
        assert_eq!((error.kind, error.line), (Unsupported, FIRST), "{text}: {error}");
        assert!(error.message.contains(name), "{text}: {error}");
        assert!(error.message.ends_with("is not supported by the simulated GPU"), "{error}");
    }
}

#[test]
fn modules_that_begin_wrong() {
    for (text, kind, line, message) in [
        ("", Syntax, 1, "`.version`"),
        (".version 6.3", Syntax, 1, "`.target`"),
        (".version 10.0\n.target sm_75", Unsupported, 1, "version 10.0"),
        (".version 6.3\n.target sm_90a", Unsupported, 2, "`sm_90a`"),
        (".version 6.3\n.target sm_75\n.address_size 32", Unsupported, 3, "32 bits"),
        (".version 6.3\n.target sm_75\n.alias a, b;", Unsupported, 3, "`.alias`"),
        (".version 6.3\n.target sm_75\n/* no end", Syntax, 3, "comment"),
        (".version 6.3\n.target sm_75\n.section .debug_info {", Syntax, 3, "section"),
        (".version 6.3\n.target sm_75\n.func f {", Syntax, 3, "does not end"),
        (".version 6.3\n.target sm_75\n.func f { } .func f { }", Syntax, 3, "`f` is defined twice"),
        (".version 6.3\n.target sm_75\n.global .u64 a = b;", Unresolved, 3, "`b`"),
        (".version 6.3\n.target sm_75\n.global .b8 a[4] = {1, 0xFF(b)};", Unsupported, 3, "mask"),
        (
            ".version 6.3\n.target sm_75\n.global .b8 a[4] = {1, 2, 3, 4, 5};",
            Syntax,
            3,
            "more values",
        ),
        (".version 6.3\n.target sm_75\n.shared .b32 a = 1;", Syntax, 3, "`.shared`"),
        (".version 6.3\n.target sm_75\n.global .align 3 .b32 a;", Syntax, 3, "power of two"),
    ] {
        let error = parse(text).unwrap_err();
        assert_eq!((error.kind, error.line), (kind, line), "{text}: {error}");
        assert!(error.message.contains(message), "{text}: {error}");
    }
}

#[test]
fn depth_and_size_are_bounded() {
    let deep = format!("{BEFORE}{}", "{".repeat(1_000_000));
    assert_eq!(parse(&deep).unwrap_err().kind, Unsupported);
    let head = ".version 6.3 .target sm_75 ";
    let braces = format!("{head}.global .b8 x[4] = {}", "{".repeat(1_000_000));
    assert_eq!(parse(&braces).unwrap_err().kind, Syntax);
    let gaps = format!("{head}.global .b8 x[2][100000000000] = {{{{1}}, {{2}}}};");
    assert_eq!(parse(&gaps).unwrap_err().kind, Unsupported);
    let large = format!("{head}.global .b64 x[4000000000][4000000000];");
    assert_eq!(parse(&large).unwrap_err().kind, Syntax);
    let registers =
        format!("{head}.func f {{ .reg .b32 %r<4294967295>; mov.u32 %r4294967294, 1; }}");
    assert_eq!(parse(&registers).unwrap().functions[0].body.as_ref().unwrap().registers.len(), 1);
    let branches = format!(
        "{head}.func f {{ .reg .b32 r; L: t: .branchtargets {}L; {} }}",
        "L,".repeat(20_000),
        "brx.idx r, t;".repeat(20_000)
    );
    assert_eq!(parse(&branches).unwrap_err().kind, Unsupported);
}
