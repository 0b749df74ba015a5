//! Ranks of a training: processes that train one model on parts of each batch.
//!
//! Every rank has the same order of micro-batches. In each optimizer step, a rank computes the gradients of its own micro-batches, and the
//! gradients are summed over all ranks. With an all-reduce, every rank makes the same step with the sum. A decision about the step, such as
//! whether the scaled gradients overflowed, depends only on the sum. On the CPU, it is therefore the same on every rank. With a parameter
//! server, rank 0 makes the step and sends the parameters to the other ranks. An asynchronous server makes a step with the gradient of one
//! rank.
//!
//! Ranks on GPUs sum their gradients with NCCL. All other messages use the group.

mod agreement;
mod asynchronous;
mod gpus;
mod message;
mod reduction;
mod reduction_check;
mod server;
mod staleness;

use std::time::Instant;

use mantissa_collectives::{CollectiveError, Group, Traffic};
use mantissa_core::{Format, Reduce, ReduceAlgorithm, Setting};
use mantissa_precision::Nccl;

use crate::{ReductionAccuracy, WorkloadError};

/// Connection of a training with its other ranks.
pub(super) struct Ranks<'a> {
    /// `None` for a training with one rank.
    group: Option<&'a mut dyn Group>,
    /// True if NCCL sums the gradients.
    sums_with_nccl: bool,
    /// Connection with the GPUs of the other ranks.
    nccl: Option<Nccl>,
    /// Number of devices of the setting.
    devices: usize,
    /// Format in which gradients are sent and summed.
    format: Format,
    /// Format of the parameters.
    parameter_format: Format,
    reduce: Reduce,
    /// Algorithm of an all-reduce.
    algorithm: ReduceAlgorithm,
    /// Accuracy of the reduction, measured before the training.
    accuracy: Option<ReductionAccuracy>,
    /// Operations since the beginning of the training.
    counters: Counters,
}

/// Counters of the operations of a group.
#[derive(Debug, Clone, Copy, Default)]
struct Counters {
    /// Duration, including the time of waiting for slower ranks.
    seconds: f64,
    /// Duration of the epochs of a worker of an asynchronous server, without validations.
    working_seconds: f64,
    /// Number of reductions, or of gradients that an asynchronous server applied.
    reductions: u64,
    /// Messages that this rank sent in all reductions; `None` before the first one, and if the engine does not count them.
    traffic: Option<Traffic>,
    /// Messages that this rank should have sent.
    expected: Traffic,
}

impl Counters {
    /// Adds messages that were sent, if the engine counts them.
    fn add_traffic(&mut self, sent: Option<Traffic>) {
        if let Some(sent) = sent {
            *self.traffic.get_or_insert_default() += sent;
        }
    }
}

impl<'a> Ranks<'a> {
    /// Creates a rank that exchanges gradients with the other ranks of the group.
    pub(super) fn new(group: &'a mut dyn Group, setting: &Setting) -> Self {
        let several = group.size() > 1;
        Self {
            group: several.then_some(group),
            ..Self::single(setting)
        }
    }

    /// Creates the only rank of a training.
    pub(super) fn single(setting: &Setting) -> Self {
        Self {
            group: None,
            sums_with_nccl: setting.sums_with_nccl(),
            nccl: None,
            devices: setting.devices() as usize,
            format: setting.reduce_format().into(),
            parameter_format: setting.precision().parameters(),
            reduce: setting.reduce(),
            algorithm: setting.reduce_algorithm(),
            accuracy: None,
            counters: Counters::default(),
        }
    }

    /// Returns the group of several ranks.
    fn group(&mut self) -> &mut (dyn Group + 'a) {
        match &mut self.group {
            Some(group) => &mut **group,
            None => unreachable!("the training has several ranks"),
        }
    }

    /// Returns true if rank 0 makes the optimizer steps with the gradients of all ranks.
    pub(super) fn has_server(&self) -> bool {
        self.group.is_some() && self.reduce == Reduce::ParameterServer
    }

    /// Returns true if rank 0 makes an optimizer step with the gradients of each other rank.
    pub(super) fn is_asynchronous(&self) -> bool {
        self.group.is_some() && self.reduce == Reduce::ParameterServerAsync
    }

    /// Returns true if this rank is an asynchronous server.
    pub(super) fn is_server(&self) -> bool {
        self.is_asynchronous() && self.rank() == 0
    }

    fn rank(&self) -> usize {
        self.group.as_ref().map_or(0, |group| group.rank())
    }

    fn size(&self) -> usize {
        self.group.as_ref().map_or(1, |group| group.size())
    }

    /// Returns the micro-batches of this rank from those of an optimizer step. Micro-batch `j` of N ranks belongs to rank
    /// `N − 1 − (j mod N)`. The linear all-reduce adds from the last rank to the first, so if every rank has one micro-batch, it adds the
    /// gradients in the order in which one rank would accumulate them.
    pub(super) fn shard<T>(&self, micro_batches: Vec<T>) -> Vec<T> {
        let own = micro_batches.into_iter().skip(self.position(0));
        own.step_by(self.size()).collect()
    }

    /// Returns the position of a micro-batch of this rank in the optimizer step.
    pub(super) fn position(&self, index: usize) -> usize {
        (index + 1) * self.size() - 1 - self.rank()
    }

    /// Adds counts over all ranks. Saturates, because a faulty device can report counts whose sum overflows.
    pub(super) fn sum<const N: usize>(&mut self, counts: [usize; N]) -> Result<[usize; N], WorkloadError> {
        let own = counts.map(|count| (count as u64).to_le_bytes());
        let mut sums = [0; N];
        for rank in self.gather(own.as_flattened())? {
            for (sum, bytes) in sums.iter_mut().zip(rank.as_chunks().0) {
                *sum = usize::saturating_add(*sum, u64::from_le_bytes(*bytes) as usize);
            }
        }
        Ok(sums)
    }

    /// Returns the losses of the micro-batches of all ranks, in the order of the micro-batches.
    pub(super) fn losses(&mut self, own: Vec<f64>) -> Result<Vec<f64>, WorkloadError> {
        let own: Vec<u8> = own.into_iter().flat_map(f64::to_le_bytes).collect();
        let all = self.gather(&own)?;
        let losses = |rank: &Vec<u8>| -> Vec<f64> {
            rank.as_chunks()
                .0
                .iter()
                .map(|bytes| f64::from_le_bytes(*bytes))
                .collect()
        };
        let all: Vec<Vec<f64>> = all.iter().map(losses).collect();
        let (size, total) = (self.size(), all.iter().map(Vec::len).sum());
        let at = |position: usize| all[size - 1 - position % size][position / size];
        Ok((0..total).map(at).collect())
    }

    /// Waits for all ranks. The time is not communication.
    pub(super) fn barrier(&mut self) -> Result<(), WorkloadError> {
        match &mut self.group {
            Some(group) => group.barrier().map_err(failed),
            None => Ok(()),
        }
    }

    /// Resets the counters.
    pub(super) fn start_over(&mut self) {
        self.counters = Counters::default();
    }

    /// Returns the bytes of every rank, in the order of the ranks.
    fn gather(&mut self, own: &[u8]) -> Result<Vec<Vec<u8>>, WorkloadError> {
        let begun = Instant::now();
        let all = match &mut self.group {
            Some(group) => group.all_gather(own).map_err(failed)?,
            None => vec![own.to_vec()],
        };
        self.counters.seconds += begun.elapsed().as_secs_f64();
        Ok(all)
    }
}

fn failed(error: CollectiveError) -> WorkloadError {
    WorkloadError::ranks(error)
}

#[cfg(test)]
mod tests;
