//! The tables, and which goals were met.

use crate::inits::{BASELINE, Init, OURS};
use crate::stats::{Ratio, Samples};

/// What drainit aims at.
#[derive(Clone, Copy, Debug)]
pub enum Goal {
    /// At most this many times what the baseline has.
    Ratio(f64),
    /// At most this.
    Value(f64),
}

/// The goals, with what was measured.
#[derive(Debug, Default)]
pub struct Report {
    goals: Vec<String>,
}

impl Report {
    /// Prints the table of one quantity, of which `part` of the samples are below what is shown. Inits without samples are left out.
    pub fn table(&mut self, title: &str, unit: &str, part: f64, goal: Option<Goal>, rows: &[(&Init, Samples)]) {
        println!("\n{title} [{unit}]");
        println!("  {:<12} {:>11}   ratio to {BASELINE} (95 % interval)", "init", unit);
        let rows: Vec<&(&Init, Samples)> = rows.iter().filter(|(_, samples)| !samples.0.is_empty()).collect();
        let baseline = rows.iter().find(|(init, _)| init.name == BASELINE).expect("the baseline is measured");
        for (init, samples) in &rows {
            let value = samples.quantile(part);
            let ratio = Ratio::of(samples, &baseline.1, part);
            let shown = format!("{:.3} ({:.3} to {:.3})", ratio.value, ratio.low, ratio.high);
            println!("  {:<12} {value:>11.1}   {}", init.name, if ratio.value.is_finite() { &shown } else { "-" });
            if let Some(goal) = goal.filter(|_| init.name == OURS) {
                let (verdict, text) = match goal {
                    Goal::Ratio(limit) if (ratio.low..ratio.high).contains(&limit) => {
                        ("open  ", format!("{shown}, goal at most {limit}"))
                    }
                    Goal::Ratio(limit) => (verdict(ratio.value <= limit), format!("{shown}, goal at most {limit}")),
                    Goal::Value(limit) => (verdict(value <= limit), format!("{value}, goal at most {limit}")),
                };
                self.goals.push(format!("{verdict}  {title}: {text}"));
            }
        }
    }

    /// Prints which goals were met, and which this run leaves open because they lie inside the interval.
    pub fn print_goals(&self) {
        println!("\nGoals of drainit against {BASELINE}");
        for goal in &self.goals {
            println!("  {goal}");
        }
    }
}

fn verdict(is_met: bool) -> &'static str {
    if is_met { "met   " } else { "MISSED" }
}
