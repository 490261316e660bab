//! Which accesses to shared memory are races: those whose order can be seen.

mod engine_support;

use engine_support::{ALL, Try};
use gpulend_sim::engine::FaultKind;

/// A kernel whose threads, numbered in `%r1`, do this with the shared word at `%r2`.
fn kernel(body: &str, threads: u32) -> Try {
    Try::new(&format!(
        ".visible .entry k(.param .u64 out) {{ .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .b16 %h<3>; .reg .f32 %f<3>;
        .reg .pred %p<5>; .shared .align 16 .b8 tile[64];
ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, tile; mov.u32 %r5, 5; mov.u16 %h1, 5; mov.f32 %f1, 0f40A00000;
cvt.u64.u32 %rd4, %r2; cvta.shared.u64 %rd3, %rd4; mov.u64 %rd5, 0x500000005; and.b32 %r6, %r1, 1; setp.eq.u32 %p1, %r1, 0;
setp.eq.u32 %p2, %r1, 1; setp.ne.u32 %p3, %r1, 0; setp.eq.u32 %p4, %r1, 95;
{body}
ret; }}"
    ))
    .shape(1, threads)
    .checks(ALL)
}

/// Stores of each width and way, by all threads.
const STORES: [&str; 9] = [
    "st.shared.b32 [%r2], %r5;",
    "st.shared.v2.b32 [%r2], {%r5, %r5};",
    "st.shared.v4.b32 [%r2], {%r5, 1, %r5, 2};",
    "st.shared.f32 [%r2], %f1;",
    "st.shared.b64 [%r2], %rd5;",
    "st.shared.v2.b64 [%r2], {%rd5, %rd5};",
    "st.shared.b8 [%r2+3], %h1;",
    "st.shared.v4.b8 [%r2], {%h1, 1, 2, %h1};",
    "st.b32 [%rd3], %r5;",
];

/// Whether words are checked in compiled code or by a hook, also where warps are synchronised.
#[test]
fn several_threads_may_write_the_same_bytes() {
    for store in STORES {
        for after in ["", "bar.sync 0;", "bar.sync 0; bar.warp.sync -1;"] {
            kernel(&format!("{store} {store} {after}"), 70).run(&[0], &[]).unwrap_or_else(
                |fault| {
                    panic!("{store} {after}: {}", fault.what);
                },
            );
        }
    }
}

/// The last element or byte of one thread's value is another.
#[test]
fn threads_that_write_different_bytes_race() {
    let differ = "setp.eq.u32 %p4, %r1, 40; @%p4 mov.u32 %r5, 6; @%p4 mov.u16 %h1, 6; @%p4 mov.f32 %f1, 0f40A00001;
    @%p4 mov.u64 %rd5, 0x600000005;";
    for store in STORES {
        for after in ["", "bar.sync 0; bar.warp.sync -1;"] {
            let fault =
                kernel(&format!("{differ} {store} {after}"), 70).run(&[0], &[]).unwrap_err();
            assert_eq!((fault.kind, fault.thread), (FaultKind::Race, [40, 0, 0]), "{store}");
            assert!(fault.what.contains("which thread 39 of the block wrote"), "{}", fault.what);
        }
    }
}

/// Each of these ends with a race, or with none.
#[test]
fn an_order_that_can_be_seen_is_a_race_and_one_that_cannot_is_none() {
    let write = |value: &str| format!("st.shared.b32 [%r2], {value};");
    let (same, own) = (write("%r5"), write("%r1"));
    let read = "ld.shared.b32 %r7, [%r2]; add.u32 %r7, %r7, 1; st.global.b32 [%rd1], %r7;";
    let atomic = "atom.shared.add.u32 %r7, [%r2], 1;";
    for (body, is_race) in [
        // All write the same, and read what they wrote.
        (format!("{same} {read}"), false),
        (format!("{same} {read} {same} {read}"), false),
        // One of them then writes another value, which the others' order decides about.
        (format!("{same} @%p2 {}", write("6")), true),
        (format!("{same} @%p4 {}", write("6")), true),
        (format!("{same} bar.sync 0; @%p2 {}", write("6")), false),
        // What was the same before the barrier is not the same after it.
        (format!("{same} bar.sync 0; {own}"), true),
        // Some read what others wrote, which may come later.
        (format!("@%p1 {same} @%p3 {read}"), true),
        (format!("{same} bar.sync 0; @%p1 {} @%p3 {read}", write("6")), true),
        // The last thread writes what the others have read, or another value.
        (format!("{same} bar.sync 0; {read} @%p4 {same}"), false),
        (format!("{same} bar.sync 0; {read} @%p4 {}", write("6")), true),
        // A read of what another thread wrote since the barrier is a race, whatever that was.
        (format!("{same} bar.sync 0; {read} {same}"), true),
        // A sum is not the same whichever comes first.
        (format!("{} bar.sync 0; @%p1 {atomic} @%p2 {}", write("0"), write("1")), true),
        (format!("{same} {atomic}"), true),
    ] {
        // In compiled code, or by the hook: for the sake of a byte, or of a warp that is synchronised.
        for around in ["", "st.shared.b8 [%r2+32], 1;", "bar.warp.sync -1; bar.sync 0;"] {
            let text = format!("{body} {around}");
            let mut out = [0_u32; 1];
            let memory = engine_support::range(&mut out);
            // Threads of several warps, which only a barrier orders.
            let ended = kernel(&guarded(&text), 96).run(&[memory.0], &[memory]);
            let found = ended.err().map(|fault| fault.kind);
            assert_eq!(found, is_race.then_some(FaultKind::Race), "{text}");
        }
    }
}

/// Repeats a guard before each instruction up to the next guard or barrier.
fn guarded(text: &str) -> String {
    let mut guard = String::new();
    let mut whole = String::new();
    for instruction in text.split_inclusive(';') {
        let instruction = instruction.trim();
        if let Some((found, rest)) =
            instruction.strip_prefix('@').and_then(|rest| rest.split_once(' '))
        {
            guard = format!("@{found} ");
            whole += &format!("{guard}{rest}\n");
        } else if instruction.starts_with("bar") {
            guard.clear();
            whole += &format!("{instruction}\n");
        } else {
            whole += &format!("{guard}{instruction}\n");
        }
    }
    whole
}

/// Lanes that wrote the same are ordered by their warp's synchronisation as others are.
#[test]
fn a_synchronised_warp_may_change_what_its_lanes_wrote() {
    let text =
        "st.shared.b32 [%r2], %r5; bar.warp.sync -1; @%p1 st.shared.b32 [%r2], 6; bar.warp.sync -1;
    setp.eq.u32 %p4, %r1, 31; @%p4 st.shared.b32 [%r2], 7;";
    kernel(text, 32).run(&[0], &[]).unwrap();
    let fault = kernel(text, 64).run(&[0], &[]).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Race);
}

/// Whether lanes clear a counter of their own or one of another lane's, all of them may add to it next.
#[test]
fn a_synchronised_warp_may_add_to_what_its_lanes_cleared() {
    let text = "@%p1 st.shared.b32 [%r2], 0; bar.warp.sync -1; atom.shared.add.u32 %r7, [%r2], 1;";
    kernel(text, 32).run(&[0], &[]).unwrap();
    // Without the synchronisation a lane may add before it is cleared.
    let fault = kernel(&text.replace("bar.warp.sync -1;", ""), 32).run(&[0], &[]).unwrap_err();
    assert_eq!((fault.kind, fault.thread), (FaultKind::Race, [1, 0, 0]));
}
