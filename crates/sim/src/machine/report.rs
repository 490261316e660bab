//! The fault report: the program's errors.
#![forbid(unsafe_code)]

use serde_json::{Value, json};

use crate::status::Status;

/// The number of entries kept; others are only counted.
const KEPT: usize = 1000;

/// One error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The driver function that detected it.
    pub function: &'static str,
    /// What was wrong.
    pub what: String,
    /// The address or handle concerned.
    pub address: usize,
    /// A description of the nearest allocation.
    pub nearest: Option<String>,
    /// The status for the caller.
    pub status: Status,
}

/// All errors so far.
#[derive(Debug, Default)]
pub struct Report {
    faults: Vec<Fault>,
    seen: usize,
}

impl Report {
    /// Adds an entry.
    pub fn add(&mut self, fault: Fault) {
        self.seen += 1;
        if self.faults.len() < KEPT {
            self.faults.push(fault);
        }
    }

    /// Returns the entries that were kept.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// Returns the number of errors, kept or not.
    #[must_use]
    pub fn seen(&self) -> usize {
        self.seen
    }

    /// Returns the entries for JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        self.faults.iter().map(Fault::to_json).collect()
    }
}

impl Fault {
    fn to_json(&self) -> Value {
        json!({
            "function": self.function,
            "what": self.what,
            "address": format!("{:#x}", self.address),
            "nearest": self.nearest,
            "status": self.status.0,
        })
    }
}
