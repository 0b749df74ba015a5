//! Best practices from the articles that each rule cites. A rule is shown only if its condition holds in the records.

mod cost;
mod range;

use mantissa_core::{Axis, CellId};

use super::{choice::Choice, json::FiredRule};
use crate::{Group, Row, Run};

/// Input of the rules' conditions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context<'c, 'r, 'a> {
    /// Run whose samples are read.
    pub run: &'a Run,
    /// Group with the rows.
    pub group: &'r Group<'a>,
    /// Choices among the group's settings.
    pub choices: &'c [Choice<'r, 'a>],
}

/// A row that fulfils a condition, with the evidence from its records.
pub(crate) type Finding<'r, 'a> = (&'r Row<'a>, String);

/// A best practice.
struct Rule {
    name: &'static str,
    when: &'static str,
    advice: &'static str,
    sources: &'static [&'static str],
    findings: for<'c, 'r, 'a> fn(&Context<'c, 'r, 'a>) -> Vec<Finding<'r, 'a>>,
}

const MICIKEVICIUS: &str = "Micikevicius et al., Mixed Precision Training, https://arxiv.org/abs/1710.03740";
const AMP: &str = "PyTorch, Automatic Mixed Precision package, https://docs.pytorch.org/docs/stable/amp.html";
const MATMUL_PRECISION: &str = "PyTorch, set_float32_matmul_precision, \
                                https://docs.pytorch.org/docs/stable/generated/torch.set_float32_matmul_precision.html";
const CUDA_NOTES: &str = "PyTorch, CUDA semantics, https://docs.pytorch.org/docs/stable/notes/cuda.html";
const RASCHKA_MIXED: &str = "Raschka, Accelerating Large Language Models with Mixed-Precision Techniques, 2023, \
                             https://github.com/rasbt/LLM-finetuning-scripts";
const RASCHKA_ACCUMULATION: &str = "Raschka, Finetuning LLMs on a Single GPU Using Gradient Accumulation, 2023, \
                                    https://github.com/rasbt/gradient-accumulation-blog";
const RASCHKA_MEMORY: &str = "Raschka, Optimizing Memory Usage for Training LLMs and Vision Transformers in PyTorch, 2023, \
                              https://github.com/rasbt/pytorch-memory-optim";
const CHECKPOINTING: &str =
    "Chen et al., Training Deep Nets with Sublinear Memory Cost, https://arxiv.org/abs/1604.06174";
const FASI: &str =
    "Fasi et al., Numerical behavior of NVIDIA tensor cores, https://doi.org/10.7717/peerj-cs.330";

/// All rules, in display order.
const RULES: [Rule; 9] = [
    Rule {
        name: "executed-differs",
        when: "the executed precision differs from the requested one",
        advice: "On this machine the setting does not execute the precision in its name, so its results do not carry over to other \
                 machines. Use the setting whose precision was executed.",
        sources: &[FASI, MATMUL_PRECISION],
        findings: range::executed_differs,
    },
    Rule {
        name: "vanishing-epsilon",
        when: "Adam's epsilon rounds to 0 in the format of the optimizer state",
        advice: "Keep weights and optimizer state in f32 (16-mixed), or use an epsilon that the format represents: the smallest f16 value \
                 is about 6e-8.",
        sources: &[RASCHKA_MIXED, MICIKEVICIUS],
        findings: range::vanishing_epsilon,
    },
    Rule {
        name: "overflow-to-bf16",
        when: "values overflow in f16 but not in f32 (an overflow share above 0, a loss scale below 1, or a divergence in f16 \
               only), and Adam's epsilon does not round to 0",
        advice: "Use bf16, which has the exponent range of f32: bf16-mixed, or bf16-true if it keeps the accuracy.",
        sources: &[AMP, MICIKEVICIUS],
        findings: range::overflow,
    },
    Rule {
        name: "loss-scaling",
        when: "more than 5 % of the observed gradients underflow to 0 in f16 without loss scaling",
        advice: "Use loss scaling, which shifts small gradients into the range of f16; 16-mixed does this.",
        sources: &[MICIKEVICIUS, AMP],
        findings: range::underflow,
    },
    Rule {
        name: "f32-weights",
        when: "more than half of the observed weight updates are lost in 16-bit weights",
        advice: "Keep weights in f32 (a mixed setting) if a longer training stalls: an update that is too small for the format is lost \
                 each time it is applied.",
        sources: &[MICIKEVICIUS],
        findings: range::lost_updates,
    },
    Rule {
        name: "matmul-high",
        when: "32-true with matmul high is within the budget and faster than with matmul highest, all else equal",
        advice: "Use matmul high (TF32) for the matmuls that stay in f32.",
        sources: &[MATMUL_PRECISION, CUDA_NOTES, RASCHKA_MIXED],
        findings: cost::matmul_high,
    },
    Rule {
        name: "mixed-memory",
        when: "a mixed setting needs more than half of the memory of f32",
        advice: "Mixed precision halves only the activations, because weights, gradients and optimizer state stay in f32. To save more \
                 memory, use activation checkpointing, smaller micro-batches with gradient accumulation, or an optimizer with \
                 less state.",
        sources: &[MICIKEVICIUS, RASCHKA_MEMORY, CHECKPOINTING],
        findings: cost::mixed_memory,
    },
    Rule {
        name: "accumulation",
        when: "more, smaller micro-batches with the same effective batch size are shown to lower the peak memory",
        advice: "If memory is scarce, use smaller micro-batches and accumulate their gradients; batch norms then see smaller batches.",
        sources: &[RASCHKA_ACCUMULATION, RASCHKA_MEMORY],
        findings: cost::accumulation,
    },
    Rule {
        name: "checkpointing",
        when: "activation checkpointing is shown to lower the peak memory, all else equal",
        advice: "If memory is scarce, recompute activations in the backward pass (activation checkpointing).",
        sources: &[CHECKPOINTING, RASCHKA_MEMORY],
        findings: cost::checkpointing,
    },
];

/// Returns the rules whose condition holds.
pub(crate) fn fired(context: &Context<'_, '_, '_>) -> Vec<FiredRule> {
    let fire = |rule: &Rule| {
        let findings = (rule.findings)(context);
        let cells: Vec<CellId> = findings.iter().map(|(row, _)| row.cell.id.clone()).collect();
        let mut evidence: Vec<String> = Vec::new();
        for (row, text) in findings {
            let line = format!("{}: {text}", context.group.setting_label(row));
            // The rows of a setting (one per seed) often have the same evidence; list it once.
            if !evidence.contains(&line) {
                evidence.push(line);
            }
        }
        (!cells.is_empty()).then_some(FiredRule {
            rule: rule.name,
            when: rule.when,
            advice: rule.advice,
            evidence,
            cells,
            sources: rule.sources,
        })
    };
    RULES.iter().filter_map(fire).collect()
}

/// Returns `true` if two rows agree in all axes that are not `ignored`.
fn alike(row: &Row<'_>, other: &Row<'_>, ignored: &[Axis]) -> bool {
    let same = |axis: &&Axis| row.axis(**axis) == other.axis(**axis);
    Axis::ALL
        .iter()
        .filter(|axis| !ignored.contains(axis))
        .all(|axis| same(&axis))
}
