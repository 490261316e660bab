//! Variables that only a source itself sees. clang may take what nobody else can write for a constant; but a caller reads and
//! writes them through the module, as with NVIDIA's compilers. A use by the host, in text that becomes no code, tells clang so.
#![forbid(unsafe_code)]

use crate::compiler::diagnostics;
use crate::compiler::recipe::Recipe;
use crate::error::Diagnostic;
use crate::signature::static_variables;

const FILE: &str = "<gpulend statics>";

/// Names of such variables, each until it is found to name nothing.
pub(super) struct Statics(Vec<Option<Box<str>>>);

impl Statics {
    /// Those of a source and its headers, as far as a light look finds them.
    pub(super) fn of(recipe: &Recipe) -> Self {
        let headers = recipe.headers.iter().flat_map(|(_, text)| static_variables(text));
        Self(static_variables(&recipe.text).into_iter().chain(headers).map(Some).collect())
    }

    /// Text by which the host uses them.
    pub(super) fn text(&self) -> String {
        let line = |(number, name): (usize, &Option<Box<str>>)| {
            let name = name.as_ref()?;
            Some(format!(
                "#line {} \"{FILE}\"\n__host__ inline void gpulend_static_{number}() {{ (void)&::{name}; }}\n",
                number + 1
            ))
        };
        self.0.iter().enumerate().filter_map(line).collect()
    }

    /// Takes back the names that are mistakes, as those inside of functions and namespaces; whether there were some.
    pub(super) fn withdraw(&mut self, diagnostics: &[Diagnostic]) -> bool {
        diagnostics::withdraw(&mut self.0, FILE, diagnostics)
    }
}
