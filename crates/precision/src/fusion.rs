//! The controlled products under kernel fusion: custom operations of the stream, so that nothing is fused into them or
//! chosen for them.

use std::marker::PhantomData;

use burn::tensor::{Shape, calculate_matmul_output, ops::FloatTensor};
use burn_fusion::{
    Fusion, FusionBackend,
    stream::{Operation, OperationStreams},
};
use burn_ir::{CustomOpIr, HandleContainer, OperationIr, TensorIr};

use crate::{AllocatorUsage, Convolution, MatmulMode, backend::PrecisionBackend};

/// What a custom operation of the stream does. Its text is the operation's name, which is part of the stream's identity:
/// a product with another precision or stride must not find this one's cached plan.
#[derive(Debug, Clone, Copy)]
enum Product {
    Matrices(MatmulMode),
    Convolution(Convolution, MatmulMode),
}

#[derive(Debug)]
struct Controlled<B> {
    description: CustomOpIr,
    product: Product,
    backend: PhantomData<B>,
}

impl<B: FusionBackend + PrecisionBackend> Operation<B::FusionRuntime> for Controlled<B> {
    fn execute(&self, handles: &mut HandleContainer<B::Handle>) {
        let ([lhs, rhs], [out]) = self.description.as_fixed();
        let lhs = handles.get_float_tensor::<B>(lhs);
        let rhs = handles.get_float_tensor::<B>(rhs);
        let product = match self.product {
            Product::Matrices(mode) => B::controlled_matmul(lhs, rhs, mode),
            Product::Convolution(convolution, mode) => B::controlled_convolution(lhs, rhs, convolution, mode),
        };
        handles.register_float_tensor::<B>(&out.id, product);
    }
}

fn register<B: FusionBackend + PrecisionBackend>(
    lhs: FloatTensor<Fusion<B>>,
    rhs: FloatTensor<Fusion<B>>,
    shape: Shape,
    product: Product,
) -> FloatTensor<Fusion<B>> {
    let client = lhs.client.clone();
    let streams = OperationStreams::with_inputs([&lhs, &rhs]);
    let out = TensorIr::uninit(client.create_empty_handle(), shape, lhs.dtype);
    let description = CustomOpIr {
        id: format!("{product:?}"),
        inputs: vec![lhs.into_ir(), rhs.into_ir()],
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
        register::<B>(lhs, rhs, shape, Product::Matrices(mode))
    }

    fn controlled_convolution(
        lhs: FloatTensor<Self>,
        rhs: FloatTensor<Self>,
        convolution: Convolution,
        mode: MatmulMode,
    ) -> FloatTensor<Self> {
        let shape = convolution.shape(&lhs.shape, &rhs.shape);
        register::<B>(lhs, rhs, shape, Product::Convolution(convolution, mode))
    }

    fn allocator_usage(device: &Self::Device) -> Option<AllocatorUsage> {
        B::allocator_usage(device)
    }
}
