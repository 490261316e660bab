//! Calls through addresses.

mod engine_support;

use engine_support::{HEAD, MODES, Try, in_child};
use gpulend_sim::engine::{FaultKind, LoadErrorKind, Program};

/// Three functions of one prototype, and one of another.
const FUNCTIONS: &str = "
.func (.param .b32 r) plus(.param .b32 n) { .reg .b32 %r<2>; ld.param.b32 %r0, [n]; add.u32 %r0, %r0, 1; st.param.b32 [r], %r0; ret; }
.func (.param .b32 r) minus(.param .b32 n) { .reg .b32 %r<2>; ld.param.b32 %r0, [n]; sub.u32 %r0, %r0, 1; st.param.b32 [r], %r0; ret; }
.func (.param .b32 r) twice(.param .b32 n) { .reg .b32 %r<2>; ld.param.b32 %r0, [n]; add.u32 %r0, %r0, %r0; st.param.b32 [r], %r0; ret; }
.func (.param .b64 r) wide(.param .b32 n) { ret; }
.extern .func (.param .b32 r) nowhere(.param .b32 n);
";

/// A kernel whose threads each set `%f` to an address, call it with their number, and store the result.
fn caller(functions: &str, choose: &str) -> String {
    format!(
        "{functions}.visible .entry k(.param .u64 out) {{ .reg .b32 %r<9>; .reg .b64 %f, %g, %rd<9>; .reg .pred %p<3>;
ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %rd1, %rd2; mov.u32 %r3, 77;
{choose}
{{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; P : .callprototype (.param .b32 _) _ (.param .b32 _);
@!%p2 call (b), %f, (a), P; @!%p2 ld.param.b32 %r3, [b]; }}
st.global.u32 [%rd3], %r3; ret; }}"
    )
}

const CHOOSE: &str = "setp.ge.u32 %p2, %r1, 30; and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 0;
mov.u64 %f, plus; mov.u64 %g, minus; selp.b64 %f, %f, %g, %p1; setp.eq.u32 %p1, %r1, 7; @%p1 mov.u64 %f, twice; @%p2 mov.u64 %f, 0;";

/// A guard that is false calls nothing.
#[test]
fn each_thread_calls_the_function_whose_address_it_has() {
    for checks in MODES {
        let kernel = Try::new(&caller(FUNCTIONS, CHOOSE)).shape(1, 32).checks(checks);
        let wanted = |thread: u32| match thread {
            30.. => 77,
            7 => 14,
            even if even % 2 == 0 => even + 1,
            odd => odd - 1,
        };
        assert_eq!(kernel.words(32).unwrap(), (0..32).map(wanted).collect::<Vec<_>>());
    }
}

#[test]
fn a_call_of_what_is_no_function_of_its_prototype_is_found_where_it_is() {
    let taken = "mov.u64 %g, plus;";
    for (address, says) in [
        ("mov.u64 %g, 0;", "calls a function at 0x0, where there is none"),
        ("mov.u64 %g, %rd1;", "calls a function at 0x"),
        ("mov.u64 %g, plus; add.u64 %g, %g, 4;", "calls a function at 0x"),
        ("mov.u64 %g, wide;", "calls wide as a function with other parameters or results"),
        ("mov.u64 %g, nowhere;", "calls nowhere, which is defined nowhere"),
    ] {
        for checks in MODES {
            let choose = format!(
                "setp.eq.u32 %p2, 0, 1; setp.eq.u32 %p1, %r1, 5; {taken} mov.u64 %f, %g; {address} @%p1 mov.u64 %f, %g;"
            );
            let kernel = Try::new(&caller(FUNCTIONS, &choose)).shape(1, 32).checks(checks);
            let fault = kernel.words(32).unwrap_err();
            assert_eq!((fault.kind, fault.thread), (FaultKind::WildCall, [5, 0, 0]), "{address}");
            assert_eq!(fault.ptx_line, 14, "{address}");
            assert!(fault.what.contains(says), "{address}: {}", fault.what);
        }
    }
}

/// Modules have addresses of their own: one of another module is found, not taken for a function here.
#[test]
fn the_address_of_another_modules_function_is_none_here() {
    let address = |text: &str| {
        let store = format!(
            "{text}.visible .entry k(.param .u64 out) {{ .reg .b64 %rd<3>; ld.param.u64 %rd1, [out];
            mov.u64 %rd2, plus; st.global.u64 [%rd1], %rd2; ret; }}"
        );
        let words = Try::new(&store).words(2).unwrap();
        u64::from(words[0]) | u64::from(words[1]) << 32
    };
    let theirs = address(FUNCTIONS);
    let choose = format!("setp.eq.u32 %p2, 0, 1; mov.u64 %f, plus; mov.u64 %f, {theirs};");
    let fault = Try::new(&caller(FUNCTIONS, &choose)).words(1).unwrap_err();
    assert_eq!(fault.kind, FaultKind::WildCall);
}

/// The loop of calls goes through an address only.
#[test]
fn recursion_through_an_address_runs_and_ends_where_the_stack_does() {
    let text = |stop: &str| {
        format!(
            ".func (.param .b32 r) sum(.param .b32 n, .param .b64 f) {{ .reg .b32 %r<9>; .reg .b64 %f; .reg .pred %p;
    ld.param.b32 %r0, [n]; ld.param.b64 %f, [f]; mov.u32 %r2, 5; setp.eq.u32 %p, %r0, 0; {stop}
    sub.u32 %r1, %r0, 1;
    {{ .param .b32 a; .param .b64 b; .param .b32 c; st.param.b32 [a], %r1; st.param.b64 [b], %f;
    P: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b64 _); call (c), %f, (a, b), P; ld.param.b32 %r2, [c]; }}
    add.u32 %r2, %r2, %r0;
END: st.param.b32 [r], %r2; ret; }}
.visible .entry k(.param .u64 out) {{ .reg .b32 %r<9>; .reg .b64 %f, %rd<9>;
    ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %rd1, %rd2; mov.u64 %f, sum;
    {{ .param .b32 a; .param .b64 b; .param .b32 c; st.param.b32 [a], %r1; st.param.b64 [b], %f;
    P: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b64 _); call (c), %f, (a, b), P; ld.param.b32 %r2, [c]; }}
    st.global.u32 [%rd3], %r2; ret; }}"
        )
    };
    for checks in MODES {
        let kernel = Try::new(&text("@%p bra END;")).shape(1, 20).checks(checks);
        let wanted: Vec<u32> = (0..20).map(|thread| 5 + (0..=thread).sum::<u32>()).collect();
        assert_eq!(kernel.words(20).unwrap(), wanted);
    }
    let fault = Try::new(&text("")).words(1).unwrap_err();
    assert_eq!(fault.kind, FaultKind::StackOverflow);
}

const WAITS: &str = "
.func (.param .b32 r) neighbour(.param .b32 n) { .reg .b32 %r<5>; .reg .b64 %rd<3>; .shared .b32 tile[64];
    ld.param.b32 %r0, [n]; mov.u32 %r4, tile; shl.b32 %r1, %r0, 2; add.u32 %r1, %r1, %r4; st.shared.b32 [%r1], %r0; bar.sync 0;
    xor.b32 %r2, %r0, 63; shl.b32 %r2, %r2, 2; add.u32 %r2, %r2, %r4; ld.shared.b32 %r3, [%r2]; st.param.b32 [r], %r3; ret; }
.func (.param .b32 r) other(.param .b32 n) { ret; }
";

#[test]
fn a_barrier_in_a_function_that_is_called_by_its_address_is_one_of_the_block() {
    let choose = "setp.eq.u32 %p2, 0, 1; mov.u64 %f, other; mov.u64 %f, neighbour;";
    for checks in MODES {
        let kernel = Try::new(&caller(WAITS, choose)).shape(1, 64).checks(checks);
        assert_eq!(kernel.words(64).unwrap(), (0..64).rev().collect::<Vec<_>>());
    }
    // Half of the block calls a function without it.
    let choose =
        "setp.eq.u32 %p2, 0, 1; setp.lt.u32 %p1, %r1, 32; mov.u64 %f, other; mov.u64 %g, neighbour;
    selp.b64 %f, %f, %g, %p1; @%p1 bar.sync 1, 64;";
    let fault = Try::new(&caller(WAITS, choose)).shape(1, 64).words(64).unwrap_err();
    assert_eq!(fault.kind, FaultKind::BarrierDivergence);
}

#[test]
fn a_function_that_may_call_itself_by_its_address_and_waits_is_refused() {
    let text = format!(
        "{HEAD}.func f(.param .b64 g) {{ .reg .b64 %f; ld.param.b64 %f, [g]; bar.sync 0;
    {{ .param .b64 a; st.param.b64 [a], %f; P: .callprototype _ (.param .b64 _); call %f, (a), P; }} ret; }}
.visible .entry k() {{ .reg .b64 %f; mov.u64 %f, f; {{ .param .b64 a; st.param.b64 [a], %f; call f, (a); }} ret; }}"
    );
    let error = Program::load(&text).unwrap_err();
    assert_eq!(error.kind, LoadErrorKind::Unsupported);
    assert!(error.message.contains("perhaps through an address"), "{}", error.message);
}

/// The host has the function's code.
#[test]
fn a_function_of_the_host_is_called_by_its_address() {
    let text = ".extern .func (.param .b32 r) sqrtf(.param .b32 x);
.visible .entry k(.param .u64 out) { .reg .f32 %r; .reg .b64 %f, %rd1; ld.param.u64 %rd1, [out]; mov.u64 %f, sqrtf;
    { .param .b32 a; .param .b32 b; st.param.f32 [a], 0f41100000; P: .callprototype (.param .b32 _) _ (.param .b32 _);
    call (b), %f, (a), P; ld.param.f32 %r, [b]; } st.global.f32 [%rd1], %r; ret; }";
    assert_eq!(Try::new(text).words(1).unwrap(), [3.0_f32.to_bits()]);
}

/// A program brings C's mathematics for drivers that have none.
#[test]
fn a_weak_function_of_c_s_mathematics_is_the_host_s() {
    for (definition, wanted) in [
        (".weak .func (.param .b32 r) sqrtf(.param .b32 x)", 3.0_f32),
        // Of the program's own: by its linkage, by its types.
        (".visible .func (.param .b32 r) sqrtf(.param .b32 x)", 7.0),
        (".weak .func (.param .b32 r) sqrtf(.param .b32 x, .param .b32 y)", 7.0),
    ] {
        let second = if definition.contains("y)") { ", a" } else { "" };
        let text = format!(
            "{definition} {{ st.param.f32 [r], 0f40e00000; ret; }}
.visible .entry k(.param .u64 out) {{ .reg .f32 %r; .reg .b64 %rd1; ld.param.u64 %rd1, [out];
    {{ .param .b32 a; .param .b32 b; st.param.f32 [a], 0f41100000;
    call (b), sqrtf, (a{second}); ld.param.f32 %r, [b]; }} st.global.f32 [%rd1], %r; ret; }}"
        );
        assert_eq!(Try::new(&text).words(1).unwrap(), [wanted.to_bits()], "{definition}");
    }
}

#[test]
fn what_is_declared_and_never_called_is_loaded() {
    for text in [
        ".extern .func (.param .b32 r) nowhere(.param .b64 a);\n.visible .global .align 8 .u64 table[3] = {0, nowhere, generic(nowhere)};",
        ".func f() { P: .callprototype ()_ (); Q: .callprototype _ .noreturn; T: .calltargets f; ret; }",
        ".func f() { ret; }\n.const .align 8 .b64 only = f;",
    ] {
        Program::load(&format!("{HEAD}{text}")).unwrap_or_else(|error| panic!("{text}: {error:?}"));
    }
}

/// Each call takes a choice between all functions.
#[test]
fn more_choices_than_can_be_compiled_are_refused() {
    in_child("more_choices_than_can_be_compiled_are_refused", 60, || {
        let lines = |count: usize, line: &dyn Fn(usize) -> String| -> String {
            (0..count).map(|index| line(index) + "\n").collect()
        };
        let functions = lines(3000, &|index| format!(".func f{index}() {{ ret; }}"));
        let table: Vec<String> = (0..3000).map(|index| format!("f{index}")).collect();
        let calls = lines(3000, &|_| "call %f, P;".to_owned());
        let text = format!(
            "{HEAD}{functions}.global .align 8 .u64 table[3000] = {{{}}};
.visible .entry k(.param .b64 g) {{ .reg .b64 %f; ld.param.b64 %f, [g]; P: .callprototype _; {calls} ret; }}",
            table.join(", ")
        );
        let error = Program::load(&text).unwrap_err();
        assert!(error.message.contains("can choose from"), "{}", error.message);
    });
}
