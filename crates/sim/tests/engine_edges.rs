//! Corners of the language and of the schedule that are easily got wrong.

mod engine_support;

use std::time::Duration;

use engine_support::{ALL, MEMORY, MODES, Try, in_child, range};
use gpulend_sim::engine::FaultKind;

/// Registers of each width, written before a barrier in a function that is put in place, read after it.
#[test]
fn registers_of_each_width_outlive_a_barrier_in_a_function() {
    for checks in MODES {
        let kernel = Try::new(
            ".func (.param .b32 r) f(.param .b32 n) { .reg .b32 %r<3>; .reg .pred %p<2>;
    ld.param.u32 %r1, [n]; setp.gt.u32 %p1, %r1, 2; @%p1 bar.sync 0; @!%p1 bar.sync 0;
    selp.u32 %r2, 100, 0, %p1; st.param.b32 [r], %r2; ret; }
.visible .entry k(.param .u64 out) { .reg .b16 %h<3>; .reg .b32 %r<9>; .reg .b64 %rd<5>; .reg .pred %p<2>;
    ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; cvt.u16.u32 %h1, %r1; mul.wide.u32 %rd2, %r1, 4;
    setp.eq.u32 %p1, %r1, 69; mov.b64 %rd4, 0x100000000;
    bar.warp.sync -1;
    selp.u32 %r5, 1000, 0, %p1; cvt.u32.u16 %r2, %h1; add.u64 %rd3, %rd1, %rd2; shr.u64 %rd4, %rd4, 32; cvt.u32.u64 %r6, %rd4;
    add.u32 %r3, %r1, %r2; add.u32 %r3, %r3, %r5; add.u32 %r3, %r3, %r6;
    st.global.u32 [%rd3], %r3; ret; }",
        )
        .shape(3, 70)
        .checks(checks);
        let wanted: Vec<u32> =
            (0..70).map(|n| 2 * n + 1 + if n == 69 { 1000 } else { 0 }).collect();
        assert_eq!(kernel.words(70).unwrap(), wanted);
    }
}

#[test]
fn a_guarded_barrier_in_a_function_that_is_called_twice_is_passed_twice() {
    let kernel = Try::new(
        ".func (.param .b32 r) f(.param .b32 n) { .reg .b32 %r<9>; .reg .pred %p<2>;
    ld.param.u32 %r1, [n]; setp.gt.u32 %p1, %r1, 0; bar.red.popc.u32 %r2, 0, %p1; st.param.b32 [r], %r2; ret; }
.visible .entry k(.param .u64 out) { .reg .b32 %r<9>; .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x;
    { .param .b32 p; st.param.b32 [p], %r1; .param .b32 q; call.uni (q), f, (p); ld.param.b32 %r2, [q]; }
    { .param .b32 p; st.param.b32 [p], %r2; .param .b32 q; call.uni (q), f, (p); ld.param.b32 %r3, [q]; }
    mad.lo.u32 %r4, %r2, 1000, %r3;
    mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r4; ret; }",
    )
    .shape(1, 45);
    assert_eq!(kernel.words(45).unwrap(), [44_045; 45]);
}

/// The body begins with the head of a loop, which is where the next thread begins too.
#[test]
fn a_loop_may_begin_with_the_body_and_labels_may_end_it() {
    for checks in MODES {
        let kernel = Try::new(
            ".visible .entry k(.param .u64 out) { .reg .b32 %r<9>; .reg .b64 %rd<5>; .reg .pred %p<2>;
TOP: ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %rd1, %rd2;
    ld.global.u32 %r2, [%rd3]; add.u32 %r2, %r2, 1; st.global.u32 [%rd3], %r2;
    setp.le.u32 %p1, %r2, %r1; @%p1 bra TOP; bra END;
    trap;
END: }",
        )
        .shape(1, 33)
        .checks(checks);
        assert_eq!(kernel.words(33).unwrap(), (1..34).collect::<Vec<u32>>());
    }
}

#[test]
fn empty_bodies_and_kernels_without_parameters_run() {
    for body in ["{ }", "{ ret; }", "{ END: }", "{ bar.sync 0; }", "() { bra END; END: }"] {
        Try::new(&format!(".visible .entry k {body}")).shape(3, 40).run(&[], &[]).unwrap();
    }
}

#[test]
fn threads_of_three_axes_are_numbered_with_the_first_axis_fastest() {
    for barrier in ["", "bar.sync 0;"] {
        let mut kernel = Try::new(&format!(
            ".visible .entry k(.param .u64 out) {{ .reg .b32 %r<9>; .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [out]; {barrier}
    mov.u32 %r1, %tid.z; mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.x;
    mad.lo.u32 %r4, %r1, 5, %r2; mad.lo.u32 %r4, %r4, 7, %r3;
    mov.u32 %r5, %warpid; mov.u32 %r6, %laneid; mad.lo.u32 %r5, %r5, 32, %r6;
    mul.wide.u32 %rd2, %r4, 4; add.u64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r5; ret; }}"
        ));
        kernel.block = [7, 5, 3];
        assert_eq!(kernel.words(105).unwrap(), (0..105).collect::<Vec<u32>>());
    }
}

#[test]
fn an_index_beyond_a_branch_table_stays_in_the_kernel() {
    let kernel = Try::new(
        ".visible .entry k(.param .u64 out) { .reg .b32 %r<9>; .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [out]; mov.u32 %r1, -5;
T: .branchtargets A, B; brx.idx %r1, T;
A: ret;
B: st.global.u32 [%rd1], 1; ret; }",
    );
    kernel.words(1).unwrap();
}

/// The last vector of a range fits; the one after it, and one that is not aligned, are named with their thread and line.
#[test]
fn vectors_at_the_end_of_a_range_are_told_apart() {
    let kernel = |offset: u32, barrier: &str| {
        Try::new(&format!(
            ".visible .entry k(.param .u64 out) {{ .reg .b32 %r<9>; .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 16; add.u64 %rd3, %rd1, %rd2; {barrier}
    st.global.v4.u32 [%rd3+{offset}], {{%r1, %r1, %r1, %r1}};
    ret; }}"
        ))
        .shape(1, 40)
    };
    for checks in [MEMORY, ALL] {
        for barrier in ["", "bar.sync 0;"] {
            let mut out = vec![0_u128; 40];
            let memory = range(&mut out);
            kernel(0, barrier).checks(checks).run(&[memory.0], &[memory]).unwrap();
            let past = kernel(16, barrier).checks(checks).run(&[memory.0], &[memory]).unwrap_err();
            assert_eq!(
                (past.kind, past.thread, past.ptx_line),
                (FaultKind::OutOfBounds, [39, 0, 0], 6)
            );
            let odd = kernel(4, barrier).checks(checks).run(&[memory.0], &[memory]).unwrap_err();
            assert_eq!((odd.kind, odd.thread), (FaultKind::Misaligned, [0, 0, 0]));
        }
    }
}

#[test]
fn addresses_outside_of_shared_and_local_memory_are_refused() {
    let texts = [
        "mov.u64 %rd2, s; ld.shared.u32 %r1, [%rd2+16];",
        "mov.u64 %rd2, s; ld.shared.u32 %r1, [%rd2+-4];",
        "mov.u64 %rd2, s; cvta.shared.u64 %rd2, %rd2; ld.u32 %r1, [%rd2+16];",
        "mov.u64 %rd2, s; cvta.shared.u64 %rd2, %rd2; ld.u32 %r1, [%rd2+-4];",
        "mov.u64 %rd2, l; st.local.u32 [%rd2+1048576], 1;",
        "mov.u64 %rd2, l; st.local.u32 [%rd2+-8], 1;",
        "mov.u64 %rd2, l; cvta.local.u64 %rd2, %rd2; st.u32 [%rd2+1048576], 1;",
        "mov.u64 %rd2, -4; st.shared.u32 [%rd2], 1;",
        "mov.u64 %rd2, 0x7FFFFFFFFFFFFFFC; st.shared.u32 [%rd2+8], 1;",
        "mov.u64 %rd2, -4; st.global.u32 [%rd2+8], 1;",
        "mov.u32 %r1, -4; ld.shared.u32 %r1, [%r1];",
        "ld.global.u32 %r1, [4];",
        "ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [s+16];",
    ];
    for text in texts {
        for checks in [MEMORY, ALL] {
            let kernel = Try::new(&format!(
                ".visible .entry k(.param .u64 out) {{ .reg .b32 %r<9>; .reg .b64 %rd<5>;
    .shared .align 16 .b8 s[16]; .local .align 16 .b8 l[16]; {text} ret; }}"
            ))
            .checks(checks);
            let fault = kernel.words(1).expect_err(text);
            assert_eq!(fault.kind, FaultKind::OutOfBounds, "{text}: {fault:?}");
        }
    }
}

#[test]
fn halves_are_compared_and_exchanged_where_they_lie() {
    for checks in MODES {
        let kernel = Try::new(
            ".visible .entry k(.param .u64 out) { .reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [out]; mov.u16 %h1, 0; mov.u16 %h2, 7;
    atom.global.cas.b16 %h3, [%rd1+2], %h1, %h2; mov.b16 %h4, 0x3C00; atom.global.add.noftz.f16 %h5, [%rd1], %h4; ret; }",
        )
        .checks(checks);
        assert_eq!(kernel.words(1).unwrap(), [0x0007_3C00]);
    }
    let odd = Try::new(
        ".visible .entry k(.param .u64 out) { .reg .b32 %r<9>; .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [out]; atom.global.add.u32 %r1, [%rd1+2], 1; ret; }",
    );
    assert_eq!(odd.words(2).unwrap_err().kind, FaultKind::Misaligned);
}

#[test]
fn threads_that_wait_for_nobody_are_told_from_those_that_go_on() {
    let body = |text: &str| {
        let mut kernel = Try::new(&format!(
            ".visible .entry k(.param .u64 out) {{ .reg .b32 %r<9>; .reg .pred %p<3>;
    mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32; setp.eq.u32 %p2, %r1, 3; {text} ret; }}"
        ))
        .shape(1, 64);
        kernel.limit = Duration::from_secs(5);
        kernel.words(1).map_err(|fault| fault.kind)
    };
    // Two named barriers that wait for each other's threads.
    assert_eq!(
        body("@%p1 bar.sync 1, 64; @!%p1 bar.sync 2, 64;"),
        Err(FaultKind::BarrierDivergence)
    );
    // One arrives, the others wait.
    assert_eq!(body("@%p1 bar.arrive 1, 64; @!%p1 bar.sync 1, 64;"), Ok(vec![0]));
    // A lane that has ended is not waited for.
    assert_eq!(body("@%p2 exit; bar.warp.sync -1;"), Ok(vec![0]));
    // A lane that waits elsewhere is.
    assert_eq!(
        body("@%p2 bar.sync 0; @%p2 ret; bar.warp.sync -1; bar.sync 0;"),
        Err(FaultKind::WarpDeadlock)
    );
    // A lane that is not in its own mask.
    assert_eq!(body("bar.warp.sync 1;"), Err(FaultKind::WarpDeadlock));
}

/// Both modes with checks are asked, so that neither depends on the other.
#[test]
fn a_text_of_great_width_does_not_take_all_memory() {
    in_child("a_text_of_great_width_does_not_take_all_memory", 20, || {
        for checks in [MEMORY, ALL] {
            let kernel = Try::new(
                ".extern .func (.param .b32 r) vprintf(.param .b64 text, .param .b64 all);
.visible .entry k(.param .u64 out) { .local .align 8 .b8 x[64]; .reg .b64 %rd<9>; .reg .b32 %r<3>;
    mov.u64 %rd1, x; cvta.local.u64 %rd2, %rd1;
    st.local.u32 [%rd1], 0x39393925; st.local.u32 [%rd1+4], 0x39393939; st.local.u32 [%rd1+8], 0x39393939;
    st.local.u32 [%rd1+12], 0x00006439; st.local.u64 [%rd1+16], 1; add.u64 %rd3, %rd2, 16;
    { .param .b64 p; st.param.b64 [p], %rd2; .param .b64 q; st.param.b64 [q], %rd3; .param .b32 r;
      call.uni (r), vprintf, (p, q); ld.param.b32 %r1, [r]; }
    ret; }",
            )
            .checks(checks);
            kernel.words(1).unwrap();
        }
    });
}

/// Memory that lies behind the parameters is none of the kernel's.
#[test]
fn a_vector_behind_the_end_of_the_parameters_is_out_of_bounds() {
    let kernel = Try::new(
        ".visible .entry k(.param .u64 out) { .reg .b64 %rd<9>; mov.u64 %rd1, out; cvta.param.u64 %rd2, %rd1;
    ld.u64 %rd3, [%rd2+8]; ret; }",
    );
    let mut out = [0_u32; 1];
    let memory = range(&mut out);
    assert_eq!(kernel.run(&[memory.0], &[memory]).unwrap_err().kind, FaultKind::OutOfBounds);
}

/// LLVM chooses between parameters by their addresses, which have 32 bits if it is told that pointers are short.
#[test]
fn a_parameter_is_read_by_half_of_its_address() {
    let text = ".visible .entry k(.param .u64 out, .param .u64 first, .param .u64 second) {
        .reg .b32 %r<6>; .reg .b64 %rd<4>; .reg .pred %p<2>;
        ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mov.b32 %r2, first; mov.b32 %r3, second; setp.eq.u32 %p1, %r1, 0;
        selp.b32 %r4, %r2, %r3, %p1; ld.param.b64 %rd2, [%r4]; mul.wide.u32 %rd3, %r1, 4; add.u64 %rd1, %rd1, %rd3;
        cvt.u32.u64 %r5, %rd2; st.global.b32 [%rd1], %r5; ret; }";
    for checks in MODES {
        let mut out = [0_u32; 2];
        let memory = range(&mut out);
        let tested = Try::new(text).shape(1, 2).checks(checks);
        tested.run(&[memory.0, 7, 8], &[memory]).unwrap();
        assert_eq!(out, [7, 8]);
    }
}
