//! Group of one rank.

use crate::{Call, CollectiveError, Gradient, Group, Traffic};

/// Group of one rank, which sends nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Single;

impl Group for Single {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn all_reduce(&mut self, _gradient: &mut Gradient) -> Result<(), CollectiveError> {
        Ok(())
    }

    fn all_gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CollectiveError> {
        Ok(vec![bytes.to_vec()])
    }

    fn broadcast(&mut self, root: usize, gradient: &mut Gradient) -> Result<(), CollectiveError> {
        let (format, len) = (gradient.format(), gradient.len());
        Call::check(&[Call::Broadcast { root, format, len }])
    }

    fn gather(&mut self, root: usize, gradient: &Gradient) -> Result<Option<Vec<Gradient>>, CollectiveError> {
        let (format, len) = (gradient.format(), gradient.len());
        Call::check(&[Call::Gather { root, format, len }])?;
        Ok(Some(vec![gradient.clone()]))
    }

    fn send(&mut self, to: usize, _bytes: &[u8]) -> Result<(), CollectiveError> {
        Err(CollectiveError::NoRank { rank: to, size: 1 })
    }

    fn receive(&mut self) -> Result<(usize, Vec<u8>), CollectiveError> {
        Err(CollectiveError::NoSender)
    }

    fn barrier(&mut self) -> Result<(), CollectiveError> {
        Ok(())
    }

    fn take_traffic(&mut self) -> Option<Traffic> {
        Some(Traffic::default())
    }

    fn finish(self: Box<Self>) -> Result<(), CollectiveError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_return_the_values_of_the_only_rank() {
        let mut group = Single;
        let mut gradient = Gradient::F32(vec![1.5, -2.0]);
        group.all_reduce(&mut gradient).unwrap();
        group.broadcast(0, &mut gradient).unwrap();
        assert_eq!(gradient, Gradient::F32(vec![1.5, -2.0]));
        assert_eq!(group.gather(0, &gradient), Ok(Some(vec![gradient.clone()])));
        assert_eq!(group.all_gather(b"hash"), Ok(vec![b"hash".to_vec()]));
        assert_eq!(
            group.broadcast(1, &mut gradient),
            Err(CollectiveError::Root { root: 1, size: 1 })
        );
        assert_eq!(
            group.send(0, b""),
            Err(CollectiveError::NoRank { rank: 0, size: 1 })
        );
        assert_eq!(group.receive(), Err(CollectiveError::NoSender));
        assert_eq!(group.take_traffic(), Some(Traffic::default()));
    }
}
