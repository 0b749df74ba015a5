//! Text generation: the model reads the whole prompt at once, and then the generated tokens one by one. Keys and values of earlier tokens
//! are cached in the setting's format.

use std::{cell::RefCell, fmt::Write, ops::Range, time::Instant};

use burn::tensor::{Device, Tensor};
use mantissa_analysis::{WarmUp, WarmUpState};
use mantissa_core::{Cell, Event, EventKind, Executed, GenerateTask, Samples, Series, SeriesName};
use mantissa_inputs::weights::generation_note;
use mantissa_precision::{Compute, Timed, Tracked, observe_launches};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{
    Inputs, Observer, Outcome, Phase, ReadWeights, TaskMeasurements, WorkloadError,
    data::{TokenBatch, Tokenized},
    initial_state::{InitialState, Purpose, initial_state},
    models::{KvCache, Network, Norms, Stage, with_text_generator},
    outcome::{progress, read, sync},
    sampling::{Limits, sample},
    timing::{Launch, wall_clock, windows},
};

/// Maximum number of tokens of a warm-up.
const MAX_WARM_UP_TOKENS: usize = 4000;

/// Runs a generation cell.
pub(crate) fn generate(
    cell: &Cell,
    task: &GenerateTask,
    inputs: &Inputs,
    device: &Device,
    observer: &mut dyn Observer,
) -> Result<Outcome, WorkloadError> {
    let begun = Instant::now();
    let generating = GenerationTask {
        cell,
        task,
        inputs,
        device,
        begun,
        observer,
    };
    with_text_generator!(&task.model, model => generating.run(model))
}

/// Generation cell whose model is not built yet.
struct GenerationTask<'a> {
    cell: &'a Cell,
    task: &'a GenerateTask,
    inputs: &'a Inputs,
    device: &'a Device,
    begun: Instant,
    observer: &'a mut dyn Observer,
}

/// Model that is ready to generate.
pub(crate) struct Generator<'a, M: Network> {
    model: &'a M,
    parameters: Tracked,
    /// Embedding table of a tied head, cast to the matmul format only once. `None` if the head is not tied or is kept in f32.
    head: Option<Tensor<2>>,
    running: &'a Norms,
    compute: Compute,
    device: &'a Device,
}

/// Tokens generated after a prompt, and their times.
pub(crate) struct Generated {
    /// Token ids, `[new tokens, n]`.
    pub tokens: Vec<i32>,
    /// Seconds until each token was on the host, since the start or the previous token.
    pub seconds: Vec<f64>,
    /// True if every logit of the last token is finite.
    pub finite: bool,
    /// Time window from before the upload of the prompt until the last token was on the host.
    pub window: Range<Instant>,
}

impl Generated {
    /// Returns the time of all tokens but the first, in seconds.
    fn decode_seconds(&self) -> f64 {
        self.seconds[1..].iter().sum()
    }
}

/// Selects the next tokens: by argmax at a temperature of 0, otherwise by sampling from the softmax of the logits divided by the
/// temperature.
pub(crate) struct TokenSampler {
    temperature: f64,
    rng: ChaCha8Rng,
}

impl TokenSampler {
    pub(crate) fn new(temperature: f64, seed: u64) -> Self {
        Self {
            temperature,
            rng: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    /// Returns a token for each row of logits `[n, vocabulary]`.
    fn sample(&mut self, logits: Tensor<2>) -> Result<Vec<i32>, WorkloadError> {
        if self.temperature == 0.0 {
            return read(logits.argmax(1));
        }
        let [_, vocabulary_size] = logits.dims();
        let logits: Vec<f64> = read(logits)?;
        let rows = logits.chunks_exact(vocabulary_size);
        Ok(rows
            .map(|row| sample_token(row, self.temperature, &mut self.rng))
            .collect())
    }
}

/// Samples an index from the softmax of the logits divided by the temperature. Returns the last index if every logit is NaN.
fn sample_token(logits: &[f64], temperature: f64, rng: &mut ChaCha8Rng) -> i32 {
    let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weight = |logit: &f64| ((logit - largest) / temperature).exp();
    let total: f64 = logits.iter().map(weight).sum();
    let mut remaining = rng.random::<f64>() * total;
    let index = logits.iter().position(|logit| {
        remaining -= weight(logit);
        remaining < 0.0
    });
    index.unwrap_or(logits.len() - 1) as i32
}

impl<'a, M: Network<Part = Tokenized>> Generator<'a, M> {
    pub(crate) fn new(
        model: &'a M,
        initial_state: &'a InitialState,
        compute: Compute,
        device: &'a Device,
    ) -> Self {
        let working = initial_state
            .parameters
            .working(&compute, |name| model.multiplies(name));
        let parameters = working.freeze();
        let tied = model
            .tied_head()
            .filter(|(head, _)| !model.f32_layers().contains(head));
        Self {
            model,
            head: tied.map(|(_, table)| compute.operand(parameters.matrix(table))),
            parameters,
            running: &initial_state.running,
            compute,
            device,
        }
    }

    /// Generates `new` tokens after each of `n` prompts `[n, prompt]`. Calls `on_finish` at the end, while all cached keys and values are still
    /// in memory.
    pub(crate) fn generate(
        &self,
        (prompts, n): (&[i32], usize),
        new: u32,
        sampler: &mut TokenSampler,
        on_finish: impl FnOnce(),
    ) -> Result<Generated, WorkloadError> {
        let cache = RefCell::new(KvCache::default());
        let (begun, mut last) = (Instant::now(), None);
        let (mut tokens, mut seconds, mut since) = (vec![], vec![], begun);
        let mut ids = prompts.to_vec();
        for _ in 0..new {
            let logits = self.step(ids, n, &cache);
            let next_ids = sampler.sample(logits.clone())?;
            let now = Instant::now();
            seconds.push((now - since).as_secs_f64());
            since = now;
            last = Some(logits);
            tokens.extend(&next_ids);
            ids = next_ids;
        }
        let window = begun..since;
        on_finish();
        let finite = match last {
            Some(logits) => read(logits)?.into_iter().all(f64::is_finite),
            None => true,
        };
        Ok(Generated {
            tokens,
            seconds,
            finite,
            window,
        })
    }

    /// Reads the tokens `[n, count]` after those in the cache. Returns the logits `[n, vocabulary]` after the last one.
    fn step(&self, ids: Vec<i32>, n: usize, cache: &RefCell<KvCache>) -> Tensor<2> {
        let count = (ids.len() / n) as i32;
        let batch = TokenBatch {
            ids,
            lengths: vec![count; n],
            rows: (1..=n as i32).map(|row| row * count - 1).collect(),
            labels: vec![],
        };
        let input = M::upload(&batch, self.device);
        let stage = Stage::Testing(self.running);
        let pass = self.model.pass(&self.parameters, &self.compute, stage);
        let pass = pass.with_cache(cache).with_head(self.head.as_ref());
        self.model.forward(&pass, &input)
    }
}

impl GenerationTask<'_> {
    fn run<M: Network<Part = Tokenized>>(self, model: M) -> Result<Outcome, WorkloadError> {
        let (cell, task, device) = (self.cell, self.task, self.device);
        progress(self.observer, device, Phase::Prepare, 0, 1);
        let model = model
            .keep_in_f32(cell.setting.keep_f32())
            .map_err(WorkloadError::unavailable)?;
        let format = cell.setting.precision().parameters();
        let mut initial_state = initial_state(&model, (cell, format, Purpose::Testing), self.inputs, device)?;
        if let Some(weights) = self.inputs.weights_of(&cell.workload.name) {
            let note = generation_note(weights).map_err(WorkloadError::weights)?;
            initial_state
                .events
                .extend(note.map(|note| Event::new(EventKind::Weights, note)));
        }
        let generator = Generator::new(&model, &initial_state, Compute::of(&cell.setting), device);
        let n = cell.setting.batch() as usize;
        let prompts = prompts(task, n, cell.seed);
        sync(device)?;
        let load_seconds = self.begun.elapsed().as_secs_f64();

        let started = Instant::now();
        progress(self.observer, device, Phase::WarmUp, 0, 1);
        let clock = wall_clock(device)?;
        let generate_text = |on_finish: &mut dyn FnMut()| {
            // Generate the same tokens every time, so that times differ only by noise.
            let mut sampler = TokenSampler::new(task.temperature, cell.seed);
            generator.generate((&prompts, n), task.new_tokens, &mut sampler, on_finish)
        };
        let warm_up_event = warm_up(task.into(), || generate_text(&mut || ()))?;
        let launches = observe_launches(device, || generate_text(&mut || ()).map(drop))?;
        let warmup_seconds = started.elapsed().as_secs_f64();

        let max_samples = task.max_samples;
        progress(self.observer, device, Phase::Measure, 0, max_samples.into());
        let observer_cell = RefCell::new(self.observer);
        let texts = generate_texts(task, n, |number| {
            let generated = generate_text(&mut || {
                let mut observer = observer_cell.borrow_mut();
                progress(
                    *observer,
                    device,
                    Phase::Measure,
                    number.into(),
                    max_samples.into(),
                );
            })?;
            let throttled = observer_cell.borrow().is_throttled(generated.window.start);
            Ok((generated, throttled))
        })?;
        observer_cell.into_inner().memory_peak_reached();
        let events = initial_state
            .events
            .clone()
            .into_iter()
            .chain([clock, warm_up_event])
            .collect();
        Ok(Outcome {
            launches,
            ..texts.outcome(
                task,
                n,
                initial_state.read,
                events,
                (load_seconds, warmup_seconds),
            )
        })
    }
}

/// Generated texts and their times.
pub(crate) struct Texts {
    series: Vec<Series>,
    finite: bool,
    windows: Vec<Range<Instant>>,
    events: Vec<Event>,
}

/// Generates texts until the median decoding time is precise enough. `generate_text` gets the number of the text, from 1. It returns the
/// text, and true if the device was throttled.
pub(crate) fn generate_texts(
    task: &GenerateTask,
    n: usize,
    mut generate_text: impl FnMut(u32) -> Result<(Generated, bool), WorkloadError>,
) -> Result<Texts, WorkloadError> {
    let mut first = Series::new(SeriesName::FirstTokenSeconds);
    let mut decoding = Series::new(SeriesName::DecodeSeconds);
    let mut tokens = Series::new(SeriesName::TokenSeconds);
    let (mut finite, mut first_text_event) = (true, None);
    let (mut text, mut token) = (0u32, 0u32);
    let sampled = sample(task, |number| {
        let (generated, throttled) = generate_text(number)?;
        text += 1;
        first.push(f64::from(text), generated.seconds[0]);
        decoding.push(f64::from(text), generated.decode_seconds());
        for seconds in &generated.seconds[1..] {
            token += 1;
            tokens.push(f64::from(token), *seconds);
        }
        finite &= generated.finite;
        let timed = Timed {
            device: None,
            wall: generated.decode_seconds(),
        };
        first_text_event.get_or_insert(text_event(&generated.tokens, n));
        let window = generated.window;
        Ok((Launch { window, timed }, throttled))
    })?;
    Ok(Texts {
        series: vec![first, decoding, tokens],
        finite,
        windows: windows(sampled.launches),
        events: sampled.events.into_iter().chain(first_text_event).collect(),
    })
}

impl Texts {
    /// Builds the outcome. `read` describes the weights if they were read from a checkpoint. The last argument contains the seconds of loading and
    /// of the warm-up.
    pub fn outcome(
        self,
        task: &GenerateTask,
        n: usize,
        read: Option<ReadWeights>,
        events: Vec<Event>,
        (load_seconds, warmup_seconds): (f64, f64),
    ) -> Outcome {
        Outcome {
            samples: Samples {
                series: self.series,
                test_correct: None,
                ranges: vec![],
                trials: vec![],
                staleness: vec![],
            },
            events: events.into_iter().chain(self.events).collect(),
            diverged: (!self.finite).then(|| "some logits are not finite".to_owned()),
            data: None,
            executed: Executed::unverified(),
            load_seconds,
            warmup_seconds,
            launches: None,
            measured: TaskMeasurements::Generate {
                weights: read,
                texts: n as u64,
                prompt_tokens: task.prompt_tokens.into(),
                decoded: u64::from(task.new_tokens) - 1,
                windows: self.windows,
            },
        }
    }
}

/// Returns prompts `[n, prompt]` of random tokens, drawn with the seed.
pub(crate) fn prompts(task: &GenerateTask, n: usize, seed: u64) -> Vec<i32> {
    let vocabulary_size = task.model.vocabulary();
    let vocabulary_size = vocabulary_size.expect("models that generate text have a vocabulary");
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let count = n * task.prompt_tokens as usize;
    (0..count)
        .map(|_| rng.random_range(0..vocabulary_size) as i32)
        .collect()
}

/// Generates texts until the token times are stable. Always generates whole texts, so that every length of the cache occurs.
pub(crate) fn warm_up(
    limits: Limits,
    mut generate_text: impl FnMut() -> Result<Generated, WorkloadError>,
) -> Result<Event, WorkloadError> {
    let begun = Instant::now();
    let mut warm_up = WarmUp::new(MAX_WARM_UP_TOKENS);
    for texts in 1u32.. {
        let mut state = WarmUpState::Warming;
        for seconds in &generate_text()?.seconds[1..] {
            if matches!(state, WarmUpState::Warming) {
                state = warm_up.push(*seconds);
            }
        }
        let detail = match state {
            WarmUpState::Settled => "token times are stable",
            WarmUpState::GaveUp => "token times did not become stable",
            WarmUpState::Warming if begun.elapsed().as_secs_f64() > limits.max_seconds => {
                "token times did not become stable within the time limit"
            }
            WarmUpState::Warming => continue,
        };
        return Ok(Event {
            kind: EventKind::WarmUp,
            step: Some(texts.into()),
            value: None,
            detail: detail.into(),
        });
    }
    unreachable!("the number of warm-up tokens is limited")
}

/// Returns an event with the tokens of the first text.
fn text_event(tokens: &[i32], n: usize) -> Event {
    let mut detail = String::from("token ids");
    for token in tokens.iter().step_by(n) {
        let _ = write!(detail, " {token}");
    }
    Event::new(EventKind::Text, detail)
}

#[cfg(test)]
mod tests {
    use mantissa_core::{Axis, AxisValue, Backend, Gpt2Size, LlamaSize, Model, Setting, Task, Workload};

    use super::*;
    use crate::Progress;

    fn llama() -> LlamaSize {
        LlamaSize {
            vocab_size: 61,
            hidden_size: 24,
            intermediate_size: 40,
            num_hidden_layers: 2,
            num_attention_heads: 4,
            num_key_value_heads: 2,
            head_dim: 6,
            max_position_embeddings: 64,
            ..LlamaSize::LLAMA2_7B
        }
    }

    fn cell(model: Model, precision: &str, temperature: f64) -> Cell {
        let workload = Workload {
            name: "writes".into(),
            task: Task::Generate(GenerateTask {
                model,
                prompt_tokens: 5,
                new_tokens: 7,
                temperature,
                min_samples: 2,
                max_samples: 3,
                max_seconds: 60.0,
                max_noise: 0.05,
            }),
        };
        let mut setting = Setting::of(&workload, Backend::Flex);
        let text = AxisValue::Text(precision.into());
        setting.set(Axis::Precision, text).unwrap();
        setting.set(Axis::Batch, AxisValue::Integer(2)).unwrap();
        Cell::new("s", workload, setting, 1)
    }

    struct PhaseRecorder(Vec<Phase>);

    impl Observer for PhaseRecorder {
        fn progress(&mut self, progress: Progress) {
            self.0.push(progress.phase);
        }
    }

    fn outcome(cell: &Cell) -> (Outcome, Vec<Phase>) {
        let Task::Generate(task) = &cell.workload.task else {
            unreachable!("`cell` creates a generation task of this model")
        };
        let mut recorder = PhaseRecorder(vec![]);
        let outcome = generate(cell, task, &Inputs::default(), &Device::flex(), &mut recorder).unwrap();
        (outcome, recorder.0)
    }

    fn text(outcome: &Outcome) -> &str {
        let mut events = outcome.events.iter();
        &events.find(|event| event.kind == EventKind::Text).unwrap().detail
    }

    #[test]
    fn first_token_and_decoding_are_timed_per_text() {
        let (outcome, phases) = outcome(&cell(Model::Llama(llama()), "32-true", 0.0));
        let count = |name| outcome.samples.get(name).unwrap().values().count();
        assert_eq!(
            [
                count(SeriesName::FirstTokenSeconds),
                count(SeriesName::DecodeSeconds),
                count(SeriesName::TokenSeconds)
            ],
            [3, 3, 18]
        );
        assert_eq!(text(&outcome).split(' ').count(), 2 + 7);
        let TaskMeasurements::Generate {
            weights,
            texts,
            prompt_tokens,
            decoded,
            windows,
        } = &outcome.measured
        else {
            panic!("{:?}", outcome.measured)
        };
        assert!(weights.is_none());
        assert_eq!((*texts, *prompt_tokens, *decoded, windows.len()), (2, 5, 6, 3));
        assert_eq!(phases.iter().filter(|phase| **phase == Phase::Measure).count(), 4);
        assert!(outcome.diverged.is_none());
    }

    #[test]
    fn texts_depend_on_seed_and_setting_only() {
        let text_of = |precision, temperature| {
            let (outcome, _) = outcome(&cell(Model::Llama(llama()), precision, temperature));
            text(&outcome).to_owned()
        };
        assert_eq!(text_of("32-true", 0.0), text_of("32-true", 0.0));
        assert_eq!(text_of("32-true", 2.0), text_of("32-true", 2.0));
        assert_ne!(text_of("32-true", 0.0), text_of("32-true", 2.0));
        for precision in ["64-true", "bf16-mixed", "16-mixed", "16-true", "bf16-true"] {
            assert_eq!(text_of(precision, 0.0).split(' ').count(), 2 + 7);
        }
    }

    #[test]
    fn tokens_do_not_depend_on_the_cache() {
        let cell = cell(
            Model::Gpt2(Gpt2Size {
                vocab_size: 61,
                n_positions: 32,
                n_embd: 24,
                n_layer: 2,
                n_head: 4,
                n_inner: 40,
                ..Gpt2Size::SMALL
            }),
            "64-true",
            0.0,
        );
        let (outcome, _) = outcome(&cell);
        let Task::Generate(task) = &cell.workload.task else {
            unreachable!("`cell` creates a generation task of this model")
        };
        let Model::Gpt2(size) = &task.model else {
            unreachable!("`cell` creates a generation task of this model")
        };
        let model = crate::models::Gpt2::new(size.clone());
        let of = (&cell, mantissa_core::Format::F64, Purpose::Testing);
        let device = Device::flex();
        let initial_state = initial_state(&model, of, &Inputs::default(), &device).unwrap();
        let generator = Generator::new(&model, &initial_state, Compute::of(&cell.setting), &device);
        // Recompute the whole first text for each of its tokens, without a cache.
        let mut ids = prompts(task, 2, cell.seed)[..5].to_vec();
        for _ in 0..7 {
            let cache = RefCell::new(KvCache::default());
            let logits = generator.step(ids.clone(), 1, &cache);
            ids.extend(TokenSampler::new(0.0, 0).sample(logits).unwrap());
        }
        let mut expected = String::from("token ids");
        ids[5..].iter().for_each(|id| expected += &format!(" {id}"));
        assert_eq!(text(&outcome), expected);
    }

    #[test]
    fn tokens_are_sampled_from_the_softmax_of_the_logits() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let logits = [0.0, 2.0, f64::NEG_INFINITY];
        let mut counts = [0u32; 3];
        for _ in 0..20_000 {
            counts[sample_token(&logits, 2.0, &mut rng) as usize] += 1;
        }
        // The logits differ by 2. Divided by the temperature of 2, they differ by 1, so the odds are e to 1.
        let share = f64::from(counts[1]) / 20_000.0;
        let expected = 1f64.exp() / (1.0 + 1f64.exp());
        assert!((share - expected).abs() < 0.015 && counts[2] == 0, "{counts:?}");
    }

    /// Returns the small model of llama2.c and its tokenizer.
    fn stories() -> (std::path::PathBuf, crate::data::TextTokenizer) {
        let [weights, vocabulary] = ["stories260K.bin", "tok512.bin"]
            .map(|file| mantissa_testing::shipped(&format!("stories/{file}")));
        (weights, crate::data::TextTokenizer::open(&vocabulary).unwrap())
    }

    #[test]
    fn llama2c_model_generates_the_published_story() {
        let (weights, tokenizer) = stories();
        let Some(page) = mantissa_testing::real_data("llama_tiny/stories260K.md") else {
            return;
        };
        let page = std::fs::read_to_string(page).unwrap();
        let (_, output) = page.split_once("-t 0.0\n").unwrap();
        let (story, _) = output.split_once("\n```").unwrap();
        let Some(Model::Llama(size)) = mantissa_inputs::weights::model_of(&weights).unwrap() else {
            panic!("{} is not a LLaMA", weights.display())
        };
        let inputs = Inputs {
            weights: [(String::new(), weights)].into(),
            ..Inputs::default()
        };
        let cell = cell(Model::Llama(size.clone()), "32-true", 0.0);
        let model = crate::models::Llama::new(size);
        let of = (&cell, mantissa_core::Format::F32, Purpose::Testing);
        let device = Device::flex();
        let initial_state = initial_state(&model, of, &inputs, &device).unwrap();
        let generator = Generator::new(&model, &initial_state, Compute::of(&cell.setting), &device);
        let prompt = [tokenizer.beginning().unwrap() as i32];
        let generated = generator
            .generate((&prompt, 1), 256, &mut TokenSampler::new(0.0, 0), || ())
            .unwrap();
        let ids: Vec<u32> = prompt
            .iter()
            .chain(&generated.tokens)
            .map(|id| *id as u32)
            .collect();
        let text = tokenizer.decode(&ids);
        assert!(story.len() > 500, "{story}");
        assert!(text.starts_with(story), "{text}");
    }
}
