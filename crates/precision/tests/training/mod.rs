//! Tests of the training step against independent references: PyTorch's autocast, PyTorch's and timm's optimizers, and
//! updates of whole batches.

mod accumulation;
mod autocast;
mod batch_norm;
mod harness;
mod optimizers;
