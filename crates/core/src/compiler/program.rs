//! Compiles a source to an image, with the signature of each kernel.
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

/// Functions that every driver links into loaded code.
const DRIVERS_OWN: [&str; 4] = ["vprintf", "__assertfail", "malloc", "free"];
/// Stops before the back end, since only the names matter. All errors are listed; warnings were already
/// shown.
const PROBING: [&str; 4] = ["-O0", "-emit-llvm", "-ferror-limit=0", "-w"];

/// What to compile for.
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

/// A requested name and the symbol of its kernel.
pub type Expression = (Box<str>, Box<str>);

/// The kind of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageKind {
    /// PTX, which the driver compiles.
    Ptx,
    /// Machine code: a cubin, or a fatbin of several images.
    Binary,
}

/// An image and its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The image; PTX ends in NUL.
    pub image: Vec<u8>,
    /// Its kind.
    pub kind: ImageKind,
    /// What made it: `clang`, `nvrtc`, or `image` for a precompiled image.
    pub compiler: &'static str,
    /// Its kernels.
    pub kernels: Vec<Signature>,
    /// Its variables. For clang, variables in unnamed namespaces and static ones in functions or namespaces
    /// are not listed: clang may turn what no other code can write into a constant.
    pub variables: Vec<Variable>,
    /// Requested names and their symbols, except names that several kernels share.
    pub expressions: Vec<Expression>,
    /// Warnings about the caller's own files, with their notes.
    pub warnings: Vec<Diagnostic>,
    /// Whether all kernels and variables are listed. Those of machine code are not.
    pub complete: bool,
}

/// Compiles a source, or takes it from the cache.
///
/// # Errors
///
/// If the source or a requested instance does not compile, if the compiler is missing or cannot compile for
/// the device, or if clang's code needs functions that a real driver does not have.
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

/// Reads a compiled image. Kernels and variables are listed for PTX only, with the types in their symbols.
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
            // Each time with fewer names.
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
    probes.ask(|text| compiler.compile_with(recipe, text, &PROBING).map(|ptx| ptx.text));
    probes.apply(&mut kernels, &mut variables);
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

/// Checks that a real driver can resolve every function of clang's code.
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

/// Each requested name of exactly one kernel, with its symbol: from the compiler, or else by comparing names.
pub(super) fn expressions(
    recipe: &Recipe,
    asked: &[&str],
    kernels: &[Signature],
    symbols: &HashMap<Box<str>, Box<str>>,
) -> Result<Vec<Expression>, CompileError> {
    let is_kernel = |symbol: &str| kernels.iter().any(|kernel| &*kernel.symbol == symbol);
    let mut found = Vec::new();
    for (&name, given) in asked.iter().zip(&recipe.names) {
        let given = given.as_str().into();
        if let Some(symbol) = symbols.get(name).filter(|symbol| is_kernel(symbol)) {
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

/// A compute capability in the usual notation.
pub(super) fn capability((major, minor): (i32, i32)) -> Box<str> {
    format!("{major}.{minor}").into()
}
