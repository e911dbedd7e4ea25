//! Medians, and how sure one can be of their ratios.

/// How often the samples are drawn again.
const RESAMPLES: usize = 400;

/// Samples of one quantity of one init.
#[derive(Clone, Debug, Default)]
pub struct Samples(pub Vec<f64>);

impl Samples {
    /// The value below which the given part of the samples lies.
    pub fn quantile(&self, part: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "an index"
        )]
        let index = ((sorted.len() - 1) as f64 * part).round() as usize;
        sorted[index]
    }

    /// Drawn again from themselves, with replacement.
    fn resampled(&self) -> Samples {
        Samples((0..self.0.len()).map(|_| self.0[fastrand::usize(..self.0.len())]).collect())
    }
}

/// A ratio, and the interval in which it lies with 95 % confidence (bootstrap).
#[derive(Clone, Copy, Debug)]
pub struct Ratio {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

impl Ratio {
    /// The ratio of the quantiles of two sets of samples.
    pub fn of(ours: &Samples, theirs: &Samples, part: f64) -> Ratio {
        let ratio = |ours: &Samples, theirs: &Samples| ours.quantile(part) / theirs.quantile(part);
        let drawn = Samples((0..RESAMPLES).map(|_| ratio(&ours.resampled(), &theirs.resampled())).collect());
        Ratio { value: ratio(ours, theirs), low: drawn.quantile(0.025), high: drawn.quantile(0.975) }
    }
}
