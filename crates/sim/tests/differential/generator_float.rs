//! Instructions on floats, and conversions.

use crate::generator::{Class, Generator};

/// Instructions that put a float's bits into a register of integers, the same for every not-a-number.
pub(crate) fn canonical(class: Class, from: &str) -> (Vec<String>, &'static str, &'static str) {
    let half = |largest: &str, from: &str, to: &str| {
        vec![
            format!("and.b16 %v2, {from}, 0x7fff"),
            format!("setp.gt.u16 %q0, %v2, {largest}"),
            format!("selp.b16 {to}, 0x7fff, {from}, %q0"),
        ]
    };
    match class {
        Class::Single => (
            vec![
                format!("setp.nan.f32 %q0, {from}, {from}"),
                format!("mov.b32 %t2, {from}"),
                "selp.b32 %t2, 0x7fffffff, %t2, %q0".into(),
            ],
            "b32",
            "%t2",
        ),
        Class::Double => (
            vec![
                format!("setp.nan.f64 %q0, {from}, {from}"),
                format!("mov.b64 %u2, {from}"),
                "selp.b64 %u2, 0x7ff8000000000000, %u2, %q0".into(),
            ],
            "b64",
            "%u2",
        ),
        Class::Half => (half("0x7c00", from, "%v0"), "b16", "%v0"),
        Class::Brain => (half("0x7f80", from, "%v0"), "b16", "%v0"),
        Class::Halves | Class::Brains => {
            let largest = if class == Class::Halves { "0x7c00" } else { "0x7f80" };
            let mut lines = vec![format!("mov.b32 {{%v0, %v1}}, {from}")];
            lines.extend(half(largest, "%v0", "%v0"));
            lines.extend(half(largest, "%v1", "%v1"));
            lines.push("mov.b32 %t2, {%v0, %v1}".into());
            (lines, "b32", "%t2")
        }
        Class::Truth => (vec![format!("selp.b32 %t2, 1, 0, {from}")], "b32", "%t2"),
        Class::Short => (vec![format!("mov.b16 %v0, {from}")], "b16", "%v0"),
        Class::Word => (vec![format!("mov.b32 %t2, {from}")], "b32", "%t2"),
        Class::Long => (vec![format!("mov.b64 %u2, {from}")], "b64", "%u2"),
    }
}

impl Generator {
    fn rounding(&mut self) -> &'static str {
        if self.chance(50) { ".rn" } else { self.pick(&[".rz", ".rm", ".rp"]) }
    }

    fn by_chance(&mut self, percent: u32, what: &'static str) -> &'static str {
        if self.chance(percent) { what } else { "" }
    }

    /// Instructions on floats.
    pub(crate) fn float(&mut self) -> Vec<String> {
        match self.below(16) {
            0..6 => self.single(),
            6..10 => self.double(),
            10..13 => self.halves(),
            13 => self.brains(),
            14 => self.reinterpretation(),
            _ => match self.below(4) {
                0 => self.comparison("f32", Class::Single),
                1 => self.comparison("f64", Class::Double),
                2 => self.comparison("f16", Class::Half),
                _ => self.test(),
            },
        }
    }

    fn test(&mut self) -> Vec<String> {
        let (ty, class) = [("f32", Class::Single), ("f64", Class::Double)][self.below(2)];
        let test =
            self.pick(&["finite", "infinite", "number", "notanumber", "normal", "subnormal"]);
        self.plain(&format!("testp.{test}.{ty}"), Class::Truth, &[class])
    }

    fn single(&mut self) -> Vec<String> {
        let (rounding, flush, saturate) =
            (self.rounding(), self.by_chance(25, ".ftz"), self.by_chance(12, ".sat"));
        let class = Class::Single;
        match self.below(10) {
            0..4 => {
                let name = self.pick(&["add", "sub", "mul"]);
                self.plain(&format!("{name}{rounding}{flush}{saturate}.f32"), class, &[class; 2])
            }
            4..6 => self.plain(&format!("fma{rounding}{flush}{saturate}.f32"), class, &[class; 3]),
            6 => self.plain(&format!("div{rounding}{flush}.f32"), class, &[class; 2]),
            7 => {
                let name = self.pick(&["sqrt", "rcp"]);
                self.plain(&format!("{name}{rounding}{flush}.f32"), class, &[class])
            }
            8 => {
                let (name, keep) = (self.pick(&["min", "max"]), self.by_chance(30, ".NaN"));
                self.plain(&format!("{name}{flush}{keep}.f32"), class, &[class; 2])
            }
            _ => self.signs("f32", class, flush),
        }
    }

    fn double(&mut self) -> Vec<String> {
        let rounding = self.rounding();
        let class = Class::Double;
        match self.below(10) {
            0..4 => {
                let name = self.pick(&["add", "sub", "mul"]);
                self.plain(&format!("{name}{rounding}.f64"), class, &[class; 2])
            }
            4..6 => self.plain(&format!("fma{rounding}.f64"), class, &[class; 3]),
            6 => self.plain(&format!("div{rounding}.f64"), class, &[class; 2]),
            7 => {
                let name = self.pick(&["sqrt", "rcp"]);
                self.plain(&format!("{name}{rounding}.f64"), class, &[class])
            }
            8 => {
                let name = self.pick(&["min.f64", "max.f64"]);
                self.plain(name, class, &[class; 2])
            }
            _ => self.signs("f64", class, ""),
        }
    }

    /// `abs`, `neg` and `copysign`; the sign of a not-a-number must not be seen.
    fn signs(&mut self, ty: &str, class: Class, flush: &str) -> Vec<String> {
        match self.below(3) {
            0 => self.plain(&format!("abs{flush}.{ty}"), class, &[class]),
            1 => self.plain(&format!("neg{flush}.{ty}"), class, &[class]),
            _ => {
                let (from, guard) = (self.register(class), self.guard());
                let (mut lines, bits, bits_register) = canonical(class, &from);
                let temporary = if class == Class::Single { "%w0" } else { "%w1" };
                lines.push(format!("mov.{bits} {temporary}, {bits_register}"));
                let (to, value) = (self.register(class), self.register(class));
                lines.push(format!("{guard}copysign.{ty} {to}, {temporary}, {value}"));
                lines
            }
        }
    }

    fn halves(&mut self) -> Vec<String> {
        let (ty, class) =
            if self.chance(60) { ("f16", Class::Half) } else { ("f16x2", Class::Halves) };
        let (flush, saturate) = (self.by_chance(25, ".ftz"), self.by_chance(12, ".sat"));
        match self.below(6) {
            0..3 => {
                let (name, rounding) = (self.pick(&["add", "sub", "mul"]), self.pick(&["", ".rn"]));
                self.plain(&format!("{name}{rounding}{flush}{saturate}.{ty}"), class, &[class; 2])
            }
            3 => self.plain(&format!("fma.rn{flush}{saturate}.{ty}"), class, &[class; 3]),
            4 => {
                let (name, keep) = (self.pick(&["min", "max"]), self.by_chance(30, ".NaN"));
                self.plain(&format!("{name}{flush}{keep}.{ty}"), class, &[class; 2])
            }
            _ => {
                let name = self.pick(&["neg", "abs"]);
                self.plain(&format!("{name}{flush}.{ty}"), class, &[class])
            }
        }
    }

    fn brains(&mut self) -> Vec<String> {
        let (ty, class) =
            if self.chance(60) { ("bf16", Class::Brain) } else { ("bf16x2", Class::Brains) };
        match self.below(6) {
            0..2 => {
                let name = self.pick(&["add", "sub", "mul"]);
                self.plain(&format!("{name}.rn.{ty}"), class, &[class; 2])
            }
            2 | 3 => self.plain(&format!("fma.rn.{ty}"), class, &[class; 3]),
            4 => {
                let (name, keep) = (self.pick(&["min", "max"]), self.by_chance(30, ".NaN"));
                self.plain(&format!("{name}{keep}.{ty}"), class, &[class; 2])
            }
            _ => {
                let name = self.pick(&["neg", "abs"]);
                self.plain(&format!("{name}.{ty}"), class, &[class])
            }
        }
    }

    /// Bits of floats as integers and back.
    fn reinterpretation(&mut self) -> Vec<String> {
        let pairs = [
            (Class::Single, Class::Word),
            (Class::Double, Class::Long),
            (Class::Half, Class::Short),
            (Class::Brain, Class::Short),
            (Class::Halves, Class::Word),
            (Class::Brains, Class::Word),
        ];
        let (float, integer) = pairs[self.below(pairs.len())];
        let (one, other, guard) = (self.register(float), self.register(integer), self.guard());
        if self.chance(50) {
            let (mut lines, ty, temporary) = canonical(float, &one);
            lines.push(format!("{guard}mov.{ty} {other}, {temporary}"));
            return lines;
        }
        let (_, ty, _) = canonical(float, &one);
        vec![format!("{guard}mov.{ty} {one}, {other}")]
    }

    fn any_integer(&mut self) -> (&'static str, u32, Class) {
        let wider = [Class::Short, Class::Word][self.below(2)];
        [
            ("u8", 8, wider),
            ("s8", 8, wider),
            ("u16", 16, wider),
            ("s16", 16, wider),
            ("u32", 32, Class::Word),
            ("s32", 32, Class::Word),
            ("u64", 64, Class::Long),
            ("s64", 64, Class::Long),
        ][self.below(8)]
    }

    fn any_float(&mut self) -> (&'static str, Class) {
        [
            ("f16", Class::Half),
            ("f32", Class::Single),
            ("f32", Class::Single),
            ("f64", Class::Double),
        ][self.below(4)]
    }

    /// One `cvt` between registers.
    fn convert(&mut self, name: &str, to: Class, from: Class) -> Vec<String> {
        let (guard, to, from) = (self.guard(), self.register(to), self.register(from));
        vec![format!("{guard}cvt{name} {to}, {from}")]
    }

    /// `cvt`.
    pub(crate) fn conversion(&mut self) -> Vec<String> {
        match self.below(12) {
            0..3 => {
                let ((to, to_bits, to_class), (from, from_bits, from_class)) =
                    (self.any_integer(), self.any_integer());
                // Where nothing can overflow, the language has no `.sat`.
                let can_overflow = match (to.starts_with('s'), from.starts_with('s')) {
                    (true, false) => to_bits <= from_bits,
                    (false, true) => true,
                    _ => to_bits < from_bits,
                };
                let saturate = if can_overflow { self.by_chance(40, ".sat") } else { "" };
                self.convert(&format!("{saturate}.{to}.{from}"), to_class, from_class)
            }
            3..5 => {
                let ((to, to_class), (from, _, from_class)) =
                    (self.any_float(), self.any_integer());
                let rounding = self.rounding();
                self.convert(&format!("{rounding}.{to}.{from}"), to_class, from_class)
            }
            5..8 => {
                let ((from, from_class), (to, bits, to_class)) =
                    (self.any_float(), self.any_integer());
                let (to, to_class) = if bits == 8 { ("s32", Class::Word) } else { (to, to_class) };
                let rounding = self.pick(&[".rni", ".rzi", ".rmi", ".rpi"]);
                let flush = if from == "f32" { self.by_chance(25, ".ftz") } else { "" };
                self.convert(&format!("{rounding}{flush}.{to}.{from}"), to_class, from_class)
            }
            8 => {
                let (ty, class) = self.any_float();
                let rounding = self.pick(&[".rni", ".rzi", ".rmi", ".rpi"]);
                let flush = if ty == "f32" { self.by_chance(25, ".ftz") } else { "" };
                let saturate = self.by_chance(12, ".sat");
                self.convert(&format!("{rounding}{flush}{saturate}.{ty}.{ty}"), class, class)
            }
            9 | 10 => self.between_floats(),
            _ => {
                let (to, class) =
                    [("f16x2", Class::Halves), ("bf16x2", Class::Brains)][self.below(2)];
                let rounding = self.pick(&["rn", "rz"]);
                let (guard, to_register) = (self.guard(), self.register(class));
                let (high, low) = (self.register(Class::Single), self.register(Class::Single));
                vec![format!("{guard}cvt.{rounding}.{to}.f32 {to_register}, {high}, {low}")]
            }
        }
    }

    fn between_floats(&mut self) -> Vec<String> {
        let (half, single, double) = (Class::Half, Class::Single, Class::Double);
        let (rounding, flush, saturate) =
            (self.rounding(), self.by_chance(25, ".ftz"), self.by_chance(12, ".sat"));
        match self.below(8) {
            0 => self.convert(&format!("{flush}{saturate}.f32.f16"), single, half),
            1 => self.convert(&format!("{rounding}{flush}{saturate}.f16.f32"), half, single),
            2 => self.convert(&format!("{flush}.f64.f32"), double, single),
            3 => self.convert(&format!("{rounding}{flush}{saturate}.f32.f64"), single, double),
            4 => self.convert(".f64.f16", double, half),
            5 => self.convert(&format!("{rounding}{saturate}.f16.f64"), half, double),
            6 => self.convert(".f32.bf16", single, Class::Brain),
            _ => {
                let rounding = self.pick(&[".rn", ".rz"]);
                self.convert(&format!("{rounding}.bf16.f32"), Class::Brain, single)
            }
        }
    }
}
