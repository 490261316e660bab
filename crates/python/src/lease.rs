//! `gpulend.Lease`: what a user holds.

mod state;

use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::sync::atomic::AtomicBool;

use gpulend::export::dlpack::Receiver;
use gpulend::export::face::{self, Shown};
use gpulend::ledger::{FixedName, Name};
use gpulend::stream::current;
use gpulend::{DeviceKind, View, copy};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyComplex, PyDict, PyFloat, PyInt, PyTuple};
use pyo3::{PyTraverseError, PyVisit, ffi};

use crate::arguments::is_number;
use crate::attached::Attached;
use crate::borrowing::{borrow_host, refuse_pinned};
use crate::consumer::Wishes;
use crate::copies::{self, Manner, PyCopy};
use crate::device::PyDevice;
use crate::dtype::{self, PyDtype};
use crate::errors::raise;
use crate::faces::{self, Asked};
use crate::lease_text::{self, text};
use crate::lending::{PyExport, hand_to};
use crate::reaper::while_collecting;
use crate::routes::count_write;
use crate::tickets::{self, Wanted};
use crate::torch::Use;
use crate::{buffer, capsule, collections, exchange, index, interface, memory, stream, wrap};

use state::Held;
static BUFFER: FixedName = FixedName::new("a buffer");

/// Memory of an owner, seen through a checked view: what `borrow` and `wrap` return.
///
/// Any consumer of DLPack, of the buffer protocol or of `__array_interface__`
/// takes a lease as it is; `lend` names the consumer and proves that nothing
/// was copied.
///
/// >>> import gpulend, numpy as np
/// >>> a = np.arange(6.0).reshape(2, 3)
/// >>> lease = gpulend.borrow(a)
/// >>> lease.T.shape, lease[1, ::-1].to_host()
/// ((3, 2), array([5., 4., 3.]))
/// >>> lease.lend("numpy")[0, 0] = 42
/// >>> float(a[0, 0])
/// 42.0
#[pyclass(frozen, name = "Lease", module = "gpulend", weakref)]
pub(crate) struct PyLease {
    held: Attached<Held>,
    /// Whether the bare address was handed out, so that its users are unknown.
    exposed: AtomicBool,
    /// Under which name what `__dlpack__` hands out enters the ledger.
    receiver: Name,
    /// As whose memory it shows itself, if that is not the usual.
    shown: Shown,
    /// Whether it is being handed to a consumer whose stream already waits.
    in_order: bool,
    /// The Python object that the lease's owner keeps, for the cycle collector. The reference is the owner's.
    kept: Option<ManuallyDrop<Py<PyAny>>>,
}

#[pymethods]
impl PyLease {
    /// DLPack's table of C functions for leases.
    #[classattr]
    fn __dlpack_c_exchange_api__(py: Python<'_>) -> PyResult<Py<PyAny>> {
        exchange::capsule(py)
    }

    /// Where the first element lies.
    #[getter]
    pub(crate) fn address(&self) -> PyResult<u64> {
        self.expose();
        self.with_view(View::address)
    }

    /// Where the memory is.
    #[getter]
    fn device(&self) -> PyResult<PyDevice> {
        self.with_view(|view| PyDevice(view.device()))
    }

    /// Whether the memory is a simulated GPU's.
    #[getter]
    fn simulated(&self) -> PyResult<bool> {
        Ok(self.held()?.is_simulated())
    }

    /// What kind of memory it is: "host", "pinned", "managed" or "device".
    #[getter]
    fn memory(&self) -> PyResult<&'static str> {
        self.with_view(|view| view.memory().name())
    }

    /// The extents.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        self.with_view(|view| PyTuple::new(py, view.layout().shape()))?
    }

    /// The strides, in elements.
    #[getter]
    fn strides<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        self.with_view(|view| PyTuple::new(py, view.layout().strides()))?
    }

    /// The extents as stored: packed elements of less than a byte counted in bytes along the last axis.
    #[getter]
    fn storage_shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        self.with_view(|view| PyTuple::new(py, view.storage_shape()))?
    }

    /// The element type.
    #[getter]
    fn dtype(&self) -> PyResult<PyDtype> {
        self.with_view(|view| PyDtype(view.dtype()))
    }

    /// Bytes of the elements.
    #[getter]
    fn nbytes(&self) -> PyResult<u64> {
        self.with_view(View::nbytes)
    }

    /// The number of elements.
    #[getter]
    fn size(&self) -> PyResult<i64> {
        self.with_view(|view| view.layout().size())
    }

    /// The number of axes.
    #[getter]
    fn ndim(&self) -> PyResult<usize> {
        self.with_view(|view| view.layout().rank())
    }

    /// Whether nobody may write through this lease.
    #[getter]
    fn readonly(&self) -> PyResult<bool> {
        self.with_view(View::readonly)
    }

    /// Whether the lease has been released.
    #[getter]
    fn released(&self) -> bool {
        // SAFETY: methods are called with the GIL held; only whether there is one is asked.
        unsafe { self.peek() }.is_none()
    }

    /// The lease with its axes in reverse order.
    #[getter(T)]
    fn transposed(&self, py: Python<'_>) -> PyResult<Self> {
        Ok(self.like(py, self.held()?.transposed()))
    }

    fn __len__(&self) -> PyResult<usize> {
        let first = self.with_view(|view| view.layout().shape().first().copied())?;
        let first = first.ok_or_else(|| PyTypeError::new_err("a lease of 0 axes has no length"))?;
        Ok(usize::try_from(first)?)
    }

    /// The rows one after another, each a sub-lease.
    fn __iter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.get().__len__()?;
        // SAFETY: the object is alive and has `__getitem__`.
        let rows = unsafe { ffi::PySeqIter_New(slf.as_ptr()) };
        // SAFETY: a new reference, or null with an exception set.
        unsafe { Bound::from_owned_ptr_or_err(slf.py(), rows) }
    }

    /// A slice, as NumPy slices, without a copy.
    fn __getitem__(&self, index: &Bound<'_, PyAny>) -> PyResult<Self> {
        let indices = index::read(index)?;
        Ok(self.like(index.py(), self.held()?.index(&indices).map_err(raise)?))
    }

    /// The same elements under another shape, without a copy; one extent may be -1.
    #[pyo3(signature = (*shape))]
    fn reshape(&self, shape: &Bound<'_, PyTuple>) -> PyResult<Self> {
        let py = shape.py();
        let shape = match shape.len() {
            1 => wrap::extents(&shape.get_item(0)?, "shape")?,
            _ => wrap::extents(shape, "shape")?,
        };
        Ok(self.like(py, self.held()?.reshaped(&shape).map_err(raise)?))
    }

    /// The same bytes read as another element type, without a copy.
    fn view(&self, dtype: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (py, dtype) = (dtype.py(), dtype::parse(dtype)?);
        Ok(self.like(py, self.held()?.viewed(dtype).map_err(raise)?))
    }

    /// The same memory, not to be written through the result.
    fn as_readonly(&self, py: Python<'_>) -> PyResult<Self> {
        Ok(self.like(py, self.held()?.as_readonly()))
    }

    /// The same memory, shown as CUDA's also where the GPU is simulated, for libraries that use the simulated driver.
    ///
    /// On a real GPU every lease shows itself so.
    fn as_cuda(&self, py: Python<'_>) -> PyResult<Self> {
        let lease = self.held()?;
        face::require_cuda(&lease).map_err(raise)?;
        Ok(Self { shown: Shown::Cuda, ..self.like(py, lease) })
    }

    /// Say that you queued work on the memory on `stream`: it is not released before that is done, and its next
    /// user waits for it.
    fn used_on(&self, stream: &Bound<'_, PyAny>) -> PyResult<()> {
        let lease = self.held()?;
        refuse_pinned(&lease, stream)?;
        let stream = stream::parse(stream, lease.view().device().index())?;
        lease.used_on(&stream).map_err(raise)
    }

    /// Copy the elements of an array of the same shape and type into this memory. A structured array of NumPy's is taken as
    /// its bytes, with an axis more.
    ///
    /// Between arrays of GPUs the copy is queued on the current stream; with the host it is done on return.
    ///
    /// With `stream` it is queued there, and the result is a `Copy` to wait for. Memory of the host that is pinned is then used
    /// until that is done; other memory of the host only until the call returns, unless `background` is true: then large
    /// arrays are copied by threads after it. `progress` is called four times a second with the bytes that were copied
    /// and their number; what it raises stops the copy.
    #[pyo3(signature = (array, *, stream = None, progress = None, background = false))]
    fn copy_from(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        stream: Option<&Bound<'_, PyAny>>,
        progress: Option<&Bound<'_, PyAny>>,
        background: bool,
    ) -> PyResult<Option<PyCopy>> {
        let source = borrow_host(array, Use::Read)?;
        self.write(py, &source, Manner { stream, progress, background })
    }

    /// Copy the elements to an array of the same shape and type, as `copy_from` does.
    #[pyo3(signature = (array, *, stream = None, progress = None, background = false))]
    fn copy_to(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        stream: Option<&Bound<'_, PyAny>>,
        progress: Option<&Bound<'_, PyAny>>,
        background: bool,
    ) -> PyResult<Option<PyCopy>> {
        let source = self.held()?;
        let target = borrow_host(array, Use::Written)?;
        let manner = Manner { stream, progress, background };
        let copy = copies::move_elements(py, &source, &target, manner)?;
        count_write(array)?;
        Ok(copy)
    }

    /// Make every element `value`. On a GPU that is queued on the current stream.
    ///
    /// >>> import gpulend, numpy as np
    /// >>> array = np.zeros((2, 2))
    /// >>> gpulend.borrow(array)[:, 1].fill(7)
    /// >>> array
    /// array([[0., 7.],
    ///        [0., 7.]])
    fn fill(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let lease = self.held()?;
        let element = memory::encode(value, lease.view().dtype())?;
        memory::fill(py, &lease, &element)?;
        self.tensor(py).map_or(Ok(()), |tensor| count_write(&tensor))
    }

    /// Write a number, or an array of any framework with the same element type, into a part of the memory. As with NumPy, an
    /// array with fewer axes, or with axes of extent 1, is repeated.
    fn __setitem__(&self, index: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = value.py();
        let indices = index::read(index)?;
        let part = self.like(py, self.held()?.index(&indices).map_err(raise)?);
        if is_number(value)? {
            return part.fill(py, value);
        }
        let source = borrow_host(value, Use::Read)?;
        let shape = part.with_view(|view| view.layout().shape().to_vec())?;
        let source = source.broadcast(&shape).unwrap_or(source);
        part.write(py, &source, Manner::default())?;
        Ok(())
    }

    /// A NumPy array with a copy of the elements.
    ///
    /// With `out`, an array of the host with the same shape and element type, the elements are copied there, and `out` is
    /// returned. `stream` is the one that copies, if that is not the current one. The copy is done on return.
    ///
    /// With `pinned` the new array is in pinned memory, which a GPU fills fastest. gpulend keeps up to 1 GiB of it for the
    /// next call. `progress` is called as by `copy_from`.
    #[pyo3(signature = (*, out = None, stream = None, pinned = false, progress = None))]
    fn to_host<'py>(
        &self,
        py: Python<'py>,
        out: Option<&Bound<'py, PyAny>>,
        stream: Option<&Bound<'py, PyAny>>,
        pinned: bool,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        copies::to_host(py, &self.held()?, out, stream, pinned, progress)
    }

    /// As `to_host`, without waiting and without a copy by the driver; None if that is not possible.
    fn _glimpse<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let lease = self.held()?;
        // SAFETY: who else writes the array meanwhile is the Python caller's to know.
        let copied = py.detach(|| unsafe { copy::glimpse(&lease) }).map_err(raise)?;
        let hand = |copied| hand_to(py, copied, intern!(py, "numpy"), None, Wishes::default());
        copied.map(hand).transpose()
    }

    /// The only element, as a number of Python's, copied from where it is.
    ///
    /// `float(lease)`, `int(lease)`, `complex(lease)` and `bool(lease)` are of it too.
    ///
    /// >>> import gpulend, numpy as np
    /// >>> lease = gpulend.borrow(np.array([1.5, 2.5]))
    /// >>> lease[0].item(), int(lease[1])
    /// (1.5, 2)
    fn item<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.with_view(lease_text::require_single)??;
        copies::to_host(py, &self.held()?, None, None, false, None)?
            .call_method0(intern!(py, "item"))
    }

    fn __float__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.get_type::<PyFloat>().call1((self.item(py)?,))
    }

    fn __int__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.get_type::<PyInt>().call1((self.item(py)?,))
    }

    fn __complex__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.get_type::<PyComplex>().call1((self.item(py)?,))
    }

    /// The truth of a number without axes; of an array whether it has rows, as of every sequence.
    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        if self.with_view(|view| view.layout().rank())? == 0 {
            return self.item(py)?.is_truthy();
        }
        Ok(self.__len__()? > 0)
    }

    /// Make a ticket of this lease: bytes by which another process of this machine opens the same memory, with `gpulend.claim`.
    ///
    /// It can be claimed `claims` times, or any number, for `keep` seconds; None is until it is withdrawn. Until then the memory stays,
    /// and afterwards as long as somebody has it. `read_only` claims cannot be written. Memory that other processes cannot open
    /// is refused; `copy=True` makes a ticket of a copy.
    ///
    /// >>> import gpulend
    /// >>> lease = gpulend.zeros((2, 3), device="cpu", shared=True)
    /// >>> ticket = lease.ticket(claims=1, read_only=True)
    /// >>> gpulend.claim(bytes(ticket)).shape
    /// (2, 3)
    #[pyo3(signature = (*, claims = None, keep = 60.0, read_only = false, copy = false))]
    fn ticket<'py>(
        &self,
        py: Python<'py>,
        claims: Option<Bound<'py, PyAny>>,
        keep: Option<f64>,
        read_only: bool,
        copy: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let claims = claims.as_ref().map(tickets::number_of_claims).transpose()?;
        tickets::make(py, &self.held()?, Wanted { claims, keep, read_only, copy })
    }

    /// What any pickler stores: a ticket, which is claimed where it is read.
    fn __reduce_ex__<'py>(
        &self,
        py: Python<'py>,
        _protocol: usize,
    ) -> PyResult<Bound<'py, PyTuple>> {
        tickets::reduce(py, &self.held()?)
    }

    /// The same memory again.
    fn __copy__(&self, py: Python<'_>) -> PyResult<Self> {
        Ok(self.like(py, self.held()?.index(&[]).map_err(raise)?))
    }

    /// A copy where the original is.
    fn __deepcopy__(&self, py: Python<'_>, _memo: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(self.like(py, memory::twin(py, &self.held()?)?))
    }

    /// Hand the memory to a framework: zero copy, or an error that names the rule and the fix.
    ///
    /// `target` is the framework's name, as "torch", or its module. `stream` is the one on which the framework will use it,
    /// if that is not its current one. `copy=True` hands out a copy instead. `allow_writable_alias=True` accepts that a
    /// framework without read-only arrays could write read-only memory.
    #[pyo3(signature = (target, *, stream = None, copy = false, allow_writable_alias = false))]
    pub(crate) fn lend<'py>(
        &self,
        py: Python<'py>,
        target: &Bound<'py, PyAny>,
        stream: Option<&Bound<'py, PyAny>>,
        copy: bool,
        allow_writable_alias: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let lease = self.held()?;
        hand_to(py, lease, target, stream, Wishes { copy, allow_writable_alias })
    }

    /// The bare address for a C library, kept valid inside a `with` block.
    ///
    /// `stream` is the one on which the library will use it: it waits until the bytes are ready, and the memory
    /// is not released before what was queued on it inside the block is done. None is the current one.
    ///
    /// >>> import ctypes, gpulend
    /// >>> numbers = (ctypes.c_int * 3)(1, 2, 3)
    /// >>> with gpulend.borrow(numbers).pointer() as p:
    /// ...     p == ctypes.addressof(numbers), ctypes.string_at(p, 1)
    /// (True, b'\x01')
    #[pyo3(signature = (stream = None))]
    fn pointer<'py>(
        slf: &Bound<'py, Self>,
        stream: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        py.import(intern!(py, "gpulend._pointers"))?.call_method1("PointerContext", (slf, stream))
    }

    /// Whether the bytes are ready already, so that nothing needs to wait.
    fn _is_ready(&self) -> PyResult<bool> {
        self.held()?.is_ready().map_err(raise)
    }

    /// Whether the elements lie without gaps in some order of the axes.
    fn _is_permuted(&self) -> PyResult<bool> {
        self.with_view(|view| view.layout().is_permuted())
    }

    /// Whether the elements lie without gaps, row after row.
    fn _is_row_major(&self) -> PyResult<bool> {
        self.with_view(|view| view.layout().is_compact())
    }

    /// Enters the ledger as an export to `who` until closed, in order for work on a stream: the current one if it is
    /// none.
    #[pyo3(signature = (who, stream))]
    fn _hold_on(&self, who: &str, stream: Option<&Bound<'_, PyAny>>) -> PyResult<PyExport> {
        let lease = self.held()?;
        let device = lease.view().device();
        if device.kind() != DeviceKind::Cuda {
            stream.map_or(Ok(()), |stream| refuse_pinned(&lease, stream))?;
            return Ok(PyExport::new(lease.export(Name::intern(who)), None));
        }
        let stream = match stream {
            Some(stream) => stream::parse(stream, device.index())?,
            None => current(device.index()),
        };
        let _handed = lease.hand_to(&stream).map_err(raise)?;
        Ok(PyExport::new(lease.export(Name::intern(who)), Some(stream)))
    }

    /// End the lease now. An error if exports or slices of it are alive; no effect if it has ended.
    ///
    /// Where the bare address was read, the memory stays until this object is gone too.
    pub(crate) fn release(&self, py: Python<'_>) -> PyResult<()> {
        self.end(py)
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().held()?;
        Ok(slf)
    }

    /// Releases; an exception that is being raised is not replaced.
    fn __exit__(
        &self,
        kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        match self.release(kind.py()) {
            Err(_) if !kind.is_none() => Ok(()),
            result => result,
        }
    }

    /// DLPack export. `max_version` of 1.x gives a versioned capsule, which can say read-only.
    ///
    /// For memory of a GPU `stream` waits until the bytes are ready; -1 asks for no order.
    #[pyo3(signature = (stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<&Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let lease = self.held()?;
        let in_order = self.in_order;
        let asked = Asked { stream, dl_device, copy: copy == Some(true), in_order };
        let (handed, device) = faces::prepare(py, lease, self.shown, &asked)?;
        let to = Receiver { who: self.receiver, device, sample: None };
        match max_version {
            Some((1.., _)) => capsule::versioned(py, handed.lease(), to, asked.copy),
            _ => capsule::legacy(py, handed.lease(), to, "DLPack before 1.0"),
        }
    }

    /// DLPack's device type and index.
    fn __dlpack_device__(&self) -> PyResult<(i32, i32)> {
        let device = face::shown(&self.held()?, self.shown);
        Ok((device.code.0, device.index))
    }

    /// NumPy's description of the memory. It has no owner: keep the lease while it is used.
    ///
    /// Memory that the host cannot read has none.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let lease = self.held()?;
        faces::require_host(&lease)?;
        self.expose();
        faces::hand_to_host(py, &lease)?;
        interface::write(py, lease.view(), None)
    }

    /// CUDA's description of the memory, with the stream to wait for. It has no owner: keep the lease while it is used.
    ///
    /// Memory of the host has none, and that of a simulated GPU only by `as_cuda`.
    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let lease = self.held()?;
        faces::require_shown_as_cuda(&lease, self.shown)?;
        self.expose();
        let stream = lease.ready_stream().map_err(raise)?;
        // Its reader does not say on which streams it works, nor until when.
        lease.used_somewhere_always().map_err(raise)?;
        interface::write(py, lease.view(), stream.as_ref())
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        buffer: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let lease = slf.get().held()?;
        faces::require_buffer(&lease)?;
        faces::hand_to_host(slf.py(), &lease)?;
        // SAFETY: (1) Python passes a buffer to fill; (2) `slf` is alive.
        unsafe { buffer::give(&lease, BUFFER.get(), slf.as_ptr(), buffer, flags) }
    }

    unsafe fn __releasebuffer__(&self, buffer: *mut ffi::Py_buffer) {
        // SAFETY: Python gives back what `__getbuffer__` filled, once.
        unsafe { buffer::take_back(buffer) }
    }

    /// Shows the kept object to the cycle collector, where this lease alone keeps it and no queued work may touch its memory.
    ///
    /// The collector asks several times during one collection, and must not hear "yes" first and "no" later.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Some(kept) = &self.kept else { return Ok(()) };
        // SAFETY: the cycle collector holds the GIL, and a visit runs nothing of Python's.
        match unsafe { self.held.peek() } {
            Held::Live(lease, _) | Held::Parked { lease }
                if while_collecting(|| lease.is_collectable(collections::current())) =>
            {
                visit.call(&**kept)
            }
            _ => Ok(()),
        }
    }

    /// Breaks a cycle that nobody else can reach.
    fn __clear__(&self, py: Python<'_>) {
        drop(self.replace(py, Held::Ended));
    }

    fn __repr__(&self) -> String {
        self.held().map_or_else(|_| "<gpulend.Lease released>".to_owned(), |lease| text(&lease))
    }

    /// What notebooks show: the description, and the first elements of host memory, and of a simulated GPU's if they are
    /// ready. It never waits, queues nothing, and begins nothing that is queued.
    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        // Not `Lease.address`, which says that other code may use the memory.
        let address = slf.get().with_view(View::address).ok();
        let show = py.import(intern!(py, "gpulend._notebook"))?.getattr(intern!(py, "lease"))?;
        show.call1((slf, address))
    }
}
