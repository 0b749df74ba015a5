//! Operations that move data without computing.

use mantissa_collectives::{Gradient, mpi_library};
use mantissa_core::{Format, ReduceAlgorithm};

use crate::launch::on_ranks;

const FORMATS: [Format; 4] = [Format::F64, Format::F32, Format::Bf16, Format::F16];

#[test]
fn bytes_of_any_length_arrive_in_the_order_of_the_ranks() {
    on_ranks(&[1, 2, 3, 8], &[ReduceAlgorithm::Ring], |group, _| {
        let of = |rank: usize| vec![rank as u8 + 1; (rank * 37) % 5];
        let expected: Vec<Vec<u8>> = (0..group.size()).map(of).collect();
        assert_eq!(group.all_gather(&of(group.rank())).unwrap(), expected);
        assert_eq!(
            group.all_gather(&[]).unwrap(),
            vec![Vec::<u8>::new(); group.size()]
        );
        group.barrier().unwrap();
    });
}

#[test]
fn gradients_of_every_root_arrive() {
    on_ranks(&[1, 2, 3, 8], &[ReduceAlgorithm::Ring], |group, _| {
        for format in FORMATS {
            for root in 0..group.size() {
                let of = |rank: usize| Gradient::from_f64(format, [rank as f64, -0.0, f64::INFINITY]);
                let mut gradient = of(group.rank());
                group.broadcast(root, &mut gradient).unwrap();
                assert_eq!(gradient, of(root));
                let gathered = group.gather(root, &of(group.rank())).unwrap();
                let expected = (group.rank() == root).then(|| (0..group.size()).map(of).collect::<Vec<_>>());
                assert_eq!(gathered, expected);

                let mut empty = Gradient::from_f64(format, []);
                group.broadcast(root, &mut empty).unwrap();
                let gathered = group.gather(root, &empty).unwrap();
                assert_eq!(
                    gathered,
                    (group.rank() == root).then(|| vec![empty; group.size()])
                );
            }
        }
    });
}

#[test]
fn version_of_the_library_is_known() {
    let version = mpi_library().unwrap();
    assert!(version.starts_with("Open MPI v4."), "{version}");
}
