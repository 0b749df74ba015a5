//! Sum of the gradients of all ranks.

use std::{iter, time::Instant};

use burn::tensor::{DType, Device, Element, Tensor, TensorData};
use mantissa_collectives::{Gradient, expected_traffic};
use mantissa_core::Format;
use mantissa_precision::{GradientSum, ParameterSet};

use super::{Ranks, failed};
use crate::{
    WorkloadError,
    outcome::{read, sync},
};

impl Ranks<'_> {
    /// Replaces the gradients of this rank by the sum over all ranks. They are rounded to the format of the reduction, and each addition rounds
    /// to it. A parameter that has a gradient on any rank gets one on all ranks.
    pub(in crate::train) fn reduce(
        &mut self,
        gradients: GradientSum,
        parameters: &ParameterSet,
        device: &Device,
    ) -> Result<GradientSum, WorkloadError> {
        if self.group.is_none() {
            return Ok(gradients);
        }
        // The computation of the gradients is not communication.
        sync(device)?;
        let lengths = self.lengths(&gradients, parameters)?;
        let begun = Instant::now();
        let wide = wide(parameters);
        let sums = if self.nccl.is_some() {
            self.sum_on_gpus(gradients, &lengths, wide)?
        } else {
            let mut sum = on_host(gradients, &lengths, self.format, wide)?;
            self.all_reduce(&mut sum)?;
            on_device(sum, &lengths, wide, device)
        };
        sync(device)?;
        self.counters.seconds += begun.elapsed().as_secs_f64();
        Ok(GradientSum::from_parts(sums))
    }

    /// Returns the number of values of each parameter that has a gradient on any rank, and `None` for the others.
    pub(super) fn lengths(
        &mut self,
        gradients: &GradientSum,
        parameters: &ParameterSet,
    ) -> Result<Vec<Option<usize>>, WorkloadError> {
        let own: Vec<u8> = gradients.iter().map(|sum| u8::from(sum.is_some())).collect();
        let on_ranks = self.gather(&own)?;
        let is_present = |index: usize| on_ranks.iter().any(|rank| rank[index] == 1);
        let present: Vec<bool> = (0..own.len()).map(is_present).collect();
        Ok(lengths_of(&present, parameters))
    }

    /// Sums a gradient over all ranks, and counts the messages.
    fn all_reduce(&mut self, gradient: &mut Gradient) -> Result<(), WorkloadError> {
        let Some(group) = &mut self.group else {
            return Ok(());
        };
        // Discard the messages of other operations.
        group.take_traffic();
        group.all_reduce(gradient).map_err(failed)?;
        let sent = group.take_traffic();
        self.counters.add_traffic(sent);
        let (rank, ranks, bytes) = (group.rank(), group.size(), gradient.format().storage_bytes());
        self.counters.expected +=
            expected_traffic(self.algorithm, rank, ranks, gradient.len(), bytes as usize);
        self.counters.reductions += 1;
        Ok(())
    }
}

/// Returns the number of values of each parameter that has a gradient, and `None` for the others.
pub(super) fn lengths_of(present: &[bool], parameters: &ParameterSet) -> Vec<Option<usize>> {
    let lengths = parameters.iter().map(|(_, value)| value.shape().num_elements());
    let both = lengths.zip(present);
    both.map(|(len, present)| present.then_some(len)).collect()
}

/// Returns f64 if the parameters are in f64, otherwise f32.
pub(super) fn wide(parameters: &ParameterSet) -> Format {
    let is_f64 = parameters.iter().any(|(_, value)| value.dtype() == DType::F64);
    if is_f64 { Format::F64 } else { Format::F32 }
}

/// Copies gradients of the format `wide` to the host, and rounds them to `format`. A parameter without a gradient on this rank contributes −0,
/// which does not change any sum, not even one of −0.
pub(super) fn on_host(
    gradients: GradientSum,
    lengths: &[Option<usize>],
    format: Format,
    wide: Format,
) -> Result<Gradient, WorkloadError> {
    Ok(match wide {
        Format::F64 => Gradient::from_f64(format, concatenated(gradients, lengths, -0.0)?),
        _ => Gradient::from_f32(format, concatenated(gradients, lengths, -0.0)?),
    })
}

/// Copies values to the device as vectors of the format `wide`, one per parameter with a length.
pub(super) fn on_device(
    values: Gradient,
    lengths: &[Option<usize>],
    wide: Format,
    device: &Device,
) -> Vec<Option<Tensor<1>>> {
    match wide {
        Format::F64 => split(&values.to_f64(), lengths, device),
        _ => split(&values.into_f32(), lengths, device),
    }
}

/// Copies the gradients to the host, one after the other. A parameter without a gradient on this rank contributes `zero`.
pub(super) fn concatenated<E: Element>(
    gradients: GradientSum,
    lengths: &[Option<usize>],
    zero: E,
) -> Result<Vec<E>, WorkloadError> {
    let mut values = Vec::with_capacity(lengths.iter().flatten().sum());
    for (gradient, len) in gradients.into_parts().into_iter().zip(lengths) {
        match (gradient, len) {
            (Some(gradient), Some(_)) => values.extend(read::<E, 1, _>(gradient)?),
            (None, Some(len)) => values.extend(iter::repeat_n(zero, *len)),
            (_, None) => {}
        }
    }
    Ok(values)
}

/// Splits values into one vector per parameter that has a gradient, on the device.
fn split<E: Element>(values: &[E], lengths: &[Option<usize>], device: &Device) -> Vec<Option<Tensor<1>>> {
    let mut rest = values;
    let next = |len: &Option<usize>| {
        let (values, others) = rest.split_at((*len)?);
        rest = others;
        let data = TensorData::new(values.to_vec(), [values.len()]);
        Some(Tensor::from_data(data, (device, E::dtype())))
    };
    lengths.iter().map(next).collect()
}
