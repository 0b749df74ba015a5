//! Reasons to skip a cell that do not depend on the machine.

use mantissa_core::{
    Attention, Cell, ConvolutionShape, Distribution, Format, Gelu, Kernel, KernelKind, Model, Precision,
    Setting, Task,
};

use super::options::StartingWeights;

/// Returns the reason why a cell is skipped.
pub(super) fn skip_reason(cell: &Cell, weights: &StartingWeights) -> Option<String> {
    if let Some(reason) = cell.setting.skip_reason() {
        return Some(reason.to_string());
    }
    match &cell.workload.task {
        Task::Train(task) if task.observe_every > 0 && cell.setting.devices() > 1 => Some(
            "value ranges are observed on one device only: set `observe_every = 0` for several devices"
                .to_owned(),
        ),
        Task::Train(task) if task.model.normalises_batches() && cell.setting.is_asynchronous() => Some(
            "an asynchronous parameter server has no running statistics of batch norms: set `reduce` to another value"
                .to_owned(),
        ),
        Task::Train(task) => model_skip_reason(&task.model, &cell.setting, true),
        Task::Evaluate(_) if !weights.available_for(&cell.workload.name) => Some(format!(
            "no weights for `{0}`: pass `--weights {0}=PATH`, or `--init random` to measure only times and memory",
            cell.workload.name
        )),
        Task::Evaluate(task) if task.dataset.is_synthetic() && *weights != StartingWeights::Random => {
            Some(format!(
                "trained weights cannot be evaluated on `{}`: pass `--data PATH`, or `--init random` to measure only times and memory",
                task.dataset
            ))
        }
        Task::Evaluate(task) => model_skip_reason(&task.model, &cell.setting, false),
        Task::Generate(task) => {
            let tokens = task.prompt_tokens.saturating_add(task.new_tokens);
            let positions = task.model.positions().filter(|positions| tokens > *positions)?;
            Some(format!(
                "the sum of `prompt_tokens` and `new_tokens` is {tokens}, but the model has {positions} positions"
            ))
        }
        Task::Kernel(task) => kernel_skip_reason(&task.kernel, &cell.setting),
    }
}

fn model_skip_reason(model: &Model, setting: &Setting, training: bool) -> Option<String> {
    let sequence = setting.sequence();
    if let Some(positions) = model.positions().filter(|positions| sequence > *positions) {
        return Some(format!(
            "`sequence={sequence}` is longer than the model's `max_position_embeddings` of {positions}"
        ));
    }
    let uses_dropout = training && model.attention_dropout().is_some_and(|share| share > 0.0);
    (uses_dropout && setting.attention() == Attention::Fused).then(|| {
        "fused attention does not support dropout: set the dropout of attention weights to 0 in `model_size`"
            .to_owned()
    })
}

fn kernel_skip_reason(kernel: &Kernel, setting: &Setting) -> Option<String> {
    let (size, distribution) = (setting.size(), setting.distribution());
    if let Some(reason) = skip_reason_without_matmul(kernel.kind(), setting) {
        return Some(reason);
    }
    match kernel {
        Kernel::Matmul(_) => None,
        Kernel::Convolution(ConvolutionShape { edge, padding, .. })
            if u64::from(size) + 2 * u64::from(*padding) < u64::from(*edge) =>
        {
            Some(format!(
                "images of `size={size}` with a padding of {padding} are smaller than filters of {edge} × {edge}"
            ))
        }
        _ if distribution == Distribution::Cancellation => Some(format!(
            "`distribution={distribution}` applies only to the kernel `matmul`"
        )),
        _ => None,
    }
}

/// Returns the reason why a kernel without dot products is skipped under a precision; `None` for all other kernels.
fn skip_reason_without_matmul(kind: KernelKind, setting: &Setting) -> Option<String> {
    let precision = setting.precision();
    let is_16_bit = matches!(precision.parameters(), Format::F16 | Format::Bf16);
    match kind {
        kind if kind.multiplies() => None,
        _ if precision == Precision::True64 => Some(
            "`64-true` cannot be compared with the float64 reference, which has the same precision"
                .to_owned(),
        ),
        KernelKind::Cast if !precision.is_mixed() => {
            Some(format!("`{precision}` has one format, so there is no cast"))
        }
        KernelKind::Cast => None,
        kind if precision.is_mixed() => Some(format!(
            "`{precision}` is the same as `32-true` for `{kind}`: it changes only the format of matmuls"
        )),
        KernelKind::Gelu if setting.gelu() == Gelu::TanhPacked && !is_16_bit => Some(format!(
            "`gelu={}` takes two 16-bit values at a time, but the values of `{precision}` are wider",
            Gelu::TanhPacked
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use mantissa_core::{Axis, Backend, TaskKind};

    use super::*;

    #[test]
    fn impossible_kernels_are_skipped_with_a_reason() {
        let mut setting = Setting::defaults(TaskKind::Kernel, Backend::Flex);
        let set = |setting: &mut Setting, axis: Axis, value: &str| {
            setting.set(axis, axis.parse(value).unwrap()).unwrap();
        };
        let filters = Kernel::Convolution(ConvolutionShape {
            batch: 1,
            channels: 1,
            filters: 1,
            edge: 7,
            stride: 1,
            padding: 1,
        });
        set(&mut setting, Axis::Size, "5");
        assert_eq!(kernel_skip_reason(&filters, &setting), None);
        set(&mut setting, Axis::Size, "4");
        let reason = kernel_skip_reason(&filters, &setting).unwrap();
        assert_eq!(
            reason,
            "images of `size=4` with a padding of 1 are smaller than filters of 7 × 7"
        );
        set(&mut setting, Axis::Size, "64");
        set(&mut setting, Axis::Distribution, "cancellation");
        assert!(
            kernel_skip_reason(&filters, &setting)
                .unwrap()
                .contains("applies only to the kernel `matmul`")
        );
    }

    #[test]
    fn kernels_without_matmuls_skip_redundant_precisions() {
        let rows = mantissa_core::RowsShape { rows: None, width: 8 };
        let reason = |kernel: &Kernel, precision: &str, form: &str| {
            let mut setting = Setting::defaults(TaskKind::Kernel, Backend::Flex);
            for (axis, value) in [(Axis::Precision, precision), (Axis::Gelu, form)] {
                setting.set(axis, axis.parse(value).unwrap()).unwrap();
            }
            kernel_skip_reason(kernel, &setting)
        };
        let (gelu, cast) = (Kernel::Gelu(rows), Kernel::Cast(rows));
        assert_eq!(reason(&gelu, "bf16-true", "tanh-packed"), None);
        assert!(
            reason(&gelu, "32-true", "tanh-packed")
                .unwrap()
                .contains("two 16-bit values")
        );
        assert!(reason(&gelu, "64-true", "exact").unwrap().contains("float64"));
        assert!(
            reason(&gelu, "16-mixed", "exact")
                .unwrap()
                .contains("the same as `32-true`")
        );
        assert_eq!(reason(&cast, "16-mixed", "exact"), None);
        assert!(reason(&cast, "16-true", "exact").unwrap().contains("one format"));
    }
}
