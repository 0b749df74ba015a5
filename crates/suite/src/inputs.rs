//! `[inputs]` and `[profile.<name>.inputs]`: files of a suite for its workloads.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use mantissa_core::{DatasetKind, Task, Workload, nearest};

use crate::{keys::inputs, section::Section};

/// Files that the workloads of a suite read unless the user names others.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SuiteInputs {
    /// Paths of data by kind.
    pub data: BTreeMap<DatasetKind, PathBuf>,
    /// Path of the vocabulary or tokenizer.
    pub vocabulary: Option<PathBuf>,
    /// Paths of weights by workload.
    pub weights: BTreeMap<String, PathBuf>,
}

impl SuiteInputs {
    /// Resolves relative paths against the folder of the suite file.
    pub(crate) fn resolve(&mut self, folder: &Path) {
        let paths = self.data.values_mut().chain(self.weights.values_mut());
        let paths = paths.chain(&mut self.vocabulary);
        paths.for_each(|path| *path = folder.join(&path));
    }

    /// Adds files, which replace those for the same data, vocabulary or workload.
    pub(crate) fn replace(&mut self, files: Self) {
        self.data.extend(files.data);
        self.vocabulary = files.vocabulary.or(self.vocabulary.take());
        self.weights.extend(files.weights);
    }

    /// Returns true if the suite has no files.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the files that a workload reads, under canonical paths.
    pub(crate) fn read_by(&self, workload: &Workload) -> Vec<PathBuf> {
        let data = dataset_of(workload).and_then(|kind| self.data.get(&kind));
        let vocabulary = self
            .vocabulary
            .as_ref()
            .filter(|_| dataset_of(workload).is_some());
        let files = [data, vocabulary, self.weights.get(&workload.name)];
        let canonical = |path: &PathBuf| fs::canonicalize(path).unwrap_or_else(|_| path.clone());
        files.into_iter().flatten().map(canonical).collect()
    }
}

/// Returns the kind of data that a workload reads.
fn dataset_of(workload: &Workload) -> Option<DatasetKind> {
    match &workload.task {
        Task::Train(task) => Some(task.dataset),
        Task::Evaluate(task) => Some(task.dataset),
        Task::Generate(_) | Task::Kernel(_) => None,
    }
}

/// Reads a table of files. `workloads` are those that may read them.
pub(crate) fn read(section: &Section<'_>, workloads: &[Workload]) -> SuiteInputs {
    let mut files = SuiteInputs::default();
    section.reject_unknown_keys(&[inputs::KEYS]);
    if let Some(table) = section.table(&inputs::DATA, "`data`") {
        for (name, span, _) in table.entries() {
            let Some(kind) = table.parse_name::<DatasetKind>(&span, name) else {
                continue;
            };
            let is_read = workloads
                .iter()
                .any(|workload| dataset_of(workload) == Some(kind));
            if kind.is_synthetic() || kind == DatasetKind::Own {
                let message =
                    format!("`{kind}` is not read from files\n  hint: use `reviews`, `text` or `images`");
                table.sink.error(&span, message);
            } else if !workloads.is_empty() && !is_read {
                table
                    .sink
                    .error(&span, format!("no workload of the suite reads {kind}"));
            }
            files.data.extend(table.path(name).map(|path| (kind, path)));
        }
    }
    if section.has(&inputs::VOCABULARY) {
        files.vocabulary = section.text(&inputs::VOCABULARY).map(PathBuf::from);
    }
    if let Some(table) = section.table(&inputs::WEIGHTS, "`weights`") {
        for (name, span, _) in table.entries() {
            let names = workloads.iter().map(|workload| workload.name.as_str());
            // Without valid workloads, their errors are enough.
            if !workloads.is_empty() && !names.clone().any(|workload| workload == name) {
                let near = nearest(name, names).map(|near| format!("\n  hint: did you mean `{near}`?"));
                let hint = near.unwrap_or_default();
                table
                    .sink
                    .error(&span, format!("the suite has no workload `{name}`{hint}"));
            }
            files
                .weights
                .extend(table.path(name).map(|path| (name.to_owned(), path)));
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use mantissa_core::Profile;

    use super::*;

    /// A suite with these lines below `[inputs]`.
    fn suite(lines: &str) -> Result<crate::Suite, String> {
        let text = format!(
            "title = 't'\nquestion = 'q'\n[inputs]\n{lines}\n[[workload]]\nname = 'small'\ntask = 'evaluate'\nmodel = 'llama'\ndataset = 'text'\n"
        );
        crate::parse("a", "a.toml", &text).map_err(|errors| errors.to_string())
    }

    #[test]
    fn paths_are_relative_to_the_suite_file() {
        let lines =
            "data.text = 'stories.txt'\nvocabulary = '/absolute/tok.bin'\nweights.small = '../model.bin'";
        let mut files = suite(lines).unwrap().inputs(Profile::Smoke).clone();
        files.resolve(Path::new("suites/evaluate"));
        let expected = SuiteInputs {
            data: [(DatasetKind::Text, "suites/evaluate/stories.txt".into())].into(),
            vocabulary: Some("/absolute/tok.bin".into()),
            weights: [("small".to_owned(), "suites/evaluate/../model.bin".into())].into(),
        };
        assert_eq!(files, expected);
        assert!(suite("").unwrap().inputs(Profile::Smoke).is_empty());
    }

    #[test]
    fn files_of_a_profile_replace_those_of_the_suite_one_by_one() {
        let lines = "data.text = 'all.txt'\nvocabulary = 'all.bin'\n[profile.smoke.inputs]\ndata.text = 'short.txt'\nweights.small = 'a.bin'";
        let suite = suite(lines).unwrap();
        let of_suite = SuiteInputs {
            data: [(DatasetKind::Text, "all.txt".into())].into(),
            vocabulary: Some("all.bin".into()),
            weights: [].into(),
        };
        let of_smoke = SuiteInputs {
            data: [(DatasetKind::Text, "short.txt".into())].into(),
            weights: [("small".to_owned(), "a.bin".into())].into(),
            ..of_suite.clone()
        };
        assert_eq!(*suite.inputs(Profile::Full), of_suite);
        assert_eq!(*suite.inputs(Profile::Smoke), of_smoke);
    }

    #[test]
    fn invalid_inputs_are_reported_with_their_line() {
        let error = |lines: &str| suite(lines).unwrap_err();
        insta::assert_snapshot!(error("weights.smal = 'a'"), @r#"
            a.toml:4:9: the suite has no workload `smal`
              hint: did you mean `small`?
            "#);
        insta::assert_snapshot!(error("data.synthetic-text = 'a'"), @r#"
            a.toml:4:6: `synthetic-text` is not read from files
              hint: use `reviews`, `text` or `images`
            "#);
        insta::assert_snapshot!(error("data.text = 3"), @"a.toml:4:13: `text` takes a path, not `3`");
        insta::assert_snapshot!(error("data.text = ''"), @"a.toml:4:13: `text` takes a path, not `''`");
        insta::assert_snapshot!(error("data.images = 'a'"), @"a.toml:4:6: no workload of the suite reads images");
        assert!(error("datas = 3").contains("unknown key `datas`"));
        let of_profile = "[profile.smoke.inputs]\ndata.images = 'a'\nvocabularies = 3";
        insta::assert_snapshot!(error(of_profile), @r"
            a.toml:5:6: no workload of the suite reads images
            a.toml:6:1: unknown key `vocabularies`
              hint: did you mean `vocabulary`? valid: `data`, `vocabulary`, `weights`
            ");
    }
}
