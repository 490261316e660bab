//! Element types: DLPack's code and bits, and their names.
#![forbid(unsafe_code)]

use std::fmt;
use std::str::FromStr;

use crate::abi::dlpack::{
    self, CODE_BCOMPLEX, CODE_BFLOAT, CODE_BOOL, CODE_COMPLEX, CODE_FLOAT, CODE_FLOAT4_E2M1FN,
    CODE_FLOAT6_E2M3FN, CODE_FLOAT6_E3M2FN, CODE_FLOAT8_FIRST, CODE_HANDLE, CODE_INT, CODE_UINT,
};
use crate::error::LayoutError;

/// One element type: DLPack code, bits, and whether sub-byte elements are padded.
///
/// ```
/// use gpulend::Dtype;
///
/// let half: Dtype = "bfloat16".parse()?;
/// assert_eq!((half.code(), half.bits(), half.itemsize()), (4, 16, 2));
/// assert_eq!("<f4".parse::<Dtype>()?.name(), "float32");
/// # Ok::<(), gpulend::LayoutError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dtype {
    code: u8,
    bits: u8,
    padded: bool,
}

/// Code, bits and name of every known type.
///
/// Names are NumPy's and ml_dtypes'. Two have none there: `handle64` is
/// DLPack's opaque handle, `bcomplex32` its pair of bfloat16.
const TYPES: [(u8, u8, &str); 33] = [
    (CODE_INT, 2, "int2"),
    (CODE_INT, 4, "int4"),
    (CODE_INT, 8, "int8"),
    (CODE_INT, 16, "int16"),
    (CODE_INT, 32, "int32"),
    (CODE_INT, 64, "int64"),
    (CODE_UINT, 2, "uint2"),
    (CODE_UINT, 4, "uint4"),
    (CODE_UINT, 8, "uint8"),
    (CODE_UINT, 16, "uint16"),
    (CODE_UINT, 32, "uint32"),
    (CODE_UINT, 64, "uint64"),
    (CODE_FLOAT, 16, "float16"),
    (CODE_FLOAT, 32, "float32"),
    (CODE_FLOAT, 64, "float64"),
    (CODE_HANDLE, 64, "handle64"),
    (CODE_BFLOAT, 16, "bfloat16"),
    (CODE_COMPLEX, 32, "complex32"),
    (CODE_COMPLEX, 64, "complex64"),
    (CODE_COMPLEX, 128, "complex128"),
    (CODE_BOOL, 8, "bool"),
    (CODE_FLOAT8_FIRST, 8, "float8_e3m4"),
    (CODE_FLOAT8_FIRST + 1, 8, "float8_e4m3"),
    (CODE_FLOAT8_FIRST + 2, 8, "float8_e4m3b11fnuz"),
    (CODE_FLOAT8_FIRST + 3, 8, "float8_e4m3fn"),
    (CODE_FLOAT8_FIRST + 4, 8, "float8_e4m3fnuz"),
    (CODE_FLOAT8_FIRST + 5, 8, "float8_e5m2"),
    (CODE_FLOAT8_FIRST + 6, 8, "float8_e5m2fnuz"),
    (CODE_FLOAT8_FIRST + 7, 8, "float8_e8m0fnu"),
    (CODE_FLOAT6_E2M3FN, 6, "float6_e2m3fn"),
    (CODE_FLOAT6_E3M2FN, 6, "float6_e3m2fn"),
    (CODE_FLOAT4_E2M1FN, 4, "float4_e2m1fn"),
    (CODE_BCOMPLEX, 32, "bcomplex32"),
];

impl Dtype {
    /// `int8`.
    pub const INT8: Self = Self::whole(CODE_INT, 8);
    /// `int16`.
    pub const INT16: Self = Self::whole(CODE_INT, 16);
    /// `int32`.
    pub const INT32: Self = Self::whole(CODE_INT, 32);
    /// `int64`.
    pub const INT64: Self = Self::whole(CODE_INT, 64);
    /// `uint8`.
    pub const UINT8: Self = Self::whole(CODE_UINT, 8);
    /// `uint16`.
    pub const UINT16: Self = Self::whole(CODE_UINT, 16);
    /// `uint32`.
    pub const UINT32: Self = Self::whole(CODE_UINT, 32);
    /// `uint64`.
    pub const UINT64: Self = Self::whole(CODE_UINT, 64);
    /// `float16`.
    pub const FLOAT16: Self = Self::whole(CODE_FLOAT, 16);
    /// `bfloat16`.
    pub const BFLOAT16: Self = Self::whole(CODE_BFLOAT, 16);
    /// `float32`.
    pub const FLOAT32: Self = Self::whole(CODE_FLOAT, 32);
    /// `float64`.
    pub const FLOAT64: Self = Self::whole(CODE_FLOAT, 64);
    /// `complex64`.
    pub const COMPLEX64: Self = Self::whole(CODE_COMPLEX, 64);
    /// `complex128`.
    pub const COMPLEX128: Self = Self::whole(CODE_COMPLEX, 128);

    const fn whole(code: u8, bits: u8) -> Self {
        Self { code, bits, padded: false }
    }

    /// Every type, by name, sub-byte types packed.
    pub fn all() -> impl Iterator<Item = Self> {
        TYPES.iter().map(|&(code, bits, _)| Self { code, bits, padded: false })
    }

    /// A type by DLPack's numbers.
    ///
    /// `padded` matters only for types of less than a byte, and is ignored for others.
    ///
    /// # Errors
    ///
    /// If code and bits name no type, or the elements are vectors.
    pub fn from_dlpack(dtype: dlpack::DataType, padded: bool) -> Result<Self, LayoutError> {
        let dlpack::DataType { code, bits, lanes } = dtype;
        let known = match code {
            CODE_INT | CODE_UINT => matches!(bits, 2 | 4 | 8 | 16 | 32 | 64),
            CODE_FLOAT => matches!(bits, 16 | 32 | 64),
            CODE_COMPLEX => matches!(bits, 32 | 64 | 128),
            CODE_HANDLE => bits == 64,
            CODE_BFLOAT => bits == 16,
            CODE_BCOMPLEX => bits == 32,
            CODE_BOOL => bits == 8,
            CODE_FLOAT6_E2M3FN | CODE_FLOAT6_E3M2FN => bits == 6,
            CODE_FLOAT4_E2M1FN => bits == 4,
            CODE_FLOAT8_FIRST..CODE_FLOAT6_E2M3FN => bits == 8,
            _ => false,
        };
        if !known {
            return Err(LayoutError::UnknownType { code, bits });
        }
        if lanes != 1 {
            return Err(LayoutError::Lanes { lanes });
        }
        Ok(Self { code, bits, padded: padded && bits < 8 })
    }

    /// The type as DLPack writes it.
    #[must_use]
    pub const fn to_dlpack(self) -> dlpack::DataType {
        dlpack::DataType { code: self.code, bits: self.bits, lanes: 1 }
    }

    /// The same type with each sub-byte element in a byte of its own.
    #[must_use]
    pub const fn padded(self) -> Self {
        Self { padded: self.bits < 8, ..self }
    }

    /// DLPack's type code.
    #[must_use]
    pub const fn code(self) -> u8 {
        self.code
    }

    /// Bits that mean something in one element.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.bits
    }

    /// Whether each sub-byte element fills a byte of its own.
    #[must_use]
    pub const fn is_padded(self) -> bool {
        self.padded
    }

    /// Whether elements share bytes.
    #[must_use]
    pub const fn is_packed(self) -> bool {
        self.bits < 8 && !self.padded
    }

    /// Bits from one element to the next in compact memory.
    #[must_use]
    pub const fn storage_bits(self) -> u8 {
        if self.padded { 8 } else { self.bits }
    }

    /// Bytes of one element; 1 for packed types, of which one byte holds parts of several.
    #[must_use]
    pub const fn itemsize(self) -> u8 {
        self.storage_bits().div_ceil(8)
    }

    /// The alignment of an address, as C compilers on this platform require it.
    #[must_use]
    pub const fn alignment(self) -> u8 {
        match self.code {
            CODE_COMPLEX | CODE_BCOMPLEX => self.itemsize() / 2,
            _ => self.itemsize(),
        }
    }

    /// Whether the type can have a gradient, and so a `requires_grad` mark.
    #[must_use]
    pub const fn is_differentiable(self) -> bool {
        !matches!(self.code, CODE_INT | CODE_UINT | CODE_HANDLE | CODE_BOOL)
    }

    /// Whether the type is complex.
    #[must_use]
    pub const fn is_complex(self) -> bool {
        matches!(self.code, CODE_COMPLEX | CODE_BCOMPLEX)
    }

    /// The name, as NumPy and ml_dtypes spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        TYPES
            .iter()
            .find(|&&(code, bits, _)| (code, bits) == (self.code, self.bits))
            .map_or("unknown", |&(_, _, name)| name)
    }

    /// The NumPy typestr, if NumPy has the type.
    #[must_use]
    pub fn typestr(self) -> Option<&'static str> {
        Some(match (self.code, self.bits) {
            (CODE_BOOL, 8) => "|b1",
            (CODE_INT, 8) => "|i1",
            (CODE_INT, 16) => "<i2",
            (CODE_INT, 32) => "<i4",
            (CODE_INT, 64) => "<i8",
            (CODE_UINT, 8) => "|u1",
            (CODE_UINT, 16) => "<u2",
            (CODE_UINT, 32) => "<u4",
            (CODE_UINT, 64) => "<u8",
            (CODE_FLOAT, 16) => "<f2",
            (CODE_FLOAT, 32) => "<f4",
            (CODE_FLOAT, 64) => "<f8",
            (CODE_COMPLEX, 64) => "<c8",
            (CODE_COMPLEX, 128) => "<c16",
            _ => return None,
        })
    }

    /// The `struct` format character, if the buffer protocol has the type.
    #[must_use]
    pub fn buffer_format(self) -> Option<&'static std::ffi::CStr> {
        Some(match (self.code, self.bits) {
            (CODE_BOOL, 8) => c"?",
            (CODE_INT, 8) => c"b",
            (CODE_INT, 16) => c"h",
            (CODE_INT, 32) => c"i",
            (CODE_INT, 64) => c"q",
            (CODE_UINT, 8) => c"B",
            (CODE_UINT, 16) => c"H",
            (CODE_UINT, 32) => c"I",
            (CODE_UINT, 64) => c"Q",
            (CODE_FLOAT, 16) => c"e",
            (CODE_FLOAT, 32) => c"f",
            (CODE_FLOAT, 64) => c"d",
            (CODE_COMPLEX, 64) => c"Zf",
            (CODE_COMPLEX, 128) => c"Zd",
            _ => return None,
        })
    }

    /// Reads a buffer-protocol format: one element type, native or little-endian.
    ///
    /// The item size decides the width of `l`: ctypes writes `<l` for 8 bytes,
    /// the `struct` module for 4.
    ///
    /// # Errors
    ///
    /// If the format is a struct, big-endian, of a type without a code, or of another size.
    pub fn from_buffer_format(format: &str, itemsize: usize) -> Result<Self, LayoutError> {
        let unknown = || LayoutError::UnknownName { found: format.into() };
        let letter = match format.as_bytes() {
            [b'>' | b'!', _, _, ..] => return Err(LayoutError::BigEndian { found: format.into() }),
            [b'>' | b'!', ..] if itemsize > 1 => {
                return Err(LayoutError::BigEndian { found: format.into() });
            }
            [b'<' | b'=' | b'@' | b'>' | b'!', ..] => &format[1..],
            _ => format,
        };
        let long = if itemsize == 4 { 32 } else { 64 };
        let (code, bits) = match letter {
            "?" => (CODE_BOOL, 8),
            "b" => (CODE_INT, 8),
            "h" => (CODE_INT, 16),
            "i" => (CODE_INT, 32),
            "l" => (CODE_INT, long),
            "q" | "n" => (CODE_INT, 64),
            "B" | "c" => (CODE_UINT, 8),
            "H" => (CODE_UINT, 16),
            "I" => (CODE_UINT, 32),
            "L" => (CODE_UINT, long),
            "Q" | "N" => (CODE_UINT, 64),
            "e" => (CODE_FLOAT, 16),
            "f" => (CODE_FLOAT, 32),
            "d" => (CODE_FLOAT, 64),
            "Zf" | "F" => (CODE_COMPLEX, 64),
            "Zd" | "D" => (CODE_COMPLEX, 128),
            _ => return Err(unknown()),
        };
        let dtype = Self { code, bits, padded: false };
        if usize::from(dtype.itemsize()) == itemsize { Ok(dtype) } else { Err(unknown()) }
    }

    /// An unsigned type of the same width, for protocols that have no name for the type.
    #[must_use]
    pub const fn bits_as(self) -> &'static str {
        match self.itemsize() {
            1 => "uint8",
            2 => "uint16",
            4 => "uint32",
            _ => "uint64",
        }
    }

    /// Reads a NumPy typestr such as `<f4`.
    fn from_typestr(text: &str) -> Result<Self, LayoutError> {
        let unknown = || LayoutError::UnknownName { found: text.into() };
        // `f4` means `<f4`: NumPy's native order, which is little-endian here.
        let ordered = text.starts_with(['<', '>', '|', '=']);
        let (order, rest) = if ordered { text.split_at(1) } else { ("=", text) };
        let (kind, bytes) = rest.split_at_checked(1).ok_or_else(unknown)?;
        let bytes: u8 = bytes.parse().map_err(|_| unknown())?;
        let bits = bytes.checked_mul(8).ok_or_else(unknown)?;
        if order == ">" && bytes > 1 {
            return Err(LayoutError::BigEndian { found: text.into() });
        }
        let code = match kind {
            "b" => CODE_BOOL,
            "i" => CODE_INT,
            "u" => CODE_UINT,
            "f" => CODE_FLOAT,
            "c" => CODE_COMPLEX,
            _ => return Err(unknown()),
        };
        Self::from_dlpack(dlpack::DataType { code, bits, lanes: 1 }, false).map_err(|_| unknown())
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl FromStr for Dtype {
    type Err = LayoutError;

    /// Reads a name of NumPy, ml_dtypes, torch (`torch.float32`) or ctypes (`c_float`), or a typestr.
    ///
    /// `float`, `int` and `long` alone are refused: they have different widths in NumPy and torch.
    fn from_str(text: &str) -> Result<Self, LayoutError> {
        let name = text.strip_prefix("torch.").unwrap_or(text);
        let name = match name {
            "half" => "float16",
            "single" | "c_float" => "float32",
            "double" | "c_double" => "float64",
            "c_float_complex" => "complex64",
            "c_double_complex" => "complex128",
            "bool_" | "c_bool" => "bool",
            "c_byte" | "c_int8" => "int8",
            "c_ubyte" | "c_uint8" | "c_char" => "uint8",
            "c_short" | "c_int16" => "int16",
            "c_ushort" | "c_uint16" => "uint16",
            "c_int" | "c_int32" => "int32",
            "c_uint" | "c_uint32" => "uint32",
            // Linux x86-64: long is 64 bits wide.
            "c_long" | "c_longlong" | "c_int64" | "c_ssize_t" => "int64",
            "c_ulong" | "c_ulonglong" | "c_uint64" | "c_size_t" => "uint64",
            "c_void_p" => "handle64",
            name => name,
        };
        for &(code, bits, known) in TYPES.iter() {
            if known == name {
                return Ok(Self { code, bits, padded: false });
            }
        }
        Self::from_typestr(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_comes_back_by_name_and_by_code() {
        for dtype in Dtype::all() {
            assert_eq!(dtype.name().parse(), Ok(dtype));
            assert_eq!(Dtype::from_dlpack(dtype.to_dlpack(), false), Ok(dtype));
            if let Some(typestr) = dtype.typestr() {
                assert_eq!(typestr.parse(), Ok(dtype));
            }
            if let Some(format) = dtype.buffer_format() {
                assert_eq!(
                    Dtype::from_buffer_format(
                        format.to_str().unwrap(),
                        usize::from(dtype.itemsize())
                    ),
                    Ok(dtype)
                );
            }
        }
    }

    #[test]
    fn every_code_to_18_is_listed() {
        for code in 0..=18 {
            assert!(Dtype::all().any(|dtype| dtype.code() == code), "{code}");
        }
    }

    #[test]
    fn every_other_number_is_refused() {
        let known: Vec<_> = Dtype::all().map(|dtype| (dtype.code(), dtype.bits())).collect();
        for code in 0..=u8::MAX {
            for bits in 0..=u8::MAX {
                let found = Dtype::from_dlpack(dlpack::DataType { code, bits, lanes: 1 }, false);
                assert_eq!(found.is_ok(), known.contains(&(code, bits)), "{code} {bits}");
            }
        }
    }

    #[test]
    fn bfloat16_never_passes_for_float16() {
        let bfloat: Dtype = "bfloat16".parse().unwrap();
        assert_eq!(bfloat.typestr(), None);
        assert_eq!(bfloat.buffer_format(), None);
        assert_ne!(bfloat, "<f2".parse().unwrap());
    }

    #[test]
    fn other_names_are_refused() {
        for name in [
            "", "f", "float33", "<f3", ">f4", "|O8", "<U4", "<M8", "<f16", "torch.", "é1", "float",
            "int",
        ] {
            assert!(name.parse::<Dtype>().is_err(), "{name}");
        }
        assert_eq!(">f4".parse::<Dtype>(), Err(LayoutError::BigEndian { found: ">f4".into() }));
        assert_eq!("|u1".parse::<Dtype>(), ">u1".parse());
        assert_eq!("f4".parse(), Ok(Dtype::FLOAT32));
        for format in ["", "T{f:x:}", ">f", "2f", "g", "P", "O"] {
            assert!(Dtype::from_buffer_format(format, 4).is_err(), "{format}");
        }
    }

    #[test]
    fn a_long_is_as_wide_as_its_items() {
        assert_eq!(Dtype::from_buffer_format("l", 8).unwrap().name(), "int64");
        assert_eq!(Dtype::from_buffer_format("<l", 8).unwrap().name(), "int64");
        assert_eq!(Dtype::from_buffer_format("<l", 4).unwrap().name(), "int32");
        assert!(Dtype::from_buffer_format("<l", 2).is_err());
        assert!(Dtype::from_buffer_format("f", 8).is_err());
    }

    #[test]
    fn padding_is_for_less_than_a_byte() {
        let four: Dtype = "int4".parse().unwrap();
        assert_eq!((four.storage_bits(), four.itemsize(), four.is_packed()), (4, 1, true));
        let four = four.padded();
        assert_eq!((four.storage_bits(), four.itemsize(), four.is_packed()), (8, 1, false));
        assert!(!Dtype::FLOAT32.padded().is_padded());
    }
}
