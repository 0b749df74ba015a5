//! Recommendations of a report: the advice within the default budget, for every kind of work.

use super::{
    Budget,
    choice::{Choice, choices},
    sentences,
};
use crate::Group;

/// Returns the sentences of the advice within the default budget. With several kinds of work, each begins with its label.
pub(crate) fn recommendations(group: &Group<'_>) -> Vec<String> {
    let budget = Budget::default();
    let choices = choices(group, &budget);
    if choices.len() > 1 && choices.iter().all(|choice| choice.only_finished().is_some()) {
        return vec!["No two settings did the same work, so there is nothing to compare.".to_owned()];
    }
    let of_work = |choice: &Choice<'_, '_>| {
        let mut sentences = sentences::answer(group, choice, &budget);
        if let (Some(first), false) = (sentences.first_mut(), choice.label.is_empty()) {
            *first = format!("{}: {first}", choice.label);
        }
        sentences
    };
    choices.iter().flat_map(of_work).collect()
}
