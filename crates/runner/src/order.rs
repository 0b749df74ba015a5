//! Execution order of the cells of a plan.

use mantissa_core::{Cell, Plan};
use serde::{Deserialize, Serialize};

/// Execution order of cells and their repeats.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Runs one repeat of every cell per round. The order of the cells of a workload rotates from round to round (A B C,
    /// C A B, B C A), so that drift of the machine affects all cells of a workload alike.
    #[default]
    Rounds,
    /// Runs all repeats of a cell before the next cell, in the order of the suites.
    Sorted,
}

impl Order {
    /// Returns every repeat of every cell that is not skipped, in the order of execution. `repeats` returns the number of repeats of a cell.
    pub fn arrange(self, plan: &Plan, repeats: impl Fn(&Cell) -> u32) -> Vec<(&Cell, u32)> {
        let cells: Vec<&Cell> = plan.runnable().collect();
        match self {
            Self::Sorted => cells
                .into_iter()
                .flat_map(|cell| (0..repeats(cell)).map(move |repeat| (cell, repeat)))
                .collect(),
            Self::Rounds => {
                let most = cells.iter().map(|cell| repeats(cell)).max().unwrap_or(0);
                let rounds = (0..most).flat_map(|repeat| {
                    let workloads =
                        cells.chunk_by(|a, b| (&a.suite, &a.workload.name) == (&b.suite, &b.workload.name));
                    workloads.flat_map(move |cells| {
                        let shift = repeat as usize % cells.len();
                        let (first, last) = cells.split_at(cells.len() - shift);
                        last.iter().chain(first).map(move |cell| (*cell, repeat))
                    })
                });
                rounds.filter(|(cell, repeat)| *repeat < repeats(cell)).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use mantissa_core::PlannedCell;
    use proptest::prelude::*;

    use super::*;
    use crate::testing;

    /// Formats the sizes in order, with a bar between repeats: `64 128 192 | 192 64 128`.
    fn format_order(work: &[(&Cell, u32)]) -> String {
        let rounds = work.chunk_by(|a, b| a.1 == b.1);
        let round = |cells: &[(&Cell, u32)]| {
            let sizes = cells.iter().map(|(cell, _)| cell.setting.size().to_string());
            sizes.collect::<Vec<_>>().join(" ")
        };
        rounds.map(round).collect::<Vec<_>>().join(" | ")
    }

    /// Returns a plan with two workloads.
    fn two_workloads(first: u64, second: u64) -> Plan {
        let mut plan = testing::plan(first + second);
        for planned in plan.cells.iter_mut().skip(first as usize) {
            planned.cell.workload.name = "other".into();
        }
        plan
    }

    #[test]
    fn the_cells_of_a_workload_rotate_from_round_to_round() {
        let plan = testing::plan(3);
        let rounds = Order::Rounds.arrange(&plan, |_| 4);
        assert_eq!(
            format_order(&rounds),
            "64 128 192 | 192 64 128 | 128 192 64 | 64 128 192"
        );
    }

    #[test]
    fn the_order_of_workloads_is_the_same_in_every_round() {
        let plan = two_workloads(2, 3);
        let rounds = Order::Rounds.arrange(&plan, |_| 2);
        assert_eq!(format_order(&rounds), "64 128 192 256 320 | 128 64 320 192 256");
    }

    #[test]
    fn sorted_order_runs_all_repeats_of_a_cell_consecutively() {
        let plan = testing::plan(2);
        let work = Order::Sorted.arrange(&plan, |_| 2);
        assert_eq!(format_order(&work), "64 | 64 | 128 | 128");
        assert_eq!(
            work.iter().map(|(_, repeat)| *repeat).collect::<Vec<_>>(),
            [0, 1, 0, 1]
        );
    }

    proptest! {
        #[test]
        fn every_runnable_cell_runs_each_repeat_once(
            first in 0u64..6, second in 0u64..6, few in 0u32..9, many in 0u32..9, skipped in 0usize..12,
        ) {
            let mut plan = two_workloads(first, second);
            if let Some(planned) = plan.cells.get_mut(skipped) {
                *planned = PlannedCell { skip: Some("why".into()), ..planned.clone() };
            }
            let repeats = |cell: &Cell| if cell.workload.name == "other" { many } else { few };
            for order in [Order::Rounds, Order::Sorted] {
                let mut seen: Vec<_> = order.arrange(&plan, repeats).into_iter().map(|(cell, r)| (&cell.id, r)).collect();
                seen.sort();
                let mut all: Vec<_> = plan.runnable().flat_map(|cell| (0..repeats(cell)).map(move |r| (&cell.id, r))).collect();
                all.sort();
                prop_assert_eq!(seen, all);
            }
        }

        #[test]
        fn rotation_puts_every_cell_at_every_position_equally_often(cells in 1u64..12, turns in 1u32..3) {
            let plan = testing::plan(cells);
            let rounds = cells as u32 * turns;
            let work = Order::Rounds.arrange(&plan, |_| rounds);
            let mut counts = BTreeMap::new();
            for (index, (cell, _)) in work.iter().enumerate() {
                *counts.entry((index % cells as usize, &cell.id)).or_insert(0) += 1;
            }
            prop_assert_eq!(counts.len() as u64, cells * cells);
            prop_assert!(counts.values().all(|count| *count == turns));
        }
    }
}
