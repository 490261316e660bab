//! The header declares what the library has, and nothing else.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// The names before an opening parenthesis that follow `before`.
fn names_after(text: &str, before: &str) -> BTreeSet<String> {
    let starts = text.match_indices(before).map(|(at, _)| &text[at + before.len()..]);
    let names = starts
        .filter_map(|rest| rest.split_once('(').map(|(name, _)| name.trim_start_matches('*')));
    let is_name =
        |name: &&str| name.chars().all(|letter| letter.is_alphanumeric() || letter == '_');
    names.filter(is_name).filter(|name| name.starts_with("cuda")).map(str::to_owned).collect()
}

fn defined() -> BTreeSet<String> {
    let files = fs::read_dir(Path::new(HERE).join("src")).unwrap();
    let texts = files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap());
    texts.flat_map(|text| names_after(&text, "fn ")).collect()
}

fn header(name: &str) -> String {
    fs::read_to_string(Path::new(HERE).join("../core/headers/program").join(name)).unwrap()
}

fn declared() -> BTreeSet<String> {
    let text = header("cuda_runtime_api.h");
    let kinds = ["\ncudaError_t ", "\nconst char *", "\nstruct cudaChannelFormatDesc "];
    let names: BTreeSet<String> = kinds.iter().flat_map(|kind| names_after(&text, kind)).collect();
    // Macros give some of them other names.
    let per_thread = header("per_thread.h");
    let macros =
        per_thread.lines().filter_map(|line| line.strip_prefix("#define ")?.split_once(' '));
    let others: BTreeSet<String> = macros
        .inspect(|(name, other)| {
            assert!(names.contains(*name), "{name}");
            assert!(other.strip_prefix(name).is_some_and(|end| ["_ptsz", "_ptds"].contains(&end)));
        })
        .map(|(_, other)| other.to_owned())
        .collect();
    // A copy that is not among them waits for the default stream that all threads share.
    for name in names.iter().filter(|name| name.starts_with("cudaMemcpy")) {
        assert!(others.iter().any(|other| other.starts_with(&format!("{name}_pt"))), "{name}");
    }
    names.into_iter().chain(others).collect()
}

#[test]
fn every_function_is_declared_and_every_declaration_has_a_function() {
    let (defined, declared) = (defined(), declared());
    assert!(defined.len() > 150);
    assert_eq!(defined.difference(&declared).collect::<Vec<_>>(), Vec::<&String>::new());
    assert_eq!(declared.difference(&defined).collect::<Vec<_>>(), Vec::<&String>::new());
}
