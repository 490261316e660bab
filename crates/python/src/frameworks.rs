//! What adapters say of their frameworks' types: asked once for each type, in Python.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use gpulend::fork::ProcessLock;
use gpulend::kernel::add_stand_in;
use gpulend::ledger::Name;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::errors::{BAD_ARGUMENT, caused, refused};
use crate::protocols::name_of_class;
use crate::{classes, routes};

/// One kind of a framework's arrays: `gpulend.adapters.Producer`, where each field is explained.
#[derive(FromPyObject)]
pub(crate) struct Kind {
    pub(crate) native: Option<Native>,
    refuse_type: Option<Py<PyAny>>,
    refuse: Option<Py<PyAny>>,
    pub(crate) current: Option<Py<PyAny>>,
    pub(crate) place: Option<Py<PyAny>>,
    pub(crate) stand_in: Option<Py<PyAny>>,
    pub(crate) protocol: String,
    pub(crate) call: Option<String>,
    pub(crate) immutable: bool,
    pub(crate) forgetful: bool,
    pub(crate) stands_in: bool,
}

/// What brings arrays in faster than a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Native {
    Torch,
    NumPy,
    Cupy,
}

impl FromPyObject<'_, '_> for Native {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        match object.extract::<String>()?.as_str() {
            "torch" => Ok(Self::Torch),
            "numpy" => Ok(Self::NumPy),
            "cupy" => Ok(Self::Cupy),
            other => {
                Err(refused(format!("there is no native reader named {other:?}"), BAD_ARGUMENT))
            }
        }
    }
}

impl Kind {
    /// Has the adapter refuse a type all of whose arrays mean more than bytes.
    pub(crate) fn refuse_type(&self, class: &Bound<'_, PyType>) -> PyResult<()> {
        self.refuse_type
            .as_ref()
            .map_or(Ok(()), |refuse| refuse.call1(class.py(), (class,)).map(drop))
    }

    /// Has the adapter refuse an array that means more than bytes for a use.
    #[inline]
    pub(crate) fn refuse(&self, array: &Bound<'_, PyAny>, used: &'static str) -> PyResult<()> {
        self.refuse
            .as_ref()
            .map_or(Ok(()), |refuse| refuse.call1(array.py(), (array, used)).map(drop))
    }

    /// Whether an adapter brings these arrays in, and no protocol.
    pub(crate) const fn is_adapted(&self) -> bool {
        self.place.is_some() && self.stand_in.is_some()
    }
}

/// A framework's stream objects: `gpulend.adapters.StreamType`.
pub(crate) struct StreamType {
    /// The attribute that has the handle.
    pub(crate) handle: Py<PyAny>,
    /// Whether the object owns its stream.
    pub(crate) owns: bool,
}

/// The kinds that were met, by the adapters' objects, which are kept: there are as many as kinds.
static KINDS: ProcessLock<BTreeMap<usize, &'static Kind>> = ProcessLock::new(BTreeMap::new());
/// What adapters answered, by type. Entries are removed when the type dies: see `classes`.
static FOUND: ProcessLock<BTreeMap<usize, Option<&'static Kind>>> =
    ProcessLock::new(BTreeMap::new());
static STREAMS: ProcessLock<BTreeMap<usize, Option<&'static StreamType>>> =
    ProcessLock::new(BTreeMap::new());

/// How often the answers were forgotten.
static FORGOTTEN: AtomicU64 = AtomicU64::new(0);

/// The moment of an answer: one that was begun before the answers were forgotten is not remembered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment(u64);

impl Moment {
    pub(crate) fn now() -> Self {
        Self(FORGOTTEN.load(Ordering::Relaxed))
    }
}

/// The kind of arrays that a type is, if a framework knows it, and whether that lasts.
pub(crate) fn find(class: &Bound<'_, PyType>) -> PyResult<(Option<&'static Kind>, bool)> {
    let address = class.as_ptr().addr();
    if let Some(found) = FOUND.lock().get(&address) {
        return Ok((*found, true));
    }
    let (py, moment) = (class.py(), Moment::now());
    let adapters = py.import(intern!(py, "gpulend.adapters"))?;
    let answer = adapters.call_method1(intern!(py, "producer_of"), (class,))?;
    let found = match answer.extract::<Option<(Bound<'_, PyAny>, Bound<'_, PyAny>)>>()? {
        None => None,
        Some((framework, producer)) => {
            let kind = met(&producer)?;
            let packages: Vec<String> = framework.getattr("packages")?.extract()?;
            remember(class, kind, &packages);
            Some(kind)
        }
    };
    classes::watch(class)?;
    let lasts = answer_lasts(&adapters, class)? && moment == Moment::now();
    if lasts {
        FOUND.lock().insert(address, found);
    }
    Ok((found, lasts))
}

/// Whether what adapters said of a type stays so: a framework that is not imported yet may know it later.
fn answer_lasts(adapters: &Bound<'_, PyModule>, class: &Bound<'_, PyType>) -> PyResult<bool> {
    adapters.call_method1(intern!(class.py(), "unimported"), (class,))?.is_truthy().map(|any| !any)
}

/// The kind that an adapter's object describes, read once.
fn met(producer: &Bound<'_, PyAny>) -> PyResult<&'static Kind> {
    let address = producer.as_ptr().addr();
    if let Some(kind) = KINDS.lock().get(&address) {
        return Ok(*kind);
    }
    let kind = producer.extract::<Kind>().map_err(|cause| {
        let message = format!("an adapter's Producer cannot be read: {cause}");
        caused(producer.py(), refused(message, BAD_ARGUMENT), cause)
    })?;
    let kind: &'static Kind = Box::leak(Box::new(kind));
    let _kept = producer.clone().into_ptr();
    KINDS.lock().insert(address, kind);
    Ok(kind)
}

/// Remembers whether arrays of a type stand in. A program's own types come and go, and are not remembered.
fn remember(class: &Bound<'_, PyType>, kind: &Kind, packages: &[String]) {
    let name = name_of_class(class);
    let package = name.split('.').next().unwrap_or("");
    if kind.stands_in && packages.iter().any(|own| own == package) {
        // Launches look for these names, so they are not cut.
        let _ = Name::intern(&name);
        add_stand_in(&name);
    }
}

/// What a framework says of the type of a stream object.
pub(crate) fn stream_type(class: &Bound<'_, PyType>) -> PyResult<Option<&'static StreamType>> {
    let address = class.as_ptr().addr();
    if let Some(found) = STREAMS.lock().get(&address) {
        return Ok(*found);
    }
    let (py, moment) = (class.py(), Moment::now());
    let adapters = py.import(intern!(py, "gpulend.adapters"))?;
    let answer = adapters.call_method1(intern!(py, "stream_type_of"), (class,))?;
    let found: Option<&'static StreamType> = match answer.extract::<Option<(Py<PyAny>, bool)>>()? {
        None => None,
        Some((handle, owns)) => Some(Box::leak(Box::new(StreamType { handle, owns }))),
    };
    classes::watch(class)?;
    if answer_lasts(&adapters, class)? && moment == Moment::now() {
        STREAMS.lock().insert(address, found);
    }
    Ok(found)
}

/// Forget what was answered: a framework has come that may know types that were met before.
#[pyfunction]
pub(crate) fn _forget_routes() {
    FORGOTTEN.fetch_add(1, Ordering::Relaxed);
    FOUND.lock().clear();
    STREAMS.lock().clear();
    routes::forget_all();
}

/// Removes the answers for a dying class.
pub(crate) fn forget(class: usize) {
    FOUND.lock().remove(&class);
    STREAMS.lock().remove(&class);
}
