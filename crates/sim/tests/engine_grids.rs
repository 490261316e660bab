//! Cooperative launches: blocks of the grid wait for each other.

mod engine_support;

use std::time::Duration;

use engine_support::{ALL, MODES, NONE, Try, in_child};
use gpulend_sim::engine::FaultKind;

/// What `cooperative_groups.h` has, as a module brings it. Its body waits for blocks that do not run yet, so that it must not
/// run.
const FUNCTIONS: &str =
    ".weak .func __gpulend_grid_arrive() { .reg .b32 %r<2>; L: mov.u32 %r1, 1; bra L; }
.weak .func __gpulend_grid_wait() { .reg .b32 %r<2>; L: mov.u32 %r1, 1; bra L; }
.weak .func (.param .b32 result) __gpulend_is_cooperative() { st.param.b32 [result], 7; ret; }
";

/// A kernel whose threads, numbered in `%r1`, of block `%r2` of `%r3`, do this with words at `%rd1`. `%p1` holds for the first
/// thread, `%p2` for the last block.
fn kernel(body: &str, blocks: u32, threads: u32) -> Try {
    with("", body, blocks, threads)
}

/// The same, with functions of its own.
fn with(functions: &str, body: &str, blocks: u32, threads: u32) -> Try {
    let ask = "call.uni (answer), __gpulend_is_cooperative, (); ld.param.b32 %r7, [answer];";
    let body = body
        .replace("SYNC", "ARRIVE WAIT")
        .replace("ARRIVE", "call.uni __gpulend_grid_arrive, ();")
        .replace("WAIT", "call.uni __gpulend_grid_wait, ();")
        .replace("ASK", ask);
    let mut launch = Try::new(&format!(
        "{FUNCTIONS}{functions}
.visible .entry k(.param .u64 out) {{ .reg .b32 %r<20>; .reg .b64 %rd<9>; .reg .pred %p<9>; .param .b32 answer;
.shared .align 4 .b8 tile[64];
ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %nctaid.x;
setp.eq.u32 %p1, %r1, 0; add.u32 %r4, %r2, 1; setp.eq.u32 %p2, %r4, %r3;
{body}
ret; }}"
    ))
    .shape(blocks, threads);
    launch.cooperative = true;
    launch
}

/// In each of ten rounds, each block adds its neighbour's number to its own.
const ROUNDS: &str = "mul.wide.u32 %rd2, %r2, 4; add.u64 %rd2, %rd1, %rd2;
rem.u32 %r5, %r4, %r3; mul.wide.u32 %rd3, %r5, 4; add.u64 %rd3, %rd1, %rd3;
mov.u32 %r10, 0; @%p1 st.global.u32 [%rd2], %r4;
AGAIN: SYNC
ld.global.u32 %r11, [%rd3]; ARRIVE
@%p1 ld.global.u32 %r12, [%rd2]; @%p1 add.u32 %r12, %r12, %r11; WAIT @%p1 st.global.u32 [%rd2], %r12;
add.u32 %r10, %r10, 1; setp.lt.u32 %p5, %r10, 10; @%p5 bra AGAIN;";

fn rounds(blocks: u32) -> Vec<u32> {
    let mut words: Vec<u32> = (1..=blocks).collect();
    for _ in 0..10 {
        let first = words.clone();
        for (index, word) in words.iter_mut().enumerate() {
            *word += first[(index + 1) % first.len()];
        }
    }
    words
}

/// On one host thread, and on several.
#[test]
fn blocks_see_what_all_others_wrote_before_the_barrier() {
    for checks in MODES {
        for (blocks, threads) in [(1, 1), (3, 5), (64, 64), (17, 300)] {
            let found = kernel(ROUNDS, blocks, threads).checks(checks).words(blocks as usize);
            assert_eq!(found.unwrap_or_else(|fault| panic!("{}", fault.what)), rounds(blocks));
        }
    }
}

/// Calls and exchanges in a warp around it, and memory of a block that lasts.
#[test]
fn what_threads_and_blocks_keep_lasts_through_a_barrier() {
    let body = "mov.u32 %r9, tile; @%p1 st.shared.u32 [%r9], %r2; SYNC
ld.shared.u32 %r6, [%r9]; shfl.sync.bfly.b32 %r5, %r1, 1, 31, -1; SYNC
mad.lo.u32 %r5, %r6, 100, %r5; mad.lo.u32 %r8, %r2, 64, %r1; mul.wide.u32 %rd2, %r8, 4; add.u64 %rd2, %rd1, %rd2;
st.global.u32 [%rd2], %r5;";
    let wanted: Vec<u32> = (0..5 * 64).map(|index| index / 64 * 100 + ((index % 64) ^ 1)).collect();
    assert_eq!(kernel(body, 5, 64).words(5 * 64).unwrap(), wanted);
}

/// Such kernels run on host threads of their own.
#[test]
fn functions_that_call_themselves_are_called_between_barriers() {
    let sum = ".func (.param .b32 sum) add(.param .b32 to) { .reg .b32 %r<5>; .reg .pred %p<2>; .param .b32 i; .param .b32 o;
ld.param.u32 %r1, [to]; mov.u32 %r3, 0; setp.eq.u32 %p1, %r1, 0; @%p1 bra END;
sub.u32 %r2, %r1, 1; st.param.b32 [i], %r2; call.uni (o), add, (i); ld.param.b32 %r3, [o]; add.u32 %r3, %r3, %r1;
END: st.param.b32 [sum], %r3; ret; }
";
    let body = "SYNC .param .b32 i; st.param.b32 [i], %r2; call.uni (answer), add, (i); ld.param.b32 %r7, [answer]; SYNC
mul.wide.u32 %rd2, %r2, 4; add.u64 %rd2, %rd1, %rd2; @%p1 st.global.u32 [%rd2], %r7;";
    let wanted: Vec<u32> = (0..64).map(|number| number * (number + 1) / 2).collect();
    assert_eq!(with(sum, body, 64, 64).words(64).unwrap(), wanted);
}

/// The barrier of the grid orders accesses of a block's memory as that of the block does.
#[test]
fn a_barrier_of_the_grid_is_one_of_each_block() {
    let body = |between: &str| {
        format!(
            "mov.u32 %r9, tile; @%p1 st.shared.u32 [%r9], %r2; {between} ld.shared.u32 %r6, [%r9]; st.global.u32 [%rd1], %r6;"
        )
    };
    kernel(&body("SYNC"), 4, 40).words(1).unwrap_or_else(|fault| panic!("{}", fault.what));
    let fault = kernel(&body(""), 4, 40).words(1).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Race);
}

/// With checks and without: such a launch would never end.
#[test]
fn a_block_that_ends_while_others_wait_is_reported() {
    for (blocks, threads) in [(4, 1), (50, 100)] {
        for checks in MODES {
            let launch = kernel("@%p2 exit; SYNC", blocks, threads).checks(checks);
            let fault = launch.run(&[0], &[]).unwrap_err();
            assert_eq!((fault.kind, fault.block), (FaultKind::BarrierDivergence, [0; 3]));
            let wanted = format!(
                "waits at a barrier of the whole grid where block ({}, 0, 0) never waits: it has ended",
                blocks - 1
            );
            assert_eq!(fault.what, wanted);
        }
    }
}

/// Which threads of a block call the barrier, and where, is CUDA's to define.
#[test]
fn threads_that_miss_the_barrier_or_wait_at_another_are_reported() {
    for (body, wanted) in [
        ("@%p1 exit; SYNC", "never waits: it has ended"),
        ("@%p1 bra OTHER; SYNC ret; OTHER: SYNC", "thread 1 of the block at that of line"),
        ("@%p2 bra OTHER; SYNC ret; OTHER: SYNC", "block (2, 0, 0) at that of line"),
        ("@%p1 bra OTHER; SYNC ret; OTHER: bar.sync 0;", "never reach: they wait at another"),
    ] {
        let fault = kernel(body, 3, 40).checks(ALL).run(&[0], &[]).unwrap_err();
        assert_eq!(fault.kind, FaultKind::BarrierDivergence, "{body}");
        assert!(fault.what.contains(wanted), "{body}: {}", fault.what);
    }
    // A GPU does not look.
    for body in ["@%p1 exit; SYNC", "@%p2 bra OTHER; SYNC ret; OTHER: SYNC"] {
        kernel(body, 3, 40).checks(NONE).run(&[0], &[]).unwrap();
    }
}

#[test]
fn a_launch_that_is_not_cooperative_has_no_barrier_of_the_grid() {
    let mut launch = kernel("SYNC", 1, 32);
    launch.cooperative = false;
    let fault = launch.run(&[0], &[]).unwrap_err();
    assert_eq!(fault.kind, FaultKind::BarrierDivergence);
    assert_eq!(
        fault.what,
        "waits at a barrier of the whole grid, in a launch that is not cooperative"
    );
}

#[test]
fn a_kernel_knows_how_it_was_launched() {
    let mut launch = kernel("ASK st.global.u32 [%rd1], %r7;", 1, 1);
    assert_eq!(launch.words(1).unwrap(), [1]);
    launch.cooperative = false;
    assert_eq!(launch.words(1).unwrap(), [0]);
}

/// A function of the program's own may have such a name, and other parameters.
#[test]
fn functions_that_only_look_alike_are_called() {
    let text = ".weak .func (.param .b32 result) __gpulend_grid_wait() { st.param.b32 [result], 7; ret; }
.visible .entry k(.param .u64 out) { .reg .b32 %r<2>; .reg .b64 %rd<2>; .param .b32 answer; ld.param.u64 %rd1, [out];
call.uni (answer), __gpulend_grid_wait, (); ld.param.b32 %r1, [answer]; st.global.u32 [%rd1], %r1; ret; }";
    assert_eq!(Try::new(text).words(1).unwrap(), [7]);
}

/// A block that fails or never comes ends the launch, however many host threads wait for it.
#[test]
fn a_launch_ends_although_blocks_wait() {
    in_child("a_launch_ends_although_blocks_wait", 30, || {
        let fault = kernel("@%p2 trap; SYNC", 64, 64).run(&[0], &[]).unwrap_err();
        assert_eq!((fault.kind, fault.block), (FaultKind::Trap, [63, 0, 0]));
        let mut launch = kernel("@!%p2 bra OUT; LOOP: bra LOOP; OUT: SYNC", 64, 64);
        launch.limit = Duration::from_secs(1);
        assert_eq!(launch.run(&[0], &[]).unwrap_err().kind, FaultKind::Timeout);
    });
}

/// All blocks are there at the same time, with what their threads keep.
#[test]
fn memory_for_all_blocks_together_is_limited() {
    let body = ".local .align 4 .b8 big[500000]; mov.u32 %r9, 0; SYNC";
    let fault = kernel(body, 100, 32).run(&[0], &[]).unwrap_err();
    assert_eq!(fault.kind, FaultKind::StackOverflow);
    kernel(body, 2, 32).run(&[0], &[]).unwrap();
}
