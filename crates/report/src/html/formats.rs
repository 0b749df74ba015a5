//! Properties of the number formats.

use mantissa_core::{FloatClass, Format};
use serde::Serialize;

use crate::units;

#[derive(Serialize)]
pub(super) struct FormatLine {
    name: &'static str,
    fields: Vec<String>,
}

/// Returns a line per number format: its sizes, its limits, and the results of rounding three numbers to it.
pub(super) fn finfo() -> Vec<FormatLine> {
    let rounded_text = |format: Format, x: f64| match format.round(x) {
        rounded if rounded.class == FloatClass::Overflow => "overflow".to_owned(),
        rounded if rounded.class == FloatClass::Underflow => "0".to_owned(),
        rounded if rounded.value < 1e-3 => units::scientific(rounded.value),
        rounded => rounded.value.to_string(),
    };
    let line = |&format: &Format| {
        let counts = [
            format.bits(),
            format.significand_bits(),
            format.exponent_bits(),
            format.decimal_digits(),
        ];
        let limits = [
            format.max_finite(),
            format.min_normal(),
            format.min_subnormal(),
            format.epsilon(),
        ];
        let mut fields: Vec<String> = counts.iter().map(ToString::to_string).collect();
        fields.extend(limits.map(units::limit));
        fields.extend([1.0 / 3.0, 1e6, 1e-8].map(|x| rounded_text(format, x)));
        FormatLine {
            name: format.name(),
            fields,
        }
    };
    Format::ALL.iter().map(line).collect()
}
