//! Programs as text: what stands before and after the random part, labels and counters.

use std::fmt::Write;

use fastrand::Rng;

use crate::generator::{
    CLASSES, COUNTERS, Class, Generated, Node, SCRATCH_BYTES, area, count, interesting_integer,
    stored,
};
use crate::generator_float::canonical;

/// Text that grows, with what is numbered through a function.
#[derive(Default)]
struct Text {
    lines: String,
    labels: usize,
    counters: usize,
}

/// What stands between two pieces of a marked text.
const MARK: &str = "// piece\n";

/// How long a thread's slot in the output is.
pub(crate) fn slot_bytes() -> usize {
    stored().len() * 8
}

impl Text {
    fn line(&mut self, line: &str) {
        self.lines += "    ";
        self.lines += line;
        self.lines += if line == "{" || line == "}" { "\n" } else { ";\n" };
    }

    fn label(&mut self) -> String {
        self.labels += 1;
        format!("L{}", self.labels)
    }

    fn at(&mut self, label: &str) {
        self.lines += label;
        self.lines += ":\n";
    }

    fn mark(&mut self, marked: bool) {
        if marked {
            self.lines += MARK;
        }
    }

    fn nodes(&mut self, nodes: &[Node]) {
        for node in nodes {
            match node {
                Node::Lines(lines) => lines.iter().for_each(|line| self.line(line)),
                Node::If { guard, then, otherwise } => {
                    let (other, end) = (self.label(), self.label());
                    self.line(&format!("@!{guard} bra {other}"));
                    self.nodes(then);
                    self.line(&format!("bra.uni {end}"));
                    self.at(&other);
                    self.nodes(otherwise);
                    self.at(&end);
                }
                Node::Loop { times, body } => {
                    let (again, number) = (self.label(), self.counters);
                    self.counters += 1;
                    self.line(&format!("mov.u32 %c{number}, 0"));
                    self.line(&format!("and.b32 %l{number}, {times}, 3"));
                    self.at(&again);
                    self.nodes(body);
                    self.line(&format!("add.u32 %c{number}, %c{number}, 1"));
                    self.line(&format!("setp.le.u32 %q0, %c{number}, %l{number}"));
                    self.line(&format!("@%q0 bra {again}"));
                }
                Node::Switch { index, arms } => {
                    let targets: Vec<String> = arms.iter().map(|_| self.label()).collect();
                    let (table, end) = (self.label(), self.label());
                    let mask = arms.len() - 1;
                    self.line(&format!("and.b32 %t0, {index}, {mask}"));
                    self.at(&table);
                    self.line(&format!(".branchtargets {}", targets.join(", ")));
                    self.line(&format!("brx.idx %t0, {table}"));
                    for (target, arm) in targets.iter().zip(arms) {
                        self.at(target);
                        self.nodes(arm);
                        self.line(&format!("bra {end}"));
                    }
                    self.at(&end);
                }
            }
        }
    }
}

fn declare(out: &mut Text, in_function: bool) {
    for class in CLASSES {
        out.line(&format!(
            ".reg {} {}<{}>",
            class.declared(),
            class.prefix(),
            count(class, in_function)
        ));
    }
    for (ty, name, number) in
        [("b32", "%t", 3), ("b64", "%u", 3), ("b16", "%v", 3), ("pred", "%q", 2), ("b32", "%s", 4)]
    {
        out.line(&format!(".reg .{ty} {name}<{number}>"));
    }
    out.line(".reg .f32 %w0");
    out.line(".reg .f64 %w1");
    out.line(".reg .pred %k0");
    out.line(".reg .b64 %z<12>");
    out.line(&format!(".local .align 16 .b8 own[{SCRATCH_BYTES}]"));
}

/// The thread's own memory begins with what its number makes of it.
fn own_memory(out: &mut Text, from: &str) {
    out.line("mov.u64 %z4, own");
    out.line("cvta.local.u64 %z6, %z4");
    for word in 0..SCRATCH_BYTES / 8 {
        out.line(&format!("add.u64 %u0, {from}, {}", word * 0x0101_0101));
        out.line(&format!("st.local.u64 [%z4+{}], %u0", word * 8));
    }
}

fn function(out: &mut String, name: &str, ty: &str, nodes: &[Node]) {
    let _ = writeln!(
        out,
        ".func (.param .{ty} result) {name}(.param .b32 a, .param .b64 b, .param .f32 c, .param .align 8 .b8 s[16])\n{{"
    );
    let mut body = Text::default();
    own_memory(&mut body, "%d0");
    body.nodes(nodes);
    let mut head = Text::default();
    declare(&mut head, true);
    head.line(&format!(".reg .b32 %c<{}>", body.counters + 1));
    head.line(&format!(".reg .b32 %l<{}>", body.counters + 1));
    for line in [
        "ld.param.b32 %r0, [a]",
        "ld.param.s8 %r1, [s+5]",
        "ld.param.b64 %d0, [b]",
        "ld.param.b64 %d1, [s+8]",
        "ld.param.f32 %f0, [c]",
        "ld.param.u16 %h0, [s+2]",
        "ld.param.s8 %h1, [s+11]",
        "mov.f32 %f1, 0f3FC00000",
        "cvt.rn.f64.s64 %g0, %d1",
        "mov.f64 %g1, 0d3FF8000000000000",
        "mov.b16 %e0, %h0",
        "mov.b16 %e1, 0x3e00",
        "mov.b32 %x0, %r0",
        "mov.b16 %b0, %h1",
        "mov.b32 %y0, %r1",
        "setp.lt.s32 %p0, %r0, %r1",
        "setp.gt.u64 %p1, %d0, %d1",
    ] {
        head.line(line);
    }
    *out += &head.lines;
    *out += &body.lines;
    let mut tail = Text::default();
    tail.line("xor.b64 %d0, %d0, %d1");
    tail.line("cvt.u64.u32 %u0, %r0");
    tail.line("xor.b64 %d0, %d0, %u0");
    tail.line("cvt.s64.s16 %u0, %h0");
    tail.line("add.s64 %d0, %d0, %u0");
    for (class, register) in [
        (Class::Single, "%f0"),
        (Class::Double, "%g0"),
        (Class::Half, "%e0"),
        (Class::Brains, "%y0"),
        (Class::Halves, "%x0"),
        (Class::Truth, "%p1"),
    ] {
        let (lines, ty, temporary) = canonical(class, register);
        lines.iter().for_each(|line| tail.line(line));
        match ty {
            "b64" => tail.line(&format!("xor.b64 %d0, %d0, {temporary}")),
            "b16" => {
                tail.line(&format!("cvt.u64.u16 %u0, {temporary}"));
                tail.line("xor.b64 %d0, %d0, %u0");
            }
            _ => {
                tail.line(&format!("mul.wide.u32 %u0, {temporary}, 77"));
                tail.line("xor.b64 %d0, %d0, %u0");
            }
        }
    }
    if ty == "b32" {
        tail.line("cvt.u32.u64 %r0, %d0");
        tail.line("st.param.b32 [result], %r0");
    } else {
        tail.line("st.param.b64 [result], %d0");
    }
    tail.line("ret");
    *out += &tail.lines;
    *out += "}\n\n";
}

/// A function that calls itself as often as its first parameter says.
const AGAIN: &str = "\
.func (.param .b32 result) again(.param .b32 n, .param .b32 x)
{
    .reg .b32 %r<5>;
    .reg .pred %p0;
    ld.param.b32 %r0, [n];
    ld.param.b32 %r1, [x];
    setp.eq.u32 %p0, %r0, 0;
    @%p0 bra DONE;
    sub.u32 %r2, %r0, 1;
    mad.lo.u32 %r3, %r1, 1664525, %r0;
    {
    .param .b32 a;
    .param .b32 b;
    .param .b32 c;
    st.param.b32 [a], %r2;
    st.param.b32 [b], %r3;
    call (c), again, (a, b);
    ld.param.b32 %r4, [c];
    }
    xor.b32 %r1, %r4, %r0;
DONE:
    st.param.b32 [result], %r1;
    ret;
}

";

fn bytes(rng: &mut Rng) -> String {
    let mut all = Vec::new();
    while all.len() < 64 {
        let value = interesting_integer(rng, 32);
        all.extend(value.to_le_bytes()[..4].iter().map(u8::to_string));
    }
    all.join(", ")
}

/// What the kernel does before its random part.
fn prologue(out: &mut Text, program: &Generated, rng: &mut Rng) {
    for line in [
        "ld.param.u64 %u0, [input]",
        "cvta.to.global.u64 %z0, %u0",
        "mov.u32 %s0, %tid.z",
        "mov.u32 %t0, %ntid.y",
        "mov.u32 %t1, %tid.y",
        "mad.lo.u32 %s0, %s0, %t0, %t1",
        "mov.u32 %t0, %ntid.x",
        "mov.u32 %t1, %tid.x",
        "mad.lo.u32 %s0, %s0, %t0, %t1",
        "mov.u32 %t0, %ctaid.x",
        "mad.lo.u32 %s1, %t0, THREADS, %s0",
        "ld.param.u64 %z1, [output]",
        "cvta.to.global.u64 %z1, %z1",
        "mul.wide.u32 %u0, %s1, SLOT",
        "add.s64 %z1, %z1, %u0",
        "ld.param.u64 %z7, [work]",
        "mul.wide.u32 %u0, %t0, BLOCK",
        "cvta.to.global.u64 %z11, %z7",
        "add.s64 %z11, %z11, %u0",
        "mul.wide.u32 %u0, %s1, SCRATCH",
        "add.s64 %z7, %z7, %u0",
        "cvta.to.global.u64 %z2, %z7",
        "mov.u64 %z8, scratch",
        "mul.wide.u32 %u0, %s0, SCRATCH",
        "add.s64 %z3, %z8, %u0",
        "cvta.shared.u64 %z5, %z3",
        "ld.param.u64 %z9, [counters]",
        "cvta.to.global.u64 %z9, %z9",
        "mov.u64 %z10, sums",
        "cvt.u64.u32 %u1, %s1",
    ] {
        let threads: u32 = program.block.iter().product();
        let scratch = u32::try_from(SCRATCH_BYTES).unwrap_or(0);
        let line = line
            .replace("THREADS", &threads.to_string())
            .replace("SLOT", &slot_bytes().to_string())
            .replace("BLOCK", &(threads * scratch).to_string())
            .replace("SCRATCH", &scratch.to_string());
        out.line(&line);
    }
    own_memory(out, "%u1");
    for word in 0..SCRATCH_BYTES / 8 {
        out.line(&format!("mad.lo.u64 %u0, %u1, {}, {}", 0x9e37_79b9_u32, word * 0x1234_5671));
        out.line(&format!("st.shared.u64 [%z3+{}], %u0", word * 8));
    }
    for counter in 0..COUNTERS {
        out.line("setp.eq.u32 %q0, %s0, 0");
        out.line(&format!(
            "@%q0 st.shared.u64 [%z10+{}], {}",
            counter * 8,
            interesting_integer(rng, 32)
        ));
    }
    out.line("mov.u32 %t0, %laneid");
    out.line(&format!("setp.lt.u32 %k0, %t0, {}", program.split()));
    out.line("and.b32 %t0, %s1, 15");
    out.line("mul.wide.u32 %u0, %t0, 8");
    out.line("add.s64 %u1, %z0, %u0");
    for (class, register) in stored() {
        let (ty, size) = match class.declared() {
            ".b16" => ("b16", 2),
            ".b64" => ("b64", 8),
            ".f32" => ("f32", 4),
            ".f64" => ("f64", 8),
            _ => ("b32", 4),
        };
        let address = area(class) + rng.usize(..128 / size) * size;
        if class == Class::Truth {
            out.line(&format!("ld.global.u32 %t0, [%u1+{address}]"));
            out.line(&format!("setp.gt.s32 {register}, %t0, 5"));
        } else {
            out.line(&format!("ld.global.{ty} {register}, [%u1+{address}]"));
        }
    }
    out.line("bar.sync 0");
    out.line("activemask.b32 %t0");
    out.line("xor.b32 %r0, %r0, %t0");
    out.line("ld.param.s8 %r1, [small]");
    out.line("ld.param.f64 %g1, [real]");
}

impl Generated {
    /// The text.
    pub(crate) fn text(&self) -> String {
        self.written(false)
    }

    /// The text, with a comment before each piece of the kernel and one after the last: what stands between two of them can
    /// be left out.
    pub(crate) fn marked_text(&self) -> String {
        self.written(true)
    }

    fn written(&self, marked: bool) -> String {
        let mut rng = Rng::with_seed(self.seed() ^ 0x7ab1e);
        let threads: usize = self.block.iter().map(|count| *count as usize).product();
        let mut out = String::from(".version 7.8\n.target sm_75\n.address_size 64\n\n");
        let _ = writeln!(out, ".const .align 16 .b8 constants[64] = {{{}}};", bytes(&mut rng));
        let _ = writeln!(out, ".global .align 16 .b8 table[64] = {{{}}};", bytes(&mut rng));
        let _ = match self.dynamic_shared() {
            0 => writeln!(out, ".shared .align 16 .b8 scratch[{}];", threads * SCRATCH_BYTES),
            _ => writeln!(out, ".extern .shared .align 16 .b8 scratch[];"),
        };
        let _ = writeln!(out, ".shared .align 8 .b8 sums[{}];\n", COUNTERS * 8);
        out += AGAIN;
        function(&mut out, "first", "b32", &self.functions[0]);
        function(&mut out, "second", "b64", &self.functions[1]);
        out += ".visible .entry kernel(.param .u64 input, .param .u64 output, .param .u64 work, .param .u64 counters, ";
        out += ".param .u8 small, .param .f64 real)\n{\n";
        let mut body = Text::default();
        prologue(&mut body, self, &mut rng);
        for node in &self.nodes {
            body.mark(marked);
            body.nodes(std::slice::from_ref(node));
        }
        body.mark(marked);
        for (index, (class, register)) in stored().into_iter().enumerate() {
            let (lines, ty, temporary) = canonical(class, &register);
            lines.iter().for_each(|line| body.line(line));
            body.line(&format!("st.global.{ty} [%z1+{}], {temporary}", index * 8));
        }
        body.line(if self.seed().is_multiple_of(2) { "ret" } else { "exit" });
        let mut head = Text::default();
        declare(&mut head, false);
        head.line(&format!(".reg .b32 %c<{}>", body.counters + 1));
        head.line(&format!(".reg .b32 %l<{}>", body.counters + 1));
        out += &head.lines;
        out += &body.lines;
        out += "}\n";
        out
    }
}
