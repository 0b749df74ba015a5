//! Autocast for modules that know nothing of it: a backend around a backend.
//!
//! A model here is written with [`Compute`], which takes each operation to its format. A burn module calls tensor operations and
//! layers instead; on [`Autocast`] each of these is what [`Compute`] does, so that both compute the same. Nothing but the
//! operations differs: tensors, devices and gradients are those of the backend inside, which has the autodiff where there is one.

mod float;
mod layers;
mod plain;

use std::{cell::Cell, marker::PhantomData};

use burn::tensor::{
    DType, Tensor, TensorPrimitive,
    backend::{Backend, BackendTypes, DTypeUsageSet, ExecutionError},
    ops::FloatTensor,
};

use crate::{Compute, PrecisionBackend};

/// Methods that are those of the backend inside.
macro_rules! unchanged {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $output:ty;)*) => {
        $(fn $name($($argument: $type),*) -> $output {
            B::$name($($argument),*)
        })*
    };
}
use unchanged;

/// A backend on which every operation runs in the format that [autocast](crate::autocast) gives it.
///
/// ```
/// use burn::{nn::LinearConfig, tensor::{DType, Tensor}};
/// use mantissa_precision::{Autocast, Compute, Precision, device::Flex};
///
/// let device = Default::default();
/// let layer = LinearConfig::new(2, 3).init::<Autocast<Flex>>(&device);
/// let compute = Compute::from(Precision::MixedBf16);
/// let output = Autocast::<Flex>::within(compute, false, || {
///     layer.forward(Tensor::<Autocast<Flex>, 2>::ones([1, 2], &device))
/// });
/// assert_eq!(output.dtype(), DType::BF16);
/// ```
///
/// Products are controlled, or they are refused: transposed, deformed, dilated and three-dimensional convolutions panic, as do
/// strides that differ between rows and columns, since their precision would be whatever the backend's kernel makes of it. So does an
/// operation with a class on a thread that is not within a setting.
///
/// What a module makes of operations itself (burn's SiLU, its RMS norm, its recurrent layers) is rounded operation by operation, as
/// its steps would be in PyTorch.
#[derive(Debug, Clone, Copy, Default)]
pub struct Autocast<B>(PhantomData<B>);

thread_local! {
    /// What is computed within.
    static WITHIN: Cell<Option<Within>> = const { Cell::new(None) };
}

#[derive(Clone, Copy)]
struct Within {
    compute: Compute,
    trains: bool,
}

impl<B: PrecisionBackend> Autocast<B> {
    /// What `work` gives whose operations, on this thread, are those of `compute`. Layers that do something else in training (dropout)
    /// do it where the module `trains`.
    pub fn within<T>(compute: Compute, trains: bool, work: impl FnOnce() -> T) -> T {
        /// Puts back what was there, also after a panic.
        struct Outside(Option<Within>);
        impl Drop for Outside {
            fn drop(&mut self) {
                WITHIN.set(self.0);
            }
        }
        let _outside = Outside(WITHIN.replace(Some(Within { compute, trains })));
        work()
    }

    /// A tensor of the backend inside, as one of this.
    pub fn enter<const D: usize>(tensor: Tensor<B, D>) -> Tensor<Self, D> {
        Tensor::from_primitive(TensorPrimitive::Float(tensor.into_primitive().tensor()))
    }

    /// A tensor of this backend, as one of that inside.
    pub fn leave<const D: usize>(tensor: Tensor<Self, D>) -> Tensor<B, D> {
        tensor_of(tensor.into_primitive().tensor())
    }
}

/// How operations compute here.
fn compute() -> Compute {
    let within = WITHIN.get();
    let within = within.expect("operations of this backend are those of a setting: see `Autocast::within`");
    within.compute
}

/// The one format that a true setting has for all that is made in it; what is made under a mixed one, or outside, is as it was asked for.
fn only() -> Option<DType> {
    let precision = WITHIN.get()?.compute.precision();
    (!precision.is_mixed()).then(|| crate::dtype(precision.parameters()))
}

fn tensor_of<B: PrecisionBackend, const D: usize>(primitive: FloatTensor<B>) -> Tensor<B, D> {
    Tensor::from_primitive(TensorPrimitive::Float(primitive))
}

fn primitive<B: PrecisionBackend, const D: usize>(tensor: Tensor<B, D>) -> FloatTensor<B> {
    tensor.into_primitive().tensor()
}

impl<B: PrecisionBackend> BackendTypes for Autocast<B> {
    type Device = B::Device;
    type FloatTensorPrimitive = B::FloatTensorPrimitive;
    type FloatElem = B::FloatElem;
    type IntTensorPrimitive = B::IntTensorPrimitive;
    type IntElem = B::IntElem;
    type BoolTensorPrimitive = B::BoolTensorPrimitive;
    type BoolElem = B::BoolElem;
    type QuantizedTensorPrimitive = B::QuantizedTensorPrimitive;
}

impl<B: PrecisionBackend> Backend for Autocast<B> {
    fn ad_enabled(device: &Self::Device) -> bool {
        // What layers ask to know whether they are trained.
        WITHIN
            .get()
            .map_or_else(|| B::ad_enabled(device), |within| within.trains)
    }

    fn name(device: &Self::Device) -> String {
        format!("autocast<{}>", B::name(device))
    }

    unchanged! {
        fn memory_cleanup(device: &Self::Device) -> ();
        fn seed(device: &Self::Device, seed: u64) -> ();
        fn sync(device: &Self::Device) -> Result<(), ExecutionError>;
        fn supports_dtype(device: &Self::Device, dtype: DType) -> bool;
        fn dtype_usage(device: &Self::Device, dtype: DType) -> DTypeUsageSet;
        fn device_count(type_id: u16) -> usize;
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "what modules call")]
mod tests {
    use burn::{
        backend::Autodiff,
        module::{Module, ModuleMapper, Param},
        nn::{
            Embedding, EmbeddingConfig, LayerNorm, LayerNormConfig, Linear, LinearConfig,
            conv::{Conv1d, Conv1dConfig, Conv2d, Conv2dConfig, Conv3dConfig, ConvTranspose2dConfig},
        },
        tensor::{Distribution, FloatDType, Int, activation},
    };

    use super::*;
    use crate::{Precision, device::Flex};

    type Inner = Autodiff<Flex>;
    type Outer = Autocast<Inner>;

    #[derive(Module, Debug)]
    struct Net<B: Backend> {
        convolution: Conv2d<B>,
        linear: Linear<B>,
        norm: LayerNorm<B>,
        head: Linear<B>,
    }

    /// Brings parameters to the format of a setting.
    struct To(FloatDType);

    impl ModuleMapper<Outer> for To {
        fn map_float<const D: usize>(
            &mut self,
            parameter: Param<Tensor<Outer, D>>,
        ) -> Param<Tensor<Outer, D>> {
            let value = parameter.val().cast(self.0).detach().require_grad();
            Param::initialized(parameter.id, value)
        }
    }

    fn random<const D: usize>(shape: [usize; D]) -> Tensor<Inner, D> {
        Tensor::random(shape, Distribution::Normal(0.0, 1.0), &Default::default())
    }

    fn bits<const D: usize>(tensor: Tensor<Flex, D>) -> (DType, Vec<f64>) {
        (tensor.dtype(), tensor.into_data().iter::<f64>().collect())
    }

    #[test]
    fn a_module_computes_what_a_model_of_ours_does_in_every_precision() {
        let device = Default::default();
        for precision in Precision::ALL {
            let compute = Compute::from(*precision);
            Inner::seed(&device, 7);
            let net: Net<Outer> = Net {
                convolution: Conv2dConfig::new([2, 3], [3, 3]).init(&device),
                linear: LinearConfig::new(3 * 4 * 4, 8).init(&device),
                norm: LayerNormConfig::new(8).init(&device),
                head: LinearConfig::new(8, 5).with_bias(false).init(&device),
            };
            let format = crate::dtype(precision.parameters());
            let net = net.map(&mut To(format.into()));
            let images = random([2, 2, 6, 6]);
            let towards = random([2, 5]);

            let theirs = Outer::within(compute, true, || {
                let hidden = net.convolution.forward(Outer::enter(images.clone()));
                let hidden = net.linear.forward(activation::relu(hidden).flatten::<2>(1, 3));
                let hidden = activation::gelu(net.norm.forward(hidden));
                activation::softmax(net.head.forward(hidden), 1)
            });

            let [filters] = [&net.convolution.weight].map(|weight| Outer::leave(weight.val()));
            let vector = |parameter: &Param<Tensor<Outer, 1>>| Outer::leave(parameter.val());
            let bias = vector(net.convolution.bias.as_ref().unwrap());
            let hidden = compute.convolution(images, filters.clone(), 1, 0);
            let hidden = compute.add(hidden, compute.operand(bias).reshape([1, 3, 1, 1]));
            let hidden = activation::relu(hidden).flatten::<2>(1, 3);
            let weight = Outer::leave(net.linear.weight.val());
            let bias = vector(net.linear.bias.as_ref().unwrap());
            let hidden = compute.linear_by_inputs(hidden, weight.clone(), bias);
            let [scale, shift] = [vector(&net.norm.gamma), vector(net.norm.beta.as_ref().unwrap())];
            let hidden = compute.gelu(compute.layer_norm(hidden, scale, shift, 1e-5));
            let head = Outer::leave(net.head.weight.val());
            let ours = compute.softmax(compute.matmul(hidden, head));

            let theirs = Outer::leave(theirs);
            assert_eq!(
                bits(theirs.clone().inner()),
                bits(ours.clone().inner()),
                "{precision}"
            );
            let gradients = [theirs, ours].map(|output| {
                let towards = towards.clone().cast(FloatDType::from(output.dtype()));
                (output * towards).sum().backward()
            });
            let [theirs, ours] = gradients.each_ref().map(|gradients| {
                let filters = bits(filters.grad(gradients).unwrap());
                (filters, bits(weight.grad(gradients).unwrap()))
            });
            assert!(theirs.0.1.iter().any(|value| *value != 0.0), "{precision}");
            assert_eq!(theirs, ours, "{precision}");
        }
    }

    #[test]
    fn operations_run_in_the_format_of_their_class() {
        let device = Default::default();
        let wide = Tensor::<Autocast<Flex>, 2>::from_floats([[0.1, 0.2], [0.3, 0.4]], &device);
        let half = wide.clone().cast(FloatDType::BF16);
        let within =
            |work: &dyn Fn() -> DType| Autocast::<Flex>::within(Precision::MixedBf16.into(), false, work);
        let (w, h) = (&wide, &half);
        let lower: [&dyn Fn() -> DType; 2] = [&|| w.clone().matmul(w.clone()).dtype(), &|| {
            w.clone().matmul(h.clone()).dtype()
        }];
        let full: [&dyn Fn() -> DType; 6] = [
            &|| h.clone().exp().dtype(),
            &|| h.clone().powf_scalar(1.5).dtype(),
            &|| h.clone().sum_dim(1).dtype(),
            &|| h.clone().recip().dtype(),
            &|| activation::log_softmax(h.clone(), 1).dtype(),
            &|| activation::softmax(h.clone(), 0).dtype(),
        ];
        let widest: [&dyn Fn() -> DType; 4] = [
            &|| (h.clone() + w.clone()).dtype(),
            &|| (h.clone() / w.clone()).dtype(),
            &|| Tensor::cat(vec![h.clone(), w.clone()], 0).dtype(),
            &|| {
                h.clone()
                    .mask_where(w.clone().equal(h.clone()), w.clone())
                    .dtype()
            },
        ];
        let inputs: [&dyn Fn() -> DType; 5] = [
            &|| activation::relu(h.clone()).dtype(),
            &|| activation::gelu(h.clone()).dtype(),
            &|| h.clone().mean_dim(1).dtype(),
            &|| (h.clone() + h.clone()).dtype(),
            &|| h.clone().tanh().dtype(),
        ];
        for (number, work) in lower.iter().chain(&inputs).enumerate() {
            assert_eq!(within(work), DType::BF16, "{number}");
        }
        for (number, work) in full.iter().chain(&widest).enumerate() {
            assert_eq!(within(work), DType::F32, "{number}");
        }
    }

    #[test]
    fn a_mean_of_many_halves_is_summed_in_f32() {
        let device = Default::default();
        let ones = Tensor::<Autocast<Flex>, 1>::ones([4096], &device).cast(FloatDType::BF16);
        let [sum, mean] = Autocast::<Flex>::within(Precision::TrueBf16.into(), false, || {
            [ones.clone().sum(), ones.mean()]
        })
        .map(|value| value.into_data().iter::<f32>().next().unwrap());
        // Sums of ones in bf16 end at 256.
        assert_eq!((sum, mean), (4096.0, 1.0));
    }

    #[test]
    fn groups_paddings_and_lines_of_one_row_are_those_of_burn() {
        let device = Default::default();
        Flex::seed(&device, 3);
        let plain: Conv1d<Flex> = Conv1dConfig::new(4, 6, 3)
            .with_groups(2)
            .with_stride(2)
            .with_padding(burn::nn::PaddingConfig1d::Explicit(1, 1))
            .init(&device);
        let cast: Conv1d<Autocast<Flex>> = Conv1d {
            weight: Param::from_tensor(Autocast::enter(plain.weight.val())),
            bias: plain
                .bias
                .as_ref()
                .map(|bias| Param::from_tensor(Autocast::enter(bias.val()))),
            ..Conv1dConfig::new(4, 6, 3)
                .with_groups(2)
                .with_stride(2)
                .with_padding(burn::nn::PaddingConfig1d::Explicit(1, 1))
                .init(&device)
        };
        let input = Tensor::<Flex, 3>::random([2, 4, 9], Distribution::Normal(0.0, 1.0), &device);
        let compute = Compute::from(Precision::True32);
        let ours = Autocast::<Flex>::within(compute, false, || cast.forward(Autocast::enter(input.clone())));
        let (_, ours) = bits(Autocast::leave(ours));
        let (_, theirs) = bits(plain.forward(input));
        assert_eq!(ours.len(), theirs.len());
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert!((ours - theirs).abs() < 1e-5, "{ours} {theirs}");
        }
    }

    #[test]
    fn rows_of_a_table_sum_their_gradients_in_f32() {
        let device = Default::default();
        let table: Embedding<Outer> = EmbeddingConfig::new(2, 1).init(&device);
        let table = table.map(&mut To(FloatDType::BF16));
        let rows = Tensor::<Outer, 2, Int>::zeros([1, 1000], &device);
        let read = Outer::within(Precision::TrueBf16.into(), true, || table.forward(rows));
        let gradients = Outer::leave(read).cast(FloatDType::F32).sum().backward();
        let gradient = Outer::leave(table.weight.val()).grad(&gradients).unwrap();
        assert_eq!(bits(gradient).1, [1000.0, 0.0]);
    }

    #[test]
    fn a_factor_meets_halves_in_f32() {
        let device = Default::default();
        let products = |precision: Precision| {
            Autocast::<Flex>::within(precision.into(), false, || {
                let x = Tensor::<Autocast<Flex>, 1>::full([1], 256.0, &device);
                let x = x.cast(FloatDType::BF16);
                // In bf16 1 / 0.95 is 1.0547, and 0.999 is 1.
                [x.clone().mul_scalar(1.0 / 0.95), x.mul_scalar(0.99)].map(|x| x.into_scalar())
            })
        };
        let rounded = |value: f32| half::bf16::from_f32(value).to_f32();
        assert_eq!(
            products(Precision::MixedBf16),
            [rounded(256.0 / 0.95), rounded(256.0 * 0.99)]
        );
        assert_eq!(
            products(Precision::TrueBf16),
            [rounded(256.0 / 0.95), rounded(256.0 * 0.99)]
        );
    }

    #[test]
    fn a_true_setting_makes_tensors_in_its_one_format_and_leaves_what_a_module_widened() {
        let device = Default::default();
        let dtypes = |precision: Precision| {
            Autocast::<Flex>::within(precision.into(), false, || {
                let made = Tensor::<Autocast<Flex>, 1>::from_floats([300.0], &device);
                let counted = Tensor::<Autocast<Flex>, 1, Int>::from_ints([3], &device).float();
                let widened = made.clone().cast(FloatDType::F32);
                let square = widened.square();
                (
                    made.dtype(),
                    counted.dtype(),
                    square.dtype(),
                    square.into_scalar() > 66_000.0,
                )
            })
        };
        let (f16, f32, f64) = (DType::F16, DType::F32, DType::F64);
        assert_eq!(dtypes(Precision::True16), (f16, f16, f32, true));
        assert_eq!(dtypes(Precision::Mixed16), (f32, f32, f32, true));
        assert_eq!(dtypes(Precision::True64), (f64, f64, f64, true));
    }

    #[test]
    fn attention_is_ours_and_a_query_that_sees_nothing_says_nothing() {
        use burn::tensor::{Bool, module::attention, ops::AttentionModuleOptions};

        use crate::Sight;
        let device = Default::default();
        Flex::seed(&device, 5);
        for precision in Precision::ALL {
            let compute = Compute::from(*precision);
            let parts = [(); 3]
                .map(|()| Tensor::<Flex, 4>::random([2, 3, 4, 8], Distribution::Normal(0.0, 1.0), &device));
            let [query, key, value] = parts.clone().map(Autocast::enter);
            let options = AttentionModuleOptions {
                is_causal: true,
                ..AttentionModuleOptions::default()
            };
            let theirs = Autocast::<Flex>::within(compute, false, || {
                attention(query.clone(), key.clone(), value.clone(), None, None, options)
            });
            let ours = compute.attention(parts, &Sight::causal(4, 4, &device), 0.0);
            assert_eq!(bits(Autocast::leave(theirs)), bits(ours), "{precision}");
            let blind = Autocast::<Flex>::within(compute, false, || {
                let all = Tensor::<_, 4, Bool>::full([2, 3, 4, 4], true, &device);
                attention(
                    query,
                    key,
                    value,
                    Some(all),
                    None,
                    AttentionModuleOptions::default(),
                )
            });
            assert!(
                bits(Autocast::leave(blind)).1.iter().all(|value| *value == 0.0),
                "{precision}"
            );
        }
    }

    #[test]
    fn a_softmax_may_run_over_any_dimension() {
        let device = Default::default();
        let values = Tensor::<Autocast<Flex>, 2>::from_floats([[0.0, 1.0], [2.0, -3.0]], &device);
        let [columns, rows] = Autocast::<Flex>::within(Precision::True64.into(), false, || {
            let values = values.cast(FloatDType::F64);
            [
                activation::softmax(values.clone(), 0),
                activation::softmax(values.transpose(), 1).transpose(),
            ]
        })
        .map(|softmax| bits(Autocast::leave(softmax)).1);
        assert_eq!(columns, rows);
        assert!(
            (columns[0] - 1.0 / (1.0 + 2f64.exp())).abs() < 1e-15,
            "{columns:?}"
        );
    }

    #[test]
    fn an_unfolding_with_padding_rounds_nothing() {
        use burn::nn::Unfold4dConfig;
        let device = Default::default();
        // More bits than TF32 and bf16 have.
        let x = 1.0 + 2f32.powi(-20);
        let compute = Compute::new(
            Precision::True32,
            mantissa_core::MatmulPrecision::Medium,
            mantissa_core::Accumulator::F32,
        );
        let blocks = Autocast::<Flex>::within(compute, false, || {
            let images = Tensor::<Autocast<Flex>, 4>::full([1, 1, 1, 1], x, &device);
            Unfold4dConfig::new([3, 3])
                .with_padding([1, 1])
                .init()
                .forward(images)
        });
        let blocks = bits(Autocast::leave(blocks)).1;
        let alone = (0..9).map(|place| if place == 4 { f64::from(x) } else { 0.0 });
        assert_eq!(blocks, alone.collect::<Vec<_>>());
    }

    #[test]
    fn a_sigmoid_in_f64_is_one() {
        let device = Default::default();
        let sigmoid = Autocast::<Flex>::within(Precision::True64.into(), false, || {
            activation::sigmoid(Tensor::<Autocast<Flex>, 1>::full([1], 0.5, &device))
        });
        let (dtype, values) = bits(Autocast::leave(sigmoid));
        assert_eq!(dtype, DType::F64);
        assert!(
            (values[0] - 1.0 / (1.0 + (-0.5f64).exp())).abs() < 1e-15,
            "{values:?}"
        );
    }

    #[test]
    fn another_thread_has_no_setting() {
        let device = Default::default();
        let ones = Tensor::<Autocast<Flex>, 2>::ones([2, 2], &device);
        let elsewhere = Autocast::<Flex>::within(Precision::MixedBf16.into(), false, || {
            std::thread::spawn(move || ones.clone().matmul(ones))
                .join()
                .is_err()
        });
        assert!(elsewhere);
    }

    #[test]
    #[should_panic(expected = "a transposed convolution has no controlled precision here")]
    fn a_transposed_convolution_is_refused() {
        let device = Default::default();
        let layer = ConvTranspose2dConfig::new([1, 1], [2, 2]).init::<Autocast<Flex>>(&device);
        layer.forward(Tensor::ones([1, 1, 3, 3], &device));
    }

    #[test]
    #[should_panic(expected = "a convolution in three dimensions has no controlled precision here")]
    fn a_convolution_in_three_dimensions_is_refused() {
        let device = Default::default();
        let layer = Conv3dConfig::new([1, 1], [2, 2, 2]).init::<Autocast<Flex>>(&device);
        layer.forward(Tensor::ones([1, 1, 3, 3, 3], &device));
    }
}
