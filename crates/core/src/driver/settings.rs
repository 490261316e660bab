//! What a program asks of the simulated GPU.
#![forbid(unsafe_code)]

use std::fmt;

/// How much the simulated GPU looks for mistakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Not at all.
    Off,
    /// At memory.
    Memory,
    /// At memory, and at what threads of a block do with the memory they share.
    Races,
}

impl Check {
    /// As [`Check::name`] spells them.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Off, Self::Memory, Self::Races].into_iter().find(|check| check.name() == text)
    }

    /// As the simulated GPU reads it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Memory => "memory",
            Self::Races => "races",
        }
    }
}

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

/// Reads a number of bytes: `4096`, `64MiB`, `1GiB`.
#[must_use]
pub fn parse_size(text: &str) -> Option<u64> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (count, unit) = text.split_at(digits);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        _ => return None,
    };
    count.parse::<u64>().ok()?.checked_mul(1 << shift)
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

    #[test]
    fn checks_are_read_as_they_are_written() {
        for check in [Check::Off, Check::Memory, Check::Races] {
            assert_eq!(Check::parse(check.name()), Some(check));
        }
        assert_eq!(Check::parse("all"), None);
    }

    #[test]
    fn sizes_have_binary_units() {
        for (text, bytes) in [("4096", 4096), ("64MiB", 64 << 20), ("1 GiB", 1 << 30), ("2k", 2048)]
        {
            assert_eq!(parse_size(text), Some(bytes));
        }
        for wrong in ["", "GiB", "-1", "1.5GiB", "1 parsec", "99999999999TiB", "1GiB,seed=3"] {
            assert_eq!(parse_size(wrong), None, "{wrong}");
        }
    }
}
