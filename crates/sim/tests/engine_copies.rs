//! Asynchronous copies: they take effect when their thread waits, and until then nobody may touch what they write.

mod engine_support;

use engine_support::{ALL, MEMORY, MODES, NONE, Try, range};
use gpulend_sim::engine::{Checks, FaultKind, KernelFault};

/// Thread `%r1` has 16 bytes of shared memory at `%r2`, of input at `%rd1`, and of output at `%rd2`; its neighbour's are
/// at `%r3`.
fn kernel(body: &str) -> String {
    format!(
        ".visible .entry k(.param .u64 input, .param .u64 output) {{ .reg .b32 %r<12>; .reg .b64 %rd<9>; .reg .pred %p<4>;
        .shared .align 16 .b8 tile[1024];
        ld.param.u64 %rd1, [input]; ld.param.u64 %rd2, [output]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 16;
        add.u64 %rd1, %rd1, %rd3; add.u64 %rd2, %rd2, %rd3; shl.b32 %r4, %r1, 4; mov.u32 %r5, tile; add.u32 %r2, %r5, %r4;
        xor.b32 %r4, %r4, 512; add.u32 %r3, %r5, %r4; setp.eq.u32 %p1, %r1, 5; setp.ne.u32 %p2, %r1, 5;
        {body}
        ret; }}"
    )
}

const LOAD: &str =
    "ld.shared.v4.b32 {%r6, %r7, %r8, %r9}, [%r2]; st.global.v4.b32 [%rd2], {%r6, %r7, %r8, %r9};";
const LOAD_OTHER: &str =
    "ld.shared.v4.b32 {%r6, %r7, %r8, %r9}, [%r3]; st.global.v4.b32 [%rd2], {%r6, %r7, %r8, %r9};";
const COPY: &str = "cp.async.cg.shared.global [%r2], [%rd1], 16;";
const ZERO: &str = "st.shared.v4.b32 [%r2], {0, 0, 0, 0};";
const COMMIT: &str = "cp.async.commit_group;";
const WAIT: &str = "cp.async.wait_group 0;";
const BARRIER: &str = "bar.sync 0;";

/// The words that 64 threads store; the input is 1, 2 and so on.
fn words(body: &str, checks: Checks) -> Result<Vec<u32>, Box<KernelFault>> {
    let mut input: Vec<u32> = (1..=256).collect();
    let mut output = vec![0_u32; 256];
    let memory = [range(&mut input), range(&mut output)];
    Try::newer(&kernel(body))
        .shape(1, 64)
        .checks(checks)
        .run(&[memory[0].0, memory[1].0], &memory)?;
    Ok(output)
}

#[test]
fn a_copy_takes_effect_when_its_thread_waits_for_it() {
    let all: Vec<u32> = (1..=256).collect();
    for checks in MODES {
        for body in [
            format!("{COPY} {COMMIT} {WAIT} {LOAD}"),
            format!("{COPY} cp.async.wait_all; {LOAD}"),
            // Groups after it may still be on their way.
            format!("{COPY} {COMMIT} {COMMIT} {COMMIT} cp.async.wait_group 2; {LOAD}"),
            format!("cp.async.ca.shared.global [%r2], [%rd1], 8; cp.async.ca.shared.global [%r2+8], [%rd1+8], 4;
                cp.async.ca.shared.global [%r2+12], [%rd1+12], 4; cp.async.wait_all; {LOAD}"),
        ] {
            assert_eq!(words(&body, checks).unwrap(), all, "{body}");
        }
        let other = words(&format!("{COPY} {COMMIT} {WAIT} {BARRIER} {LOAD_OTHER}"), checks);
        let turned: Vec<u32> = (0..256_u32).map(|one| (one ^ 128) + 1).collect();
        assert_eq!(other.unwrap(), turned);
    }
    // Before that, what was there is there, in every run.
    for checks in [NONE, MEMORY] {
        for wait in
            ["", COMMIT, "cp.async.wait_group 0;", "cp.async.commit_group; cp.async.wait_group 1;"]
        {
            let found = words(&format!("{ZERO} {COPY} {wait} {LOAD}"), checks).unwrap();
            assert_eq!(found, [0; 256], "{wait}");
        }
    }
}

#[test]
fn bytes_that_are_not_taken_are_zeros() {
    for checks in MODES {
        for (count, kept) in [("0", 0), ("4", 1), ("12", 3), ("16", 4)] {
            // Nothing is read where nothing is taken: the address may be wrong.
            let from = if kept == 0 { "mov.u64 %rd1, 64;" } else { "" };
            let body = format!(
                "{from} mov.u32 %r10, {count}; cp.async.cg.shared.global [%r2], [%rd1], 16, %r10; cp.async.wait_all; {LOAD}"
            );
            let wanted: Vec<u32> =
                (0..256).map(|one| if one % 4 < kept { one + 1 } else { 0 }).collect();
            assert_eq!(words(&body, checks).unwrap(), wanted, "{count}");
        }
        let body =
            format!("cp.async.cg.shared.global [%r2], [%rd1], 16, %p1; cp.async.wait_all; {LOAD}");
        let wanted: Vec<u32> = (0..256).map(|one| if one / 4 == 5 { 0 } else { one + 1 }).collect();
        assert_eq!(words(&body, checks).unwrap(), wanted);
    }
}

#[test]
fn what_a_copy_writes_is_touched_by_nobody_before_its_thread_waited() {
    let copied = "still writes: it has not waited for it";
    let unordered = "with no barrier in between";
    for (body, says) in [
        // By the thread itself, with no wait or one for too few groups.
        (format!("{COPY} {COMMIT} {LOAD}"), Some(copied)),
        (format!("{COPY} {WAIT} {LOAD}"), Some(copied)),
        (format!("{COPY} {COMMIT} cp.async.wait_group 1; {LOAD}"), Some(copied)),
        (format!("{COPY} {COMMIT} {ZERO} {WAIT}"), Some(copied)),
        // By another thread: a barrier does not wait for copies, and a wait is no barrier.
        (format!("{COPY} {COMMIT} {BARRIER} {LOAD_OTHER} {WAIT}"), Some(copied)),
        (format!("{ZERO} {BARRIER} {COPY} {COMMIT} {WAIT} {LOAD_OTHER}"), Some(unordered)),
        (format!("{ZERO} {BARRIER} {COPY} {COMMIT} {BARRIER} {WAIT} {LOAD_OTHER}"), Some(copied)),
        (format!("{COPY} {COMMIT} {WAIT} {BARRIER} {LOAD_OTHER}"), None),
        // The next copy comes before all have read, or after.
        (format!("{ZERO} {BARRIER} {LOAD_OTHER} {COPY} {COMMIT} {WAIT}"), Some(unordered)),
        (format!("{ZERO} {BARRIER} {LOAD_OTHER} {BARRIER} {COPY} {COMMIT} {WAIT}"), None),
        // Two copies to one place: of the same bytes, or of others.
        ("cp.async.cg.shared.global [%r5], [%rd1], 16; cp.async.wait_all;".to_owned(), Some("")),
        ("ld.param.u64 %rd1, [input]; cp.async.cg.shared.global [%r5], [%rd1], 16; cp.async.wait_all;".to_owned(), None),
        (format!("{COPY} cp.async.cg.shared.global [%r2], [%rd2], 16; cp.async.wait_all;"), Some(copied)),
    ] {
        // In words, or in bytes.
        for narrow in ["", "st.shared.b8 [%r5+1023], 1;"] {
            let found = words(&format!("{body} bar.sync 0; @%p1 {narrow} mov.u32 %r11, 0;").replace("@%p1  ", ""), ALL);
            match (says, found) {
                (None, found) => drop(found.unwrap_or_else(|fault| panic!("{body}: {}", fault.what))),
                (Some(says), Ok(_)) => panic!("{body} was not found; wanted: {says}"),
                (Some(says), Err(fault)) => {
                    assert_eq!(fault.kind, FaultKind::Race, "{body}: {}", fault.what);
                    assert!(fault.what.contains(says), "{body}: {}", fault.what);
                }
            }
        }
    }
}

#[test]
fn both_ends_of_a_copy_are_checked() {
    for (body, kind, says) in [
        ("add.u64 %rd1, %rd1, 65536;", FaultKind::OutOfBounds, "reads 16 bytes at"),
        ("@%p1 add.u64 %rd1, %rd1, 944;", FaultKind::OutOfBounds, "reads 16 bytes at"),
        ("add.u64 %rd1, %rd1, 8;", FaultKind::Misaligned, "reads 16 bytes at"),
        ("add.u32 %r2, %r2, 8;", FaultKind::Misaligned, "writes 16 bytes at"),
        (
            "@%p1 add.u32 %r2, %r5, 1024;",
            FaultKind::OutOfBounds,
            "writes 16 bytes of shared memory at offset 1024, of which there are 1024",
        ),
    ] {
        for checks in [MEMORY, ALL] {
            let fault = words(&format!("{body} {COPY} cp.async.wait_all;"), checks).unwrap_err();
            assert_eq!(fault.kind, kind, "{body}: {}", fault.what);
            assert!(fault.what.contains(says), "{body}: {}", fault.what);
        }
    }
}
