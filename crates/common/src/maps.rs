//! The kernel's list of mappings of this process.

use std::fs;
use std::path::Path;

/// The prefix of the file names of CUDA drivers.
const DRIVER: &str = "libcuda.so";

/// One line of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping<'a> {
    /// The first address.
    pub start: u64,
    /// The address after the last.
    pub end: u64,
    /// Whether the process may read it.
    pub readable: bool,
    /// Whether the process may write it.
    pub writable: bool,
    /// The path of a file, a kernel's name such as `[heap]`, or empty.
    pub name: &'a str,
}

impl<'a> Mapping<'a> {
    /// Whether it contains an address.
    #[must_use]
    pub fn holds(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// The file, if it maps one.
    #[must_use]
    pub fn path(&self) -> Option<&'a Path> {
        self.name.starts_with('/').then(|| Path::new(self.name))
    }

    /// Whether the file is a CUDA driver by its name: `libcuda.so.1`, `libcuda.so.580.65.06`.
    #[must_use]
    pub fn is_driver(&self) -> bool {
        let name = self.path().and_then(Path::file_name).and_then(|name| name.to_str());
        let rest = name.and_then(|name| name.strip_prefix(DRIVER));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }
}

/// Reads the list, for [`parse`]. `None` without `/proc`.
#[must_use]
pub fn read() -> Option<String> {
    // A path need not be UTF-8; the others must still be found.
    fs::read("/proc/self/maps").ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// The mappings of a list, ascending.
pub fn parse(list: &str) -> impl Iterator<Item = Mapping<'_>> {
    list.lines().filter_map(parse_line)
}

fn parse_line(line: &str) -> Option<Mapping<'_>> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    // Access, offset, device and inode; then the name, which may contain spaces.
    let mut fields = rest.splitn(5, ' ');
    let mut access = fields.next()?.chars();
    Some(Mapping {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        readable: access.next()? == 'r',
        writable: access.next()? == 'w',
        name: fields.nth(3).unwrap_or("").trim_start(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_whole_and_only_paths_are_files() {
        let list = "7f00-7f10 r-xp 00000000 fe:00 53 /opt/a b/libcuda.so.1\n\
                    7f10-7f20 rw-p 00000000 00:00 0 \n\
                    7f20-7f30 ---p 00000000 00:00 0                  [heap]\n\
                    7f30-7f40 r--p 00000000 00:00 0                  [anon:/not/a/file]\n\
                    no mapping at all\n";
        let found: Vec<_> = parse(list).collect();
        let names: Vec<_> = found.iter().map(|mapping| mapping.name).collect();
        assert_eq!(names, ["/opt/a b/libcuda.so.1", "", "[heap]", "[anon:/not/a/file]"]);
        let files: Vec<_> = found.iter().filter_map(Mapping::path).collect();
        assert_eq!(files, [Path::new("/opt/a b/libcuda.so.1")]);
        let access: Vec<_> = found.iter().map(|one| (one.readable, one.writable)).collect();
        assert_eq!(access, [(true, false), (true, true), (false, false), (true, false)]);
        assert!(found[1].holds(0x7f10) && found[1].holds(0x7f1f) && !found[1].holds(0x7f20));
    }

    #[test]
    fn a_driver_is_known_by_its_name() {
        let is_driver = |name: &str| {
            let line = format!("7f00-7f10 r-xp 00000000 fe:00 53    /usr/lib/{name}\n");
            parse(&line).all(|mapping| mapping.is_driver())
        };
        for name in ["libcuda.so", "libcuda.so.1", "libcuda.so.580.65.06", "libcuda.so.1 (deleted)"]
        {
            assert!(is_driver(name), "{name}");
        }
        for name in ["libcudart.so.13", "libcuda.sofa", "notlibcuda.so.1", "libcudadebugger.so.1"] {
            assert!(!is_driver(name), "{name}");
        }
    }

    #[test]
    fn the_list_of_this_process_has_its_own_memory() {
        let here = Box::new(7_u8);
        let address = std::ptr::from_ref(&*here).addr() as u64;
        let list = read().unwrap();
        let found = parse(&list).find(|mapping| mapping.holds(address)).unwrap();
        assert!(found.readable && found.writable);
    }
}
