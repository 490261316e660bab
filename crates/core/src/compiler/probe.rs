//! Types that no symbol encodes: those of `extern "C"` kernels and of variables. Templates over `decltype`
//! are compiled after the source, and their mangled names reveal the types. The code itself is discarded.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use crate::compiler::diagnostics;
use crate::error::{CompileError, Diagnostic};
use crate::signature::{Signature, Type, Variable, demangled, parse_type, split_arguments};

const FILE: &str = "<gpulend probes>";

/// An enumeration is reported as its underlying integer.
const TEMPLATES: &str = "template <class T, bool = __is_enum(T)> struct gpulend_plain { using type = T; };
template <class T> struct gpulend_plain<T, true> { using type = __underlying_type(T); };
template <class... P> struct gpulend_types {};
template <class T> struct gpulend_type {};
template <class T> struct gpulend_type<T &> { using stored = gpulend_type<T>; };
template <class... P> __device__ gpulend_types<typename gpulend_plain<P>::type...> gpulend_call(void (*)(P...));
template <int N, class T> __global__ void gpulend_probe() {}
";

/// What a probe asks for.
enum Question {
    /// The types of the kernel with this symbol, by its name.
    Kernel { symbol: Box<str>, name: Box<str> },
    /// The symbol and the types of a requested instance.
    Instance { name: Box<str> },
    /// The type of the variable with this symbol, by its name.
    Variable { symbol: Box<str>, name: Box<str> },
}

/// The probes of a source, and their answers.
#[derive(Default)]
pub(super) struct Probes {
    questions: Vec<Option<Question>>,
    /// The symbols of instances by their requested names.
    pub(super) symbols: HashMap<Box<str>, Box<str>>,
    kernels: HashMap<Box<str>, Vec<Type>>,
    variables: HashMap<Box<str>, Type>,
}

impl Probes {
    /// Makes probes for the types that `kernels` and `variables` lack, and for the instances.
    pub(super) fn new(kernels: &[Signature], variables: &[Variable], instances: &[&str]) -> Self {
        let mut probes = Self::default();
        let mut ask = |question| probes.questions.push(Some(question));
        for kernel in kernels {
            let known =
                kernel.parameters.iter().all(|found| found.kind.as_ref().is_some_and(is_sure));
            if !known {
                ask(Question::Kernel { symbol: kernel.symbol.clone(), name: kernel.name.clone() });
            }
        }
        for name in instances {
            ask(Question::Instance { name: (*name).into() });
        }
        for variable in variables {
            ask(Question::Variable {
                symbol: variable.symbol.clone(),
                name: variable.name.clone(),
            });
        }
        probes
    }

    /// Compiles the probes, at most twice: the second time without those that did not compile. If that fails
    /// too, nothing is learned.
    pub(super) fn ask(&mut self, compile: impl Fn(&str) -> Result<String, CompileError>) {
        for _ in 0..2 {
            if self.questions.iter().all(Option::is_none) {
                return;
            }
            match compile(&self.text()) {
                Ok(compiled) => return self.read(&compiled),
                Err(error) if self.withdraw(error.diagnostics()) => {}
                Err(_) => return,
            }
        }
    }

    /// The probes as source text. Each is on its own line, so that an error's line number identifies it.
    fn text(&self) -> String {
        let mut text = format!("#line 1 \"<gpulend templates>\"\n{TEMPLATES}");
        for (number, question) in self.questions.iter().enumerate() {
            let Some(question) = question else { continue };
            let (what, more) = match question {
                Question::Kernel { name, .. } => {
                    (format!("decltype(gpulend_call(&::{name}))"), String::new())
                }
                Question::Instance { name } => (
                    format!("decltype(gpulend_call(&{name}))"),
                    format!(" __device__ auto gpulend_name_{number} = &{name};"),
                ),
                Question::Variable { name, .. } => {
                    (format!("gpulend_type<decltype((::{name}))>::stored"), String::new())
                }
            };
            text += &format!(
                "#line {} \"{FILE}\"\ntemplate __global__ void gpulend_probe<{number}, {what}>();{more}\n",
                number + 1
            );
        }
        text
    }

    /// Removes the probes that errors refer to. Returns whether there were any.
    fn withdraw(&mut self, diagnostics: &[Diagnostic]) -> bool {
        diagnostics::withdraw(&mut self.questions, FILE, diagnostics)
    }

    /// Reads the answers from the compiled text: LLVM IR or PTX.
    fn read(&mut self, compiled: &str) {
        let word = |c: char| c.is_ascii_alphanumeric() || "_.$".contains(c);
        let mut last = HashMap::new();
        for line in compiled.lines() {
            for symbol in line.split(|c| !word(c)).filter(|found| found.contains("gpulend_")) {
                if let Some(number) = symbol.strip_prefix("gpulend_name_") {
                    // `@gpulend_name_0 = … ptr @symbol, align 8`
                    let value =
                        line.split_once(" = ").and_then(|(_, value)| value.rsplit_once('@'));
                    let value = value.and_then(|(_, value)| value.split(|c| !word(c)).next());
                    if let Some((number, value)) = number.parse::<usize>().ok().zip(value) {
                        last.insert(number, value);
                    }
                } else if symbol.starts_with("_Z13gpulend_probe") {
                    self.answer(symbol);
                }
            }
        }
        for (number, symbol) in last {
            if let Some(Some(Question::Instance { name })) = self.questions.get(number) {
                self.symbols.insert(name.clone(), symbol.into());
            }
        }
        // Types were read by name; file them under the symbol too.
        for (name, symbol) in &self.symbols {
            if let Some(types) = self.kernels.remove(name) {
                self.kernels.insert(symbol.clone(), types);
            }
        }
    }

    /// Reads one probe: `gpulend_probe<0, gpulend_types<float const*, int>>`.
    fn answer(&mut self, symbol: &str) -> Option<()> {
        let text = demangled(symbol)?;
        let arguments = text.strip_prefix("gpulend_probe<")?.strip_suffix(">()")?;
        let (number, rest) = arguments.split_once(',')?;
        let question = self.questions.get(number.trim().parse::<usize>().ok()?)?.as_ref()?;
        match question {
            Question::Kernel { symbol: key, .. } | Question::Instance { name: key } => {
                let list = rest.trim().strip_prefix("gpulend_types<")?.strip_suffix('>')?;
                let types = split_arguments(list).into_iter().map(parse_type).collect();
                self.kernels.insert(key.clone(), types);
            }
            Question::Variable { symbol, .. } => {
                let kind = rest.trim().strip_prefix("gpulend_type<")?.strip_suffix('>')?;
                self.variables.insert(symbol.clone(), parse_type(kind));
            }
        }
        Some(())
    }

    /// Sets the types of kernels and variables where they agree with the image.
    pub(super) fn apply(&self, kernels: &mut [Signature], variables: &mut [Variable]) {
        for kernel in kernels {
            if let Some(types) = self.kernels.get(&kernel.symbol) {
                kernel.set_types(types.clone());
            }
        }
        for variable in variables {
            let kind = self.variables.get(&variable.symbol);
            let fits =
                |kind: &&Type| kind.size().is_none_or(|size| u64::from(size) == variable.size);
            variable.kind = kind.filter(fits).cloned();
        }
    }
}

/// Whether a type is certain. A class by value may be an enumeration, and a type that depends on a template's
/// parameter can be anything.
fn is_sure(kind: &Type) -> bool {
    match kind {
        Type::Other(_) => false,
        Type::Pointer { to, .. } => match &**to {
            Type::Other(name) => !name.contains('<'),
            pointee => is_sure(pointee),
        },
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Severity;
    use crate::signature::Parameter;

    fn kernel(symbol: &str, sizes: &[u32]) -> Signature {
        let parameter = |&size: &u32| Parameter { name: None, kind: None, size, align: size };
        let parameters = sizes.iter().map(parameter).collect();
        Signature { name: symbol.into(), symbol: symbol.into(), parameters }
    }

    #[test]
    fn answers_are_read_from_mangled_names() {
        let mut kernels = [kernel("add", &[8, 4]), kernel("_Z5scaleIfEvPfs", &[8, 2])];
        let mut variables = [Variable {
            name: "table".into(),
            symbol: "table".into(),
            kind: None,
            size: 80,
            constant: true,
        }];
        let mut probes = Probes::new(&kernels[..1], &variables, &["scale<float>"]);
        assert_eq!(probes.text().matches("gpulend_probe<").count(), 3);
        probes.read(
            "define void @_Z13gpulend_probeILi0E13gpulend_typesIJPKfiEEEvv() {\n\
             define void @_Z13gpulend_probeILi1E13gpulend_typesIJPfsEEEvv() {\n\
             define void @_Z13gpulend_probeILi2E12gpulend_typeIA4_A5_fEEvv() {\n\
             define void @_Z13gpulend_probeILi9E12gpulend_typeIA4_A5_fEEvv() {\n\
             @gpulend_name_1 = dso_local global ptr @_Z5scaleIfEvPfs, align 8\n",
        );
        probes.apply(&mut kernels, &mut variables);
        assert_eq!(kernels[0].to_string(), "add(const float*, int)");
        assert_eq!(kernels[1].to_string(), "_Z5scaleIfEvPfs(float*, short)");
        assert_eq!(variables[0].kind.as_ref().unwrap().to_string(), "float[4][5]");
        assert_eq!(&*probes.symbols["scale<float>"], "_Z5scaleIfEvPfs");
    }

    #[test]
    fn a_question_that_is_a_mistake_is_taken_back_once() {
        let mut probes = Probes::new(&[kernel("a", &[8]), kernel("b", &[8])], &[], &[]);
        let found = Diagnostic {
            file: FILE.into(),
            line: 2,
            column: 9,
            severity: Severity::Error,
            text: "use of undeclared identifier 'b'".into(),
        };
        assert!(probes.withdraw(std::slice::from_ref(&found)));
        assert!(!probes.withdraw(std::slice::from_ref(&found)));
        assert!(!probes.text().contains("::b)") && probes.text().contains("::a)"));
    }
}
