//! The ledger and the list of mappings, as plain tuples; `gpulend.ledger` and `describe` name the fields.

use gpulend::{host, ledger};
use pyo3::prelude::*;

use crate::borrowing::borrow_unordered;
use crate::reaper;
use crate::torch::Use;

type Row = (u64, &'static str, String, u64, u64, u64, f64);

/// All entries (serial, kind, who, of, address, nbytes, age in seconds), and the number leaked.
#[pyfunction]
pub(crate) fn entries(py: Python<'_>) -> (Vec<Row>, u64) {
    reaper::catch_up(py);
    let ledger::Snapshot { entries, leaked } = ledger::snapshot();
    let rows = entries
        .into_iter()
        .map(|entry| {
            let age = entry.age.as_secs_f64();
            let kind = entry.kind.name();
            (entry.serial, kind, entry.who.into(), entry.of, entry.address, entry.nbytes, age)
        })
        .collect();
    (rows, leaked)
}

/// How many leases, sub-leases and exports are alive.
#[pyfunction]
pub(crate) fn live(py: Python<'_>) -> usize {
    reaper::catch_up(py);
    ledger::live()
}

/// First byte and size of the mapping that holds an address, or nothing.
#[pyfunction]
pub(crate) fn mapping_of(address: u64) -> Option<(u64, u64)> {
    host::mapping_of(address).map(|mapping| (mapping.start, mapping.end - mapping.start))
}

/// The address of an array's first element, told without handing it out.
#[pyfunction]
pub(crate) fn locate(array: &Bound<'_, PyAny>) -> PyResult<u64> {
    Ok(borrow_unordered(array, Use::Read)?.view().address())
}
