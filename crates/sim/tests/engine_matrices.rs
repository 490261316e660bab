//! Products of matrices against the PTX manual's tables, and sums against exact ones.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "elements are cut out of registers, and sums fit what they become"
)]

mod engine_support;

use engine_support::{ALL, MODES, Try, range};
use gpulend_sim::engine::FaultKind;

/// The manual's place of element `i` of a lane's fragment: row and column.
type Place = fn(usize, usize) -> (usize, usize);

/// One form of `mma`.
struct Form {
    name: &'static str,
    rows: usize,
    depth: usize,
    /// Bits of an element of the first two matrices, and of a sum.
    bits: (usize, usize),
    left: Place,
    right: Place,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Half,
    Bfloat,
    Tf32,
    Double,
    Signed,
    Mixed,
    Saturated,
}

const fn group(lane: usize) -> usize {
    lane >> 2
}

const fn place(lane: usize) -> usize {
    lane % 4
}

/// Every sum is spread the same way.
const fn sum_place(lane: usize, i: usize) -> (usize, usize) {
    (if i < 2 { group(lane) } else { group(lane) + 8 }, place(lane) * 2 + (i & 1))
}

fn k16_left(lane: usize, i: usize) -> (usize, usize) {
    let row = if i < 2 || (4..6).contains(&i) { group(lane) } else { group(lane) + 8 };
    (row, place(lane) * 2 + (i & 1) + if i >= 4 { 8 } else { 0 })
}

fn k16_right(lane: usize, i: usize) -> (usize, usize) {
    (place(lane) * 2 + (i & 1) + if i >= 2 { 8 } else { 0 }, group(lane))
}

fn k8_left(lane: usize, i: usize) -> (usize, usize) {
    (if i < 2 { group(lane) } else { group(lane) + 8 }, place(lane) * 2 + (i & 1))
}

fn k8_right(lane: usize, i: usize) -> (usize, usize) {
    (place(lane) * 2 + i, group(lane))
}

fn tf32_left(lane: usize, i: usize) -> (usize, usize) {
    let row = if i == 0 || i == 2 { group(lane) } else { group(lane) + 8 };
    (row, place(lane) + if i < 2 { 0 } else { 4 })
}

fn tf32_right(lane: usize, i: usize) -> (usize, usize) {
    (place(lane) + if i == 0 { 0 } else { 4 }, group(lane))
}

fn bytes_left(lane: usize, i: usize) -> (usize, usize) {
    let row = if i < 4 || (8..12).contains(&i) { group(lane) } else { group(lane) + 8 };
    (row, place(lane) * 4 + (i & 3) + if i < 8 { 0 } else { 16 })
}

fn bytes_right(lane: usize, i: usize) -> (usize, usize) {
    (place(lane) * 4 + (i & 3) + if i < 4 { 0 } else { 16 }, group(lane))
}

fn small_left(lane: usize, i: usize) -> (usize, usize) {
    (group(lane), place(lane) * 4 + i)
}

fn small_right(lane: usize, i: usize) -> (usize, usize) {
    (place(lane) * 4 + i, group(lane))
}

fn double_left(lane: usize, _: usize) -> (usize, usize) {
    (group(lane), place(lane))
}

fn double_right(lane: usize, _: usize) -> (usize, usize) {
    (place(lane), group(lane))
}

type Row = (&'static str, (usize, usize), (usize, usize), Place, Place, Kind);

#[rustfmt::skip]
const FORMS: [Row; 13] = [
    ("m16n8k8.row.col.f32.f16.f16.f32", (16, 8), (16, 32), k8_left, k8_right, Kind::Half),
    ("m16n8k8.row.col.f16.f16.f16.f16", (16, 8), (16, 16), k8_left, k8_right, Kind::Half),
    ("m16n8k16.row.col.f32.f16.f16.f32", (16, 16), (16, 32), k16_left, k16_right, Kind::Half),
    ("m16n8k16.row.col.f16.f16.f16.f16", (16, 16), (16, 16), k16_left, k16_right, Kind::Half),
    ("m16n8k8.row.col.f32.bf16.bf16.f32", (16, 8), (16, 32), k8_left, k8_right, Kind::Bfloat),
    ("m16n8k16.row.col.f32.bf16.bf16.f32", (16, 16), (16, 32), k16_left, k16_right, Kind::Bfloat),
    ("m16n8k4.row.col.f32.tf32.tf32.f32", (16, 4), (32, 32), tf32_left, tf32_right, Kind::Tf32),
    ("m16n8k8.row.col.f32.tf32.tf32.f32", (16, 8), (32, 32), tf32_left, tf32_right, Kind::Tf32),
    ("m8n8k4.row.col.f64.f64.f64.f64", (8, 4), (64, 64), double_left, double_right, Kind::Double),
    ("m8n8k16.row.col.s32.s8.s8.s32", (8, 16), (8, 32), small_left, small_right, Kind::Signed),
    ("m16n8k16.row.col.s32.u8.s8.s32", (16, 16), (8, 32), bytes_left, bytes_right, Kind::Mixed),
    ("m16n8k32.row.col.s32.s8.s8.s32", (16, 32), (8, 32), bytes_left, bytes_right, Kind::Signed),
    ("m16n8k32.row.col.satfinite.s32.s8.s8.s32", (16, 32), (8, 32), bytes_left, bytes_right, Kind::Saturated),
];

fn forms() -> Vec<Form> {
    let form = |row: &Row| {
        let &(name, (rows, depth), bits, left, right, kind) = row;
        Form { name, rows, depth, bits, left, right, kind }
    };
    FORMS.iter().map(form).collect()
}

/// Random numbers.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 16
    }

    /// A pattern of bits of an element; floats are near one, so that all sums fit the reference.
    fn element(&mut self, kind: Kind, bits: usize) -> u64 {
        let random = self.next();
        let sign = random >> 40 & 1;
        let digits = random & 0xffff_ffff;
        match (kind, bits) {
            (Kind::Signed | Kind::Mixed, _) => random & ((1 << bits) - 1),
            (Kind::Saturated, 8) => random & 0xff,
            // Near the ends, so that sums leave them.
            (Kind::Saturated, _) => 0x7fff_f000 ^ (0xffff_ffff * sign),
            (Kind::Half, 16) => sign << 15 | (8 + digits % 14) << 10 | (digits >> 8 & 0x3ff),
            (Kind::Bfloat, 16) => sign << 15 | (117 + digits % 20) << 7 | (digits >> 8 & 0x7f),
            (Kind::Double, _) => (f64::from(digits as u32) - 2e9).to_bits(),
            _ => sign << 31 | (115 + digits % 24) << 23 | (random >> 8 & 0x7f_ffff),
        }
    }
}

/// A float as an integer times two to the power of -80.
fn exactly(kind: Kind, bits: u64, width: usize) -> i128 {
    let value = match (kind, width) {
        (Kind::Half, 16) => {
            let exponent = (bits >> 10 & 31) as i32;
            let digits = (bits & 0x3ff) as f64;
            let size = if exponent == 0 {
                digits * 2_f64.powi(-24)
            } else {
                (1024.0 + digits) * 2_f64.powi(exponent - 25)
            };
            if bits >> 15 & 1 == 1 { -size } else { size }
        }
        (Kind::Bfloat, 16) => f64::from(f32::from_bits((bits << 16) as u32)),
        _ => f64::from(f32::from_bits(bits as u32)),
    };
    let scaled = value * 2_f64.powi(40);
    assert!(scaled.abs() < 2_f64.powi(80) && scaled.fract() == 0.0, "{value} leaves the reference");
    scaled as i128
}

/// The nearest float with so many digits of an integer times two to the power of -80, ties to even.
fn nearest(sum: i128, digits: u32) -> f64 {
    let size = sum.unsigned_abs();
    let length = 128 - size.leading_zeros();
    let rounded = if length <= digits {
        size as f64
    } else {
        let drop = length - digits;
        let (kept, rest, half) = (size >> drop, size & ((1 << drop) - 1), 1_u128 << (drop - 1));
        let up = rest > half || (rest == half && kept & 1 == 1);
        (kept + u128::from(up)) as f64 * 2_f64.powi(drop as i32)
    };
    let value = rounded * 2_f64.powi(-80);
    if sum < 0 { -value } else { value }
}

fn single_of_half(bits: u64) -> f64 {
    exactly(Kind::Half, bits, 16) as f64 * 2_f64.powi(-40)
}

/// One element of the result by the definition, compared with what was found.
fn check(form: &Form, left: &[u64], right: &[u64], start: u64, found: u64) {
    let name = form.name;
    match form.kind {
        Kind::Double => {
            let sum = left.iter().zip(right).fold(f64::from_bits(start), |sum, (a, b)| {
                f64::from_bits(*a).mul_add(f64::from_bits(*b), sum)
            });
            assert_eq!(f64::from_bits(found), sum, "{name}");
        }
        Kind::Signed | Kind::Mixed | Kind::Saturated => {
            let signed = |bits: u64| i64::from(bits as u8 as i8);
            let first = |bits| if form.kind == Kind::Mixed { bits as i64 } else { signed(bits) };
            let start = i64::from(start as u32 as i32);
            let sum =
                left.iter().zip(right).fold(start, |sum, (a, b)| sum + first(*a) * signed(*b));
            let sum = match form.kind {
                Kind::Saturated => sum.clamp(i32::MIN.into(), i32::MAX.into()) as i32,
                _ => sum as i32,
            };
            assert_eq!(found as u32 as i32, sum, "{name}");
        }
        kind => {
            let cut = |bits: u64| if kind == Kind::Tf32 { bits & 0xffff_e000 } else { bits };
            let term = |bits: &u64| exactly(kind, cut(*bits), form.bits.0);
            let start = exactly(kind, start, form.bits.1) << 40;
            let sum = left.iter().zip(right).fold(start, |sum, (a, b)| sum + term(a) * term(b));
            if form.bits.1 == 16 {
                assert_eq!(single_of_half(found), nearest(sum, 11), "{name}");
            } else {
                assert_eq!(f64::from(f32::from_bits(found as u32)), nearest(sum, 24), "{name}");
            }
        }
    }
}

/// A kernel that loads fragments of every lane, multiplies, and stores the result behind them.
fn kernel(form: &Form, counts: [usize; 3]) -> Try {
    let (ty, bytes) = if form.bits.1 == 64 { ("b64", 8) } else { ("b32", 4) };
    let total: usize = counts.iter().sum::<usize>() + counts[2];
    let names = |from: usize, count: usize| {
        let all: Vec<String> = (from..from + count).map(|one| format!("%x{one}")).collect();
        format!("{{{}}}", all.join(", "))
    };
    let loads: String = (0..total - counts[2])
        .map(|one| format!("ld.global.{ty} %x{one}, [%rd3+{}];\n", one * bytes))
        .collect();
    let stores: String = (total - counts[2]..total)
        .map(|one| format!("st.global.{ty} [%rd3+{}], %x{one};\n", one * bytes))
        .collect();
    let [a, b, c] = counts;
    Try::newer(&format!(
        ".visible .entry k(.param .u64 p) {{ .reg .{ty} %x<{total}>; .reg .b64 %rd<4>; .reg .b32 %r<3>;
        ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, {}; add.u64 %rd3, %rd1, %rd2;
        {loads}
        mma.sync.aligned.{} {}, {}, {}, {};
        {stores} ret; }}",
        total * bytes,
        form.name,
        names(a + b + c, c),
        names(0, a),
        names(a, b),
        names(a + b, c),
    ))
    .shape(1, 32)
}

#[test]
fn each_product_is_the_exact_sum_rounded_once() {
    let mut random = Random(7);
    for form in forms() {
        let (each, sums) = form.bits;
        let register = if sums == 64 { 64 } else { 32 };
        let per = register / each;
        let counts = [
            form.rows * form.depth / 32 / per,
            8 * form.depth / 32 / per,
            form.rows * 8 / 32 / (register / sums),
        ];
        let total = counts.iter().sum::<usize>() + counts[2];
        let tested = kernel(&form, counts);
        for _ in 0..6 {
            let elements: Vec<Vec<u64>> = counts
                .iter()
                .zip([each, each, sums])
                .map(|(count, bits)| {
                    (0..32 * count * register / bits)
                        .map(|_| random.element(form.kind, bits))
                        .collect()
                })
                .collect();
            let mut memory = vec![0_u8; 32 * total * register / 8];
            let element = |matrix: usize, lane: usize, i: usize| {
                let count = elements[matrix].len() / 32;
                elements[matrix][lane * count + i]
            };
            let mut at = [0; 4];
            for matrix in 0..3 {
                at[matrix + 1] = at[matrix] + counts[matrix] * register / 8;
            }
            let lane_bytes = total * register / 8;
            for lane in 0..32 {
                for (matrix, bits) in [each, each, sums].into_iter().enumerate() {
                    for i in 0..elements[matrix].len() / 32 {
                        let start = lane * lane_bytes + at[matrix] + i * bits / 8;
                        let bytes = element(matrix, lane, i).to_le_bytes();
                        memory[start..start + bits / 8].copy_from_slice(&bytes[..bits / 8]);
                    }
                }
            }
            let reach = range(&mut memory);
            tested.run(&[reach.0], &[reach]).unwrap_or_else(|fault| panic!("{}", fault.what));
            let (mut left, mut right) =
                (vec![vec![0; form.depth]; form.rows], vec![vec![0; form.depth]; 8]);
            for lane in 0..32 {
                for i in 0..elements[0].len() / 32 {
                    let (row, column) = (form.left)(lane, i);
                    left[row][column] = element(0, lane, i);
                }
                for i in 0..elements[1].len() / 32 {
                    let (row, column) = (form.right)(lane, i);
                    right[column][row] = element(1, lane, i);
                }
            }
            for lane in 0..32 {
                for i in 0..elements[2].len() / 32 {
                    let (row, column) = sum_place(lane, i);
                    let start = lane * lane_bytes + at[3] + i * sums / 8;
                    let mut found = [0; 8];
                    found[..sums / 8].copy_from_slice(&memory[start..start + sums / 8]);
                    let found = u64::from_le_bytes(found);
                    check(&form, &left[row], &right[column], element(2, lane, i), found);
                }
            }
        }
    }
}

/// One sum: the first row times the first column, of elements that repeat.
fn one(left: &[f32], right: &[f32], start: f32) -> u32 {
    let form = &forms()[7];
    let tested = kernel(form, [4, 2, 4]);
    let mut memory = vec![0_u32; 32 * 14];
    for lane in 0..4 {
        for (register, depth) in [(0, lane), (2, lane + 4)] {
            memory[14 * lane + register] = left[depth].to_bits();
        }
        for (register, depth) in [(4, lane), (5, lane + 4)] {
            memory[14 * lane + register] = right[depth].to_bits();
        }
    }
    memory[6] = start.to_bits();
    let reach = range(&mut memory);
    tested.run(&[reach.0], &[reach]).unwrap_or_else(|fault| panic!("{}", fault.what));
    memory[10]
}

#[test]
fn sums_at_the_edges() {
    let ones = [1.0; 8];
    let mut terms = [0.0_f32; 8];
    assert_eq!(one(&terms, &ones, -0.0), 0, "-0 and products that are +0");
    assert_eq!(one(&[-0.0; 8], &ones, -0.0), (-0.0_f32).to_bits());
    // What cancels leaves nothing behind but the smallest term.
    terms = [2_f32.powi(100), 2_f32.powi(-60), -(2_f32.powi(100)), 0.0, 0.0, 0.0, 0.0, 0.0];
    assert_eq!(f32::from_bits(one(&terms, &ones, 0.0)), 2_f32.powi(-60));
    // A tie, and a tie that a term far below decides.
    terms = [1.0, 2_f32.powi(-24), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    assert_eq!(f32::from_bits(one(&terms, &ones, 0.0)), 1.0);
    terms[2] = 2_f32.powi(-120);
    assert_eq!(f32::from_bits(one(&terms, &ones, 0.0)), 1.0 + f32::EPSILON);
    terms[2] = -(2_f32.powi(-120));
    assert_eq!(f32::from_bits(one(&terms, &ones, 2_f32.powi(-23))), 1.0 + f32::EPSILON);
    // A sum that leaves floats and comes back, one that does not, and what is no number.
    let large = [2_f32.powi(100); 8];
    terms = [
        2_f32.powi(100),
        2_f32.powi(100),
        -(2_f32.powi(100)),
        -(2_f32.powi(100)),
        0.0,
        0.0,
        0.0,
        0.0,
    ];
    assert_eq!(f32::from_bits(one(&terms, &large, 3.0)), 3.0);
    assert_eq!(f32::from_bits(one(&large, &large, 3.0)), f32::INFINITY);
    terms = [f32::INFINITY, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    assert_eq!(f32::from_bits(one(&terms, &ones, f32::MIN)), f32::INFINITY);
    assert_eq!(one(&terms, &[0.0; 8], 0.0), 0x7fff_ffff);
    // Digits that tf32 lacks do not count.
    terms = [1.0 + f32::EPSILON, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    assert_eq!(f32::from_bits(one(&terms, &ones, 0.0)), 1.0);
}

#[test]
fn floats_are_rounded_to_tf32_with_ties_away_from_zero() {
    let tested = Try::newer(
        ".visible .entry k(.param .u64 p) { .reg .b32 %r<3>; .reg .b64 %rd<2>;
        ld.param.u64 %rd1, [p]; ld.global.b32 %r1, [%rd1]; cvt.rna.tf32.f32 %r2, %r1; st.global.b32 [%rd1], %r2; ret; }",
    );
    for (given, wanted) in [
        (0x3f80_0fff_u32, 0x3f80_0000_u32),
        (0x3f80_1000, 0x3f80_2000),
        (0xbf80_1000, 0xbf80_2000),
        (0x3f80_3000, 0x3f80_4000),
        (0x3fff_f000, 0x4000_0000),
        (0x7f7f_ffff, 0x7f80_0000),
        (0x7f80_0000, 0x7f80_0000),
        (0x7f80_0001, 0x7fff_ffff),
        (0x0000_1000, 0x0000_2000),
        (0x8000_0000, 0x8000_0000),
    ] {
        let mut memory = [given];
        let reach = range(&mut memory);
        tested.run(&[reach.0], &[reach]).unwrap_or_else(|fault| panic!("{}", fault.what));
        assert_eq!(memory[0], wanted, "{given:#x}");
    }
}

/// Each lane fills words of its row of 32 bytes with numbers, then the warp loads matrices at `%r3`.
fn loads(count: usize, transposed: &str, filled: usize, body: &str) -> String {
    let registers: Vec<String> = (0..count).map(|one| format!("%x{one}")).collect();
    let stores: String =
        (0..count).map(|one| format!("st.global.b32 [%rd3+{}], %x{one};\n", 4 * one)).collect();
    let fill: String = (0..filled)
        .map(|one| {
            format!("add.u32 %r5, %r4, {}; st.shared.b32 [%r3+{}], %r5;\n", one * 0x2_0002, 4 * one)
        })
        .collect();
    format!(
        ".visible .entry k(.param .u64 p) {{ .reg .b32 %x<5>; .reg .b64 %rd<4>; .reg .b32 %r<8>; .reg .pred %p<3>;
        .shared .align 16 .b8 tile[1024];
        ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 16; add.u64 %rd3, %rd1, %rd2;
        mov.u32 %r2, tile; shl.b32 %r6, %r1, 5; add.u32 %r3, %r2, %r6;
        mul.lo.u32 %r4, %r1, 0x00200020; add.u32 %r4, %r4, 0x00010000;
        {fill} {body}
        ldmatrix.sync.aligned.m8n8.x{count}{transposed}.shared.b16 {{{}}}, [%r3];
        {stores} ret; }}",
        registers.join(", ")
    )
}

#[test]
fn each_lane_gets_its_elements_of_each_matrix() {
    // Row r has the elements 32r, 32r + 1 and so on.
    for count in [1, 2, 4] {
        for transposed in ["", ".trans"] {
            for checks in MODES {
                let tested = Try::new(&loads(count, transposed, 8, "bar.warp.sync -1;"));
                let found = tested.shape(1, 32).checks(checks).words(128).unwrap();
                for lane in 0..32_u32 {
                    for matrix in 0..count as u32 {
                        let (group, place) = (lane / 4, lane % 4);
                        let element = |row: u32, column: u32| 32 * (8 * matrix + row) + column;
                        let [low, high] = match transposed {
                            "" => [element(group, 2 * place), element(group, 2 * place + 1)],
                            _ => [element(2 * place, group), element(2 * place + 1, group)],
                        };
                        let word = found[(4 * lane + matrix) as usize];
                        assert_eq!(word, low | high << 16, "x{count}{transposed} {lane} {matrix}");
                    }
                }
            }
        }
    }
}

#[test]
fn mistakes_with_matrices_are_found() {
    for (body, threads, kind, says) in [
        // The warp reads what its lanes wrote, and nothing orders them.
        ("", 32, FaultKind::Race, "reads 4 bytes of shared memory at offset 256, which thread 8"),
        (
            "bar.warp.sync -1; add.u32 %r3, %r3, 4;",
            32,
            FaultKind::Misaligned,
            "reads 16 bytes at 0x4",
        ),
        (
            "bar.warp.sync -1; add.u32 %r3, %r3, 800;",
            32,
            FaultKind::OutOfBounds,
            "reads 16 bytes of shared memory at offset 1024, of which there are 1024",
        ),
        (
            "bar.warp.sync -1; add.u32 %r3, %r3, 16;",
            32,
            FaultKind::Uninitialised,
            "at offset 16, which no thread",
        ),
        // Some lanes have ended, or are not there, or are elsewhere.
        (
            "setp.eq.u32 %p1, %r1, 9; @%p1 ret; bar.warp.sync 0xfffffdff;",
            32,
            FaultKind::WarpDeadlock,
            "with 31 lanes",
        ),
        ("bar.warp.sync 0xffff;", 16, FaultKind::WarpDeadlock, "with 16 lanes"),
        ("setp.eq.u32 %p1, %r1, 9; @%p1 bar.sync 0;", 32, FaultKind::WarpDeadlock, "never come"),
    ] {
        // Of each row only half may be written.
        let filled = if kind == FaultKind::Uninitialised { 4 } else { 8 };
        let text = loads(4, "", filled, body);
        let fault = Try::new(&text).shape(1, threads).checks(ALL).words(128).unwrap_err();
        assert_eq!(fault.kind, kind, "{body}: {}", fault.what);
        assert!(fault.what.contains(says), "{body}: {}", fault.what);
    }
}
