//! One error of each kind, and what must be true of all texts.
#![forbid(unsafe_code)]

use super::hint::{CaptureHint, CompileHint, Fit};
use super::*;

/// Words of Python and its libraries, which mean nothing to a reader of C or Rust.
const FOREIGN: [&str; 25] = [
    "astype",
    "None",
    "True",
    "False",
    "copy=",
    "gpulend.",
    "stream=",
    "device=",
    "check=",
    "strided=",
    "owner=",
    "deleter=",
    "numpy",
    "NumPy",
    "torch",
    "cupy",
    "CuPy",
    "ctypes",
    "tensor.",
    "lease.",
    ".item()",
    "bytes([",
    "pip ",
    "Python",
    "multiprocessing",
];

fn word() -> Box<str> {
    "x".into()
}

fn place() -> Box<Place> {
    Box::new(Place { kernel: word(), position: 1, name: Some(word()), wanted: word() })
}

fn shape() -> Box<Shape> {
    Box::new(Shape { kernel: word(), grid: [1; 3], block: [1; 3] })
}

fn layouts() -> Vec<Error> {
    use LayoutError as E;
    let numbers: Box<[i64]> = Box::new([1]);
    [
        E::Rank { shape: 1, strides: 2 },
        E::TooManyAxes { rank: 65, most: 64 },
        E::NegativeExtent { axis: 0, extent: -1 },
        E::Overflow { axis: 0 },
        E::BrokenStride { axis: 0, stride: 3, itemsize: 4 },
        E::UnknownType { code: 9, bits: 9 },
        E::Lanes { lanes: 4 },
        E::UnknownName { found: word() },
        E::BigEndian { found: word() },
        E::Index { axis: 0, index: 5, extent: 3 },
        E::TooManyIndices { given: 2, rank: 1 },
        E::ZeroStep,
        E::InsideByte { element: 3, bits: 4, every: 2 },
        E::ReshapeSize { size: 3, shape: numbers.clone() },
        E::ReshapeCopies { from: numbers.clone(), strides: numbers.clone(), shape: numbers },
        E::View { from: word(), to: word(), reason: "x" },
        E::Mismatch { source_is: word(), destination_is: word() },
        E::Overlap,
        E::Scattered { copies: 9 },
        E::TwoEllipses,
    ]
    .map(Error::from)
    .into()
}

fn hand_overs() -> Vec<Error> {
    let (consumer, found) = (word(), word());
    let mut all = vec![
        Error::Released,
        Error::StillLent { holders: word() },
        Error::OutOfMemory { bytes: 1 },
        Error::OutOfDeviceMemory {
            device: word(),
            bytes: 1,
            free: 0,
            total: 0,
            ours: 0,
            held: word(),
        },
    ];
    all.extend(
        [
            ProtocolError::Null,
            ProtocolError::Version { major: 2, minor: 0 },
            ProtocolError::Field { protocol: "x", field: "x", problem: word() },
            ProtocolError::Mask { protocol: "x" },
            ProtocolError::HostStream { found: word() },
        ]
        .map(Error::from),
    );
    all.extend(
        [
            ExportError::ReadOnly { consumer: consumer.clone() },
            ExportError::WriteReadOnly,
            ExportError::Device { found, wanted: word() },
            ExportError::NegativeStrides { consumer: consumer.clone(), strides: Box::new([-1]) },
            ExportError::NotZeroCopy { consumer: consumer.clone(), found: 16, wanted: 32 },
            ExportError::Type { consumer, dtype: word(), bits_as: "uint8" },
        ]
        .map(Error::from),
    );
    all
}

fn addresses() -> Vec<Error> {
    use AddressError as E;
    let address = 0x10;
    [
        E::Null { elements: 1 },
        E::Misaligned { address, alignment: 4, dtype: word() },
        E::OutOfRange { address, bytes: 8 },
        E::NotMapped { address, nearest: word() },
        E::NotAllocated { place: "a pool", address },
        E::Unknown { address, device: word(), nearest: word() },
        E::PastEnd { address, needed: 8, base: 0, size: 4, found: 4 },
        E::OtherDevice { address, found: word(), wanted: word() },
        E::OtherContext { address, context: 1, device: word() },
        E::Gone { address, reused: "" },
        E::TooShort { address, needed: 8, found: 4 },
    ]
    .map(Error::from)
    .into()
}

fn devices() -> Vec<Error> {
    use DeviceError as E;
    let (library, reason) = (word(), word());
    let refused = |code| E::Refused { library: word(), name: word(), code, advice: word() };
    let mut all: Vec<Error> = [
        E::UnknownName { found: word() },
        E::OutOfReach { device: word(), problem: "x" },
        E::UnknownCode { code: 99 },
        E::UnknownChoice { variable: "VARIABLE", wanted: "this or that", found: word() },
        E::NoDriver { reason: reason.clone() },
        refused(3),
        refused(100),
        E::Incomplete { library: library.clone(), function: word() },
        E::NoSimulator { reason: reason.clone() },
        E::Nothing { reason, other: word() },
        E::Mapped { library: library.clone() },
        E::AlreadyChosen { chosen: word() },
        E::Forbidden,
        E::Exposed { library },
        E::Forked,
        E::NoSuchDevice { device: 1, count: 1 },
        E::NotSimulated,
    ]
    .map(Error::from)
    .into();
    let captured = |hint| DriverError::Captured { what: "x", problem: "x", hint };
    all.extend(
        [
            DriverError::Call { call: "x", code: 1, name: word() },
            DriverError::Settings { found: word(), problem: word() },
            DriverError::Untimed,
            DriverError::Kernel(Box::new(KernelError::Captured { kernel: word() })),
            captured(CaptureHint::NameStream),
            captured(CaptureHint::Outside),
            captured(CaptureHint::SameCapture),
            captured(CaptureHint::Join),
            captured(CaptureHint::WaitBefore),
        ]
        .map(Error::Driver),
    );
    all
}

/// What NVRTC says of a header of the CUDA toolkit that it does not find.
fn missing() -> Diagnostic {
    Diagnostic {
        file: "k.cu".into(),
        line: 1,
        column: 1,
        severity: Severity::Error,
        text: "cannot open source file \"cuda_fp16.h\"".into(),
    }
}

fn compilers() -> Vec<Error> {
    use CompileError as E;
    let (file, report) = (word(), word());
    let source = |diagnostics| E::Source { file: word(), report: word(), diagnostics };
    let architecture =
        |hint| E::Architecture { compiler: word(), oldest: word(), found: word(), hint };
    [
        E::NoCompiler,
        E::BadCompiler { program: word(), reason: word() },
        E::Option { option: word(), reason: "x" },
        source(vec![missing()]),
        source(vec![]),
        E::Launch { file: file.clone(), report: report.clone(), diagnostics: vec![] },
        E::TooLong { limit: std::time::Duration::from_secs(1) },
        E::Crashed { file: file.clone(), status: word(), report: report.clone() },
        E::Name { name: word(), what: "x", wanted: "x" },
        E::Load { reason: word() },
        E::Folder { folder: word(), reason: word() },
        E::Instance { expression: word(), report, diagnostics: vec![] },
        E::UnknownKernel { expression: word(), file: file.clone(), kernels: word() },
        E::NoNvrtc { reason: word() },
        E::Image { found: word() },
        architecture(CompileHint::OlderNvrtc),
        architecture(CompileHint::SuitableNvrtc),
        E::Unresolved { file, functions: word() },
        E::NvrtcSimulated,
    ]
    .map(Error::from)
    .into()
}

fn kernels() -> Vec<Error> {
    use KernelError as E;
    [
        E::Unknown { name: word(), known: word() },
        E::Ambiguous { name: word(), candidates: word() },
        E::NoVariable { name: word(), known: word() },
        E::Extent { shape: shape(), what: "grid", axis: "x", found: 0, most: 1 },
        E::Threads { shape: shape(), found: 2, most: 1, whose: "x" },
        E::Shared { shape: shape(), found: 2, own: 0, most: 1 },
        E::Refused { shape: shape(), code: 1, name: word() },
        E::Disagreement { kernel: word(), position: 1, kind: word(), typed: 4, driver: 8 },
        E::Captured { kernel: word() },
        E::Fault { shape: Some(shape()), what: word(), argument: Some(word()), code: 700 },
        E::Sticky { call: "x", shape: None, code: 700, name: word() },
        E::VariableSize { name: word(), bytes: 4, kind: word(), typed: 8 },
    ]
    .map(Error::from)
    .into()
}

fn arguments() -> Vec<Error> {
    use SignatureError as E;
    let value = |fit| E::Value { place: place(), found: word(), fit };
    let declare = Some(word());
    [
        E::Count { signature: word(), wanted: 1, found: 2 },
        E::Dtype { place: place(), found: word(), fits: Box::new(["float32"]), declare },
        E::NoArray { place: place(), found: word() },
        E::NoValue { place: place(), found: word() },
        E::Host { place: place(), found: word() },
        E::HostTensor { place: place(), found: word(), device: word() },
        E::ReadOnly { place: place() },
        E::ReadOnlyUntyped { place: place() },
        E::Strided { place: place(), shape: word(), strides: word() },
        E::Misaligned { place: place(), address: 4, align: 16 },
        E::Ragged { place: place(), bytes: 5, size: 4 },
        E::Device { place: place(), found: word(), wanted: word() },
        E::Range { place: place(), value: word(), low: 0, high: 1 },
        value(Fit::NotNull),
        value(Fit::Number),
        value(Fit::Integer),
        value(Fit::Complex),
        value(Fit::Bool),
        value(Fit::Byte),
        value(Fit::Struct { size: 8 }),
        E::Overflow { place: place(), value: Number(1e300) },
        E::Size { place: place(), found: 4, size: 8 },
        E::Shape { kernel: word(), what: "grid", found: word(), fit: "x" },
        E::Stream { kernel: word(), found: word(), wanted: word() },
        E::Untyped { place: place(), found: word(), size: 4 },
    ]
    .map(Error::from)
    .into()
}

fn tickets() -> Vec<Error> {
    use TicketError as E;
    [
        E::Malformed { bytes: 3, problem: "x" },
        E::Forged { lender: 1 },
        E::Version { found: 2, wanted: 1 },
        E::Expired,
        E::LenderGone { problem: word() },
        E::LenderLost { lender: 1 },
        E::WrongMachine,
        E::DeviceNotVisible { wanted: word(), found: word() },
        E::NotShareable { reason: "x" },
        E::NotPermitted { problem: word() },
        E::TooMany { what: "offers", count: 1 },
        E::System { what: "x", reason: word() },
    ]
    .map(Error::from)
    .into()
}

fn all() -> Vec<Error> {
    let memory = [layouts(), hand_overs(), addresses(), devices(), tickets()].concat();
    [memory, compilers(), kernels(), arguments()].concat()
}

#[test]
fn there_is_an_error_of_each_code_of_the_core_here() {
    // From 50 on in each hundred the codes are the bindings', except the proof of zero copy; a bug is C's.
    let of_core = |number: u32| number % 100 < 50 || number == codes::NOT_ZERO_COPY.number;
    let mut wanted: Vec<u32> = codes::ALL.iter().map(|code| code.number).collect();
    wanted.retain(|number| of_core(*number) && *number != codes::BUG.number);
    let mut found: Vec<u32> = all().iter().map(Error::code).collect();
    found.sort_unstable();
    found.dedup();
    assert_eq!(found, wanted);
}

#[test]
fn no_text_of_the_core_speaks_another_language() {
    for error in all() {
        let text = error.explained(|hint| hint.to_string());
        let foreign = FOREIGN.iter().find(|word| text.contains(**word));
        assert_eq!(foreign, None, "{text}");
    }
}

#[test]
fn a_missing_header_of_the_toolkit_is_hinted_at_in_every_error_with_diagnostics() {
    use CompileError as E;
    let (file, report, diagnostics) = (word, word, || vec![missing()]);
    for error in [
        E::Source { file: file(), report: report(), diagnostics: diagnostics() },
        E::Launch { file: file(), report: report(), diagnostics: diagnostics() },
        E::Instance { expression: word(), report: report(), diagnostics: diagnostics() },
    ] {
        assert_eq!(Error::from(error).hint(), Some(Hint::Compile(CompileHint::ToolkitHeaders)));
    }
}

#[test]
fn a_hint_follows_its_message() {
    let words = |_: Hint<'_>| "do that".to_owned();
    assert_eq!(Error::Released.explained(words), "this lease was released; do that");
    let launch = Error::from(CompileError::Launch {
        file: "k.cu".into(),
        report: "k.cu:1:1".into(),
        diagnostics: vec![],
    });
    assert!(launch.explained(words).ends_with("\nk.cu:1:1\ndo that"));
    assert_eq!(
        Error::OutOfMemory { bytes: 3 }.explained(words),
        "cannot allocate 3 bytes of host memory"
    );
}
