//! Whether gpulend's own pool serves allocations: `GPULEND_POOL`.
#![forbid(unsafe_code)]

use std::env;
use std::str::FromStr;
use std::sync::atomic::{AtomicU8, Ordering};

use gpulend_common::Check;

use crate::driver::Driver;
use crate::error::{DeviceError, Error};

const VARIABLE: &str = "GPULEND_POOL";

/// Who serves allocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// gpulend's pool on a real GPU, and on a simulated one that checks nothing. Otherwise the driver.
    ///
    /// A pool would hide from the simulated GPU which blocks are freed, and where each ends.
    Auto,
    /// gpulend's pool.
    On,
    /// The driver, for each allocation.
    Off,
}

impl FromStr for Mode {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "" | "auto" => Ok(Self::Auto),
            "on" => Ok(Self::On),
            "off" => Ok(Self::Off),
            _ => {
                let (variable, wanted) = (VARIABLE, "auto, on or off");
                Err(DeviceError::UnknownChoice { variable, wanted, found: text.into() }.into())
            }
        }
    }
}

/// The decision, once it was made.
static DECIDED: AtomicU8 = AtomicU8::new(OPEN);
const OPEN: u8 = 0;
const ON: u8 = 1;
const OFF: u8 = 2;

/// Chooses who serves allocations from now on, whatever `GPULEND_POOL` says. Memory in use stays where it is.
pub fn set_mode(mode: Mode) {
    let decided = match mode {
        Mode::Auto => OPEN,
        Mode::On => ON,
        Mode::Off => OFF,
    };
    DECIDED.store(decided, Ordering::Relaxed);
}

/// Whether gpulend's pool serves allocations.
#[inline]
pub(super) fn is_on(driver: &Driver) -> Result<bool, Error> {
    match DECIDED.load(Ordering::Relaxed) {
        OPEN => decide(driver),
        decided => Ok(decided == ON),
    }
}

#[cold]
fn decide(driver: &Driver) -> Result<bool, Error> {
    let wanted = env::var_os(VARIABLE).unwrap_or_default();
    let on = match wanted.to_string_lossy().parse()? {
        Mode::On => true,
        Mode::Off => false,
        Mode::Auto => driver.checks().is_none_or(|check| check == Check::Off),
    };
    set_mode(if on { Mode::On } else { Mode::Off });
    Ok(on)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_three_modes_and_nothing_means_auto() {
        let parse = |text: &str| text.parse::<Mode>().ok();
        assert_eq!((parse(""), parse("auto")), (Some(Mode::Auto), Some(Mode::Auto)));
        assert_eq!((parse("on"), parse("off")), (Some(Mode::On), Some(Mode::Off)));
        assert_eq!((parse("ON"), parse("1"), parse(" on")), (None, None, None));
    }
}
