//! NVRTC, NVIDIA's compiler library: finds it, loads it at run time and calls it. Other files decide its
//! options.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// Its file names for the loader, newest first.
const LIBRARIES: [&str; 4] =
    ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"];
/// `RTLD_NOLOAD` of glibc: find the library only if the process has it already.
const IF_LOADED: c_int = 4;

/// `nvrtcResult`.
pub(super) type Status = c_int;
/// `NVRTC_ERROR_INVALID_OPTION`.
pub(super) const INVALID_OPTION: Status = 5;
/// `NVRTC_ERROR_COMPILATION`.
pub(super) const COMPILATION: Status = 6;

/// `nvrtcProgram`.
type Handle = *mut c_void;
type Size = unsafe extern "C" fn(Handle, *mut usize) -> Status;
type Fill = unsafe extern "C" fn(Handle, *mut c_char) -> Status;

macro_rules! functions {
    ($($field:ident = $name:literal: $type:ty;)*) => {
        /// The functions of `nvrtc.h` that gpulend calls.
        struct Functions {
            $($field: $type,)*
        }

        impl Functions {
            /// Looks all of them up, or names the first that is missing.
            ///
            /// # Safety
            ///
            /// 1. If `library` has functions of these names, they are those of `nvrtc.h`.
            /// 2. It stays loaded as long as one of them may be called.
            unsafe fn of(library: &Library) -> Result<Self, &'static str> {
                Ok(Self {
                    // SAFETY: (1): the type is that of `nvrtc.h`; (2) is passed on.
                    $($field: *unsafe { library.get($name) }.map_err(|_| $name)?,)*
                })
            }
        }
    };
}

functions! {
    version = "nvrtcVersion": unsafe extern "C" fn(*mut c_int, *mut c_int) -> Status;
    target_count = "nvrtcGetNumSupportedArchs": unsafe extern "C" fn(*mut c_int) -> Status;
    targets = "nvrtcGetSupportedArchs": unsafe extern "C" fn(*mut c_int) -> Status;
    create = "nvrtcCreateProgram": unsafe extern "C" fn(
        *mut Handle, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char,
    ) -> Status;
    destroy = "nvrtcDestroyProgram": unsafe extern "C" fn(*mut Handle) -> Status;
    add_name = "nvrtcAddNameExpression": unsafe extern "C" fn(Handle, *const c_char) -> Status;
    lowered_name = "nvrtcGetLoweredName": unsafe extern "C" fn(Handle, *const c_char, *mut *const c_char) -> Status;
    compile = "nvrtcCompileProgram": unsafe extern "C" fn(Handle, c_int, *const *const c_char) -> Status;
    log_size = "nvrtcGetProgramLogSize": Size;
    log = "nvrtcGetProgramLog": Fill;
    ptx_size = "nvrtcGetPTXSize": Size;
    ptx = "nvrtcGetPTX": Fill;
    cubin_size = "nvrtcGetCUBINSize": Size;
    cubin = "nvrtcGetCUBIN": Fill;
}

/// A loaded NVRTC. It is never unloaded.
pub(super) struct Nvrtc {
    functions: Functions,
    /// Major and minor.
    pub(super) version: (i32, i32),
    /// Machine code targets, ascending: 90 means sm_90.
    pub(super) targets: Vec<i32>,
    /// The path given to the loader.
    pub(super) path: PathBuf,
    /// Keeps the functions loaded.
    _library: Library,
}

/// A compilation.
pub(super) struct Job<'a> {
    pub(super) text: &'a CStr,
    pub(super) file: &'a CStr,
    /// Names and texts.
    pub(super) headers: &'a [(CString, CString)],
    pub(super) names: &'a [CString],
    pub(super) options: &'a [CString],
}

/// The result of a compilation.
#[derive(Default)]
pub(super) struct Done {
    pub(super) status: Status,
    pub(super) log: String,
    pub(super) ptx: Vec<u8>,
    pub(super) cubin: Vec<u8>,
    /// The symbols of the names, in the same order.
    pub(super) symbols: Vec<String>,
}

impl Nvrtc {
    /// The NVRTC that is already loaded, that the loader finds, or that is in one of the folders. The first
    /// success is kept.
    ///
    /// # Errors
    ///
    /// A message with what was tried.
    pub(super) fn find(folders: &[PathBuf]) -> Result<&'static Self, Box<str>> {
        static FOUND: OnceLock<Nvrtc> = OnceLock::new();
        if let Some(found) = FOUND.get() {
            return Ok(found);
        }
        let loaded = Self::load(folders)?;
        // Two threads may both load it; the loader counts references, and the first one is kept.
        Ok(FOUND.get_or_init(|| loaded))
    }

    fn load(folders: &[PathBuf]) -> Result<Self, Box<str>> {
        let mut reasons = Vec::new();
        let mut attempt = |path: &Path, flags| match open(path, flags)
            .and_then(|library| Self::new(library, path))
        {
            Ok(found) => Some(found),
            Err(reason) => {
                reasons.push(reason);
                None
            }
        };
        let names = || LIBRARIES.iter().map(Path::new);
        if let Some(found) = names().find_map(|name| attempt(name, IF_LOADED)) {
            return Ok(found);
        }
        if let Some(found) = names().find_map(|name| attempt(name, 0)) {
            return Ok(found);
        }
        let files = folders.iter().flat_map(|folder| names().map(|name| folder.join(name)));
        if let Some(found) = files.filter(|file| file.exists()).find_map(|file| attempt(&file, 0)) {
            return Ok(found);
        }
        // The last reason is that of a folder, if one contained the library.
        Err(reasons.pop().unwrap_or_default())
    }

    fn new(library: Library, path: &Path) -> Result<Self, Box<str>> {
        // SAFETY: (1) that is what a library under this name promises; (2) it is kept beside them.
        let functions = unsafe { Functions::of(&library) };
        let functions = functions.map_err(|name| format!("it has no {name}"))?;
        let (mut major, mut minor, mut count) = (0, 0, 0);
        // SAFETY: there is room for both numbers.
        let versioned = unsafe { (functions.version)(&raw mut major, &raw mut minor) };
        // SAFETY: there is room for a number.
        let counted = unsafe { (functions.target_count)(&raw mut count) };
        let mut targets = vec![0; usize::try_from(count).unwrap_or(0)];
        // SAFETY: there is room for as many as it said.
        let listed = unsafe { (functions.targets)(targets.as_mut_ptr()) };
        if [versioned, counted, listed] != [0; 3] {
            return Err(format!(
                "it does not say what it is (status {versioned}, {counted}, {listed})"
            )
            .into());
        }
        targets.sort_unstable();
        let (version, path) = ((major, minor), path.to_owned());
        Ok(Self { functions, version, targets, path, _library: library })
    }

    /// Compiles. If the status is not success, only the log is set.
    pub(super) fn compile(&self, job: &Job<'_>) -> Done {
        let header_names: Vec<_> = job.headers.iter().map(|(name, _)| name.as_ptr()).collect();
        let header_texts: Vec<_> = job.headers.iter().map(|(_, text)| text.as_ptr()).collect();
        let options: Vec<_> = job.options.iter().map(|option| option.as_ptr()).collect();
        let counts = (c_int::try_from(options.len()), c_int::try_from(header_names.len()));
        // Never happens: the counts are far smaller.
        let (Ok(option_count), Ok(header_count)) = counts else {
            return Done { status: INVALID_OPTION, ..Done::default() };
        };
        let mut program = Program { functions: &self.functions, handle: ptr::null_mut() };
        // SAFETY: all texts end in NUL and outlive the call, and both arrays are as long as is said.
        let status = unsafe {
            (self.functions.create)(
                &raw mut program.handle,
                job.text.as_ptr(),
                job.file.as_ptr(),
                header_count,
                header_texts.as_ptr(),
                header_names.as_ptr(),
            )
        };
        if status != 0 {
            return Done { status, ..Done::default() };
        }
        for name in job.names {
            // SAFETY: the program is alive, and the name ends in NUL.
            let status = unsafe { (self.functions.add_name)(program.handle, name.as_ptr()) };
            if status != 0 {
                return Done { status, ..Done::default() };
            }
        }
        // SAFETY: the program is alive; the array is as long as is said, and its texts end in NUL.
        let status =
            unsafe { (self.functions.compile)(program.handle, option_count, options.as_ptr()) };
        let log = program.bytes(self.functions.log_size, self.functions.log);
        let log = String::from_utf8_lossy(&log).trim_end_matches('\0').to_owned();
        if status != 0 {
            return Done { status, log, ..Done::default() };
        }
        let symbols = job.names.iter().map(|name| program.symbol(name).unwrap_or_default());
        Done {
            status,
            symbols: symbols.collect(),
            ptx: program.bytes(self.functions.ptx_size, self.functions.ptx),
            cubin: program.bytes(self.functions.cubin_size, self.functions.cubin),
            log,
        }
    }
}

/// An `nvrtcProgram`, destroyed on drop.
struct Program<'a> {
    functions: &'a Functions,
    /// Null, or alive until this is dropped.
    handle: Handle,
}

impl Program<'_> {
    /// Calls a size function and then its get function. Empty if either fails.
    fn bytes(&self, size: Size, fill: Fill) -> Vec<u8> {
        let mut length = 0;
        // SAFETY: the program is alive, and there is room for a size.
        if unsafe { size(self.handle, &raw mut length) } != 0 || length == 0 {
            return Vec::new();
        }
        let mut bytes = vec![0_u8; length];
        // SAFETY: the program is alive, and there is as much room as it said.
        if unsafe { fill(self.handle, bytes.as_mut_ptr().cast()) } != 0 {
            return Vec::new();
        }
        bytes
    }

    /// The symbol of a requested name.
    fn symbol(&self, name: &CStr) -> Option<String> {
        let mut symbol = ptr::null();
        // SAFETY: the program is alive, the name ends in NUL, and there is room for a pointer.
        let status =
            unsafe { (self.functions.lowered_name)(self.handle, name.as_ptr(), &raw mut symbol) };
        if status != 0 || symbol.is_null() {
            return None;
        }
        // SAFETY: it returned a text that ends in NUL and is the program's, which is alive.
        Some(unsafe { CStr::from_ptr(symbol) }.to_string_lossy().into_owned())
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: it is alive, and nobody has it after this.
            unsafe { (self.functions.destroy)(&raw mut self.handle) };
        }
    }
}

/// Opens the library with symbols visible to gpulend only.
fn open(path: &Path, flags: c_int) -> Result<Library, Box<str>> {
    // SAFETY: the initialisers that run are those of NVIDIA's compiler, which programs load like this.
    let opened = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL | flags) };
    opened.map_err(|error| {
        let words = std::error::Error::source(&error).map(ToString::to_string);
        words.unwrap_or_else(|| error.to_string()).into()
    })
}
