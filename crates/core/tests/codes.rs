//! The table of error codes: numbers, names, what is frozen, and the page that lists them.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashSet;
use std::path::Path;
use std::{env, fs};

use gpulend::codes::ALL;

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

#[test]
fn numbers_ascend_and_names_are_unique() {
    assert!(ALL.windows(2).all(|pair| pair[0].number < pair[1].number));
    let names: HashSet<&str> = ALL.iter().map(|code| code.name).collect();
    assert_eq!(names.len(), ALL.len());
}

/// A program that catches a code by its number or its class works with every later release.
#[test]
fn no_code_disappears_or_changes_its_class() {
    let rows: Vec<String> =
        ALL.iter().map(|code| format!("{} {}", code.number, code.class.name())).collect();
    let frozen = read("tests/codes.txt");
    for line in frozen.lines() {
        assert!(
            rows.iter().any(|row| row == line),
            "{line} is promised, and gone or of another class"
        );
    }
    let new = rows.iter().find(|row| !frozen.lines().any(|line| line == **row));
    assert_eq!(new, None, "a new code: add this line to tests/codes.txt, which freezes it");
}

/// `GPULEND_WRITE_CODES=1 cargo test -p gpulend --test codes` writes the page.
#[test]
fn the_page_of_errors_lists_the_table() {
    const HEAD: &str = "| code | class | means |\n|---|---|---|\n";
    let page = read("../../docs/errors.md");
    let (before, _) = page.split_once(HEAD).unwrap();
    let rows: String = ALL
        .iter()
        .map(|code| format!("| {} | `{}` | {} |\n", code.number, code.class.name(), code.meaning))
        .collect();
    let made = format!("{before}{HEAD}{rows}");
    if env::var_os("GPULEND_WRITE_CODES").is_some() {
        fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors.md"), &made)
            .unwrap();
    }
    assert!(
        made == read("../../docs/errors.md"),
        "docs/errors.md is not the table; write it: GPULEND_WRITE_CODES=1 cargo test -p gpulend --test codes"
    );
}
