//! Shapes of the outputs of controlled operations, which fusion needs before it runs them.

use burn::tensor::{Shape, calculate_matmul_output};

/// Returns the shape of a matmul.
pub(crate) fn product_shape(lhs: &Shape, rhs: &Shape) -> Shape {
    calculate_matmul_output(lhs, rhs).expect("operands have compatible shapes")
}

/// Returns the shape of the output of attention.
pub(crate) fn attention_shape(query: &Shape, value: &Shape) -> Shape {
    let ([n, heads, sequence, _], [.., width]) = (query.dims::<4>(), value.dims::<4>());
    Shape::new([n, heads, sequence, width])
}
