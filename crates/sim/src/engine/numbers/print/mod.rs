//! The kernels' `printf`: a format and its arguments, packed one after the other.
//!
//! Integers take 4 bytes, or 8 with `l`, `ll`, `q`, `z`, `j` and `t`; floats are doubles; pointers take 8.
//! Each is aligned to its size. Conversions work as in C, with these additional rules. An invalid conversion,
//! `%n` included, is printed unchanged. If an argument is missing, the text ends. `l` before `s` and `c` is
//! ignored. A string that cannot be read is replaced by a message. Widths, precisions and the whole output
//! are limited to a mebibyte.

mod conversion;
mod number;

use std::cell::Cell;

use conversion::{Conversion, Count, Kind};

/// The limit of widths, of precisions and of the whole output: the default size of CUDA's buffer.
const LIMIT: usize = 1 << 20;
/// The most bytes of strings that are read, printed or not.
const MOST_READ: usize = 16 << 20;

/// The remaining packed arguments.
struct Arguments<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Arguments<'_> {
    fn take<const LENGTH: usize>(&mut self) -> Option<[u8; LENGTH]> {
        let start = self.at.next_multiple_of(LENGTH);
        let value = self.bytes.get(start..)?.first_chunk::<LENGTH>()?;
        self.at = start + LENGTH;
        Some(*value)
    }

    fn int(&mut self) -> Option<i32> {
        self.take().map(i32::from_le_bytes)
    }

    fn long(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }
}

/// The layout of a conversion, with the values of `*`.
#[derive(Clone, Copy)]
struct Layout {
    left: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    zero: bool,
    width: usize,
    precision: Option<usize>,
}

impl Layout {
    fn sign(self, negative: bool) -> &'static str {
        match (negative, self.plus, self.space) {
            (true, ..) => "-",
            (false, true, _) => "+",
            (false, false, true) => " ",
            (false, false, false) => "",
        }
    }

    /// Writes a body after its prefix, padded to the width; if `zeros`, with zeros between the two.
    fn write(self, output: &mut Vec<u8>, prefix: &str, body: &[u8], zeros: bool) {
        let fill = self.width.saturating_sub(prefix.len() + body.len());
        let inside = zeros && self.zero && !self.left;
        if !self.left && !inside {
            output.extend(std::iter::repeat_n(b' ', fill));
        }
        output.extend_from_slice(prefix.as_bytes());
        if inside {
            output.extend(std::iter::repeat_n(b'0', fill));
        }
        output.extend_from_slice(body);
        if self.left {
            output.extend(std::iter::repeat_n(b' ', fill));
        }
    }
}

fn lay_out(conversion: &Conversion, arguments: &mut Arguments<'_>) -> Option<Layout> {
    let flags = conversion.flags;
    let mut left = flags.left;
    let width = match conversion.width {
        Count::None => 0,
        Count::Number(width) => width,
        Count::Argument => {
            let width = arguments.int()?;
            left |= width < 0;
            usize::try_from(width.unsigned_abs()).unwrap_or(LIMIT)
        }
    };
    let precision = match conversion.precision {
        Count::None => None,
        Count::Number(precision) => Some(precision),
        Count::Argument => usize::try_from(arguments.int()?).ok(),
    };
    Some(Layout {
        left,
        plus: flags.plus,
        space: flags.space,
        alternate: flags.alternate,
        zero: flags.zero,
        width: width.min(LIMIT),
        precision: precision.map(|precision| precision.min(LIMIT)),
    })
}

fn write_string(output: &mut Vec<u8>, layout: Layout, text: &[u8]) {
    let shown = layout.precision.map_or(text.len(), |most| most.min(text.len()));
    layout.write(output, "", text.get(..shown).unwrap_or(text), false);
}

fn convert(
    output: &mut Vec<u8>,
    conversion: &Conversion,
    arguments: &mut Arguments<'_>,
    string_at: &mut dyn FnMut(u64) -> Option<Vec<u8>>,
) -> Option<()> {
    let layout = lay_out(conversion, arguments)?;
    match conversion.kind {
        Kind::Percent => output.push(b'%'),
        Kind::Character => {
            let [byte, ..] = arguments.take::<4>()?;
            layout.write(output, "", &[byte], false);
        }
        Kind::Text => match arguments.long()? {
            0 if layout.precision.is_some_and(|most| most < 6) => write_string(output, layout, b""),
            0 => write_string(output, layout, b"(null)"),
            address => match string_at(address) {
                Some(text) => write_string(output, layout, &text),
                None => output.extend_from_slice(format!("(no string at {address:#x})").as_bytes()),
            },
        },
        Kind::Pointer => match arguments.long()? {
            0 => layout.write(output, "", b"(nil)", false),
            address => {
                number::unsigned(output, Layout { alternate: true, ..layout }, address, 16, false)
            }
        },
        Kind::Signed => {
            let value = if conversion.length.is_long() {
                arguments.long()?.cast_signed()
            } else {
                conversion.length.cut_signed(arguments.int()?).into()
            };
            number::signed(output, layout, value);
        }
        Kind::Unsigned { base, upper } => {
            let value = if conversion.length.is_long() {
                arguments.long()?
            } else {
                conversion.length.cut_unsigned(arguments.int()?.cast_unsigned()).into()
            };
            number::unsigned(output, layout, value, base, upper);
        }
        Kind::Float { style, upper } => {
            let value = f64::from_bits(arguments.long()?);
            number::float(output, layout, value, style, upper);
        }
    }
    Some(())
}

/// The output of a kernel's `printf` with this format and these arguments. `string_at` returns the C string
/// at an address.
#[must_use]
pub fn format(
    text: &[u8],
    arguments: &[u8],
    string_at: &mut dyn FnMut(u64) -> Option<Vec<u8>>,
) -> Vec<u8> {
    let mut output = Vec::with_capacity(text.len().min(LIMIT));
    let mut arguments = Arguments { bytes: arguments, at: 0 };
    let read = Cell::new(0_usize);
    let mut counted = |address: u64| {
        let found = string_at(address);
        read.set(read.get() + found.as_ref().map_or(0, Vec::len));
        found
    };
    let mut rest = text;
    while let Some(place) = rest.iter().position(|byte| *byte == b'%') {
        let (plain, from) = rest.split_at(place);
        output.extend_from_slice(plain);
        match conversion::read(from) {
            Some((conversion, after)) => {
                let went = convert(&mut output, &conversion, &mut arguments, &mut counted);
                rest = if went.is_some() { after } else { b"" };
            }
            None => {
                output.push(b'%');
                rest = from.get(1..).unwrap_or_default();
            }
        }
        if output.len() > LIMIT || read.get() > MOST_READ {
            rest = b"";
        }
    }
    output.extend_from_slice(rest);
    output.truncate(LIMIT);
    output
}

#[cfg(test)]
mod tests {
    use super::format;

    fn print(text: &str, arguments: &[u8]) -> String {
        let mut strings = |address| (address == 64).then(|| b"hello".to_vec());
        String::from_utf8(format(text.as_bytes(), arguments, &mut strings)).unwrap()
    }

    #[test]
    fn arguments_are_aligned_to_their_length() {
        let mut packed = 7_i32.to_le_bytes().to_vec();
        packed.extend([0xee; 4]);
        packed.extend(1.5_f64.to_le_bytes());
        packed.extend((-3_i32).to_le_bytes());
        packed.extend([0xee; 4]);
        packed.extend(64_u64.to_le_bytes());
        assert_eq!(print("%d %g %d %s\n", &packed), "7 1.5 -3 hello\n");
    }

    #[test]
    fn a_missing_argument_ends_the_text() {
        assert_eq!(print("a %d b %d c", &7_i32.to_le_bytes()), "a 7 b ");
        assert_eq!(print("%f", &[0; 7]), "");
        assert_eq!(print("%*d", &7_i32.to_le_bytes()), "");
    }

    #[test]
    fn what_is_no_conversion_is_printed_as_it_stands() {
        assert_eq!(print("100% y %-5k %n %", &[]), "100% y %-5k %n %");
        assert_eq!(print("%5.", &[]), "%5.");
        assert_eq!(print("%% %", &[]), "% %");
    }

    #[test]
    fn strings_that_cannot_be_read_say_so() {
        assert_eq!(print("%s", &0_u64.to_le_bytes()), "(null)");
        assert_eq!(print("%s|", &16_u64.to_le_bytes()), "(no string at 0x10)|");
    }

    #[test]
    fn huge_widths_and_precisions_are_bounded() {
        assert_eq!(print("%99999999999999999999d", &7_i32.to_le_bytes()).len(), 1 << 20);
        assert_eq!(print("%.2147483647f", &1.0_f64.to_le_bytes()).len(), 1 << 20);
        assert_eq!(print("%.2147483647e", &1.0_f64.to_le_bytes()).len(), 1 << 20);
        let mut packed = i32::MIN.to_le_bytes().to_vec();
        packed.extend(7_i32.to_le_bytes());
        assert_eq!(print("%*d", &packed).len(), 1 << 20);
    }

    #[test]
    fn all_that_one_call_prints_is_bounded_and_no_more_is_made() {
        let packed = [0; 4 * 4000];
        assert_eq!(print(&"%1000000d".repeat(4000), &packed).len(), 1 << 20);
        let text = format(&vec![b'a'; 3 << 20], &[], &mut |_| None);
        assert_eq!(text.len(), 1 << 20);
        // Reading strings that are not printed is limited too.
        let mut reads = 0;
        let mut string = |_| {
            reads += 1;
            Some(vec![b'a'; 1 << 20])
        };
        let packed = [1; 8 * 4000];
        assert!(format("%.0s".repeat(4000).as_bytes(), &packed, &mut string).is_empty());
        assert!(reads < 20, "{reads}");
    }
}
