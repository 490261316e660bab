//! Tickets: leases for other processes.

use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use gpulend::{Lease, ticket};
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::errors::raise;
use crate::lease::PyLease;
use crate::reaper;

/// What a caller asks of a ticket.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) claims: Option<u32>,
    pub(crate) keep: Option<f64>,
    pub(crate) read_only: bool,
    pub(crate) copy: bool,
}

/// Makes a `gpulend.Ticket`.
pub(crate) fn make<'py>(
    py: Python<'py>,
    lease: &Lease,
    wanted: Wanted,
) -> PyResult<Bound<'py, PyAny>> {
    let bytes = offer(py, lease, wanted)?;
    let class = py.import(intern!(py, "gpulend._tickets"))?.getattr(intern!(py, "Ticket"))?;
    class.call1((bytes,))
}

fn offer<'py>(py: Python<'py>, lease: &Lease, wanted: Wanted) -> PyResult<Bound<'py, PyBytes>> {
    reaper::catch_up(py);
    let keep = match wanted.keep {
        None => Duration::MAX,
        Some(keep) => Duration::try_from_secs_f64(keep)
            .map_err(|_| PyValueError::new_err(format!("keep={keep} is no number of seconds")))?,
    };
    let terms = ticket::Terms { claims: wanted.claims, keep, readonly: wanted.read_only };
    let made = py.detach(|| match wanted.copy {
        // SAFETY: who else writes the array meanwhile is the Python caller's to know.
        true => unsafe { ticket::offer_copy(lease, &terms) },
        false => ticket::offer(lease, &terms),
    });
    finish(py, &made.map_err(raise)?)
}

/// How often a ticket may be claimed.
pub(crate) fn number_of_claims(claims: &Bound<'_, PyAny>) -> PyResult<u32> {
    let found = claims.extract::<u32>();
    if found.as_ref().is_ok_and(|found| *found > 0) {
        return found;
    }
    match found {
        Err(error) if !error.is_instance_of::<PyOverflowError>(claims.py()) => Err(error),
        _ => Err(PyValueError::new_err(format!(
            "claims={claims}: a ticket can be claimed once at least, and {} times at most; None is any number",
            u32::MAX
        ))),
    }
}

/// The bytes of a ticket that was made.
fn finish<'py>(py: Python<'py>, made: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    // A forked child has a socket of its own.
    let here = process::id();
    if STARTED_IN.swap(here, Ordering::Relaxed) != here {
        py.import("gpulend._tickets")?.call_method0("end_with_process")?;
    }
    Ok(PyBytes::new(py, made))
}

/// The process that made a ticket first.
static STARTED_IN: AtomicU32 = AtomicU32::new(0);

/// What pickle stores of a lease: a ticket, and that it is to be claimed.
pub(crate) fn reduce<'py>(py: Python<'py>, lease: &Lease) -> PyResult<Bound<'py, PyTuple>> {
    static CLAIM: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let claim = CLAIM.get_or_try_init(py, || {
        Ok::<_, PyErr>(py.import("gpulend._native")?.getattr("claim")?.unbind())
    })?;
    reaper::catch_up(py);
    let made = py.detach(|| ticket::offer_again(lease)).map_err(raise)?;
    (claim, (finish(py, &made)?,)).into_pyobject(py)
}

/// Claim a ticket: a lease of memory that another process lends.
///
/// The memory is opened, not copied, and stays until the lease ends, also if the lender drops it or is killed. In the process that
/// made the ticket the result is a slice of its lease. Unpickling a lease does the same.
///
/// >>> import gpulend
/// >>> lease = gpulend.zeros(3, "int32", device="cpu", shared=True)
/// >>> same = gpulend.claim(lease.ticket())
/// >>> lease[1] = 7
/// >>> same.to_host()
/// array([0, 7, 0], dtype=int32)
#[pyfunction]
#[pyo3(signature = (ticket, /))]
pub(crate) fn claim<'py>(ticket: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyLease>> {
    let py = ticket.py();
    reaper::catch_up(py);
    let bytes = read(ticket)?;
    let lease = py.detach(|| ticket::claim(&bytes)).map_err(raise)?;
    PyLease::new(lease).publish(py)
}

/// Claim several tickets at once: those of one lender take few messages. An error if one is refused; the others are released
/// then.
///
/// >>> import gpulend
/// >>> leases = [gpulend.zeros(3, device="cpu", shared=True) for _ in range(2)]
/// >>> [lease.shape for lease in gpulend.claims(gpulend.tickets(leases))]
/// [(3,), (3,)]
#[pyfunction]
#[pyo3(signature = (tickets, /))]
pub(crate) fn claims<'py>(tickets: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
    let py = tickets.py();
    reaper::catch_up(py);
    let all: Vec<Vec<u8>> =
        tickets.try_iter()?.map(|ticket| read(&ticket?)).collect::<PyResult<_>>()?;
    let leases: Vec<Lease> = py
        .detach(|| {
            let all: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
            ticket::claims(&all).into_iter().collect::<Result<_, _>>()
        })
        .map_err(raise)?;
    let leases: Vec<_> =
        leases.into_iter().map(|lease| PyLease::new(lease).publish(py)).collect::<PyResult<_>>()?;
    PyList::new(py, leases)
}

/// End a ticket of this process; whether it could still be claimed.
#[pyfunction]
#[pyo3(signature = (ticket, /))]
pub(crate) fn withdraw_ticket(py: Python<'_>, ticket: &[u8]) -> PyResult<bool> {
    py.detach(|| ticket::withdraw(ticket)).map_err(raise)
}

/// Refuse bytes that are not a ticket.
#[pyfunction]
#[pyo3(signature = (ticket, /))]
pub(crate) fn check_ticket(ticket: &[u8]) -> PyResult<()> {
    ticket::check(ticket).map_err(raise)
}

/// End all offers, and remove this process's socket.
#[pyfunction]
pub(crate) fn end_tickets(py: Python<'_>) {
    py.detach(ticket::end);
}

/// How many tickets of copies this process made.
#[pyfunction]
pub(crate) fn ticket_copies() -> u64 {
    ticket::copies()
}

/// The bytes of a ticket: of `bytes`, or of anything with a buffer.
fn read(ticket: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    if let Ok(bytes) = ticket.cast::<PyBytes>() {
        return Ok(bytes.as_bytes().to_vec());
    }
    let bytes = ticket.py().get_type::<PyBytes>();
    // `bytes(5)` would be five zeros.
    let view = ticket.py().import(intern!(ticket.py(), "builtins"))?.getattr("memoryview")?;
    Ok(bytes.call1((view.call1((ticket,))?,))?.cast::<PyBytes>()?.as_bytes().to_vec())
}
