//! Traffic that the engine counts, compared with the formulas.

use mantissa_collectives::{Gradient, Traffic, expected_traffic};
use mantissa_core::{Format, ReduceAlgorithm};

use crate::launch::{assert_passed, on_ranks, output_of_ranks};

#[test]
fn counted_traffic_equals_the_formulas() {
    on_ranks(&[1, 2, 3, 4, 5, 8], ReduceAlgorithm::ALL, |group, algorithm| {
        let (rank, size) = (group.rank(), group.size());
        for format in [Format::F64, Format::F32, Format::Bf16, Format::F16] {
            for len in [0, 1, size - 1, size, size + 1, 1000, 100_003] {
                group
                    .all_reduce(&mut Gradient::from_f64(format, vec![1.0; len]))
                    .unwrap();
                let counted = group.take_traffic().expect("the monitoring layer counts");
                let bytes = format.storage_bytes() as usize;
                let expected = expected_traffic(algorithm, rank, size, len, bytes);
                assert_eq!(counted, expected, "rank {rank}, {len} {format} values");
            }
        }
    });
}

#[test]
fn only_messages_with_gradients_are_counted() {
    on_ranks(&[2], &[ReduceAlgorithm::Ring], |group, _| {
        let mut gradient = Gradient::F32(vec![1.0; 10]);
        group.all_gather(b"hash of the plan").unwrap();
        group.barrier().unwrap();
        assert_eq!(group.take_traffic(), Some(Traffic::default()));
        group.broadcast(1, &mut gradient).unwrap();
        group.gather(0, &gradient).unwrap();
        // Rank 1 sends both.
        let sent = [
            Traffic::default(),
            Traffic {
                messages: 2,
                bytes: 80,
            },
        ];
        assert_eq!(group.take_traffic(), Some(sent[group.rank()]));
        assert_eq!(group.take_traffic(), Some(Traffic::default()));
    });
}

#[test]
fn traffic_is_unknown_without_the_monitoring_layer() {
    let output = output_of_ranks(2, ReduceAlgorithm::Ring, Vec::new(), |group, _| {
        group.all_reduce(&mut Gradient::F32(vec![1.0; 10])).unwrap();
        assert_eq!(group.take_traffic(), None);
    });
    if let Some(output) = output {
        assert_passed(&output, 2, "2 ranks");
    }
}
