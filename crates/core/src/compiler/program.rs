//! From a source to what a GPU loads, with the signature of each kernel.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::compiler::clang::Source;
use crate::compiler::find::Compiler;
use crate::compiler::probe::Probes;
use crate::compiler::statics::Statics;
use crate::compiler::{image, names, nvidia};
use crate::error::{CompileError, Diagnostic};
use crate::signature::{ParameterNames, Scan, Signature, Variable, scan};

/// Functions that every driver brings along for code that is loaded.
const DRIVERS_OWN: [&str; 4] = ["vprintf", "__assertfail", "malloc", "free"];
/// Without the back end: only the names are wanted, all of them, and nobody reads warnings twice.
const PROBING: [&str; 4] = ["-O0", "-emit-llvm", "-ferror-limit=0", "-w"];

/// Which compiler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// clang for the simulated GPU; for a real one NVRTC if it can be loaded, and clang if not.
    #[default]
    Auto,
    /// NVIDIA's.
    Nvrtc,
    /// clang, with headers of our own.
    Clang,
}

/// What is to be compiled, for what, and by what.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The source.
    pub source: Source<'a>,
    /// Kernels that must be there, above all instances of templates: `scale<float>`.
    pub names: &'a [String],
    /// Which compiler.
    pub choice: Choice,
    /// Whether the device is simulated.
    pub simulated: bool,
    /// The device's compute capability.
    pub capability: (i32, i32),
    /// The program of the Python package ziglang.
    pub ziglang: Option<&'a Path>,
    /// Where NVRTC may lie, besides where the loader looks.
    pub nvrtc_folders: &'a [PathBuf],
    /// Where NVRTC finds headers of the toolkit. clang has its own.
    pub include_folders: &'a [PathBuf],
}

impl<'a> Request<'a> {
    /// A source for the simulated GPU.
    #[must_use]
    pub fn new(source: Source<'a>) -> Self {
        Self {
            source,
            names: &[],
            choice: Choice::Auto,
            simulated: true,
            capability: (7, 5),
            ziglang: None,
            nvrtc_folders: &[],
            include_folders: &[],
        }
    }
}

/// A name that was asked for, and the symbol of its kernel.
pub type Expression = (Box<str>, Box<str>);

/// What kind of image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageKind {
    /// Text that the driver compiles.
    Ptx,
    /// Machine code: a cubin, or a fatbin of several images.
    Binary,
}

/// What a GPU loads, and what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The image; PTX ends in NUL.
    pub image: Vec<u8>,
    /// Which kind it is.
    pub kind: ImageKind,
    /// Who made it: `clang`, `nvrtc`, or `image` for somebody else.
    pub compiler: &'static str,
    /// Its kernels.
    pub kernels: Vec<Signature>,
    /// Its variables. Of clang's, those in a namespace without a name and those that are static in a function or in a
    /// namespace are not listed: what nobody else can write may be a constant in the code.
    pub variables: Vec<Variable>,
    /// Names that were asked for, and their symbols. A name that several kernels share is not among them.
    pub expressions: Vec<Expression>,
    /// Warnings about the caller's own files, and notes to them.
    pub warnings: Vec<Diagnostic>,
    /// Whether kernels and variables are all listed; those of machine code are not.
    pub complete: bool,
}

/// Compiles a source, or finds it compiled.
///
/// # Errors
///
/// If the source or an asked-for instance has mistakes, if the compiler is not there or cannot compile for the device, or if
/// clang's code would need functions that a real GPU's driver does not have.
pub fn compile(request: &Request<'_>) -> Result<Program, CompileError> {
    let asked: Vec<&str> =
        request.names.iter().map(|name| names::checked(name)).collect::<Result<_, _>>()?;
    match (request.choice, request.simulated) {
        (Choice::Nvrtc, true) => Err(CompileError::NvrtcSimulated),
        (Choice::Clang, _) | (Choice::Auto, true) => by_clang(request, &asked),
        (Choice::Nvrtc, false) => nvidia::compile(request, &asked),
        (Choice::Auto, false) => match nvidia::compile(request, &asked) {
            Err(CompileError::NoNvrtc { .. }) => by_clang(request, &asked),
            done => done,
        },
    }
}

/// Reads an image that is compiled already. Kernels and variables are listed for PTX only, with the types that their
/// symbols tell.
///
/// # Errors
///
/// If the bytes are neither PTX nor a cubin nor a fatbin.
pub fn read_image(bytes: &[u8]) -> Result<Program, CompileError> {
    let kind = image::kind(bytes)?;
    let mut program = Program {
        image: bytes.to_owned(),
        kind,
        compiler: "image",
        kernels: Vec::new(),
        variables: Vec::new(),
        expressions: Vec::new(),
        warnings: Vec::new(),
        complete: kind == ImageKind::Ptx,
    };
    if kind == ImageKind::Ptx {
        let text = image::without_end(bytes);
        let found = scan(&String::from_utf8_lossy(text));
        program.kernels = image::kernels(&found, &ParameterNames::default());
        program.variables = image::variables(&found, true);
        program.image = text.to_owned();
        program.image.push(0);
    }
    Ok(program)
}

fn by_clang(request: &Request<'_>, asked: &[&str]) -> Result<Program, CompileError> {
    if !request.simulated && request.capability < (7, 5) {
        return Err(CompileError::Architecture {
            compiler: "clang with gpulend's headers".into(),
            oldest: "7.5".into(),
            found: capability(request.capability),
            advice: "install an NVRTC that knows the device",
        });
    }
    let source = &request.source;
    let compiler = Compiler::find(request.ziglang)?;
    let instances: Vec<&str> =
        asked.iter().copied().filter(|name| names::is_instance(name)).collect();
    let mut statics = Statics::of(source);
    let ptx = loop {
        let tail = names::wants(&instances) + &statics.text();
        match compiler.compile_with(source, &tail, &[]) {
            // Fewer each time.
            Err(error) if statics.withdraw(error.diagnostics()) => {}
            done => break done.map_err(|error| names::blame(error, &instances))?,
        }
    };
    let found = scan(&ptx.text);
    if !request.simulated {
        all_resolved(source, &found)?;
    }
    let mut kernels = image::kernels(&found, &parameter_names(source));
    let mut variables = image::variables(&found, false);
    let mut probes = Probes::new(&kernels, &variables, &instances);
    // Twice: without what was a mistake the rest is told.
    for _ in 0..2 {
        if probes.is_empty() {
            break;
        }
        match compiler.compile_with(source, &probes.text(), &PROBING) {
            Ok(told) => {
                probes.read(&told.text);
                break;
            }
            Err(error) if probes.withdraw(error.diagnostics()) => {}
            Err(_) => break,
        }
    }
    probes.tell(&mut kernels, &mut variables);
    let expressions = expressions(request, asked, &kernels, &probes.symbols)?;
    let mut image = ptx.text.into_bytes();
    image.push(0);
    Ok(Program {
        image,
        kind: ImageKind::Ptx,
        compiler: "clang",
        kernels,
        variables,
        expressions,
        warnings: ptx.warnings,
        complete: true,
    })
}

/// That a real GPU's driver finds every function of clang's code.
fn all_resolved(source: &Source<'_>, found: &Scan) -> Result<(), CompileError> {
    let missing: Vec<&str> = found
        .unresolved
        .iter()
        .map(|name| &**name)
        .filter(|name| !DRIVERS_OWN.contains(name))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(CompileError::Unresolved { file: source.file.into(), functions: missing.join(", ").into() })
}

/// Each asked-for name that means one kernel, with its symbol: the one that the compiler told, or the one that is named so.
pub(super) fn expressions(
    request: &Request<'_>,
    asked: &[&str],
    kernels: &[Signature],
    told: &HashMap<Box<str>, Box<str>>,
) -> Result<Vec<Expression>, CompileError> {
    let is_kernel = |symbol: &str| kernels.iter().any(|kernel| &*kernel.symbol == symbol);
    let mut found = Vec::new();
    for (&name, given) in asked.iter().zip(request.names) {
        let given = given.as_str().into();
        if let Some(symbol) = told.get(name).filter(|symbol| is_kernel(symbol)) {
            found.push((given, symbol.clone()));
            continue;
        }
        match names::find(name, kernels)[..] {
            [] => return Err(names::unknown(name, request.source.file, kernels)),
            [symbol] => found.push((given, symbol.into())),
            _ => {}
        }
    }
    Ok(found)
}

/// The names of parameters in a source and its headers.
pub(super) fn parameter_names(source: &Source<'_>) -> ParameterNames {
    let mut names = ParameterNames::default();
    names.add(source.text);
    source.headers.iter().for_each(|(_, text)| names.add(text));
    names
}

/// A compute capability, as people write it.
pub(super) fn capability((major, minor): (i32, i32)) -> Box<str> {
    format!("{major}.{minor}").into()
}
