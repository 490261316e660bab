//! Instructions on memory, of warps and blocks, and calls.

use crate::generator::{COUNTERS, Class, Generator, INPUT_BYTES, SCRATCH_BYTES};
use crate::generator_float::canonical;

/// What each counter is changed by, so that the order does not matter.
pub(crate) const COUNTER_OPS: [(&str, Class); COUNTERS] = [
    ("add.u32", Class::Word),
    ("and.b32", Class::Word),
    ("or.b32", Class::Word),
    ("xor.b32", Class::Word),
    ("min.s32", Class::Word),
    ("max.u32", Class::Word),
    ("add.u64", Class::Long),
    ("max.u64", Class::Long),
];

impl Generator {
    /// Different registers.
    fn different(&mut self, class: Class, count: usize) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        while found.len() < count {
            let register = self.register(class);
            if !found.contains(&register) {
                found.push(register);
            }
        }
        found
    }

    /// What is read or written: type, bytes, registers' class, how many at once.
    fn access(&mut self) -> (&'static str, usize, Class, usize) {
        let integer = [Class::Short, Class::Word, Class::Long];
        let narrow = integer[self.below(3)];
        let middle = integer[1 + self.below(2)];
        let table = [
            ("u8", 1, narrow, 1),
            ("s8", 1, narrow, 1),
            ("b8", 1, narrow, 2),
            ("u16", 2, narrow, 1),
            ("s16", 2, narrow, 1),
            ("s16", 2, narrow, 2),
            ("u32", 4, middle, 1),
            ("s32", 4, middle, 1),
            ("b32", 4, Class::Word, 2),
            ("u32", 4, Class::Word, 4),
            ("b64", 8, Class::Long, 1),
            ("u64", 8, Class::Long, 2),
            ("f32", 4, Class::Single, 1),
            ("f32", 4, Class::Single, 2),
            ("f32", 4, Class::Single, 4),
            ("f64", 8, Class::Double, 1),
            ("f64", 8, Class::Double, 2),
        ];
        let (ty, bytes, class, count) = table[self.below(table.len())];
        if self.context.in_function && count > 2 {
            (ty, bytes, class, 2)
        } else {
            (ty, bytes, class, count)
        }
    }

    /// An address within `length` bytes after a base, by a register or by a number.
    fn within(&mut self, base: &str, length: usize, bytes: usize) -> (Vec<String>, String) {
        if self.chance(40) {
            let offset = self.below(length / bytes) * bytes;
            return (Vec::new(), format!("[{base}+{offset}]"));
        }
        let mask = (length - 1) & !(bytes - 1);
        let index = self.register(Class::Word);
        let lines = vec![
            format!("and.b32 %t0, {index}, {mask:#x}"),
            "cvt.u64.u32 %u0, %t0".into(),
            format!("add.s64 %u0, {base}, %u0"),
        ];
        (lines, "[%u0]".into())
    }

    /// Memory that only this thread uses: space and base.
    fn own(&mut self) -> (&'static str, &'static str) {
        if self.context.in_function {
            return [(".local", "%z4"), ("", "%z6")][self.below(2)];
        }
        [
            (".global", "%z2"),
            (".shared", "%z3"),
            (".local", "%z4"),
            ("", "%z5"),
            ("", "%z6"),
            ("", "%z7"),
        ][self.below(6)]
    }

    /// Loads, stores and atomics.
    pub(crate) fn memory(&mut self) -> Vec<String> {
        match self.below(11) {
            10 => vec![
                self.pick(&[
                    "membar.gl",
                    "membar.cta",
                    "fence.acq_rel.gpu",
                    "fence.sc.cta",
                    "nanosleep.u32 20",
                ])
                .into(),
            ],
            0..3 => self.store(),
            3..6 => {
                let (space, base) = self.own();
                let strong = match space {
                    ".global" | ".shared" => self.pick(&["", "", ".volatile", ".relaxed.gpu"]),
                    _ => "",
                };
                self.load(&format!("{strong}{space}"), base, SCRATCH_BYTES)
            }
            6 if !self.context.in_function => {
                let space =
                    self.pick(&[".global", ".global.nc", ".global.ca", ".relaxed.gpu.global"]);
                self.load(space, "%z0", INPUT_BYTES)
            }
            7 if !self.context.in_function => self.private_atomic(),
            8 if !self.context.in_function => self.common_atomic(),
            _ => {
                let (space, base) = [(".const", "constants"), (".global", "table")][self.below(2)];
                if self.chance(50) {
                    let mut lines = vec![format!("mov.u64 %u1, {base}")];
                    lines.extend(self.load(space, "%u1", 64));
                    return lines;
                }
                let (ty, bytes, class, _) = self.access();
                let (guard, to, offset) =
                    (self.guard(), self.register(class), self.below(64 / bytes) * bytes);
                vec![format!("{guard}ld{space}.{ty} {to}, [{base}+{offset}]")]
            }
        }
    }

    fn load(&mut self, space: &str, base: &str, length: usize) -> Vec<String> {
        let (ty, bytes, class, count) = self.access();
        let (mut lines, address) = self.within(base, length, bytes * count);
        let guard = self.guard();
        let to = self.different(class, count);
        lines.push(if count == 1 {
            format!("{guard}ld{space}.{ty} {}, {address}", to[0])
        } else {
            format!("{guard}ld{space}.v{count}.{ty} {{{}}}, {address}", to.join(", "))
        });
        lines
    }

    fn store(&mut self) -> Vec<String> {
        let (space, base) = self.own();
        let (ty, bytes, class, count) = self.access();
        let (mut lines, address) = self.within(base, SCRATCH_BYTES, bytes * count);
        let guard = self.guard();
        let from: Vec<String> = (0..count).map(|_| self.register(class)).collect();
        if class == Class::Single || class == Class::Double {
            let (more, bits, temporary) = canonical(class, &from[0]);
            lines.extend(more);
            let all = vec![temporary; count].join(", ");
            lines.push(if count == 1 {
                format!("{guard}st{space}.{bits} {address}, {temporary}")
            } else {
                format!("{guard}st{space}.v{count}.{bits} {address}, {{{all}}}")
            });
            return lines;
        }
        lines.push(if count == 1 {
            format!("{guard}st{space}.{ty} {address}, {}", from[0])
        } else {
            format!("{guard}st{space}.v{count}.{ty} {address}, {{{}}}", from.join(", "))
        });
        lines
    }

    /// Atomics on memory that only this thread uses: what they return is known.
    fn private_atomic(&mut self) -> Vec<String> {
        let (space, base) =
            [(".global", "%z2"), (".shared", "%z3"), ("", "%z7"), ("", "%z5")][self.below(4)];
        let guard = self.guard();
        if self.chance(15) {
            return self.float_atomic(space, base);
        }
        let name = self.pick(&[
            "and.b32", "or.b32", "xor.b32", "exch.b32", "add.u32", "add.s32", "inc.u32", "dec.u32",
            "min.u32", "max.u32", "min.s32", "max.s32", "cas.b32", "and.b64", "or.b64", "xor.b64",
            "exch.b64", "add.u64", "min.u64", "max.s64", "cas.b64", "cas.b16",
        ]);
        let (class, bytes) = match &name[name.len() - 2..] {
            "64" => (Class::Long, 8),
            "16" => (Class::Short, 2),
            _ => (Class::Word, 4),
        };
        let (mut lines, address) = self.within(base, SCRATCH_BYTES, bytes);
        let (to, first) = (self.register(class), self.operand(class));
        let second = if name.starts_with("cas") {
            format!(", {}", self.operand(class))
        } else {
            String::new()
        };
        if name.starts_with("cas") && self.chance(50) {
            let ty = &name[4..];
            let expected = self.register(class);
            lines.push(format!("ld{space}.{ty} {expected}, {address}"));
            lines.push(format!("{guard}atom{space}.{name} {to}, {address}, {expected}{second}"));
            return lines;
        }
        lines.push(format!("{guard}atom{space}.{name} {to}, {address}, {first}{second}"));
        lines
    }

    /// A sum of floats in memory; a not-a-number that it leaves there is made the same everywhere.
    fn float_atomic(&mut self, space: &str, base: &str) -> Vec<String> {
        let (ty, class, bytes, temporary) =
            [("f32", Class::Single, 4, "%w0"), ("f64", Class::Double, 8, "%w1")][self.below(2)];
        let (mut lines, address) = self.within(base, SCRATCH_BYTES, bytes);
        let (to, value) = (self.register(class), self.register(class));
        lines.push(format!("atom{space}.add.{ty} {to}, {address}, {value}"));
        lines.push(format!("ld{space}.{ty} {temporary}, {address}"));
        let (more, bits, register) = canonical(class, temporary);
        lines.extend(more);
        lines.push(format!("st{space}.{bits} {address}, {register}"));
        lines
    }

    fn common_atomic(&mut self) -> Vec<String> {
        let which = self.below(COUNTERS);
        let (op, class) = COUNTER_OPS[which];
        let (space, base) = [(".global", "%z9"), (".shared", "%z10")][self.below(2)];
        let (guard, value) = (self.guard(), self.operand(class));
        vec![format!("{guard}red{space}.{op} [{base}+{}], {value}", which * 8)]
    }

    /// What all threads of the block do together.
    pub(crate) fn collective(&mut self) -> Vec<String> {
        match self.below(6) {
            0 => {
                let threads = self.threads;
                let step = self.below(64);
                let (to, word) = (self.register(Class::Long), self.below(SCRATCH_BYTES / 8) * 8);
                let (space, base) = [(".shared", "%z8"), (".global", "%z11")][self.below(2)];
                vec![
                    self.pick(&["bar.sync 0", "barrier.sync 0", "bar.sync 3"]).into(),
                    format!("add.u32 %t0, %s0, {step}"),
                    format!("rem.u32 %t0, %t0, {threads}"),
                    format!("mul.wide.u32 %u0, %t0, {SCRATCH_BYTES}"),
                    format!("add.s64 %u0, {base}, %u0"),
                    format!("ld{space}.b64 {to}, [%u0+{word}]"),
                    "bar.sync 0".into(),
                ]
            }
            1 => {
                let (to, which) = (self.register(Class::Long), self.below(COUNTERS));
                vec![
                    "bar.sync 0".into(),
                    format!("ld.shared.b64 {to}, [%z10+{}]", which * 8),
                    "bar.sync 0".into(),
                ]
            }
            2 => {
                let (from, not) = (self.register(Class::Truth), self.pick(&["", "!"]));
                vec![match self.below(3) {
                    0 => format!("bar.red.popc.u32 {}, 0, {not}{from}", self.register(Class::Word)),
                    1 => {
                        format!("bar.red.and.pred {}, 0, {not}{from}", self.register(Class::Truth))
                    }
                    _ => format!("bar.red.or.pred {}, 0, {not}{from}", self.register(Class::Truth)),
                }]
            }
            _ => {
                let all = if self.threads >= 32 { u32::MAX } else { (1 << self.threads) - 1 };
                self.warp_of(all, self.threads >= 32)
            }
        }
    }

    /// An operation of the lanes of a mask; `whole` if these are all 32.
    pub(crate) fn warp_of(&mut self, mask: u32, whole: bool) -> Vec<String> {
        let mut register = |class| self.register(class);
        let (r, r2, d) = (register(Class::Word), register(Class::Word), register(Class::Long));
        let (p, p2) = (register(Class::Truth), register(Class::Truth));
        let not = self.pick(&["", "!"]);
        vec![match self.below(9) {
            0 => format!(
                "vote.sync.{}.pred {p}, {not}{p2}, {mask:#x}",
                self.pick(&["all", "any", "uni"])
            ),
            1 => format!("vote.sync.ballot.b32 {r}, {not}{p}, {mask:#x}"),
            2 => format!("match.any.sync.b32 {r}, {r2}, {mask:#x}"),
            3 => format!("match.all.sync.b64 {r}|{p}, {d}, {mask:#x}"),
            4 => format!(
                "redux.sync.{} {r}, {r2}, {mask:#x}",
                self.pick(&["add.u32", "add.s32", "min.s32", "max.u32", "min.u32", "max.s32"])
            ),
            5 => {
                format!("redux.sync.{}.b32 {r}, {r2}, {mask:#x}", self.pick(&["and", "or", "xor"]))
            }
            6 if !whole => format!("bar.warp.sync {mask:#x}"),
            7 if !whole => format!("match.any.sync.b64 {r}, {d}, {mask:#x}"),
            _ if !whole => format!(
                "shfl.sync.idx.b32 {r}|{p}, {r2}, {}, 0x1f, {mask:#x}",
                mask.trailing_zeros()
            ),
            _ => {
                let mode = self.pick(&["up", "down", "bfly", "idx"]);
                let segment = self.pick(&["0x0000", "0x1800", "0x1c00", "0x1000"]);
                let clamp = if mode == "up" { 0 } else { 0x1f };
                let control = u32::from_str_radix(&segment[2..], 16).unwrap_or(0) | clamp;
                let lane = if self.chance(50) {
                    self.below(32).to_string()
                } else {
                    self.register(Class::Word)
                };
                let valid = if self.chance(50) { format!("|{p}") } else { String::new() };
                format!("shfl.sync.{mode}.b32 {r}{valid}, {r2}, {lane}, {control:#x}, {mask:#x}")
            }
        }]
    }

    /// A call, with its slots in a scope of their own.
    pub(crate) fn call(&mut self) -> Vec<String> {
        let (word, long, single) =
            (self.operand(Class::Word), self.register(Class::Long), self.register(Class::Single));
        let (result_word, result_long) = (self.register(Class::Word), self.register(Class::Long));
        let other = self.register(Class::Word);
        if self.chance(25) {
            return vec![
                format!("and.b32 %t0, {other}, 7"),
                "{".into(),
                ".param .b32 n".into(),
                ".param .b32 x".into(),
                ".param .b32 result".into(),
                "st.param.b32 [n], %t0".into(),
                format!("st.param.b32 [x], {word}"),
                "call (result), again, (n, x)".into(),
                format!("ld.param.b32 {result_word}, [result]"),
                "}".into(),
            ];
        }
        let (function, ty, to) =
            [("first", "b32", result_word), ("second", "b64", result_long)][self.below(2)].clone();
        // By its name, or by its address. What holds the address is not part of the results.
        let (callee, prototype, before) = if self.chance(40) {
            let declared = format!(
                "P: .callprototype (.param .{ty} _) _ (.param .b32 _, .param .b64 _, .param .f32 _, .param .align 8 .b8 _[16])"
            );
            ("%u1", ", P", [format!("mov.u64 %u1, {function}"), declared])
        } else {
            (function, "", [String::new(), String::new()])
        };
        let mut lines: Vec<String> = before.into_iter().filter(|line| !line.is_empty()).collect();
        lines.insert(0, "{".into());
        lines.extend([
            ".param .b32 a".into(),
            ".param .b64 b".into(),
            ".param .f32 c".into(),
            ".param .align 8 .b8 s[16]".into(),
            format!(".param .{ty} result"),
            format!("st.param.b32 [a], {word}"),
            format!("st.param.b64 [b], {long}"),
            format!("st.param.f32 [c], {single}"),
            format!("st.param.v2.b32 [s], {{{other}, %s0}}"),
            format!("st.param.b64 [s+8], {long}"),
            format!("call (result), {callee}, (a, b, c, s){prototype}"),
            format!("ld.param.{ty} {to}, [result]"),
            "}".into(),
        ]);
        lines
    }
}
