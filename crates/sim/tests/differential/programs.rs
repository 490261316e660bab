//! Small programs whose results are known: of the interpreter, and of the engine.

use crate::compare::Case;

/// A kernel's body that stores `%r0` of each thread in the end, and what each thread is to store.
struct Known {
    name: &'static str,
    threads: u32,
    dynamic_shared: u32,
    before: &'static str,
    body: &'static str,
    expected: fn(u32) -> u32,
}

/// The mask of `count` lanes from `first` on.
const fn lanes(first: u32, count: u32) -> u32 {
    ((1 << count) - 1) << first
}

const KNOWN: [Known; 13] = [
    Known {
        name: "each thread chooses a function of a table, which calls another by its address",
        threads: 40,
        dynamic_shared: 0,
        before: "
.func (.param .b32 result) twice(.param .b32 n) {
    .reg .b32 %r<2>;
    ld.param.b32 %r0, [n]; add.u32 %r0, %r0, %r0; st.param.b32 [result], %r0; ret;
}
.func (.param .b32 result) plus(.param .b64 f, .param .b32 n) {
    .reg .b32 %r<2>; .reg .b64 %rd;
    ld.param.b64 %rd, [f]; ld.param.b32 %r0, [n];
    { .param .b32 a; .param .b32 b; st.param.b32 [a], %r0;
    P: .callprototype (.param .b32 _) _ (.param .b32 _); call.uni (b), %rd, (a), P; ld.param.b32 %r1, [b]; }
    add.u32 %r0, %r1, 1; st.param.b32 [result], %r0; ret;
}
.func (.param .b32 result) minus(.param .b64 f, .param .b32 n) {
    .reg .b32 %r<2>;
    ld.param.b32 %r0, [n]; sub.u32 %r0, 100, %r0; st.param.b32 [result], %r0; ret;
}",
        body: "{ .reg .b64 %f, %g; and.b32 %r1, %t, 1; setp.eq.u32 %p0, %r1, 0; mov.u64 %f, plus; mov.u64 %g, minus;
            selp.b64 %f, %f, %g, %p0; mov.u64 %g, twice;
            { .param .b64 a; .param .b32 b; .param .b32 c; st.param.b64 [a], %g; st.param.b32 [b], %t;
            P: .callprototype (.param .b32 _) _ (.param .b64 _, .param .b32 _);
            call (c), %f, (a, b), P; ld.param.b32 %r0, [c]; } }",
        expected: |thread| if thread.is_multiple_of(2) { 2 * thread + 1 } else { 100 - thread },
    },
    Known {
        name: "a function calls itself",
        threads: 12,
        dynamic_shared: 0,
        before: "
.func (.param .b32 result) factorial(.param .b32 n) {
    .reg .b32 %r<4>; .reg .pred %p;
    ld.param.b32 %r0, [n]; mov.u32 %r1, 1;
    setp.lt.u32 %p, %r0, 2; @%p bra DONE;
    sub.u32 %r2, %r0, 1;
    { .param .b32 a; .param .b32 b; st.param.b32 [a], %r2; call (b), factorial, (a); ld.param.b32 %r3, [b]; }
    mul.lo.u32 %r1, %r3, %r0;
DONE: st.param.b32 [result], %r1; ret;
}",
        body: "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %t; call (b), factorial, (a); ld.param.b32 %r0, [b]; }",
        expected: |thread| (1..=thread).product(),
    },
    Known {
        name: "threads exchange through shared memory of the launch",
        threads: 64,
        dynamic_shared: 256,
        before: ".extern .shared .align 4 .b8 dynamic[];",
        body: "mul.lo.u32 %r1, %t, 4; mov.u32 %r2, dynamic; add.u32 %r1, %r1, %r2; mul.lo.u32 %r3, %t, 7;
            st.shared.u32 [%r1], %r3; bar.sync 0;
            xor.b32 %r1, %t, 63; mul.lo.u32 %r1, %r1, 4; add.u32 %r1, %r1, %r2; ld.shared.u32 %r0, [%r1];",
        expected: |thread| (63 - thread) * 7,
    },
    Known {
        name: "a warp adds up by shuffles",
        threads: 32,
        dynamic_shared: 0,
        before: "",
        body: "mov.u32 %r0, %t;
            shfl.sync.bfly.b32 %r1, %r0, 16, 31, -1; add.u32 %r0, %r0, %r1;
            shfl.sync.bfly.b32 %r1, %r0, 8, 31, -1; add.u32 %r0, %r0, %r1;
            shfl.sync.bfly.b32 %r1, %r0, 4, 31, -1; add.u32 %r0, %r0, %r1;
            shfl.sync.bfly.b32 %r1, %r0, 2, 31, -1; add.u32 %r0, %r0, %r1;
            shfl.sync.bfly.b32 %r1, %r0, 1, 31, -1; add.u32 %r0, %r0, %r1;",
        expected: |_| 496,
    },
    Known {
        name: "shuffles stay in their segment",
        threads: 32,
        dynamic_shared: 0,
        before: "",
        body: "shfl.sync.up.b32 %r0|%p0, %t, 3, 0x1800, -1; @!%p0 add.u32 %r0, %r0, 100;",
        expected: |thread| if thread % 8 < 3 { thread + 100 } else { thread - 3 },
    },
    Known {
        name: "a block counts",
        threads: 48,
        dynamic_shared: 0,
        before: "",
        body: "and.b32 %r1, %t, 3; setp.eq.u32 %p0, %r1, 0; bar.red.popc.u32 %r0, 1, %p0;
            bar.red.or.pred %p1, 0, %p0; @%p1 add.u32 %r0, %r0, 100; bar.red.and.pred %p1, 0, %p0;
            @%p1 add.u32 %r0, %r0, 1000;",
        expected: |_| 112,
    },
    Known {
        name: "lanes vote",
        threads: 32,
        dynamic_shared: 0,
        before: "",
        body: "and.b32 %r1, %t, 1; setp.eq.u32 %p0, %r1, 1; vote.sync.ballot.b32 %r0, %p0, -1;
            vote.sync.all.pred %p1, %p0, -1; @%p1 mov.u32 %r0, 0; vote.sync.any.pred %p1, %p0, -1;
            @!%p1 mov.u32 %r0, 1; vote.sync.uni.pred %p1, %p0, -1; @%p1 mov.u32 %r0, 2;",
        expected: |_| 0xaaaa_aaaa,
    },
    Known {
        name: "lanes find those with the same value, in two parts of the warp",
        threads: 32,
        dynamic_shared: 0,
        before: "",
        body: "shr.u32 %r1, %t, 3; setp.lt.u32 %p0, %t, 20; @%p0 bra FIRST;
            match.any.sync.b32 %r0, %r1, 0xfff00000; bra DONE;
FIRST:      match.any.sync.b32 %r0, %r1, 0x000fffff;
DONE:",
        expected: |thread| match thread {
            0..16 => lanes(thread / 8 * 8, 8),
            16..20 => lanes(16, 4),
            20..24 => lanes(20, 4),
            _ => lanes(24, 8),
        },
    },
    Known {
        name: "threads that ended are not waited for",
        threads: 64,
        dynamic_shared: 0,
        before: ".shared .align 4 .b32 word;",
        body: "mov.u32 %r0, %t; st.global.u32 [%address], %r0; setp.ge.u32 %p0, %t, 40; @%p0 exit;
            setp.eq.u32 %p0, %t, 5; @%p0 st.shared.u32 [word], 77; bar.sync 0; ld.shared.u32 %r0, [word];",
        expected: |thread| if thread < 40 { 77 } else { thread },
    },
    Known {
        name: "one warp makes what another waits for",
        threads: 64,
        dynamic_shared: 0,
        before: ".shared .align 4 .b8 words[128];",
        body: "and.b32 %r1, %t, 31; mul.lo.u32 %r1, %r1, 4; mov.u32 %r2, words; add.u32 %r1, %r1, %r2;
            setp.ge.u32 %p0, %t, 32; mov.u32 %r0, %t; @%p0 bra WAITS;
            st.shared.u32 [%r1], %t; bar.arrive 2, 64; bra DONE;
WAITS:      bar.sync 2, 64; ld.shared.u32 %r0, [%r1];
DONE:",
        expected: |thread| thread % 32,
    },
    Known {
        name: "tables of branches are followed",
        threads: 9,
        dynamic_shared: 0,
        before: "",
        body: "rem.u32 %r1, %t, 3;
TABLE:      .branchtargets A, B, C;
            brx.idx %r1, TABLE;
A:          mov.u32 %r0, 10; bra DONE;
B:          mov.u32 %r0, 20; bra DONE;
C:          mov.u32 %r0, 30;
DONE:",
        expected: |thread| (thread % 3 + 1) * 10,
    },
    Known {
        name: "short values are extended as their type says",
        threads: 4,
        dynamic_shared: 0,
        before: ".global .align 4 .b8 bytes[4] = {1, 128, 127, 255};",
        body: ".reg .b64 %at; mov.u64 %at, bytes; cvt.u64.u32 %wide, %t; add.u64 %at, %at, %wide;
            ld.global.s8 %r0, [%at]; ld.global.u8 %r1, [%at]; add.u32 %r0, %r0, %r1;
            ld.global.s16 %r1, [bytes+2]; add.u32 %r0, %r0, %r1;",
        expected: |thread| [2_u32, 0, 254, 254][thread as usize].wrapping_add(0xffff_ff7f),
    },
    Known {
        name: "threads add to one word",
        threads: 64,
        dynamic_shared: 0,
        before: ".shared .align 4 .b32 sum;",
        body: "setp.eq.u32 %p0, %t, 0; @%p0 st.shared.u32 [sum], 1; bar.sync 0; red.shared.add.u32 [sum], %t; bar.sync 0;
            ld.shared.u32 %r0, [sum];",
        expected: |_| 2017,
    },
];

fn case(known: &Known) -> Case {
    let text = format!(
        ".version 7.8\n.target sm_75\n.address_size 64\n{}
.visible .entry kernel(.param .u64 out) {{
    .reg .b32 %r<4>; .reg .b32 %t; .reg .b64 %address; .reg .b64 %wide; .reg .pred %p<2>;
    mov.u32 %t, %tid.x; ld.param.u64 %address, [out]; mul.wide.u32 %wide, %t, 4; add.u64 %address, %address, %wide;
{}
    st.global.u32 [%address], %r0;
    ret;
}}\n",
        known.before, known.body
    );
    let output = vec![0xcd; known.threads as usize * 4];
    let mut case = Case::of(text, [1, 1, 1], [known.threads, 1, 1], vec![output])
        .unwrap_or_else(|why| panic!("{}: {why}", known.name));
    case.dynamic_shared = known.dynamic_shared;
    case
}

fn check(run: impl Fn(&mut Case) -> Result<crate::compare::Outcome, String>) {
    for known in &KNOWN {
        let outcome = run(&mut case(known)).unwrap_or_else(|why| panic!("{}: {why}", known.name));
        let expected: Vec<u8> =
            (0..known.threads).flat_map(|thread| (known.expected)(thread).to_le_bytes()).collect();
        assert_eq!(outcome.buffer(0), expected, "{}", known.name);
    }
}

#[test]
fn the_interpreter_gives_the_known_results() {
    check(|case| case.interpret(None));
}

#[test]
fn the_engine_gives_the_known_results() {
    check(|case| {
        // The checks refuse barriers that ended threads never reach; without them those count as arrived.
        case.checked = false;
        case.execute()
    });
}
