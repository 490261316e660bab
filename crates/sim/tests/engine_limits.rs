//! Programs of great length: compiled in a time that grows with it, within the limit, and run on stacks that hold them.

mod engine_support;

use std::thread;
use std::time::Duration;

use engine_support::{ALL, HEAD, MODES, Try, in_child, range};
use gpulend_sim::engine::{FaultKind, Program};

/// Lines made of a number each.
fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(|index| line(index) + "\n").collect()
}

/// A recursive function that holds so many values over its call, and a kernel that calls it so often.
fn deep(held: usize) -> String {
    format!(
        ".func (.param .b32 r) f(.param .b32 n) {{ .reg .b32 %r<9>; .reg .b32 %v<{held}>; .reg .pred %p<2>;
    ld.param.u32 %r1, [n]; mov.u32 %r3, 1; setp.eq.u32 %p1, %r1, 0; @%p1 bra END;
    {}
    sub.u32 %r2, %r1, 1;
    {{ .param .b32 p; st.param.b32 [p], %r2; .param .b32 q; call.uni (q), f, (p); ld.param.b32 %r3, [q]; }}
    {}
END: st.param.b32 [r], %r3; ret; }}
.visible .entry k(.param .u64 out, .param .u32 n) {{ .reg .b32 %r<9>; .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [n];
    {{ .param .b32 p; st.param.b32 [p], %r1; .param .b32 q; call.uni (q), f, (p); ld.param.b32 %r2, [q]; }}
    st.global.u32 [%rd1], %r2; ret; }}",
        lines(held, |index| format!("add.u32 %v{index}, %r1, {index};")),
        lines(held, |index| format!("xor.b32 %r3, %r3, %v{index};")),
    )
}

/// Frames of the host are as long as what is held in them; they are counted, not only the simulated thread's memory.
#[test]
fn recursion_whose_frames_do_not_fit_the_hosts_stack_is_a_stack_overflow_of_the_kernel() {
    in_child(
        "recursion_whose_frames_do_not_fit_the_hosts_stack_is_a_stack_overflow_of_the_kernel",
        120,
        || {
            let mut kernel = Try::new(&deep(9000));
            kernel.limit = Duration::ZERO;
            let mut out = [0_u32];
            let memory = range(&mut out);
            kernel.run(&[memory.0, 1], &[memory]).unwrap();
            // What is held is n, n + 1, …, n + 8999, for n of 1.
            assert_eq!(out, [(1..=9000).fold(1, |sum, value: u32| sum ^ value)]);
            let fault = kernel.run(&[memory.0, 1_000_000], &[memory]).unwrap_err();
            assert_eq!(fault.kind, FaultKind::StackOverflow);
            assert!(fault.what.contains("host's stack"), "{}", fault.what);
            assert_eq!(fault.ptx_line, 9008);
        },
    );
}

/// A kernel that holds `held` registers over `between`, and stores their sum.
fn holds(held: usize, between: &str) -> String {
    format!(
        ".visible .entry k(.param .u64 out) {{ .reg .b32 %r<9>; .reg .b32 %v<{held}>; .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out]; ld.global.u32 %r1, [%rd1]; mov.u32 %r2, 0;
    {}
    {between}
    {}
    st.global.u32 [%rd1], %r2; ret; }}",
        lines(held, |index| format!("add.u32 %v{index}, %r1, {index};")),
        lines(held, |index| format!("add.u32 %r2, %r2, %v{index};")),
    )
}

/// Nobody recurses here, and the frame is longer than the stack of a small thread all the same.
#[test]
fn a_kernel_with_a_large_frame_runs_whoever_launches_it() {
    in_child("a_kernel_with_a_large_frame_runs_whoever_launches_it", 300, || {
        let mut kernel = Try::new(&holds(40_000, ""));
        kernel.limit = Duration::ZERO;
        let small = thread::Builder::new().stack_size(96 << 10);
        let sum = small.spawn(move || kernel.words(1).unwrap()[0]).unwrap().join().unwrap();
        assert_eq!(sum, (0..40_000_u32).fold(0, u32::wrapping_add));
    });
}

/// Each of these takes a time that grows with the square of its length, or worse, where what is held at each place is
/// written down for each place.
#[test]
fn long_kernels_are_compiled_in_a_time_that_grows_with_their_length() {
    const LENGTH: usize = 2000;
    let branch = |index: usize| {
        format!(
            "add.u32 %v{index}, %r1, {index}; setp.eq.u32 %p1, %r1, {index}; @%p1 bra L{index}; add.u32 %r1, %r1, 1; L{index}:"
        )
    };
    let sum = lines(LENGTH, |index| format!("add.u32 %r2, %r2, %v{index};"));
    let bodies = [
        lines(LENGTH, branch) + &sum,
        lines(LENGTH, |index| format!("add.u32 %v{index}, %r1, 1; bar.sync 0;")) + &sum,
        lines(LENGTH, |index| format!("ld.global.u32 %v{index}, [%rd1];")) + "membar.gl;" + &sum,
        lines(4 * LENGTH, |index| format!("ld.global.u32 %w{index}, [%rd1];"))
            + &lines(4 * LENGTH, |index| format!("add.u32 %r2, %r2, %w{index};")),
    ];
    in_child("long_kernels_are_compiled_in_a_time_that_grows_with_their_length", 150, || {
        for body in bodies {
            let mut kernel = Try::new(&format!(
                ".visible .entry k(.param .u64 out) {{ .reg .b32 %r<9>; .reg .b32 %v<{LENGTH}>; .reg .b32 %w<{}>;
    .reg .b64 %rd<2>; .reg .pred %p<2>; ld.param.u64 %rd1, [out]; mov.u32 %r1, 0; mov.u32 %r2, 0; {body}
    st.global.u32 [%rd1+4], %r2; ret; }}",
                4 * LENGTH
            ))
            .checks(ALL);
            kernel.limit = Duration::ZERO;
            kernel.words(2).unwrap();
        }
    });
}

/// A chain of functions is looked at once, not once for each function of it.
#[test]
fn many_functions_are_loaded_in_a_time_that_grows_with_their_number() {
    in_child("many_functions_are_loaded_in_a_time_that_grows_with_their_number", 60, || {
        let chain = lines(30_000, |index| format!(".func f{}() {{ ret; }}", index));
        let callers = lines(29_999, |index| {
            format!(".func g{}() {{ call.uni g{}; ret; }}", index + 1, index)
        });
        let text =
            format!("{HEAD}{chain}.func g0() {{ ret; }}\n{callers}.visible .entry k() {{ ret; }}");
        Program::load(&text).unwrap();
    });
}

/// Each kernel has a copy of what it calls: all of them together are bounded, not each alone.
#[test]
fn many_kernels_that_call_a_long_function_are_refused() {
    in_child("many_kernels_that_call_a_long_function_are_refused", 60, || {
        let function = format!(
            ".func f() {{ .reg .b32 %r<2>; {} ret; }}",
            lines(50_000, |_| "mov.u32 %r1, 1;".to_owned())
        );
        let kernels =
            lines(3000, |index| format!(".visible .entry k{index}() {{ call.uni f; ret; }}"));
        let error = Program::load(&format!("{HEAD}{function}{kernels}")).unwrap_err();
        assert!(error.message.contains("put in place"), "{}", error.message);
    });
}

/// A list of branch targets is copied with each call.
#[test]
fn many_calls_of_a_function_with_many_branch_targets_are_refused() {
    in_child("many_calls_of_a_function_with_many_branch_targets_are_refused", 60, || {
        let table = vec!["L"; 20_000].join(", ");
        let function = format!(
            ".func f() {{ .reg .b32 %r<2>; mov.u32 %r1, 0; T: .branchtargets {table}; brx.idx %r1, T; L: ret; }}"
        );
        let calls = lines(20_000, |_| "call.uni f;".to_owned());
        let text = format!("{HEAD}{function}.visible .entry k() {{ {calls} ret; }}");
        Program::load(&text).unwrap_err();
    });
}

/// Compiling is part of the launch; what is not ready in time is ready for a later launch.
#[test]
fn the_time_limit_covers_compiling() {
    let mut kernel = Try::new(&holds(2000, ""));
    kernel.limit = Duration::from_nanos(1);
    let fault = kernel.words(1).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Timeout);
    assert!(fault.what.contains("not compiled"), "{}", fault.what);
    kernel.limit = Duration::ZERO;
    kernel.words(1).unwrap();
}

/// Registers of each type, in a body so long that they are held in memory: the results are the same.
#[test]
fn registers_that_are_held_in_memory_keep_what_they_hold() {
    let sum = "ld.global.u32 %r5, [%rd1]; mov.b32 %f1, 0f40400000; cvt.f64.f32 %d1, %f1; mov.u16 %h1, 7; mov.u64 %rd2, 0x100000002;
    setp.eq.u32 %p1, %r5, 0; add.cc.u32 %r6, %r5, -1; mov.u32 %r7, -1; add.cc.u32 %r6, %r7, 1;";
    let more = "addc.u32 %r6, 0, 0; add.f32 %f1, %f1, %f1; fma.rn.f64 %d1, %d1, %d1, %d1; cvt.rzi.u32.f32 %r3, %f1; cvt.rzi.u32.f64 %r4, %d1;
    mad.lo.u32 %r2, %r3, 1000, %r4; cvt.u32.u16 %r3, %h1; mad.lo.u32 %r2, %r3, 100000, %r2; shr.u64 %rd2, %rd2, 32;
    cvt.u32.u64 %r3, %rd2; mad.lo.u32 %r2, %r3, 1000000, %r2; @%p1 add.u32 %r2, %r2, 10000000; mad.lo.u32 %r2, %r6, 100000000, %r2;";
    let padding = lines(4000, |index| format!("add.u32 %v{index}, %r5, 0;"));
    let use_padding = lines(4000, |index| format!("add.u32 %r2, %r2, %v{index};"));
    for wait in ["", "bar.sync 0;", "shfl.sync.idx.b32 %r5, %r5, 0, 31, -1; bar.sync 0;"] {
        for checks in MODES {
            let mut kernel = Try::new(&format!(
                ".visible .entry k(.param .u64 out) {{ .reg .b16 %h<2>; .reg .b32 %r<9>; .reg .b32 %v<4000>; .reg .b64 %rd<4>;
    .reg .f32 %f<2>; .reg .f64 %d<2>; .reg .pred %p<2>;
    ld.param.u64 %rd1, [out]; {sum} {padding} {wait} {more} {use_padding} st.global.u32 [%rd1], %r2; ret; }}"
            ))
            .checks(checks);
            kernel.limit = Duration::ZERO;
            assert_eq!(kernel.words(1).unwrap(), [111_706_012], "{wait:?}");
        }
    }
}

/// Putting calls in place goes as deep as they do, on a stack that the program chose.
#[test]
fn a_chain_of_calls_is_loaded_whoever_loads_it() {
    in_child("a_chain_of_calls_is_loaded_whoever_loads_it", 60, || {
        let chain =
            lines(200, |index| format!(".func f{}() {{ call.uni f{index}; ret; }}", index + 1));
        let text = format!(
            "{HEAD}.func f0() {{ ret; }}\n{chain}.visible .entry k() {{ call.uni f198; ret; }}"
        );
        let small = thread::Builder::new().stack_size(64 << 10);
        small.spawn(move || Program::load(&text).map(drop).unwrap()).unwrap().join().unwrap();
    });
}
