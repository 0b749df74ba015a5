//! Tests claims about the status of cells. Such a claim is about most trainings of a setting. A single training shows only that a status is
//! possible.

use std::collections::BTreeMap;

use mantissa_analysis::{Evidence, test_claim};
use mantissa_core::{Axis, AxisValue, Bounds, Status};

use crate::{
    Group, Row,
    claims::{
        endings::Endings,
        pairs::{group_rows, has},
        sentences,
        subject::{ClaimOutcome, Subject},
    },
};

/// Bounds of the share of trainings that must have the claimed status: more than half.
const MAJORITY: Bounds = Bounds {
    above: Some(0.5),
    below: None,
};

/// Tests the claim on every setting with these values. Seeds of a setting are grouped, and the tests are corrected for the number of
/// settings.
pub(crate) fn subjects<'g, 'a>(
    groups: impl Iterator<Item = &'g Group<'a>>,
    of: &BTreeMap<Axis, AxisValue>,
    claimed: &[Status],
) -> Vec<Subject<'g, 'a>>
where
    'a: 'g,
{
    let settings = groups.flat_map(|group| {
        let settings = group_rows(group, |row| has(row, of), |_| false);
        settings.into_iter().map(move |rows| (group, rows))
    });
    let ended: Vec<_> = settings
        .map(|(group, rows)| {
            let endings = Endings::of(group, &rows, claimed);
            (group, rows, endings)
        })
        .collect();
    let evidence: Vec<Evidence> = ended
        .iter()
        .filter_map(|(_, _, endings)| Some(endings.as_ref().ok()?.evidence()))
        .collect();
    let mut tested = test_claim(&evidence, MAJORITY).into_iter();
    let subject =
        |(group, rows, endings): (&'g Group<'a>, Vec<&'g Row<'a>>, Result<Endings, String>)| Subject {
            label: rows
                .first()
                .map(|row| group.label(row, &[Axis::Seed]))
                .unwrap_or_default(),
            outcome: match endings {
                Err(why) => ClaimOutcome::NotTested(why),
                Ok(endings) => tested.next().map_or_else(
                    || ClaimOutcome::NotTested("no process ran".to_owned()),
                    |tested| ClaimOutcome::Tested {
                        finding: tested.finding,
                        test: sentences::test(&endings.evidence(), MAJORITY, endings.of_seeds),
                        evidence: sentences::endings(&endings, &tested, evidence.len()),
                    },
                ),
            },
            metric: None,
            learned: None,
            rows,
        };
    ended.into_iter().map(subject).collect()
}
