//! Best practices from the articles. A rule is shown only if its condition holds in the records.

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

/// A row that fulfils a condition, and the number in its records.
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
        when: "the hardware executed another precision than requested",
        advice: "The setting is not what its name says here, and nothing of it is to be expected elsewhere: take the one whose \
                 precision was executed.",
        sources: &[FASI, MATMUL_PRECISION],
        findings: range::executed_differs,
    },
    Rule {
        name: "vanishing-epsilon",
        when: "Adam's epsilon is 0 in the format of the optimizer's state",
        advice: "Keep weights and optimizer state in f32 (16-mixed), or take an epsilon that the format has: f16 has none below 6e-8.",
        sources: &[RASCHKA_MIXED, MICIKEVICIUS],
        findings: range::vanishing_epsilon,
    },
    Rule {
        name: "overflow-to-bf16",
        when: "values overflow f16 and the same work under f32 ends well: shares of overflow above 0, a loss scale below 1, or \
               results that are finite under f32 alone, without a vanishing epsilon",
        advice: "Take bf16, which has the exponents of f32: bf16-mixed, or bf16-true where that keeps accuracy.",
        sources: &[AMP, MICIKEVICIUS],
        findings: range::overflow,
    },
    Rule {
        name: "loss-scaling",
        when: "more than 5 % of the gradients of observed steps become 0 in f16, without loss scaling",
        advice: "Scale the loss, which lifts small gradients into the range of f16: 16-mixed does.",
        sources: &[MICIKEVICIUS, AMP],
        findings: range::underflow,
    },
    Rule {
        name: "f32-weights",
        when: "more than half of the changes of observed steps are lost in 16-bit weights",
        advice: "Keep weights in f32 (a mixed setting) where a longer training stalls: a change too small for the format is lost, however \
                 often it is made.",
        sources: &[MICIKEVICIUS],
        findings: range::lost_updates,
    },
    Rule {
        name: "matmul-high",
        when: "32-true with matmul high is within the budget and faster than with highest, all else equal",
        advice: "Take matmul high (TF32) for what stays in f32.",
        sources: &[MATMUL_PRECISION, CUDA_NOTES, RASCHKA_MIXED],
        findings: cost::matmul_high,
    },
    Rule {
        name: "mixed-memory",
        when: "a mixed setting holds more than half of what f32 holds",
        advice: "Mixed precision halves activations alone, since weights, gradients and optimizer state stay in f32: for less memory \
                 take activation checkpointing, smaller micro-batches with accumulation, or an optimizer with less state.",
        sources: &[MICIKEVICIUS, RASCHKA_MEMORY, CHECKPOINTING],
        findings: cost::mixed_memory,
    },
    Rule {
        name: "accumulation",
        when: "more, smaller micro-batches of the same effective batch are shown to peak lower",
        advice: "Where memory is short, make micro-batches smaller and accumulate their gradients; batch norms see smaller batches.",
        sources: &[RASCHKA_ACCUMULATION, RASCHKA_MEMORY],
        findings: cost::accumulation,
    },
    Rule {
        name: "checkpointing",
        when: "recomputing activations is shown to peak lower, all else equal",
        advice: "Where memory is short, recompute activations in the backward pass.",
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
            let told = format!("{}: {text}", context.group.label(row, &[Axis::Seed]));
            // Seeds of one setting often have the same text.
            if !evidence.contains(&told) {
                evidence.push(told);
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

/// Returns `true` if two rows agree in all axes except the given ones.
fn alike(row: &Row<'_>, other: &Row<'_>, but: &[Axis]) -> bool {
    let same = |axis: &&Axis| row.axis(**axis) == other.axis(**axis);
    Axis::ALL
        .iter()
        .filter(|axis| !but.contains(axis))
        .all(|axis| same(&axis))
}
