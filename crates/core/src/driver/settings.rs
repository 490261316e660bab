//! Settings of the simulated GPU.
#![forbid(unsafe_code)]

use std::fmt;

use gpulend_common::Check;

/// Settings of the simulated GPU. `None` means the value of `GPULEND_SIM_*`, or else the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Number of devices.
    pub devices: Option<u64>,
    /// Bytes of memory of each device.
    pub memory: Option<u64>,
    /// Seed for the order in which queued work runs.
    pub seed: Option<u64>,
    /// How strictly kernels are checked.
    pub check: Option<Check>,
    /// Time limit of a launch in seconds; 0 means no limit.
    pub timeout: Option<u64>,
    /// Whether a kernel's error is sticky, as on a real GPU.
    pub sticky: Option<bool>,
    /// Whether PTX from NVIDIA's compilers is accepted.
    pub accept_nvvm: Option<bool>,
    /// Whether other libraries of this process find it as `libcuda.so.1`.
    pub expose: bool,
}

/// In the syntax of `gpulend_sim_configure`: `devices=2,seed=7`.
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
