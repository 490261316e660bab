//! The ledger as plain tuples; `gpulend.ledger` names the fields.

use gpulend::{ledger, ticket};
use pyo3::prelude::*;

use crate::borrowing::borrow_unordered;
use crate::lease::PyLease;
use crate::reaper;
use crate::torch::Use;

type Row = (u64, &'static str, String, u64, u64, u64, f64);

/// All entries (serial, kind, who, of, address, nbytes, age in seconds), and the numbers waiting and leaked.
#[pyfunction]
pub(crate) fn entries(py: Python<'_>) -> (Vec<Row>, usize, u64) {
    reaper::catch_up(py);
    py.detach(ticket::settle);
    let ledger::Snapshot { entries, waiting, leaked } = ledger::snapshot();
    let rows = entries
        .into_iter()
        .map(|entry| {
            let age = entry.age.as_secs_f64();
            let kind = entry.kind.name();
            (entry.serial, kind, entry.who.into(), entry.of, entry.address, entry.nbytes, age)
        })
        .collect();
    (rows, waiting, leaked)
}

/// How many leases, sub-leases and exports are alive.
#[pyfunction]
pub(crate) fn live(py: Python<'_>) -> usize {
    reaper::catch_up(py);
    ledger::live()
}

/// The address of an array's first element, which does not count as handed out.
#[pyfunction]
pub(crate) fn locate(array: &Bound<'_, PyAny>) -> PyResult<u64> {
    if let Ok(lease) = array.cast::<PyLease>() {
        return lease.get().address();
    }
    Ok(borrow_unordered(array, Use::Read)?.view().address())
}
