//! The rooms of this crate: each uses only rooms above it, and unsafe code stays in the few that need it.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

/// Top to bottom. A new room takes its place here.
const ROOMS: [&str; 24] = [
    "abi",
    "error",
    "device",
    "dtype",
    "layout",
    "signature",
    "view",
    "fork",
    "blocks",
    "driver",
    "ledger",
    "owner",
    "stream",
    "host",
    "lease",
    "import",
    "export",
    "pool",
    "copy",
    "ticket",
    "compiler",
    "module",
    "kernel",
    "cudarc",
];
/// Rooms that meet only at `Lease`.
const APART: [&str; 2] = ["import", "export"];
/// The files that may hold unsafe code; a room not named here forbids it to the compiler.
const UNSAFE: [&str; 47] = [
    "fork.rs",
    "host.rs",
    "host/room.rs",
    "host/shared.rs",
    "compiler/nvrtc.rs",
    "driver/context.rs",
    "driver/cuda.rs",
    "driver/functions.rs",
    "driver/launch.rs",
    "driver/mappings.rs",
    "driver/memory.rs",
    "driver/pinned.rs",
    "driver/sharing.rs",
    "driver/simulator.rs",
    "driver/streams.rs",
    "owner.rs",
    "stream/event.rs",
    "stream/graph.rs",
    "stream/stream.rs",
    "stream/reaper.rs",
    "import/array_interface.rs",
    "import/dlpack.rs",
    "import/raw.rs",
    "export/dlpack.rs",
    "pool/cache.rs",
    "pool/direct.rs",
    "copy/mod.rs",
    "copy/crew.rs",
    "copy/device.rs",
    "copy/host.rs",
    "copy/past.rs",
    "copy/pinned.rs",
    "copy/staged.rs",
    "copy/worker.rs",
    "ticket/exit.rs",
    "ticket/flags.rs",
    "ticket/mapping.rs",
    "ticket/mod.rs",
    "ticket/socket.rs",
    "ticket/source.rs",
    "module.rs",
    "module/loaded.rs",
    "kernel/mod.rs",
    "kernel/launch.rs",
    "kernel/queue.rs",
    "kernel/size.rs",
    "cudarc.rs",
];

/// Files that only list modules, beside the ones that hold unsafe code.
const LISTS: [&str; 8] = [
    "lib.rs",
    "abi/mod.rs",
    "compiler/mod.rs",
    "driver/mod.rs",
    "stream/mod.rs",
    "import/mod.rs",
    "export/mod.rs",
    "pool/mod.rs",
];

/// The code of a file that is neither test nor comment, line by line, counted from 1.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let code = text.split("#[cfg(test)]").next().unwrap_or("");
    code.lines().map(|line| line.split("//").next().unwrap_or("")).zip(1..).map(|(l, n)| (n, l))
}

/// What follows each `crate::` in a line, and each `super::` where that is the crate too.
fn rooms_named(line: &str, top: bool) -> impl Iterator<Item = &str> {
    let markers = if top { &["crate::", "super::"][..] } else { &["crate::"] };
    markers
        .iter()
        .flat_map(move |marker| line.split(marker).skip(1))
        .map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or(""))
}

/// Every use in `text`, a file of `room`, of a room that is not above it.
fn trespasses(room: &str, top: bool, text: &str) -> Vec<String> {
    let place = |room: &str| ROOMS.iter().position(|known| *known == room);
    let Some(here) = place(room) else { return vec![format!("{room} is not listed in ROOMS")] };
    let mut found = Vec::new();
    for (number, line) in code(text) {
        for used in rooms_named(line, top).filter(|used| *used != room) {
            let apart = APART.contains(&room) && APART.contains(&used);
            match place(used) {
                Some(there) if there < here && !apart => {}
                Some(_) => found.push(format!("{number}: {room} uses {used}, which is not above it")),
                None => found.push(format!(
                    "{number}: {room} uses {used:?} of the crate; name one room, as in `crate::view::View`"
                )),
            }
        }
    }
    found
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() { found.extend(files(&entry)) } else { found.push(entry) }
    }
    found.sort();
    found
}

/// Every source file as its path below `src` and its text.
fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let name = |path: &PathBuf| path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
    files(&root).iter().map(|path| (name(path), fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn a_room_uses_only_rooms_above_it() {
    let mut found = Vec::new();
    for (name, text) in sources().iter().filter(|(name, _)| name != "lib.rs") {
        let room = name.trim_end_matches(".rs").split('/').next().unwrap();
        let top = !name.contains('/') || name.ends_with("/mod.rs");
        found.extend(trespasses(room, top, text).iter().map(|what| format!("src/{name}:{what}")));
    }
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn the_parser_sees_each_kind_of_trespass() {
    let one = |room, text| trespasses(room, true, text);
    assert_eq!(
        one("view", "\nuse crate::lease::Lease;"),
        ["2: view uses lease, which is not above it"]
    );
    assert_eq!(one("view", "let x = crate::copy::copy;").len(), 1);
    assert_eq!(one("view", "use super::lease::Lease;").len(), 1);
    assert_eq!(one("view", "use crate::{error::Error, lease::Lease};").len(), 1);
    assert_eq!(one("view", "use crate::Lease;").len(), 1);
    assert_eq!(one("export", "use crate::import::raw;").len(), 1);
    assert_eq!(one("import", "use crate::export::dlpack;").len(), 1);
    assert_eq!(one("cellar", ""), ["cellar is not listed in ROOMS"]);
    let right =
        "use crate::layout::Layout; // not crate::lease\n#[cfg(test)]\nuse crate::lease::Lease;";
    assert!(one("view", right).is_empty());
    assert!(trespasses("layout", false, "use super::Dims;").is_empty());
}

/// Lines that declare a process-wide lock which a fork could leave shut in the child.
fn bare_locks(text: &str) -> Vec<usize> {
    const LOCKS: [&str; 4] = ["Mutex<", "RwLock<", "LazyLock<", "Once>"];
    let declares = |line: &str| {
        let words = line.trim_start().trim_start_matches("pub").trim_start_matches("(crate)");
        let once = line.contains(": Once ") || line.contains(": Once=");
        words.trim_start().starts_with("static ")
            && (once || LOCKS.iter().any(|lock| line.contains(lock)))
    };
    code(text).filter(|(_, line)| declares(line)).map(|(number, _)| number).collect()
}

/// A thread that holds a lock while another forks is not there in the child: only a `ProcessLock` is open then. A `OnceLock` is
/// set in one step here, and never waited for. The simulated GPU refuses every call in a child before it takes a lock.
#[test]
fn every_process_wide_lock_is_open_in_a_forked_child() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    for folder in ["core", "capi", "python"] {
        for path in files(&crates.join(folder).join("src")) {
            // The registry of the locks is itself taken first, and opened last.
            if path.ends_with("core/src/fork.rs") {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            // The lock of the pool's segments is taken after the driver was asked for, which no forked child has.
            let of_segments = |line: &usize| {
                path.ends_with("core/src/pool/cache.rs")
                    && text
                        .lines()
                        .nth(line - 1)
                        .is_some_and(|text| text.starts_with("static SEGMENTS:"))
            };
            let lines = bare_locks(&text).into_iter().filter(|line| !of_segments(line));
            found.extend(lines.map(|line| format!("{}:{line}", path.display())));
        }
    }
    assert!(found.is_empty(), "use fork::ProcessLock or ledger::FixedName:\n{}", found.join("\n"));
}

#[test]
fn the_search_for_locks_sees_each_kind() {
    assert_eq!(bare_locks("static A: Mutex<u8> = Mutex::new(0);"), [1]);
    assert_eq!(bare_locks("\npub(crate) static A: LazyLock<Name> = x;"), [2]);
    assert_eq!(bare_locks("    static A: Once = Once::new();"), [1]);
    assert_eq!(bare_locks("static A: ProcessLock<RwLock<u8>> = x;"), [1]);
    assert!(bare_locks("static A: ProcessLock<u8> = x;\nlet a: Mutex<u8>;").is_empty());
}

#[test]
fn unsafe_code_stays_in_its_rooms() {
    for (name, text) in sources() {
        let blocks: usize = code(&text).map(|(_, line)| line.matches("unsafe {").count()).sum();
        println!("{blocks:3} unsafe blocks in src/{name}");
        let words = code(&text).any(|(_, line)| {
            line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "unsafe")
        });
        assert!(!words || UNSAFE.contains(&&*name) || name == "abi/dlpack.rs", "src/{name}");
        // The parts of a room are under what its `mod.rs` forbids.
        let part = name.starts_with("layout/") && name != "layout/mod.rs";
        if !part && !UNSAFE.contains(&&*name) && !LISTS.contains(&&*name) {
            let first = text.lines().find(|line| !line.starts_with("//"));
            assert_eq!(first, Some("#![forbid(unsafe_code)]"), "src/{name}");
        }
    }
}
