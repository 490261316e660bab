//! Images, kernels and device variables of the program, which its start-up code registers.
//!
//! Registration only records. An image is loaded when one of its kernels or variables is needed in a context.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::hash::{BuildHasherDefault, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::error::{Error, Outcome, say};
use crate::parts;
use crate::state::Here;
use crate::wire::Handle;

/// A hash of addresses: they are not chosen by an enemy, and launches look one up.
#[derive(Default)]
struct Quick(u64);

impl Hasher for Quick {
    fn finish(&self) -> u64 {
        // The table takes the high and the low bits; the multiplication fills the high ones.
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_usize(usize::from(*byte)));
    }

    fn write_usize(&mut self, number: usize) {
        self.0 = (self.0.rotate_left(5) ^ number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

type Map<K, V> = HashMap<K, V, BuildHasherDefault<Quick>>;
/// A host address or an image, in a context.
type InContext = (usize, Handle);

/// A kernel or a variable: its image, and its name there.
struct Symbol {
    binary: usize,
    name: CString,
}

#[derive(Default)]
struct Registry {
    /// Images by the handle that the program got.
    binaries: Map<usize, usize>,
    /// Kernels by the address of their host function.
    kernels: Map<usize, Symbol>,
    /// Variables by the address of their host variable.
    variables: Map<usize, Symbol>,
    modules: Map<InContext, Handle>,
    loaded_kernels: Map<InContext, Handle>,
    loaded_variables: Map<InContext, (u64, usize)>,
}

static REGISTRY: LazyLock<RwLock<Registry>> = LazyLock::new(RwLock::default);
/// Held while an image is loaded: twice would mean two copies of its variables. Taken before the registry.
static LOADING: Mutex<()> = Mutex::new(());
/// Whether a refused image was reported.
static REPORTED: AtomicBool = AtomicBool::new(false);

fn read() -> RwLockReadGuard<'static, Registry> {
    REGISTRY.read().unwrap_or_else(PoisonError::into_inner)
}

fn write() -> RwLockWriteGuard<'static, Registry> {
    REGISTRY.write().unwrap_or_else(PoisonError::into_inner)
}

/// Forgets what is loaded in a context that is about to go.
pub(crate) fn forget(context: Handle) {
    let mut registry = write();
    registry.modules.retain(|key, _| key.1 != context);
    registry.loaded_kernels.retain(|key, _| key.1 != context);
    registry.loaded_variables.retain(|key, _| key.1 != context);
}

/// Returns the driver's handle of a kernel in the current context.
#[inline]
pub(crate) fn kernel(here: Here, host: *const c_void) -> Outcome<Handle> {
    let key = (host.addr(), here.context);
    if let Some(found) = read().loaded_kernels.get(&key) {
        return Ok(*found);
    }
    load_kernel(here, key)
}

#[cold]
fn load_kernel(here: Here, key: InContext) -> Outcome<Handle> {
    let _loading = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
    let (image, name) = symbol(&read().kernels, key.0, Error::INVALID_FUNCTION)?;
    let (module, part) = module(here, image)?;
    let found = named(&name, part, |name| {
        let mut function = 0;
        // SAFETY: one handle is written; the module is loaded; the name ends in NUL.
        unsafe { here.driver.cuModuleGetFunction(&raw mut function, module, name.as_ptr()) }?;
        Ok(function)
    });
    let function = found.map_err(|error| missing(error, Error::INVALID_FUNCTION))?;
    write().loaded_kernels.insert(key, function);
    Ok(function)
}

/// Returns the address and the size of a variable in the current context.
pub(crate) fn variable(here: Here, host: *const c_void) -> Outcome<(u64, usize)> {
    let key = (host.addr(), here.context);
    if let Some(found) = read().loaded_variables.get(&key) {
        return Ok(*found);
    }
    let _loading = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
    let (image, name) = symbol(&read().variables, key.0, Error::INVALID_SYMBOL)?;
    let (module, part) = module(here, image)?;
    let found = named(&name, part, |name| {
        let (mut address, mut bytes) = (0, 0);
        let name = name.as_ptr();
        // SAFETY: an address and a size are written; the module is loaded; the name ends in NUL.
        unsafe {
            here.driver.cuModuleGetGlobal_v2(&raw mut address, &raw mut bytes, module, name)
        }?;
        Ok((address, bytes))
    });
    let found = found.map_err(|error| missing(error, Error::INVALID_SYMBOL))?;
    write().loaded_variables.insert(key, found);
    Ok(found)
}

/// The driver has one error for every name that is not there; the runtime says what it looked for.
fn missing(error: Error, wanted: Error) -> Error {
    if error == Error::SYMBOL_NOT_FOUND { wanted } else { error }
}

fn symbol(table: &Map<usize, Symbol>, host: usize, none: Error) -> Outcome<(usize, CString)> {
    table.get(&host).map(|symbol| (symbol.binary, symbol.name.clone())).ok_or(none)
}

/// Returns the module of an image in the current context, and the name of the part of it that the handle stands for.
/// `LOADING` is held.
fn module(here: Here, binary: usize) -> Outcome<(Handle, Option<String>)> {
    let (binary, part) = linked(binary)?;
    let key = (binary, here.context);
    if let Some(found) = read().modules.get(&key) {
        return Ok((*found, part));
    }
    let image = *read().binaries.get(&binary).ok_or(Error::INVALID_IMAGE)?;
    if image == 0 {
        return Err(Error::INVALID_IMAGE);
    }
    let module = load(here, ptr::with_exposed_provenance(image))?;
    write().modules.insert(key, module);
    Ok((module, part))
}

/// Returns the handle of the image that has a handle's code, and the name of its part there if it is a part.
fn linked(binary: usize) -> Outcome<(usize, Option<String>)> {
    let registry = read();
    let image = |address: &usize| ptr::with_exposed_provenance::<c_char>(*address);
    let own = image(registry.binaries.get(&binary).ok_or(Error::INVALID_IMAGE)?);
    // SAFETY: images are as `__cudaRegisterFatBinary` wants them for as long as they are in the registry, which is locked.
    let Some(part) = (unsafe { parts::name(own) }) else { return Ok((binary, None)) };
    // SAFETY: as above, of all of them.
    let found =
        registry.binaries.iter().find(|(_, other)| unsafe { parts::has(image(other), own) });
    let Some((whole, _)) = found else {
        say(format_args!(
            "device code of an object file was not linked; give it to `gpulend build`, which links, or to its -dlink"
        ));
        return Err(Error::INVALID_IMAGE);
    };
    Ok((*whole, Some(part.to_owned())))
}

/// Looks a name of a part up: first with the part's, which it has if it is its file's own, for another part may have a
/// variable of the plain name that only its kernels see.
fn named<T>(name: &CStr, part: Option<String>, find: impl Fn(&CStr) -> Outcome<T>) -> Outcome<T> {
    if let Some(part) = part {
        let own = [name.to_bytes(), b"__", part.as_bytes()].concat();
        let own = CString::new(own).map_err(|_| Error::SYMBOL_NOT_FOUND)?;
        match find(&own) {
            Err(Error::SYMBOL_NOT_FOUND) => {}
            found => return found,
        }
    }
    find(name)
}

/// Loads an image, and reports the driver's words if it is refused.
fn load(here: Here, image: *const c_void) -> Outcome<Handle> {
    /// `CU_JIT_ERROR_LOG_BUFFER`, and its size.
    const LOG: [c_int; 2] = [5, 6];
    let mut log = vec![0_u8; 16 * 1024];
    // The driver takes the size in place of a pointer.
    let values = [log.as_mut_ptr().cast::<c_void>(), ptr::without_provenance_mut(log.len())];
    let mut module = 0;
    // SAFETY: one handle is written; the program's start-up code registered the image, and it is still registered;
    // the log has as much room as is said.
    let loaded = unsafe {
        here.driver.cuModuleLoadDataEx(&raw mut module, image, 2, LOG.as_ptr(), values.as_ptr())
    };
    if let Err(error) = loaded {
        let words = CStr::from_bytes_until_nul(&log).unwrap_or_default().to_string_lossy();
        report(error, words.trim());
    }
    loaded.map(|()| module)
}

fn report(error: Error, words: &str) {
    if REPORTED.swap(true, Ordering::Relaxed) {
        return;
    }
    if words.contains("Unresolved extern function") {
        say(format_args!(
            "a kernel image was refused: {words}; it was built without CUDA's libdevice.10.bc, so a real GPU has no \
             such function: docs/programs.md"
        ));
    } else if words.is_empty() {
        say(format_args!("a kernel image was refused: error {}", error.0));
    } else {
        say(format_args!("a kernel image was refused: {words}"));
    }
}

/// The struct that a compiler's start-up code passes.
#[repr(C)]
#[derive(Debug)]
pub struct Wrapper {
    magic: c_int,
    version: c_int,
    data: *const c_void,
    unused: *mut c_void,
}

/// What marks a `Wrapper`.
const MAGIC: c_int = 0x4662_43b1;

/// Keeps a panic from C. Registration has no way to fail.
fn shielded<T>(default: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(default)
}

/// Copies a name that C passed.
///
/// # Safety
///
/// It is null or ends in NUL.
unsafe fn name_at(name: *const c_char) -> CString {
    if name.is_null() {
        return CString::default();
    }
    // SAFETY: the contract.
    unsafe { CStr::from_ptr(name) }.to_owned()
}

/// Records an image, and returns a handle for it.
///
/// # Safety
///
/// `wrapper` is null, or a `Wrapper` with an image that stays until it is unregistered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaRegisterFatBinary(wrapper: *const Wrapper) -> *mut *mut c_void {
    shielded(ptr::null_mut(), || {
        let data = if wrapper.is_null() {
            ptr::null()
        } else {
            // SAFETY: the contract; C does not promise alignment.
            let wrapper = unsafe { wrapper.read_unaligned() };
            if wrapper.magic == MAGIC { wrapper.data } else { ptr::null() }
        };
        // A handle is an address that nobody else has. A program has few, and they are never given back, so that
        // a late call with an old one finds nothing.
        let handle = Box::leak(Box::new(ptr::null_mut::<c_void>()));
        let handle = ptr::from_mut(handle);
        write().binaries.insert(handle.addr(), data.expose_provenance());
        handle
    })
}

/// Says that all of an image is registered. There is nothing left to do.
///
/// # Safety
///
/// The pointer is not read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaRegisterFatBinaryEnd(_handle: *mut *mut c_void) {}

/// Forgets an image. The driver may be gone already, so its modules stay loaded.
///
/// # Safety
///
/// The pointer is not read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaUnregisterFatBinary(handle: *mut *mut c_void) {
    shielded((), || {
        let binary = handle.addr();
        let mut registry = write();
        let registry = &mut *registry;
        registry.binaries.remove(&binary);
        registry.modules.retain(|key, _| key.0 != binary);
        registry.kernels.retain(|_, symbol| symbol.binary != binary);
        registry.variables.retain(|_, symbol| symbol.binary != binary);
        // Another library may get the same addresses.
        let (kernels, variables) = (&registry.kernels, &registry.variables);
        registry.loaded_kernels.retain(|key, _| kernels.contains_key(&key.0));
        registry.loaded_variables.retain(|key, _| variables.contains_key(&key.0));
    });
}

/// Records a kernel.
///
/// # Safety
///
/// `name` is null or ends in NUL. No other pointer is read.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "the compiler passes them")]
pub unsafe extern "C" fn __cudaRegisterFunction(
    handle: *mut *mut c_void,
    host: *const c_char,
    _device: *mut c_char,
    name: *const c_char,
    _thread_limit: c_int,
    _tid: *mut c_void,
    _bid: *mut c_void,
    _block: *mut c_void,
    _grid: *mut c_void,
    _warp: *mut c_int,
) -> c_int {
    shielded(0, || {
        // SAFETY: the contract.
        let name = unsafe { name_at(name) };
        write().kernels.insert(host.addr(), Symbol { binary: handle.addr(), name });
        0
    })
}

/// Records a device variable.
///
/// # Safety
///
/// `name` is null or ends in NUL. No other pointer is read.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "the compiler passes them")]
pub unsafe extern "C" fn __cudaRegisterVar(
    handle: *mut *mut c_void,
    host: *mut c_char,
    _device: *mut c_char,
    name: *const c_char,
    _external: c_int,
    _bytes: usize,
    _constant: c_int,
    _global: c_int,
) {
    shielded((), || {
        // SAFETY: the contract.
        let name = unsafe { name_at(name) };
        write().variables.insert(host.addr(), Symbol { binary: handle.addr(), name });
    });
}

/// Records a managed variable as a device variable. The host's copy is not the same memory.
///
/// # Safety
///
/// `name` is null or ends in NUL. No other pointer is read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaRegisterManagedVar(
    handle: *mut *mut c_void,
    host: *mut c_void,
    _initial: *mut c_void,
    name: *const c_char,
    _bytes: usize,
    _align: c_uint,
) {
    shielded((), || {
        // SAFETY: the contract.
        let name = unsafe { name_at(name) };
        write().variables.insert(host.addr(), Symbol { binary: handle.addr(), name });
    });
}

/// Ignores a surface reference: CUDA 12 has none.
///
/// # Safety
///
/// No pointer is read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaRegisterSurface(
    _handle: *mut *mut c_void,
    _host: *const c_void,
    _device: *mut *const c_void,
    _name: *const c_char,
    _dimensions: c_int,
    _external: c_int,
) {
}

/// Ignores a texture reference: CUDA 12 has none.
///
/// # Safety
///
/// No pointer is read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaRegisterTexture(
    _handle: *mut *mut c_void,
    _host: *const c_void,
    _device: *mut *const c_void,
    _name: *const c_char,
    _dimensions: c_int,
    _normalised: c_int,
    _external: c_int,
) {
}
