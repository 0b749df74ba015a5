//! Comparison of the calls of all ranks, which prevents operations that never end.

use std::fmt;

use mantissa_core::Format;

use crate::CollectiveError;

/// Call of a collective operation by one rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// [`crate::Group::all_reduce`].
    AllReduce {
        /// Format of the gradient.
        format: Format,
        /// Number of values.
        len: usize,
    },
    /// [`crate::Group::all_gather`].
    AllGather {
        /// Number of bytes.
        len: usize,
    },
    /// [`crate::Group::broadcast`].
    Broadcast {
        /// Rank that sends.
        root: usize,
        /// Format of the gradient.
        format: Format,
        /// Number of values.
        len: usize,
    },
    /// [`crate::Group::gather`].
    Gather {
        /// Rank that receives.
        root: usize,
        /// Format of the gradient.
        format: Format,
        /// Number of values.
        len: usize,
    },
    /// [`crate::Group::barrier`].
    Barrier,
}

impl Call {
    /// Checks that the calls of all ranks belong to the same operation, and that its root exists.
    pub(crate) fn check(calls: &[Self]) -> Result<(), CollectiveError> {
        let matches = |call: &Self| match (call, &calls[0]) {
            (Self::AllGather { .. }, Self::AllGather { .. }) => true,
            (call, first) => call == first,
        };
        if !calls.iter().all(matches) {
            return Err(CollectiveError::Disagreement(calls.to_vec()));
        }
        match calls[0] {
            Self::Broadcast { root, .. } | Self::Gather { root, .. } if root >= calls.len() => {
                Err(CollectiveError::Root {
                    root,
                    size: calls.len(),
                })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(feature = "mpi")]
impl Call {
    /// Number of words of an encoded call.
    pub(crate) const WORDS: usize = 4;

    /// Returns the number of values or bytes that the rank passes.
    pub(crate) const fn len(self) -> usize {
        match self {
            Self::AllReduce { len, .. }
            | Self::AllGather { len }
            | Self::Broadcast { len, .. }
            | Self::Gather { len, .. } => len,
            Self::Barrier => 0,
        }
    }

    /// Encodes the call as integers of a fixed number.
    pub(crate) fn encode(self) -> [u64; Self::WORDS] {
        let (operation, root, format) = match self {
            Self::AllReduce { format, .. } => (0, 0, Some(format)),
            Self::AllGather { .. } => (1, 0, None),
            Self::Broadcast { root, format, .. } => (2, root, Some(format)),
            Self::Gather { root, format, .. } => (3, root, Some(format)),
            Self::Barrier => (4, 0, None),
        };
        let format = format.map_or(0, |format| format as u64);
        [operation, root as u64, format, self.len() as u64]
    }

    /// Decodes the result of [`Self::encode`] on another rank of the same program.
    pub(crate) fn decode([operation, root, format, len]: [u64; Self::WORDS]) -> Self {
        let (root, format, len) = (root as usize, Format::ALL[format as usize], len as usize);
        match operation {
            0 => Self::AllReduce { format, len },
            1 => Self::AllGather { len },
            2 => Self::Broadcast { root, format, len },
            3 => Self::Gather { root, format, len },
            _ => Self::Barrier,
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllReduce { format, len } => write!(f, "all-reduce of {len} {format} values"),
            Self::AllGather { len } => write!(f, "all-gather of {len} bytes"),
            Self::Broadcast { root, format, len } => {
                write!(f, "broadcast of {len} {format} values from rank {root}")
            }
            Self::Gather { root, format, len } => write!(f, "gather of {len} {format} values to rank {root}"),
            Self::Barrier => write!(f, "barrier"),
        }
    }
}
