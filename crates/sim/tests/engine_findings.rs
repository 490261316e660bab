//! Programs that the engine once got wrong: results, ends of the process, endless launches, mistakes and false alarms.
#![allow(clippy::unwrap_used, reason = "a test may fail so")]

mod engine_support;

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use engine_support::{ALL, HEAD, MEMORY, MODES, NONE, Try, in_child};
use gpulend_sim::engine::{FaultKind, Program};

// Wrong results.

/// The flag is looked at between blocks too, where nobody notes why the launch ends.
#[test]
fn a_launch_without_loops_that_takes_too_long_fails() {
    let mut kernel = Try::new(
        ".visible .entry k(.param .u64 out) { .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out]; red.global.add.u32 [%rd1], 1; ret; }",
    )
    .shape(i32::MAX.cast_unsigned(), 1)
    .checks(NONE);
    kernel.limit = Duration::from_millis(200);
    let ran = kernel.words(1);
    assert!(
        ran.as_ref().is_err_and(|fault| fault.kind == FaultKind::Timeout),
        "{} blocks were asked for, and {ran:?} ran without a fault",
        i32::MAX
    );
}

/// The whole grid that a device takes has more threads than 64 bits count.
#[test]
fn the_largest_grid_of_the_largest_blocks_is_ended_by_the_time_limit() {
    let mut kernel = Try::new(".visible .entry k() { ret; }");
    kernel.grid = [i32::MAX.cast_unsigned(), 65_535, 65_535];
    kernel.block = [1024, 1, 1];
    kernel.limit = Duration::from_millis(200);
    let fault = kernel.run(&[], &[]).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Timeout);
}

/// A function that calls itself has a layout of shared memory of its own, not that of the kernel.
#[test]
fn a_recursive_function_and_its_kernel_mean_the_same_shared_variable() {
    for checks in MODES {
        let kernel = Try::new(
            ".shared .align 4 .b32 a; .shared .align 4 .b32 b;
.func (.param .b32 r) f(.param .b32 n) { .reg .b32 %r<9>; .reg .pred %p<2>;
    ld.param.u32 %r1, [n]; ld.shared.u32 %r2, [b]; setp.eq.u32 %p1, %r1, 0; @%p1 bra END;
    sub.u32 %r3, %r1, 1;
    { .param .b32 p; st.param.b32 [p], %r3; .param .b32 q; call.uni (q), f, (p); ld.param.b32 %r4, [q]; }
    add.u32 %r2, %r2, %r4;
END: st.param.b32 [r], %r2; ret; }
.visible .entry k(.param .u64 out) { .reg .b32 %r<9>; .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out]; st.shared.u32 [a], 1000; st.shared.u32 [b], 7;
    mov.u32 %r1, 2;
    { .param .b32 p; st.param.b32 [p], %r1; .param .b32 q; call.uni (q), f, (p); ld.param.b32 %r2, [q]; }
    st.global.u32 [%rd1], %r2; ret; }",
        )
        .checks(checks);
        assert_eq!(kernel.words(1).unwrap(), [21]);
    }
}

/// `volatile` is not handed to Cranelift, which takes the value that it loaded before the loop.
#[test]
fn a_volatile_load_in_a_loop_sees_what_others_write() {
    for checks in MODES {
        let kernel = Try::new(
            ".visible .entry k(.param .u64 flag) { .reg .b32 %r<3>; .reg .b64 %rd<2>; .reg .pred %p<2>;
    ld.param.u64 %rd1, [flag];
    ld.volatile.global.u32 %r1, [%rd1]; setp.ne.u32 %p1, %r1, 0; @%p1 bra END;
AGAIN: ld.volatile.global.u32 %r2, [%rd1]; setp.eq.u32 %p1, %r2, 0; @%p1 bra AGAIN;
END: ret; }",
        )
        .checks(checks);
        let flag = AtomicU32::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(200));
                flag.store(1, Ordering::Relaxed);
            });
            let address = flag.as_ptr() as u64;
            kernel.run(&[address], &[(address, 4)]).unwrap();
        });
    }
}

/// One `.shared` variable of a function is one for the block, not one for each call that is put in place.
#[test]
fn a_shared_variable_of_a_function_is_the_same_in_all_calls() {
    for checks in MODES {
        let kernel = Try::new(
            ".func (.param .b32 r) f(.param .b32 n) { .reg .b32 %r<9>; .reg .pred %p<2>; .shared .align 4 .b32 held;
    ld.param.u32 %r1, [n]; setp.eq.u32 %p1, %r1, 0; @%p1 bra READ; st.shared.u32 [held], %r1;
READ: ld.shared.u32 %r2, [held]; st.param.b32 [r], %r2; ret; }
.visible .entry k(.param .u64 out) { .reg .b32 %r<9>; .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out];
    { .param .b32 p; st.param.b32 [p], 5; .param .b32 q; call.uni (q), f, (p); ld.param.b32 %r2, [q]; }
    { .param .b32 p; st.param.b32 [p], 0; .param .b32 q; call.uni (q), f, (p); ld.param.b32 %r2, [q]; }
    st.global.u32 [%rd1], %r2; ret; }",
        )
        .checks(checks);
        assert_eq!(kernel.words(1).unwrap(), [5]);
    }
}

/// What a thread writes there is seen by the threads after it, and by other workers.
#[test]
fn a_kernel_cannot_write_its_parameters() {
    let text =
        ".visible .entry k(.param .u64 out, .param .u32 n) { .reg .b32 %r<9>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [n]; add.u32 %r2, %r1, 1; st.param.u32 [n], %r2;
    mov.u32 %r3, %tid.x; mul.wide.u32 %rd2, %r3, 4; add.u64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r1; ret; }";
    let refused = Program::load(&format!("{HEAD}{text}")).unwrap_err();
    assert_eq!(refused.message, "a kernel's parameters cannot be written, in k");
}

/// The carry is no register, and is not kept over a wait.
#[test]
fn the_carry_outlives_a_barrier() {
    let kernel = Try::new(
        ".visible .entry k(.param .u64 out) { .reg .b32 %r<9>; .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out]; mov.u32 %r1, -1; add.cc.u32 %r2, %r1, 1; bar.sync 0;
    addc.u32 %r3, 0, 0; st.global.u32 [%rd1], %r3; ret; }",
    );
    assert_eq!(kernel.words(1).unwrap(), [1]);
}

/// A result that goes straight into the caller's own result is copied with length 0.
#[test]
fn a_recursive_function_may_hand_its_result_on() {
    let kernel = Try::new(
        ".func (.param .b32 r) f(.param .b32 n) { .reg .b32 %r<9>; .reg .pred %p<2>;
    ld.param.u32 %r1, [n]; setp.ne.u32 %p1, %r1, 0; @%p1 bra MORE; st.param.b32 [r], 77; ret;
MORE: sub.u32 %r3, %r1, 1; { .param .b32 p; st.param.b32 [p], %r3; call.uni (r), f, (p); } ret; }
.visible .entry k(.param .u64 out) { .reg .b32 %r<9>; .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out];
    { .param .b32 p; st.param.b32 [p], 3; .param .b32 q; call.uni (q), f, (p); ld.param.b32 %r2, [q]; }
    st.global.u32 [%rd1], %r2; ret; }",
    );
    assert_eq!(kernel.words(1).unwrap(), [77]);
}

/// An address of the device's global memory is no address of constant memory.
#[test]
fn global_memory_is_not_constant_memory() {
    let kernel = Try::new(
        ".visible .entry k(.param .u64 out) { .reg .b32 %r<9>; .reg .b64 %rd<2>; .reg .pred %p<2>;
    ld.param.u64 %rd1, [out]; isspacep.const %p1, %rd1; selp.u32 %r1, 1, 0, %p1;
    st.global.u32 [%rd1], %r1; ret; }",
    );
    assert_eq!(kernel.words(1).unwrap(), [0]);
}

/// Dynamic shared memory begins where its declaration says.
#[test]
fn dynamic_shared_memory_is_aligned_as_declared() {
    let mut kernel = Try::new(
        ".extern .shared .align 128 .b8 tile[]; .shared .align 4 .b32 one;
.visible .entry k(.param .u64 out) { .reg .b32 %r<9>; .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out]; st.shared.u32 [one], 1; mov.u32 %r1, tile; and.b32 %r1, %r1, 127;
    st.global.u32 [%rd1], %r1; ret; }",
    );
    kernel.dynamic = 256;
    assert_eq!(kernel.words(1).unwrap(), [0]);
}

/// A kernel that calls `f` with its own parameter, and stores what it reads of it afterwards.
fn hands_its_parameter_on(function: &str, call: &str) -> Try {
    Try::new(&format!(
        "{function}
.visible .entry k(.param .u64 out, .param .u32 n) {{ .reg .b32 %r<9>; .reg .b64 %rd<9>;
    bar.sync 0; {call} ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x; ld.param.u64 %rd1, [out];
    mul.wide.u32 %rd2, %r2, 4; add.u64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r1; ret; }}"
    ))
    .shape(1, 4)
}

/// A call that is put in place has parameters of its own, whichever way its function changes them.
#[test]
fn a_function_that_changes_its_parameter_changes_nothing_of_its_caller() {
    let functions = [
        "st.param.b32 [c], 7;",
        "call (c), g;",
        "mov.u64 %rd1, c; st.local.u32 [%rd1], 7;",
        "mov.u64 %rd1, c; cvta.local.u64 %rd1, %rd1; st.u32 [%rd1], 7;",
    ];
    for function in functions {
        for checks in MODES {
            let kernel = hands_its_parameter_on(
                &format!(
                    ".func (.param .b32 r) g() {{ st.param.b32 [r], 7; ret; }}
.func f(.param .b32 c) {{ .reg .b64 %rd<2>; {function} ret; }}"
                ),
                "call f, (n);",
            )
            .checks(checks);
            let mut out = [1_u32; 4];
            let memory = engine_support::range(&mut out);
            kernel.run(&[memory.0, 10], &[memory]).unwrap();
            assert_eq!(out, [10; 4], "{function}");
        }
    }
}

/// A slot may be argument and result of one call: the result must not show through the parameter.
#[test]
fn a_parameter_that_is_the_result_too_keeps_its_value_until_the_function_returns() {
    let kernel = Try::new(
        ".func (.param .b32 r) f(.param .b32 c) { .reg .b32 %r<3>;
    st.param.b32 [r], 5; ld.param.u32 %r1, [c]; add.u32 %r1, %r1, 100; st.param.b32 [r], %r1; ret; }
.visible .entry k(.param .u64 out) { .reg .b32 %r<3>; .reg .b64 %rd<2>; .param .b32 q;
    ld.param.u64 %rd1, [out]; st.param.b32 [q], 1; call (q), f, (q); ld.param.u32 %r1, [q];
    st.global.u32 [%rd1], %r1; ret; }",
    );
    assert_eq!(kernel.words(1).unwrap(), [101]);
}

/// The result of a call is a write as any other.
#[test]
fn a_kernels_parameter_cannot_be_the_result_of_a_call() {
    for function in [
        ".func (.param .b32 r) f() { st.param.b32 [r], 7; ret; }",
        ".func (.param .b32 r) f() { call (r), f; ret; }",
        ".extern .func (.param .b32 r) f();",
    ] {
        let text =
            format!("{HEAD}{function} .visible .entry k(.param .u32 n) {{ call (n), f; ret; }}");
        Program::load(&text).unwrap_err();
    }
}

/// Their results and parameters are slots of the kernel, as long as the kernel declares them.
#[test]
fn functions_of_the_host_are_refused_with_other_types_than_they_have() {
    let wrong = [
        "(.param .b8 r) vprintf (.param .b64 a, .param .b64 b)",
        "(.param .b64 r) vprintf (.param .b64 a, .param .b64 b)",
        "(.param .b32 r, .param .b32 s) vprintf (.param .b64 a, .param .b64 b)",
        "(.param .b32 r) vprintf (.param .b64 a)",
        "(.param .b32 r) vprintf (.param .b64 a, .param .b32 b)",
        "(.param .b8 r) __assertfail (.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e)",
        "__assertfail (.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b8 e)",
        "__assertfail (.param .b64 a, .param .b64 b, .param .b8 c, .param .b64 d, .param .b64 e)",
        "__assertfail (.param .b64 a)",
        "(.param .b8 r) sinf (.param .b32 a)",
        "(.param .b32 r) sinf (.param .b16 a)",
        "sinf (.param .b32 a)",
        "(.param .b32 r) malloc (.param .b64 a)",
        "(.param .b64 r) malloc (.param .b32 a)",
        "malloc (.param .b64 a)",
        "(.param .b64 r) free (.param .b64 a)",
        "free (.param .b32 a)",
        "(.param .b64 r) realloc (.param .b64 a, .param .b64 b)",
    ];
    for declared in wrong {
        let (results, rest) = match declared.strip_prefix('(') {
            Some(_) => declared.split_once(')').unwrap(),
            None => ("", declared),
        };
        let (name, parameters) = rest.trim().split_once(' ').unwrap();
        let names = |list: &str| -> Vec<String> {
            let last =
                |one: &str| one.trim_matches(['(', ')']).split(' ').next_back().map(str::to_owned);
            list.split(',').filter(|one| !one.is_empty()).filter_map(last).collect()
        };
        let slots = format!("{results},{parameters}").replace(['(', ')'], "").replace(',', ";");
        let called = match names(results).join(", ") {
            list if list.is_empty() => name.to_owned(),
            list => format!("({list}), {name}"),
        };
        let text = format!(
            "{HEAD}.extern .func {declared};
.visible .entry k() {{ {slots}; call {called}, ({}); ret; }}",
            names(parameters).join(", ")
        );
        let error = Program::load(&text).expect_err(declared);
        assert!(error.message.contains(name), "{declared}: {}", error.message);
    }
}

/// What no thread comes to is compiled all the same.
#[test]
fn waits_in_code_that_nobody_reaches_do_nothing() {
    let waits = [
        "bar.sync 0;",
        "bar.red.popc.u32 %r1, 0, %p1; st.global.u32 [%rd1], %r1;",
        "@%p1 bar.sync 0;",
        "bar.arrive 1, 32; bar.warp.sync -1; activemask.b32 %r1;",
        "shfl.sync.idx.b32 %r1|%p1, %r1, 0, 31, -1; bar.sync 0; st.global.u32 [%rd1], %r1;",
        "AGAIN: bar.sync 0; add.u32 %r1, %r1, 1; bra AGAIN;",
    ];
    for leave in ["bra END;", "ret;", "exit;", "bar.sync 0; bra END;"] {
        for wait in waits {
            for checks in MODES {
                let kernel = Try::new(&format!(
                    ".visible .entry k(.param .u64 out) {{ .reg .b32 %r<3>; .reg .b64 %rd<2>; .reg .pred %p<2>;
    ld.param.u64 %rd1, [out]; mov.u32 %r1, 3; setp.eq.u32 %p1, %r1, 3; st.global.u32 [%rd1], 9;
    {leave} {wait}
END: ret; }}"
                ))
                .checks(checks);
                assert_eq!(kernel.words(1).unwrap(), [9], "{leave} {wait}");
            }
        }
    }
}

// Ends of the process, and what never ends.

/// Offsets from a parameter's name are not looked at.
#[test]
fn a_load_far_behind_a_parameter_is_refused() {
    in_child("a_load_far_behind_a_parameter_is_refused", 20, || {
        let text = ".visible .entry k(.param .u64 out) { .reg .b32 %r<2>; .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [out+1073741824]; st.global.u32 [%rd1], %r1; ret; }";
        if Program::load(&format!("{HEAD}{text}")).is_ok() {
            Try::new(text).words(1).unwrap_err();
        }
    });
}

/// Nor are those from the name of a call's slot, which is written.
#[test]
fn a_store_far_behind_a_slot_is_refused() {
    in_child("a_store_far_behind_a_slot_is_refused", 20, || {
        let text = ".visible .entry k(.param .u64 out) { .reg .b64 %rd<2>;
    { .param .b32 p; st.param.b32 [p+1073741824], 1; } ret; }";
        if Program::load(&format!("{HEAD}{text}")).is_ok() {
            Try::new(text).words(1).unwrap_err();
        }
    });
}

/// Only slots of the body are compared with what the function wants, not parameters that are handed on.
#[test]
fn a_parameter_that_is_handed_on_must_have_the_length_that_is_wanted() {
    let text = ".func f(.param .b8 all[64]) { ret; }
.visible .entry k(.param .u32 n) { call.uni f, (n); ret; }";
    Program::load(&format!("{HEAD}{text}")).unwrap_err();
}

/// The memory of all threads is taken at once, and where there is none the process ends.
#[test]
fn local_memory_that_no_host_has_is_refused() {
    in_child("local_memory_that_no_host_has_is_refused", 30, || {
        let text = ".visible .entry k(.param .u64 out) { .local .b8 x[268435440]; .reg .b64 %rd<2>;
    mov.u64 %rd1, x; st.local.u8 [%rd1], 1; bar.sync 0; ret; }";
        if Program::load(&format!("{HEAD}{text}")).is_ok() {
            let _ = Try::new(text).shape(1, 1024).words(1);
        }
    });
}

/// A recursive function that keeps `live` loaded values over its call, nested until its memory ends.
fn deep(live: usize) -> String {
    let mut text = ".func (.param .b32 r) f(.param .b64 from) { .reg .b32 %r<9>; .reg .b32 %v<2000>; .reg .b64 %rd<9>;
    ld.param.u64 %rd1, [from];\n"
        .to_owned();
    for index in 0..live {
        writeln!(text, "ld.global.u32 %v{index}, [%rd1+{}];", 4 * index).unwrap();
    }
    text += "{ .param .b64 p; st.param.b64 [p], %rd1; .param .b32 q; call.uni (q), f, (p); ld.param.b32 %r2, [q]; }\n";
    for index in 0..live {
        writeln!(text, "xor.b32 %r2, %r2, %v{index};").unwrap();
    }
    text + "st.param.b32 [r], %r2; ret; }
.visible .entry k(.param .u64 out) { .reg .b32 %r<9>; .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out];
    { .param .b64 p; st.param.b64 [p], %rd1; .param .b32 q; call.uni (q), f, (p); ld.param.b32 %r2, [q]; }
    st.global.u32 [%rd1], %r2; ret; }"
}

/// A frame of the host is as long as all that is kept in it; only memory of the simulated thread is counted.
#[test]
fn deep_recursion_with_many_registers_is_a_stack_overflow_of_the_kernel_alone() {
    in_child(
        "deep_recursion_with_many_registers_is_a_stack_overflow_of_the_kernel_alone",
        60,
        || {
            let fault = Try::new(&deep(1500)).words(1500).unwrap_err();
            assert_eq!(fault.kind, FaultKind::StackOverflow);
        },
    );
}

/// Whoever waits runs the kernel, on a thread whose stack the program chose.
#[test]
fn deep_recursion_on_a_small_thread_is_a_stack_overflow_of_the_kernel_alone() {
    in_child(
        "deep_recursion_on_a_small_thread_is_a_stack_overflow_of_the_kernel_alone",
        60,
        || {
            let kernel = Try::new(&deep(30));
            // Compiled before, on a large stack.
            assert_eq!(kernel.words(30).unwrap_err().kind, FaultKind::StackOverflow);
            let small = thread::Builder::new().stack_size(128 << 10);
            let kind =
                small.spawn(move || kernel.words(30).unwrap_err().kind).unwrap().join().unwrap();
            assert_eq!(kind, FaultKind::StackOverflow);
        },
    );
}

/// Calls do not look whether the launch is to end.
#[test]
fn recursion_without_loops_ends_with_the_time_limit() {
    in_child("recursion_without_loops_ends_with_the_time_limit", 15, || {
        let mut kernel = Try::new(
            ".func (.param .b32 r) f(.param .b32 n) { .reg .b32 %r<9>; .reg .pred %p<2>;
    ld.param.u32 %r1, [n]; mov.u32 %r2, 1; setp.lt.u32 %p1, %r1, 2; @%p1 bra END;
    sub.u32 %r3, %r1, 1; sub.u32 %r4, %r1, 2;
    { .param .b32 p; st.param.b32 [p], %r3; .param .b32 q; call.uni (q), f, (p); ld.param.b32 %r5, [q]; }
    { .param .b32 p; st.param.b32 [p], %r4; .param .b32 q; call.uni (q), f, (p); ld.param.b32 %r6, [q]; }
    add.u32 %r2, %r5, %r6;
END: st.param.b32 [r], %r2; ret; }
.visible .entry k(.param .u64 out) { .reg .b32 %r<9>; .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out];
    { .param .b32 p; st.param.b32 [p], 90; .param .b32 q; call.uni (q), f, (p); ld.param.b32 %r2, [q]; }
    st.global.u32 [%rd1], %r2; ret; }",
        );
        kernel.limit = Duration::from_millis(500);
        assert_eq!(kernel.words(1).unwrap_err().kind, FaultKind::Timeout);
    });
}

/// The flag is loaded as if nobody changed it: the load in the loop is that of the jump before it.
#[test]
fn a_loop_that_is_entered_from_below_ends_with_the_time_limit() {
    in_child("a_loop_that_is_entered_from_below_ends_with_the_time_limit", 15, || {
        let mut kernel = Try::new(
            ".visible .entry k(.param .u64 out) { .reg .b32 %r<2>;
    mov.u32 %r1, 0; bra ENTER;
AGAIN: add.u32 %r1, %r1, 1; bra AGAIN;
ENTER: bra AGAIN; }",
        );
        kernel.limit = Duration::from_millis(500);
        assert_eq!(kernel.words(1).unwrap_err().kind, FaultKind::Timeout);
    });
}

/// What is put in place is counted in statements, and calls that are replaced are none.
#[test]
fn calls_of_calls_of_nothing_are_refused_or_loaded_at_once() {
    in_child("calls_of_calls_of_nothing_are_refused_or_loaded_at_once", 15, || {
        let mut text = ".func f0() { }\n".to_owned();
        for index in 1..60 {
            writeln!(text, ".func f{index}() {{ call.uni f{0}; call.uni f{0}; }}", index - 1)
                .unwrap();
        }
        let text = format!("{HEAD}{text}.visible .entry k() {{ call.uni f59; ret; }}");
        let _ = Program::load(&text);
    });
}

/// Putting calls in place calls itself for each call that lies in another.
#[test]
fn a_long_chain_of_calls_does_not_end_the_process() {
    in_child("a_long_chain_of_calls_does_not_end_the_process", 60, || {
        let mut text = ".func f0() { ret; }\n".to_owned();
        for index in 1..6000 {
            writeln!(text, ".func f{index}() {{ call.uni f{}; ret; }}", index - 1).unwrap();
        }
        let text = format!("{HEAD}{text}.visible .entry k() {{ call.uni f5999; ret; }}");
        let _ = Program::load(&text);
    });
}

// False alarms.

/// As clang has it for structures that are passed by value: the parameter's address is one of local memory.
#[test]
fn the_address_of_a_functions_parameter_is_one_of_local_memory() {
    in_child("the_address_of_a_functions_parameter_is_one_of_local_memory", 20, || {
        for checks in [ALL, MEMORY, NONE] {
            let kernel = Try::new(
            ".func (.param .b32 r) f(.param .align 4 .b8 s[16]) { .reg .b32 %r<9>; .reg .b64 %rd<9>;
    mov.b64 %rd1, s; cvta.local.u64 %rd2, %rd1; ld.u32 %r1, [%rd2+8]; ld.local.u32 %r2, [%rd1+4];
    add.u32 %r3, %r1, %r2; st.param.b32 [r], %r3; ret; }
.visible .entry k(.param .u64 out) { .reg .b32 %r<9>; .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out];
    { .param .align 4 .b8 p[16]; st.param.b32 [p], 1; st.param.b32 [p+4], 20; st.param.b32 [p+8], 300;
      .param .b32 q; call.uni (q), f, (p); ld.param.b32 %r2, [q]; }
    st.global.u32 [%rd1], %r2; ret; }",
        )
        .checks(checks);
            assert_eq!(kernel.words(1).unwrap(), [320]);
        }
    });
}

/// Warps meet at a named barrier from different places: PTX asks for one place within a warp alone.
#[test]
fn warps_may_meet_at_a_named_barrier_from_different_places() {
    let kernel = Try::new(
        ".visible .entry k(.param .u64 out) { .reg .b32 %r<9>; .reg .b64 %rd<2>; .reg .pred %p<2>;
    .shared .align 4 .b32 held;
    ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32; @%p1 bra WRITER;
    bar.sync 1, 64; ld.shared.u32 %r2, [held]; setp.ne.u32 %p1, %r1, 32; @%p1 ret;
    st.global.u32 [%rd1], %r2; ret;
WRITER: setp.ne.u32 %p1, %r1, 0; @%p1 bra DONE; st.shared.u32 [held], 9;
DONE: bar.sync 1, 64; ret; }",
    )
    .shape(1, 64);
    assert_eq!(kernel.words(1).unwrap(), [9]);
}

/// Lanes that wait for each other wait for those at a barrier too, which can open.
#[test]
fn lanes_wait_for_those_that_are_at_a_barrier_which_opens() {
    let kernel = Try::new(
        ".visible .entry k(.param .u64 out) { .reg .b32 %r<9>; .reg .b64 %rd<2>; .reg .pred %p<2>;
    ld.param.u64 %rd1, [out]; mov.u32 %r1, %laneid; setp.lt.u32 %p1, %r1, 16; @%p1 bra MEET;
    barrier.sync 1, 32;
MEET: bar.warp.sync -1; ret; }",
    )
    .shape(1, 64);
    kernel.words(1).unwrap();
}

/// A structure is copied with the bytes between its parts, which nobody writes or looks at.
#[test]
fn the_padding_of_a_structure_may_be_copied() {
    let kernel = Try::new(
        ".visible .entry k(.param .u64 out) { .reg .b32 %r<9>; .reg .b64 %rd<9>; .shared .align 8 .b8 s[16];
    ld.param.u64 %rd1, [out]; mov.u64 %rd2, 5; st.shared.u64 [s], %rd2; st.shared.u32 [s+8], 6;
    ld.shared.v2.u64 {%rd3, %rd4}, [s]; st.global.u64 [%rd1], %rd3; cvt.u32.u64 %r1, %rd4;
    st.global.u32 [%rd1+8], %r1; ret; }",
    );
    assert_eq!(kernel.words(3).unwrap(), [5, 0, 6]);
}

/// Loads and stores that say `relaxed` may meet, as atomics may.
#[test]
fn relaxed_accesses_to_shared_memory_are_no_race() {
    let kernel = Try::new(
        ".visible .entry k(.param .u64 out) { .reg .b32 %r<9>; .shared .align 4 .b32 held; .reg .pred %p<2>;
    mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0; @%p1 bra GO; st.shared.u32 [held], 0;
GO: bar.sync 0;
    atom.shared.add.u32 %r2, [held], 1; ld.relaxed.cta.shared.u32 %r3, [held];
    st.relaxed.cta.shared.u32 [held], %r1; ret; }",
    )
    .shape(1, 64);
    kernel.words(1).unwrap();
}

/// An address of 32 bits is summed up in 32 bits.
#[test]
fn a_sum_of_32_bits_may_begin_below_zero() {
    let kernel = Try::new(
        ".visible .entry k(.param .u64 out) { .reg .b32 %r<9>; .reg .b64 %rd<2>; .shared .align 4 .b8 s[16];
    ld.param.u64 %rd1, [out]; mov.u32 %r1, -8; st.shared.u32 [%r1+12], 3; ld.shared.u32 %r2, [4];
    st.global.u32 [%rd1], %r2; ret; }",
    );
    assert_eq!(kernel.words(1).unwrap(), [3]);
}

// Missed mistakes.

/// Of the first thread's store nothing is left once its own atomic sum is noted.
#[test]
fn a_counter_that_is_cleared_without_a_barrier_is_a_race() {
    let kernel = Try::new(
        ".visible .entry k(.param .u64 out) { .reg .b32 %r<9>; .shared .align 4 .b32 held; .reg .pred %p<2>;
    mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0; @%p1 bra GO; st.shared.u32 [held], 0;
GO: atom.shared.add.u32 %r2, [held], 1; ret; }",
    )
    .shape(1, 64);
    assert_eq!(kernel.words(1).unwrap_err().kind, FaultKind::Race);
}

/// A part of a warp that synchronises says nothing of its other lanes.
#[test]
fn a_part_of_a_warp_that_meets_does_not_order_the_others() {
    let kernel = Try::new(
        ".visible .entry k(.param .u64 out) { .reg .b32 %r<9>; .shared .align 4 .b32 held; .reg .pred %p<3>;
    mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0; setp.ne.u32 %p2, %r1, 3;
    @!%p1 st.shared.u32 [held], 1;
    setp.lt.u32 %p1, %r1, 2; @%p1 bra REST;
    bar.warp.sync 0xFFFFFFFC; bar.warp.sync 0xFFFFFFFC;
REST: @!%p2 st.shared.u32 [held], 2; ret; }",
    )
    .shape(1, 32);
    assert_eq!(kernel.words(1).unwrap_err().kind, FaultKind::Race);
}
