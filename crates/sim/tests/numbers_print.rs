//! A kernel's `printf`, against that of the C library.

use std::ffi::CString;

use gpulend_sim::engine::numbers::print;

const FLAGS: [&str; 14] =
    ["", "-", "+", " ", "#", "0", "-0", "+0", "# ", "#0", "+-", "#+0", " 0", "#-+ 0"];
const WIDTHS: [&str; 4] = ["", "1", "12", "40"];
const PRECISIONS: [&str; 8] = ["", ".", ".0", ".1", ".2", ".5", ".13", ".30"];

/// What the C library prints of one argument.
macro_rules! library {
    ($format:expr, $argument:expr) => {{
        let format = CString::new($format).unwrap();
        let mut room = vec![0_u8; 4096];
        // SAFETY: the room is as long as is said, and the argument is of the type that the format names.
        let length = unsafe { libc::snprintf(room.as_mut_ptr().cast(), room.len(), format.as_ptr(), $argument) };
        room.truncate(usize::try_from(length).unwrap());
        String::from_utf8(room).unwrap()
    }};
}

#[expect(clippy::unwrap_used, reason = "a text that is none fails the test")]
fn ours(format: &str, argument: &[u8]) -> String {
    let mut strings = |address| (address == 0x1000).then(|| b"some text".to_vec());
    String::from_utf8(print::format(format.as_bytes(), argument, &mut strings)).unwrap()
}

/// All formats with such a conversion.
fn formats(conversion: &str) -> impl Iterator<Item = String> {
    FLAGS.into_iter().flat_map(move |flags| {
        WIDTHS.into_iter().flat_map(move |width| {
            PRECISIONS
                .into_iter()
                .map(move |precision| format!("<%{flags}{width}{precision}{conversion}>"))
        })
    })
}

#[test]
fn integers_are_printed_as_by_c() {
    for conversion in ["d", "i", "u", "o", "x", "X", "hd", "hhd", "hu", "hhx", "ho", "c"] {
        for format in formats(conversion) {
            for value in [0, 1, 9, -1, 42, -12_345, 0x1234_5678, i32::MAX, i32::MIN] {
                // C leaves a zero flag of characters open, and a lone byte from 128 on is no text here.
                if conversion == "c" && (value & 0xff >= 0x80 || format.contains('0')) {
                    continue;
                }
                assert_eq!(
                    ours(&format, &value.to_le_bytes()),
                    library!(&*format, value),
                    "{format} of {value}"
                );
            }
        }
    }
}

#[test]
fn long_integers_are_printed_as_by_c() {
    for conversion in ["ld", "lld", "zu", "jd", "td", "llx", "lX", "lo", "lu"] {
        for format in formats(conversion) {
            for value in [0, 7, -1, 1 << 40, i64::MAX, i64::MIN, -123_456_789_012] {
                assert_eq!(
                    ours(&format, &value.to_le_bytes()),
                    library!(&*format, value),
                    "{format} of {value}"
                );
            }
        }
    }
}

#[test]
fn floats_are_printed_as_by_c() {
    let mut random = fastrand::Rng::with_seed(23);
    let mut values = vec![
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        1.5,
        2.5,
        0.125,
        0.375,
        9.5,
        99.5,
        9.995,
        999_999.5,
        1e-5,
        0.0001,
        123_456.0,
        1_234_567.0,
        1e15,
        1e16,
        1e22,
        1e23,
        std::f64::consts::PI,
        1e100,
        5e-324,
        2.3e-308,
        f64::MAX,
        f64::MIN_POSITIVE,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        -f64::NAN,
        1.999_999_999_999_999_8,
        1.031_25,
        1.968_75,
        31.5,
    ];
    values.extend(std::iter::repeat_with(|| f64::from_bits(random.u64(..))).take(10));
    values
        .extend(std::iter::repeat_with(|| f64::from(random.i32(-99_999..99_999)) / 64.0).take(10));
    for conversion in ["e", "E", "f", "F", "g", "G", "a", "A", "lf", "hg"] {
        for format in formats(conversion) {
            for value in &values {
                // glibc drops zeros that `#` asks for where rounding carries `%g` from one style into the other.
                let general = format.contains('#') && format.to_ascii_lowercase().contains('g');
                if general && (*value == 999_999.5 || *value == 99.5) {
                    continue;
                }
                let wanted = library!(&*format, *value);
                assert_eq!(ours(&format, &value.to_le_bytes()), wanted, "{format} of {value:e}");
            }
        }
    }
}

#[test]
fn zeros_that_are_asked_for_stay_where_rounding_carries() {
    assert_eq!(
        ours("%#g %#.2g", &[999_999.5_f64, 99.5].map(f64::to_le_bytes).concat()),
        "1.00000e+06 1.0e+02"
    );
}

#[test]
fn long_precisions_are_printed_as_by_c() {
    for value in [0.1, f64::MAX, 5e-324, 1e-300] {
        for format in ["%.1200f", "%.1200e", "%.1200g", "%#.1200g", "%.1200a"] {
            assert_eq!(
                ours(format, &value.to_le_bytes()),
                library!(format, value),
                "{format} of {value:e}"
            );
        }
    }
}

#[test]
fn strings_and_pointers_are_printed_as_by_c() {
    let text = CString::new("some text").unwrap();
    for flags in ["", "-"] {
        for width in WIDTHS {
            for precision in PRECISIONS {
                let format = format!("<%{flags}{width}{precision}s>");
                let address = 0x1000_u64.to_le_bytes();
                assert_eq!(ours(&format, &address), library!(&*format, text.as_ptr()), "{format}");
                let nothing = std::ptr::null::<libc::c_char>();
                assert_eq!(ours(&format, &[0; 8]), library!(&*format, nothing), "{format} of null");
            }
            let format = format!("<%{flags}{width}p>");
            for address in [0, 0x1000, 0x7fff_0123_4567_89ab_usize] {
                let pointer = std::ptr::without_provenance::<u8>(address);
                assert_eq!(
                    ours(&format, &address.to_le_bytes()),
                    library!(&*format, pointer),
                    "{format}"
                );
            }
        }
    }
}

#[test]
fn stars_are_printed_as_by_c() {
    for format in ["<%*.*d>", "<%-*.*d>", "<%0*.*d>"] {
        for width in [0, 7, -7, 30] {
            for precision in [0, 3, -3] {
                let arguments: Vec<u8> =
                    [width, precision, 42].into_iter().flat_map(i32::to_le_bytes).collect();
                let format_text = CString::new(format).unwrap();
                let mut room = vec![0_u8; 256];
                // SAFETY: the room is as long as is said, and the arguments are the three integers of the format.
                let length = unsafe {
                    libc::snprintf(
                        room.as_mut_ptr().cast(),
                        256,
                        format_text.as_ptr(),
                        width,
                        precision,
                        42_i32,
                    )
                };
                room.truncate(usize::try_from(length).unwrap());
                let wanted = String::from_utf8(room).unwrap();
                assert_eq!(ours(format, &arguments), wanted, "{format} of {width} {precision}");
            }
        }
    }
}
