//! Products of matrices, whose elements are spread over the lanes of a warp.
//!
//! A sum of floats is the exact sum, rounded once. PTX leaves order and rounding of the additions open, and hardware
//! drops bits: this is closer to the exact sum than hardware is. Doubles are added one product after another, each rounded
//! once. There is one NaN for floats and one for halves.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "elements are cut out of registers and put together"
)]

use super::Direction;
use super::half::{bfloat_to_single, double_to_half, half_to_single};
use super::warp::LANES;
use crate::ptx::ast::{Element, Product, Type};

/// What a lane brings: nothing for the first eight bytes, then 16 bytes of the first matrix, 8 of the second, and 16 of
/// what is added.
pub type Brought = [u64; 6];
/// What a lane gets.
pub type Got = [u64; 2];

/// The columns of the second matrix, and of the result.
const COLUMNS: usize = 8;
const ROWS: usize = 16;
const DEPTH: usize = 32;

/// Where the first matrix, the second one and the sum begin, in words.
const LEFT: usize = 2;
const RIGHT: usize = 6;
const SUM: usize = 8;

fn word(lane: &Brought, index: usize) -> u32 {
    (lane[index / 2] >> (32 * (index % 2))) as u32
}

/// An element of a register, as a double; all of them are exact.
fn number(element: Element, word: u32, part: usize) -> f64 {
    let half = (word >> (16 * part)) as u16;
    match element {
        Element::F16 => half_to_single(half).into(),
        Element::BF16 => bfloat_to_single(half).into(),
        _ => {
            let whole = f32::from_bits(word);
            let kept = if whole.is_nan() { whole } else { f32::from_bits(word & 0xffff_e000) };
            kept.into()
        }
    }
}

/// An element of a register, as an integer.
fn integer(element: Element, word: u32, part: usize) -> i64 {
    let byte = word.to_le_bytes()[part];
    if element == Element::S8 { byte.cast_signed().into() } else { byte.into() }
}

/// The elements of both matrices, by rows.
struct Matrices<T> {
    left: [[T; DEPTH]; ROWS],
    right: [[T; COLUMNS]; DEPTH],
}

impl<T: Copy + Default> Matrices<T> {
    fn new(
        product: &Product,
        lanes: &[Brought; LANES],
        read: impl Fn(Element, u32, usize) -> T,
    ) -> Self {
        let [first, second] = product.elements;
        let each = first.per_register();
        let mut all =
            Self { left: [[T::default(); DEPTH]; ROWS], right: [[T::default(); COLUMNS]; DEPTH] };
        for depth in 0..product.depth {
            // A group of four lanes has the elements of four registers, one after another.
            let (block, part) = (depth / (4 * each), depth % each);
            let lane = depth % (4 * each) / each;
            for row in 0..product.rows {
                let register = row / 8 + product.rows / 8 * block;
                let from = &lanes[row % 8 * 4 + lane];
                all.left[row][depth] = read(first, word(from, LEFT + register), part);
            }
            for (column, right) in all.right[depth].iter_mut().enumerate() {
                *right = read(second, word(&lanes[4 * column + lane], RIGHT + block), part);
            }
        }
        all
    }
}

/// `mma.sync` of a whole warp.
#[must_use]
pub fn multiply(product: &Product, lanes: &[Brought; LANES]) -> [Got; LANES] {
    match product.sum {
        Type::F64 => doubles(lanes),
        Type::S32 => integers(product, lanes),
        _ => floats(product, lanes),
    }
}

/// Spreads the elements of a result over the lanes: `sums` makes a row, of so many bits each.
fn spread(rows: usize, bits: usize, sums: impl Fn(usize) -> [u32; COLUMNS]) -> [Got; LANES] {
    let mut got = [[0_u64; 2]; LANES];
    for row in 0..rows {
        for (column, sum) in sums(row).into_iter().enumerate() {
            let (lane, place) = holder(row, column);
            let shift = bits * place;
            got[lane][shift / 64] |= u64::from(sum) << (shift % 64);
        }
    }
    got
}

/// The lane that has an element of the sum, and the element's number there.
const fn holder(row: usize, column: usize) -> (usize, usize) {
    (row % 8 * 4 + column / 2, row / 8 * 2 + column % 2)
}

fn integers(product: &Product, lanes: &[Brought; LANES]) -> [Got; LANES] {
    let all = Matrices::new(product, lanes, integer);
    spread(product.rows, 32, |row| {
        let mut sums = [0_i64; COLUMNS];
        for (column, sum) in sums.iter_mut().enumerate() {
            let (lane, place) = holder(row, column);
            *sum = i64::from(word(&lanes[lane], SUM + place).cast_signed());
        }
        for (a, right) in all.left[row].iter().zip(&all.right) {
            sums.iter_mut().zip(right).for_each(|(sum, b)| *sum += a * b);
        }
        sums.map(|sum| match product.saturate {
            true => sum.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as u32,
            false => sum as u32,
        })
    })
}

fn floats(product: &Product, lanes: &[Brought; LANES]) -> [Got; LANES] {
    let all = Matrices::new(product, lanes, number);
    let (halves, right) = (product.sum == Type::F16, &all.right[..product.depth]);
    spread(product.rows, if halves { 16 } else { 32 }, |row| {
        let mut starts = [0.0; COLUMNS];
        for (column, start) in starts.iter_mut().enumerate() {
            let (lane, place) = holder(row, column);
            *start = if halves {
                number(Element::F16, word(&lanes[lane], SUM + place / 2), place % 2)
            } else {
                f64::from(f32::from_bits(word(&lanes[lane], SUM + place)))
            };
        }
        let left = &all.left[row][..product.depth];
        if halves {
            let half = |sum| double_to_half(sum, Direction::Nearest).into();
            rounded_once(&starts, left, right, half)
        } else {
            rounded_once(&starts, left, right, single)
        }
    })
}

fn single(value: f64) -> u32 {
    if value.is_nan() { 0x7fff_ffff } else { (value as f32).to_bits() }
}

/// Adds a row's products with each column, each of which is exact as a double, and rounds each sum once.
fn rounded_once(
    starts: &[f64; COLUMNS],
    left: &[f64],
    right: &[[f64; COLUMNS]],
    narrow: impl Fn(f64) -> u32,
) -> [u32; COLUMNS] {
    let (mut sums, mut sizes) = (*starts, starts.map(f64::abs));
    for (a, right) in left.iter().zip(right) {
        for column in 0..COLUMNS {
            let product = a * right[column];
            sums[column] += product;
            sizes[column] += product.abs();
        }
    }
    let mut rounded = [0; COLUMNS];
    for column in 0..COLUMNS {
        let sum = sums[column];
        // Each addition loses at most half a unit in the last place of a sum that is no larger than the size.
        let lost = sizes[column] * f64::EPSILON * (left.len() + 1) as f64;
        let (least, most) = (narrow(sum - lost), narrow(sum + lost));
        rounded[column] = if !sum.is_finite() {
            narrow(sum)
        } else if least == most {
            least
        } else {
            let products = left.iter().zip(right).map(|(a, right)| a * right[column]);
            let exact = exact_sum(std::iter::once(starts[column]).chain(products));
            narrow(exact.unwrap_or(sum))
        };
    }
    rounded
}

/// The exact sum, rounded to the neighbour that is odd, so that rounding it to fewer digits rounds once. `None` if all
/// terms are zero.
fn exact_sum(terms: impl Iterator<Item = f64>) -> Option<f64> {
    // Doubles that do not overlap, the smallest first; their sum is exact.
    let mut parts: Vec<f64> = Vec::new();
    let mut any = false;
    for term in terms {
        any |= term != 0.0;
        let mut carried = term;
        let mut kept = 0;
        for index in 0..parts.len() {
            let (high, low) = two_sum(carried, parts[index]);
            if low != 0.0 {
                parts[kept] = low;
                kept += 1;
            }
            carried = high;
        }
        parts.truncate(kept);
        parts.push(carried);
    }
    if !any {
        return None;
    }
    let mut sum = 0.0;
    let mut rest = 0.0;
    while let Some(part) = parts.pop() {
        (sum, rest) = two_sum(sum, part);
        if rest != 0.0 {
            break;
        }
    }
    let is_odd = sum.to_bits() & 1 == 1;
    Some(match (rest > 0.0, rest < 0.0) {
        (true, _) if !is_odd => sum.next_up(),
        (_, true) if !is_odd => sum.next_down(),
        _ => sum,
    })
}

/// The rounded sum, and what it lacks.
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let of_b = sum - a;
    (sum, (a - (sum - of_b)) + (b - of_b))
}

fn doubles(lanes: &[Brought; LANES]) -> [Got; LANES] {
    let double = |lane: usize, first: usize| f64::from_bits(lanes[lane][first / 2]);
    let mut got = [[0_u64; 2]; LANES];
    for row in 0..8 {
        for column in 0..COLUMNS {
            let (lane, place) = (4 * row + column / 2, column % 2);
            let start = double(lane, SUM + 2 * place);
            let sum = (0..4).fold(start, |sum, depth| {
                double(4 * row + depth, LEFT).mul_add(double(4 * column + depth, RIGHT), sum)
            });
            got[lane][place] = sum.to_bits();
        }
    }
    got
}
