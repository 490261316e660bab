//! The release of PTX that a text says it needs.
#![forbid(unsafe_code)]

/// What clang writes, by the feature that it is given.
const WRITTEN: &str = ".version 6.3\n";
/// Instructions that came later, which sources and headers write themselves: those of CUB, and our `mma.h`. The latest first.
const LATER: [(&str, &str); 2] = [("bmsk.", ".version 7.6\n"), ("mma.sync.", ".version 6.5\n")];

/// Returns clang's PTX with the release that has all of its instructions: a real driver refuses one that came later, and
/// an older driver refuses every PTX of a later release.
#[must_use]
pub fn with_release(ptx: String) -> String {
    match LATER.iter().find(|(instruction, _)| ptx.contains(instruction)) {
        Some((_, release)) => ptx.replacen(WRITTEN, release, 1),
        None => ptx,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_instruction_decides() {
        let ptx = |release: &str, code: &str| {
            format!("// of clang\n.version {release}\n.target sm_75\n{code}")
        };
        for (code, release) in [
            ("add.s32 %r1, %r2, %r3;", "6.3"),
            ("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {}", "6.5"),
            ("mma.sync.aligned; bmsk.clamp.b32 %r1, %r2, 3;", "7.6"),
        ] {
            assert_eq!(with_release(ptx("6.3", code)), ptx(release, code));
        }
    }
}
