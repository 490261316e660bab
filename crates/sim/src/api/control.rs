//! Control functions that only the simulated GPU has: settings, injected errors, reports.

use std::ffi::c_char;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::pointer::{Address, In, Out};
use super::process::{configure, machine, was_forked};
use super::{injection, table, thread};
use crate::machine::fault;
use crate::machine::launch::Failure;
use crate::status::Status;

/// Runs a body, and keeps its error message. A forked child has no machine to use.
fn guard(body: impl FnOnce() -> Result<(), (Status, String)>) -> Status {
    let guarded = || {
        if was_forked() {
            return Err((
                Status::ERROR_NOT_INITIALIZED,
                "this process was forked from one with a simulated GPU".to_owned(),
            ));
        }
        body()
    };
    let (status, problem) = match catch_unwind(AssertUnwindSafe(guarded)) {
        Ok(Ok(())) => (Status::SUCCESS, String::new()),
        Ok(Err(refused)) => refused,
        Err(_) => (Status::ERROR_UNKNOWN, "a bug of the simulated GPU: it panicked".to_owned()),
    };
    thread::set_problem(&problem);
    status
}

fn text(pointer: In<c_char>) -> Result<&'static str, (Status, String)> {
    let text = pointer
        .text()
        .map_err(|status| (status, "found a null pointer, wanted text".to_owned()))?;
    text.to_str()
        .map_err(|_| (Status::ERROR_INVALID_VALUE, "found bytes that are not UTF-8".to_owned()))
}

/// Configures the machine before `cuInit`: `devices=2,memory=1GiB,seed=7,check=off,timeout=5`.
///
/// # Safety
///
/// 1. `settings` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_sim_configure(settings: In<c_char>) -> Status {
    guard(|| configure(text(settings)?))
}

/// Returns the message of the last failed `gpulend_sim_…` call, or of `cuInit`, on this thread; valid until the next.
#[unsafe(no_mangle)]
pub extern "C" fn gpulend_sim_problem() -> *const c_char {
    thread::problem()
}

/// Replaces the fault rules: calls that fail, limited memory, lost devices.
///
/// # Safety
///
/// 1. `rules` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_sim_faults(rules: In<c_char>) -> Status {
    guard(|| {
        let invalid = |problem| (Status::ERROR_INVALID_VALUE, problem);
        let machine = machine().ok_or_else(|| {
            (
                Status::ERROR_NOT_INITIALIZED,
                "the simulated GPU has not started; call cuInit first".to_owned(),
            )
        })?;
        let rules = fault::parse(text(rules)?).map_err(invalid)?;
        let mut state = machine.lock();
        injection::check(&rules, state.config.devices).map_err(invalid)?;
        injection::replace(&rules);
        state.apply(&rules);
        Ok(())
    })
}

/// Sets whether queries by this thread leave queued work alone.
#[unsafe(no_mangle)]
pub extern "C" fn gpulend_sim_passive(on: i32) -> Status {
    guard(|| {
        thread::set_passive(on != 0);
        Ok(())
    })
}

/// Allows this thread's next launch to access a range of host memory. Calls accumulate. That launch clears
/// them, whatever it returns. The memory must stay mapped until the launch has run.
#[unsafe(no_mangle)]
pub extern "C" fn gpulend_sim_admit(address: u64, bytes: u64) -> Status {
    guard(|| {
        let mapped = usize::try_from(address)
            .ok()
            .zip(usize::try_from(bytes).ok())
            .is_some_and(|(address, bytes)| Address::at(address).range(bytes).is_mapped());
        if address == 0 || bytes == 0 || !mapped {
            let found = format!("found {bytes} bytes at {address:#x}, wanted memory of the host");
            return Err((Status::ERROR_INVALID_VALUE, found));
        }
        thread::admit(address, bytes);
        Ok(())
    })
}

/// Limits this thread's next launch to a part of an allocation, for an array that is a slice of it. Calls
/// accumulate. That launch clears them, whatever it returns. Allocations without such a part are accessible
/// as a whole.
#[unsafe(no_mangle)]
pub extern "C" fn gpulend_sim_span(address: u64, bytes: u64) -> Status {
    guard(|| {
        thread::add_span(address, bytes);
        Ok(())
    })
}

/// Announces the end of the process. Waits for host functions that streams are calling, starts no others, and
/// runs queued work that does not depend on them. Takes at most this many milliseconds. Does nothing without
/// a machine.
#[unsafe(no_mangle)]
pub extern "C" fn gpulend_sim_end(milliseconds: u32) -> Status {
    guard(|| {
        if let Some(machine) = machine() {
            machine.end(Duration::from_millis(milliseconds.into()));
        }
        Ok(())
    })
}

/// Returns the kernel error behind this thread's last failed call: the kernel's name, a newline, then what
/// happened and where. Empty if there was none. Valid until this thread's next call of this function. The
/// address concerned, or 0, is written to `address`.
///
/// # Safety
///
/// 1. `address` is null or has room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_sim_mistake(address: Out<u64>) -> *const c_char {
    let last = catch_unwind(Failure::last_of_thread).unwrap_or_default();
    let (text, at) = last.map_or_else(Default::default, |failure| {
        (format!("{}\n{}", failure.kernel, failure.what), failure.address)
    });
    address.offer(at);
    thread::set_problem(&text);
    thread::problem()
}

/// Writes the report as JSON, as far as it fits, and returns its length without the NUL.
///
/// # Safety
///
/// 1. `buffer` is null or has room for `bytes`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_sim_report(buffer: Out<c_char>, bytes: usize) -> usize {
    catch_unwind(AssertUnwindSafe(|| {
        // A thread that does not exist in the child may have held the lock.
        let report = if was_forked() { "{}".to_owned() } else { report() };
        if bytes > 0 && !buffer.is_null() {
            let written = report.bytes().take(bytes - 1).chain([0]);
            // SAFETY: (1): at most `bytes` are written.
            unsafe { buffer.put_all(written.map(|byte| c_char::from_ne_bytes([byte]))) };
        }
        report.len()
    }))
    .unwrap_or(0)
}

/// Returns the report as JSON: calls, unsupported functions, faults, live objects.
pub(super) fn report() -> String {
    let mut report =
        json!({ "calls": counted(true), "unsupported": counted(false), "faults": [], "live": {} });
    if let Some(machine) = machine() {
        let state = machine.lock();
        report["faults"] = state.report.to_json();
        report["faults_seen"] = json!(state.report.seen());
        report["live"] = state.live();
    }
    report.to_string()
}

/// Returns the number of calls of each implemented, or each unsupported, function.
fn counted(behaves: bool) -> Value {
    let mut counted = Map::new();
    for (row, function) in table::FUNCTIONS.iter().enumerate() {
        let count = table::COUNTS[row].load(Ordering::Relaxed);
        if count > 0 && function.test.is_some() == behaves {
            counted.insert(function.symbol.to_owned(), json!(count));
        }
    }
    Value::Object(counted)
}

/// Returns a summary for stderr, if there is anything to report.
pub(super) fn summary() -> Option<String> {
    const SHOWN: usize = 10;
    let mut lines = Vec::new();
    if let Some(machine) = machine() {
        let state = machine.lock();
        for fault in state.report.faults().iter().take(SHOWN) {
            let nearest =
                fault.nearest.as_ref().map(|nearest| format!("; {nearest}")).unwrap_or_default();
            // Some faults concern no address.
            let address = Some(fault.address).filter(|address| *address != 0);
            let address = address.map(|address| format!(", {address:#x}")).unwrap_or_default();
            lines.push(format!("  {}: {}{address}{nearest}", fault.function, fault.what));
        }
        if state.report.seen() > SHOWN {
            lines.push(format!("  and {} more", state.report.seen() - SHOWN));
        }
    }
    if let Value::Object(missing) = counted(false) {
        for (function, count) in &missing {
            lines.push(format!(
                "  {function}: called {count} times, does not behave on the simulated GPU yet"
            ));
        }
    }
    if lines.is_empty() {
        None
    } else {
        Some(format!("gpulend: the simulated GPU reports:\n{}", lines.join("\n")))
    }
}
