//! The ledger: all leases and exports of the process.

use std::ffi::c_char;
use std::fmt::Write;

use gpulend::{ledger, ticket};

use crate::guard::guard;
use crate::pointer::{Out, put_text};
use crate::types::Status;

/// The number of leases, slices and exports that are alive in this process, Python's and Rust's too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_live(count: *mut u64) -> Status {
    guard(|| {
        // SAFETY: (1) of the crate.
        let count = unsafe { Out::at(count, "count") }?;
        count.put(ledger::live() as u64);
        Ok(())
    })
}

/// Writes all leases and exports, one a line, as gpulend_dtype_name() writes: serial, kind, bytes,
/// address, holder, seconds, and the serial of the lease that it keeps. The text may be longer at
/// the next call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_ledger(text: *mut c_char, room: u64, needed: *mut u64) -> Status {
    guard(|| {
        let lines = lines();
        // SAFETY: (1) of the crate.
        unsafe { put_text(&lines, text, room, needed) }
    })
}

fn lines() -> String {
    ticket::settle();
    let ledger::Snapshot { entries, waiting, leaked } = ledger::snapshot();
    let mut lines = format!("{} held, {waiting} waiting, {leaked} leaked\n", entries.len());
    for entry in entries {
        let ledger::Entry { serial, kind, who, of, address, nbytes, age } = entry;
        let (kind, age) = (kind.name(), age.as_secs_f64());
        // Writing to a string does not fail.
        let _ = writeln!(
            lines,
            "{serial:>8}  {kind:<9}  {nbytes:>12} bytes at {address:#x}  {who}, {age:.2} s, of {of}"
        );
    }
    lines
}
