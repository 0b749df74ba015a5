//! Description of a number format for `mantissa explain`.

use std::fmt;

use crate::{FloatClass, Format, Rounded};

/// Layout and limits of a format, with three numbers rounded to it. Its `Display` prints a short page of text.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// The format.
    pub format: Format,
    /// Origin in a few words.
    pub origin: &'static str,
    /// Number of bits that carry information: sign, exponent and fraction.
    pub bits: u32,
    /// Bits that one value occupies in memory.
    pub storage_bits: u32,
    /// Width of the exponent field in bits.
    pub exponent_bits: u32,
    /// Width of the stored fraction in bits.
    pub fraction_bits: u32,
    /// Exponent bias.
    pub bias: i32,
    /// Largest finite value.
    pub max_finite: f64,
    /// Smallest positive normal value.
    pub min_normal: f64,
    /// Smallest positive subnormal value.
    pub min_subnormal: f64,
    /// Distance from 1 to the next larger value.
    pub epsilon: f64,
    /// Decimal digits that survive a round trip through the format.
    pub decimal_digits: u32,
    /// 1/3, 10⁶ and 65504·2 rounded to the format.
    pub examples: Vec<Example>,
}

/// A number rounded to a format.
#[derive(Debug, Clone, PartialEq)]
pub struct Example {
    /// The number in common notation.
    pub written: &'static str,
    /// The number as an f64.
    pub input: f64,
    /// True if the f64 equals the number exactly.
    pub input_is_exact: bool,
    /// The number rounded to the format.
    pub rounded: Rounded,
}

/// Describes a format. The last of the rounded numbers, 65504·2, is twice the largest f16.
pub fn explain(format: Format) -> Explanation {
    let examples = [
        ("1/3", 1.0 / 3.0, false),
        ("10⁶", 1e6, true),
        ("65504·2", 131_008.0, true),
    ];
    Explanation {
        format,
        origin: match format {
            Format::F64 => "double precision, IEEE 754 binary64",
            Format::F32 => "single precision, IEEE 754 binary32",
            Format::Tf32 => "TensorFloat-32, the bits of an f32 operand that NVIDIA tensor cores use",
            Format::Bf16 => "bfloat16, the upper half of an f32",
            Format::F16 => "half precision, IEEE 754 binary16",
        },
        bits: format.bits(),
        storage_bits: format.storage_bytes() * u8::BITS,
        exponent_bits: format.exponent_bits(),
        fraction_bits: format.fraction_bits(),
        bias: format.bias(),
        max_finite: format.max_finite(),
        min_normal: format.min_normal(),
        min_subnormal: format.min_subnormal(),
        epsilon: format.epsilon(),
        decimal_digits: format.decimal_digits(),
        examples: examples
            .map(|(written, input, input_is_exact)| Example {
                written,
                input,
                input_is_exact,
                rounded: format.round(input),
            })
            .into(),
    }
}

impl Explanation {
    /// Renders the fields as text, one character per bit, with their widths below.
    pub fn layout(&self) -> String {
        let field = |letter: &str, width: u32| letter.repeat(width as usize);
        let (exponent, fraction) = (self.exponent_bits, self.fraction_bits);
        let bits = format!("s {} {}", field("e", exponent), field("f", fraction));
        let widths = format!("1 {exponent:<e$} {fraction}", e = exponent as usize,);
        format!("{bits}\n{widths}")
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            format,
            bits,
            exponent_bits,
            fraction_bits,
            bias,
            ..
        } = self;
        writeln!(f, "{format}: {}", self.origin)?;
        write!(
            f,
            "{bits} bits: 1 sign, {exponent_bits} exponent, {fraction_bits} fraction"
        )?;
        match self.storage_bits == *bits {
            true => writeln!(f, "\n")?,
            false => writeln!(f, "; a value takes {} bits in memory\n", self.storage_bits)?,
        }
        for line in self.layout().lines() {
            writeln!(f, "  {line}")?;
        }
        let min_exponent = 1 - bias;
        let limits = [
            ("bias", bias.to_string(), String::new()),
            (
                "largest",
                format_limit(self.max_finite),
                format!("(2 − 2^-{fraction_bits}) × 2^{bias}"),
            ),
            (
                "smallest normal",
                format_limit(self.min_normal),
                format!("2^{min_exponent}"),
            ),
            (
                "smallest subnormal",
                format_limit(self.min_subnormal),
                format!("2^{}", min_exponent - *fraction_bits as i32),
            ),
            (
                "epsilon",
                format_limit(self.epsilon),
                format!("2^-{fraction_bits}"),
            ),
            ("decimal digits", self.decimal_digits.to_string(), String::new()),
        ];
        writeln!(f)?;
        for (name, value, power) in limits {
            writeln!(f, "{}", format!("  {name:<18}  {value:<13} {power}").trim_end())?;
        }
        writeln!(f)?;
        for example in &self.examples {
            writeln!(f, "  {:<8} becomes  {example}", example.written)?;
        }
        Ok(())
    }
}

impl fmt::Display for Example {
    /// Writes the rounded value and the effect of the rounding.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", format_decimal(self.rounded.value))?;
        match self.rounded.class {
            FloatClass::Exact if self.input_is_exact => f.write_str("  (exact)"),
            FloatClass::Exact | FloatClass::Inexact => f.write_str("  (rounded)"),
            FloatClass::Subnormal => f.write_str("  (subnormal)"),
            FloatClass::Underflow => f.write_str("  (underflow)"),
            FloatClass::Overflow => f.write_str("  (overflow)"),
            FloatClass::Infinite | FloatClass::Nan => Ok(()),
        }
    }
}

/// Formats a limit with six significant digits, like C and NumPy; whole numbers below 10⁶ are printed in full.
fn format_limit(x: f64) -> String {
    const MIN_SCIENTIFIC: f64 = 1e6;
    if x.fract() == 0.0 && x < MIN_SCIENTIFIC {
        x.to_string()
    } else {
        format!("{x:.5e}")
    }
}

/// Formats all decimal places of `x`, or rounds to twenty decimal places if there are more.
fn format_decimal(x: f64) -> String {
    const DECIMALS: usize = 20;
    // An f64 has as many digits after the point in decimal as in binary. The examples have fewer than 100.
    const ALL: usize = 100;
    if !x.is_finite() {
        return x.to_string();
    }
    let all = format!("{x:.ALL$}");
    let exact = all.trim_end_matches('0').trim_end_matches('.');
    let decimals = exact.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    if decimals <= DECIMALS {
        exact.to_owned()
    } else {
        format!("{x:.DECIMALS$}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn becomes(format: Format) -> Vec<String> {
        explain(format).examples.iter().map(Example::to_string).collect()
    }

    #[test]
    fn one_third_is_printed_as_in_the_article() {
        assert_eq!(becomes(Format::F64)[0], "0.33333333333333331483  (rounded)");
        assert_eq!(becomes(Format::F32)[0], "0.33333334326744079590  (rounded)");
        assert_eq!(becomes(Format::F16)[0], "0.333251953125  (rounded)");
    }

    #[test]
    fn large_values_overflow_in_f16_and_round_in_bf16() {
        assert_eq!(becomes(Format::F16)[1..], ["inf  (overflow)", "inf  (overflow)"]);
        assert_eq!(
            becomes(Format::Bf16)[1..],
            ["999424  (rounded)", "131072  (rounded)"]
        );
        assert_eq!(
            becomes(Format::Tf32)[1..],
            ["999936  (rounded)", "131008  (exact)"]
        );
        assert_eq!(becomes(Format::F32)[1..], ["1000000  (exact)", "131008  (exact)"]);
    }

    #[test]
    fn layout_has_one_character_per_bit() {
        for &format in Format::ALL {
            let explanation = explain(format);
            let layout = explanation.layout();
            let drawn = layout
                .lines()
                .next()
                .unwrap()
                .chars()
                .filter(|c| !c.is_whitespace())
                .count();
            assert_eq!(drawn as u32, explanation.bits, "{format}");
        }
    }

    #[test]
    fn explanation_of_f16_is_rendered() {
        let expected = "\
f16: half precision, IEEE 754 binary16
16 bits: 1 sign, 5 exponent, 10 fraction

  s eeeee ffffffffff
  1 5     10

  bias                15
  largest             65504         (2 − 2^-10) × 2^15
  smallest normal     6.10352e-5    2^-14
  smallest subnormal  5.96046e-8    2^-24
  epsilon             9.76562e-4    2^-10
  decimal digits      3

  1/3      becomes  0.333251953125  (rounded)
  10⁶      becomes  inf  (overflow)
  65504·2  becomes  inf  (overflow)
";
        assert_eq!(explain(Format::F16).to_string(), expected);
        let tf32 = explain(Format::Tf32).to_string();
        assert!(
            tf32.contains("19 bits: 1 sign, 8 exponent, 10 fraction; a value takes 32 bits in memory"),
            "{tf32}"
        );
    }
}
