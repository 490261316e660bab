//! Modules: sources compiled for a GPU, their kernels and variables.

use std::env;
use std::ffi::{CStr, c_char, c_void};
use std::fmt::Write;
use std::path::PathBuf;
use std::slice;
use std::sync::MutexGuard;

use gpulend::Severity;
use gpulend::compiler::{Choice, Recipe, Toolkit, is_image};
use gpulend::fork::ProcessLock;
use gpulend::kernel::Kernel;
use gpulend::module::Module;

use crate::guard::guard;
use crate::pointer::{Out, put_text, read_sized, text, texts};
use crate::refusal::Refusal;
use crate::streams::any_gpu;
use crate::table::{find, insert, remove};
use crate::types::{
    GPULEND_COMPILER_ANY, GPULEND_COMPILER_CLANG, GPULEND_COMPILER_NVRTC, KernelHandle,
    LeaseHandle, ModuleHandle, Source, Status,
};

/// The paths of compilers that the caller named.
#[derive(Clone, Debug, Default)]
struct Places {
    clang: Option<PathBuf>,
    toolkit: Toolkit,
}

static PLACES: ProcessLock<Places> = ProcessLock::new(Places {
    clang: None,
    toolkit: Toolkit { libraries: Vec::new(), headers: Vec::new() },
});

fn places() -> MutexGuard<'static, Places> {
    PLACES.lock()
}

/// Names paths of compilers in addition to the usual ones; `None` keeps an earlier value.
pub fn set_compilers(
    clang: Option<PathBuf>,
    libraries: Option<Vec<PathBuf>>,
    headers: Option<Vec<PathBuf>>,
) {
    let mut places = places();
    if let Some(clang) = clang {
        places.clang = Some(clang);
    }
    if let Some(libraries) = libraries {
        places.toolkit.libraries = libraries;
    }
    if let Some(headers) = headers {
        places.toolkit.headers = headers;
    }
}

/// Sets the paths of compilers for later calls: the path of a clang or zig, folders that may contain
/// NVRTC, and folders with CUDA's headers, separated by colons. NULL keeps the earlier value.
/// GPULEND_CLANG takes precedence over this clang; GPULEND_ZIGLANG and PATH come after it. NVRTC is
/// also searched where the loader looks, and both below CUDA_HOME, CUDA_PATH and /usr/local/cuda.
/// Inside Python the packages ziglang and NVIDIA's are set already.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_set_compilers(
    clang: *const c_char,
    libraries: *const c_char,
    headers: *const c_char,
) -> Status {
    guard(|| {
        // SAFETY: (1) of the crate.
        let clang = unsafe { text(clang, "clang") }?.map(PathBuf::from);
        if let Some(missing) = clang.as_ref().filter(|path| !path.is_file()) {
            let problem = format!("is {}, and there is no such file", missing.display());
            return Err(Refusal::argument("clang", problem));
        }
        let split = |folders: &str| env::split_paths(folders).collect::<Vec<_>>();
        // SAFETY: (1) of the crate.
        let libraries = unsafe { text(libraries, "libraries") }?.map(split);
        // SAFETY: (1) of the crate.
        let headers = unsafe { text(headers, "headers") }?.map(split);
        set_compilers(clang, libraries, headers);
        Ok(())
    })
}

/// Compiles CUDA C++ for a GPU, or takes PTX, a cubin or a fatbin. The first launch loads it, or
/// the first query that needs the GPU. If the source has errors, gpulend_last_error()
/// returns the compiler's messages, with the source's own lines.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_compile(
    source: *const Source,
    module: *mut ModuleHandle,
) -> Status {
    guard(|| {
        // SAFETY: (1) of the crate.
        let module = unsafe { Out::at(module, "module") }?;
        // SAFETY: (1) of the crate.
        let source = unsafe { read_sized(source, "source") }?;
        // SAFETY: (1) of the crate.
        module.put(insert(unsafe { compile(&source) }?)?);
        Ok(())
    })
}

/// # Safety
///
/// (1) of the crate.
unsafe fn compile(source: &Source) -> Result<Module, Refusal> {
    let device = any_gpu(source.device)?;
    // SAFETY: the contract.
    let bytes = unsafe { content(source.text, source.bytes) }?;
    if is_image(bytes) {
        return Ok(Module::from_image(bytes, device)?);
    }
    let Ok(content) = std::str::from_utf8(bytes) else {
        let problem = "is neither UTF-8 nor PTX, a cubin or a fatbin; set bytes for what has NULs";
        return Err(Refusal::argument("text", problem));
    };
    let mut recipe = Recipe::new(content);
    // SAFETY: the contract.
    if let Some(file) = unsafe { text(source.file, "file") }? {
        file.clone_into(&mut recipe.file);
    }
    // SAFETY: the contract.
    recipe.options = unsafe { texts(source.options, source.option_count, "options") }?;
    // SAFETY: the contract.
    recipe.names = unsafe { texts(source.names, source.name_count, "names") }?;
    // SAFETY: the contract.
    let names = unsafe { texts(source.header_names, source.header_count, "header_names") }?;
    // SAFETY: the contract.
    let headers = unsafe { texts(source.header_texts, source.header_count, "header_texts") }?;
    recipe.headers = names.into_iter().zip(headers).collect();
    recipe.choice = match source.compiler {
        GPULEND_COMPILER_ANY => Choice::Auto,
        GPULEND_COMPILER_NVRTC => Choice::Nvrtc,
        GPULEND_COMPILER_CLANG => Choice::Clang,
        other => {
            let problem = format!("is {other}; say GPULEND_COMPILER_ANY, _NVRTC or _CLANG");
            return Err(Refusal::argument("compiler", problem));
        }
    };
    let named = places().clone();
    recipe.ziglang = named.clang;
    recipe.toolkit = named.toolkit.then(Toolkit::find(&[]));
    Ok(Module::compile(recipe, device)?)
}

/// The bytes of a source.
///
/// # Safety
///
/// (1) of the crate; the result is used only until the function returns.
unsafe fn content<'a>(first: *const c_void, bytes: u64) -> Result<&'a [u8], Refusal> {
    if first.is_null() {
        return Err(Refusal::argument("text", "is NULL; pass CUDA C++, PTX, a cubin or a fatbin"));
    }
    if bytes == 0 {
        // SAFETY: the contract: without a length it ends in NUL.
        return Ok(unsafe { CStr::from_ptr(first.cast()) }.to_bytes());
    }
    let length = usize::try_from(bytes).ok().filter(|length| isize::try_from(*length).is_ok());
    let Some(length) = length else {
        return Err(Refusal::argument("bytes", format!("is {bytes}; no text is so long")));
    };
    // SAFETY: the contract; null was refused.
    Ok(unsafe { slice::from_raw_parts(first.cast(), length) })
}

/// Writes the names of a module's kernels, one a line, as gpulend_dtype_name() writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_module_names(
    module: ModuleHandle,
    text: *mut c_char,
    room: u64,
    needed: *mut u64,
) -> Status {
    guard(|| {
        let kernels = find::<Module>(module)?.kernels();
        let lines = lines(kernels.iter().map(|kernel| &*kernel.name));
        // SAFETY: (1) of the crate.
        unsafe { put_text(&lines, text, room, needed) }
    })
}

/// Writes the names of a module's variables, one a line, as gpulend_dtype_name() writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_module_variables(
    module: ModuleHandle,
    text: *mut c_char,
    room: u64,
    needed: *mut u64,
) -> Status {
    guard(|| {
        let variables = find::<Module>(module)?.variables();
        let lines = lines(variables.iter().map(|variable| &*variable.name));
        // SAFETY: (1) of the crate.
        unsafe { put_text(&lines, text, room, needed) }
    })
}

/// Writes the compiler's warnings about the caller's own source, one a line with file, line and
/// column, as gpulend_dtype_name() writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_module_warnings(
    module: ModuleHandle,
    text: *mut c_char,
    room: u64,
    needed: *mut u64,
) -> Status {
    guard(|| {
        let mut lines = String::new();
        for one in find::<Module>(module)?.warnings() {
            if one.severity == Severity::Warning {
                // Writing to a string does not fail.
                let _ = writeln!(lines, "{}:{}:{}: {}", one.file, one.line, one.column, one.text);
            }
        }
        // SAFETY: (1) of the crate.
        unsafe { put_text(&lines, text, room, needed) }
    })
}

fn lines<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.flat_map(|name| [name, "\n"]).collect()
}

/// A lease of a __device__ or __constant__ variable, with its declared type and extents, or as bytes if
/// these are not known. The module stays loaded as long as the lease lives.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_module_variable(
    module: ModuleHandle,
    name: *const c_char,
    lease: *mut LeaseHandle,
) -> Status {
    guard(|| {
        // SAFETY: (1) of the crate.
        let lease = unsafe { Out::at(lease, "lease") }?;
        // SAFETY: (1) of the crate.
        let name = unsafe { name_of(name) }?;
        lease.put(insert(find::<Module>(module)?.variable(name)?)?);
        Ok(())
    })
}

/// A kernel by its name, its name and types, its symbol, or as an instance of a template:
/// `scale<float>`. A new instance is compiled; if the module is loaded already, into a
/// second module with its own variables. List it in the source's `names` to avoid that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpulend_kernel_get(
    module: ModuleHandle,
    name: *const c_char,
    kernel: *mut KernelHandle,
) -> Status {
    guard(|| {
        // SAFETY: (1) of the crate.
        let kernel = unsafe { Out::at(kernel, "kernel") }?;
        // SAFETY: (1) of the crate.
        let name = unsafe { name_of(name) }?;
        kernel.put(insert(Kernel::new(find::<Module>(module)?.find(name)?))?);
        Ok(())
    })
}

/// # Safety
///
/// (1) of the crate; the result is used only until the function returns.
unsafe fn name_of<'a>(name: *const c_char) -> Result<&'a str, Refusal> {
    // SAFETY: the contract.
    let name = unsafe { text(name, "name") }?;
    name.ok_or_else(|| {
        Refusal::argument("name", "is NULL; gpulend_module_names() has those there are")
    })
}

/// Frees the handle. The module stays loaded until its kernels and variables are freed too,
/// and the GPU work is done.
#[unsafe(no_mangle)]
pub extern "C" fn gpulend_module_free(module: ModuleHandle) -> Status {
    guard(|| {
        drop(remove::<Module>(module)?);
        Ok(())
    })
}
