//! Traffic that the engine counts, compared with the formulas.

use mantissa_collectives::{Gradient, Traffic, environment, expected_traffic};
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
fn counted_traffic_of_a_server_equals_the_formula() {
    for ranks in [2, 3, 5, 8] {
        let output = output_of_ranks(ranks, ReduceAlgorithm::Ring, environment(None), |group, _| {
            let (rank, size) = (group.rank(), group.size());
            for len in [0, 1, 1000, 100_003] {
                let gradient = Gradient::from_f64(Format::Bf16, vec![1.0; len]);
                let mut parameters = Gradient::F32(vec![1.0; 2 * len]);
                let gathered = group.gather(0, &gradient).unwrap();
                assert_eq!(gathered.map(|all| all.len()), (rank == 0).then_some(size));
                group.broadcast(0, &mut parameters).unwrap();
                // Each worker sends its gradient, and the server sends each of them the parameters.
                let expected = match rank {
                    0 => Traffic::of_messages(size - 1, &parameters),
                    _ => Traffic::of_messages(1, &gradient),
                };
                assert_eq!(group.take_traffic(), Some(expected), "rank {rank}, {len} values");
            }
        });
        match output {
            Some(output) => assert_passed(&output, ranks, &format!("{ranks} ranks")),
            None => return,
        }
    }
}

#[test]
fn messages_between_two_ranks_are_counted() {
    on_ranks(&[3], &[ReduceAlgorithm::Ring], |group, _| {
        // Rank 0 receives from both, in any order, and answers. The last message is longer than those that MPI sends at once.
        let long = vec![7; 3_000_000];
        match group.rank() {
            0 => {
                for _ in 0..6 {
                    let (from, bytes) = group.receive().unwrap();
                    assert!(bytes.is_empty() || bytes == [from as u8] || bytes == long);
                    group.send(from, &bytes).unwrap();
                }
            }
            rank => {
                for sent in [vec![], vec![rank as u8], long] {
                    group.send(0, &sent).unwrap();
                    assert_eq!(group.receive().unwrap(), (0, sent));
                }
            }
        }
        let each = Traffic {
            messages: 3,
            bytes: 3_000_001,
        };
        let both = Traffic {
            messages: 6,
            bytes: 6_000_002,
        };
        assert_eq!(group.take_traffic(), Some([both, each, each][group.rank()]));
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
