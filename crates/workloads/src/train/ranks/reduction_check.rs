//! Check of the reduction before the training: its error, its repeatability, and the format and order of its additions.

use mantissa_collectives::{Gradient, Observation, probe_sum, sum_on_server};
use mantissa_core::{Event, EventKind, Format, Reduce, ReduceAlgorithm};
use mantissa_precision::{GradientSum, ParameterSet};

use super::{Ranks, failed, gpus::sum_on_gpus, reduction::concatenated};
use crate::{
    ReductionAccuracy, WorkloadError,
    data::{Dataset, Labelled, Part},
    models::Network,
    train::{batch_order::order, trainer::Trainer, warm_up::WARM_UP_LOSS_SCALE},
};

/// Number of reductions of the same values.
const REPEATS: u32 = 30;
/// Maximum number of values that are reduced, evenly spaced over all parameters.
const MAX_VALUES: usize = 1 << 17;

impl<M: Network> Trainer<'_, M> {
    /// Reduces gradients of the micro-batches of the first optimizer step, with the loss scale of the warm-up. Changes the state of the
    /// trainer. Does nothing with one rank, and with an asynchronous server, which does not sum gradients.
    pub(in crate::train) fn check_reduction(&mut self, data: &Dataset<M::Part>) -> Result<(), WorkloadError> {
        let mut groups = order(self.cell, self.task, data.train.len(), 0).into_iter();
        let Some(group) = groups.next().filter(|_| self.ranks.sums_gradients()) else {
            return Ok(());
        };
        let own = self.ranks.shard(group).into_iter();
        let micro_batches: Vec<_> = own.map(|indices| data.train.batch(&indices)).collect();
        let labels = micro_batches.iter().map(|batch| batch.labels().len()).sum();
        let [labels] = self.ranks.sum([labels])?;
        let scale = self.scaler.as_ref().map_or(1.0, |_| WARM_UP_LOSS_SCALE);
        let mut gradients = GradientSum::new(self.parameters.len());
        let working = self.working();
        for (index, batch) in micro_batches.iter().enumerate() {
            self.next_example = (self.ranks.position(index) * self.cell.setting.batch() as usize) as u64;
            self.backward(&working, batch, scale / labels as f64, &mut gradients);
        }
        drop(working);
        let event = self.ranks.check_reduction(gradients, &self.parameters)?;
        self.log.events.push(event);
        Ok(())
    }
}

impl Ranks<'_> {
    /// Reduces a sample of the gradients, and compares the sum with the sum of the same values in float64, which does not use the engine.
    /// Returns the observed arithmetic.
    fn check_reduction(
        &mut self,
        gradients: GradientSum,
        parameters: &ParameterSet,
    ) -> Result<Event, WorkloadError> {
        let lengths = self.lengths(&gradients, parameters)?;
        let all: Vec<f64> = concatenated(gradients, &lengths, -0.0)?;
        let own: Vec<f64> = all
            .iter()
            .copied()
            .step_by(all.len().div_ceil(MAX_VALUES).max(1))
            .collect();
        drop(all);
        let mut exact = vec![0.0; own.len()];
        for rank in self.gather(bytemuck::cast_slice(&own))? {
            for (sum, bytes) in exact.iter_mut().zip(rank.as_chunks().0) {
                *sum += f64::from_ne_bytes(*bytes);
            }
        }
        let format = self.format;
        let algorithm = match self.reduce {
            // NCCL does not document the order of its additions, which depends on the connections of the GPUs.
            Reduce::AllReduce if self.nccl.is_some() => None,
            Reduce::AllReduce => Some(self.algorithm),
            // A parameter server adds like a linear all-reduce.
            Reduce::ParameterServer | Reduce::ParameterServerAsync => Some(ReduceAlgorithm::Linear),
        };
        let mut sums = (0..REPEATS).map(|_| {
            let mut sum = Gradient::from_f64(format, own.iter().copied());
            self.sum_everywhere(&mut sum)?;
            Ok::<_, WorkloadError>(sum)
        });
        let first = sums
            .next()
            .unwrap_or_else(|| unreachable!("there are several repeats"))?;
        let bits_of_first = bits(&first);
        let mut equal = 1;
        for sum in sums {
            equal += u32::from(bits(&sum?) == bits_of_first);
        }
        self.accuracy = Some(ReductionAccuracy {
            relative_error: relative_error(&first.to_f64(), &exact),
            equal,
            repeats: REPEATS,
        });
        let ranks = (self.rank(), self.size());
        let observed = probe_sum(ranks, format, |gradient| self.sum_everywhere(gradient))?;
        Ok(event(&observed, format, algorithm))
    }

    fn sums_gradients(&self) -> bool {
        self.size() > 1 && !self.is_asynchronous()
    }

    /// Replaces a gradient by the sum over all ranks, which is computed as in an optimizer step.
    fn sum_everywhere(&mut self, gradient: &mut Gradient) -> Result<(), WorkloadError> {
        if let Some(nccl) = &self.nccl {
            *gradient = sum_on_gpus(nccl, gradient)?;
            return Ok(());
        }
        let has_server = self.has_server();
        let group = self.group();
        if !has_server {
            return group.all_reduce(gradient).map_err(failed);
        }
        if let Some(sum) = sum_on_server(group, gradient).map_err(failed)? {
            *gradient = sum;
        }
        group.broadcast(0, gradient).map_err(failed)
    }
}

/// Describes the observed arithmetic. The event is a warning if it is not the requested one. Without an algorithm, any order is correct.
fn event(observed: &Observation, format: Format, algorithm: Option<ReduceAlgorithm>) -> Event {
    let bits = observed
        .significand_bits
        .map_or("no".to_owned(), |bits| bits.to_string());
    let orders: Vec<&str> = observed.orders.iter().map(|order| order.name()).collect();
    let orders = match orders.is_empty() {
        true => "an unknown order".to_owned(),
        false => format!("the order of {}", orders.join(" or ")),
    };
    let detail = format!("sums of gradients keep {bits} significand bits and are added in {orders}");
    let has_order = algorithm.is_none_or(|algorithm| observed.orders.contains(&algorithm));
    if has_order && observed.significand_bits == Some(format.significand_bits()) {
        return Event::new(EventKind::Observed, detail);
    }
    let algorithm = algorithm.map_or(String::new(), |algorithm| format!(" and {algorithm}"));
    Event::new(
        EventKind::Warning,
        format!("{detail}, but the setting requests {format}{algorithm}"),
    )
}

/// Returns the bits of every value, which also distinguish NaNs and signs of zeros.
fn bits(gradient: &Gradient) -> Vec<u64> {
    match gradient {
        Gradient::F64(values) => values.iter().map(|value| value.to_bits()).collect(),
        Gradient::F32(values) => values.iter().map(|value| value.to_bits().into()).collect(),
        Gradient::Bf16(values) => values.iter().map(|value| value.to_bits().into()).collect(),
        Gradient::F16(values) => values.iter().map(|value| value.to_bits().into()).collect(),
    }
}

/// Returns the 2-norm of the error, relative to that of the exact values.
fn relative_error(values: &[f64], exact: &[f64]) -> f64 {
    let square = |x: f64| x * x;
    let errors = values
        .iter()
        .zip(exact)
        .map(|(value, exact)| square(value - exact));
    (errors.sum::<f64>() / exact.iter().copied().map(square).sum::<f64>()).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_other_than_the_requested_one_is_a_warning() {
        let observed = |bits, orders: &[ReduceAlgorithm]| Observation {
            significand_bits: Some(bits),
            orders: orders.to_vec(),
        };
        let (ring, tree) = (ReduceAlgorithm::Ring, ReduceAlgorithm::Tree);
        let same = event(&observed(8, &[ring, tree]), Format::Bf16, Some(tree));
        assert_eq!(same.kind, EventKind::Observed);
        assert_eq!(
            same.detail,
            "sums of gradients keep 8 significand bits and are added in the order of ring or tree"
        );
        let wider = event(&observed(24, &[tree]), Format::Bf16, Some(tree));
        assert_eq!(wider.kind, EventKind::Warning);
        assert_eq!(
            wider.detail,
            "sums of gradients keep 24 significand bits and are added in the order of tree, but the setting requests bf16 and tree"
        );
        let other = event(&observed(8, &[ring]), Format::Bf16, Some(tree));
        assert_eq!(other.kind, EventKind::Warning);
        let unknown = event(&observed(8, &[]), Format::Bf16, Some(tree));
        assert!(unknown.detail.contains("an unknown order"), "{}", unknown.detail);
        let any_order = |bits| event(&observed(bits, &[]), Format::Bf16, None);
        assert_eq!(any_order(8).kind, EventKind::Observed);
        assert!(any_order(24).detail.ends_with("but the setting requests bf16"));
    }

    #[test]
    fn the_error_is_relative_to_the_exact_sum() {
        // ‖(0, 1)‖ / ‖(3, 4)‖ = 1/5.
        assert_eq!(relative_error(&[3.0, 5.0], &[3.0, 4.0]), 0.2);
    }
}
