//! The statuses of `gpulend.h` are codes of the core's table.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

use gpulend::codes::ALL;

/// The statuses that `types.rs` names, from which the header is made: name and number.
fn statuses() -> Vec<(String, u32)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/types.rs");
    let text = fs::read_to_string(path).unwrap();
    let parts = text.lines().filter_map(|line| {
        let (name, number) = line.strip_prefix("pub const GPULEND_")?.split_once(": Status = ")?;
        Some((name.to_owned(), number.trim_end_matches(';').parse().unwrap()))
    });
    parts.filter(|(name, _)| name != "OK").collect()
}

#[test]
fn each_status_of_the_header_is_in_the_table_by_its_name() {
    for (name, number) in statuses() {
        let row = ALL.iter().find(|code| code.name == name);
        assert_eq!(row.map(|code| code.number), Some(number), "GPULEND_{name}");
    }
}

#[test]
fn what_only_c_can_meet_has_a_name_in_the_header() {
    let named = statuses();
    for code in ALL.iter().filter(|code| code.meaning.starts_with("C: ")) {
        assert!(named.contains(&(code.name.to_owned(), code.number)), "{}", code.name);
    }
}
