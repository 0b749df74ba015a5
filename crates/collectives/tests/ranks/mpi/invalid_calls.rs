//! Calls that differ between ranks.

use mantissa_collectives::{Call, CollectiveError, Gradient, MpiGroup};
use mantissa_core::{Format, ReduceAlgorithm};

use crate::launch::on_ranks;

#[test]
fn different_lengths_are_an_error_on_every_rank() {
    on_ranks(&[2, 3, 8], ReduceAlgorithm::ALL, |group, _| {
        let last = group.size() - 1;
        let len = |rank: usize| if rank == last { 999 } else { 1000 };
        let mut gradient = Gradient::F32(vec![1.0; len(group.rank())]);
        let error = group.all_reduce(&mut gradient).unwrap_err();
        let call = |rank| Call::AllReduce {
            format: Format::F32,
            len: len(rank),
        };
        assert_eq!(
            error,
            CollectiveError::Disagreement((0..group.size()).map(call).collect())
        );
        let text = error.to_string();
        assert!(
            text.ends_with(&format!("rank {last}: all-reduce of 999 f32 values")),
            "{text}"
        );
        // The group is still usable.
        let mut gradient = Gradient::F32(vec![1.0]);
        group.all_reduce(&mut gradient).unwrap();
        assert_eq!(gradient, Gradient::F32(vec![group.size() as f32]));
    });
}

#[test]
fn different_formats_operations_and_roots_are_errors() {
    on_ranks(&[3], &[ReduceAlgorithm::Ring], |group, _| {
        let odd = group.rank() == 1;
        let format = if odd { Format::Bf16 } else { Format::F16 };
        let mut gradient = Gradient::from_f64(format, [1.0]);
        let text = group.all_reduce(&mut gradient).unwrap_err().to_string();
        assert!(
            text.ends_with("ranks 0, 2: all-reduce of 1 f16 values; rank 1: all-reduce of 1 bf16 values"),
            "{text}"
        );

        let mut gradient = Gradient::F64(vec![1.0]);
        let error = if odd {
            group.barrier()
        } else {
            group.all_reduce(&mut gradient)
        };
        let text = error.unwrap_err().to_string();
        assert!(
            text.ends_with("ranks 0, 2: all-reduce of 1 f64 values; rank 1: barrier"),
            "{text}"
        );

        let text = group
            .broadcast(group.rank() / 2, &mut gradient)
            .unwrap_err()
            .to_string();
        assert!(
            text.ends_with("rank 2: broadcast of 1 f64 values from rank 1"),
            "{text}"
        );
        assert_eq!(
            group.gather(3, &gradient),
            Err(CollectiveError::Root { root: 3, size: 3 })
        );
    });
}

#[test]
fn second_initialization_is_an_error() {
    on_ranks(&[1], &[ReduceAlgorithm::Ring], |_, _| {
        let error = MpiGroup::initialize().err().unwrap();
        assert_eq!(
            error.to_string(),
            "MPI_Init_thread failed: MPI was already initialized in this process"
        );
    });
}
