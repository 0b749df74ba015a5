//! Ranks that are threads, for tests without MPI.

use std::sync::mpsc::{Receiver, Sender, channel};

use mantissa_core::ReduceAlgorithm;

use crate::{Call, CollectiveError, Gradient, Group, Traffic, order, probe::addition};

/// Group whose ranks are threads of one process. It adds in the order of [`ReduceAlgorithm::Linear`].
///
/// If a thread drops its group, the next operation of the others returns [`CollectiveError::RankLeft`].
#[derive(Debug)]
pub struct ThreadGroup {
    rank: usize,
    senders: Vec<Sender<Message>>,
    receivers: Vec<Receiver<Message>>,
    /// Senders of bytes to the other ranks; `None` for this rank, whose receiver would otherwise never close.
    mailboxes: Vec<Option<Sender<Mail>>>,
    mailbox: Receiver<Mail>,
}

/// Call of a rank with its data.
type Message = (Call, Data);

/// Bytes for one rank, with the rank that sent them.
type Mail = (usize, Vec<u8>);

#[derive(Debug, Clone)]
enum Data {
    None,
    Bytes(Vec<u8>),
    Values(Gradient),
}

impl ThreadGroup {
    /// Returns the groups of all ranks, one for each thread.
    pub fn new(ranks: usize) -> Vec<Self> {
        let (mailboxes, receivers): (Vec<_>, Vec<_>) = (0..ranks).map(|_| channel()).unzip();
        let of_others = |rank| {
            let mailboxes = mailboxes.iter().enumerate();
            mailboxes.map(move |(other, sender)| (other != rank).then(|| Sender::clone(sender)))
        };
        let mut groups: Vec<Self> = receivers
            .into_iter()
            .enumerate()
            .map(|(rank, mailbox)| Self {
                rank,
                senders: Vec::new(),
                receivers: Vec::new(),
                mailboxes: of_others(rank).collect(),
                mailbox,
            })
            .collect();
        for from in 0..ranks {
            for to in 0..ranks {
                let (sender, receiver) = channel();
                groups[from].senders.push(sender);
                groups[to].receivers.push(receiver);
            }
        }
        groups
    }

    /// Sends data to all ranks, and returns the data of all ranks.
    fn exchange(&mut self, call: Call, data: Data) -> Result<Vec<Data>, CollectiveError> {
        let left = |rank| CollectiveError::RankLeft { rank };
        for (rank, sender) in self.senders.iter().enumerate() {
            sender.send((call, data.clone())).map_err(|_| left(rank))?;
        }
        let receivers = self.receivers.iter().enumerate();
        let messages = receivers.map(|(rank, receiver)| receiver.recv().map_err(|_| left(rank)));
        let (calls, data): (Vec<_>, Vec<_>) = messages.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        Call::check(&calls)?;
        Ok(data)
    }

    /// Sends a gradient to all ranks, and returns the gradients of all ranks.
    fn exchange_values(&mut self, call: Call, gradient: &Gradient) -> Result<Vec<Gradient>, CollectiveError> {
        let data = self.exchange(call, Data::Values(gradient.clone()))?;
        let values = data.into_iter().filter_map(|data| match data {
            Data::Values(gradient) => Some(gradient),
            Data::None | Data::Bytes(_) => None,
        });
        Ok(values.collect())
    }
}

impl Group for ThreadGroup {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.senders.len()
    }

    fn all_reduce(&mut self, gradient: &mut Gradient) -> Result<(), CollectiveError> {
        let (format, len) = (gradient.format(), gradient.len());
        let gradients = self.exchange_values(Call::AllReduce { format, len }, gradient)?;
        let values: Vec<Vec<f64>> = gradients.iter().map(Gradient::to_f64).collect();
        let sums = (0..len).map(|index| {
            let values: Vec<f64> = values.iter().map(|values| values[index]).collect();
            order::sum(ReduceAlgorithm::Linear, &values, 0, &addition(format))
        });
        *gradient = Gradient::from_f64(format, sums);
        Ok(())
    }

    fn all_gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CollectiveError> {
        let data = self.exchange(Call::AllGather { len: bytes.len() }, Data::Bytes(bytes.to_vec()))?;
        let bytes = data.into_iter().filter_map(|data| match data {
            Data::Bytes(bytes) => Some(bytes),
            Data::None | Data::Values(_) => None,
        });
        Ok(bytes.collect())
    }

    fn broadcast(&mut self, root: usize, gradient: &mut Gradient) -> Result<(), CollectiveError> {
        let (format, len) = (gradient.format(), gradient.len());
        let mut gradients = self.exchange_values(Call::Broadcast { root, format, len }, gradient)?;
        *gradient = gradients.swap_remove(root);
        Ok(())
    }

    fn gather(&mut self, root: usize, gradient: &Gradient) -> Result<Option<Vec<Gradient>>, CollectiveError> {
        let (format, len) = (gradient.format(), gradient.len());
        let gradients = self.exchange_values(Call::Gather { root, format, len }, gradient)?;
        Ok((self.rank == root).then_some(gradients))
    }

    fn send(&mut self, to: usize, bytes: &[u8]) -> Result<(), CollectiveError> {
        let size = self.size();
        let mailbox = self.mailboxes.get(to).and_then(Option::as_ref);
        let mailbox = mailbox.ok_or(CollectiveError::NoRank { rank: to, size })?;
        let sent = mailbox.send((self.rank, bytes.to_vec()));
        sent.map_err(|_| CollectiveError::RankLeft { rank: to })
    }

    fn receive(&mut self) -> Result<(usize, Vec<u8>), CollectiveError> {
        self.mailbox.recv().map_err(|_| CollectiveError::NoSender)
    }

    fn barrier(&mut self) -> Result<(), CollectiveError> {
        self.exchange(Call::Barrier, Data::None).map(drop)
    }

    fn take_traffic(&mut self) -> Option<Traffic> {
        None
    }

    fn finish(self: Box<Self>) -> Result<(), CollectiveError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use mantissa_core::Format;

    use super::*;

    /// Runs a function on each rank, and returns its results in the order of the ranks.
    fn on_ranks<T: Send>(ranks: usize, body: impl Fn(ThreadGroup) -> T + Sync) -> Vec<T> {
        thread::scope(|scope| {
            let groups = ThreadGroup::new(ranks).into_iter();
            let threads: Vec<_> = groups.map(|group| scope.spawn(|| body(group))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    #[test]
    fn sums_are_added_from_the_last_rank_to_the_first() {
        // In bf16, 256 + 1 = 256, but 1 + 1 + 256 = 258.
        let sums = on_ranks(3, |mut group| {
            let values = [[1.0, 1.0, 256.0], [256.0, 1.0, 1.0]].map(|values| values[group.rank()]);
            let mut gradient = Gradient::from_f64(Format::Bf16, values);
            group.all_reduce(&mut gradient).unwrap();
            gradient.to_f64()
        });
        assert_eq!(sums, vec![vec![256.0, 258.0]; 3]);
    }

    #[test]
    fn bytes_and_gradients_arrive_in_the_order_of_the_ranks() {
        on_ranks(3, |mut group| {
            let rank = group.rank();
            let bytes = group.all_gather(&vec![rank as u8; rank]).unwrap();
            assert_eq!(bytes, [vec![], vec![1], vec![2, 2]]);
            let mut gradient = Gradient::F32(vec![rank as f32]);
            let gathered = group.gather(1, &gradient).unwrap();
            let all = vec![0.0, 1.0, 2.0]
                .into_iter()
                .map(|value| Gradient::F32(vec![value]));
            assert_eq!(gathered, (rank == 1).then(|| all.collect()));
            group.barrier().unwrap();
            group.broadcast(2, &mut gradient).unwrap();
            assert_eq!(gradient, Gradient::F32(vec![2.0]));
            assert_eq!(group.take_traffic(), None);
        });
    }

    #[test]
    fn bytes_of_a_rank_arrive_in_order() {
        on_ranks(3, |mut group| match group.rank() {
            0 => {
                let mut of_ranks = [vec![], vec![], vec![]];
                for _ in 0..4 {
                    let (from, bytes) = group.receive().unwrap();
                    of_ranks[from].push(bytes);
                }
                assert_eq!(of_ranks, [vec![], vec![vec![1], vec![]], vec![vec![2], vec![]]]);
                assert_eq!(group.receive(), Err(CollectiveError::NoSender));
            }
            rank => {
                group.send(0, &[rank as u8]).unwrap();
                group.send(0, &[]).unwrap();
                let error = CollectiveError::NoRank { rank, size: 3 };
                assert_eq!(group.send(rank, &[]), Err(error));
            }
        });
    }

    #[test]
    fn different_calls_are_an_error_on_every_rank() {
        let errors = on_ranks(3, |mut group| {
            let len = if group.rank() == 2 { 4 } else { 5 };
            group.all_reduce(&mut Gradient::F64(vec![0.0; len])).unwrap_err()
        });
        let call = |len| Call::AllReduce {
            format: Format::F64,
            len,
        };
        assert_eq!(
            errors,
            vec![CollectiveError::Disagreement(vec![call(5), call(5), call(4)]); 3]
        );
        let errors = on_ranks(2, |mut group| match group.rank() {
            0 => group.barrier().unwrap_err(),
            _ => group.broadcast(0, &mut Gradient::F16(vec![])).unwrap_err(),
        });
        let broadcast = Call::Broadcast {
            root: 0,
            format: Format::F16,
            len: 0,
        };
        assert_eq!(
            errors,
            vec![CollectiveError::Disagreement(vec![Call::Barrier, broadcast]); 2]
        );
    }

    #[test]
    fn root_outside_of_the_group_is_an_error_on_every_rank() {
        let errors = on_ranks(2, |mut group| {
            group.gather(2, &Gradient::F64(vec![1.0])).unwrap_err()
        });
        assert_eq!(errors, vec![CollectiveError::Root { root: 2, size: 2 }; 2]);
    }

    #[test]
    fn rank_that_leaves_is_an_error_on_the_others() {
        let errors = on_ranks(3, |mut group| {
            (group.rank() != 1).then(|| group.barrier().unwrap_err())
        });
        let left = Some(CollectiveError::RankLeft { rank: 1 });
        assert!(errors[0] == left && errors[1].is_none(), "{errors:?}");
        // Rank 2 may find that rank 0 left because of the error.
        assert!(
            matches!(errors[2], Some(CollectiveError::RankLeft { .. })),
            "{errors:?}"
        );
    }
}
