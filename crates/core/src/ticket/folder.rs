//! The folder of the lenders' sockets, and the identity of this machine.
//!
//! A lender's socket is a file that is named after it. The folder belongs to the user and nobody else may enter it. A killed lender
//! cannot remove its file. The next process that finds that nobody listens removes it.
#![forbid(unsafe_code)]

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;
use std::{env, process};

use nix::unistd::Uid;

use crate::error::{Error, TicketError};
use crate::ticket::socket;

/// Below the folder of a session, which the system removes when the user's last session ends.
const NAME: &str = "gpulend";
/// What the name of a socket begins with until somebody listens. The namespace of its process and the process follow.
const UNFINISHED: &str = "new-";
/// A lender of another namespace, whose processes cannot be looked at, listens long before this.
const STALE: Duration = Duration::from_secs(60);

/// The folder of the sockets. It is made if it is not there.
pub(super) fn folder() -> Result<PathBuf, Error> {
    let session = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let session = session.filter(|path| path.is_absolute() && path.is_dir());
    let path = match session {
        Some(path) => path.join(NAME),
        None => env::temp_dir().join(format!("{NAME}-{}", Uid::effective())),
    };
    match DirBuilder::new().mode(0o700).create(&path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(failed("making the folder of the sockets", &at(&path, &error)));
        }
        _ => {}
    }
    // Not through a link: that could be somebody else's.
    let about = fs::symlink_metadata(&path);
    let about = about
        .map_err(|error| failed("looking at the folder of the sockets", &at(&path, &error)))?;
    let owned = about.is_dir() && about.uid() == Uid::effective().as_raw();
    if !owned || about.mode() & 0o077 != 0 {
        let problem = format!(
            "the folder {} is not a folder that belongs to this user alone",
            path.display()
        );
        return Err(TicketError::NotPermitted { problem: problem.into() }.into());
    }
    Ok(path)
}

/// What happened, and where.
fn at(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// The file of a lender's socket.
pub(super) fn path_of(lender: &[u8; 16]) -> Result<PathBuf, Error> {
    Ok(folder()?.join(hex(lender)))
}

/// The file of a socket before somebody listens.
pub(super) fn unfinished_path_of(lender: &[u8; 16]) -> Result<PathBuf, Error> {
    let name = format!("{UNFINISHED}{}-{}-{}", namespace(), process::id(), hex(lender));
    Ok(folder()?.join(name))
}

/// The number of the namespace of this process, in which its id is unique; 0 if the system does not tell.
fn namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |about| about.ino())
}

/// Removes the sockets of lenders that were killed.
pub(super) fn sweep() {
    let Ok(folder) = folder() else { return };
    let Ok(files) = fs::read_dir(folder) else { return };
    for file in files.flatten() {
        let (name, path) = (file.file_name(), file.path());
        let gone = match name.to_string_lossy().strip_prefix(UNFINISHED) {
            Some(maker) => has_ended(maker) || is_old(&path),
            None => socket::is_dead(&path),
        };
        if gone {
            // Another process may have removed it first.
            let _ = fs::remove_file(path);
        }
    }
}

/// Returns whether the process that made an unfinished socket is known to have ended.
fn has_ended(maker: &str) -> bool {
    let mut parts = maker.split('-').map(str::parse::<u64>);
    let (Some(Ok(namespace)), Some(Ok(process))) = (parts.next(), parts.next()) else {
        return false;
    };
    namespace != 0
        && namespace == self::namespace()
        && !Path::new(&format!("/proc/{process}")).exists()
}

fn is_old(path: &Path) -> bool {
    let made = fs::symlink_metadata(path).and_then(|about| about.modified()).ok();
    made.and_then(|made| made.elapsed().ok()).is_some_and(|age| age > STALE)
}

/// The identity of this machine since it was started.
pub(super) fn boot() -> Result<[u8; 16], Error> {
    static BOOT: OnceLock<[u8; 16]> = OnceLock::new();
    if let Some(boot) = BOOT.get() {
        return Ok(*boot);
    }
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    let text = text.map_err(|error| failed("reading the id of this machine's boot", &error))?;
    let mut digits = text.bytes().filter_map(|digit| char::from(digit).to_digit(16));
    let mut boot = [0; 16];
    for byte in &mut boot {
        let (high, low) = (digits.next().unwrap_or(0), digits.next().unwrap_or(0));
        *byte = u8::try_from(high << 4 | low).unwrap_or(0);
    }
    Ok(*BOOT.get_or_init(|| boot))
}

/// Random bytes that nobody can guess.
pub(super) fn random<const N: usize>() -> Result<[u8; N], Error> {
    use std::io::Read;
    let mut bytes = [0; N];
    let read = fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| failed("reading random numbers", &error))?;
    Ok(bytes)
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn failed(what: &'static str, error: &dyn std::fmt::Display) -> Error {
    TicketError::System { what, reason: error.to_string().into() }.into()
}
