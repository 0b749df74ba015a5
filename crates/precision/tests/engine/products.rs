//! Products and their gradients over random shapes, against f64 written out in loops.

use burn::{
    backend::Autodiff,
    tensor::{DType, Tensor, TensorData},
};
use mantissa_core::{Accumulator, MatmulPrecision, Precision};
use mantissa_precision::{Compute, device::Flex};
use proptest::prelude::*;

type Ad = Autodiff<Flex>;

/// A batch of products: `lhs` is `[batch or 1, m, k]`, `rhs` is `[batch or 1, k, n]`.
#[derive(Debug, Clone)]
struct Problem {
    batch: usize,
    lhs_batch: usize,
    rhs_batch: usize,
    m: usize,
    k: usize,
    n: usize,
    /// Whether an operand is stored the other way round and reaches the product as a transposed view.
    turned: (bool, bool),
    seed: u64,
}

impl Problem {
    /// Small whole numbers: every sum is exact in f32, and so must be every result.
    fn values(&self, count: usize, salt: u64) -> Vec<f64> {
        let mut state = self.seed ^ salt.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            f64::from((state >> 60) as u32) - 8.0
        };
        (0..count).map(|_| next()).collect()
    }
}

fn problems() -> impl Strategy<Value = Problem> {
    let edge = prop_oneof![Just(0usize), Just(1), 2usize..20];
    (
        1usize..4,
        any::<(bool, bool)>(),
        edge.clone(),
        edge.clone(),
        edge,
        any::<(bool, bool)>(),
        any::<u64>(),
    )
        .prop_map(|(batch, whole, m, k, n, turned, seed)| Problem {
            batch,
            lhs_batch: if whole.0 { batch } else { 1 },
            rhs_batch: if whole.1 || !whole.0 { batch } else { 1 },
            m,
            k,
            n,
            turned,
            seed,
        })
}

fn tensor(values: &[f64], [batch, rows, columns]: [usize; 3], turned: bool, dtype: DType) -> Tensor<Ad, 3> {
    let device = Default::default();
    if !turned {
        let data = TensorData::new(values.to_vec(), [batch, rows, columns]);
        return Tensor::from_data(data, (&device, dtype)).require_grad();
    }
    let mut other = vec![0.0; values.len()];
    for b in 0..batch {
        for i in 0..rows {
            for j in 0..columns {
                other[(b * columns + j) * rows + i] = values[(b * rows + i) * columns + j];
            }
        }
    }
    let data = TensorData::new(other, [batch, columns, rows]);
    Tensor::from_data(data, (&device, dtype))
        .swap_dims(1, 2)
        .require_grad()
}

fn list(tensor: Tensor<Flex, 3>) -> Vec<f64> {
    tensor.into_data().iter::<f64>().collect()
}

fn agrees(problem: &Problem, compute: Compute, dtype: DType) -> Result<(), TestCaseError> {
    let Problem { batch, m, k, n, .. } = *problem;
    let (lhs_batch, rhs_batch) = (problem.lhs_batch, problem.rhs_batch);
    let a = problem.values(lhs_batch * m * k, 1);
    let b = problem.values(rhs_batch * k * n, 2);
    let g = problem.values(batch * m * n, 3);

    let lhs = tensor(&a, [lhs_batch, m, k], problem.turned.0, dtype);
    let rhs = tensor(&b, [rhs_batch, k, n], problem.turned.1, dtype);
    let product = compute.matmul(lhs.clone(), rhs.clone());
    let weights = Tensor::<Flex, 3>::from_data(
        TensorData::new(g.clone(), [batch, m, n]),
        (&Default::default(), dtype),
    );
    let grads = (product.clone() * Tensor::from_inner(weights)).sum().backward();

    let (mut want, mut want_a, mut want_b) =
        (vec![0.0; batch * m * n], vec![0.0; a.len()], vec![0.0; b.len()]);
    for z in 0..batch {
        let (za, zb) = (z % lhs_batch, z % rhs_batch);
        for i in 0..m {
            for j in 0..n {
                let at = (z * m + i) * n + j;
                for l in 0..k {
                    let (ia, ib) = ((za * m + i) * k + l, (zb * k + l) * n + j);
                    want[at] += a[ia] * b[ib];
                    want_a[ia] += g[at] * b[ib];
                    want_b[ib] += a[ia] * g[at];
                }
            }
        }
    }
    prop_assert_eq!(product.dims(), [batch, m, n]);
    prop_assert_eq!(list(product.inner()), want);
    prop_assert_eq!(list(lhs.grad(&grads).unwrap()), want_a);
    prop_assert_eq!(list(rhs.grad(&grads).unwrap()), want_b);
    Ok(())
}

proptest! {
    #[test]
    fn products_and_gradients_are_exact_where_every_number_is_a_small_whole_one(problem in problems()) {
        let of = |precision, matmul| Compute::new(precision, matmul, Accumulator::F32);
        agrees(&problem, of(Precision::True64, MatmulPrecision::Highest), DType::F64)?;
        for &matmul in MatmulPrecision::ALL {
            agrees(&problem, of(Precision::True32, matmul), DType::F32)?;
        }
    }
}
