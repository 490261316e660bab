//! Variables with internal linkage. clang may turn one that no other code can write into a constant. But
//! callers read and write them through the module, as with NVIDIA's compilers. A use in host code, which
//! emits nothing, prevents that.
#![forbid(unsafe_code)]

use crate::compiler::diagnostics;
use crate::compiler::recipe::Recipe;
use crate::error::Diagnostic;
use crate::signature::static_variables;

const FILE: &str = "<gpulend statics>";

/// The names of such variables. A name is removed if it turns out to be wrong.
pub(super) struct Statics(Vec<Option<Box<str>>>);

impl Statics {
    /// The variables of a source and its headers, found by a rough scan.
    pub(super) fn of(recipe: &Recipe) -> Self {
        let headers = recipe.headers.iter().flat_map(|(_, text)| static_variables(text));
        Self(static_variables(&recipe.text).into_iter().chain(headers).map(Some).collect())
    }

    /// Host code that uses them.
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

    /// Removes names that errors refer to, such as those in functions or namespaces. Returns whether there
    /// were any.
    pub(super) fn withdraw(&mut self, diagnostics: &[Diagnostic]) -> bool {
        diagnostics::withdraw(&mut self.0, FILE, diagnostics)
    }
}
