//! The compilers that the environment names.
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "shared by tests, each of which uses a part"
)]

use std::env;
use std::path::PathBuf;

use gpulend::CompileError;
use gpulend::compiler::{Choice, Program, Recipe, Target, Toolkit, compile};

/// The device for which is compiled.
pub const CAPABILITY: (i32, i32) = (9, 0);

/// A compiler that was named, with the folders that it needs.
pub struct Tool {
    pub choice: Choice,
    pub ziglang: Option<PathBuf>,
    pub toolkit: Toolkit,
}

/// What a variable of the environment names. A test that needs it is ignored unless it is asked for, and then fails without.
fn named(variable: &str) -> PathBuf {
    let value = env::var_os(variable).filter(|value| !value.is_empty());
    let path = PathBuf::from(value.unwrap_or_else(|| panic!("{variable} names no compiler")));
    assert!(path.exists(), "{variable} names {}, which is not there", path.display());
    path
}

pub fn clang() -> Tool {
    let ziglang = Some(named("GPULEND_TEST_ZIGLANG"));
    Tool { choice: Choice::Clang, ziglang, toolkit: Toolkit::default() }
}

pub fn nvrtc() -> Tool {
    let library = named("GPULEND_TEST_NVRTC");
    let folder = library.parent().unwrap().to_owned();
    let headers = vec![folder.with_file_name("include")];
    let toolkit = Toolkit { libraries: vec![folder], headers };
    Tool { choice: Choice::Nvrtc, ziglang: None, toolkit }
}

/// Both compilers.
pub fn tools() -> [Tool; 2] {
    [clang(), nvrtc()]
}

impl Tool {
    pub fn compile(&self, text: &str, names: &[&str]) -> Result<Program, CompileError> {
        self.compile_recipe(&Recipe::new(text), names)
    }

    /// Compiles what a recipe says, by this compiler.
    pub fn compile_recipe(&self, recipe: &Recipe, names: &[&str]) -> Result<Program, CompileError> {
        let recipe = Recipe {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            choice: self.choice,
            ziglang: self.ziglang.clone(),
            toolkit: self.toolkit.clone(),
            ..recipe.clone()
        };
        let simulated = self.choice == Choice::Clang;
        compile(&recipe, Target { simulated, capability: CAPABILITY })
    }
}

/// Kernels as text, sorted.
pub fn signatures(program: &Program) -> Vec<String> {
    let mut shown: Vec<_> = program.kernels.iter().map(ToString::to_string).collect();
    shown.sort();
    shown
}

/// Variables as text, sorted: name, type, bytes and where they lie.
pub fn variables(program: &Program) -> Vec<String> {
    let show = |found: &gpulend::signature::Variable| {
        let kind = found.kind.as_ref().map_or_else(|| "?".to_owned(), ToString::to_string);
        let place = if found.constant { "constant" } else { "global" };
        format!("{} {kind} {} {place}", found.name, found.size)
    };
    let mut shown: Vec<_> = program.variables.iter().map(show).collect();
    shown.sort();
    shown
}
