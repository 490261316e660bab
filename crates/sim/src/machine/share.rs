//! What processes tell each other of shared memory: handles, the table of exports, and how it is found.
//!
//! A handle names a process, a file descriptor in it, and a row of the table that this descriptor is of. An importer opens
//! the descriptor as `/proc/<pid>/fd/<n>`, which the kernel allows to processes of the same user. So the exporter needs no
//! thread that answers, nothing is left in a file system, and what an importer has opened outlives the exporter. A
//! socket would need both. The time at which the process started tells a process from an earlier one with the same
//! number, and 16 random bytes tell an export from all others.
//!
//! An importer holds a lock on its row. The kernel ends such a lock with the last descriptor, also after a SIGKILL: so
//! an exporter always knows whether its memory is in use elsewhere.
#![forbid(unsafe_code)]

use std::ffi::CStr;
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::unistd::geteuid;

/// The size of a handle, as `CUipcMemHandle` and `CUmemPoolPtrExportData` have it.
pub const HANDLE: usize = 64;
/// The size of a row, and of the head of the table.
const ROW: u64 = 64;
/// The most exports of a process.
const MOST_ROWS: u64 = 1 << 24;
/// The names of the files: memory, the table, and a pool.
const MEMORY: &str = "gpulend-simulated";
const TABLE: &CStr = c"gpulend-simulated-exports";
const POOL: &CStr = c"gpulend-simulated-pool";

/// The first bytes of a handle.
const MAGIC: u64 = u64::from_le_bytes(*b"gpusim\x01m");

/// A process, told from others that had or will have its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// Its number.
    pub id: u64,
    /// When it started, in the kernel's ticks.
    pub started: u64,
}

impl Process {
    /// Returns this process.
    #[must_use]
    pub fn own() -> Option<Self> {
        let id = u64::from(std::process::id());
        Some(Self { id, started: started(id)? })
    }

    /// Returns whether it still runs.
    #[must_use]
    pub fn is_there(&self) -> bool {
        started(self.id) == Some(self.started)
    }

    /// Opens one of its files of this name.
    fn open(&self, descriptor: u64, name: &str) -> Option<File> {
        let path = format!("/proc/{}/fd/{descriptor}", self.id);
        let file = OpenOptions::new().read(true).write(true).open(&path);
        // The name is that of what was opened: the process may have put another file there.
        file.ok().filter(|file| self.is_there() && is_memory_file(file.as_fd(), name))
    }
}

/// Returns when a process started.
fn started(id: u64) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The second field is the program's name in brackets, and may contain anything.
    let (_, rest) = text.rsplit_once(')')?;
    rest.split_whitespace().nth(19)?.parse().ok()
}

/// Returns whether a file is an in-memory file of this name and user, whose size is sealed.
#[must_use]
pub fn is_memory_file(file: BorrowedFd<'_>, name: &str) -> bool {
    let seals = fcntl(file, FcntlArg::F_GET_SEALS).map(SealFlag::from_bits_truncate);
    let link = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let own = file
        .try_clone_to_owned()
        .and_then(|file| File::from(file).metadata())
        .is_ok_and(|data| data.uid() == geteuid().as_raw());
    own && seals.is_ok_and(|seals| seals.contains(SealFlag::F_SEAL_SHRINK))
        && link.is_ok_and(|link| link.to_str() == Some(&format!("/memfd:{name} (deleted)")))
}

/// Returns bytes that nobody can guess.
pub fn nonce() -> Option<[u64; 2]> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom").ok()?.read_exact(&mut bytes).ok()?;
    let half = |at: usize| u64::from_ne_bytes(std::array::from_fn(|index| bytes[at + index]));
    Some([half(0), half(8)])
}

type Words = [u64; 8];

fn to_bytes(words: Words) -> [u8; HANDLE] {
    let mut bytes = [0; HANDLE];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

fn to_words(bytes: &[u8; HANDLE]) -> Words {
    std::array::from_fn(|index| {
        u64::from_le_bytes(std::array::from_fn(|byte| bytes[index * 8 + byte]))
    })
}

/// The name of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Handle {
    /// The exporter.
    pub process: Process,
    /// Its descriptor of the table.
    pub table: u64,
    /// The row.
    pub row: u64,
    /// The random bytes of the row.
    pub nonce: [u64; 2],
}

impl Handle {
    /// Returns it as bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; HANDLE] {
        let Process { id, started } = self.process;
        to_bytes([MAGIC, id, started, self.table, self.row, self.nonce[0], self.nonce[1], 0])
    }

    /// Reads a handle; `None` if the bytes are none.
    #[must_use]
    pub fn of_bytes(bytes: &[u8; HANDLE]) -> Option<Self> {
        let [magic, id, started, table, row, first, second, rest] = to_words(bytes);
        let process = Process { id, started };
        (magic == MAGIC && rest == 0 && row < MOST_ROWS).then_some(Self {
            process,
            table,
            row,
            nonce: [first, second],
        })
    }

    /// Opens the table of the exporter.
    #[must_use]
    pub fn open_table(&self) -> Option<Table> {
        let file = self.process.open(self.table, TABLE.to_str().ok()?)?;
        Some(Table { file })
    }

    /// Opens a file of the exporter's memory.
    #[must_use]
    pub fn open_memory(&self, descriptor: u64) -> Option<OwnedFd> {
        self.process.open(descriptor, MEMORY).map(OwnedFd::from)
    }
}

/// What the descriptor of a pool says: the exporter, its table and the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// The exporter.
    pub process: Process,
    /// Its descriptor of the table.
    pub table: u64,
    /// Its number of the pool.
    pub pool: u64,
    /// The device.
    pub device: u64,
}

impl Passage {
    /// Makes the file that stands for a pool.
    #[must_use]
    pub fn file(&self) -> Option<OwnedFd> {
        let Process { id, started } = self.process;
        let words = [MAGIC, id, started, self.table, self.pool, self.device, 0, 0];
        let file = File::from(crate::bytes::memory_file(POOL, HANDLE).ok()?);
        file.write_all_at(&to_bytes(words), 0).ok()?;
        Some(file.into())
    }

    /// Reads the file of a pool; `None` if it is no such file.
    #[must_use]
    pub fn of_file(file: BorrowedFd<'_>) -> Option<Self> {
        is_memory_file(file, POOL.to_str().ok()?).then_some(())?;
        let mut bytes = [0; HANDLE];
        let file = File::from(file.try_clone_to_owned().ok()?);
        file.read_exact_at(&mut bytes, 0).ok()?;
        let [magic, id, started, table, pool, device, ..] = to_words(&bytes);
        let process = Process { id, started };
        (magic == MAGIC).then_some(Self { process, table, pool, device })
    }
}

/// A row of a table: memory that other processes may open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Random bytes.
    pub nonce: [u64; 2],
    /// Whether it may still be opened.
    pub live: bool,
    /// The device.
    pub device: u64,
    /// The exporter's descriptor of the memory.
    pub file: u64,
    /// Where in that file it begins.
    pub offset: u64,
    /// Its size.
    pub bytes: u64,
    /// The exporter's pool, or 0; [`EVENT`] for an event.
    pub pool: u64,
}

/// What is in the place of a pool in the row of an event.
pub const EVENT: u64 = u64::MAX;

/// A table of exports.
#[derive(Debug)]
pub struct Table {
    file: File,
}

impl Table {
    /// Makes the table of this process. Rows that were never written take no memory.
    ///
    /// # Errors
    ///
    /// The kernel's error.
    pub fn new() -> nix::Result<Self> {
        let bytes = usize::try_from(ROW * MOST_ROWS).map_err(|_| nix::Error::EOVERFLOW)?;
        Ok(Self { file: crate::bytes::memory_file(TABLE, bytes)?.into() })
    }

    /// Returns its descriptor.
    #[must_use]
    pub fn descriptor(&self) -> u64 {
        u64::try_from(self.file.as_raw_fd()).unwrap_or(u64::MAX)
    }

    /// Reads a row.
    #[must_use]
    pub fn read(&self, row: u64) -> Option<Row> {
        let mut bytes = [0; HANDLE];
        self.file.read_exact_at(&mut bytes, row.checked_mul(ROW)?).ok()?;
        let [first, second, live, device, file, offset, bytes, pool] = to_words(&bytes);
        Some(Row { nonce: [first, second], live: live == 1, device, file, offset, bytes, pool })
    }

    /// Writes a row.
    #[must_use]
    pub fn write(&self, number: u64, row: &Row) -> bool {
        let [first, second] = row.nonce;
        let live = u64::from(row.live);
        let words = [first, second, live, row.device, row.file, row.offset, row.bytes, row.pool];
        number < MOST_ROWS && self.file.write_all_at(&to_bytes(words), number * ROW).is_ok()
    }

    /// Holds a row, until the table is closed or the process ends.
    #[must_use]
    pub fn hold(&self, row: u64) -> bool {
        let lock = lock_of(row, libc::F_RDLCK);
        fcntl(&self.file, FcntlArg::F_OFD_SETLK(&lock)).is_ok()
    }

    /// Ends the hold of a row.
    pub fn let_go(&self, row: u64) {
        let lock = lock_of(row, libc::F_UNLCK);
        // Closing the table ends it in any case.
        let _ = fcntl(&self.file, FcntlArg::F_OFD_SETLK(&lock));
    }

    /// Returns whether another process holds a row.
    #[must_use]
    pub fn is_held(&self, row: u64) -> bool {
        let mut lock = lock_of(row, libc::F_WRLCK);
        let asked = fcntl(&self.file, FcntlArg::F_OFD_GETLK(&mut lock));
        asked.is_ok() && i32::from(lock.l_type) != libc::F_UNLCK
    }
}

/// A lock on the first byte of a row.
fn lock_of(row: u64, kind: libc::c_int) -> libc::flock {
    libc::flock {
        l_type: libc::c_short::try_from(kind).unwrap_or(0),
        l_whence: 0,
        l_start: i64::try_from(row * ROW).unwrap_or(i64::MAX - 1),
        l_len: 1,
        l_pid: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle(table: &Table) -> Handle {
        let process = Process::own().unwrap();
        Handle { process, table: table.descriptor(), row: 3, nonce: nonce().unwrap() }
    }

    #[test]
    fn a_handle_is_read_as_it_was_written_and_nothing_else_is_one() {
        let table = Table::new().unwrap();
        let handle = handle(&table);
        let bytes = handle.to_bytes();
        assert_eq!(Handle::of_bytes(&bytes), Some(handle));
        assert_eq!(Handle::of_bytes(&[0; HANDLE]), None);
        assert_eq!(Handle::of_bytes(&[0xFF; HANDLE]), None);
        for byte in [0, 7, 63] {
            let mut wrong = bytes;
            wrong[byte] ^= 1;
            assert_eq!(Handle::of_bytes(&wrong), None, "byte {byte}");
        }
    }

    #[test]
    fn only_a_table_of_a_living_process_is_opened() {
        let table = Table::new().unwrap();
        let handle = handle(&table);
        assert!(handle.open_table().is_some());
        let earlier = Process { started: handle.process.started - 1, ..handle.process };
        assert!(Handle { process: earlier, ..handle }.open_table().is_none());
        // Standard output, the null device, a file of memory, and no file at all.
        let null = File::open("/dev/null").unwrap();
        let memory = crate::bytes::memory_file(c"gpulend-simulated", 4096).unwrap();
        for descriptor in [1, null.as_raw_fd(), memory.as_raw_fd(), 9999, -1] {
            let table = u64::try_from(descriptor).unwrap_or(u64::MAX);
            assert!(Handle { table, ..handle }.open_table().is_none(), "{descriptor}");
        }
    }

    #[test]
    fn a_row_is_held_until_its_holder_closes_the_table() {
        let table = Table::new().unwrap();
        let row =
            Row { nonce: [1, 2], live: true, device: 0, file: 3, offset: 4, bytes: 5, pool: 6 };
        assert!(
            table.write(3, &row) && table.read(3) == Some(row) && table.read(MOST_ROWS).is_none()
        );
        let other = handle(&table).open_table().unwrap();
        assert!(other.hold(3) && table.is_held(3) && !table.is_held(2) && !table.is_held(4));
        // The holder itself is not another.
        assert!(!other.is_held(3));
        assert!(other.hold(4) && table.is_held(4));
        other.let_go(4);
        assert!(!table.is_held(4));
        drop(other);
        assert!(!table.is_held(3));
    }
}
