use burn::{
    backend::ir::{ActivationOperationIr, ModuleOperationIr, OperationIr},
    module::{Module, ModuleMapper, Param},
    nn::{
        BatchNormConfig, DropoutConfig, Embedding, EmbeddingConfig, LayerNorm, LayerNormConfig, Linear,
        LinearConfig, PaddingConfig1d, Unfold4dConfig,
        conv::{Conv1dConfig, Conv2d, Conv2dConfig, Conv3dConfig, ConvTranspose2dConfig},
    },
    tensor::{
        Bool, DType, Distribution, FloatDType, Int, activation, module::attention,
        ops::AttentionModuleOptions,
    },
};

use super::*;
use crate::{AttentionMask, Dropout, Precision};

#[derive(Module, Debug)]
struct Net {
    convolution: Conv2d,
    linear: Linear,
    norm: LayerNorm,
    head: Linear,
}

/// Casts parameters to the format of a setting.
struct CastTo(FloatDType);

impl ModuleMapper for CastTo {
    fn map_float<const D: usize>(&mut self, parameter: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let value = parameter.val().cast(self.0).detach().require_grad();
        Param::initialized(parameter.id, value)
    }
}

/// Enters the parameters of a module into a recording.
struct EnterParameters<'a>(&'a Recorder);

impl ModuleMapper for EnterParameters<'_> {
    fn map_float<const D: usize>(&mut self, parameter: Param<Tensor<D>>) -> Param<Tensor<D>> {
        Param::initialized(parameter.id, self.0.enter(parameter.val()))
    }
}

fn random<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Normal(0.0, 1.0), device)
}

fn bits<const D: usize>(tensor: Tensor<D>) -> (DType, Vec<f64>) {
    (tensor.dtype(), tensor.into_data().iter::<f64>().collect())
}

fn run<const D: usize>(compute: impl Into<Compute>, work: impl FnOnce(&Recorder) -> Tensor<D>) -> Tensor<D> {
    Autocast::new(compute.into()).run(&Device::flex(), work)
}

#[test]
fn a_module_matches_a_built_in_model_in_every_precision() {
    let device = Device::flex().autodiff();
    for (precision, trains) in Precision::ALL
        .iter()
        .flat_map(|precision| [(precision, true), (precision, false)])
    {
        let compute = Compute::from(*precision);
        device.seed(7);
        let net = Net {
            convolution: Conv2dConfig::new([2, 3], [3, 3]).init(&device),
            linear: LinearConfig::new(3 * 4 * 4, 8).init(&device),
            norm: LayerNormConfig::new(8).init(&device),
            head: LinearConfig::new(8, 5).with_bias(false).init(&device),
        };
        let format = crate::dtype(precision.parameters());
        let net = net.map(&mut CastTo(format.into()));
        let images = random([2, 2, 6, 6], &device);
        let output_gradient = random([2, 5], &device);

        let autocast = Autocast::new(compute).training(trains);
        let theirs = autocast.run(&device, |recorder| {
            let net = net.clone().map(&mut EnterParameters(recorder));
            let hidden = net.convolution.forward(recorder.enter(images.clone()));
            let hidden = net.linear.forward(activation::relu(hidden).flatten::<2>(1, 3));
            let hidden = activation::gelu(net.norm.forward(hidden));
            activation::softmax(net.head.forward(hidden), 1)
        });

        let filters = net.convolution.weight.val();
        let bias = net.convolution.bias.as_ref().unwrap().val();
        let hidden = compute.convolution(images, filters.clone(), 1, 0);
        let hidden = compute.add(hidden, compute.operand(bias).reshape([1, 3, 1, 1]));
        let hidden = activation::relu(hidden).flatten::<2>(1, 3);
        let weight = net.linear.weight.val();
        let bias = net.linear.bias.as_ref().unwrap().val();
        let hidden = compute.linear_by_inputs(hidden, weight.clone(), bias);
        let [scale, shift] = [&net.norm.gamma, net.norm.beta.as_ref().unwrap()].map(Param::val);
        let hidden = compute.gelu(compute.layer_norm(hidden, scale, shift, 1e-5));
        let ours = compute.softmax(compute.matmul(hidden, net.head.weight.val()));

        assert_eq!(
            bits(theirs.clone().inner()),
            bits(ours.clone().inner()),
            "{precision} {trains}"
        );
        let gradients = [theirs, ours].map(|output| {
            let output_gradient = output_gradient.clone().cast(FloatDType::from(output.dtype()));
            (output * output_gradient).sum().backward()
        });
        let [theirs, ours] = gradients.each_ref().map(|gradients| {
            let filters = bits(filters.grad(gradients).unwrap());
            (filters, bits(weight.grad(gradients).unwrap()))
        });
        assert!(theirs.0.1.iter().any(|value| *value != 0.0), "{precision}");
        assert_eq!(theirs, ours, "{precision} {trains}");
    }
}

#[test]
fn operations_run_in_the_format_of_their_class() {
    type Work<'a> = &'a dyn Fn(Tensor<2>, Tensor<2>) -> Tensor<2>;
    let wide = Tensor::<2>::from_floats([[0.1, 0.2], [0.3, 0.4]], &Device::flex());
    let half = wide.clone().cast(FloatDType::BF16);
    let output_dtype = |work: Work<'_>| {
        let output = run(Precision::MixedBf16, |recorder| {
            work(recorder.enter(wide.clone()), recorder.enter(half.clone()))
        });
        output.dtype()
    };
    let lower: [Work<'_>; 2] = [&|w, _| w.clone().matmul(w), &|w, h| w.matmul(h)];
    let full: [Work<'_>; 7] = [
        &|_, h| h.exp(),
        &|_, h| h.powf_scalar(1.5),
        &|_, h| h.square(),
        &|_, h| h.sum_dim(1),
        &|_, h| h.recip(),
        &|_, h| activation::log_softmax(h, 1),
        &|_, h| activation::softmax(h, 0),
    ];
    let widest: [Work<'_>; 4] = [
        &|w, h| h + w,
        &|w, h| h / w,
        &|w, h| Tensor::cat(vec![h, w], 0),
        &|w, h| h.clone().mask_where(w.clone().equal(h), w),
    ];
    let inputs: [Work<'_>; 5] = [
        &|_, h| activation::relu(h),
        &|_, h| activation::gelu(h),
        &|_, h| h.mean_dim(1),
        &|_, h| h.clone() + h,
        &|_, h| h.tanh(),
    ];
    for (number, work) in lower.iter().chain(&inputs).enumerate() {
        assert_eq!(output_dtype(work), DType::BF16, "{number}");
    }
    for (number, work) in full.iter().chain(&widest).enumerate() {
        assert_eq!(output_dtype(work), DType::F32, "{number}");
    }
}

#[test]
fn a_mean_of_16_bit_values_is_summed_in_f32() {
    let ones = Tensor::<1>::ones([4096], &Device::flex()).cast(FloatDType::BF16);
    let [sum, mean] = [Tensor::sum, Tensor::mean].map(|reduce| {
        let reduced = run(Precision::TrueBf16, |recorder| {
            reduce(recorder.enter(ones.clone()))
        });
        reduced.into_data().iter::<f32>().next().unwrap()
    });
    // Sums of ones in bf16 stop at 256.
    assert_eq!((sum, mean), (4096.0, 1.0));
}

#[test]
fn grouped_padded_and_one_dimensional_convolutions_match_burn() {
    let device = Device::flex();
    device.seed(3);
    for padding in [PaddingConfig1d::Explicit(1, 1), PaddingConfig1d::Explicit(2, 0)] {
        let plain = Conv1dConfig::new(4, 6, 3)
            .with_groups(2)
            .with_stride(2)
            .with_padding(padding)
            .init(&device);
        let input = random([2, 4, 9], &device);
        let ours = run(Precision::True32, |recorder| {
            let cast = plain.clone().map(&mut EnterParameters(recorder));
            cast.forward(recorder.enter(input.clone()))
        });
        let (_, ours) = bits(ours);
        let (_, theirs) = bits(plain.forward(input));
        assert_eq!(ours.len(), theirs.len());
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert!((ours - theirs).abs() < 1e-5, "{ours} {theirs}");
        }
    }
}

#[test]
fn gradients_of_embedding_rows_are_summed_in_f32() {
    let device = Device::flex().autodiff();
    let table: Embedding = EmbeddingConfig::new(2, 1).init(&device);
    let table = table.map(&mut CastTo(FloatDType::BF16));
    let autocast = Autocast::new(Precision::TrueBf16.into()).training(true);
    let read = autocast.run(&device, |recorder| {
        let rows = Tensor::<2, Int>::zeros([1, 1000], recorder.device());
        table.clone().map(&mut EnterParameters(recorder)).forward(rows)
    });
    let gradients = read.cast(FloatDType::F32).sum().backward();
    let gradient = table.weight.val().grad(&gradients).unwrap();
    assert_eq!(bits(gradient).1, [1000.0, 0.0]);
}

#[test]
fn scalar_factors_are_applied_in_f32() {
    let product = |precision: Precision, factor: f64| {
        let product = run(precision, |recorder| {
            let x = Tensor::<1>::full([1], 256.0, recorder.device());
            x.cast(FloatDType::BF16).mul_scalar(factor)
        });
        product.into_data().iter::<f32>().next().unwrap()
    };
    let rounded = |value: f32| half::bf16::from_f32(value).to_f32();
    for precision in [Precision::MixedBf16, Precision::TrueBf16] {
        // In bf16, 1 / 0.95 is 1.0547 and 0.99 is 0.9883.
        let products = [1.0 / 0.95, 0.99].map(|factor| product(precision, factor));
        assert_eq!(products, [rounded(256.0 / 0.95), rounded(256.0 * 0.99)]);
    }
}

#[test]
fn true_settings_create_tensors_in_their_format() {
    let dtypes = |precision: Precision| {
        let created = |device: &Device| Tensor::<1>::from_floats([300.0], device);
        let converted = |device: &Device| Tensor::<1, Int>::from_ints([3], device).float();
        let square = run(precision, |recorder| {
            created(recorder.device()).cast(FloatDType::F32).square()
        });
        (
            run(precision, |recorder| created(recorder.device())).dtype(),
            run(precision, |recorder| converted(recorder.device())).dtype(),
            square.dtype(),
            square.into_data().iter::<f64>().next().unwrap() > 66_000.0,
        )
    };
    // The mask is too large for f16. In f32, a row that is masked everywhere is uniform, not NaN.
    let softmax = run(Precision::True16, |recorder| {
        let scores = Tensor::<1>::from_floats([1.0, 2.0], recorder.device()).cast(FloatDType::F32);
        activation::softmax(scores - 1e9, 0)
    });
    assert_eq!(softmax.dtype(), DType::F32);
    assert_eq!(softmax.into_data().try_to_vec::<f32>().unwrap(), [0.5, 0.5]);

    let (f16, f32, f64) = (DType::F16, DType::F32, DType::F64);
    assert_eq!(dtypes(Precision::True16), (f16, f16, f32, true));
    assert_eq!(dtypes(Precision::Mixed16), (f32, f32, f32, true));
    assert_eq!(dtypes(Precision::True64), (f64, f64, f64, true));
}

#[test]
fn casting_back_to_the_input_format_restores_the_format() {
    let half = Tensor::<1>::ones([1], &Device::flex()).cast(FloatDType::BF16);
    let output_dtype = |precision: Precision| {
        let output = run(precision, |recorder| {
            let x = recorder.enter(half.clone());
            let input_format = FloatDType::from(x.dtype());
            (x.cast(FloatDType::F32).exp() + 1.0).cast(input_format)
        });
        output.dtype()
    };
    assert_eq!(output_dtype(Precision::MixedBf16), DType::BF16);
    assert_eq!(output_dtype(Precision::TrueBf16), DType::BF16);
}

#[test]
fn attention_matches_compute_and_is_zero_without_visible_keys() {
    let device = Device::flex();
    device.seed(5);
    for (precision, trains) in Precision::ALL
        .iter()
        .flat_map(|precision| [(precision, true), (precision, false)])
    {
        let compute = Compute::from(*precision);
        let autocast = Autocast::new(compute).training(trains);
        let parts = [(); 3].map(|()| random([2, 3, 4, 8], &device));
        let options = AttentionModuleOptions {
            is_causal: true,
            ..AttentionModuleOptions::default()
        };
        let theirs = autocast.run(&device, |recorder| {
            let [query, key, value] = parts.clone().map(|part| recorder.enter(part));
            attention(query, key, value, None, None, options)
        });
        let ours = compute.attention(parts.clone(), &AttentionMask::causal(4, 4, &device), None);
        assert_eq!(bits(theirs), bits(ours), "{precision} {trains}");
        let without_keys = autocast.run(&device, |recorder| {
            let all = Tensor::<4, Bool>::full([2, 3, 4, 4], true, recorder.device());
            let [query, key, value] = parts.map(|part| recorder.enter(part));
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
            bits(without_keys).1.iter().all(|value| *value == 0.0),
            "{precision}"
        );
    }
}

#[test]
fn softmax_supports_any_dimension() {
    let values = Tensor::<2>::from_floats([[0.0, 1.0], [2.0, -3.0]], &Device::flex());
    let values = values.cast(FloatDType::F64);
    let columns = run(Precision::True64, |recorder| {
        activation::softmax(recorder.enter(values.clone()), 0)
    });
    let rows = run(Precision::True64, |recorder| {
        activation::softmax(recorder.enter(values.clone()).transpose(), 1).transpose()
    });
    let (columns, rows) = (bits(columns).1, bits(rows).1);
    assert_eq!(columns, rows);
    assert!(
        (columns[0] - 1.0 / (1.0 + 2f64.exp())).abs() < 1e-15,
        "{columns:?}"
    );
}

#[test]
fn unfolding_with_padding_is_exact() {
    // This value needs more bits than TF32 and bf16 have, so a convolution would round it.
    let x = 1.0 + 2f32.powi(-20);
    let compute = Compute::new(
        Precision::True32,
        mantissa_core::MatmulPrecision::Medium,
        mantissa_core::Accumulator::F32,
    );
    for trains in [true, false] {
        let blocks = Autocast::new(compute)
            .training(trains)
            .run(&Device::flex(), |recorder| {
                let images = Tensor::<4>::full([1, 1, 1, 1], x, recorder.device());
                let unfolding = Unfold4dConfig::new([3, 3]).with_padding([1, 1]).init();
                unfolding.forward(images)
            });
        let blocks = bits(blocks).1;
        let expected = (0..9).map(|index| if index == 4 { f64::from(x) } else { 0.0 });
        assert_eq!(blocks, expected.collect::<Vec<_>>());
    }
}

#[test]
fn sigmoid_of_f64_is_computed_in_f64() {
    let sigmoid = run(Precision::True64, |recorder| {
        activation::sigmoid(Tensor::<1>::full([1], 0.5, recorder.device()))
    });
    let (dtype, values) = bits(sigmoid);
    assert_eq!(dtype, DType::F64);
    assert!(
        (values[0] - 1.0 / (1.0 + (-0.5f64).exp())).abs() < 1e-15,
        "{values:?}"
    );
}

#[test]
fn masking_with_the_lowest_number_is_finite() {
    for precision in [Precision::True16, Precision::TrueBf16, Precision::True32] {
        let masked = run(precision, |recorder| {
            let x = Tensor::<1>::zeros([1], recorder.device());
            let lowest = x.dtype().finfo().unwrap().min;
            let all = x.clone().equal_elem(0.0);
            x.mask_fill(all, lowest)
        });
        assert!(bits(masked).1[0].is_finite(), "{precision}");
    }
}

#[test]
fn dropout_matches_compute_and_is_the_identity_in_evaluation() {
    let device = Device::flex();
    for precision in [Precision::True32, Precision::MixedBf16, Precision::TrueBf16] {
        let compute = Compute::from(precision);
        let x = compute.operand(Tensor::<3>::ones([4, 8, 16], &device));
        let masks = || DropoutMasks::new(11, 7, 4);
        let dropped = |autocast: Autocast<'_>| {
            device.seed(11);
            autocast.run(&device, |recorder| {
                DropoutConfig::new(0.3).init().forward(recorder.enter(x.clone()))
            })
        };
        let autocast = Autocast::new(compute);
        for masks in [Some(masks()), None] {
            let theirs = match &masks {
                Some(masks) => dropped(autocast.training(true).with_dropout_masks(masks)),
                None => dropped(autocast.training(true)),
            };
            let theirs = bits(theirs);
            masks.iter().for_each(|masks| masks.start_segment(0));
            device.seed(11);
            let dropout = Dropout {
                share: 0.3,
                masks: masks.as_ref(),
            };
            assert_eq!(theirs, bits(compute.dropout(x.clone(), dropout)), "{precision}");
            assert!(theirs.1.contains(&0.0) && theirs.1.iter().any(|value| *value > 1.0));
        }
        assert_eq!(
            bits(dropped(autocast.with_dropout_masks(&masks()))),
            bits(x),
            "{precision}"
        );
    }
}

/// Records operations and replaces the steps of layers by the layers.
fn record_layers<const D: usize>(
    trains: bool,
    work: impl FnOnce(&Recorder) -> Tensor<D>,
) -> Vec<OperationIr> {
    let recording = record::record(trains, work);
    layer_matching::match_layers(recording.operations, &recording.values, recording.output)
}

#[test]
fn layers_that_burn_decomposes_are_matched() {
    use ActivationOperationIr as A;
    use ModuleOperationIr as M;

    fn linear<const D: usize>(shape: [usize; D], bias: bool) -> impl Fn(&Recorder) -> Tensor<D> {
        move |recorder| {
            let device = recorder.device();
            let mut width = shape;
            width[D - 1] = 5;
            let weight = Tensor::<2>::empty([5, 7], device);
            let bias = bias.then(|| Tensor::<1>::empty([7], device));
            let x = Tensor::<D>::empty(width, device);
            burn::tensor::module::linear(x, weight, bias)
        }
    }
    let norm = |bias| {
        move |recorder: &Recorder| {
            let device = recorder.device();
            let x = Tensor::<3>::empty([2, 3, 4], device);
            let [gamma, beta] = [(); 2].map(|()| Tensor::<1>::empty([4], device));
            burn::tensor::module::layer_norm(x, gamma, Some(beta).filter(|_| bias), 1e-5)
        }
    };
    let attention_with = |mask: bool, bias: bool, softcap: Option<f64>, is_causal: bool| {
        move |recorder: &Recorder| {
            let device = recorder.device();
            let [query, key, value] = [(); 3].map(|()| Tensor::<4>::empty([2, 3, 4, 5], device));
            let mask = mask.then(|| Tensor::<4, Bool>::empty([2, 3, 4, 4], device));
            let bias = bias.then(|| Tensor::<4>::empty([2, 3, 4, 4], device));
            let options = AttentionModuleOptions {
                scale: None,
                softcap,
                is_causal,
            };
            attention(query, key, value, mask, bias, options)
        }
    };

    let assert_single_layer = |found: &[OperationIr], is: &dyn Fn(&OperationIr) -> bool| {
        let has_inputs = |operation: &&OperationIr| operation.inputs().next().is_some();
        let found: Vec<_> = found.iter().filter(has_inputs).collect();
        assert!(found.len() == 1 && is(found[0]), "{found:#?}");
    };
    let module =
        |is: fn(&M) -> bool| move |found: &OperationIr| matches!(found, OperationIr::Module(op) if is(op));
    let activation = |is: fn(&A) -> bool| move |found: &OperationIr| matches!(found, OperationIr::Activation(op) if is(op));
    for trains in [true, false] {
        let is_linear = module(|op| matches!(op, M::Linear(_)));
        assert_single_layer(&record_layers(trains, linear([4, 7], true)), &is_linear);
        for bias in [true, false] {
            assert_single_layer(&record_layers(trains, linear([2, 3, 7], bias)), &is_linear);
            assert_single_layer(&record_layers(trains, linear([2, 64, 7], bias)), &is_linear);
            assert_single_layer(&record_layers(trains, linear([2, 3, 4, 7], bias)), &is_linear);
            assert_single_layer(
                &record_layers(trains, norm(bias)),
                &module(|op| matches!(op, M::LayerNorm(_))),
            );
        }
        for mask in [true, false] {
            for (bias, is_causal) in [(false, false), (true, false), (false, true), (true, true)] {
                for softcap in [None, Some(30.0)] {
                    let found = record_layers(trains, attention_with(mask, bias, softcap, is_causal));
                    assert_single_layer(&found, &|op| match op {
                        OperationIr::Module(M::Attention(op)) => {
                            let options = (op.options.softcap.is_some(), op.options.is_causal);
                            (op.mask.is_some(), op.attn_bias.is_some()) == (mask, bias)
                                && options == (softcap.is_some(), is_causal)
                        }
                        _ => false,
                    });
                }
            }
        }
        let x = |recorder: &Recorder| Tensor::<3>::empty([2, 3, 4], recorder.device());
        assert_single_layer(
            &record_layers(trains, |recorder| activation::softmax(x(recorder), 1)),
            &activation(|op| matches!(op, A::Softmax(op) if op.axis == 1)),
        );
        assert_single_layer(
            &record_layers(trains, |recorder| activation::log_softmax(x(recorder), 2)),
            &activation(|op| matches!(op, A::LogSoftmax(op) if op.axis == 2)),
        );
        let prelu = record_layers(trains, |recorder| {
            let slope = Tensor::<1>::empty([1], recorder.device());
            activation::prelu(x(recorder), slope.reshape([1]))
        });
        assert!(
            prelu
                .iter()
                .any(|op| matches!(op, OperationIr::Activation(A::PRelu(_)))),
            "{prelu:#?}"
        );
        assert_single_layer(
            &record_layers(trains, |recorder| {
                let [gamma, beta, mean, variance] =
                    [(); 4].map(|()| Tensor::<1>::empty([3], recorder.device()));
                burn::tensor::module::batch_norm(x(recorder), gamma, beta, mean, variance, 1e-5)
            }),
            &module(|op| matches!(op, M::BatchNorm(_))),
        );
        assert_single_layer(
            &record_layers(trains, |recorder| {
                let images = Tensor::<4>::empty([1, 2, 5, 5], recorder.device());
                let unfolding = Unfold4dConfig::new([3, 3]).with_padding([1, 1]).init();
                unfolding.forward(images)
            }),
            &module(|op| matches!(op, M::Unfold4d(_))),
        );
        assert_single_layer(
            &record_layers(trains, |recorder| activation::gelu(x(recorder))),
            &activation(|op| matches!(op, A::Gelu(_))),
        );
    }
    assert_single_layer(
        &record_layers(true, |recorder| {
            let x = Tensor::<3>::empty([2, 3, 4], recorder.device());
            DropoutConfig::new(0.05).init().forward(x)
        }),
        &|op| matches!(op, OperationIr::Custom(op) if op.id == layer_matching::DROPOUT),
    );
}

#[test]
fn steps_with_other_readers_are_not_matched() {
    let found = record_layers(true, |recorder| {
        let device = recorder.device();
        let [x, weight] = [(); 2].map(|()| Tensor::<2>::empty([3, 3], device));
        let product = x.matmul(weight);
        let shifted = product.clone() + Tensor::<1>::empty([3], device).unsqueeze();
        shifted * product
    });
    assert!(
        !found.iter().any(|op| matches!(op, OperationIr::Module(_))),
        "{found:#?}"
    );
}

#[test]
fn random_constants_of_a_module_are_drawn_once() {
    let device = Device::flex();
    let constants = Constants::new(4);
    let random_values = |constants: &Constants| {
        let random_values = run(Precision::True32, |recorder| {
            recorder.once(constants, |device| random([8], device))
        });
        bits(random_values).1
    };
    let first = random_values(&constants);
    assert_eq!(random_values(&constants), first);
    device.seed(99);
    assert_eq!(random_values(&Constants::new(4)), first);
    assert_ne!(random_values(&Constants::new(5)), first);
}

#[test]
fn a_batch_norm_uses_the_given_statistics() {
    let device = Device::flex();
    let norm = BatchNormConfig::new(2).init(&device);
    let images = random([2, 2, 3, 3], &device);
    let ours = run(Precision::True32, |recorder| {
        let norm = BatchNormConfig::new(2).init(recorder.device());
        norm.forward(recorder.enter(images.clone()))
    });
    let (_, theirs) = bits(norm.forward(images));
    for (ours, theirs) in bits(ours).1.iter().zip(&theirs) {
        assert!((ours - theirs).abs() < 1e-5, "{ours} {theirs}");
    }
}

#[test]
#[should_panic(expected = "a transposed convolution is not supported")]
fn a_transposed_convolution_is_rejected() {
    run(Precision::True32, |recorder| {
        let layer = ConvTranspose2dConfig::new([1, 1], [2, 2]).init(recorder.device());
        layer.forward(Tensor::ones([1, 1, 3, 3], recorder.device()))
    });
}

#[test]
#[should_panic(expected = "a three-dimensional convolution is not supported")]
fn a_three_dimensional_convolution_is_rejected() {
    run(Precision::True32, |recorder| {
        let layer = Conv3dConfig::new([1, 1], [2, 2, 2]).init(recorder.device());
        layer.forward(Tensor::ones([1, 1, 3, 3, 3], recorder.device()))
    });
}

#[test]
#[should_panic(expected = "a dilated convolution is not supported")]
fn a_dilated_convolution_is_rejected() {
    run(Precision::True32, |recorder| {
        let layer = Conv2dConfig::new([1, 1], [2, 2]).with_dilation([2, 2]);
        layer
            .init(recorder.device())
            .forward(Tensor::ones([1, 1, 4, 4], recorder.device()))
    });
}

#[test]
#[should_panic(expected = "Cannot move a tensor to a capture device")]
fn training_with_running_statistics_is_rejected() {
    let autocast = Autocast::new(Precision::True32.into()).training(true);
    autocast.run(&Device::flex(), |recorder| {
        let norm = BatchNormConfig::new(2).init(recorder.device());
        norm.forward(Tensor::<3>::ones([4, 2, 3], recorder.device()))
    });
}
