//! Only one copy of gpulend works in a process: the first one used. Every other copy is refused.
//!
//! A copy announces itself by a page of memory whose name the kernel lists in `/proc/self/maps`. That works
//! in any order of loading and for any kind of linking, even if the loader keeps symbols apart. Without
//! `/proc`, a second copy is not detected.

use std::ffi::{CStr, c_int};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;
use std::{ptr, thread};

use gpulend::driver::set_simulator;
use gpulend_common::maps;

use crate::refusal::Refusal;

const NAME: &CStr = c"gpulend-core";
/// The page's name in the kernel's list.
const LISTED: &str = "/memfd:gpulend-core";
const PAGE: usize = 4096;
/// The first byte of the page before the copy is in use.
const ANNOUNCED: u8 = b'?';
const IN_USE: u8 = b'!';
/// How often two copies that start at once retry.
const MOST_TRIES: u32 = 200;

/// Makes this copy of gpulend the one of its process, at the first call.
///
/// # Errors
///
/// If another copy was used first.
#[inline]
pub fn start() -> Result<(), Refusal> {
    static STARTED: OnceLock<Result<(), Refusal>> = OnceLock::new();
    match STARTED.get_or_init(first_start) {
        Ok(()) => Ok(()),
        Err(refusal) => Err(refusal.clone()),
    }
}

#[cold]
fn first_start() -> Result<(), Refusal> {
    let here = own_file();
    claim(here.as_deref().unwrap_or("an unknown file"))?;
    if let Some(simulator) = here.as_deref().and_then(simulator_beside) {
        // Does nothing if Python has set it before.
        set_simulator(simulator);
    }
    Ok(())
}

/// The file that contains this code.
fn own_file() -> Option<String> {
    let list = maps::read()?;
    let here = (first_start as fn() -> Result<(), Refusal> as *const ()).addr() as u64;
    let file = maps::parse(&list).find(|mapping| mapping.holds(here))?.path()?;
    Some(file.to_string_lossy().into_owned())
}

/// `libgpulend_sim.so` where a wheel or `make install` puts it: beside this file, or beside the program.
fn simulator_beside(file: &str) -> Option<PathBuf> {
    let folder = PathBuf::from(file);
    let folder = folder.parent()?;
    let multiarch = format!("../lib/{}-linux-gnu/gpulend", std::env::consts::ARCH);
    ["_simulator", "gpulend", "../lib/gpulend", "../lib64/gpulend", &multiarch]
        .into_iter()
        .map(|place| folder.join(place).join("libgpulend_sim.so"))
        .find(|path| path.is_file())
}

/// Announces this copy, and checks whether another one did.
///
/// A copy that finds another's page removes its own. So of two copies that start at once at most one
/// continues. Each copy pauses for a different time.
fn claim(file: &str) -> Result<(), Refusal> {
    for attempt in 0..MOST_TRIES {
        let Some(page) = Page::announce(file) else { return Ok(()) };
        let Some(list) = maps::read() else { return Ok(()) };
        let found = maps::parse(&list).filter(|mapping| mapping.name.starts_with(LISTED));
        let others: Vec<u64> =
            found.map(|mapping| mapping.start).filter(|start| *start != page.0 as u64).collect();
        if others.is_empty() {
            page.keep();
            return Ok(());
        }
        drop(page);
        for other in others {
            if let Some(first) = read(other) {
                return Err(Refusal::SecondCopy { first, second: file.into() });
            }
        }
        let own = u64::try_from((claim as fn(&str) -> Result<(), Refusal> as *const ()).addr());
        let pause = own.unwrap_or(0) / PAGE as u64 % 7 + u64::from(attempt % 3) + 1;
        thread::sleep(Duration::from_millis(pause));
    }
    Ok(())
}

/// This copy's page, unmapped on drop.
struct Page(usize);

impl Page {
    /// Maps a page that contains the path of this copy. `None` if the kernel refuses.
    fn announce(file: &str) -> Option<Self> {
        // SAFETY: the name ends in NUL.
        let descriptor: c_int = unsafe { libc::memfd_create(NAME.as_ptr(), libc::MFD_CLOEXEC) };
        if descriptor < 0 {
            return None;
        }
        // SAFETY: the descriptor is new and has no other owner.
        let mut content = unsafe { File::from_raw_fd(descriptor) };
        let mut bytes = vec![ANNOUNCED];
        bytes.extend(file.bytes().take(PAGE - 2));
        bytes.resize(PAGE, 0);
        content.write_all(&bytes).ok()?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let (anywhere, shared) = (ptr::null_mut(), libc::MAP_SHARED);
        // SAFETY: a new mapping, of a file that is one page long.
        let page = unsafe { libc::mmap(anywhere, PAGE, access, shared, content.as_raw_fd(), 0) };
        (page != libc::MAP_FAILED).then(|| Self(page.expose_provenance()))
    }

    /// Marks this copy as in use, for the life of the process.
    fn keep(self) {
        let first = ptr::with_exposed_provenance_mut::<u8>(self.0);
        // SAFETY: the page is ours, and others only read it.
        unsafe { first.write_volatile(IN_USE) };
        std::mem::forget(self);
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: the page is ours; a copy that reads it now asks the kernel, which answers that it is gone.
        let _ = unsafe { libc::munmap(ptr::with_exposed_provenance_mut(self.0), PAGE) };
    }
}

/// The path in another copy's page, if that copy is in use.
///
/// The kernel reads it, because the other copy may unmap it at any moment.
fn read(page: u64) -> Option<Box<str>> {
    let Ok(memory) = File::open("/proc/self/mem") else { return Some("another file".into()) };
    let mut bytes = [0_u8; PAGE];
    memory.read_exact_at(&mut bytes, page).ok()?;
    let path = CStr::from_bytes_until_nul(&bytes).ok()?.to_bytes().strip_prefix(&[IN_USE])?;
    Some(String::from_utf8_lossy(path).into())
}
