//! Sum of gradients on a parameter server.

use crate::{CollectiveError, Gradient, Group};

/// Returns the sum of the gradients of all ranks on rank 0, and `None` on the other ranks. Like [`ReduceAlgorithm::Linear`], it adds from the
/// last rank to the first, and each addition rounds to the format of the gradient.
///
/// [`ReduceAlgorithm::Linear`]: mantissa_core::ReduceAlgorithm::Linear
pub fn sum_on_server(
    group: &mut dyn Group,
    gradient: &Gradient,
) -> Result<Option<Gradient>, CollectiveError> {
    let gathered = group.gather(0, gradient)?;
    let sum = |gradients: Vec<Gradient>| {
        let mut gradients = gradients.into_iter().rev();
        let mut sum = gradients.next()?;
        for gradient in gradients {
            sum.add(&gradient);
        }
        Some(sum)
    };
    Ok(gathered.and_then(sum))
}

#[cfg(test)]
mod tests {
    use std::thread;

    use mantissa_core::{Format, ReduceAlgorithm};

    use super::*;
    use crate::{Observation, ThreadGroup, probe_sum};

    #[test]
    fn the_server_adds_linearly_in_the_format_of_the_gradient() {
        for format in [Format::F64, Format::F32, Format::Bf16, Format::F16] {
            thread::scope(|scope| {
                for mut group in ThreadGroup::new(5) {
                    scope.spawn(move || {
                        let ranks = (group.rank(), group.size());
                        let observed = probe_sum(ranks, format, |gradient| {
                            if let Some(sum) = sum_on_server(&mut group, gradient)? {
                                *gradient = sum;
                            }
                            group.broadcast(0, gradient)
                        });
                        let expected = Observation {
                            significand_bits: Some(format.significand_bits()),
                            orders: vec![ReduceAlgorithm::Linear],
                        };
                        assert_eq!(observed, Ok(expected), "{format}");
                    });
                }
            });
        }
    }
}
