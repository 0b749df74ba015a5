//! The controlled products and the packed GELU under kernel fusion: custom operations of the stream, so that nothing is
//! fused into them or chosen for them.

use std::marker::PhantomData;

use burn::tensor::{
    DType, Shape, calculate_matmul_output,
    ops::{BoolTensor, FloatTensor},
};
use burn_fusion::{
    Fusion, FusionBackend, FusionTensor,
    client::GlobalFusionClient,
    stream::{Operation, OperationStreams},
};
use burn_ir::{CustomOpIr, HandleContainer, OperationIr, TensorIr};
use mantissa_core::Layout;

use crate::{AllocatorUsage, Convolution, MatmulMode, attention, backend::PrecisionBackend};

/// What a custom operation of the stream does. Its text is the operation's name, which is part of the stream's identity:
/// a product with another precision or stride must not find this one's cached plan.
#[derive(Debug, Clone, Copy)]
enum Product {
    Matrices(MatmulMode),
    Convolution(Convolution, MatmulMode),
    Attention(MatmulMode),
    Rounding(Layout),
    GeluTanhPacked,
}

#[derive(Debug)]
struct Controlled<B> {
    description: CustomOpIr,
    product: Product,
    backend: PhantomData<B>,
}

impl<B: FusionBackend + PrecisionBackend> Operation<B::FusionRuntime> for Controlled<B> {
    fn execute(&self, handles: &mut HandleContainer<B::Handle>) {
        let out = self.description.outputs[0].id;
        let mut operands = self.description.inputs.iter();
        let mut float = || {
            let operand = operands.next().expect("registered with all its operands");
            handles.get_float_tensor::<B>(operand)
        };
        let product = match self.product {
            Product::Matrices(mode) => B::controlled_matmul(float(), float(), mode),
            Product::Convolution(convolution, mode) => {
                B::controlled_convolution(float(), float(), convolution, mode)
            }
            Product::GeluTanhPacked => B::gelu_tanh_packed(float()),
            Product::Attention(mode) => {
                let (query, key, value) = (float(), float(), float());
                let padding = operands.next().expect("registered with all its operands");
                let padding = handles.get_bool_tensor::<B>(padding);
                B::fused_attention(query, key, value, padding, mode)
            }
            Product::Rounding(layout) => B::round_to_layout(float(), layout),
        };
        handles.register_float_tensor::<B>(&out, product);
    }
}

fn register<B: FusionBackend + PrecisionBackend, const N: usize>(
    operands: [FusionTensor<B::FusionRuntime>; N],
    shape: Shape,
    dtype: DType,
    product: Product,
) -> FloatTensor<Fusion<B>> {
    let client = operands[0].client.clone();
    let streams = OperationStreams::with_inputs(operands.iter());
    let out = TensorIr::uninit(client.create_empty_handle(), shape, dtype);
    let description = CustomOpIr {
        id: format!("{product:?}"),
        inputs: operands.into_iter().map(FusionTensor::into_ir).collect(),
        outputs: vec![out],
    };
    let operation = Controlled::<B> {
        description: description.clone(),
        product,
        backend: PhantomData,
    };
    let mut outputs = client.register(streams, OperationIr::Custom(description), operation);
    outputs.pop().expect("the operation declares one output")
}

impl<B: FusionBackend + PrecisionBackend> PrecisionBackend for Fusion<B> {
    fn controlled_matmul(
        lhs: FloatTensor<Self>,
        rhs: FloatTensor<Self>,
        mode: MatmulMode,
    ) -> FloatTensor<Self> {
        let shape = calculate_matmul_output(&lhs.shape, &rhs.shape).expect("the caller's shapes fit");
        let dtype = mode.output(lhs.dtype);
        register::<B, 2>([lhs, rhs], shape, dtype, Product::Matrices(mode))
    }

    fn controlled_convolution(
        lhs: FloatTensor<Self>,
        rhs: FloatTensor<Self>,
        convolution: Convolution,
        mode: MatmulMode,
    ) -> FloatTensor<Self> {
        let shape = convolution.shape(&lhs.shape, &rhs.shape);
        let dtype = lhs.dtype;
        register::<B, 2>([lhs, rhs], shape, dtype, Product::Convolution(convolution, mode))
    }

    fn fused_attention(
        query: FloatTensor<Self>,
        key: FloatTensor<Self>,
        value: FloatTensor<Self>,
        padding: BoolTensor<Self>,
        mode: MatmulMode,
    ) -> FloatTensor<Self> {
        let shape = attention::shape(&query.shape, &value.shape);
        let dtype = query.dtype;
        register::<B, 4>(
            [query, key, value, padding],
            shape,
            dtype,
            Product::Attention(mode),
        )
    }

    fn round_to_layout(tensor: FloatTensor<Self>, layout: Layout) -> FloatTensor<Self> {
        let (shape, dtype) = (tensor.shape.clone(), tensor.dtype);
        register::<B, 1>([tensor], shape, dtype, Product::Rounding(layout))
    }

    fn gelu_tanh_packed(input: FloatTensor<Self>) -> FloatTensor<Self> {
        let (shape, dtype) = (input.shape.clone(), input.dtype);
        register::<B, 1>([input], shape, dtype, Product::GeluTanhPacked)
    }

    fn allocator_usage(device: &Self::Device) -> Option<AllocatorUsage> {
        B::allocator_usage(device)
    }

    fn submit(device: &Self::Device) -> Result<(), String> {
        let client = GlobalFusionClient::<B::FusionRuntime>::load(device);
        let device = device.clone();
        client.sync(move || B::submit(&device))
    }
}
