//! `Element`: the Rust types that a lease can have as elements.
#![forbid(unsafe_code)]

use crate::dtype::Dtype;

/// Rust types that correspond to an element type: of its size, and every bit pattern is a value. No other crate can add one,
/// because safe code relies on that.
pub trait Element: Copy + Default + Send + sealed::Sealed + 'static {
    /// The element type.
    const DTYPE: Dtype;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! elements {
    ($($rust:ty => $name:ident),*) => {
        $(impl sealed::Sealed for $rust {}
        impl Element for $rust {
            const DTYPE: Dtype = Dtype::$name;
        })*
    };
}

elements!(
    i8 => INT8, i16 => INT16, i32 => INT32, i64 => INT64,
    u8 => UINT8, u16 => UINT16, u32 => UINT32, u64 => UINT64,
    half::f16 => FLOAT16, half::bf16 => BFLOAT16, f32 => FLOAT32, f64 => FLOAT64
);
