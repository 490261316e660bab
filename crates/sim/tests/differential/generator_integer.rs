//! Instructions on integers and truth values.

use crate::generator::{Class, Generator};

/// Types of integers with their registers.
const INTEGERS: [(&str, Class); 6] = [
    ("u16", Class::Short),
    ("s16", Class::Short),
    ("u32", Class::Word),
    ("s32", Class::Word),
    ("u64", Class::Long),
    ("s64", Class::Long),
];

impl Generator {
    /// A type of integers.
    pub(crate) fn integer_type(&mut self) -> (&'static str, Class) {
        let index = self.below(INTEGERS.len() + 2);
        *INTEGERS.get(index).unwrap_or(&INTEGERS[2])
    }

    /// A type of 32 or 64 bits.
    fn wide_type(&mut self) -> (&'static str, Class) {
        INTEGERS[2 + self.below(4)]
    }

    fn bits_type(&mut self) -> (&'static str, Class) {
        [("b16", Class::Short), ("b32", Class::Word), ("b64", Class::Long)][self.below(3)]
    }

    /// One instruction with operands of one class, guarded by chance.
    pub(crate) fn plain(&mut self, name: &str, to: Class, operands: &[Class]) -> Vec<String> {
        let guard = self.guard();
        let mut line = format!("{guard}{name} {}", self.register(to));
        for class in operands {
            line += ", ";
            line += &self.operand(*class);
        }
        vec![line]
    }

    /// Instructions on integers.
    pub(crate) fn integer(&mut self) -> Vec<String> {
        match self.below(17) {
            0 | 1 => {
                let (ty, class) = self.integer_type();
                let name = self.pick(&["add", "sub", "mul.lo", "min", "max", "mul.hi"]);
                self.plain(&format!("{name}.{ty}"), class, &[class, class])
            }
            2 => {
                let (ty, class) = self.bits_type();
                let name = self.pick(&["and", "or", "xor"]);
                self.plain(&format!("{name}.{ty}"), class, &[class, class])
            }
            3 => self.products(),
            4 => self.division(),
            5 => {
                let (name, class) = match self.below(9) {
                    0 => ("shl.b16", Class::Short),
                    1 => ("shl.b32", Class::Word),
                    2 => ("shl.b64", Class::Long),
                    3 => ("shr.u16", Class::Short),
                    4 => ("shr.s16", Class::Short),
                    5 => ("shr.u32", Class::Word),
                    6 => ("shr.s32", Class::Word),
                    7 => ("shr.u64", Class::Long),
                    _ => ("shr.s64", Class::Long),
                };
                let amount = self.amount();
                let (guard, to, from) = (self.guard(), self.register(class), self.operand(class));
                vec![
                    format!("and.b32 %t0, {amount}, 0x7f"),
                    format!("{guard}{name} {to}, {from}, %t0"),
                ]
            }
            6 => self.one_operand(),
            7 | 8 => self.bit_fields(),
            9 => match self.below(5) {
                4 => {
                    let name = self.pick(&["bmsk.clamp.b32", "bmsk.wrap.b32"]);
                    self.plain(name, Class::Word, &[Class::Word; 2])
                }
                0 => self.plain("prmt.b32", Class::Word, &[Class::Word; 3]),
                1 => {
                    let name = self.pick(&[
                        "shf.l.wrap.b32",
                        "shf.l.clamp.b32",
                        "shf.r.wrap.b32",
                        "shf.r.clamp.b32",
                    ]);
                    self.plain(name, Class::Word, &[Class::Word; 3])
                }
                2 => {
                    let table = self.below(256);
                    let mut lines = self.plain("lop3.b32", Class::Word, &[Class::Word; 3]);
                    lines[0] += &format!(", {table:#x}");
                    lines
                }
                _ => {
                    let (a, b) = (self.pick(&["u32", "s32"]), self.pick(&["u32", "s32"]));
                    self.plain(&format!("dp4a.{a}.{b}"), Class::Word, &[Class::Word; 3])
                }
            },
            10 | 11 => self.carries(),
            12 => {
                let name = self.pick(&["add.sat.s32", "sub.sat.s32"]);
                self.plain(name, Class::Word, &[Class::Word; 2])
            }
            13 => {
                let (ty, class) = self.integer_type();
                self.comparison(ty, class)
            }
            14 => self.choice(),
            15 => self.truth(),
            _ => self.moves(),
        }
    }

    fn amount(&mut self) -> String {
        if self.chance(50) { self.below(80).to_string() } else { self.register(Class::Word) }
    }

    fn products(&mut self) -> Vec<String> {
        match self.below(6) {
            0 => {
                let (ty, from, to) = self.widening();
                self.plain(&format!("mul.wide.{ty}"), to, &[from, from])
            }
            1 => {
                let (ty, from, to) = self.widening();
                self.plain(&format!("mad.wide.{ty}"), to, &[from, from, to])
            }
            2 | 3 => {
                let (ty, class) = self.integer_type();
                let name = self.pick(&["mad.lo", "mad.hi", "sad"]);
                self.plain(&format!("{name}.{ty}"), class, &[class; 3])
            }
            4 => {
                let name = self.pick(&["mul24.lo.u32", "mul24.lo.s32"]);
                self.plain(name, Class::Word, &[Class::Word; 2])
            }
            _ => {
                let name = self.pick(&["mad24.lo.u32", "mad24.lo.s32", "mad.hi.sat.s32"]);
                self.plain(name, Class::Word, &[Class::Word; 3])
            }
        }
    }

    fn widening(&mut self) -> (&'static str, Class, Class) {
        [
            ("u16", Class::Short, Class::Word),
            ("s16", Class::Short, Class::Word),
            ("u32", Class::Word, Class::Long),
            ("s32", Class::Word, Class::Long),
        ][self.below(4)]
    }

    /// A divisor of zero has no defined result: its last bit is set.
    fn division(&mut self) -> Vec<String> {
        let (ty, class) = self.integer_type();
        let (temporary, bits) = match class {
            Class::Short => ("%v0", "b16"),
            Class::Long => ("%u0", "b64"),
            _ => ("%t0", "b32"),
        };
        let name = self.pick(&["div", "rem"]);
        let (guard, to, left, right) =
            (self.guard(), self.register(class), self.operand(class), self.register(class));
        vec![
            format!("or.{bits} {temporary}, {right}, 1"),
            format!("{guard}{name}.{ty} {to}, {left}, {temporary}"),
        ]
    }

    fn one_operand(&mut self) -> Vec<String> {
        match self.below(4) {
            0 => {
                let (ty, class) =
                    [("s16", Class::Short), ("s32", Class::Word), ("s64", Class::Long)]
                        [self.below(3)];
                let name = self.pick(&["abs", "neg"]);
                self.plain(&format!("{name}.{ty}"), class, &[class])
            }
            1 => {
                let (ty, class) = self.bits_type();
                let name = self.pick(&["not", "cnot"]);
                self.plain(&format!("{name}.{ty}"), class, &[class])
            }
            2 => {
                let (ty, class) = [("b32", Class::Word), ("b64", Class::Long)][self.below(2)];
                let name = self.pick(&["popc", "clz"]);
                self.plain(&format!("{name}.{ty}"), Class::Word, &[class])
            }
            _ => {
                let (ty, class) = [("b32", Class::Word), ("b64", Class::Long)][self.below(2)];
                self.plain(&format!("brev.{ty}"), class, &[class])
            }
        }
    }

    /// Positions and lengths that mostly fit.
    fn bit_fields(&mut self) -> Vec<String> {
        let (ty, class) = self.wide_type();
        let mask = if self.chance(80) { 0x3f } else { 0xff };
        let (position, length) = (self.amount(), self.amount());
        let mut lines = vec![
            format!("and.b32 %t0, {position}, {mask:#x}"),
            format!("and.b32 %t1, {length}, {mask:#x}"),
        ];
        let (guard, to, from) = (self.guard(), self.register(class), self.operand(class));
        match self.below(3) {
            0 => lines.push(format!("{guard}bfe.{ty} {to}, {from}, %t0, %t1")),
            1 => {
                let into = self.operand(class);
                let bits = if class == Class::Word { "b32" } else { "b64" };
                lines.push(format!("{guard}bfi.{bits} {to}, {from}, {into}, %t0, %t1"));
            }
            _ => {
                let shift = self.pick(&["", ".shiftamt"]);
                let to = self.register(Class::Word);
                lines = vec![format!("{guard}bfind{shift}.{ty} {to}, {from}")];
            }
        }
        lines
    }

    /// Chains whose carry is always set before it is read.
    fn carries(&mut self) -> Vec<String> {
        let (ty, class) = self.wide_type();
        let mut operands =
            |count: usize| (0..count).map(|_| self.operand(class)).collect::<Vec<_>>().join(", ");
        let sums = [operands(2), operands(2), operands(2)];
        let products = [operands(3), operands(3), operands(3)];
        let to = [self.register(class), self.register(class), self.register(class)];
        match self.below(3) {
            0 => vec![
                format!("add.cc.{ty} {}, {}", to[0], sums[0]),
                format!("addc.cc.{ty} {}, {}", to[1], sums[1]),
                format!("addc.{ty} {}, {}", to[2], sums[2]),
            ],
            1 => vec![
                format!("sub.cc.{ty} {}, {}", to[0], sums[0]),
                format!("subc.cc.{ty} {}, {}", to[1], sums[1]),
                format!("subc.{ty} {}, {}", to[2], sums[2]),
            ],
            _ => vec![
                format!("mad.lo.cc.{ty} {}, {}", to[0], products[0]),
                format!("madc.hi.cc.{ty} {}, {}", to[1], products[1]),
                format!("madc.lo.{ty} {}, {}", to[2], products[2]),
            ],
        }
    }

    /// `setp` and `set` on a type of integers or floats.
    pub(crate) fn comparison(&mut self, ty: &str, class: Class) -> Vec<String> {
        let is_float = ty.starts_with('f');
        let how = if is_float {
            self.pick(&[
                "eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu",
                "num", "nan",
            ])
        } else if ty.starts_with('u') {
            self.pick(&["eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"])
        } else {
            self.pick(&["eq", "ne", "lt", "le", "gt", "ge"])
        };
        let flush = if ty == "f32" && self.chance(40) { ".ftz" } else { "" };
        let (guard, left, right) = (self.guard(), self.operand(class), self.operand(class));
        let (to, other) = (self.register(Class::Truth), self.register(Class::Truth));
        // `setp.f16` has no second result.
        let is_half = ty == "f16";
        match self.below(4) {
            0 if !is_half => {
                let (to_ty, to) = if self.chance(70) {
                    ("u32", self.register(Class::Word))
                } else {
                    ("f32", self.register(Class::Single))
                };
                vec![format!("{guard}set.{how}{flush}.{to_ty}.{ty} {to}, {left}, {right}")]
            }
            1 => {
                let with = self.register(Class::Truth);
                let combine = self.pick(&["and", "or", "xor"]);
                let not = self.pick(&["", "!"]);
                let opposite = if other != to && !is_half && self.chance(50) {
                    format!("|{other}")
                } else {
                    String::new()
                };
                vec![format!(
                    "{guard}setp.{how}.{combine}{flush}.{ty} {to}{opposite}, {left}, {right}, {not}{with}"
                )]
            }
            2 if to != other && !is_half => {
                vec![format!("{guard}setp.{how}{flush}.{ty} {to}|{other}, {left}, {right}")]
            }
            _ => vec![format!("{guard}setp.{how}{flush}.{ty} {to}, {left}, {right}")],
        }
    }

    fn choice(&mut self) -> Vec<String> {
        let (ty, class) = match self.below(5) {
            0 => ("b16", Class::Short),
            1 => ("s32", Class::Word),
            2 => ("u64", Class::Long),
            3 => ("f32", Class::Single),
            _ => ("f64", Class::Double),
        };
        let choose = self.register(Class::Truth);
        let mut lines = self.plain(&format!("selp.{ty}"), class, &[class, class]);
        lines[0] += &format!(", {choose}");
        lines
    }

    fn truth(&mut self) -> Vec<String> {
        let guard = self.guard();
        let (to, left, right) =
            (self.register(Class::Truth), self.register(Class::Truth), self.register(Class::Truth));
        match self.below(5) {
            0 => vec![format!("{guard}not.pred {to}, {left}")],
            1 => vec![format!("{guard}mov.pred {to}, {left}")],
            _ => {
                let name = self.pick(&["and", "or", "xor"]);
                vec![format!("{guard}{name}.pred {to}, {left}, {right}")]
            }
        }
    }

    fn moves(&mut self) -> Vec<String> {
        let mut register = |class| self.register(class);
        let (h, r, d) = (register(Class::Short), register(Class::Word), register(Class::Long));
        let (h2, r2, d2) = (register(Class::Short), register(Class::Word), register(Class::Long));
        let guard = self.guard();
        vec![match self.below(10) {
            8 => {
                let special = self.pick(&[
                    "%tid.x",
                    "%tid.y",
                    "%tid.z",
                    "%ntid.x",
                    "%ntid.z",
                    "%ctaid.x",
                    "%ctaid.y",
                    "%nctaid.x",
                    "%laneid",
                    "%lanemask_eq",
                    "%lanemask_lt",
                    "%lanemask_le",
                    "%lanemask_gt",
                    "%lanemask_ge",
                    "WARP_SZ",
                ]);
                format!("{guard}mov.u32 {r}, {special}")
            }
            9 if !self.context.in_function => {
                let space = self.pick(&["global", "shared", "local"]);
                let address = self.pick(&["%z5", "%z6", "%z7"]);
                format!("{guard}isspacep.{space} {}, {address}", self.register(Class::Truth))
            }
            0 => format!("{guard}mov.b32 {r}, {{{h}, {h2}}}"),
            1 => format!("{guard}mov.b64 {d}, {{{r}, {r2}}}"),
            2 if h != h2 => format!("{guard}mov.b32 {{{h}, {h2}}}, {r}"),
            3 if r != r2 => format!("{guard}mov.b64 {{{r}, {r2}}}, {d}"),
            4 => format!("{guard}mov.b64 {d}, {{{h}, {h2}, {h2}, {h}}}"),
            5 => format!("{guard}mov.u64 {d}, {d2}"),
            6 => format!("{guard}mov.u16 {h}, {h2}"),
            _ => format!("{guard}mov.u32 {r}, {}", self.operand(Class::Word)),
        }]
    }
}
