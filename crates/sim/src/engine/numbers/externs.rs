//! Functions that compiled code calls, with their types.

use std::sync::LazyLock;

use crate::ptx::ast::Type;

use super::{approximate, bits, convert, half, rounding};

/// A function that compiled code may call, with the C calling convention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extern {
    /// Its name.
    pub name: &'static str,
    /// Its parameter types.
    pub params: &'static [Type],
    /// Its result type.
    pub result: Type,
    /// Its address.
    pub address: usize,
}

/// The Rust type of a PTX type.
macro_rules! native {
    (U8) => {
        u8
    };
    (S8) => {
        i8
    };
    (U16) => {
        u16
    };
    (S16) => {
        i16
    };
    (F16) => {
        u16
    };
    (BF16) => {
        u16
    };
    (B32) => {
        u32
    };
    (U32) => {
        u32
    };
    (S32) => {
        i32
    };
    (U64) => {
        u64
    };
    (S64) => {
        i64
    };
    (F32) => {
        f32
    };
    (F64) => {
        f64
    };
}
pub(super) use native;

/// Defines functions that compiled code calls, and `table`, which lists them.
macro_rules! externs {
    ($($(#[$attribute:meta])* $name:ident($($argument:ident: $ty:ident),*) -> $result:ident = $body:expr;)*) => {
        $(
            $(#[$attribute])*
            #[must_use]
            pub extern "C" fn $name($($argument: $crate::engine::numbers::externs::native!($ty)),*)
                -> $crate::engine::numbers::externs::native!($result) { $body }
        )*

        /// The functions of this file.
        pub(super) fn table() -> Vec<$crate::engine::numbers::Extern> {
            vec![$($crate::engine::numbers::Extern {
                name: stringify!($name),
                params: &[$($crate::ptx::ast::Type::$ty),*],
                result: $crate::ptx::ast::Type::$result,
                address: $name as *const () as usize,
            }),*]
        }
    };
}
pub(super) use externs;

static TABLE: LazyLock<Vec<Extern>> = LazyLock::new(|| {
    let mut table = approximate::table();
    table.extend(bits::table());
    table.extend(convert::table());
    table.extend(half::table());
    table.extend(rounding::table());
    table.sort_unstable_by_key(|one| one.name);
    table
});

/// All of them, ordered by name.
#[must_use]
pub fn all() -> &'static [Extern] {
    &TABLE
}

/// The function with this name, for instance `add_f32_zero`.
#[must_use]
pub fn find(name: &str) -> Option<&'static Extern> {
    TABLE.binary_search_by_key(&name, |one| one.name).ok().and_then(|place| TABLE.get(place))
}
