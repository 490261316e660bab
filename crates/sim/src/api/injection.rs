//! Calls that fail on purpose.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::{Call, table, thread};
use crate::machine::fault::{Effect, Rule};
use crate::status::{Outcome, Status};

static ACTIVE: AtomicBool = AtomicBool::new(false);
static RULES: Mutex<Vec<Armed>> = Mutex::new(Vec::new());

/// A rule, and how many calls it has seen.
struct Armed {
    function: String,
    call: Option<u64>,
    effect: Effect,
    seen: u64,
}

/// Takes the rules over in the place of those before.
pub(super) fn install(rules: &[Rule]) -> Result<(), String> {
    let mut armed = Vec::new();
    for rule in rules {
        let Rule::Call { function, call, effect } = rule else { continue };
        if !table::FUNCTIONS.iter().any(|row| row.answers_to(function)) {
            return Err(format!(
                "{function} is no function of the CUDA driver that this library lists"
            ));
        }
        armed.push(Armed { function: function.clone(), call: *call, effect: *effect, seen: 0 });
    }
    ACTIVE.store(!armed.is_empty(), Ordering::Relaxed);
    *RULES.lock().unwrap_or_else(PoisonError::into_inner) = armed;
    Ok(())
}

/// Fails where a rule says so.
pub(super) fn strike(call: Call) -> Outcome<()> {
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
            if let Some(machine) = super::process::machine() {
                let mut state = machine.lock();
                let context = thread::current().and_then(|context| state.contexts.get(context));
                let device = context.map_or(0, |context| context.device);
                state.lose(&call.caller(), device);
            }
            Err(Status::ERROR_DEVICE_UNAVAILABLE)
        }
    }
}
