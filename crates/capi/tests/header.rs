//! `include/gpulend.h` is what cbindgen makes of this crate.
//!
//! `GPULEND_WRITE_HEADER=1 cargo test -p gpulend-capi --test header` writes it.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::{env, fs};

fn made() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let bindings =
        cbindgen::Builder::new().with_crate(root).with_config(config).generate().unwrap();
    let mut text = Vec::new();
    bindings.write(&mut text);
    String::from_utf8(text).unwrap()
}

#[test]
fn the_header_is_that_of_the_sources() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include/gpulend.h");
    let made = made();
    if env::var_os("GPULEND_WRITE_HEADER").is_some() {
        fs::write(&path, &made).unwrap();
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == made,
        "include/gpulend.h is not what cbindgen makes; write it: \
         GPULEND_WRITE_HEADER=1 cargo test -p gpulend-capi --test header"
    );
}
