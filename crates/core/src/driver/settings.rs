//! What a program asks of the simulated GPU.
#![forbid(unsafe_code)]

use std::fmt;

use gpulend_common::Check;

/// The shape of the simulated GPU. What is not said is as `GPULEND_SIM_*` says, or as usual.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// How many devices.
    pub devices: Option<u64>,
    /// Bytes of memory of each.
    pub memory: Option<u64>,
    /// What the order of queued work follows from.
    pub seed: Option<u64>,
    /// How much it looks for mistakes.
    pub check: Option<Check>,
    /// Seconds that a launch may take; 0: as long as it takes.
    pub timeout: Option<u64>,
    /// Whether a kernel's mistake stays with its context.
    pub sticky: Option<bool>,
    /// Whether PTX of NVIDIA's compilers is taken.
    pub accept_nvvm: Option<bool>,
    /// Whether other clients of this process find it as `libcuda.so.1`.
    pub expose: bool,
}

/// As `gpulend_sim_configure` reads it: `devices=2,seed=7`.
impl fmt::Display for Settings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let given = [
            ("devices", self.devices),
            ("memory", self.memory),
            ("seed", self.seed),
            ("timeout", self.timeout),
            ("sticky", self.sticky.map(u64::from)),
            ("accept_nvvm", self.accept_nvvm.map(u64::from)),
        ];
        let mut separator = "";
        for (key, value) in given {
            if let Some(value) = value {
                write!(out, "{separator}{key}={value}")?;
                separator = ",";
            }
        }
        if let Some(check) = self.check {
            write!(out, "{separator}check={}", check.name())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_say_only_what_was_asked_for() {
        assert_eq!(Settings::default().to_string(), "");
        let settings = Settings { devices: Some(2), seed: Some(7), ..Settings::default() };
        assert_eq!(settings.to_string(), "devices=2,seed=7");
        let settings = Settings { memory: Some(1 << 30), expose: true, ..Settings::default() };
        assert_eq!(settings.to_string(), "memory=1073741824");
        let settings = Settings {
            check: Some(Check::Memory),
            timeout: Some(5),
            sticky: Some(true),
            accept_nvvm: Some(false),
            ..Settings::default()
        };
        assert_eq!(settings.to_string(), "timeout=5,sticky=1,accept_nvvm=0,check=memory");
    }
}
