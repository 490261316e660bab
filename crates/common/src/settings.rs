//! Settings of the simulated GPU, as programs and the environment spell them.

/// How strictly the simulated GPU checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Nothing that costs time: no redzones, no poison, and freed addresses are reused at once.
    Off,
    /// Redzones, poison, quarantine, and the memory accesses of kernels.
    Memory,
    /// Also the accesses of a block's threads to shared memory.
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

/// Parses a number of bytes: `4096`, `64MiB`, `1GiB`.
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
