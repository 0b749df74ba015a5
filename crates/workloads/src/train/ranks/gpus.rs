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
        let parts = gradients.into_parts().into_iter().zip(lengths);
        let parts: Vec<Tensor<1>> = parts
            .filter_map(|(gradient, len)| len.map(|len| gradient.unwrap_or_else(|| zeros(len))))
            .collect();
        self.counters.reductions += 1;
        if parts.is_empty() {
            return Ok(vec![None; lengths.len()]);
        }
        let sum = nccl
            .sum(Tensor::cat(parts, 0), self.format)
            .map_err(WorkloadError::ranks)?;
        let mut start = 0;
        let next = |len: &Option<usize>| {
            let end = start + (*len)?;
            let part = sum.clone().slice(s![start..end]);
            start = end;
            Some(part)
        };
        Ok(lengths.iter().map(next).collect())
    }
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
