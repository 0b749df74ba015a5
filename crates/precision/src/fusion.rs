//! The controlled matmul under kernel fusion: a custom operation of the stream, so that nothing is fused into it or
//! chosen for it.

use std::marker::PhantomData;

use burn::tensor::{calculate_matmul_output, ops::FloatTensor};
use burn_fusion::{
    Fusion, FusionBackend,
    stream::{Operation, OperationStreams},
};
use burn_ir::{CustomOpIr, HandleContainer, OperationIr, TensorIr};
use mantissa_core::{Accumulator, MatmulPrecision};

use crate::{AllocatorUsage, MatmulMode, backend::PrecisionBackend};

#[derive(Debug)]
struct ControlledMatmul<B> {
    description: CustomOpIr,
    mode: MatmulMode,
    backend: PhantomData<B>,
}

impl<B: FusionBackend + PrecisionBackend> Operation<B::FusionRuntime> for ControlledMatmul<B> {
    fn execute(&self, handles: &mut HandleContainer<B::Handle>) {
        let ([lhs, rhs], [out]) = self.description.as_fixed();
        let lhs = handles.get_float_tensor::<B>(lhs);
        let rhs = handles.get_float_tensor::<B>(rhs);
        handles.register_float_tensor::<B>(&out.id, B::controlled_matmul(lhs, rhs, self.mode));
    }
}

impl<B: FusionBackend + PrecisionBackend> PrecisionBackend for Fusion<B> {
    fn controlled_matmul(
        lhs: FloatTensor<Self>,
        rhs: FloatTensor<Self>,
        mode: MatmulMode,
    ) -> FloatTensor<Self> {
        let client = lhs.client.clone();
        let streams = OperationStreams::with_inputs([&lhs, &rhs]);
        let shape = calculate_matmul_output(&lhs.shape, &rhs.shape).expect("the caller's shapes fit");
        let out = TensorIr::uninit(client.create_empty_handle(), shape, lhs.dtype);
        // The name is part of the stream's identity: another precision must not find this one's cached plan.
        let name = match (mode.precision, mode.accumulator) {
            (MatmulPrecision::Highest, Accumulator::F32) => "mantissa_matmul_highest",
            (MatmulPrecision::High, Accumulator::F32) => "mantissa_matmul_high",
            (MatmulPrecision::Medium, Accumulator::F32) => "mantissa_matmul_medium",
            (_, Accumulator::F16) => "mantissa_matmul_f16_sums",
        };
        let description = CustomOpIr::new(name, &[lhs.into_ir(), rhs.into_ir()], &[out]);
        let operation = ControlledMatmul::<B> {
            description: description.clone(),
            mode,
            backend: PhantomData,
        };
        let mut outputs = client.register(streams, OperationIr::Custom(description), operation);
        outputs.pop().expect("the operation declares one output")
    }

    fn allocator_usage(device: &Self::Device) -> Option<AllocatorUsage> {
        B::allocator_usage(device)
    }
}
