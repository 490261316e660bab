//! Random programs that are valid, end, and give the same result however their threads are scheduled.
//!
//! All registers that instructions choose from are written in the beginning and stored in the end, so that any statement in
//! between can be left out.

use fastrand::Rng;

/// A kind of registers that instructions choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Truth values.
    Truth,
    /// Integers of 16 bits.
    Short,
    /// Integers of 32 bits.
    Word,
    /// Integers of 64 bits.
    Long,
    /// Halves.
    Half,
    /// Pairs of halves.
    Halves,
    /// bfloat16.
    Brain,
    /// Pairs of bfloat16.
    Brains,
    /// Floats.
    Single,
    /// Doubles.
    Double,
}

/// All of them.
pub(crate) const CLASSES: [Class; 10] = [
    Class::Truth,
    Class::Short,
    Class::Word,
    Class::Long,
    Class::Half,
    Class::Halves,
    Class::Brain,
    Class::Brains,
    Class::Single,
    Class::Double,
];

impl Class {
    /// How its registers' names begin.
    pub(crate) const fn prefix(self) -> &'static str {
        match self {
            Self::Truth => "%p",
            Self::Short => "%h",
            Self::Word => "%r",
            Self::Long => "%d",
            Self::Half => "%e",
            Self::Halves => "%x",
            Self::Brain => "%b",
            Self::Brains => "%y",
            Self::Single => "%f",
            Self::Double => "%g",
        }
    }

    /// What they are declared as.
    pub(crate) const fn declared(self) -> &'static str {
        match self {
            Self::Truth => ".pred",
            Self::Short | Self::Half | Self::Brain => ".b16",
            Self::Word | Self::Halves | Self::Brains => ".b32",
            Self::Long => ".b64",
            Self::Single => ".f32",
            Self::Double => ".f64",
        }
    }

    /// How many a kernel and a function have.
    const fn count(self, in_function: bool) -> usize {
        match (self, in_function) {
            (Self::Halves | Self::Brain | Self::Brains, true) => 1,
            (_, true) => 2,
            (Self::Halves | Self::Brain | Self::Brains, false) => 3,
            (Self::Half, false) => 4,
            (Self::Word, false) => 8,
            (_, false) => 5,
        }
    }

    /// Which eighth of the input holds values for it.
    const fn area(self) -> usize {
        match self {
            Self::Truth | Self::Word => 0,
            Self::Short => 1,
            Self::Long => 2,
            Self::Half | Self::Halves => 3,
            Self::Brain | Self::Brains => 4,
            Self::Single => 5,
            Self::Double => 6,
        }
    }
}

/// A piece of a program.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    /// Instructions that belong together.
    Lines(Vec<String>),
    /// Done where a guard holds, or else the other.
    If { guard: String, then: Vec<Node>, otherwise: Vec<Node> },
    /// Done as many times as an operand says.
    Loop { times: String, body: Vec<Node> },
    /// Done by the number in an operand.
    Switch { index: String, arms: Vec<Vec<Node>> },
}

/// How many bytes the input has.
pub(crate) const INPUT_BYTES: usize = 2048;
/// How many bytes of an eighth of the input.
const AREA_BYTES: usize = INPUT_BYTES / 8;
/// How many bytes a thread has in the work buffer, in shared and in local memory.
pub(crate) const SCRATCH_BYTES: usize = 64;
/// How many counters of eight bytes all threads add to.
pub(crate) const COUNTERS: usize = 8;

/// What can be chosen where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    /// All threads of the block come here.
    pub(crate) converged: bool,
    /// In a function: none of the kernel's addresses are there.
    pub(crate) in_function: bool,
    /// How many more levels of branches and loops.
    pub(crate) depth: u32,
}

/// Makes programs.
#[derive(Debug)]
pub(crate) struct Generator {
    /// Chance.
    pub(crate) rng: Rng,
    /// Threads of a block.
    pub(crate) threads: u32,
    /// Where a warp is split in two.
    pub(crate) split: u32,
    /// Where instructions go.
    pub(crate) context: Context,
}

/// A program with its launch.
#[derive(Clone, Debug)]
pub(crate) struct Generated {
    /// Blocks.
    pub(crate) grid: [u32; 3],
    /// Threads.
    pub(crate) block: [u32; 3],
    /// What the kernel does.
    pub(crate) nodes: Vec<Node>,
    /// What its two functions do.
    pub(crate) functions: [Vec<Node>; 2],
    split: u32,
    dynamic: bool,
    seed: u64,
}

impl Generator {
    /// A number below.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.rng.usize(..end)
    }

    /// Whether, with a chance in percent.
    pub(crate) fn chance(&mut self, percent: u32) -> bool {
        self.rng.u32(..100) < percent
    }

    /// One of several.
    pub(crate) fn pick<'t>(&mut self, from: &[&'t str]) -> &'t str {
        from[self.below(from.len())]
    }

    /// A register.
    pub(crate) fn register(&mut self, class: Class) -> String {
        let count = class.count(self.context.in_function);
        format!("{}{}", class.prefix(), self.below(count))
    }

    /// A register or, where the language has them, a constant.
    pub(crate) fn operand(&mut self, class: Class) -> String {
        let bits = match class {
            Class::Short => 16,
            Class::Word => 32,
            Class::Long => 64,
            Class::Single | Class::Double if self.chance(15) => {
                return if class == Class::Single {
                    format!("0f{:08X}", interesting_float(&mut self.rng, 8, 23))
                } else {
                    format!("0d{:016X}", interesting_float(&mut self.rng, 11, 52))
                };
            }
            _ => return self.register(class),
        };
        if self.chance(80) {
            return self.register(class);
        }
        let value = interesting_integer(&mut self.rng, bits);
        if self.chance(50) || bits == 64 { format!("{value:#x}") } else { signed(value, bits) }
    }

    /// A guard for some instructions.
    pub(crate) fn guard(&mut self) -> String {
        if !self.chance(12) {
            return String::new();
        }
        let not = if self.chance(50) { "!" } else { "" };
        format!("@{not}{} ", self.register(Class::Truth))
    }

    /// Some pieces.
    fn nodes(&mut self, count: usize) -> Vec<Node> {
        (0..count).map(|_| self.node()).collect()
    }

    fn inner(&mut self, converged: bool) -> Vec<Node> {
        let outer = self.context;
        self.context.depth -= 1;
        self.context.converged = outer.converged && converged;
        let count = 1 + self.below(6);
        let nodes = self.nodes(count);
        self.context = outer;
        nodes
    }

    fn node(&mut self) -> Node {
        if self.context.depth == 0 || !self.chance(9) {
            return self.leaf();
        }
        match self.below(if self.context.converged && !self.context.in_function { 5 } else { 4 }) {
            0 => {
                let guard = self.register(Class::Truth);
                let otherwise = if self.chance(60) { self.inner(false) } else { Vec::new() };
                Node::If { guard, then: self.inner(false), otherwise }
            }
            1 => Node::Loop { times: self.rng.u32(1..4).to_string(), body: self.inner(true) },
            2 => Node::Loop { times: self.register(Class::Word), body: self.inner(false) },
            3 => {
                let index = self.register(Class::Word);
                Node::Switch { index, arms: (0..4).map(|_| self.inner(false)).collect() }
            }
            _ => self.split_warp(),
        }
    }

    /// The two parts of each warp do different operations of warps.
    fn split_warp(&mut self) -> Node {
        let threads = self.threads.min(32);
        let all = if threads == 32 { u32::MAX } else { (1 << threads) - 1 };
        let first = (1_u32 << self.split) - 1;
        if all & !first == 0 {
            return self.leaf();
        }
        let (one, other) = (self.warp_of(first, false), self.warp_of(all & !first, false));
        Node::If {
            guard: "%k0".into(),
            then: vec![Node::Lines(one)],
            otherwise: vec![Node::Lines(other)],
        }
    }

    fn leaf(&mut self) -> Node {
        let together = self.context.converged && !self.context.in_function;
        let percent = if self.threads < 16 { 4 } else { 25 };
        if together && self.chance(percent) {
            return Node::Lines(self.collective());
        }
        let lines = match self.below(100) {
            0..38 => self.integer(),
            38..70 => self.float(),
            70..80 => self.conversion(),
            80..97 => self.memory(),
            _ if self.context.in_function => self.integer(),
            _ => self.call(),
        };
        Node::Lines(lines)
    }
}

/// The program of a seed.
pub(crate) fn generate(seed: u64) -> Generated {
    let mut rng = Rng::with_seed(seed);
    let small: [[u32; 3]; 5] = [[1, 1, 1], [2, 1, 1], [3, 1, 1], [1, 2, 2], [5, 1, 1]];
    let large: [[u32; 3]; 5] = [[32, 1, 1], [64, 1, 1], [8, 4, 2], [16, 1, 1], [4, 2, 4]];
    let is_small = rng.u32(..100) < 88;
    let block = if is_small { small[rng.usize(..5)] } else { large[rng.usize(..5)] };
    let grid = if rng.u32(..100) < 80 { [1, 1, 1] } else { [2, 1, 1] };
    let threads: u32 = block.iter().product();
    let split = rng.u32(1..threads.clamp(2, 32));
    let context = Context { converged: true, in_function: false, depth: 2 };
    let mut generator = Generator { rng, threads, split, context };
    let count = if is_small { 40 + generator.below(60) } else { 15 + generator.below(25) };
    let nodes = generator.nodes(count);
    generator.context = Context { converged: false, in_function: true, depth: 1 };
    let functions = [generator.nodes(6), generator.nodes(6)];
    let dynamic = generator.chance(30);
    Generated { grid, block, nodes, functions, split, dynamic, seed }
}

/// An integer near an edge, or any.
pub(crate) fn interesting_integer(rng: &mut Rng, bits: u32) -> u64 {
    let top = 1_u64 << (bits - 1);
    let value = match rng.u32(..10) {
        0 => 0,
        1 => 1,
        2 => u64::MAX,
        3 => top,
        4 => top - 1,
        5 => 1 << rng.u32(..bits),
        6 => (1_u64 << rng.u32(..bits)).wrapping_sub(1),
        7 => rng.u64(..40),
        _ => rng.u64(..),
    };
    if bits == 64 { value } else { value & ((1 << bits) - 1) }
}

/// A float near an edge, or any.
pub(crate) fn interesting_float(rng: &mut Rng, exponent_bits: u32, fraction_bits: u32) -> u64 {
    let bits = exponent_bits + fraction_bits;
    let sign = rng.u64(..2) << bits;
    let infinity = ((1_u64 << exponent_bits) - 1) << fraction_bits;
    let middle = (1_u64 << (exponent_bits - 1)) - 1;
    let fraction = rng.u64(..1 << fraction_bits);
    sign | match rng.u32(..16) {
        0 => 0,
        1 => infinity,
        2 => infinity | 1 << (fraction_bits - 1) | fraction >> 1,
        3 => infinity - 1,
        4 => fraction,
        5 => 1,
        6 => (1 << fraction_bits) | (fraction & 3),
        7 => middle << fraction_bits,
        8 => (middle + rng.u64(..u64::from(fraction_bits) + 10)) << fraction_bits,
        9 => rng.u64(..1 << bits),
        10 => (middle + 10).saturating_sub(rng.u64(..40)).max(1) << fraction_bits | 1,
        _ => (middle - 3 + rng.u64(..7)) << fraction_bits | fraction,
    }
}

fn signed(value: u64, bits: u32) -> String {
    if value >> (bits - 1) == 1 {
        format!("-{}", (1_u64 << bits) - value)
    } else {
        value.to_string()
    }
}

/// Fills the input: each eighth with values of one kind.
pub(crate) fn fill_input(seed: u64) -> Vec<u8> {
    let mut rng = Rng::with_seed(seed ^ 0x5eed);
    let mut bytes = Vec::new();
    while bytes.len() < INPUT_BYTES {
        match bytes.len() / AREA_BYTES {
            0 => bytes.extend(&interesting_integer(&mut rng, 32).to_le_bytes()[..4]),
            1 => bytes.extend(&interesting_integer(&mut rng, 16).to_le_bytes()[..2]),
            3 => bytes.extend(&interesting_float(&mut rng, 5, 10).to_le_bytes()[..2]),
            4 => bytes.extend(&interesting_float(&mut rng, 8, 7).to_le_bytes()[..2]),
            5 => bytes.extend(&interesting_float(&mut rng, 8, 23).to_le_bytes()[..4]),
            6 => bytes.extend(&interesting_float(&mut rng, 11, 52).to_le_bytes()),
            _ => bytes.extend(&interesting_integer(&mut rng, 64).to_le_bytes()),
        }
    }
    bytes
}

/// All registers that are stored in the end, in order; each takes eight bytes of a thread's slot.
pub(crate) fn stored() -> Vec<(Class, String)> {
    let all = |class: Class| {
        (0..class.count(false)).map(move |number| (class, format!("{}{number}", class.prefix())))
    };
    CLASSES.into_iter().flat_map(all).collect()
}

/// The registers of a class in a kernel or a function.
pub(crate) fn count(class: Class, in_function: bool) -> usize {
    class.count(in_function)
}

/// Where in the input values for a class begin.
pub(crate) fn area(class: Class) -> usize {
    class.area() * AREA_BYTES
}

impl Generated {
    /// Where warps are split.
    pub(crate) const fn split(&self) -> u32 {
        self.split
    }

    /// Shared memory that the launch adds: that of the threads, or none.
    pub(crate) fn dynamic_shared(&self) -> u32 {
        let threads: u32 = self.block.iter().product();
        if self.dynamic { threads * u32::try_from(SCRATCH_BYTES).unwrap_or(0) } else { 0 }
    }

    /// The seed it was made of.
    pub(crate) const fn seed(&self) -> u64 {
        self.seed
    }
}
