//! No text makes the parser panic, and what it reads is whole.

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use gpulend_sim::ptx::ast::{Base, Module, Named, Op, Operand, Place};
use gpulend_sim::ptx::parse;
use proptest::prelude::*;
use proptest::sample::{Index, select};

static TEXTS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/ptx");
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "ptx"));
    paths.sort();
    paths.iter().filter_map(|path| fs::read_to_string(path).ok()).collect()
});

const TOKENS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    "<",
    ">",
    ",",
    ";",
    ":",
    "|",
    "!",
    "@",
    "+",
    "-",
    "=",
    "\"",
    "/*",
    "*/",
    "//",
    "\n",
    "_",
    "%r1",
    "%r",
    "%p1",
    "%rd1",
    "%tid",
    ".x",
    "x",
    "L",
    "generic",
    "0",
    "1",
    "-1",
    "4",
    "0x10",
    "0f3F800000",
    "0d3FF0000000000000",
    "1.5",
    "18446744073709551615",
    "99999999999999999999",
    ".reg",
    ".b8",
    ".b32",
    ".b64",
    ".u32",
    ".s64",
    ".f32",
    ".f16x2",
    ".pred",
    ".param",
    ".local",
    ".shared",
    ".global",
    ".const",
    ".align",
    ".v2",
    ".v4",
    ".ptr",
    ".func",
    ".entry",
    ".visible",
    ".extern",
    ".loc",
    ".file",
    ".section",
    ".pragma",
    ".branchtargets",
    ".callprototype",
    ".maxntid",
    "add",
    "mov",
    "ld",
    "st",
    "call",
    "bra",
    "brx",
    ".idx",
    "setp",
    ".lt",
    ".and",
    "cvt",
    ".rn",
    "atom",
    ".cas",
    "bar",
    ".sync",
    ".red",
    "shfl",
    ".bfly",
    "lop3",
    "mma",
    "mul",
    ".wide",
    ".hi",
    "ret",
    "é",
];

/// Checks that numbers name what is there.
fn check(module: &Module) {
    for variable in &module.variables {
        assert!(variable.align.is_power_of_two());
        assert!(variable.initial.len() as u64 <= variable.bytes);
        for address in &variable.addresses {
            assert!(match address.of {
                Named::Variable(number) => number < module.variables.len(),
                Named::Function(number) => number < module.functions.len(),
            });
            assert!(address.at + 8 <= variable.bytes);
        }
    }
    for function in &module.functions {
        let Some(body) = &function.body else { continue };
        let there = |place: &Place| match *place {
            Place::Module(number) => number < module.variables.len(),
            Place::Body(number) => number < body.variables.len(),
            Place::Param(number) => number < function.params.len(),
            Place::Return(number) => number < function.returns.len(),
        };
        assert!(body.labels.iter().all(|label| *label <= body.statements.len()));
        for statement in &body.statements {
            match &statement.op {
                Op::Branch { to } => assert!((to.0 as usize) < body.labels.len()),
                Op::BranchTable { to, .. } => {
                    assert!(to.iter().all(|to| (to.0 as usize) < body.labels.len()))
                }
                Op::Load { to, from, .. } => {
                    assert!(to.iter().flatten().all(|to| (to.0 as usize) < body.registers.len()));
                    if let Base::Place(place) = &from.base {
                        assert!(there(place));
                    }
                }
                Op::Move { to, from, .. } => {
                    assert!((to.0 as usize) < body.registers.len());
                    if let Operand::AddressOf(place, _) = from {
                        assert!(there(place));
                    }
                }
                Op::CallIndirect { prototype, returns, arguments, .. } => {
                    let called = &body.prototypes[*prototype];
                    assert_eq!(
                        (returns.len(), arguments.len()),
                        (called.returns.len(), called.params.len())
                    );
                    assert!(returns.iter().chain(arguments).all(there));
                }
                Op::Call { function, returns, arguments } => {
                    let called = &module.functions[*function];
                    assert_eq!(
                        (returns.len(), arguments.len()),
                        (called.returns.len(), called.params.len())
                    );
                    assert!(returns.iter().chain(arguments).all(there));
                }
                _ => {}
            }
        }
    }
}

fn try_it(text: &str) {
    match parse(text) {
        Ok(module) => check(&module),
        Err(error) => {
            assert!(error.line >= 1 && error.column >= 1 && !error.message.is_empty());
            assert!(error.line as usize <= text.split('\n').count());
        }
    }
}

#[derive(Clone, Debug)]
enum Change {
    Remove(Index, usize),
    Insert(Index, &'static str),
    Copy(Index, Index, usize),
    Byte(Index, u8),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let change = prop_oneof![
        (any::<Index>(), 1..40_usize).prop_map(|(at, length)| Change::Remove(at, length)),
        (any::<Index>(), select(TOKENS)).prop_map(|(at, token)| Change::Insert(at, token)),
        (any::<Index>(), any::<Index>(), 1..200_usize)
            .prop_map(|(from, to, length)| Change::Copy(from, to, length)),
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Change::Byte(at, byte)),
    ];
    prop::collection::vec(change, 1..4)
}

fn change(text: &str, changes: &[Change]) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for change in changes {
        let length = bytes.len();
        if length == 0 {
            break;
        }
        match change {
            Change::Remove(at, count) => {
                let at = at.index(length);
                bytes.drain(at..(at + count).min(length));
            }
            Change::Insert(at, token) => {
                let at = at.index(length);
                bytes.splice(at..at, token.bytes());
            }
            Change::Copy(from, to, count) => {
                let from = from.index(length);
                let copy = bytes[from..(from + count).min(length)].to_vec();
                let to = to.index(length);
                bytes.splice(to..to, copy);
            }
            Change::Byte(at, byte) => {
                let at = at.index(length);
                bytes[at] = *byte;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

proptest! {
    #[test]
    fn texts_with_mistakes(which in any::<Index>(), changes in changes()) {
        let text = &TEXTS[which.index(TEXTS.len())];
        try_it(&change(text, &changes));
    }

    #[test]
    fn tokens_at_random(tokens in prop::collection::vec(select(TOKENS), 0..60), inside: bool) {
        let head = ".version 6.3\n.target sm_75\n";
        let function = ".func (.param .b32 x) f(.param .b64 y) { .reg .b32 %r<4>; .reg .pred %p<2>; .reg .b64 %rd<2>;\n";
        try_it(&format!("{head}{}{}", if inside { function } else { "" }, tokens.join(" ")));
    }

    #[test]
    fn any_text_at_all(text in ".*") {
        try_it(&text);
        try_it(&format!(".version 6.3 .target sm_75 {text}"));
    }
}
