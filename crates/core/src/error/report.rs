//! Errors as `main` returns them.
#![forbid(unsafe_code)]

use std::fmt;

use super::Error;

/// An error for `main`, which prints the `Debug` form of what it returns: the code, the message and the hint.
///
/// ```
/// fn main() -> Result<(), gpulend::Report> {
///     gpulend::Lease::from_vec(vec![1.0_f32; 6])?.reshaped(&[2, 3])?;
///     Ok(())
/// }
/// ```
pub struct Report(pub Error);

impl<E: Into<Error>> From<E> for Report {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl fmt::Debug for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "gpulend {}: {}", self.0.code(), self.0)?;
        self.0.hint().map_or(Ok(()), |hint| write!(out, "; {hint}"))
    }
}

#[cfg(test)]
mod tests {
    use super::Report;
    use crate::error::Error;

    #[test]
    fn a_report_is_the_code_the_message_and_the_hint() {
        let hint = Error::Released.hint().unwrap().to_string();
        let report = Report::from(Error::Released);
        assert_eq!(format!("{report:?}"), format!("gpulend 500: {}; {hint}", Error::Released));
        assert_eq!(report.to_string(), format!("{report:?}"));
    }
}
