//! Random programs with what they are to compute, as files for `tests/kernels/on_hardware.py`.

use std::fmt::Write;
use std::path::Path;

use crate::compare::{Case, Outcome};
use crate::generator::{Generated, generate, stored};

/// The names of the buffers, in the order of the kernel's parameters.
const BUFFERS: [&str; 4] = ["input", "output", "work", "counters"];

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The first pieces of a program, and what memory holds after them.
fn after(program: &Generated, pieces: usize) -> Result<Outcome, String> {
    let mut part = program.clone();
    part.nodes.truncate(pieces);
    Case::new(&part)?.interpret(None)
}

/// One program: the launch, what the buffers hold before and after no piece, what each piece changes, the text.
///
/// With what each piece changes, a difference can be traced to one.
fn describe(seed: u64) -> Result<String, String> {
    let program = generate(seed);
    let case = Case::new(&program)?;
    let mut out = format!("seed {seed}\n");
    let numbers = |numbers: [u32; 3]| numbers.map(|number| number.to_string()).join(" ");
    let _ = writeln!(out, "grid {}", numbers(program.grid));
    let _ = writeln!(out, "block {}", numbers(program.block));
    let _ = writeln!(out, "shared {}", program.dynamic_shared());
    let names: Vec<String> = stored().into_iter().map(|(_, name)| name).collect();
    let _ = writeln!(out, "registers {}", names.join(" "));
    let mut last = after(&program, 0)?;
    for (number, name) in BUFFERS.iter().enumerate() {
        let _ = writeln!(out, "buffer {name} {}", hex(case.initial(number)));
        let _ = writeln!(out, "first {name} {}", hex(last.buffer(number)));
    }
    for pieces in 1..=program.nodes.len() {
        let outcome = after(&program, pieces)?;
        out += "piece";
        for (number, name) in BUFFERS.iter().enumerate() {
            let words = last.buffer(number).chunks(8).zip(outcome.buffer(number).chunks(8));
            for (index, (_, now)) in words.enumerate().filter(|(_, (before, now))| before != now) {
                let _ = write!(out, " {name}+{}={}", index * 8, hex(now));
            }
        }
        out += "\n";
        last = outcome;
    }
    let _ = write!(out, "text\n{}", program.marked_text());
    Ok(out)
}

#[test]
fn a_marked_text_is_the_same_program() {
    for seed in 0..20 {
        let program = generate(seed);
        let marked = program.marked_text();
        assert_eq!(marked.replace("// piece\n", ""), program.text());
        assert_eq!(marked.matches("// piece\n").count(), program.nodes.len() + 1);
        assert_eq!(describe(seed).unwrap().matches("\npiece").count(), program.nodes.len());
    }
}

#[test]
#[ignore = "writes files to the folder GPULEND_FUZZ_DUMP, for GPULEND_FUZZ_SEEDS seeds"]
fn dump() {
    let folder = std::env::var("GPULEND_FUZZ_DUMP").expect("GPULEND_FUZZ_DUMP names no folder");
    let seeds = std::env::var("GPULEND_FUZZ_SEEDS").ok().map_or(400, |text| text.parse().unwrap());
    std::fs::create_dir_all(&folder).unwrap();
    for seed in 0..seeds {
        let text = describe(seed).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        std::fs::write(Path::new(&folder).join(format!("{seed}.case")), text).unwrap();
    }
}
