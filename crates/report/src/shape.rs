//! Descriptions of kernel shapes.

use mantissa_core::{Kernel, MatmulShape, Task, Workload};

/// Returns the kernel of a workload that times one.
pub(crate) fn kernel(workload: &Workload) -> Option<&Kernel> {
    match &workload.task {
        Task::Kernel(task) => Some(&task.kernel),
        Task::Train(_) | Task::Evaluate(_) | Task::Generate(_) => None,
    }
}

/// Describes the dimension that the axis `size` sets: `matrix size N (N × N × N)`. `None` if the shape does not depend on `size`.
pub(crate) fn free_edge(kernel: &Kernel) -> Option<String> {
    if !kernel.uses_size() {
        return None;
    }
    Some(match kernel {
        Kernel::Matmul(MatmulShape::SQUARE) => "matrix size N (N × N × N)".to_owned(),
        Kernel::Matmul(shape) => {
            let name = if (shape.m.is_some(), shape.n.is_some(), shape.k) == (true, true, None) {
                "K"
            } else {
                "N"
            };
            let edge = |edge: Option<u32>| edge.map_or_else(|| name.to_owned(), |n| n.to_string());
            let (m, n, k) = (edge(shape.m), edge(shape.n), edge(shape.k));
            let dimension = if name == "K" { "inner dimension" } else { "size" };
            format!("{dimension} {name} ({}{m} × {n} × {k})", matmuls_of(shape.batch))
        }
        Kernel::Convolution(shape) => format!(
            "image size N ({} × {} × N × N, {} filters of {edge} × {edge})",
            shape.batch,
            shape.channels,
            shape.filters,
            edge = shape.edge
        ),
        Kernel::Attention(shape) => format!(
            "sequence length N ({} × {} × N × {})",
            shape.batch, shape.heads, shape.width
        ),
        Kernel::Gelu(shape)
        | Kernel::Softmax(shape)
        | Kernel::LayerNorm(shape)
        | Kernel::RmsNorm(shape)
        | Kernel::Cast(shape)
        | Kernel::AdamW(shape) => format!("rows N (N × {})", shape.width),
    })
}

/// Returns `true` if the inner dimension of a matmul grows with the axis `size`.
pub(crate) fn sums_grow(kernel: &Kernel) -> bool {
    kernel.uses_size() && matches!(kernel, Kernel::Matmul(shape) if shape.k.is_none())
}

/// Formats the size for the beginning of a sentence: `At 512×512×64`.
pub(crate) fn at_size(kernel: &Kernel, size: u32) -> String {
    match kernel {
        Kernel::Matmul(MatmulShape::SQUARE) => format!("At {size}×{size}"),
        Kernel::Matmul(shape) => {
            let [_, m, n, k] = shape.of(size);
            format!("At {}{m}×{n}×{k}", matmuls_of(shape.batch))
        }
        Kernel::Convolution(_) => format!("On images of {size}×{size}"),
        Kernel::Attention(_) => format!("At sequence length {size}"),
        Kernel::Gelu(shape)
        | Kernel::Softmax(shape)
        | Kernel::LayerNorm(shape)
        | Kernel::RmsNorm(shape)
        | Kernel::Cast(shape)
        | Kernel::AdamW(shape) => {
            let [rows, width] = shape.of(size);
            format!("On {rows}×{width} values")
        }
    }
}

fn matmuls_of(batch: u32) -> String {
    if batch == 1 {
        String::new()
    } else {
        format!("{batch} matmuls of ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_described() {
        let fixed = MatmulShape {
            batch: 96,
            m: Some(512),
            n: Some(512),
            k: Some(64),
        };
        assert_eq!(free_edge(&Kernel::Matmul(fixed)), None);
        assert_eq!(
            at_size(&Kernel::Matmul(fixed), 1024),
            "At 96 matmuls of 512×512×64"
        );
        let sums = Kernel::Matmul(MatmulShape {
            batch: 1,
            k: None,
            ..fixed
        });
        assert_eq!(free_edge(&sums).unwrap(), "inner dimension K (512 × 512 × K)");
        let square = Kernel::Matmul(MatmulShape::SQUARE);
        assert_eq!(
            (
                free_edge(&square).unwrap().as_str(),
                at_size(&square, 64).as_str()
            ),
            ("matrix size N (N × N × N)", "At 64×64")
        );
    }
}
