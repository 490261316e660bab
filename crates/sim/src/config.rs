//! Settings of the simulated GPU: `GPULEND_SIM_*` and `gpulend_sim_configure`.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::time::Duration;

use gpulend_common::parse_size;

use crate::machine::device::Processor;
use crate::machine::fault::{self, Rule};

pub use gpulend_common::Check;

/// The settings of a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Number of devices, 1 to 8.
    pub devices: usize,
    /// Bytes of memory of each device.
    pub memory: usize,
    /// Seed of the scheduler's choices.
    pub seed: u64,
    /// How strictly kernels are checked.
    pub check: Check,
    /// The kind of processor that all devices are.
    pub arch: Processor,
    /// Queued work proceeds by itself after this time without a call; zero means never.
    pub idle: Duration,
    /// Time limit of a launch; zero means none.
    pub timeout: Duration,
    /// Whether a kernel's error stays with its context, as on hardware. Otherwise it is reported once.
    pub sticky: bool,
    /// Whether PTX from NVIDIA's compilers is accepted.
    pub accept_nvvm: bool,
    /// Whether a launch is complete when its call returns (`CUDA_LAUNCH_BLOCKING`).
    pub blocking: bool,
    /// The faults to inject.
    pub faults: Vec<Rule>,
    /// The file for the report at exit; `-` prints a summary on stderr.
    pub report: Option<PathBuf>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            devices: 1,
            memory: 4 << 30,
            seed: 0,
            check: Check::Races,
            arch: Processor::TURING,
            idle: Duration::from_millis(200),
            timeout: Duration::from_secs(60),
            sticky: false,
            accept_nvvm: false,
            blocking: false,
            faults: Vec::new(),
            report: None,
        }
    }
}

/// The settings as `gpulend_sim_configure` spells them. In the environment, in capitals after `GPULEND_SIM_`.
const KEYS: [&str; 11] = [
    "devices",
    "memory",
    "seed",
    "check",
    "arch",
    "sticky",
    "idle",
    "timeout",
    "accept_nvvm",
    "faults",
    "report",
];

impl Config {
    /// Returns the settings of the environment.
    ///
    /// # Errors
    ///
    /// A message that names the invalid variable.
    pub fn from_environment() -> Result<Self, String> {
        // CUDA's own variable is a number; anything else counts as 0.
        let blocking = std::env::var("CUDA_LAUNCH_BLOCKING").unwrap_or_default();
        let blocking = blocking.trim().parse::<i64>().is_ok_and(|number| number != 0);
        let mut config = Self { blocking, ..Self::default() };
        for key in KEYS {
            let variable = format!("GPULEND_SIM_{}", key.to_ascii_uppercase());
            let Some(value) = std::env::var_os(&variable).filter(|value| !value.is_empty()) else {
                continue;
            };
            let value = value.to_str().ok_or_else(|| format!("{variable} is not UTF-8"))?;
            config.set(key, value).map_err(|problem| format!("{variable}: {problem}"))?;
        }
        Ok(config)
    }

    /// Applies `settings`: `devices=2,memory=1GiB`.
    ///
    /// # Errors
    ///
    /// A message that names the invalid setting. Then nothing was applied.
    pub fn merge(&mut self, settings: &str) -> Result<(), String> {
        let mut merged = self.clone();
        for setting in settings.split(',').map(str::trim).filter(|setting| !setting.is_empty()) {
            let (key, value) = setting
                .split_once('=')
                .ok_or_else(|| format!("found {setting:?}, wanted key=value"))?;
            merged
                .set(key.trim(), value.trim())
                .map_err(|problem| format!("{}: {problem}", key.trim()))?;
        }
        *self = merged;
        Ok(())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "devices" => {
                self.devices = number(value)?;
                if !(1..=8).contains(&self.devices) {
                    return Err(format!("found {value}, wanted 1 to 8 devices"));
                }
            }
            "memory" => self.memory = device_memory(value)?,
            "seed" => self.seed = number(value)?,
            "check" => {
                let wanted = || format!("found {value:?}, wanted off, memory or races");
                self.check = Check::parse(value).ok_or_else(wanted)?;
            }
            "arch" => {
                let wanted = || format!("found {value:?}, wanted sm_75 or sm_80");
                self.arch = Processor::named(value).ok_or_else(wanted)?;
            }
            "sticky" => self.sticky = switch(value)?,
            "accept_nvvm" => self.accept_nvvm = switch(value)?,
            "timeout" => self.timeout = Duration::from_secs(number(value)?),
            "idle" => self.idle = Duration::from_millis(number(value)?),
            "faults" => self.faults = fault::parse(value)?,
            "report" => self.report = report(value)?,
            _ => return Err(format!("no such setting; there are {}", KEYS.join(", "))),
        }
        Ok(())
    }
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("found {text:?}, wanted a whole number"))
}

fn switch(text: &str) -> Result<bool, String> {
    match text {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(format!("found {text:?}, wanted 0 or 1")),
    }
}

/// A value that looks like a switch is refused: nobody wants a file named `true`.
fn report(text: &str) -> Result<Option<PathBuf>, String> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(Some(PathBuf::from("-"))),
        "0" | "false" | "no" | "off" => Ok(None),
        "" => Err("found nothing, wanted a file, or - for stderr".to_owned()),
        _ => Ok(Some(PathBuf::from(text))),
    }
}

fn device_memory(text: &str) -> Result<usize, String> {
    let bytes = size(text)?;
    // The address space must contain each device's memory several times, for quarantined addresses.
    if (1 << 20..=1 << 40).contains(&bytes) {
        return Ok(bytes);
    }
    Err(format!("found {text}, wanted 1MiB to 1TiB"))
}

/// Parses a number of bytes: `4096`, `64KiB`, `1GiB`.
///
/// # Errors
///
/// A message with the valid forms.
pub fn size(text: &str) -> Result<usize, String> {
    let bytes = parse_size(text).and_then(|bytes| usize::try_from(bytes).ok());
    bytes.ok_or_else(|| format!("found {text:?}, wanted bytes such as 1048576, 64MiB or 1GiB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_setting_changes_nothing() {
        let mut config = Config::default();
        let problem = config.merge("devices=2,memory=lots").unwrap_err();
        assert!(problem.starts_with("memory: "), "{problem}");
        assert_eq!(config, Config::default());
        config
            .merge("devices=2, memory=64MiB ,seed=7,check=off,arch=sm_80,sticky=1,idle=0,timeout=5")
            .unwrap();
        assert_eq!((config.devices, config.memory, config.seed), (2, 64 << 20, 7));
        assert_eq!((config.check, config.idle), (Check::Off, Duration::ZERO));
        assert_eq!(config.arch, Processor::AMPERE);
        assert_eq!((config.sticky, config.timeout), (true, Duration::from_secs(5)));
    }

    #[test]
    fn a_report_that_is_switched_on_goes_to_stderr() {
        let of = |text: &str| {
            let mut config = Config::default();
            config.merge(&format!("report={text}")).map(|()| config.report)
        };
        for text in ["1", "true", "ON", "yes", "-"] {
            assert_eq!(of(text), Ok(Some(PathBuf::from("-"))), "{text}");
        }
        for text in ["0", "false", "off"] {
            assert_eq!(of(text), Ok(None), "{text}");
        }
        // A path is accepted even if its file name looks like a switch.
        for text in ["./1", "report.json", "/tmp/true"] {
            assert_eq!(of(text), Ok(Some(PathBuf::from(text))), "{text}");
        }
        assert!(of("").is_err());
    }

    #[test]
    fn a_number_out_of_bounds_is_refused() {
        for settings in [
            "devices=0",
            "devices=9",
            "memory=1",
            "check=all",
            "arch=80",
            "arch=sm_90",
            "sticky=2",
            "timeout=-1",
            "colour=red",
        ] {
            assert!(Config::default().merge(settings).is_err(), "{settings}");
        }
    }
}
