//! Launches by XLA, inside compiled programs of JAX: a handler of XLA's foreign function interface.
//!
//! Python describes a launch once, while JAX traces a program: kernel, size, numbers, and which parameter is which buffer
//! ([`xla_launch`]). It gets a number, which XLA passes back as an attribute with each call. The handler finds the launch by
//! it and queues it, without the GIL and without Python. On a GPU the launch goes to XLA's own stream, and nobody waits. On the
//! host the buffers stand in for those of the simulated GPU, and the kernel is done when the handler returns.
//!
//! Launches are never removed: a program that XLA compiled may ask for its launch at any time. Equal ones share a number.

mod abi;

use std::collections::BTreeMap;
use std::ffi::CString;
use std::hash::{BuildHasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::{process, ptr, slice};

use gpulend::fork::ProcessLock;
use gpulend::import::raw::ViewRef;
use gpulend::kernel::{Argument, Keep, Kernel, Options, Size};
use gpulend::ledger::FixedName;
use gpulend::stream::{Stream, current};
use gpulend::{Device, Dtype, Error, Memory, driver};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyComplex, PyComplexMethods, PyFloat, PyInt};
use smallvec::SmallVec;

use crate::errors::raise;
use crate::hints;
use crate::kernel::{PyKernel, elements as elements_of, extents};
use crate::launcher::{self, prepare};
use crate::operations::contiguous;

/// What a parameter of a launch is given.
#[derive(Debug)]
enum Source {
    /// The buffer at this place: operands first, then results.
    Buffer(usize),
    Integer(i128),
    Float(f64),
    Bool(bool),
    Complex(f64, f64),
    Bytes(Box<[u8]>),
}

/// A launch that XLA may ask for.
#[derive(Debug)]
struct Launch {
    kernel: Kernel,
    size: Size,
    /// One for each parameter.
    sources: Box<[Source]>,
    /// The shapes of the operands, then of the results. The size was made for them.
    shapes: Box<[Box<[i64]>]>,
    operands: usize,
    /// Pairs of an operand and a result that must be one buffer, because the kernel changes it in place.
    aliases: Box<[(usize, usize)]>,
}

/// All launches by their numbers.
static LAUNCHES: ProcessLock<BTreeMap<i64, &'static Launch>> = ProcessLock::new(BTreeMap::new());

static ARRAY: FixedName = FixedName::new("jax.Array");

/// Numbers a launch. Other processes have other numbers, so that a program which XLA stored on disk there finds none here.
fn publish(launch: Launch) -> i64 {
    static RANDOM: OnceLock<RandomState> = OnceLock::new();
    let process = RANDOM.get_or_init(RandomState::new).hash_one(process::id());
    let mut launches = LAUNCHES.lock();
    let number = (process & (i64::MAX.cast_unsigned() >> 31 << 31)) + launches.len() as u64;
    let number = number.cast_signed();
    launches.insert(number, Box::leak(Box::new(launch)));
    number
}

/// Describe a launch for XLA, and return its number.
///
/// `elements` is a count or a shape, with one thread for each element; without it, `blocks` is the grid and the block. `sources` has for each parameter the place of
/// its buffer in `shapes` (operands, then results), as `(place,)`, or a number. `aliases` are pairs of an operand and a
/// result, by their places among operands and results.
#[pyfunction]
#[pyo3(signature = (kernel, elements, blocks, shared, sources, shapes, operands, aliases, /))]
#[expect(clippy::too_many_arguments, reason = "Python gives them once a launch")]
pub(crate) fn xla_launch(
    py: Python<'_>,
    kernel: &Bound<'_, PyKernel>,
    elements: Option<&Bound<'_, PyAny>>,
    blocks: Option<(Bound<'_, PyAny>, Bound<'_, PyAny>)>,
    shared: i64,
    sources: Vec<Bound<'_, PyAny>>,
    shapes: Vec<Vec<i64>>,
    operands: usize,
    aliases: Vec<(usize, usize)>,
) -> PyResult<i64> {
    let kernel = kernel.get().kernel();
    let prepared = prepare(kernel, py)?;
    let size = match (elements, blocks) {
        (Some(count), None) => {
            let shared = launcher::size_of(kernel, [1; 3], [1; 3], shared)?.shared;
            kernel.size_over(elements_of(kernel, count)?, shared).map_err(raise)?
        }
        (None, Some((grid, block))) => {
            let grid = extents(kernel, &grid, "grid")?;
            launcher::size_of(kernel, grid, extents(kernel, &block, "block")?, shared)?
        }
        _ => return Err(PyTypeError::new_err("give elements, or grid and block")),
    };
    let sources = sources.iter().map(|source| read(source, shapes.len()));
    let sources = sources.collect::<PyResult<Box<[_]>>>()?;
    let paired = |(operand, result): &(usize, usize)| {
        *operand < operands && *result < shapes.len().saturating_sub(operands)
    };
    if !aliases.iter().all(paired) {
        return Err(PyValueError::new_err("an alias names no operand or no result"));
    }
    let mut trial = prepared.plan(Options::default());
    for source in &sources {
        trial.push(&source.value().unwrap_or(Argument::Null)).map_err(raise)?;
    }
    trial.check(&size).map_err(raise)?;
    let shapes = shapes.into_iter().map(Vec::into_boxed_slice).collect();
    let (kernel, aliases) = (kernel.clone(), aliases.into_boxed_slice());
    Ok(publish(Launch { kernel, size, sources, shapes, operands, aliases }))
}

fn read(source: &Bound<'_, PyAny>, buffers: usize) -> PyResult<Source> {
    if let Ok((place,)) = source.extract::<(usize,)>() {
        let found = (place < buffers).then_some(Source::Buffer(place));
        return found.ok_or_else(|| PyValueError::new_err("a parameter names no buffer"));
    }
    if source.is_instance_of::<PyBool>() {
        return Ok(Source::Bool(source.is_truthy()?));
    }
    if source.is_instance_of::<PyInt>() {
        return Ok(Source::Integer(source.extract()?));
    }
    if source.is_instance_of::<PyFloat>() {
        return Ok(Source::Float(source.extract()?));
    }
    if let Ok(number) = source.cast::<PyComplex>() {
        return Ok(Source::Complex(number.real(), number.imag()));
    }
    if let Ok(bytes) = source.cast::<PyBytes>() {
        return Ok(Source::Bytes(bytes.as_bytes().into()));
    }
    Err(PyTypeError::new_err(format!("{} is no number of a launch", source.repr()?)))
}

impl Source {
    /// The value, unless it is a buffer.
    fn value(&self) -> Option<Argument<'_>> {
        Some(match self {
            Self::Buffer(_) => return None,
            Self::Integer(value) => Argument::Integer(*value),
            Self::Float(value) => Argument::Float(*value, None),
            Self::Bool(value) => Argument::Bool(*value),
            Self::Complex(re, im) => Argument::Complex(*re, *im),
            Self::Bytes(bytes) => Argument::Bytes(bytes),
        })
    }
}

/// The addresses of the handlers for XLA's platforms "cpu" and "CUDA".
#[pyfunction]
pub(crate) fn xla_handlers() -> (usize, usize) {
    let handlers: [unsafe extern "C" fn(*mut abi::CallFrame) -> *mut abi::XlaError; 2] =
        [on_host, on_gpu];
    let [host, gpu] = handlers.map(|handler| handler as usize);
    (host, gpu)
}

/// The handler for the platform "cpu".
///
/// # Safety
///
/// As the contract of [`handle`].
unsafe extern "C" fn on_host(frame: *mut abi::CallFrame) -> *mut abi::XlaError {
    // SAFETY: the contract.
    unsafe { handle(frame, false) }
}

/// The handler for the platform "CUDA".
///
/// # Safety
///
/// As the contract of [`handle`].
unsafe extern "C" fn on_gpu(frame: *mut abi::CallFrame) -> *mut abi::XlaError {
    // SAFETY: the contract.
    unsafe { handle(frame, true) }
}

const UNKNOWN_VERSION: &str =
    "gpulend does not know this version of XLA's interface; update gpulend or jaxlib";

/// What went wrong: a code of XLA's, and the text.
type Wrong = (i32, String);

fn wrong(text: impl Into<String>) -> Wrong {
    (abi::INVALID_ARGUMENT, text.into())
}

/// Answers a question about the handler, or launches. Returns null, or an error for XLA to destroy.
///
/// # Safety
///
/// 1. `frame` is null, or points to a call frame of XLA's, whose pointers are valid for this call as `c_api.h` says, and whose
///    structs begin with their sizes.
/// 2. XLA keeps the buffers until the handler has returned and, on a GPU, until its stream has done the work queued by it;
///    nobody else works on them meanwhile.
unsafe fn handle(frame: *mut abi::CallFrame, gpu: bool) -> *mut abi::XlaError {
    if frame.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: (1): every version of it begins with its size.
    let size = unsafe { (*frame).struct_size };
    if size < abi::CALL_FRAME {
        let api = match size {
            ..abi::FRAME_API => ptr::null(),
            // SAFETY: (1): so much of it is there.
            _ => unsafe { (*frame).api },
        };
        // SAFETY: (1).
        return unsafe { error(api, abi::INVALID_ARGUMENT, UNKNOWN_VERSION.to_owned()) };
    }
    // SAFETY: (1), and all of it is there.
    let frame = unsafe { &*frame };
    // SAFETY: (1).
    if let Some(extension) = unsafe { frame.extension.as_mut() }
        && extension.kind == abi::METADATA
    {
        // SAFETY: (1), and it is of that kind.
        unsafe { describe(ptr::from_mut(extension)) };
        return ptr::null_mut();
    }
    // SAFETY: (1) and (2).
    let launched = catch_unwind(AssertUnwindSafe(|| unsafe { launch(frame, gpu) }));
    let (code, text) = match launched {
        Ok(Ok(())) => return ptr::null_mut(),
        Ok(Err(wrong)) => wrong,
        Err(_) => (abi::INTERNAL, "bug: a panic in a launch by XLA".to_owned()),
    };
    // SAFETY: (1).
    unsafe { error(frame.api, code, text) }
}

/// Tells XLA which version of the interface the handlers are made for.
///
/// # Safety
///
/// `extension` points to a metadata extension, whose pointer is valid.
unsafe fn describe(extension: *mut abi::Extension) {
    let extension = extension.cast::<abi::MetadataExtension>();
    // SAFETY: the contract.
    if unsafe { (*extension).base.struct_size } < size_of::<abi::MetadataExtension>() {
        return;
    }
    // SAFETY: the contract.
    let metadata = unsafe { (*extension).metadata };
    // SAFETY: the contract.
    let Some(metadata) = (unsafe { metadata.as_mut() }) else { return };
    if metadata.struct_size < abi::METADATA_END {
        return;
    }
    metadata.version = abi::Version {
        struct_size: size_of::<abi::Version>(),
        extension: ptr::null_mut(),
        major: abi::MAJOR,
        minor: abi::MINOR,
    };
    // Not one that XLA may record into a graph of its own.
    metadata.traits = 0;
}

/// Makes an error of XLA's; null if XLA has no function for it.
///
/// # Safety
///
/// `api` is null or points to XLA's interface.
unsafe fn error(api: *const abi::Api, code: i32, text: String) -> *mut abi::XlaError {
    // SAFETY: the contract.
    let api = unsafe { api.as_ref() }.filter(|api| api.struct_size >= abi::API_ERRORS);
    let Some(create) = api.and_then(|api| api.error_create) else { return ptr::null_mut() };
    let message = CString::new(text.replace('\0', " ")).unwrap_or_default();
    let mut request = abi::ErrorCreate {
        struct_size: abi::ERROR_CREATE,
        extension: ptr::null_mut(),
        message: message.as_ptr(),
        code,
    };
    // SAFETY: the request is as `c_api.h` says, and XLA copies the text.
    unsafe { create(&raw mut request) }
}

/// Launches what a call frame asks for.
///
/// # Safety
///
/// As [`handle`].
unsafe fn launch(frame: &abi::CallFrame, gpu: bool) -> Result<(), Wrong> {
    // SAFETY: (1).
    let api = unsafe { frame.api.as_ref() };
    let wanted = if gpu { abi::API_ON_GPU } else { abi::API_ON_HOST };
    let Some(api) = api.filter(|api| api.struct_size >= wanted && api.version.major == abi::MAJOR)
    else {
        return Err(wrong(UNKNOWN_VERSION));
    };
    if frame.stage != abi::EXECUTE {
        return Err(wrong(format!("gpulend has no handler for XLA's stage {}", frame.stage)));
    }
    // SAFETY: (1).
    let number = unsafe { number_in(&frame.attributes) }
        .ok_or_else(|| wrong("gpulend's call has no attribute `launch`; use gpulend.jax.call"))?;
    let launch = LAUNCHES.lock().get(&number).copied().ok_or_else(|| {
        wrong(
            "this program launches a kernel of another process: gpulend's kernels are not part of what JAX exports \
             or stores; trace the program in this process",
        )
    })?;
    let device = launch.kernel.module().device();
    let stream = match gpu {
        // SAFETY: (1).
        true => unsafe { stream_of(api, frame, device) }?,
        false => current(device.index()),
    };
    let place = if gpu { (device, Memory::Device) } else { (Device::CPU, Memory::Host) };
    // SAFETY: (1).
    let buffers = unsafe { views(frame, launch, place) }?;
    let keep = if gpu { Keep::InOrder } else { Keep::Host };
    let arguments: SmallVec<[Argument<'_>; 16]> = launch
        .sources
        .iter()
        .map(|source| match source {
            Source::Buffer(place) => {
                let (view, strides) = &buffers[*place];
                let view = ViewRef { strides, ..*view };
                Argument::Array { view, keep, what: ARRAY.get() }
            }
            other => other.value().unwrap_or(Argument::Null),
        })
        .collect();
    // SAFETY: what the kernel does is its author's, and XLA keeps the buffers: (2).
    let launched =
        unsafe { launch.kernel.launch(&launch.size, &stream, &arguments, Options::default()) };
    launched.map_err(said)
}

/// An error of the core in words, with the code that `gpulend explain` takes.
fn said(error: Error) -> Wrong {
    let code = match &error {
        Error::Signature(_) | Error::Layout(_) => abi::INVALID_ARGUMENT,
        _ => abi::INTERNAL,
    };
    (code, format!("gpulend error {}: {}", error.code(), error.explained(hints::words)))
}

/// The attribute `launch`.
///
/// # Safety
///
/// The attributes are XLA's, and valid.
unsafe fn number_in(attributes: &abi::Attributes) -> Option<i64> {
    // SAFETY: the contract: each array is as long as the size says.
    let types = unsafe { array(attributes.types, attributes.size) };
    // SAFETY: as above.
    let names = unsafe { array(attributes.names, attributes.size) };
    // SAFETY: as above.
    let values = unsafe { array(attributes.values, attributes.size) };
    for ((kind, name), value) in types.iter().zip(names).zip(values) {
        // SAFETY: the contract.
        let Some(name) = (unsafe { name.as_ref() }) else { continue };
        // SAFETY: the contract.
        let name = unsafe { array(name.start, i64::try_from(name.length).unwrap_or(0)) };
        if name != b"launch" || *kind != abi::SCALAR {
            continue;
        }
        // SAFETY: the contract: it is a scalar.
        let scalar = unsafe { value.cast::<abi::ScalarAttribute>().as_ref() }?;
        if scalar.dtype == abi::S64 && !scalar.value.is_null() {
            // SAFETY: the contract: the scalar's value is of that type.
            return Some(unsafe { scalar.value.cast::<i64>().read_unaligned() });
        }
    }
    None
}

/// An array of XLA's.
///
/// # Safety
///
/// There are so many elements, or none, and they stay as long as the result is used.
unsafe fn array<'a, T>(start: *const T, count: i64) -> &'a [T] {
    match usize::try_from(count) {
        // SAFETY: the contract.
        Ok(count) if count > 0 && !start.is_null() => unsafe {
            slice::from_raw_parts(start, count)
        },
        _ => &[],
    }
}

/// XLA's stream on a GPU, which must be the kernel's.
///
/// # Safety
///
/// As (1) of [`handle`].
unsafe fn stream_of(
    api: &abi::Api,
    frame: &abi::CallFrame,
    device: Device,
) -> Result<Stream, Wrong> {
    let simulated = driver::driver().map_err(said)?.is_simulated();
    if simulated {
        return Err(wrong(
            "JAX runs on a GPU, and gpulend on the simulated one; set GPULEND_DEVICE=cuda, or \
             JAX_PLATFORMS=cpu",
        ));
    }
    let unknown = || wrong("XLA does not say on which GPU and stream it runs; update jaxlib");
    let ask = api.device_ordinal_get.ok_or_else(unknown)?;
    let mut which = abi::DeviceOrdinalGet {
        struct_size: abi::DEVICE_ORDINAL,
        extension: ptr::null_mut(),
        context: frame.context,
        ordinal: -1,
    };
    // SAFETY: the request is as `c_api.h` says; the context is the frame's.
    let refused = unsafe { ask(&raw mut which) };
    // SAFETY: the error is ours to destroy.
    unsafe { forget(api, refused) }.ok_or_else(unknown)?;
    if u8::try_from(which.ordinal) != Ok(device.index()) {
        let found = which.ordinal;
        return Err(wrong(format!(
            "JAX runs on cuda:{found}, and the kernel is compiled for {device}; compile it with device=\"cuda:{found}\""
        )));
    }
    let ask = api.stream_get.ok_or_else(unknown)?;
    let mut asked = abi::StreamGet {
        struct_size: size_of::<abi::StreamGet>(),
        extension: ptr::null_mut(),
        context: frame.context,
        stream: ptr::null_mut(),
    };
    // SAFETY: as above.
    let refused = unsafe { ask(&raw mut asked) };
    // SAFETY: as above.
    unsafe { forget(api, refused) }.ok_or_else(unknown)?;
    // SAFETY: XLA's streams are of primary contexts, and this one lives until the call returns.
    Ok(unsafe { Stream::named(device.index(), asked.stream.expose_provenance(), None) })
}

/// `None` for an error of XLA's, which is destroyed.
///
/// # Safety
///
/// `error` is null, or an error that the caller owns.
unsafe fn forget(api: &abi::Api, error: *mut abi::XlaError) -> Option<()> {
    if error.is_null() {
        return Some(());
    }
    let mut request = abi::ErrorDestroy {
        struct_size: size_of::<abi::ErrorDestroy>(),
        extension: ptr::null_mut(),
        error,
    };
    if let Some(destroy) = api.error_destroy {
        // SAFETY: the contract.
        unsafe { destroy(&raw mut request) };
    }
    None
}

/// A buffer, and its strides.
type Viewed<'a> = (ViewRef<'a>, SmallVec<[i64; 8]>);

/// Describes the operands, then the results.
///
/// # Safety
///
/// As (1) of [`handle`].
unsafe fn views<'a>(
    frame: &'a abi::CallFrame,
    launch: &'a Launch,
    place: (Device, Memory),
) -> Result<SmallVec<[Viewed<'a>; 8]>, Wrong> {
    let results = launch.shapes.len() - launch.operands;
    let mut found: SmallVec<[Viewed<'a>; 8]> = SmallVec::new();
    for (buffers, count) in [(&frame.arguments, launch.operands), (&frame.results, results)] {
        // SAFETY: the contract: each array is as long as the size says.
        let types = unsafe { array(buffers.types, buffers.size) };
        // SAFETY: as above.
        let places = unsafe { array(buffers.buffers, buffers.size) };
        if types.len() != count || places.len() != count {
            return Err(wrong("gpulend's call has another number of buffers than its launch"));
        }
        for (kind, buffer) in types.iter().zip(places) {
            // SAFETY: the contract.
            let buffer = unsafe { buffer.as_ref() }
                .filter(|buffer| {
                    *kind == abi::BUFFER && buffer.struct_size >= size_of::<abi::Buffer>()
                })
                .ok_or_else(|| wrong("an argument of gpulend's call is no buffer"))?;
            // SAFETY: the contract.
            let shape = unsafe { array(buffer.dims, buffer.rank) };
            let expected = &launch.shapes[found.len()];
            if *shape != **expected {
                let text =
                    format!("a buffer has shape {shape:?}, and its launch is for {expected:?}");
                return Err(wrong(text));
            }
            let address = buffer.data.expose_provenance() as u64;
            let dtype = dtype_of(buffer.dtype)?;
            let view = ViewRef { address, place, dtype, shape, strides: &[], readonly: false };
            found.push((view, contiguous(shape)));
        }
    }
    let address = |place: usize| found.get(place).map(|(view, _)| view.address);
    for (operand, result) in &launch.aliases {
        if address(*operand) != address(launch.operands + result) {
            return Err(wrong("XLA gave an array that a kernel changes in place two buffers"));
        }
    }
    Ok(found)
}

/// An element type by XLA's number.
fn dtype_of(number: i32) -> Result<Dtype, Wrong> {
    let name = match number {
        4 => return Ok(Dtype::INT32),
        11 => return Ok(Dtype::FLOAT32),
        12 => return Ok(Dtype::FLOAT64),
        1 => "bool",
        2 => "int8",
        3 => "int16",
        5 => "int64",
        6 => "uint8",
        7 => "uint16",
        8 => "uint32",
        9 => "uint64",
        10 => "float16",
        16 => "bfloat16",
        15 => "complex64",
        18 => "complex128",
        19 => "float8_e5m2",
        20 => "float8_e4m3fn",
        23 => "float8_e4m3b11fnuz",
        24 => "float8_e5m2fnuz",
        25 => "float8_e4m3fnuz",
        28 => "float8_e4m3",
        29 => "float8_e3m4",
        33 => "float8_e8m0fnu",
        _ => return Err(wrong(format!("gpulend has no name for XLA's element type {number}"))),
    };
    name.parse().map_err(|_| wrong(format!("gpulend has no element type {name}")))
}
