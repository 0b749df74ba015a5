//! Attention in one kernel on GPUs.
//!
//! burn's own choice has two products and a softmax in it as well, whose precision nobody controls. Here only kernels that
//! are what they are called compete: on the matrix units, or on the ordinary multipliers where the device has none.

use burn::tensor::ops::AttentionModuleOptions;
use burn_cubecl::{
    CubeRuntime, CubeTuneId,
    kernel::{
        attention::{AttentionStrategy, attention as launch},
        into_contiguous,
    },
    tensor::CubeTensor,
};
use cubecl::tune::{LocalTuner, Tunable, TunableSet, TuneGroup, local_tuner};
use cubek::attention::{
    launch::AttentionAutotuneKey, routines::blackbox_accelerated::BlackboxAcceleratedStrategy,
};

use crate::launched::{Launch, note};

/// What the kernels' registers hold: cubek gives every one of them f16 tiles, whatever the inputs are.
const ARITHMETIC: &str = "f16 × f16 → f32";

/// Queries, keys, values, padding, and whether this is a trial of the tuner, whose output nobody reads.
type Operands<R> = ([CubeTensor<R>; 3], CubeTensor<R>, bool);

pub(super) fn attention<R: CubeRuntime>(
    query: CubeTensor<R>,
    key: CubeTensor<R>,
    value: CubeTensor<R>,
    padding: CubeTensor<R>,
) -> CubeTensor<R> {
    static TUNER: LocalTuner<AttentionAutotuneKey, CubeTuneId> = local_tuner!("attention");
    let (client, id) = (
        query.client.clone(),
        CubeTuneId::new(&query.client, &query.device),
    );
    // The kernels find a head by one stride for batch and head together: in the views that models make of their
    // projections they would read other heads' numbers, and say nothing.
    let inputs = [query, key, value].map(into_contiguous);
    let operands = (inputs, into_contiguous(padding), false);
    TUNER.execute(&id, &client, TUNER.init(candidates::<R>), operands)
}

fn candidates<R: CubeRuntime>() -> TunableSet<AttentionAutotuneKey, Operands<R>, CubeTensor<R>> {
    // A later group is tried only if nothing in an earlier one launches; the first entry must be able to launch all.
    let units = TuneGroup::new("matrix units", |_: &AttentionAutotuneKey| 1);
    let ordinary = TuneGroup::new("ordinary", |_: &AttentionAutotuneKey| 0);
    let trial = |_: &AttentionAutotuneKey, (inputs, padding, _): &Operands<R>| {
        (inputs.clone(), padding.clone(), true)
    };
    let unit = |operands| run::<R>("attention_unit", AttentionStrategy::FlashUnit, operands);
    let set = TunableSet::new(key::<R>, trial).with(Tunable::new("unit", unit).group(&ordinary, |_| 0));
    [2, 4, 8].into_iter().fold(set, |set, num_planes| {
        let name = format!("attention_{num_planes}_planes");
        let kernel = name.clone();
        let accelerated = move |operands| {
            let strategy = BlackboxAcceleratedStrategy {
                num_planes,
                seq_q: 1,
                seq_kv: 1,
            };
            run::<R>(
                &kernel,
                AttentionStrategy::FlashBlackboxAccelerated(strategy),
                operands,
            )
        };
        set.with(Tunable::new(&name, accelerated).group(&units, |_| 0))
    })
}

fn run<R: CubeRuntime>(
    kernel: &str,
    strategy: AttentionStrategy,
    ([query, key, value], padding, trial): Operands<R>,
) -> Result<CubeTensor<R>, String> {
    let options = AttentionModuleOptions::default();
    let mixed = launch(query, key, value, Some(padding), None, options, strategy)
        .map_err(|error| format!("{kernel}: {error:?}"))?;
    if !trial {
        note(Launch {
            kernel: kernel.to_owned().into(),
            arithmetic: ARITHMETIC.into(),
            emulated: false,
        });
    }
    Ok(mixed)
}

fn key<R: CubeRuntime>(([query, _, value], _, _): &Operands<R>) -> AttentionAutotuneKey {
    let ([n, heads, sequence, width], [.., keys, value_width]) =
        (query.meta.shape().dims::<4>(), value.meta.shape().dims::<4>());
    let dtype = || query.dtype.into();
    AttentionAutotuneKey::generate(
        dtype(),
        dtype(),
        dtype(),
        dtype(),
        n * heads,
        sequence,
        width,
        keys,
        value_width,
        true,
    )
}
