//! Table of a history's change points for a terminal.

use super::view::{Direction, TrendChangePoint, TrendLine, Trends};
use crate::{Align, Table, digits};

impl Trends {
    /// Returns one row per change point: regressions first, then improvements, then irrelevant changes, each sorted by size, largest
    /// first.
    pub fn table(&self) -> Table {
        let many = self.many_machines();
        let mut turns: Vec<(&TrendLine, &TrendChangePoint)> = self
            .lines
            .iter()
            .flat_map(|line| line.turns.iter().map(move |turn| (line, turn)))
            .collect();
        let rank = |turn: &TrendChangePoint| match turn.towards {
            Direction::Worse => 0,
            Direction::Better => 1,
            Direction::Neither => 2,
        };
        turns.sort_by(|a, b| {
            let relative_size =
                |(line, turn): &(&TrendLine, &TrendChangePoint)| line.relative_size(turn.before, turn.after);
            rank(a.1)
                .cmp(&rank(b.1))
                .then(relative_size(b).total_cmp(&relative_size(a)))
        });
        let left = |title: &str| (title.to_owned(), Align::Left);
        let mut header = [
            "direction",
            "first run",
            "revision",
            "workload",
            "setting",
            "metric",
            "change",
            "before → after",
        ]
        .map(left)
        .to_vec();
        if many {
            header.push(left("machine"));
        }
        let rows = turns.into_iter().map(|(line, turn)| {
            let run = line.run(turn);
            let scale = line.scale();
            let mut row = vec![
                turn.towards.name().to_owned(),
                run.map(|run| run.run.clone()).unwrap_or_default(),
                run.and_then(|run| run.short_revision())
                    .unwrap_or_else(|| "unknown".to_owned()),
                line.workload.clone(),
                line.setting.clone(),
                line.metric.name().to_owned(),
                line.format_change(turn.before, turn.after),
                format!(
                    "{} → {}",
                    digits::number(scale, turn.before),
                    digits::text(scale, turn.after)
                ),
            ];
            if many {
                row.push(line.machine.clone());
            }
            row.iter().map(|text| replace_control(text)).collect()
        });
        Table {
            rows: rows.collect(),
            title: replace_control(&self.answer().join("\n")),
            header,
        }
    }
}

/// Replaces control characters. A history is an untrusted file, and its text must not move the terminal's cursor.
fn replace_control(text: &str) -> String {
    let replace = |c: char| {
        if c.is_control() && c != '\n' {
            '\u{fffd}'
        } else {
            c
        }
    };
    text.chars().map(replace).collect()
}
