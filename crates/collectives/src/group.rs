//! Connection of a rank with the other ranks.

use crate::{CollectiveError, Gradient, Traffic};

/// Connection of a rank with the other ranks of its cell.
///
/// Except for [`Self::send`] and [`Self::receive`], all ranks must make the same calls in the same order. Before each operation, a group
/// compares the calls of all ranks. If they differ in the operation, the root, the format or the length (except that of an all-gather), every rank returns the same
/// [`CollectiveError::Disagreement`].
pub trait Group {
    /// Returns the number of this rank, from 0 to `size() - 1`.
    fn rank(&self) -> usize;

    /// Returns the number of ranks.
    fn size(&self) -> usize;

    /// Replaces a gradient by the element-wise sum over all ranks, with the same bits on every rank. Each addition rounds
    /// to the format of the gradient.
    fn all_reduce(&mut self, gradient: &mut Gradient) -> Result<(), CollectiveError>;

    /// Returns the bytes of every rank, in the order of the ranks. The lengths may differ.
    fn all_gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CollectiveError>;

    /// Replaces the gradient of every rank by that of `root`.
    fn broadcast(&mut self, root: usize, gradient: &mut Gradient) -> Result<(), CollectiveError>;

    /// Returns the gradients of all ranks, in the order of the ranks, on `root`, and `None` on the other ranks.
    fn gather(&mut self, root: usize, gradient: &Gradient) -> Result<Option<Vec<Gradient>>, CollectiveError>;

    /// Sends bytes to another rank. May wait until that rank receives them.
    fn send(&mut self, to: usize, bytes: &[u8]) -> Result<(), CollectiveError>;

    /// Waits for bytes that any rank sent with [`Self::send`], and returns the rank and the bytes. Bytes of one rank arrive in the order in
    /// which it sent them.
    fn receive(&mut self) -> Result<(usize, Vec<u8>), CollectiveError>;

    /// Waits until every rank has called the function.
    fn barrier(&mut self) -> Result<(), CollectiveError>;

    /// Returns the messages with gradients and the messages of [`Self::send`] that this rank sent since the last call of the function, without
    /// those that compare the calls of the ranks. Returns `None` if the engine cannot count.
    fn take_traffic(&mut self) -> Option<Traffic>;

    /// Leaves the group after the last operation. Every rank must call the function.
    fn finish(self: Box<Self>) -> Result<(), CollectiveError>;
}
