//! Functions that hardware only approaches: near the true value, and right at the edges.

use crate::compare::{Case, Outcome};

/// An instruction, the true function, and how far from it a result may be.
struct Approximation {
    instruction: &'static str,
    truth: fn(f64, f64) -> f64,
    /// Relative to the result, as a power of two.
    relative: i32,
    /// Or absolute, as a power of two.
    absolute: i32,
}

/// No absolute distance is allowed.
const NEVER: i32 = -1000;

const APPROXIMATIONS: [Approximation; 10] = [
    Approximation {
        instruction: "sin.approx.f32 %z, %x",
        truth: |x, _| x.sin(),
        relative: -21,
        absolute: -20,
    },
    Approximation {
        instruction: "cos.approx.f32 %z, %x",
        truth: |x, _| x.cos(),
        relative: -21,
        absolute: -20,
    },
    Approximation {
        instruction: "ex2.approx.f32 %z, %x",
        truth: |x, _| x.exp2(),
        relative: -21,
        absolute: NEVER,
    },
    Approximation {
        instruction: "lg2.approx.f32 %z, %x",
        truth: |x, _| x.log2(),
        relative: -21,
        absolute: -21,
    },
    Approximation {
        instruction: "rcp.approx.f32 %z, %x",
        truth: |x, _| x.recip(),
        relative: -22,
        absolute: NEVER,
    },
    Approximation {
        instruction: "rsqrt.approx.f32 %z, %x",
        truth: |x, _| x.sqrt().recip(),
        relative: -22,
        absolute: NEVER,
    },
    Approximation {
        instruction: "sqrt.approx.f32 %z, %x",
        truth: |x, _| x.sqrt(),
        relative: -22,
        absolute: NEVER,
    },
    Approximation {
        instruction: "tanh.approx.f32 %z, %x",
        truth: |x, _| x.tanh(),
        relative: -10,
        absolute: NEVER,
    },
    Approximation {
        instruction: "div.approx.f32 %z, %x, %y",
        truth: |x, y| x / y,
        relative: -21,
        absolute: NEVER,
    },
    Approximation {
        instruction: "div.full.f32 %z, %x, %y",
        truth: |x, y| x / y,
        relative: -21,
        absolute: NEVER,
    },
];

/// Values within a period of sine, whose functions are no subnormal numbers, and the edges.
const VALUES: [f32; 32] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    2.0,
    3.0,
    -3.0,
    0.1,
    -0.1,
    1.5,
    -1.5,
    2.5,
    -2.5,
    0.75,
    0.7,
    1e-5,
    -1e-5,
    1e-3,
    -1e-3,
    0.25,
    -0.25,
    1.25,
    -1.25,
    3.1,
    -3.1,
    1.000_000_1,
    0.999_999_9,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    1.75,
];

fn case() -> Result<Case, String> {
    let mut text = String::from(
        ".version 7.8\n.target sm_75\n.address_size 64
.visible .entry kernel(.param .u64 in, .param .u64 out) {
    .reg .b32 %t; .reg .b64 %in; .reg .b64 %out; .reg .b64 %wide; .reg .f32 %x; .reg .f32 %y; .reg .f32 %z;
    mov.u32 %t, %tid.x; ld.param.u64 %in, [in]; ld.param.u64 %out, [out];
    mul.wide.u32 %wide, %t, 4; add.u64 %in, %in, %wide; add.u64 %out, %out, %wide;
    ld.global.f32 %x, [%in]; ld.global.f32 %y, [%in+128];\n",
    );
    for (index, approximation) in APPROXIMATIONS.iter().enumerate() {
        text += &format!(
            "    {};\n    st.global.f32 [%out+{}], %z;\n",
            approximation.instruction,
            index * 128
        );
    }
    text += "    ret;\n}\n";
    let second = VALUES.iter().rev();
    let input = VALUES.iter().chain(second).flat_map(|value| value.to_le_bytes()).collect();
    Case::of(text, [1, 1, 1], [32, 1, 1], vec![input, vec![0; APPROXIMATIONS.len() * 128]])
}

fn check(outcome: &Outcome) {
    let results: Vec<f64> = outcome
        .buffer(1)
        .chunks_exact(4)
        .map(|bytes| f64::from(f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])))
        .collect();
    for (approximation, results) in APPROXIMATIONS.iter().zip(results.chunks(32)) {
        for (index, found) in results.iter().enumerate() {
            let (x, y) = (f64::from(VALUES[index]), f64::from(VALUES[31 - index]));
            let truth = (approximation.truth)(x, y);
            let distance = (found - truth).abs();
            let allowed = (truth.abs() * 2_f64.powi(approximation.relative))
                .max(2_f64.powi(approximation.absolute));
            let near = if truth.is_finite() { distance <= allowed } else { truth == *found };
            let both_nan = truth.is_nan() && found.is_nan();
            assert!(
                near || both_nan,
                "{} of {x:e}, {y:e}: {found:e}, not {truth:e}",
                approximation.instruction
            );
        }
    }
}

#[test]
fn the_interpreter_is_near_the_truth() {
    check(&case().unwrap().interpret(None).unwrap());
}

#[test]
fn the_engine_is_near_the_truth() {
    check(&case().unwrap().execute().unwrap());
}

#[test]
#[should_panic(expected = "ex2.approx.f32")]
fn a_result_that_is_far_off_is_found() {
    let mut outcome = case().unwrap().interpret(None).unwrap();
    let place = (2 * 32 + 6) * 4;
    let byte = outcome.buffer(1)[place + 1];
    outcome.change(1, place + 1, byte ^ 1);
    check(&outcome);
}
