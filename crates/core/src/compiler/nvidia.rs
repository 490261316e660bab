//! Compiles with NVRTC: to machine code if it supports the device, else to PTX.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::env;
use std::ffi::CString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::compiler::cache::{Cache, Entry, Key, find_or_make};
use crate::compiler::clang::{checked_file, header_path};
use crate::compiler::nvrtc::{COMPILATION, INVALID_OPTION, Job, Nvrtc};
use crate::compiler::nvrtc_options::Wishes;
use crate::compiler::probe::Probes;
use crate::compiler::program::{ImageKind, Program, capability, expressions};
use crate::compiler::recipe::Recipe;
use crate::compiler::stand_ins::{self, STAND_INS};
use crate::compiler::{image, names, nvrtc_log, nvrtc_options, options};
use crate::error::hint::CompileHint;
use crate::error::{CompileError, Severity};
use crate::signature::scan;

/// What all compilations of one source share.
struct Kit<'a> {
    library: &'static Nvrtc,
    recipe: &'a Recipe,
    options: Vec<String>,
    headers: Vec<(String, String)>,
    /// The toolkit's folders: diagnostics about files in them are not the caller's.
    toolkit: Vec<PathBuf>,
    /// `None` for a source that includes files from the caller's folders.
    cache: Option<Cache>,
    /// The toolkit files that are included.
    read: Vec<String>,
}

/// The NVRTC that compiles, also searched in `folders`: its path as given to the loader, and its version.
///
/// # Errors
///
/// If there is none.
pub fn describe_nvrtc(folders: &[PathBuf]) -> Result<(&'static Path, (i32, i32)), CompileError> {
    let found = Nvrtc::find(folders).map_err(|reason| CompileError::NoNvrtc { reason })?;
    Ok((&found.path, found.version))
}

/// Compiles a source for a device.
pub(super) fn compile(
    recipe: &Recipe,
    device: (i32, i32),
    asked: &[&str],
) -> Result<Program, CompileError> {
    let library = Nvrtc::find(&recipe.toolkit.libraries)
        .map_err(|reason| CompileError::NoNvrtc { reason })?;
    let here = env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let wishes = nvrtc_options::translate(&options::read(&recipe.options, &here)?)?;
    let (target, portable) = targets(library, device, &wishes)?;
    let kit = Kit::new(library, recipe, &wishes)?;
    let instances: Vec<&str> =
        asked.iter().copied().filter(|name| names::is_instance(name)).collect();
    let made = kit.compile(&recipe.text, &target, &instances)?;
    let found = scan(&made.ptx);
    let mut kernels = image::kernels(&found, &recipe.parameter_names());
    // NVRTC keeps every variable, visible or not.
    let mut variables = image::variables(&found, true);
    let mut probes = Probes::new(&kernels, &variables, &[]);
    probes.ask(|text| {
        let text = format!("{}\n\n{text}", recipe.text);
        kit.compile(&text, &portable, &[]).map(|entry| entry.ptx)
    });
    probes.apply(&mut kernels, &mut variables);
    let symbols: HashMap<Box<str>, Box<str>> = instances
        .iter()
        .zip(&made.symbols)
        .map(|(name, symbol)| ((*name).into(), symbol.as_str().into()))
        .collect();
    let expressions = expressions(recipe, asked, &kernels, &symbols)?;
    let warnings = kit.parse(&made.report, &recipe.text, &instances);
    let warnings = warnings.into_iter().filter(|found| kit.is_callers(&found.file)).collect();
    let kind = if made.binary.is_empty() { ImageKind::Ptx } else { ImageKind::Binary };
    let mut image = made.binary;
    if kind == ImageKind::Ptx {
        image = made.ptx.into_bytes();
        image.push(0);
    }
    Ok(Program {
        image,
        kind,
        compiler: "nvrtc",
        kernels,
        variables,
        expressions,
        warnings,
        complete: true,
    })
}

/// The compilation targets: the device's machine code or the newest PTX it supports, and PTX in any case.
fn targets(
    library: &Nvrtc,
    found: (i32, i32),
    wishes: &Wishes,
) -> Result<(String, String), CompileError> {
    let number = found.0 * 10 + found.1;
    let newest = library.targets.iter().rev().find(|target| **target <= number);
    let Some(newest) = newest else {
        let (major, minor) = library.version;
        let oldest = library.targets.first().copied().unwrap_or_default();
        return Err(CompileError::Architecture {
            compiler: format!("NVRTC {major}.{minor}").into(),
            oldest: capability((oldest / 10, oldest % 10)),
            found: capability(found),
            hint: CompileHint::OlderNvrtc,
        });
    };
    let portable = format!("--gpu-architecture=compute_{newest}");
    if *newest != number {
        return Ok((portable.clone(), portable));
    }
    // `sm_90a` code runs only on that device, so it is used only on request.
    let special = format!("sm_{number}a");
    let (real, virtual_) = if wishes.targets.contains(&special) {
        (special, format!("--gpu-architecture=compute_{number}a"))
    } else {
        (format!("sm_{number}"), portable)
    };
    Ok((format!("--gpu-architecture={real}"), virtual_))
}

impl<'a> Kit<'a> {
    fn new(
        library: &'static Nvrtc,
        recipe: &'a Recipe,
        wishes: &Wishes,
    ) -> Result<Self, CompileError> {
        let mut toolkit = Vec::new();
        for folder in &recipe.toolkit.headers {
            // The folder of cuda/std in newer toolkits.
            toolkit.extend([folder.clone(), folder.join("cccl")]);
        }
        toolkit.retain(|folder| folder.is_dir());
        checked_file(&recipe.file)?;
        let mut headers = Vec::new();
        for (name, text) in &recipe.headers {
            checked_file(name)?;
            headers.push((header_path(name)?, text.clone()));
        }
        let folders = || wishes.folders.iter().chain(&toolkit);
        for (name, text) in STAND_INS {
            let given = headers.iter().any(|(known, _)| known == name);
            let there = folders().any(|folder| folder.join(name).is_file());
            if !given && (!there || stand_ins::always(name)) {
                headers.push(((*name).to_owned(), (*text).to_owned()));
            }
        }
        let mut options = wishes.flags.clone();
        options.extend(folders().map(|folder| format!("--include-path={}", folder.display())));
        let read =
            recipe.included().flatten().filter_map(|name| identity(&toolkit, name)).collect();
        let reads_files = !wishes.folders.is_empty() || recipe.reads_other_files();
        let cache = if reads_files { None } else { Cache::open() };
        Ok(Self { library, recipe, options, headers, toolkit, cache, read })
    }

    /// Compiles `text`, or takes it from the cache.
    fn compile(&self, text: &str, target: &str, instances: &[&str]) -> Result<Entry, CompileError> {
        let key = self.key(text, target, instances);
        let make = || self.run(text, target, instances);
        find_or_make(self.cache.as_ref(), &key, make).map(|(entry, _)| entry)
    }

    fn key(&self, text: &str, target: &str, instances: &[&str]) -> String {
        let mut key = Key::new();
        let (major, minor) = self.library.version;
        key.add(env!("CARGO_PKG_VERSION"));
        key.add(&format!("nvrtc {major}.{minor} {target}"));
        let lists: [&mut dyn Iterator<Item = &str>; 4] = [
            &mut self.options.iter().map(String::as_str),
            &mut instances.iter().copied(),
            &mut self.read.iter().map(String::as_str),
            &mut self.headers.iter().flat_map(|(name, text)| [name.as_str(), text]),
        ];
        for list in lists {
            list.for_each(|part| key.add(part));
            key.add("");
        }
        key.add(&self.recipe.file);
        key.add(text);
        key.name()
    }

    fn run(&self, text: &str, target: &str, instances: &[&str]) -> Result<Entry, CompileError> {
        let refuse = |name: &str, what| CompileError::Name {
            name: name.into(),
            what,
            wanted: "it has a character of value 0, which ends a text for NVRTC",
        };
        let said =
            |text: &str, what| CString::new(text).map_err(|_| refuse(&self.recipe.file, what));
        let mut headers = Vec::new();
        for (name, text) in &self.headers {
            headers.push((said(name, "a header")?, said(text, "a header")?));
        }
        let options = self.options.iter().map(String::as_str).chain([target]);
        let done = self.library.compile(&Job {
            text: &said(text, "a source")?,
            file: &said(&self.recipe.file, "a source")?,
            headers: &headers,
            names: &instances
                .iter()
                .map(|name| said(name, "a kernel"))
                .collect::<Result<Vec<_>, _>>()?,
            options: &options
                .map(|option| said(option, "an option"))
                .collect::<Result<Vec<_>, _>>()?,
        });
        let report = nvrtc_log::tidy(&done.log);
        match done.status {
            0 => {
                let ptx = image::without_end(&done.ptx);
                let ptx = String::from_utf8_lossy(ptx).into_owned();
                Ok(Entry { report, ptx, binary: done.cubin, symbols: done.symbols })
            }
            INVALID_OPTION => {
                // `nvrtc: error: unrecognized option -x found`
                let given =
                    self.recipe.options.iter().find(|option| report.contains(option.as_str()));
                let option = given.map_or(report.as_str(), String::as_str).into();
                Err(CompileError::Option { option, reason: "NVRTC does not know it" })
            }
            COMPILATION if !report.is_empty() => Err(self.mistakes(report, text, instances)),
            status => Err(CompileError::Crashed {
                file: self.recipe.file.as_str().into(),
                status: format!("NVRTC's status {status}").into(),
                report: report.into(),
            }),
        }
    }

    /// The error of a failed compilation.
    fn mistakes(&self, report: String, text: &str, instances: &[&str]) -> CompileError {
        let diagnostics = self.parse(&report, text, instances);
        let launches =
            diagnostics.iter().filter(|found| found.severity == Severity::Error).any(|found| {
                found.text.contains("kernel launch could not be processed")
                    || (found.text.contains("considered a host function") && text.contains("<<<"))
            });
        let (file, report) = (self.recipe.file.as_str().into(), report.into());
        if launches {
            return CompileError::Launch { file, report, diagnostics };
        }
        names::blame(CompileError::Source { file, report, diagnostics }, instances)
    }

    fn parse(&self, report: &str, text: &str, instances: &[&str]) -> Vec<crate::error::Diagnostic> {
        let last = u32::try_from(text.lines().count().max(1)).unwrap_or(u32::MAX);
        nvrtc_log::parse(report, &self.recipe.file, last, instances)
    }

    /// Whether a file is neither the toolkit's nor a stand-in.
    fn is_callers(&self, file: &str) -> bool {
        let given = self.recipe.headers.iter().any(|(name, _)| name == file);
        let stands_in = STAND_INS.iter().any(|(name, _)| *name == file) && !given;
        !stands_in && !self.toolkit.iter().any(|folder| Path::new(file).starts_with(folder))
    }
}

/// Identifies the version of a toolkit file. Files that it includes are of the same toolkit.
fn identity(toolkit: &[PathBuf], name: &str) -> Option<String> {
    let path = toolkit.iter().map(|folder| folder.join(name)).find(|path| path.is_file())?;
    let about = fs::metadata(&path).ok()?;
    Some(format!("{} {} {}.{}", path.display(), about.size(), about.mtime(), about.mtime_nsec()))
}
