//! Injected errors: the rules of `GPULEND_SIM_FAULTS`.
#![forbid(unsafe_code)]

use crate::config;
use crate::status::Status;

/// A fault to inject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A call of a function fails: the n-th from now, or every one.
    Call {
        /// The function, by its `cuGetProcAddress` name or its symbol.
        function: String,
        /// Which call, from 1; `None` for every call.
        call: Option<u64>,
        /// The effect of the fault.
        effect: Effect,
    },
    /// Each device has at most this many bytes.
    Memory(usize),
    /// A device is lost from the start.
    Lost(usize),
}

/// The effect of a failing call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It returns the code and does nothing else.
    Fail(Status),
    /// The device of the current context is lost.
    Lose,
}

/// Parses rules: `cuMemAlloc#3=OUT_OF_MEMORY; cuEventQuery#*=719; cuCtxSynchronize#1=LOST; memory=64MiB;
/// lost=0`.
///
/// # Errors
///
/// A message that names the invalid rule and the valid forms.
pub fn parse(text: &str) -> Result<Vec<Rule>, String> {
    text.split(';').map(str::trim).filter(|rule| !rule.is_empty()).map(parse_one).collect()
}

fn parse_one(text: &str) -> Result<Rule, String> {
    let wanted = || {
        format!(
            "found {text:?}, wanted cuFunction#N=CODE, cuFunction#*=CODE, memory=SIZE or lost=DEVICE"
        )
    };
    let (what, value) = text.split_once('=').ok_or_else(wanted)?;
    let (what, value) = (what.trim(), value.trim());
    match what {
        "memory" => {
            let bytes = config::size(value).map_err(|problem| format!("memory: {problem}"))?;
            return Ok(Rule::Memory(bytes));
        }
        "lost" => return Ok(Rule::Lost(value.parse().map_err(|_| wanted())?)),
        _ => {}
    }
    let (function, call) =
        what.split_once('#').filter(|(function, _)| !function.is_empty()).ok_or_else(wanted)?;
    let call = match call {
        "*" => None,
        number => Some(number.parse().ok().filter(|number| *number > 0).ok_or_else(wanted)?),
    };
    let effect = if value.eq_ignore_ascii_case("lost") {
        Effect::Lose
    } else {
        let code = Status::parse(value).filter(|code| *code != Status::SUCCESS);
        Effect::Fail(code.ok_or_else(|| format!("{value:?} in {text:?} is no CUDA error code"))?)
    };
    Ok(Rule::Call { function: function.to_owned(), call, effect })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_of_a_rule_is_read() {
        let rules = parse(
            "cuMemAlloc#3=OUT_OF_MEMORY; cuEventQuery#*=719;cuInit#1=lost;memory=64MiB;lost=1;",
        )
        .unwrap();
        let call = |function: &str, call, effect| Rule::Call {
            function: function.to_owned(),
            call,
            effect,
        };
        assert_eq!(
            rules,
            [
                call("cuMemAlloc", Some(3), Effect::Fail(Status::ERROR_OUT_OF_MEMORY)),
                call("cuEventQuery", None, Effect::Fail(Status::ERROR_LAUNCH_FAILED)),
                call("cuInit", Some(1), Effect::Lose),
                Rule::Memory(64 << 20),
                Rule::Lost(1),
            ]
        );
    }

    #[test]
    fn what_is_no_rule_is_refused_by_name() {
        for text in [
            "cuMemAlloc",
            "cuMemAlloc#0=2",
            "cuMemAlloc#1=0",
            "cuMemAlloc#1=purple",
            "memory=x",
            "lost=x",
        ] {
            assert!(
                parse(text).unwrap_err().contains(text.split('=').next_back().unwrap()),
                "{text}"
            );
        }
    }
}
