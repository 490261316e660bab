//! Writing integers and floats.

use super::Layout;
use super::conversion::Style;

/// No double has more decimal digits than this, before or after its point; more are zeros.
const MOST_DIGITS: usize = 1100;

fn padded(digits: String, least: usize) -> String {
    let missing = least.saturating_sub(digits.len());
    "0".repeat(missing) + &digits
}

fn integer(output: &mut Vec<u8>, layout: Layout, prefix: &str, digits: String, is_zero: bool) {
    let digits = match layout.precision {
        Some(0) if is_zero => String::new(),
        Some(least) => padded(digits, least),
        None => digits,
    };
    layout.write(output, prefix, digits.as_bytes(), layout.precision.is_none());
}

pub(super) fn signed(output: &mut Vec<u8>, layout: Layout, value: i64) {
    integer(output, layout, layout.sign(value < 0), value.unsigned_abs().to_string(), value == 0);
}

pub(super) fn unsigned(
    output: &mut Vec<u8>,
    mut layout: Layout,
    value: u64,
    base: u64,
    upper: bool,
) {
    let alternate = layout.alternate;
    let (prefix, digits) = match (base, upper) {
        (8, _) => ("", format!("{value:o}")),
        (16, false) => (if alternate && value != 0 { "0x" } else { "" }, format!("{value:x}")),
        (16, true) => (if alternate && value != 0 { "0X" } else { "" }, format!("{value:X}")),
        _ => ("", value.to_string()),
    };
    if base == 8 && alternate {
        // The first digit must be a zero; a precision may already have added one.
        let digits = if value == 0 { digits } else { format!("0{digits}") };
        layout.precision = layout.precision.map(|least| least.max(1));
        return integer(output, layout, prefix, digits, value == 0);
    }
    integer(output, layout, prefix, digits, value == 0);
}

/// Digits with a point after the first and `precision` digits after it, and the exponent.
fn scientific(value: f64, precision: usize) -> (String, i32) {
    let text = format!("{value:.*e}", precision.min(MOST_DIGITS));
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let mut digits = digits.to_owned();
    digits.extend(std::iter::repeat_n('0', precision.saturating_sub(MOST_DIGITS)));
    (digits, exponent.parse().unwrap_or_default())
}

fn fixed(value: f64, precision: usize) -> String {
    let mut text = format!("{value:.*}", precision.min(MOST_DIGITS));
    text.extend(std::iter::repeat_n('0', precision.saturating_sub(MOST_DIGITS)));
    text
}

fn with_exponent(digits: &str, exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

fn point(mut digits: String, alternate: bool) -> String {
    if alternate && !digits.contains('.') {
        digits.push('.');
    }
    digits
}

fn without_zeros(digits: String) -> String {
    if !digits.contains('.') {
        return digits;
    }
    digits.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn general(value: f64, precision: usize, alternate: bool) -> String {
    let significant = precision.max(1);
    let (digits, exponent) = scientific(value, significant - 1);
    let after_point = i64::try_from(significant).unwrap_or(i64::MAX) - 1 - i64::from(exponent);
    let trim = |digits: String| if alternate { point(digits, true) } else { without_zeros(digits) };
    match usize::try_from(after_point) {
        Ok(after_point) if exponent >= -4 => trim(fixed(value, after_point)),
        _ => with_exponent(&trim(digits), exponent),
    }
}

/// The digits after `0x`.
fn hexadecimal(value: f64, precision: Option<usize>, alternate: bool) -> String {
    let bits = value.to_bits();
    let fraction = bits & ((1 << 52) - 1);
    let field = i32::try_from(bits >> 52 & 0x7ff).unwrap_or_default();
    let (mut whole, exponent) = match (field, fraction) {
        (0, 0) => (0, 0),
        (0, _) => (fraction, -1022),
        _ => (fraction | 1 << 52, field - 1023),
    };
    let mut digits = 13;
    if let Some(wanted @ 0..13) = precision {
        let lost = 4 * (13 - wanted);
        let rest = whole & ((1 << lost) - 1);
        whole >>= lost;
        let half = 1 << (lost - 1);
        whole += u64::from(rest > half || rest == half && whole & 1 == 1);
        digits = wanted;
    }
    let lead = whole >> (4 * digits);
    let after = whole & ((1 << (4 * digits)) - 1);
    let mut text = if digits == 0 { String::new() } else { format!("{after:0digits$x}") };
    match precision {
        None => text.truncate(text.trim_end_matches('0').len()),
        Some(wanted) => text.extend(std::iter::repeat_n('0', wanted.saturating_sub(13))),
    }
    let dot = if text.is_empty() && !alternate { "" } else { "." };
    format!("{lead}{dot}{text}p{exponent:+}")
}

pub(super) fn float(output: &mut Vec<u8>, layout: Layout, value: f64, style: Style, upper: bool) {
    let magnitude = value.abs();
    let mut sign = layout.sign(value.is_sign_negative()).to_owned();
    let precision = layout.precision.unwrap_or(6);
    let mut text = if magnitude.is_nan() {
        "nan".to_owned()
    } else if magnitude.is_infinite() {
        "inf".to_owned()
    } else {
        match style {
            Style::Fixed => point(fixed(magnitude, precision), layout.alternate),
            Style::Exponent => {
                let (digits, exponent) = scientific(magnitude, precision);
                with_exponent(&point(digits, layout.alternate), exponent)
            }
            Style::General => general(magnitude, precision, layout.alternate),
            Style::Hexadecimal => {
                sign.push_str("0x");
                hexadecimal(magnitude, layout.precision, layout.alternate)
            }
        }
    };
    if upper {
        text.make_ascii_uppercase();
        sign.make_ascii_uppercase();
    }
    layout.write(output, &sign, text.as_bytes(), magnitude.is_finite());
}
