//! Order in which an asynchronous parameter server sends parameters and applies gradients, so that no gradient is too stale.

/// Decides which worker may read the parameters, and which gradient may be applied.
///
/// The *staleness* of a gradient is the number of optimizer steps between reading its parameters and applying it. With a bound of s, at most
/// s + 1 workers have parameters whose gradients are not applied yet. A gradient that arrives early waits if applying it would make another
/// one too stale. The gradient with the oldest parameters never waits, so the workers cannot block each other.
#[derive(Debug)]
pub(super) struct Schedule {
    /// Maximum staleness.
    bound: u64,
    /// Number of applied gradients.
    steps: u64,
    /// Workers with parameters whose gradient is not applied yet, with the step at which they read them, from the oldest to the newest.
    readers: Vec<(usize, u64)>,
}

impl Schedule {
    pub(super) fn new(bound: u32) -> Self {
        Self {
            bound: bound.into(),
            steps: 0,
            readers: vec![],
        }
    }

    /// Returns true if another worker may read the parameters: its gradient may become the last of all.
    pub(super) fn may_read(&self) -> bool {
        self.readers.len() as u64 <= self.bound
    }

    /// Records that a worker read the parameters.
    pub(super) fn read(&mut self, worker: usize) {
        self.readers.push((worker, self.steps));
    }

    /// Returns true if the gradient of a worker may be applied now: the others can then be applied in time, from the oldest to the newest.
    pub(super) fn may_apply(&self, worker: usize) -> bool {
        let others = self.readers.iter().filter(|(other, _)| *other != worker);
        let mut steps = self.steps + 1..;
        others
            .zip(&mut steps)
            .all(|((_, read), step)| step - read <= self.bound)
    }

    /// Records that the gradient of a worker is applied, and returns its staleness.
    pub(super) fn apply(&mut self, worker: usize) -> u64 {
        let index = self.readers.iter().position(|(reader, _)| *reader == worker);
        let (_, read) = self
            .readers
            .remove(index.expect("the worker read the parameters"));
        let staleness = self.steps - read;
        self.steps += 1;
        staleness
    }

    /// Returns true if all gradients are applied.
    pub(super) fn is_idle(&self) -> bool {
        self.readers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_staleness_one_worker_trains_at_a_time() {
        let mut schedule = Schedule::new(0);
        for worker in [3, 1, 2] {
            assert!(schedule.may_read() && schedule.is_idle());
            schedule.read(worker);
            assert!(!schedule.may_read() && schedule.may_apply(worker));
            assert_eq!(schedule.apply(worker), 0);
        }
    }

    #[test]
    fn a_fast_worker_waits_for_a_slow_one() {
        let mut schedule = Schedule::new(2);
        schedule.read(1);
        schedule.read(2);
        for staleness in [0, 0] {
            assert!(schedule.may_apply(2));
            assert_eq!(schedule.apply(2), staleness);
            schedule.read(2);
        }
        // Worker 1 read at step 0, and two steps were made since.
        assert!(!schedule.may_apply(2));
        assert!(schedule.may_apply(1));
        assert_eq!(schedule.apply(1), 2);
        assert!(schedule.may_apply(2));
        assert_eq!(schedule.apply(2), 1);
    }

    /// Trains with workers whose gradients arrive in a pseudo-random order. Returns the staleness of each gradient.
    fn random_order(workers: usize, bound: u32, mut random: u64) -> Vec<u64> {
        let mut schedule = Schedule::new(bound);
        let mut idle: Vec<usize> = (0..workers).collect();
        let (mut computing, mut arrived, mut applied) = (vec![], vec![], vec![]);
        let mut tasks = 200;
        loop {
            while tasks > 0 && schedule.may_read() {
                let Some(worker) = idle.pop() else { break };
                schedule.read(worker);
                computing.push(worker);
                tasks -= 1;
            }
            if let Some(index) = arrived.iter().position(|worker| schedule.may_apply(*worker)) {
                let worker = arrived.remove(index);
                applied.push(schedule.apply(worker));
                idle.push(worker);
            } else if schedule.is_idle() {
                return applied;
            } else {
                assert!(!computing.is_empty(), "all workers wait: {schedule:?}");
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                // The first worker is slow.
                let index = (random >> 33) as usize % (10 * computing.len());
                arrived.push(computing.remove(index.min(computing.len() - 1)));
            }
        }
    }

    #[test]
    fn no_gradient_is_staler_than_the_bound() {
        for workers in 1..=8 {
            for bound in [0, 1, 2, 3, 7, 8, 20] {
                let staleness = random_order(workers, bound, workers as u64);
                assert_eq!(staleness.len(), 200, "{workers} workers, bound {bound}");
                let most = *staleness.iter().max().unwrap();
                assert!(
                    most <= u64::from(bound),
                    "{workers} workers, bound {bound}: {most}"
                );
                // The bound is reached, because one worker is slow.
                assert!(
                    workers == 1 || bound > 8 || most == u64::from(bound),
                    "{workers}, {bound}: {most}"
                );
            }
        }
    }
}
