//! Comparison of the ranks: before a training their programs, cells and data, and after it their parameters and messages.

use std::io;

use mantissa_collectives::Traffic;
use mantissa_core::{Event, EventKind, Reduce, open_own_program};
use mantissa_precision::ParameterSet;

use super::Ranks;
use crate::{Communication, WorkloadError, outcome::read};

impl Ranks<'_> {
    /// Checks that all ranks run the same program on the same cell and data. Otherwise, they would train different models without an error.
    pub(in crate::train) fn agree(&mut self, cell: &str, data: &str) -> Result<(), WorkloadError> {
        if self.size() != self.devices {
            return Err(WorkloadError::ranks(format!(
                "the cell has {} devices, but the number of ranks is {}",
                self.devices,
                self.size()
            )));
        }
        if self.group.is_none() {
            return Ok(());
        }
        let program = program_hash()
            .map_err(|error| WorkloadError::ranks(format!("cannot read the program: {error}")))?;
        for (what, own) in [("program", program.as_str()), ("cell", cell), ("data", data)] {
            let all = self.gather(own.as_bytes())?;
            if let Some(other) = all.iter().position(|hash| *hash != all[0]) {
                return Err(WorkloadError::ranks(format!(
                    "they differ in the {what}: rank 0 has `{}`, and rank {other} has `{}`",
                    String::from_utf8_lossy(&all[0]),
                    String::from_utf8_lossy(&all[other])
                )));
            }
        }
        Ok(())
    }

    /// Returns the communication of the training; `None` with one rank. The events are warnings.
    pub(in crate::train) fn communication(
        &mut self,
        parameters: &ParameterSet,
    ) -> Result<Option<(Communication, Vec<Event>)>, WorkloadError> {
        if self.group.is_none() {
            return Ok(None);
        }
        let counters = self.counters;
        let (seconds, worker_seconds) = self.communication_seconds()?;
        let expected = self.gather_traffic(Some(counters.expected))?;
        let traffic = self.gather_traffic(counters.traffic)?;
        let mut warnings: Vec<String> = vec![];
        let both = traffic.iter().flatten().zip(expected.iter().flatten());
        for (rank, (sent, expected)) in both.enumerate().filter(|(_, (sent, expected))| sent != expected) {
            warnings.push(format!(
                "rank {rank} sent {} messages with {} bytes, but with `{}` it should send {} with {}",
                sent.messages,
                sent.bytes,
                self.way(),
                expected.messages,
                expected.bytes
            ));
        }
        let hashes = self.gather(hash_of(parameters)?.as_bytes())?;
        if let Some(other) = hashes.iter().position(|hash| *hash != hashes[0]) {
            warnings.push(format!(
                "after the training, the parameters of rank {other} differ from those of rank 0"
            ));
        }
        let communication = Communication {
            seconds,
            worker_seconds,
            reductions: counters.reductions,
            accuracy: self.accuracy,
            traffic: traffic.and_then(|traffic| traffic.into_iter().max_by_key(|sent| sent.bytes)),
        };
        let event = |warning| Event::new(EventKind::Warning, warning);
        Ok(Some((communication, warnings.into_iter().map(event).collect())))
    }

    /// Returns the time in which this rank communicated. The server of an asynchronous training only communicates. With it, returns the means
    /// of its workers: the time in which a worker communicated, and its duration of the training.
    fn communication_seconds(&mut self) -> Result<(f64, Option<f64>), WorkloadError> {
        if !self.is_asynchronous() {
            return Ok((self.counters.seconds, None));
        }
        let own = [self.counters.seconds, self.counters.working_seconds].map(f64::to_le_bytes);
        let (mut communicating, mut working) = (0.0, 0.0);
        for worker in self.gather(own.as_flattened())?.iter().skip(1) {
            let [own_communicating, own_working] = worker.as_chunks().0 else {
                unreachable!("every rank sends two numbers")
            };
            communicating += f64::from_le_bytes(*own_communicating);
            working += f64::from_le_bytes(*own_working);
        }
        let workers = (self.size() - 1) as f64;
        Ok((communicating / workers, Some(working / workers)))
    }

    /// Returns the axis that determines the messages, with its value.
    fn way(&self) -> String {
        match self.reduce {
            Reduce::AllReduce => format!("reduce_algorithm={}", self.algorithm),
            reduce => format!("reduce={reduce}"),
        }
    }

    /// Returns the messages of each rank; `None` if one of them has none.
    fn gather_traffic(&mut self, own: Option<Traffic>) -> Result<Option<Vec<Traffic>>, WorkloadError> {
        let own = own.map(|sent| [sent.messages, sent.bytes].map(u64::to_le_bytes));
        let all = self.gather(own.as_ref().map_or(&[], |own| own.as_flattened()))?;
        let decode = |rank: &Vec<u8>| match rank.as_chunks().0 {
            [messages, bytes] => Some(Traffic {
                messages: u64::from_le_bytes(*messages),
                bytes: u64::from_le_bytes(*bytes),
            }),
            _ => None,
        };
        Ok(all.iter().map(decode).collect())
    }
}

/// Returns the hash of this program's file.
fn program_hash() -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(open_own_program()?)?;
    Ok(hasher.finalize().to_hex()[..16].to_owned())
}

/// Returns the hash of all parameter values.
fn hash_of(parameters: &ParameterSet) -> Result<blake3::Hash, WorkloadError> {
    let mut hasher = blake3::Hasher::new();
    for (_, value) in parameters.iter() {
        hasher.update(bytemuck::cast_slice(&read::<f64, 1, _>(value.clone())?));
    }
    Ok(hasher.finalize())
}
