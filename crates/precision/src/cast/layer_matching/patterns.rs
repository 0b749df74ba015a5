//! Patterns of layers: one method per layer, which reads its inputs and options from the steps.

use burn::backend::{
    Dispatch,
    ir::{
        ActivationOperationIr, AttentionOpIr, BaseOperationIr, BatchNormOpIr, BinaryOpIr, CustomOpIr,
        DimOpIr, LayerNormOpIr, LinearOpIr, ModuleOperationIr, NumericOperationIr, OperationIr, ScalarIr,
        TensorIr, Unfold4dOpIr, Unfold4dOptionsIr,
    },
    ops::{ActivationOps, AttentionModuleOptions, ModuleOps, UnfoldOptions},
};

use super::{DROPOUT, Layer, Steps};

impl Steps<'_> {
    pub(super) fn softmax(&self, input: &TensorIr, axis: usize) -> Option<Layer> {
        self.numeric(1)?;
        let operation = |out| DimOpIr {
            input: input.clone(),
            out,
            axis,
        };
        let softmax = self.match_steps(("softmax", &[axis as f64]), &[input], |x| {
            Dispatch::softmax(x[0].clone(), axis)
        });
        if let Some((out, count)) = softmax {
            let softmax = ActivationOperationIr::Softmax(operation(out));
            return Some((OperationIr::Activation(softmax), count));
        }
        let (out, count) = self.match_steps(("log_softmax", &[axis as f64]), &[input], |x| {
            Dispatch::log_softmax(x[0].clone(), axis)
        })?;
        let softmax = ActivationOperationIr::LogSoftmax(operation(out));
        Some((OperationIr::Activation(softmax), count))
    }

    /// Matches a layer norm. Its steps are a mean, a difference, a square, a mean of the squares, a sum with ε, a root and a quotient. A
    /// scale and a shift follow, each with a reshape.
    pub(super) fn layer_norm(&self, input: &TensorIr) -> Option<Layer> {
        let NumericOperationIr::AddScalar(with_epsilon) = self.numeric(4)? else {
            return None;
        };
        let epsilon = with_epsilon.rhs.elem();
        let width = *input.shape.last()?;
        let is_row = |tensor: &&TensorIr| tensor.shape.as_slice() == [width];
        let gamma = self.reshape_input(7).filter(is_row)?;
        let layer = |beta: Option<&TensorIr>| {
            let inputs: Vec<_> = [input, gamma].into_iter().chain(beta).collect();
            let (out, count) = self.match_steps(("layer_norm", &[epsilon]), &inputs, |x| {
                Dispatch::layer_norm(x[0].clone(), x[1].clone(), x.get(2).cloned(), epsilon)
            })?;
            let norm = LayerNormOpIr {
                input: input.clone(),
                gamma: gamma.clone(),
                beta: beta.cloned(),
                epsilon: with_epsilon.rhs,
                out,
            };
            Some((OperationIr::Module(ModuleOperationIr::LayerNorm(norm)), count))
        };
        let beta = self.reshape_input(9).filter(is_row);
        let with_shift = beta.and_then(|beta| layer(Some(beta)));
        with_shift.or_else(|| layer(None))
    }

    /// Matches a batch norm with given statistics: reshapes of scale, shift, mean and variance, ε, a root, a difference, …
    pub(super) fn batch_norm(&self) -> Option<Layer> {
        let NumericOperationIr::AddScalar(with_epsilon) = self.numeric(4)? else {
            return None;
        };
        let NumericOperationIr::Sub(centred) = self.numeric(6)? else {
            return None;
        };
        let x = &centred.lhs;
        let channels = *x.shape.get(1)?;
        let parts = [0, 1, 2, 3].map(|index| self.reshape_input(index));
        let [Some(gamma), Some(beta), Some(mean), Some(variance)] = parts else {
            return None;
        };
        let inputs = [x, gamma, beta, mean, variance];
        if inputs[1..].iter().any(|part| part.shape.as_slice() != [channels]) {
            return None;
        }
        let epsilon = with_epsilon.rhs.elem();
        let (out, count) = self.match_steps(("batch_norm", &[epsilon]), &inputs, |x| {
            let [x, gamma, beta, mean, variance] = [0, 1, 2, 3, 4].map(|index| x[index].clone());
            Dispatch::batch_norm(x, gamma, beta, mean, variance, epsilon)
        })?;
        let norm = BatchNormOpIr {
            x: x.clone(),
            gamma: gamma.clone(),
            beta: beta.clone(),
            mean: mean.clone(),
            variance: variance.clone(),
            epsilon: with_epsilon.rhs,
            out,
        };
        Some((OperationIr::Module(ModuleOperationIr::BatchNorm(norm)), count))
    }

    pub(super) fn prelu(&self, input: &TensorIr) -> Option<Layer> {
        let NumericOperationIr::Mul(scaled) = self.numeric(1)? else {
            return None;
        };
        let (out, count) = self.match_steps(("prelu", &[]), &[input, &scaled.rhs], |x| {
            Dispatch::prelu(x[0].clone(), x[1].clone())
        })?;
        let prelu = ActivationOperationIr::PRelu(BinaryOpIr {
            lhs: input.clone(),
            rhs: scaled.rhs.clone(),
            out,
        });
        Some((OperationIr::Activation(prelu), count))
    }

    /// Matches attention. Its steps are transposed keys, a matmul, a factor, optionally a cap, masks and a bias, then a softmax and a
    /// matmul.
    pub(super) fn attention(&self, key: &TensorIr) -> Option<Layer> {
        let scores = self.matmul(1)?;
        let NumericOperationIr::MulScalar(scaled) = self.numeric(2)? else {
            return None;
        };
        let is_max = |operation: &OperationIr| {
            matches!(
                operation,
                OperationIr::NumericFloat(_, NumericOperationIr::MaxDim(_))
            )
        };
        let max = self.operations.iter().position(is_max)?;
        let before = self.operations.get(3..max)?;
        let value = (max..self.operations.len()).find_map(|index| self.matmul(index))?;
        let (query, value) = (&scores.lhs, &value.rhs);
        if [query, key, value].iter().any(|part| part.shape.num_dims() != 4) {
            return None;
        }
        let scale = scaled.rhs.elem();
        let softcap = match self.numeric(3) {
            Some(NumericOperationIr::DivScalar(capped)) => Some(capped.rhs.elem()),
            _ => None,
        };
        let masks: Vec<_> = before
            .iter()
            .filter_map(|operation| match operation {
                OperationIr::BaseFloat(BaseOperationIr::MaskFill(fill)) => Some(&fill.mask),
                _ => None,
            })
            .collect();
        let bias = before.iter().find_map(|operation| match operation {
            OperationIr::NumericFloat(_, NumericOperationIr::Add(sum)) => Some(&sum.rhs),
            _ => None,
        });
        // A masked fill belongs to the mask or to the causal option. With both, burn records two masked fills.
        let variants = match *masks.as_slice() {
            [] => vec![(None, false)],
            [mask] => vec![(Some(mask), false), (None, true)],
            [mask, _] => vec![(Some(mask), true)],
            _ => return None,
        };
        variants.into_iter().find_map(|(mask, is_causal)| {
            let options = AttentionModuleOptions {
                scale: Some(scale),
                softcap,
                is_causal,
            };
            let inputs: Vec<_> = [query, key, value].into_iter().chain(mask).chain(bias).collect();
            let flag = |is: bool| f64::from(u8::from(is));
            let variant = [
                scale,
                softcap.unwrap_or(0.0),
                flag(is_causal),
                flag(mask.is_some()),
            ];
            let (out, count) = self.match_steps(("attention", &variant), &inputs, |x| {
                let mut others = x[3..].iter().cloned();
                let mask = mask.and_then(|_| others.next());
                let [query, key, value] = [0, 1, 2].map(|index| x[index].clone());
                Dispatch::attention(query, key, value, mask, others.next(), options)
            })?;
            let attention = AttentionOpIr {
                query: query.clone(),
                key: key.clone(),
                value: value.clone(),
                mask: mask.cloned(),
                attn_bias: bias.cloned(),
                options: options.into(),
                out,
            };
            Some((
                OperationIr::Module(ModuleOperationIr::Attention(attention)),
                count,
            ))
        })
    }

    /// Matches a linear layer: a matmul and the sum with an optional bias, with optional reshapes of an operand, the bias and the result.
    pub(super) fn linear(&self) -> Option<Layer> {
        let (matmul_index, x, weight) = match (self.reshape(0), self.matmul(0), self.matmul(1)) {
            (_, Some(product), _) => (0, &product.lhs, &product.rhs),
            (Some((rows, out)), _, Some(product)) if product.lhs.id == out.id => (1, rows, &product.rhs),
            (Some((matrix, out)), _, Some(product)) if product.rhs.id == out.id => (1, &product.lhs, matrix),
            _ => return None,
        };
        let (&[inputs, outputs], [.., _, width]) = (weight.shape.as_slice(), x.shape.as_slice()) else {
            return None;
        };
        if *width != inputs {
            return None;
        }
        let layer = |bias: Option<&TensorIr>| {
            let operands: Vec<_> = [x, weight].into_iter().chain(bias).collect();
            let (out, count) = self.match_steps(("linear", &[]), &operands, |x| {
                Dispatch::linear(x[0].clone(), x[1].clone(), x.get(2).cloned())
            })?;
            let linear = LinearOpIr {
                x: x.clone(),
                weight: weight.clone(),
                bias: bias.cloned(),
                out,
            };
            Some((OperationIr::Module(ModuleOperationIr::Linear(linear)), count))
        };
        let bias = self.reshape_input(matmul_index + 1);
        let bias = bias.filter(|bias| bias.shape.as_slice() == [outputs]);
        match bias.and_then(|bias| layer(Some(bias))) {
            Some(layer) => Some(layer),
            // A reshape and a matmul match a linear layer without bias, even if the module called `matmul`.
            None if matmul_index == 1 => layer(None),
            None => None,
        }
    }

    /// Matches a dropout: random numbers, a multiplication with them, and a factor.
    pub(super) fn dropout(&self, random: &TensorIr, keep_probability: f64) -> Option<Layer> {
        let (NumericOperationIr::Mul(product), NumericOperationIr::MulScalar(scaled)) =
            (self.numeric(1)?, self.numeric(2)?)
        else {
            return None;
        };
        let factor: f64 = scaled.rhs.elem();
        let is_dropout = product.rhs.id == random.id
            && product.lhs.shape == random.shape
            && scaled.lhs.id == product.out.id
            && (factor * keep_probability - 1.0).abs() < 1e-6
            && self.are_read_only_by([random, &product.out].map(|tensor| tensor.id), 3);
        let rate = ScalarIr::Float(1.0 - keep_probability);
        let operation = || {
            CustomOpIr::with_scalars(
                DROPOUT,
                std::slice::from_ref(&product.lhs),
                std::slice::from_ref(&scaled.out),
                vec![rate],
            )
        };
        is_dropout.then(|| (OperationIr::Custom(operation()), 3))
    }

    /// Matches an unfolding, which burn implements as a convolution with filters of zeros and ones.
    pub(super) fn unfold(&self) -> Option<Layer> {
        let OperationIr::Module(ModuleOperationIr::Conv2d(convolution)) = &self.operations[0] else {
            return None;
        };
        let &[_, _, height, width] = convolution.weight.shape.as_slice() else {
            return None;
        };
        let options = &convolution.options;
        let padding = options.padding.map(|(before, _)| before);
        // burn creates these filters from data, so the recording contains their values.
        self.values.get(&convolution.weight.id)?;
        self.reshape(1)?;
        let sizes = [[height, width], options.stride, padding, options.dilation];
        let sizes = sizes.as_flattened().iter().map(|size| *size as f64);
        let (out, count) =
            self.match_steps(("unfold4d", &sizes.collect::<Vec<_>>()), &[&convolution.x], |x| {
                let options = UnfoldOptions::new(options.stride, padding, options.dilation);
                Dispatch::unfold4d(x[0].clone(), [height, width], options)
            })?;
        let unfolding = Unfold4dOpIr {
            x: convolution.x.clone(),
            kernel_size: [height, width],
            options: Unfold4dOptionsIr {
                stride: options.stride,
                padding,
                dilation: options.dilation,
            },
            out,
        };
        Some((OperationIr::Module(ModuleOperationIr::Unfold4d(unfolding)), count))
    }
}
