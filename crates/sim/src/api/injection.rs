//! Injected errors.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, PoisonError};

use super::{Call, process, table, thread};
use crate::machine::fault::{Effect, Rule};
use crate::status::{Outcome, Status};

static ACTIVE: AtomicBool = AtomicBool::new(false);
static RULES: Mutex<Vec<Armed>> = Mutex::new(Vec::new());
/// The environment's rules apply from the first call on.
static ENVIRONMENT: Once = Once::new();

/// A rule, and the number of calls it has counted.
struct Armed {
    function: String,
    call: Option<u64>,
    effect: Effect,
    seen: u64,
}

/// Refuses rules for functions or devices that do not exist.
pub(super) fn check(rules: &[Rule], devices: usize) -> Result<(), String> {
    for rule in rules {
        match rule {
            Rule::Call { function, .. }
                if !table::FUNCTIONS.iter().any(|row| row.answers_to(function)) =>
            {
                return Err(format!(
                    "{function:?} is no function of the CUDA driver that this library lists"
                ));
            }
            Rule::Lost(device) if *device >= devices => {
                return Err(format!("lost={device}: there are {devices} devices, from 0"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Replaces the rules.
pub(super) fn replace(rules: &[Rule]) {
    ENVIRONMENT.call_once(|| {});
    arm(rules);
}

fn arm(rules: &[Rule]) {
    let mut armed = Vec::new();
    for rule in rules {
        if let Rule::Call { function, call, effect } = rule {
            let function = function.clone();
            armed.push(Armed { function, call: *call, effect: *effect, seen: 0 });
        }
    }
    ACTIVE.store(!armed.is_empty(), Ordering::Relaxed);
    *RULES.lock().unwrap_or_else(PoisonError::into_inner) = armed;
}

/// Returns the error that a rule injects into this call, if any.
pub(super) fn strike(call: Call) -> Outcome<()> {
    ENVIRONMENT.call_once(|| arm(&process::first_rules()));
    if !ACTIVE.load(Ordering::Relaxed) {
        return Ok(());
    }
    let mut struck = None;
    for rule in RULES.lock().unwrap_or_else(PoisonError::into_inner).iter_mut() {
        if table::FUNCTIONS[call.row].answers_to(&rule.function) {
            rule.seen += 1;
            if rule.call.is_none_or(|wanted| wanted == rule.seen) {
                struck = Some(rule.effect);
            }
        }
    }
    match struck {
        None => Ok(()),
        Some(Effect::Fail(status)) => Err(status),
        Some(Effect::Lose) => {
            if let Some(machine) = process::machine() {
                let mut state = machine.lock();
                let context = thread::current().and_then(|context| state.contexts.get(context));
                let device = context.map_or(0, |context| context.device);
                state.lose(&call.caller(), device);
            }
            Err(Status::ERROR_DEVICE_UNAVAILABLE)
        }
    }
}
