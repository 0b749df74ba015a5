//! Probe for matmuls of other frameworks.

use mantissa_core::{Executed, ExecutedVerdict};

use super::{Operation, observe::observe, summarize};
use crate::Compute;

/// Function that multiplies two matrices of [`EDGE`](super::observe::EDGE) rows and columns, the right one transposed. The first argument is
/// the name of the pass that computes the product, such as `backward`.
pub type ExternalMatmul<'a> = dyn FnMut(&str, Vec<f64>, Vec<f64>) -> Result<Vec<f64>, String> + 'a;

/// Probes the results of `multiply` like [`super::probe`]. Does not detect if the framework uses other kernels for other shapes.
///
/// # Errors
/// Any error of `multiply`.
pub fn probe_external(
    operations: &[Operation],
    compute: Compute,
    multiply: &mut ExternalMatmul<'_>,
) -> Result<Executed, String> {
    let format = compute.precision().parameters();
    let (mut observations, mut not_observed) = (vec![], None);
    for operation in operations {
        let passes: &[&'static str] = match operation {
            Operation::Matmul => &["forward", "backward", "linear", "weight's gradient"],
            Operation::Convolution => &["convolution", "images' gradient", "filters' gradient"],
            Operation::FewRows => &["few rows"],
            Operation::FusedAttention => {
                not_observed = Some("not observed: fused attention of another framework");
                &[]
            }
        };
        for &pass in passes {
            let mut multiply = |lhs, rhs_transposed| multiply(pass, lhs, rhs_transposed);
            observations.push((pass, observe(format, &mut multiply)?));
        }
    }
    let mut executed = summarize(&observations, &compute.requested());
    if let Some(not_observed) = not_observed {
        let observed = executed.rounding.filter(|_| !observations.is_empty());
        executed.rounding = Some(observed.map_or(not_observed.to_owned(), |observed| {
            format!("{observed}; {not_observed}")
        }));
        if executed.verdict == ExecutedVerdict::AsRequested {
            executed.verdict = ExecutedVerdict::Unverified;
        }
    }
    Ok(executed)
}

#[cfg(test)]
mod tests {
    use mantissa_core::{Accumulator, ExecutedVerdict, MatmulPrecision, Precision};

    use super::*;
    use crate::probe::observe::EDGE;

    /// Multiplies operands rounded to `bits` significand bits, with sums in f32.
    fn multiply_rounded(bits: u32, lhs: &[f64], rhs: &[f64]) -> Vec<f64> {
        let round = |x: &f64| {
            let dropped = 24 - bits;
            let bits = (*x as f32).to_bits();
            let rounding =
                ((1u32 << dropped) >> 1).saturating_sub(1) + (bits >> dropped & 1) * u32::from(dropped > 0);
            f32::from_bits((bits + rounding) >> dropped << dropped)
        };
        let [lhs, rhs] = [lhs, rhs].map(|values| values.iter().map(round).collect::<Vec<_>>());
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).fold(0.0, |sum, (a, b)| f32::mul_add(*a, *b, sum));
        let rows = lhs.chunks(EDGE);
        rows.flat_map(|a| rhs.chunks(EDGE).map(move |b| f64::from(dot(a, b))))
            .collect()
    }

    fn probe_with_bits(operations: &[Operation], bits_of_pass: impl Fn(&str) -> u32) -> Executed {
        let compute = Compute::new(Precision::True32, MatmulPrecision::Medium, Accumulator::F32);
        let mut multiply =
            |pass: &str, lhs: Vec<f64>, rhs: Vec<f64>| Ok(multiply_rounded(bits_of_pass(pass), &lhs, &rhs));
        probe_external(operations, compute, &mut multiply).unwrap()
    }

    mod long {
        use super::*;

        #[test]
        fn a_pass_with_wider_or_narrower_arithmetic_is_reported() {
            use ExecutedVerdict::{AsRequested, Differs, Unverified};
            let all = [Operation::Matmul, Operation::Convolution, Operation::FewRows];
            let executed = probe_with_bits(&all, |_| 8);
            assert_eq!(
                (executed.verdict, executed.operand_bits),
                (AsRequested, Some(8)),
                "{executed:?}"
            );
            for pass in ["weight's gradient", "filters' gradient", "few rows"] {
                for bits in [7, 11, 24] {
                    let executed = probe_with_bits(&all, |name| if name == pass { bits } else { 8 });
                    assert_eq!(
                        (executed.verdict, executed.operand_bits),
                        (Differs, Some(bits)),
                        "{pass}"
                    );
                }
            }
            for (bits, verdict) in [(8, Unverified), (11, Differs)] {
                let with_attention =
                    probe_with_bits(&[Operation::Matmul, Operation::FusedAttention], |_| bits);
                assert_eq!(
                    (with_attention.verdict, with_attention.operand_bits),
                    (verdict, Some(bits))
                );
                let attention_only = probe_with_bits(&[Operation::FusedAttention], |_| bits);
                assert_eq!(
                    (attention_only.verdict, attention_only.operand_bits),
                    (Unverified, None)
                );
            }
            assert_eq!(probe_with_bits(&[], |_| 8).verdict, Unverified);
        }
    }

    #[test]
    fn errors_of_the_framework_are_returned() {
        let compute = Compute::new(Precision::True32, MatmulPrecision::Highest, Accumulator::F32);
        let failing = &mut |_: &str, _, _| Err("no".to_owned());
        assert_eq!(
            probe_external(&[Operation::Matmul], compute, failing).unwrap_err(),
            "no"
        );
    }
}
