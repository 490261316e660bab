//! A temporary folder, removed on drop.
#![forbid(unsafe_code)]

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{env, process};

/// A temporary folder that only this user can access.
pub(super) struct Folder(PathBuf);

impl Folder {
    /// Creates one in the system's temporary folder.
    pub(super) fn new() -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = env::temp_dir().join(format!("gpulend-{}-{number}", process::id()));
            // It must not exist yet: an existing one may belong to another user.
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file in it, and creates subfolders as needed.
    pub(super) fn write(&self, name: &str, text: &str) -> io::Result<()> {
        let path = self.0.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, text)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // If this fails, it remains with the system's other temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}
