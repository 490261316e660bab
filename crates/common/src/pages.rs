//! The size of a page of memory.

/// The bytes of a page. On x86-64 it is fixed, so the compiler may divide by it.
#[cfg(target_arch = "x86_64")]
#[must_use]
pub const fn page_size() -> usize {
    4096
}

/// The bytes of a page. The kernel chose it: on aarch64 4, 16 or 64 KiB.
#[cfg(not(target_arch = "x86_64"))]
#[must_use]
pub fn page_size() -> usize {
    use std::sync::OnceLock;

    use nix::unistd::{SysconfVar, sysconf};

    static SIZE: OnceLock<usize> = OnceLock::new();
    // Linux always answers. If it did not, the smallest page would be the safest guess.
    *SIZE.get_or_init(|| {
        let asked = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
        asked.and_then(|size| usize::try_from(size).ok()).unwrap_or(4096)
    })
}

#[cfg(test)]
mod tests {
    use nix::unistd::{SysconfVar, sysconf};

    use super::page_size;

    #[test]
    fn the_page_size_is_the_kernels() {
        let asked = sysconf(SysconfVar::PAGE_SIZE).unwrap().unwrap();
        assert_eq!(i64::try_from(page_size()).unwrap(), asked);
    }
}
