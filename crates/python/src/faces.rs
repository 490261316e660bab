//! What must be so before a lease shows itself by a protocol, and what is done first.

use gpulend::abi::dlpack::Device as DlpackDevice;
use gpulend::export::face::{self, Shown};
use gpulend::stream::{Stream, current};
use gpulend::{DeviceKind, Error, Handed, Lease, ProtocolError};
use pyo3::exceptions::{PyAttributeError, PyBufferError};
use pyo3::prelude::*;

use crate::errors::raise;
use crate::memory::twin;
use crate::stream;

/// What a caller of `__dlpack__` asks for.
pub(crate) struct Asked<'a, 'py> {
    pub(crate) stream: Option<&'a Bound<'py, PyAny>>,
    pub(crate) dl_device: Option<(i32, i32)>,
    pub(crate) copy: bool,
    /// Whether the caller's stream was seen to before.
    pub(crate) in_order: bool,
}

/// Does what `__dlpack__` was asked for, up to the capsule: the lease to hand out, and as which device.
pub(crate) fn prepare(
    py: Python<'_>,
    lease: Lease,
    shown: Shown,
    asked: &Asked<'_, '_>,
) -> PyResult<(Handed, DlpackDevice)> {
    let (lease, device) = match asked.dl_device {
        None => (copied(py, lease, asked.copy)?, None),
        Some((code, index)) => match face::wanted(&lease, code, index) {
            Ok(device) => (copied(py, lease, asked.copy)?, Some(device)),
            Err(_) if asked.copy && (code, index) == (1, 0) => {
                // SAFETY: who else writes the array meanwhile is the Python caller's to know.
                let copy = py.detach(|| unsafe { gpulend::copy::duplicate(&lease) });
                (copy.map_err(raise)?, None)
            }
            Err(error) => return Err(raise(error)),
        },
    };
    let device = device.unwrap_or_else(|| face::shown(&lease, shown));
    let handed = Handed::new(&lease);
    match asked.stream.filter(|stream| !matches!(stream.extract::<i64>(), Ok(-1))) {
        _ if face::is_host(device) && lease.view().device().kind() != DeviceKind::Cpu => {
            hand_to_host(py, &lease)?;
        }
        Some(stream) if face::is_host(device) => {
            let found = format!("stream={stream}").into();
            return Err(raise(ProtocolError::HostStream { found }));
        }
        _ if face::is_host(device) => {}
        Some(stream) => {
            order(&lease, &stream::parse_dlpack(stream, lease.view().device().index())?)?
        }
        // Said explicitly, -1 means that the caller sees to the order; said not at all, DLPack
        // means the legacy default stream.
        None if asked.stream.is_some() => {
            lease.check_live().map_err(raise)?;
            if !asked.in_order {
                lease.used_somewhere().map_err(raise)?;
            }
        }
        None => order(&lease, &Stream::legacy(lease.view().device().index()))?,
    }
    Ok((handed, device))
}

/// For the exchange API, whose consumer sees to the order by our current stream.
pub(crate) fn prepare_unordered(py: Python<'_>, lease: &Lease) -> PyResult<(Handed, DlpackDevice)> {
    let handed = Handed::new(lease);
    let device = face::shown(lease, Shown::Usual);
    match lease.view().device().kind() {
        DeviceKind::Cpu => {}
        _ if face::is_host(device) => hand_to_host(py, lease)?,
        _ => {
            order(lease, &current(lease.view().device().index()))?;
            // The consumer may have its own work wait for that stream, and does not say which.
            lease.used_somewhere().map_err(raise)?;
        }
    }
    Ok((handed, device))
}

/// Waits until the host may use the memory, without the GIL: what is waited for may need Python. The host's own is always ready,
/// and then the GIL stays.
pub(crate) fn hand_to_host(py: Python<'_>, lease: &Lease) -> PyResult<()> {
    if lease.view().device().kind() == DeviceKind::Cpu {
        return Ok(());
    }
    py.detach(|| lease.hand_to_host()).map_err(raise)
}

fn copied(py: Python<'_>, lease: Lease, copy: bool) -> PyResult<Lease> {
    if copy { twin(py, &lease) } else { Ok(lease) }
}

/// Has a stream wait, for a hand-over that its caller counts.
fn order(lease: &Lease, stream: &Stream) -> PyResult<()> {
    lease.hand_to(stream).map(drop).map_err(raise)
}

/// Refuses memory that the host cannot read, as an attribute that is not there.
pub(crate) fn require_host(lease: &Lease) -> PyResult<()> {
    if face::is_host_visible(lease) {
        return Ok(());
    }
    Err(PyAttributeError::new_err(unreadable(lease)))
}

/// The same for a buffer.
pub(crate) fn require_buffer(lease: &Lease) -> PyResult<()> {
    if face::is_host_visible(lease) {
        return Ok(());
    }
    Err(PyBufferError::new_err(unreadable(lease)))
}

fn unreadable(lease: &Lease) -> String {
    let device = lease.view().device();
    format!("the memory is on {device}, where the host cannot read it; copy it: `lease.to_host()`")
}

/// Refuses memory that does not show itself as CUDA's, as an attribute that is not there.
pub(crate) fn require_shown_as_cuda(lease: &Lease, shown: Shown) -> PyResult<()> {
    if lease.view().device().kind() != DeviceKind::Cuda {
        let message = "host memory has no __cuda_array_interface__";
        return Err(PyAttributeError::new_err(message));
    }
    if lease.is_simulated() && shown != Shown::Cuda {
        let message = "memory of a simulated GPU shows itself as the host's; \
                       for a client of the simulated driver take lease.as_cuda()";
        return Err(PyAttributeError::new_err(message));
    }
    lease.check_live().map_err(|error: Error| raise(error))
}
