//! Kinds of images, recognised by their first bytes.

/// The first bytes of an ELF file.
pub const ELF: &[u8] = b"\x7fELF";
/// The machine number of a GPU in an ELF header: `EM_CUDA`.
pub const GPU: u16 = 190;
const FATBIN: &[u8] = &0xBA55_ED50_u32.to_le_bytes();
/// The first bytes of the struct in which a program keeps the address of its fatbin.
const FATBIN_WRAPPER: &[u8] = &0x4662_43B1_u32.to_le_bytes();

/// The kind of an image by its first bytes. The rest may still be invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Image {
    /// PTX text.
    Ptx,
    /// Machine code of a GPU: a cubin.
    Cubin,
    /// Several images in one.
    Fatbin,
    /// A program's struct with the address of a fatbin.
    FatbinWrapper,
    /// An ELF file for this machine, which is not a GPU. `None` if the header is cut off.
    OtherElf(Option<u16>),
    /// None of them.
    Other,
}

impl Image {
    /// Recognises an image.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        if bytes.starts_with(ELF) {
            // This part of the header is the same for all machines.
            let machine = bytes.get(18..20).and_then(|bytes| bytes.try_into().ok());
            return match machine.map(u16::from_le_bytes) {
                Some(GPU) => Self::Cubin,
                other => Self::OtherElf(other),
            };
        }
        if bytes.starts_with(FATBIN) {
            return Self::Fatbin;
        }
        if bytes.starts_with(FATBIN_WRAPPER) {
            return Self::FatbinWrapper;
        }
        if begins_as_ptx(bytes) { Self::Ptx } else { Self::Other }
    }
}

/// Whether the first word outside of comments is `.version`.
fn begins_as_ptx(mut text: &[u8]) -> bool {
    loop {
        text = text.trim_ascii_start();
        let end: &[u8] = match text {
            [b'/', b'/', ..] => b"\n",
            [b'/', b'*', ..] => b"*/",
            _ => return text.starts_with(b".version"),
        };
        match text.windows(end.len()).skip(2).position(|part| part == end) {
            Some(at) => text = &text[at + 2 + end.len()..],
            None => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_told_apart_by_their_first_bytes() {
        assert_eq!(Image::of(b"/* .x */ // y\n\t.version 6.3\0\0"), Image::Ptx);
        assert_eq!(Image::of(&[0x50, 0xed, 0x55, 0xba, 1, 0]), Image::Fatbin);
        assert_eq!(Image::of(&[0xb1, 0x43, 0x62, 0x46]), Image::FatbinWrapper);
        let mut elf = [0_u8; 64];
        elf[..4].copy_from_slice(ELF);
        elf[18] = 190;
        assert_eq!(Image::of(&elf), Image::Cubin);
        elf[18] = 62;
        assert_eq!(Image::of(&elf), Image::OtherElf(Some(62)));
        assert_eq!(Image::of(&elf[..10]), Image::OtherElf(None));
        let others =
            ["", "__global__ void f() {}", "PK\x03\x04 zip", "// .version 6.3", "/* .version 6.3"];
        for other in others {
            assert_eq!(Image::of(other.as_bytes()), Image::Other, "{other}");
        }
    }
}
