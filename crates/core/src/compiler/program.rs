//! From a source to what a GPU loads, with the signature of each kernel.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use crate::compiler::find::Compiler;
use crate::compiler::probe::Probes;
use crate::compiler::recipe::{Choice, Recipe};
use crate::compiler::statics::Statics;
use crate::compiler::{image, names, nvidia};
use crate::error::hint::CompileHint;
use crate::error::{CompileError, Diagnostic};
use crate::signature::{ParameterNames, Scan, Signature, Variable, scan};

/// Functions that every driver brings along for code that is loaded.
const DRIVERS_OWN: [&str; 4] = ["vprintf", "__assertfail", "malloc", "free"];
/// Without the back end: only the names are wanted, all of them, and nobody reads warnings twice.
const PROBING: [&str; 4] = ["-O0", "-emit-llvm", "-ferror-limit=0", "-w"];

/// What is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Whether the device is simulated.
    pub simulated: bool,
    /// The device's compute capability.
    pub capability: (i32, i32),
}

impl Target {
    /// The simulated GPU.
    pub const SIMULATED: Self = Self { simulated: true, capability: (7, 5) };
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
pub fn compile(recipe: &Recipe, target: Target) -> Result<Program, CompileError> {
    let asked: Vec<&str> =
        recipe.names.iter().map(|name| names::checked(name)).collect::<Result<_, _>>()?;
    match (recipe.choice, target.simulated) {
        (Choice::Nvrtc, true) => Err(CompileError::NvrtcSimulated),
        (Choice::Clang, _) | (Choice::Auto, true) => by_clang(recipe, target, &asked),
        (Choice::Nvrtc, false) => nvidia::compile(recipe, target.capability, &asked),
        (Choice::Auto, false) => match nvidia::compile(recipe, target.capability, &asked) {
            Err(CompileError::NoNvrtc { .. }) => by_clang(recipe, target, &asked),
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

fn by_clang(recipe: &Recipe, target: Target, asked: &[&str]) -> Result<Program, CompileError> {
    if !target.simulated && target.capability < Target::SIMULATED.capability {
        return Err(CompileError::Architecture {
            compiler: "clang with gpulend's headers".into(),
            oldest: "7.5".into(),
            found: capability(target.capability),
            hint: CompileHint::SuitableNvrtc,
        });
    }
    let compiler = Compiler::find(recipe.ziglang.as_deref())?;
    let instances: Vec<&str> =
        asked.iter().copied().filter(|name| names::is_instance(name)).collect();
    let mut statics = Statics::of(recipe);
    let ptx = loop {
        let tail = names::wants(&instances) + &statics.text();
        match compiler.compile_with(recipe, &tail, &[]) {
            // Fewer each time.
            Err(error) if statics.withdraw(error.diagnostics()) => {}
            done => break done.map_err(|error| names::blame(error, &instances))?,
        }
    };
    let found = scan(&ptx.text);
    if !target.simulated {
        all_resolved(recipe, &found)?;
    }
    let mut kernels = image::kernels(&found, &recipe.parameter_names());
    let mut variables = image::variables(&found, false);
    let mut probes = Probes::new(&kernels, &variables, &instances);
    probes.ask(|text| compiler.compile_with(recipe, text, &PROBING).map(|told| told.text));
    probes.tell(&mut kernels, &mut variables);
    let expressions = expressions(recipe, asked, &kernels, &probes.symbols)?;
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
fn all_resolved(recipe: &Recipe, found: &Scan) -> Result<(), CompileError> {
    let missing: Vec<&str> = found
        .unresolved
        .iter()
        .map(|name| &**name)
        .filter(|name| !DRIVERS_OWN.contains(name))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(CompileError::Unresolved {
        file: recipe.file.as_str().into(),
        functions: missing.join(", ").into(),
    })
}

/// Each asked-for name that means one kernel, with its symbol: the one that the compiler told, or the one that is named so.
pub(super) fn expressions(
    recipe: &Recipe,
    asked: &[&str],
    kernels: &[Signature],
    told: &HashMap<Box<str>, Box<str>>,
) -> Result<Vec<Expression>, CompileError> {
    let is_kernel = |symbol: &str| kernels.iter().any(|kernel| &*kernel.symbol == symbol);
    let mut found = Vec::new();
    for (&name, given) in asked.iter().zip(&recipe.names) {
        let given = given.as_str().into();
        if let Some(symbol) = told.get(name).filter(|symbol| is_kernel(symbol)) {
            found.push((given, symbol.clone()));
            continue;
        }
        match names::find(name, kernels)[..] {
            [] => return Err(names::unknown(name, &recipe.file, kernels)),
            [symbol] => found.push((given, symbol.into())),
            _ => {}
        }
    }
    Ok(found)
}

/// A compute capability, as people write it.
pub(super) fn capability((major, minor): (i32, i32)) -> Box<str> {
    format!("{major}.{minor}").into()
}
