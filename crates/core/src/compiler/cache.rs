//! The on-disk cache of compiled sources. Each file contains a hash of its content.
#![forbid(unsafe_code)]

use std::env;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::SystemTime;

use nix::unistd::Uid;
use sha2::{Digest, Sha256};

const FORMAT: &str = "gpulend-ptx-2";
const MOST_BYTES: u64 = 256 << 20;
/// gpulend's own folder inside the cache folder.
const FOLDER: &str = "ptx";
/// Hex digits in a key.
const KEY_LENGTH: usize = 64;

/// Hashes the parts of a key, each with its length, so that different lists of parts give different input.
pub(super) struct Key(Sha256);

impl Key {
    pub(super) fn new() -> Self {
        Self(Sha256::new())
    }

    pub(super) fn add(&mut self, part: &str) {
        self.0.update(part.len().to_le_bytes());
        self.0.update(part);
    }

    pub(super) fn name(self) -> String {
        hex(&self.0.finalize())
    }
}

/// A compiled source: the compiler's report, the PTX and its other results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) report: String,
    pub(super) ptx: String,
    /// Machine code, if requested.
    pub(super) binary: Vec<u8>,
    /// The symbols of the requested names, in the same order.
    pub(super) symbols: Vec<String>,
}

/// A folder of entries.
#[derive(Clone, Debug)]
pub(super) struct Cache {
    folder: PathBuf,
    most: u64,
}

impl Cache {
    /// The user's cache, unless it is off or its folder cannot be trusted.
    pub(super) fn open() -> Option<Self> {
        if env::var_os("GPULEND_CACHE").is_some_and(|how| how == "off") {
            return None;
        }
        let folder = cache_folder(FOLDER)?.inspect_err(|reason| warn(reason)).ok()?;
        Some(Self { folder, most: MOST_BYTES })
    }

    /// The entry of `key`. A damaged entry is removed.
    fn read(&self, key: &str) -> Option<Entry> {
        let path = self.path(key);
        let bytes = fs::read(&path).ok()?;
        let entry = decode(&bytes);
        if entry.is_none() {
            let _ = fs::remove_file(&path);
        } else if let Ok(file) = OpenOptions::new().append(true).open(&path) {
            // The oldest files are removed first; this one is in use.
            let _ = file.set_modified(SystemTime::now());
        }
        entry
    }

    /// Stores `entry` under `key`. Errors are ignored: without a cache, compiling is only slower.
    fn write(&self, key: &str, entry: &Entry) {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let temporary = self.folder.join(format!("{key}.{}-{number}.tmp", process::id()));
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)
            .and_then(|mut file| file.write_all(&encode(entry)))
            // Readers see the whole file or none.
            .and_then(|()| fs::rename(&temporary, self.path(key)));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        self.shrink();
    }

    /// Removes the oldest files until the rest fits the limit.
    fn shrink(&self) {
        let Ok(listed) = fs::read_dir(&self.folder) else { return };
        let mut files: Vec<(SystemTime, u64, PathBuf)> = listed
            .flatten()
            .filter(|file| file.file_name().to_str().is_some_and(is_ours))
            .filter_map(|file| {
                let about = file.metadata().ok()?;
                Some((about.modified().ok()?, about.len(), file.path()))
            })
            .collect();
        let mut total: u64 = files.iter().map(|(_, size, _)| size).sum();
        files.sort();
        for (_, size, path) in files {
            if total <= self.most {
                break;
            }
            // Another process may have removed it already.
            match fs::remove_file(path) {
                Ok(()) => total -= size,
                Err(error) if error.kind() == ErrorKind::NotFound => total -= size,
                Err(_) => {}
            }
        }
    }

    fn path(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{key}.ptx"))
    }
}

/// The cached entry of a key, or a new one that is then cached. Also returns whether it was cached.
pub(super) fn find_or_make<E>(
    cache: Option<&Cache>,
    key: &str,
    make: impl FnOnce() -> Result<Entry, E>,
) -> Result<(Entry, bool), E> {
    if let Some(found) = cache.and_then(|cache| cache.read(key)) {
        return Ok((found, true));
    }
    let entry = make()?;
    if let Some(cache) = cache {
        cache.write(key, &entry);
    }
    Ok((entry, false))
}

/// gpulend's folder in the user's cache, created if needed: in `GPULEND_CACHE_DIR`, else in `gpulend` in
/// `XDG_CACHE_HOME` or `~/.cache`. `None` if no variable names one.
///
/// # Errors
///
/// A message, if it cannot be created, or if another user owns it or can write to it.
#[must_use]
pub fn cache_folder(name: &str) -> Option<Result<PathBuf, String>> {
    let named = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = named("GPULEND_CACHE_DIR")
        .or_else(|| named("XDG_CACHE_HOME").map(|folder| folder.join("gpulend")))
        .or_else(|| named("HOME").map(|folder| folder.join(".cache/gpulend")))?;
    // The user's folder may contain other files. gpulend writes and removes files only in its own folder
    // inside it.
    let ours = folder.join(name);
    Some(trusted(&folder).and_then(|()| trusted(&ours)).map(|()| ours))
}

/// Creates a folder if it does not exist, and refuses it if another user owns it or can write to it.
fn trusted(folder: &Path) -> Result<(), String> {
    let shown = folder.display();
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|error| format!("{shown} cannot be made: {error}"))?;
    let about = fs::metadata(folder).map_err(|error| format!("{shown}: {error}"))?;
    // Write access to this folder means control over the kernels that run.
    if about.uid() != Uid::effective().as_raw() {
        return Err(format!("{shown} belongs to another user"));
    }
    if about.mode() & 0o022 != 0 {
        return Err(format!("{shown} can be written by others; `chmod go-w` it"));
    }
    Ok(())
}

/// Whether [`Cache::write`] creates files of this name: `<key>.ptx` or `<key>.<process>-<number>.tmp`.
fn is_ours(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let Some((key, rest)) = name.split_at_checked(KEY_LENGTH) else { return false };
    let temporary = || {
        let (process, number) = rest.strip_prefix('.')?.strip_suffix(".tmp")?.split_once('-')?;
        Some(is_number(process) && is_number(number))
    };
    key.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        && (rest == ".ptx" || temporary() == Some(true))
}

/// A line with a hash and the lengths of the parts, then the parts: report, PTX, symbols, binary.
fn encode(entry: &Entry) -> Vec<u8> {
    let symbols = entry.symbols.join("\n");
    let parts = [entry.report.as_bytes(), entry.ptx.as_bytes(), symbols.as_bytes(), &entry.binary];
    let content = parts.concat();
    let hash = hex(&Sha256::digest(&content));
    let [report, ptx, symbols, _] = parts.map(<[u8]>::len);
    let mut bytes = format!("{FORMAT} {hash} {report} {ptx} {symbols}\n").into_bytes();
    bytes.extend(content);
    bytes
}

fn decode(bytes: &[u8]) -> Option<Entry> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let (head, content) = (std::str::from_utf8(&bytes[..end]).ok()?, &bytes[end + 1..]);
    let mut words = head.split(' ');
    if words.next()? != FORMAT || words.next()? != hex(&Sha256::digest(content)) {
        return None;
    }
    let mut rest = content;
    let mut part = || {
        let (part, after) = rest.split_at_checked(words.next()?.parse().ok()?)?;
        rest = after;
        String::from_utf8(part.to_owned()).ok()
    };
    let (report, ptx, symbols) = (part()?, part()?, part()?);
    let symbols = symbols.lines().map(str::to_owned).collect();
    Some(Entry { report, ptx, symbols, binary: rest.to_owned() })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn warn(reason: &str) {
    static WARNED: AtomicBool = AtomicBool::new(false);
    if !WARNED.swap(true, Ordering::Relaxed) {
        let line = format!(
            "gpulend: compiled kernels are not kept: {reason}; GPULEND_CACHE_DIR names another folder, \
             GPULEND_CACHE=off ends this line\n"
        );
        // A closed stderr must not make this fail.
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compiler::folder::Folder;
    use std::os::unix::fs::PermissionsExt;

    fn entry(text: &str) -> Entry {
        Entry {
            report: "k.cu:1:1: warning: ä\n".to_owned(),
            ptx: text.to_owned(),
            binary: vec![0x7f, 0xff, b'\n', 0],
            symbols: vec!["_Z1fv".to_owned(), "g".to_owned()],
        }
    }

    /// A key in the format of [`Key::name`].
    fn key(letter: char) -> String {
        letter.to_string().repeat(KEY_LENGTH)
    }

    fn cache(most: u64) -> (Folder, Cache) {
        let folder = Folder::new().unwrap();
        let ours = folder.path().join("deep/cache");
        trusted(&ours).unwrap();
        (folder, Cache { folder: ours, most })
    }

    #[test]
    fn what_was_written_is_read_and_a_tampered_entry_is_removed() {
        let (_folder, cache) = cache(MOST_BYTES);
        let key = key('a');
        assert_eq!(cache.read(&key), None);
        cache.write(&key, &entry("ptx"));
        assert_eq!(cache.read(&key), Some(entry("ptx")));
        let bytes = fs::read(cache.path(&key)).unwrap();
        let mut changed = bytes.clone();
        changed[bytes.len() - 2] ^= 1;
        let longer = [&bytes[..], b"x"].concat();
        let tampered = [changed, longer, bytes[..bytes.len() - 1].to_owned(), Vec::new()];
        for wrong in &tampered {
            fs::write(cache.path(&key), wrong).unwrap();
            assert_eq!(cache.read(&key), None, "{wrong:?}");
            assert!(!cache.path(&key).exists());
        }
    }

    #[test]
    fn a_folder_that_others_can_write_or_own_is_refused() {
        let (folder, cache) = cache(MOST_BYTES);
        assert_eq!(fs::metadata(&cache.folder).unwrap().mode() & 0o777, 0o700);
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o770)).unwrap();
        let error = trusted(folder.path()).unwrap_err();
        assert!(error.contains("by others"), "{error}");
        let foreign = Path::new(if Uid::effective().is_root() { return } else { "/" });
        assert!(trusted(foreign).unwrap_err().contains("another user"));
    }

    #[test]
    fn the_oldest_entries_leave_when_the_cache_is_full() {
        let size = u64::try_from(encode(&entry("0000")).len()).unwrap();
        let (_folder, cache) = cache(size * 3);
        let [a, b, c, d, e] = ['a', 'b', 'c', 'd', 'e'].map(key);
        for (age, key) in [&a, &b, &c, &d].into_iter().enumerate() {
            cache.write(key, &entry("0000"));
            let file = OpenOptions::new().append(true).open(cache.path(key)).unwrap();
            let second = u64::try_from(age).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(second))
                .unwrap();
        }
        assert_eq!(cache.read(&a), None);
        // Read just now, so no longer the oldest.
        assert!(cache.read(&b).is_some());
        cache.write(&e, &entry("0000"));
        let left: Vec<_> = [b, c, d, e].map(|key| cache.path(&key).exists()).into();
        assert_eq!(left, [true, false, true, true]);
    }

    #[test]
    fn only_names_that_we_give_are_ever_removed() {
        let (_folder, cache) = cache(0);
        let ours = [format!("{}.ptx", key('0')), format!("{}.12-3.tmp", key('f'))];
        let others = [
            "notes.tmp".to_owned(),
            "kernel.ptx".to_owned(),
            format!("{}.tmp", key('a')),
            format!("{}.12-.tmp", key('a')),
            format!("{}.12-3.tmp.ptx", key('a')),
            format!("{}.ptx", key('A')),
            format!("x{}.ptx", key('a')),
            format!("{}.ptx", &key('a')[1..]),
        ];
        for name in ours.iter().chain(&others) {
            fs::write(cache.folder.join(name), [0; 99]).unwrap();
        }
        cache.shrink();
        let left =
            |names: &[String]| names.iter().filter(|name| cache.folder.join(name).exists()).count();
        assert_eq!((left(&ours), left(&others)), (0, others.len()));
    }

    #[test]
    fn keys_differ_by_where_parts_end() {
        let name = |parts: &[&str]| {
            let mut key = Key::new();
            parts.iter().for_each(|part| key.add(part));
            key.name()
        };
        assert_ne!(name(&["ab", "c"]), name(&["a", "bc"]));
        assert_eq!(name(&["ab"]).len(), 64);
    }
}
