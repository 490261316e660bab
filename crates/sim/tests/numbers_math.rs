//! C's mathematics, called by address as compiled code calls it, against the C library.

#![expect(clippy::cast_possible_truncation, reason = "any float will do")]

use std::ffi::CString;

use gpulend_sim::engine::numbers::{self, Extern, math};
use gpulend_sim::ptx::ast::Type::{self, F32, F64, S32};

/// Names that are wanted for doubles, and with an `f` for floats.
const WANTED: &str = "sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh exp exp2 exp10 expm1 log log2 \
    log10 log1p pow cbrt hypot erf erfc tgamma lgamma fmod remainder nextafter ldexp scalbn logb ilogb fdim j0 j1 y0 \
    y1 sinpi cospi rsqrt floor ceil trunc round rint nearbyint sqrt fabs copysign fmin fmax fma";

/// Those the C library may lack; they have tests of their own.
const OWN: [&str; 6] = ["sinpi", "sinpif", "cospi", "cospif", "rsqrt", "rsqrtf"];

/// Where functions begin, end and turn, and any.
fn values() -> Vec<f64> {
    let mut random = fastrand::Rng::with_seed(29);
    let mut values = vec![
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        1.5,
        2.0,
        -2.0,
        3.0,
        10.0,
        -10.0,
        100.0,
        -100.5,
        1e-3,
        1e-10,
        1e10,
        1e30,
        -1e30,
        1e-40,
        1e-310,
        1e300,
        -1e300,
        170.5,
        171.7,
        -170.5,
        0.999_999,
        1.000_001,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        f64::MAX,
        f64::MIN,
        f64::MIN_POSITIVE,
        5e-324,
    ];
    values.extend(std::iter::repeat_with(|| random.f64() * 20.0 - 10.0).take(100));
    values.extend(std::iter::repeat_with(|| f64::from_bits(random.u64(..))).take(100));
    values
}

fn call(address: usize, function: &Extern, arguments: &[f64], integer: i32) -> f64 {
    let pointer = std::ptr::with_exposed_provenance::<()>(address);
    let single = |place: usize| arguments[place] as f32;
    let double = |place: usize| arguments[place];
    macro_rules! call {
        (($($ty:ty),*) -> $result:ty, $($argument:expr),*) => {{
            // SAFETY: the table says that the function has this type; that of C has the same.
            let function = unsafe { std::mem::transmute::<*const (), extern "C" fn($($ty),*) -> $result>(pointer) };
            f64::from(function($($argument),*))
        }};
    }
    match (function.params, function.result) {
        ([F64], F64) => call!((f64) -> f64, double(0)),
        ([F32], F32) => call!((f32) -> f32, single(0)),
        ([F64], S32) => call!((f64) -> i32, double(0)),
        ([F32], S32) => call!((f32) -> i32, single(0)),
        ([F64, F64], F64) => call!((f64, f64) -> f64, double(0), double(1)),
        ([F32, F32], F32) => call!((f32, f32) -> f32, single(0), single(1)),
        ([F64, S32], F64) => call!((f64, i32) -> f64, double(0), integer),
        ([F32, S32], F32) => call!((f32, i32) -> f32, single(0), integer),
        ([F64, F64, F64], F64) => call!((f64, f64, f64) -> f64, double(0), double(1), double(2)),
        ([F32, F32, F32], F32) => call!((f32, f32, f32) -> f32, single(0), single(1), single(2)),
        other => panic!("no call for {other:?}"),
    }
}

fn library(name: &str) -> Option<usize> {
    let name = CString::new(name).ok()?;
    // SAFETY: the name ends in NUL.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then(|| found.expose_provenance())
}

/// How far a result may be from that of C: a few places of the last digit, or a little beside zeros of the function.
fn near(function: &Extern, found: f64, wanted: f64) -> bool {
    if found.is_nan() || wanted.is_nan() {
        return found.is_nan() == wanted.is_nan();
    }
    let base = function.name.trim_end_matches('f');
    if found == wanted {
        // C lets `fmin` and `fmax` give any zero.
        let open = matches!(base, "fmin" | "fmax");
        return found != 0.0 || open || found.is_sign_negative() == wanted.is_sign_negative();
    }
    let single = function.params[0] == F32;
    let (digit, least) =
        if single { (f64::from(f32::EPSILON), 1e-44) } else { (f64::EPSILON, 1e-322) };
    let (places, beside_zero) = match base {
        "lgamma" | "tgamma" => (16.0, 8.0 * digit),
        "j0" | "j1" | "y0" | "y1" => (16.0, 16.0 * digit),
        _ => (4.0, least),
    };
    (found - wanted).abs() <= (places * digit * wanted.abs()).max(beside_zero)
}

#[test]
fn every_name_that_is_wanted_is_there_for_both_types() {
    for name in WANTED.split_whitespace() {
        let double = math::find(name).unwrap_or_else(|| panic!("{name} is missing"));
        let single =
            math::find(&format!("{name}f")).unwrap_or_else(|| panic!("{name}f is missing"));
        assert_eq!((double.params[0], single.params[0]), (F64, F32));
        assert_eq!(double.params.len(), single.params.len());
    }
    assert_eq!(math::all().len(), 2 * WANTED.split_whitespace().count());
    assert!(math::find("nothing").is_none());
}

#[test]
fn results_are_those_of_the_c_library() {
    let values = values();
    let mut wrong = Vec::new();
    let mut compared = 0;
    for function in math::all() {
        let Some(theirs) = library(function.name) else {
            assert!(OWN.contains(&function.name), "the C library has no {}", function.name);
            continue;
        };
        for (place, first) in values.iter().enumerate() {
            let seconds: &[f64] = if function.params.len() > 1 { &values } else { &[0.0] };
            for second in seconds.iter().step_by(if place < 35 { 1 } else { 7 }) {
                let integer = (*second as i32).clamp(-3000, 3000);
                let arguments = [*first, *second, values[(place * 7) % values.len()]];
                let found = call(function.address, function, &arguments, integer);
                let wanted = call(theirs, function, &arguments, integer);
                compared += 1;
                if !near(function, found, wanted) {
                    wrong.push(format!(
                        "{} of {arguments:?} {integer}: {found:e}, not {wanted:e}",
                        function.name
                    ));
                }
            }
        }
    }
    assert!(compared > 100_000);
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(40)].join("\n")
    );
}

#[test]
fn half_turns_are_exact_at_the_quarters() {
    for turns in -40..=40 {
        let value = f64::from(turns) / 2.0;
        let sine = [0.0, 1.0, 0.0, -1.0][usize::try_from(i32::rem_euclid(turns, 4)).unwrap()];
        let cosine = [1.0, 0.0, -1.0, 0.0][usize::try_from(i32::rem_euclid(turns, 4)).unwrap()];
        assert_eq!((math::sinpi(value), math::cospi(value)), (sine, cosine), "{value}");
        assert_eq!(math::sinpif(value as f32), sine as f32);
    }
    for step in -4000..4000 {
        let value = f64::from(step) / 997.0;
        assert!(
            (math::sinpi(value) - (value * std::f64::consts::PI).sin()).abs() < 4e-15,
            "{value}"
        );
        assert!(
            (math::cospi(value) - (value * std::f64::consts::PI).cos()).abs() < 4e-15,
            "{value}"
        );
    }
    assert!(math::sinpi(-0.0).is_sign_negative());
    assert!(math::sinpi(-3.0).is_sign_negative());
    assert!(math::sinpi(f64::INFINITY).is_nan() && math::cospi(f64::NAN).is_nan());
    assert_eq!((math::rsqrt(0.25), math::rsqrtf(-0.0)), (2.0, f32::NEG_INFINITY));
}

#[test]
fn of_two_zeros_the_negative_is_the_lower() {
    assert_eq!([math::fmin(0.0, -0.0), math::fmin(-0.0, 0.0)].map(f64::to_bits), [1 << 63; 2]);
    assert_eq!([math::fmaxf(0.0, -0.0), math::fmaxf(-0.0, 0.0)].map(f32::to_bits), [0; 2]);
}

#[test]
fn the_functions_of_instructions_are_found_by_name() {
    let found = numbers::find("add_f32_zero").unwrap();
    assert_eq!((found.params, found.result), ([F32, F32].as_slice(), F32));
    let found = numbers::find("f64_to_bf16_up").unwrap();
    assert_eq!((found.params, found.result), ([F64].as_slice(), Type::BF16));
    assert!(numbers::find("add_f32_sideways").is_none());
    let names: std::collections::BTreeSet<_> = numbers::all().iter().map(|one| one.name).collect();
    assert_eq!(names.len(), numbers::all().len());
    assert!(
        numbers::all().iter().all(|one| numbers::find(one.name) == Some(one) && one.address != 0)
    );
}
