//! The arithmetic of the platform's budget: how delay, grace and margin share the stop timeout.
//!
//! All times count from T0, the moment of the first stop signal. What does not fit is cut in this order of right: the margin is served first,
//! then the grace, then the delay.

use std::fmt;
use std::time::Duration;

use crate::duration::Seconds;

/// The margin that applies when none is set; never more than a tenth of the stop timeout.
const DEFAULT_MARGIN: Duration = Duration::from_secs(1);

/// The four settings as the user gave them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Wishes {
    /// How long the command serves on after the stop signal.
    pub delay: Duration,
    /// How long the command has after the graceful signal.
    pub grace: Option<Duration>,
    /// The platform's time from its stop signal to its SIGKILL.
    pub stop_timeout: Option<Duration>,
    /// How long before the end of the stop timeout everything is over.
    pub margin: Option<Duration>,
}

/// The time line that the wishes give, in times from T0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// The delay that was asked for.
    pub delay: Duration,
    /// How long the command has after the graceful signal, if it goes out when planned; `None`: for ever.
    pub grace: Option<Duration>,
    /// Whether the grace was set; otherwise it is whatever the budget leaves.
    grace_is_set: bool,
    /// The platform's budget.
    pub stop_timeout: Option<Duration>,
    /// The margin that applies; `None` without a stop timeout.
    pub margin: Option<Duration>,
    /// When the graceful signal goes out, unless a second stop signal asks for it sooner.
    pub forward_in: Duration,
    /// When drainit's SIGKILL comes, if the graceful signal goes out when planned; `None`: never.
    pub kill_in: Option<Duration>,
}

impl Budget {
    /// Fits the wishes into the stop timeout.
    pub fn new(wishes: Wishes) -> Budget {
        let Some(stop_timeout) = wishes.stop_timeout else {
            return Budget {
                delay: wishes.delay,
                grace: wishes.grace,
                grace_is_set: wishes.grace.is_some(),
                stop_timeout: None,
                margin: None,
                forward_in: wishes.delay,
                kill_in: wishes.grace.map(|grace| wishes.delay.saturating_add(grace)),
            };
        };
        let tenth = stop_timeout / 10;
        let margin = wishes.margin.unwrap_or(DEFAULT_MARGIN.min(tenth)).min(stop_timeout);
        let kill_by = stop_timeout.saturating_sub(margin);
        let forward_in = wishes.delay.min(kill_by.saturating_sub(wishes.grace.unwrap_or(tenth)));
        let rest = kill_by.saturating_sub(forward_in);
        let grace = wishes.grace.unwrap_or(rest).min(rest);
        Budget {
            delay: wishes.delay,
            grace: Some(grace),
            grace_is_set: wishes.grace.is_some(),
            stop_timeout: Some(stop_timeout),
            margin: Some(margin),
            forward_in,
            kill_in: Some(forward_in.saturating_add(grace)),
        }
    }

    /// When SIGKILL comes, if the graceful signal goes out at `forwarded_in`; `None`: never.
    ///
    /// A grace that was set counts from the graceful signal. Without one the command has the rest of the budget, and a second stop signal that
    /// ends the delay early must not take that away from it.
    pub fn kill_in_after(&self, forwarded_in: Duration) -> Option<Duration> {
        let kill_by = self.kill_by();
        if !self.grace_is_set {
            return kill_by;
        }
        let kill_in = self.grace.map(|grace| forwarded_in.saturating_add(grace));
        kill_in.map(|at| kill_by.map_or(at, |by| at.min(by)))
    }

    /// When everything has to be over; `None` without a stop timeout.
    pub fn kill_by(&self) -> Option<Duration> {
        self.stop_timeout.map(|total| total.saturating_sub(self.margin.unwrap_or_default()))
    }

    /// Whether the budget cuts the delay.
    pub fn cuts_delay(&self) -> bool {
        self.forward_in < self.delay
    }

    /// What does not fit, with its arithmetic, if anything does not.
    pub fn misfit(&self, wishes: Wishes) -> Option<Misfit> {
        let (stop_timeout, margin) = (self.stop_timeout?, wishes.margin.or(self.margin)?);
        let grace = wishes.grace.unwrap_or(stop_timeout / 10);
        let sum = [wishes.delay, grace, margin].into_iter().fold(Duration::ZERO, Duration::saturating_add);
        (sum > stop_timeout).then_some(Misfit {
            wishes: Wishes { grace: Some(grace), margin: Some(margin), ..wishes },
            grace_is_set: self.grace_is_set,
            budget: *self,
        })
    }
}

/// Settings that do not fit into the stop timeout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Misfit {
    wishes: Wishes,
    grace_is_set: bool,
    budget: Budget,
}

/// `delay 30s + grace 20s + margin 1s = 51s do not fit into the stop timeout of 45s: the delay is cut to 24s`
impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wishes { delay, grace, stop_timeout, margin } = self.wishes;
        let (grace, stop_timeout, margin) =
            (grace.unwrap_or_default(), stop_timeout.unwrap_or_default(), margin.unwrap_or_default());
        let sum = delay.saturating_add(grace).saturating_add(margin);
        write!(
            f,
            "delay {} + grace {}{} + margin {} = {} do not fit into the stop timeout of {}",
            Seconds(delay),
            Seconds(grace),
            if self.grace_is_set { "" } else { " (at least a tenth of the budget)" },
            Seconds(margin),
            Seconds(sum),
            Seconds(stop_timeout)
        )?;
        let mut separator = ": ";
        for (name, wish, left) in [
            ("delay", delay, self.budget.forward_in),
            ("grace", grace, self.budget.grace.unwrap_or(grace)),
            ("margin", margin, self.budget.margin.unwrap_or(margin)),
        ] {
            if left < wish {
                write!(f, "{separator}the {name} is cut to {}", Seconds(left))?;
                separator = ", ";
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn wishes(delay: u64, grace: Option<u64>, stop_timeout: Option<u64>, margin: Option<u64>) -> Wishes {
        Wishes { delay: s(delay), grace: grace.map(s), stop_timeout: stop_timeout.map(s), margin: margin.map(s) }
    }

    fn warning(wishes: Wishes) -> Option<String> {
        Budget::new(wishes).misfit(wishes).map(|misfit| misfit.to_string())
    }

    #[test]
    fn the_articles_45_seconds_fit() {
        let budget = Budget::new(wishes(15, None, Some(45), None));
        assert_eq!((budget.forward_in, budget.kill_in, budget.grace), (s(15), Some(s(44)), Some(s(29))));
        assert_eq!(warning(wishes(15, None, Some(45), None)), None);
    }

    #[test]
    fn without_a_stop_timeout_nothing_is_cut() {
        let budget = Budget::new(wishes(100, None, None, None));
        assert_eq!((budget.forward_in, budget.kill_in, budget.kill_by()), (s(100), None, None));
        assert_eq!(Budget::new(wishes(100, Some(5), None, None)).kill_in, Some(s(105)));
    }

    #[test]
    fn default_margin_is_a_second_and_at_most_a_tenth_of_the_budget() {
        let margin = |stop_timeout: Duration| {
            Budget::new(Wishes { stop_timeout: Some(stop_timeout), ..Wishes::default() }).margin
        };
        assert_eq!(margin(s(120)), Some(s(1)));
        assert_eq!(margin(s(10)), Some(s(1)));
        assert_eq!(margin(s(2)), Some(Duration::from_millis(200)));
    }

    #[test]
    fn default_grace_is_the_rest_and_at_least_a_tenth_of_the_budget() {
        assert_eq!(Budget::new(wishes(10, None, Some(30), None)).grace, Some(s(19)));
        let tight = Budget::new(wishes(30, None, Some(30), None));
        assert_eq!((tight.grace, tight.forward_in, tight.kill_in), (Some(s(3)), s(26), Some(s(29))));
    }

    #[test]
    fn margin_then_grace_then_delay_are_served() {
        let budget = Budget::new(wishes(30, Some(20), Some(45), Some(1)));
        assert_eq!((budget.forward_in, budget.kill_in, budget.margin), (s(24), Some(s(44)), Some(s(1))));
        let budget = Budget::new(wishes(30, Some(60), Some(45), Some(5)));
        assert_eq!((budget.forward_in, budget.grace, budget.kill_in), (s(0), Some(s(40)), Some(s(40))));
        let budget = Budget::new(wishes(30, Some(60), Some(45), Some(50)));
        assert_eq!((budget.forward_in, budget.kill_in, budget.margin), (s(0), Some(s(0)), Some(s(45))));
    }

    #[test]
    fn the_warning_shows_the_arithmetic_and_what_is_cut() {
        assert_eq!(
            warning(wishes(30, Some(20), Some(45), Some(1))).as_deref(),
            Some(
                "delay 30s + grace 20s + margin 1s = 51s do not fit into the stop timeout of 45s: the delay is cut to 24s"
            )
        );
        assert_eq!(
            warning(wishes(30, None, Some(30), None)).as_deref(),
            Some(
                "delay 30s + grace 3s (at least a tenth of the budget) + margin 1s = 34s do not fit into the stop timeout \
                 of 30s: the delay is cut to 26s"
            )
        );
        assert_eq!(
            warning(wishes(0, Some(60), Some(45), Some(1))).as_deref(),
            Some(
                "delay 0s + grace 60s + margin 1s = 61s do not fit into the stop timeout of 45s: the grace is cut to 44s"
            )
        );
        let all = warning(wishes(10, Some(60), Some(45), Some(50))).expect("a warning");
        assert!(all.ends_with("the delay is cut to 0s, the grace is cut to 0s, the margin is cut to 45s"), "{all}");
    }

    #[test]
    fn an_early_graceful_signal_leaves_the_command_the_rest_of_the_budget() {
        assert_eq!(Budget::new(wishes(15, None, Some(45), None)).kill_in_after(s(2)), Some(s(44)));
        assert_eq!(Budget::new(wishes(15, Some(10), Some(45), None)).kill_in_after(s(2)), Some(s(12)));
        assert_eq!(Budget::new(wishes(15, Some(10), None, None)).kill_in_after(s(2)), Some(s(12)));
        assert_eq!(Budget::new(wishes(15, None, None, None)).kill_in_after(s(2)), None);
    }

    prop_compose! {
        pub(crate) fn any_wishes()(
            delay in 0u64..200_000, grace in proptest::option::of(0u64..200_000),
            stop_timeout in proptest::option::of(1u64..200_000), margin in proptest::option::of(0u64..200_000),
        ) -> Wishes {
            let ms = Duration::from_millis;
            Wishes { delay: ms(delay), grace: grace.map(ms), stop_timeout: stop_timeout.map(ms), margin: margin.map(ms) }
        }
    }

    proptest! {
        #[test]
        fn the_plan_keeps_the_contracts_formulas(wishes in any_wishes()) {
            let budget = Budget::new(wishes);
            prop_assert!(budget.forward_in <= wishes.delay);
            prop_assert_eq!(budget.kill_in_after(budget.forward_in), budget.kill_in);
            if let Some(kill_by) = budget.kill_by() {
                let grace = wishes.grace.unwrap_or(wishes.stop_timeout.unwrap() / 10);
                prop_assert!(budget.forward_in <= kill_by.saturating_sub(grace));
                prop_assert!(budget.kill_in.unwrap() <= kill_by);
                prop_assert!(budget.forward_in == wishes.delay || budget.forward_in == kill_by.saturating_sub(grace));
            }
            let cut = budget.cuts_delay() || wishes.grace > budget.grace || wishes.margin > budget.margin;
            prop_assert_eq!(budget.misfit(wishes).is_some(), cut && wishes.stop_timeout.is_some());
        }
    }
}
