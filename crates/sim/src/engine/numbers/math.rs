//! C's mathematical functions by their names in C: `sin` of doubles, `sinf` of floats.
//!
//! They use Rust's standard library if it has the function, otherwise the crate `libm`.

use std::f64::consts::PI;
use std::sync::LazyLock;

use super::Extern;
use super::externs::externs;

/// The sine of half turns, exact at the quarters: the rest of the turn is exact, and small before it is scaled.
fn sine_of_half_turns(value: f64) -> f64 {
    if value.is_infinite() {
        return f64::NAN;
    }
    let rest = value % 2.0;
    let size = rest.abs();
    let sine = if size <= 0.25 {
        (PI * size).sin()
    } else if size <= 0.75 {
        (PI * (0.5 - size)).cos()
    } else if size <= 1.25 {
        (PI * (1.0 - size)).sin()
    } else if size <= 1.75 {
        -(PI * (1.5 - size)).cos()
    } else {
        (PI * (size - 2.0)).sin()
    };
    if sine == 0.0 { 0.0_f64.copysign(value) } else { sine.copysign(sine * value.signum()) }
}

/// The cosine of half turns, exact at the quarters.
fn cosine_of_half_turns(value: f64) -> f64 {
    if value.is_infinite() {
        return f64::NAN;
    }
    let size = value.abs() % 2.0;
    if size <= 0.25 {
        (PI * size).cos()
    } else if size <= 0.75 {
        (PI * (0.5 - size)).sin()
    } else if size <= 1.25 {
        -(PI * (1.0 - size)).cos()
    } else if size <= 1.75 {
        (PI * (size - 1.5)).sin()
    } else {
        (PI * (size - 2.0)).cos()
    }
}

/// The exponent, as a float: negative infinity for 0, infinity for infinity.
fn exponent(value: f64) -> f64 {
    if value == 0.0 {
        f64::NEG_INFINITY
    } else if value.is_finite() {
        libm::ilogb(value).into()
    } else {
        value * value
    }
}

/// `libm::j1` loses the sign of infinity.
fn bessel_1(value: f64) -> f64 {
    if value.is_infinite() { 0.0_f64.copysign(value) } else { libm::j1(value) }
}

/// `libm::acoshf` returns numbers below 1, where the result is NaN.
fn acosh_single(value: f32) -> f32 {
    if value < 1.0 { f32::NAN } else { libm::acoshf(value) }
}

#[expect(clippy::cast_possible_truncation, reason = "the result is a float")]
fn single(value: f64) -> f32 {
    value as f32
}

externs! {
    /// The sine.
    sin(a: F64) -> F64 = a.sin();
    /// The sine.
    sinf(a: F32) -> F32 = a.sin();
    /// The cosine.
    cos(a: F64) -> F64 = a.cos();
    /// The cosine.
    cosf(a: F32) -> F32 = a.cos();
    /// The tangent.
    tan(a: F64) -> F64 = a.tan();
    /// The tangent.
    tanf(a: F32) -> F32 = a.tan();
    /// The inverse sine.
    asin(a: F64) -> F64 = a.asin();
    /// The inverse sine.
    asinf(a: F32) -> F32 = a.asin();
    /// The inverse cosine.
    acos(a: F64) -> F64 = a.acos();
    /// The inverse cosine.
    acosf(a: F32) -> F32 = a.acos();
    /// The inverse tangent.
    atan(a: F64) -> F64 = a.atan();
    /// The inverse tangent.
    atanf(a: F32) -> F32 = a.atan();
    /// The hyperbolic sine.
    sinh(a: F64) -> F64 = a.sinh();
    /// The hyperbolic sine.
    sinhf(a: F32) -> F32 = a.sinh();
    /// The hyperbolic cosine.
    cosh(a: F64) -> F64 = a.cosh();
    /// The hyperbolic cosine.
    coshf(a: F32) -> F32 = a.cosh();
    /// The hyperbolic tangent.
    tanh(a: F64) -> F64 = a.tanh();
    /// The hyperbolic tangent.
    tanhf(a: F32) -> F32 = a.tanh();
    /// `e` to the power of `a`.
    exp(a: F64) -> F64 = a.exp();
    /// `e` to the power of `a`.
    expf(a: F32) -> F32 = a.exp();
    /// Two to the power of `a`.
    exp2(a: F64) -> F64 = a.exp2();
    /// Two to the power of `a`.
    exp2f(a: F32) -> F32 = a.exp2();
    /// The cube root.
    cbrt(a: F64) -> F64 = a.cbrt();
    /// The cube root.
    cbrtf(a: F32) -> F32 = a.cbrt();
    /// The logarithm to base 2.
    log2(a: F64) -> F64 = a.log2();
    /// The logarithm to base 2.
    log2f(a: F32) -> F32 = a.log2();
    /// The logarithm to base 10.
    log10(a: F64) -> F64 = a.log10();
    /// The logarithm to base 10.
    log10f(a: F32) -> F32 = a.log10();
    /// The square root.
    sqrt(a: F64) -> F64 = a.sqrt();
    /// The square root.
    sqrtf(a: F32) -> F32 = a.sqrt();
    /// To an integer, down.
    floor(a: F64) -> F64 = a.floor();
    /// To an integer, down.
    floorf(a: F32) -> F32 = a.floor();
    /// To an integer, up.
    ceil(a: F64) -> F64 = a.ceil();
    /// To an integer, up.
    ceilf(a: F32) -> F32 = a.ceil();
    /// To an integer, towards zero.
    trunc(a: F64) -> F64 = a.trunc();
    /// To an integer, towards zero.
    truncf(a: F32) -> F32 = a.trunc();
    /// To the nearest integer, ties away from zero.
    round(a: F64) -> F64 = a.round();
    /// To the nearest integer, ties away from zero.
    roundf(a: F32) -> F32 = a.round();
    /// `exp(a) - 1`.
    expm1(a: F64) -> F64 = a.exp_m1();
    /// `exp(a) - 1`.
    expm1f(a: F32) -> F32 = a.exp_m1();
    /// The natural logarithm.
    log(a: F64) -> F64 = a.ln();
    /// The natural logarithm.
    logf(a: F32) -> F32 = a.ln();
    /// `log(1 + a)`.
    log1p(a: F64) -> F64 = a.ln_1p();
    /// `log(1 + a)`.
    log1pf(a: F32) -> F32 = a.ln_1p();
    /// To the nearest integer, ties to even.
    rint(a: F64) -> F64 = a.round_ties_even();
    /// To the nearest integer, ties to even.
    rintf(a: F32) -> F32 = a.round_ties_even();
    /// To the nearest integer, ties to even.
    nearbyint(a: F64) -> F64 = a.round_ties_even();
    /// To the nearest integer, ties to even.
    nearbyintf(a: F32) -> F32 = a.round_ties_even();
    /// `a` without its sign.
    fabs(a: F64) -> F64 = a.abs();
    /// `a` without its sign.
    fabsf(a: F32) -> F32 = a.abs();
    /// The inverse hyperbolic sine.
    asinh(a: F64) -> F64 = libm::asinh(a);
    /// The inverse hyperbolic sine.
    asinhf(a: F32) -> F32 = libm::asinhf(a);
    /// The inverse hyperbolic cosine.
    acosh(a: F64) -> F64 = libm::acosh(a);
    /// The inverse hyperbolic cosine.
    acoshf(a: F32) -> F32 = acosh_single(a);
    /// The inverse hyperbolic tangent.
    atanh(a: F64) -> F64 = libm::atanh(a);
    /// The inverse hyperbolic tangent.
    atanhf(a: F32) -> F32 = libm::atanhf(a);
    /// Ten to the power of `a`.
    exp10(a: F64) -> F64 = libm::exp10(a);
    /// Ten to the power of `a`.
    exp10f(a: F32) -> F32 = libm::exp10f(a);
    /// The error function.
    erf(a: F64) -> F64 = libm::erf(a);
    /// The error function.
    erff(a: F32) -> F32 = libm::erff(a);
    /// One less the error function.
    erfc(a: F64) -> F64 = libm::erfc(a);
    /// One less the error function.
    erfcf(a: F32) -> F32 = libm::erfcf(a);
    /// The gamma function.
    tgamma(a: F64) -> F64 = libm::tgamma(a);
    /// The gamma function.
    tgammaf(a: F32) -> F32 = libm::tgammaf(a);
    /// The logarithm of the gamma function's magnitude.
    lgamma(a: F64) -> F64 = libm::lgamma(a);
    /// The logarithm of the gamma function's magnitude.
    lgammaf(a: F32) -> F32 = libm::lgammaf(a);
    /// The Bessel function of the first kind of order 0.
    j0(a: F64) -> F64 = libm::j0(a);
    /// The Bessel function of the first kind of order 0.
    j0f(a: F32) -> F32 = libm::j0f(a);
    /// The Bessel function of the first kind of order 1.
    j1(a: F64) -> F64 = bessel_1(a);
    /// The Bessel function of the first kind of order 1.
    j1f(a: F32) -> F32 = if a.is_infinite() { 0.0_f32.copysign(a) } else { libm::j1f(a) };
    /// The Bessel function of the second kind of order 0.
    y0(a: F64) -> F64 = libm::y0(a);
    /// The Bessel function of the second kind of order 0.
    y0f(a: F32) -> F32 = libm::y0f(a);
    /// The Bessel function of the second kind of order 1.
    y1(a: F64) -> F64 = libm::y1(a);
    /// The Bessel function of the second kind of order 1.
    y1f(a: F32) -> F32 = libm::y1f(a);
    /// The sine of half turns.
    sinpi(a: F64) -> F64 = sine_of_half_turns(a);
    /// The sine of half turns.
    sinpif(a: F32) -> F32 = single(sine_of_half_turns(a.into()));
    /// The cosine of half turns.
    cospi(a: F64) -> F64 = cosine_of_half_turns(a);
    /// The cosine of half turns.
    cospif(a: F32) -> F32 = single(cosine_of_half_turns(a.into()));
    /// One over the square root.
    rsqrt(a: F64) -> F64 = a.sqrt().recip();
    /// One over the square root.
    rsqrtf(a: F32) -> F32 = single(f64::from(a).sqrt().recip());
    /// The exponent, as a float.
    logb(a: F64) -> F64 = exponent(a);
    /// The exponent, as a float.
    logbf(a: F32) -> F32 = single(exponent(a.into()));
    /// The exponent.
    ilogb(a: F64) -> S32 = libm::ilogb(a);
    /// The exponent.
    ilogbf(a: F32) -> S32 = libm::ilogbf(a);
    /// The angle of the point at `b`, `a`.
    atan2(a: F64, b: F64) -> F64 = a.atan2(b);
    /// The angle of the point at `b`, `a`.
    atan2f(a: F32, b: F32) -> F32 = a.atan2(b);
    /// `a` to the power of `b`.
    pow(a: F64, b: F64) -> F64 = a.powf(b);
    /// `a` to the power of `b`.
    powf(a: F32, b: F32) -> F32 = a.powf(b);
    /// The root of the sum of the squares.
    hypot(a: F64, b: F64) -> F64 = libm::hypot(a, b);
    /// The root of the sum of the squares.
    hypotf(a: F32, b: F32) -> F32 = libm::hypotf(a, b);
    /// `a` with the sign of `b`.
    copysign(a: F64, b: F64) -> F64 = a.copysign(b);
    /// `a` with the sign of `b`.
    copysignf(a: F32, b: F32) -> F32 = a.copysign(b);
    /// The minimum, with -0 below 0; a number wins over NaN.
    fmin(a: F64, b: F64) -> F64 = libm::fminimum_num(a, b);
    /// The minimum, with -0 below 0; a number wins over NaN.
    fminf(a: F32, b: F32) -> F32 = libm::fminimum_numf(a, b);
    /// The maximum, with 0 above -0; a number wins over NaN.
    fmax(a: F64, b: F64) -> F64 = libm::fmaximum_num(a, b);
    /// The maximum, with 0 above -0; a number wins over NaN.
    fmaxf(a: F32, b: F32) -> F32 = libm::fmaximum_numf(a, b);
    /// The rest of the division towards zero.
    fmod(a: F64, b: F64) -> F64 = a % b;
    /// The rest of the division towards zero.
    fmodf(a: F32, b: F32) -> F32 = a % b;
    /// The rest of the division to the nearest.
    remainder(a: F64, b: F64) -> F64 = libm::remainder(a, b);
    /// The rest of the division to the nearest.
    remainderf(a: F32, b: F32) -> F32 = libm::remainderf(a, b);
    /// The next float after `a` towards `b`.
    nextafter(a: F64, b: F64) -> F64 = libm::nextafter(a, b);
    /// The next float after `a` towards `b`.
    nextafterf(a: F32, b: F32) -> F32 = libm::nextafterf(a, b);
    /// `a - b`, or 0 if that is below.
    fdim(a: F64, b: F64) -> F64 = libm::fdim(a, b);
    /// `a - b`, or 0 if that is below.
    fdimf(a: F32, b: F32) -> F32 = libm::fdimf(a, b);
    /// `a` times two to the power of `b`.
    ldexp(a: F64, b: S32) -> F64 = libm::ldexp(a, b);
    /// `a` times two to the power of `b`.
    ldexpf(a: F32, b: S32) -> F32 = libm::ldexpf(a, b);
    /// `a` times two to the power of `b`.
    scalbn(a: F64, b: S32) -> F64 = libm::scalbn(a, b);
    /// `a` times two to the power of `b`.
    scalbnf(a: F32, b: S32) -> F32 = libm::scalbnf(a, b);
    /// `a * b + c`, rounded once.
    fma(a: F64, b: F64, c: F64) -> F64 = a.mul_add(b, c);
    /// `a * b + c`, rounded once.
    fmaf(a: F32, b: F32, c: F32) -> F32 = a.mul_add(b, c);
}

static TABLE: LazyLock<Vec<Extern>> = LazyLock::new(|| {
    let mut table = table();
    table.sort_unstable_by_key(|one| one.name);
    table
});

/// All of them, ordered by name.
#[must_use]
pub fn all() -> &'static [Extern] {
    &TABLE
}

/// The function of that name in C.
#[must_use]
pub fn find(name: &str) -> Option<&'static Extern> {
    TABLE.binary_search_by_key(&name, |one| one.name).ok().and_then(|place| TABLE.get(place))
}
