//! Images, recognised by their first bytes.
#![forbid(unsafe_code)]

use gpulend_common::image::{GPU, Image};

use crate::compiler::program::ImageKind;
use crate::error::CompileError;
use crate::signature::{
    Parameter, ParameterNames, Scan, Signature, Variable, kernel, variable_name,
};

/// Whether bytes are an image rather than source. Only the first bytes are checked, so the image may still be
/// invalid.
#[must_use]
pub fn is_image(bytes: &[u8]) -> bool {
    !matches!(Image::of(bytes), Image::FatbinWrapper | Image::Other)
}

/// The kind of an image.
pub(super) fn kind(bytes: &[u8]) -> Result<ImageKind, CompileError> {
    let refuse = |found: String| Err(CompileError::Image { found: found.into() });
    let unknown =
        || refuse(format!("it has {} bytes and begins with {}", bytes.len(), begin(bytes)));
    match Image::of(bytes) {
        Image::Cubin | Image::Fatbin => Ok(ImageKind::Binary),
        Image::OtherElf(Some(machine)) => {
            refuse(format!("it is an ELF file for machine {machine}, and a GPU's is {GPU}"))
        }
        Image::OtherElf(None) => {
            refuse(format!("it is an ELF file cut off after {} bytes", bytes.len()))
        }
        _ if bytes.is_empty() => refuse("it is empty".to_owned()),
        _ if without_end(bytes).contains(&0) => unknown(),
        Image::Ptx => Ok(ImageKind::Ptx),
        Image::FatbinWrapper | Image::Other => {
            if String::from_utf8_lossy(bytes).contains("__global__") {
                return refuse("it is CUDA C, which is compiled, not loaded".to_owned());
            }
            unknown()
        }
    }
}

/// PTX without the terminating NUL.
pub(super) fn without_end(bytes: &[u8]) -> &[u8] {
    let length = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    &bytes[..length]
}

/// The first bytes, for an error message.
fn begin(bytes: &[u8]) -> String {
    let first = &bytes[..bytes.len().min(16)];
    first.escape_ascii().to_string()
}

/// The kernels with the types in their symbols, and with parameter names from `names`.
pub(super) fn kernels(scan: &Scan, names: &ParameterNames) -> Vec<Signature> {
    let signature = |entry: &crate::signature::Entry| {
        let (name, types) = kernel(&entry.symbol);
        let parameter =
            |&(size, align): &(u32, u32)| Parameter { name: None, kind: None, size, align };
        let parameters: Vec<_> = entry.parameters.iter().map(parameter).collect();
        let mut found = Signature { name, symbol: entry.symbol.clone(), parameters };
        if let Some(types) = types {
            found.set_types(types);
        }
        if let Some(names) = names.of(&found.name, found.parameters.len()) {
            for (parameter, name) in found.parameters.iter_mut().zip(names) {
                parameter.name.clone_from(name);
            }
        }
        found
    };
    scan.entries.iter().map(signature).collect()
}

/// The variables without types. `all`: include those that only this module sees.
pub(super) fn variables(scan: &Scan, all: bool) -> Vec<Variable> {
    let listed = scan.variables.iter().filter(|found| all || found.linked);
    let variable = |found: &crate::signature::Stored| Variable {
        name: variable_name(&found.symbol),
        symbol: found.symbol.clone(),
        kind: None,
        size: found.size,
        constant: found.constant,
    };
    listed.map(variable).filter(|found| !is_librarys(&found.name)).collect()
}

/// Whether a variable comes from the toolkit's headers, some of which define hundreds.
fn is_librarys(name: &str) -> bool {
    const LIBRARIES: [&str; 7] =
        ["cooperative_groups", "cub", "cuda", "nv", "nvcuda", "std", "thrust"];
    let name = name.split('<').next().unwrap_or_default();
    // Names with two underscores are reserved for the compiler.
    let (first, rest) =
        name.split_once("::").map_or((name, None), |(first, rest)| (first, Some(rest)));
    name.starts_with("__") || (rest.is_some() && LIBRARIES.contains(&first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refusal(bytes: &[u8]) -> String {
        kind(bytes).unwrap_err().to_string()
    }

    #[test]
    fn images_are_told_apart_by_their_first_bytes() {
        assert_eq!(kind(b"/* .x */ // y\n\t.version 6.3\0\0").unwrap(), ImageKind::Ptx);
        assert_eq!(kind(&[0x50, 0xed, 0x55, 0xba, 1, 0]).unwrap(), ImageKind::Binary);
        let mut elf = [0_u8; 64];
        elf[..4].copy_from_slice(b"\x7fELF");
        elf[18] = 190;
        assert_eq!(kind(&elf).unwrap(), ImageKind::Binary);
        elf[18] = 62;
        assert!(refusal(&elf).contains("ELF file for machine 62"));
        assert!(refusal(&elf[..10]).contains("cut off"));
        assert!(refusal(b"").contains("empty"));
        assert!(refusal(b"__global__ void f() {}").contains("CUDA C"));
        assert!(refusal(b"PK\x03\x04 zip").contains("PK\\x03\\x04"));
        assert!(refusal(b".version 6.3 \0 .target").contains("begins with"));
        assert!(refusal(b"// .version 6.3").contains("begins with"));
    }

    #[test]
    fn variables_of_libraries_are_not_listed() {
        for theirs in [
            "cuda::std::__4::integral_constant<bool, false>::value",
            "__cudart_i2opi_f",
            "thrust::seq",
        ] {
            assert!(is_librarys(theirs), "{theirs}");
        }
        for ours in ["counter", "cuda", "mine::cuda::x", "table<std::pair<int, int>>"] {
            assert!(!is_librarys(ours), "{ours}");
        }
    }

    proptest! {
        #[test]
        #[cfg_attr(miri, ignore = "text only, and many cases")]
        fn any_bytes_are_an_image_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = kind(&bytes);
        }
    }
}
