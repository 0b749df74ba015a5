//! Sums on the GPUs of all ranks with NCCL. The gradients are not copied to the host.

use burn::tensor::{Device, Tensor, TensorData, s};
use mantissa_collectives::Gradient;
use mantissa_core::Format;
use mantissa_precision::{GradientSum, Nccl, NcclId, dtype};

use super::Ranks;
use crate::{WorkloadError, outcome::read};

impl Ranks<'_> {
    /// Connects the GPUs of all ranks, if NCCL sums their gradients.
    pub(in crate::train) fn join_gpus(&mut self, device: &Device) -> Result<(), WorkloadError> {
        let Some(group) = self.group.as_ref().filter(|_| self.sums_with_nccl) else {
            return Ok(());
        };
        let (rank, size) = (group.rank(), group.size());
        let own = match rank {
            0 => NcclId::create()
                .map_err(WorkloadError::ranks)?
                .as_bytes()
                .to_vec(),
            _ => vec![],
        };
        let id = self.gather(&own)?.swap_remove(0);
        let id = <[u8; NcclId::BYTES]>::try_from(id)
            .unwrap_or_else(|_| unreachable!("rank 0 sends the bytes of an identifier"));
        let nccl = Nccl::join(device, NcclId::from_bytes(id), rank, size);
        self.nccl = Some(nccl.map_err(WorkloadError::ranks)?);
        Ok(())
    }

    /// Disconnects the GPUs after the last sum. A rank that failed must not call the function, because it waits for all ranks.
    pub(in crate::train) fn leave_gpus(&mut self) -> Result<(), WorkloadError> {
        let finished = self.nccl.take().map(Nccl::finish);
        finished.transpose().map(drop).map_err(WorkloadError::ranks)
    }

    /// Returns the sum of the gradients of all ranks: one vector per parameter with a length, in the format `wide`. A parameter without a
    /// gradient on this rank contributes −0, which does not change any sum.
    pub(super) fn sum_on_gpus(
        &mut self,
        gradients: GradientSum,
        lengths: &[Option<usize>],
        wide: Format,
    ) -> Result<Vec<Option<Tensor<1>>>, WorkloadError> {
        let nccl = self.nccl.as_ref();
        let nccl = nccl.unwrap_or_else(|| unreachable!("the GPUs of the ranks are connected"));
        let zeros = |len: usize| upload(vec![-0.0; len], wide, nccl.device());
        let sum = |vector| nccl.sum(vector, self.format).map_err(WorkloadError::ranks);
        let sums = sum_in_one_vector(gradients.into_parts(), lengths, zeros, sum)?;
        self.counters.reductions += 1;
        Ok(sums)
    }
}

/// Concatenates the gradients of the parameters with a length, sums the vector, and splits the sum. Parameters without a gradient contribute
/// the result of `zeros`.
fn sum_in_one_vector(
    gradients: Vec<Option<Tensor<1>>>,
    lengths: &[Option<usize>],
    zeros: impl Fn(usize) -> Tensor<1>,
    sum: impl FnOnce(Tensor<1>) -> Result<Tensor<1>, WorkloadError>,
) -> Result<Vec<Option<Tensor<1>>>, WorkloadError> {
    let parts: Vec<Tensor<1>> = gradients
        .into_iter()
        .zip(lengths)
        .filter_map(|(gradient, len)| len.map(|len| gradient.unwrap_or_else(|| zeros(len))))
        .collect();
    if parts.is_empty() {
        return Ok(vec![None; lengths.len()]);
    }
    let sum = sum(Tensor::cat(parts, 0))?;
    let mut start = 0;
    let next = |len: &Option<usize>| {
        let end = start + (*len)?;
        let part = sum.clone().slice(s![start..end]);
        start = end;
        Some(part)
    };
    Ok(lengths.iter().map(next).collect())
}

/// Returns the sum of a buffer over all ranks, computed as in an optimizer step.
pub(super) fn sum_on_gpus(nccl: &Nccl, own: &Gradient) -> Result<Gradient, WorkloadError> {
    let format = own.format();
    let sum = nccl.sum(upload(own.to_f64(), format, nccl.device()), format);
    let sum: Vec<f64> = read(sum.map_err(WorkloadError::ranks)?)?;
    Ok(Gradient::from_f64(format, sum))
}

/// Copies values that a format represents exactly to the device, as a vector of this format.
fn upload(values: Vec<f64>, format: Format, device: &Device) -> Tensor<1> {
    let len = values.len();
    let data = TensorData::new(values, [len]).convert_dtype(dtype(format));
    Tensor::from_data(data, (device, dtype(format)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mantissa_core::Backend;
    use mantissa_precision::device;

    #[test]
    fn gradients_are_summed_in_one_vector_and_split() {
        let device = device::open(Backend::Flex, false);
        let vector = |values: &[f64]| upload(values.to_vec(), Format::F32, &device);
        let values = |vector: Tensor<1>| -> Vec<f64> { read(vector).unwrap() };
        let zeros = |len| vector(&vec![-0.0; len]);
        // The second parameter has no gradient on any rank, and the third has none on this rank.
        let gradients = vec![Some(vector(&[1.0, 2.0])), None, None, Some(vector(&[-0.0]))];
        let lengths = [Some(2), None, Some(3), Some(1)];
        let sum = |own: Tensor<1>| {
            let bits: Vec<u64> = values(own.clone()).into_iter().map(f64::to_bits).collect();
            assert_eq!(bits, [1.0, 2.0, -0.0, -0.0, -0.0, -0.0].map(f64::to_bits));
            Ok(own + vector(&[10.0, 20.0, 30.0, 40.0, 50.0, 60.0]))
        };
        let sums = sum_in_one_vector(gradients, &lengths, zeros, sum).unwrap();
        let sums: Vec<Option<Vec<f64>>> = sums.into_iter().map(|sum| sum.map(values)).collect();
        let expected = [
            Some(vec![11.0, 22.0]),
            None,
            Some(vec![30.0, 40.0, 50.0]),
            Some(vec![60.0]),
        ];
        assert_eq!(sums, expected);
        let nothing = sum_in_one_vector(vec![None], &[None], zeros, |_| unreachable!());
        assert!(nothing.unwrap()[0].is_none());
    }
}
