//! GPUs of the ranks of a cell. Each rank sees only its own GPU, which is its first device. A peer sees those of all its ranks.

use mantissa_core::{Backend, Plan, Setting};

use crate::{Engine, message::Request};

/// GPUs of this machine on which ranks can train.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gpus {
    /// UUIDs of the visible CUDA devices, in the order of the driver.
    uuids: Vec<String>,
    /// Reason why NCCL is not available.
    nccl_unavailable: Option<String>,
}

impl Gpus {
    /// Queries the GPUs if a cell of the plan trains on several of them.
    pub(crate) fn of_plan(engine: &dyn Engine, plan: &Plan) -> Self {
        let is_needed = |setting: &Setting| setting.devices() > 1 && setting.backend() == Backend::Cuda;
        match plan.runnable().any(|cell| is_needed(&cell.setting)) {
            true => Self {
                uuids: engine.device_uuids(Backend::Cuda),
                nccl_unavailable: engine.nccl_version().err(),
            },
            false => Self::default(),
        }
    }

    /// Returns the reason for skipping a cell of several ranks that the devices of this machine cannot run.
    pub(super) fn skip_reason(&self, setting: &Setting) -> Option<String> {
        let (devices, visible) = (setting.devices(), self.uuids.len());
        match setting.backend() {
            Backend::Flex => None,
            Backend::Cuda if (visible as u64) < u64::from(devices) => Some(format!(
                "the cell has {devices} devices, but this machine has {visible} visible {}",
                if visible == 1 { "GPU" } else { "GPUs" }
            )),
            Backend::Cuda if setting.sums_with_nccl() => self.nccl_unavailable.clone(),
            Backend::Cuda => None,
            backend @ Backend::Vulkan => Some(format!(
                "the backend `{backend}` cannot train on several devices; `flex` and `cuda` can"
            )),
        }
    }

    /// Returns the UUIDs of the GPUs of a setting with several GPUs, separated by commas.
    pub(in crate::process) fn of_setting(&self, setting: &Setting) -> Option<String> {
        let devices = setting.devices() as usize;
        let is_known = devices > 1 && setting.backend() == Backend::Cuda && devices <= self.uuids.len();
        is_known.then(|| self.uuids[..devices].join(","))
    }

    /// Returns the request for each rank.
    pub(super) fn requests(&self, request: &Request) -> Vec<Request> {
        let own_gpu = |rank: usize| match request.cell.setting.backend() {
            Backend::Cuda => self.uuids.get(rank).cloned(),
            _ => None,
        };
        let of_rank = |rank| Request {
            // Without NVML, no GPU is sampled.
            gpu: request.gpu.clone().and_then(|gpu| own_gpu(rank).or(Some(gpu))),
            own_gpu: own_gpu(rank),
            ..request.clone()
        };
        (0..request.cell.setting.devices() as usize)
            .map(of_rank)
            .collect()
    }
}

#[cfg(test)]
impl Gpus {
    /// Creates GPUs with invented UUIDs.
    pub(super) fn invented(count: usize, nccl_unavailable: Option<&str>) -> Self {
        Self {
            uuids: (0..count).map(|index| format!("GPU-{index}")).collect(),
            nccl_unavailable: nccl_unavailable.map(str::to_owned),
        }
    }
}
