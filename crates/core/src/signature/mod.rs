//! Kernels and variables as C++ declares them: names, parameters, types.
//!
//! Sources are mangled names, PTX, and the source text, which alone has the names of parameters.
#![forbid(unsafe_code)]

mod demangle;
mod parse;
mod ptx;
mod source;

use std::fmt;

use crate::dtype::Dtype;

pub use demangle::{demangled, kernel, variable_name};
pub use parse::{parse_type, split_arguments};
pub use ptx::{Entry, Scan, Stored, scan};
pub use source::{ParameterNames, static_variables};

/// A scalar type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// `bool`.
    Bool,
    /// `char`, which is neither `signed char` nor `unsigned char`.
    Char,
    /// Any other integer.
    Int {
        /// Its width: 8 to 128.
        bits: u8,
        /// Whether it is signed.
        signed: bool,
    },
    /// `__half`.
    Float16,
    /// `__nv_bfloat16`.
    BFloat16,
    /// `float`.
    Float32,
    /// `double`.
    Float64,
    /// `__nv_fp8_e4m3`.
    Float8E4M3,
    /// `__nv_fp8_e5m2`.
    Float8E5M2,
}

/// A type of CUDA C++.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// `void`.
    Void,
    /// A scalar.
    Scalar(Scalar),
    /// A CUDA vector type, for instance `float4` or `__half2`.
    Vector {
        /// The element type.
        element: Scalar,
        /// The number of elements.
        lanes: u8,
    },
    /// `std::complex`, `cuda::std::complex` or `thrust::complex` of a type.
    Complex(Scalar),
    /// A pointer.
    Pointer {
        /// The type it points to.
        to: Box<Type>,
        /// Whether that is `const`.
        constant: bool,
    },
    /// An array.
    Array {
        /// The element type.
        of: Box<Type>,
        /// The extent of each axis.
        extents: Vec<u64>,
    },
    /// A class, a function or any other type, by name.
    Other(Box<str>),
}

/// One parameter of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name in the source, if found.
    pub name: Option<Box<str>>,
    /// Its type. If unknown, only the size is known.
    pub kind: Option<Type>,
    /// Size in bytes.
    pub size: u32,
    /// Alignment in bytes.
    pub align: u32,
}

/// A kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Its C++ name without parameters: `vectorAdd`, `ns::scale<float>`.
    pub name: Box<str>,
    /// Its name in the image.
    pub symbol: Box<str>,
    /// Its parameters, in order.
    pub parameters: Vec<Parameter>,
}

/// A `__device__` or `__constant__` variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its C++ name: `counter`, `ns::counter`.
    pub name: Box<str>,
    /// Its name in the image.
    pub symbol: Box<str>,
    /// Its type. If unknown, only the size is known.
    pub kind: Option<Type>,
    /// Size in bytes.
    pub size: u64,
    /// Whether it is in constant memory.
    pub constant: bool,
}

impl Scalar {
    /// The types of array elements, most common first.
    #[must_use]
    pub fn all() -> [Self; 15] {
        let int = |bits, signed| Self::Int { bits, signed };
        [
            Self::Float32,
            Self::Float64,
            int(32, true),
            int(64, true),
            int(8, false),
            int(8, true),
            int(16, true),
            int(16, false),
            int(32, false),
            int(64, false),
            Self::Bool,
            Self::Float16,
            Self::BFloat16,
            Self::Float8E4M3,
            Self::Float8E5M2,
        ]
    }

    /// Size in bytes.
    #[must_use]
    pub const fn size(self) -> u32 {
        match self {
            Self::Bool | Self::Char | Self::Float8E4M3 | Self::Float8E5M2 => 1,
            Self::Int { bits, .. } => bits as u32 / 8,
            Self::Float16 | Self::BFloat16 => 2,
            Self::Float32 => 4,
            Self::Float64 => 8,
        }
    }

    /// The dtype with the same representation. `char` counts as signed. 128-bit integers have none.
    #[must_use]
    pub fn dtype(self) -> Option<Dtype> {
        let name = match self {
            Self::Bool => "bool",
            Self::Char | Self::Int { bits: 8, signed: true } => "int8",
            Self::Int { bits: 16, signed: true } => "int16",
            Self::Int { bits: 32, signed: true } => "int32",
            Self::Int { bits: 64, signed: true } => "int64",
            Self::Int { bits: 8, signed: false } => "uint8",
            Self::Int { bits: 16, signed: false } => "uint16",
            Self::Int { bits: 32, signed: false } => "uint32",
            Self::Int { bits: 64, signed: false } => "uint64",
            Self::Int { .. } => return None,
            Self::Float16 => "float16",
            Self::BFloat16 => "bfloat16",
            Self::Float32 => "float32",
            Self::Float64 => "float64",
            Self::Float8E4M3 => "float8_e4m3fn",
            Self::Float8E5M2 => "float8_e5m2",
        };
        name.parse().ok()
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Char => "char",
            Self::Int { bits: 8, signed: true } => "signed char",
            Self::Int { bits: 8, signed: false } => "unsigned char",
            Self::Int { bits: 16, signed: true } => "short",
            Self::Int { bits: 16, signed: false } => "unsigned short",
            Self::Int { bits: 32, signed: true } => "int",
            Self::Int { bits: 32, signed: false } => "unsigned int",
            Self::Int { bits: 64, signed: true } => "long long",
            Self::Int { bits: 64, signed: false } => "unsigned long long",
            Self::Int { signed: true, .. } => "__int128",
            Self::Int { signed: false, .. } => "unsigned __int128",
            Self::Float16 => "__half",
            Self::BFloat16 => "__nv_bfloat16",
            Self::Float32 => "float",
            Self::Float64 => "double",
            Self::Float8E4M3 => "__nv_fp8_e4m3",
            Self::Float8E5M2 => "__nv_fp8_e5m2",
        }
    }

    /// The prefix of a vector type's name, before the number of elements.
    const fn vector_name(self) -> &'static str {
        match self {
            Self::Int { bits: 8, signed: true } => "char",
            Self::Int { bits: 8, signed: false } => "uchar",
            Self::Int { bits: 16, signed: false } => "ushort",
            Self::Int { bits: 32, signed: false } => "uint",
            Self::Int { bits: 64, signed: true } => "longlong",
            Self::Int { bits: 64, signed: false } => "ulonglong",
            other => other.name(),
        }
    }
}

impl Type {
    /// The dtype of an array of such values. For a vector or an array, that of its elements.
    #[must_use]
    pub fn dtype(&self) -> Option<Dtype> {
        match self {
            Self::Scalar(scalar) | Self::Vector { element: scalar, .. } => scalar.dtype(),
            Self::Complex(Scalar::Float16) => "complex32".parse().ok(),
            Self::Complex(Scalar::BFloat16) => "bcomplex32".parse().ok(),
            Self::Complex(Scalar::Float32) => "complex64".parse().ok(),
            Self::Complex(Scalar::Float64) => "complex128".parse().ok(),
            Self::Array { of, .. } => of.dtype(),
            Self::Complex(_) | Self::Void | Self::Pointer { .. } | Self::Other(_) => None,
        }
    }

    /// The size in bytes, if known.
    #[must_use]
    pub fn size(&self) -> Option<u32> {
        match self {
            Self::Scalar(scalar) => Some(scalar.size()),
            Self::Vector { element, lanes } => Some(element.size() * u32::from(*lanes)),
            Self::Complex(scalar) => Some(scalar.size() * 2),
            Self::Pointer { .. } => Some(8),
            Self::Array { of, extents } => {
                let count =
                    extents.iter().try_fold(1_u64, |count, &extent| count.checked_mul(extent));
                u32::try_from(count?.checked_mul(u64::from(of.size()?))?).ok()
            }
            Self::Void | Self::Other(_) => None,
        }
    }

    /// The alignment in bytes, if known. As in CUDA, vectors of 2 and 4 elements are aligned to their size,
    /// up to 16 bytes. Vectors of 3 are aligned like their elements.
    #[must_use]
    pub fn align(&self) -> Option<u32> {
        match self {
            Self::Scalar(scalar) => Some(scalar.size()),
            Self::Vector { element, lanes: 2 | 4 } => {
                self.size().map(|size| size.min(16).max(element.size()))
            }
            Self::Vector { element, .. } => Some(element.size()),
            Self::Complex(_) | Self::Pointer { .. } => self.size(),
            Self::Array { of, .. } => of.align(),
            Self::Void | Self::Other(_) => None,
        }
    }

    /// Whether it contains a type that is known only by name.
    #[must_use]
    pub fn has_other(&self) -> bool {
        match self {
            Self::Other(_) => true,
            Self::Pointer { to: inner, .. } | Self::Array { of: inner, .. } => inner.has_other(),
            Self::Void | Self::Scalar(_) | Self::Vector { .. } | Self::Complex(_) => false,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Void => out.write_str("void"),
            Self::Scalar(scalar) => out.write_str(scalar.name()),
            Self::Vector { element: Scalar::Float8E4M3, lanes } => {
                write!(out, "__nv_fp8x{lanes}_e4m3")
            }
            Self::Vector { element: Scalar::Float8E5M2, lanes } => {
                write!(out, "__nv_fp8x{lanes}_e5m2")
            }
            Self::Vector { element, lanes } => write!(out, "{}{lanes}", element.vector_name()),
            Self::Complex(scalar) => write!(out, "complex<{}>", scalar.name()),
            Self::Pointer { to, constant } => match (&**to, constant) {
                (Self::Array { of, extents }, _) => {
                    write!(out, "{}{of} (*)", if *constant { "const " } else { "" })?;
                    extents.iter().try_for_each(|extent| write!(out, "[{extent}]"))
                }
                // After the pointee: in front, `const` would qualify the innermost type.
                (Self::Pointer { .. }, true) => write!(out, "{to} const*"),
                (_, true) => write!(out, "const {to}*"),
                (_, false) => write!(out, "{to}*"),
            },
            Self::Array { of, extents } => {
                write!(out, "{of}")?;
                extents.iter().try_for_each(|extent| write!(out, "[{extent}]"))
            }
            Self::Other(name) => out.write_str(name),
        }
    }
}

impl fmt::Display for Parameter {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Some(kind) => write!(out, "{kind}")?,
            None => write!(out, "<{} bytes>", self.size)?,
        }
        self.name.as_ref().map_or(Ok(()), |name| write!(out, " {name}"))
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}(", self.name)?;
        for (position, parameter) in self.parameters.iter().enumerate() {
            write!(out, "{}{parameter}", if position > 0 { ", " } else { "" })?;
        }
        out.write_str(")")
    }
}

impl Signature {
    /// Whether the type of each parameter is known.
    #[must_use]
    pub fn is_typed(&self) -> bool {
        self.parameters.iter().all(|parameter| parameter.kind.is_some())
    }

    /// A kernel known only by its symbol: with parameters if the symbol encodes their types, else without.
    #[must_use]
    pub fn of_symbol(symbol: &str) -> Self {
        let (name, types) = kernel(symbol);
        let parameters = types.unwrap_or_default().into_iter().map(|kind| Parameter {
            name: None,
            size: kind.size().unwrap_or(0),
            align: kind.align().unwrap_or(1),
            kind: Some(kind),
        });
        Self { name, symbol: symbol.into(), parameters: parameters.collect() }
    }

    /// Its name with types but without parameter names: distinguishes overloads.
    #[must_use]
    pub fn types(&self) -> String {
        let mut bare = self.clone();
        bare.parameters.iter_mut().for_each(|parameter| parameter.name = None);
        bare.to_string()
    }

    /// Sets the parameters' types if they agree with the image. Returns whether they do.
    pub fn set_types(&mut self, types: Vec<Type>) -> bool {
        let fits = |(parameter, kind): (&Parameter, &Type)| {
            kind.size().is_none_or(|size| size == parameter.size)
        };
        let right =
            types.len() == self.parameters.len() && self.parameters.iter().zip(&types).all(fits);
        if right {
            for (parameter, kind) in self.parameters.iter_mut().zip(types) {
                parameter.kind = Some(kind);
            }
        }
        right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_have_the_sizes_and_alignments_of_cuda() {
        let of = |name: &str| {
            let kind = parse_type(name);
            (kind.size().unwrap(), kind.align().unwrap())
        };
        assert_eq!(of("float3"), (12, 4));
        assert_eq!(of("float4"), (16, 16));
        assert_eq!(of("double3"), (24, 8));
        assert_eq!(of("double4"), (32, 16));
        assert_eq!(of("longlong2"), (16, 16));
        assert_eq!(of("char4"), (4, 4));
        assert_eq!(of("uchar3"), (3, 1));
        assert_eq!(of("short2"), (4, 4));
        assert_eq!(of("__half2"), (4, 4));
        assert_eq!(of("float1"), (4, 4));
        assert_eq!(of("float[4][5]"), (80, 4));
    }

    #[test]
    fn a_signature_reads_as_in_the_source() {
        let parameter = |name: Option<&str>, kind: Option<&str>, size| Parameter {
            name: name.map(Into::into),
            kind: kind.map(parse_type),
            size,
            align: size,
        };
        let mut signature = Signature {
            name: "vectorAdd".into(),
            symbol: "vectorAdd".into(),
            parameters: vec![
                parameter(Some("a"), Some("float const*"), 8),
                parameter(None, None, 8),
                parameter(Some("n"), Some("unsigned long"), 8),
            ],
        };
        assert_eq!(
            signature.to_string(),
            "vectorAdd(const float* a, <8 bytes>, unsigned long long n)"
        );
        assert!(!signature.is_typed());
        let types = |last: &str| ["void*", "Foo", last].map(parse_type).to_vec();
        assert!(!signature.set_types(types("int")));
        assert!(!signature.set_types(vec![Type::Void]));
        assert!(signature.set_types(types("double")));
        assert!(signature.is_typed());
        assert_eq!(signature.to_string(), "vectorAdd(void* a, Foo, double n)");
    }
}
