//! One number for the heat that goods were exposed to.

const GAS_CONSTANT: f64 = 8.314_462_6;
const ACTIVATION: f64 = 83_144.0;
const ZERO_CELSIUS: f64 = 273.15;

/// Collects temperatures with the time for which each was valid.
#[derive(Debug, Default, Clone)]
pub struct Exposure {
    weighted: f64,
    seconds: f64,
    last: Option<(i64, i32)>,
}

impl Exposure {
    pub fn add(&mut self, taken: i64, milli_c: i32) {
        if let Some((before, value)) = self.last {
            let span = (taken - before) as f64;
            if span > 0.0 {
                self.weighted += span * reaction_speed(value);
                self.seconds += span;
            }
        }
        self.last = Some((taken, milli_c));
    }

    /// The constant temperature that would have had the same effect.
    pub fn mean_kinetic(&self) -> Option<i32> {
        if self.seconds == 0.0 {
            return None;
        }
        let mean = self.weighted / self.seconds;
        let kelvin = -ACTIVATION / GAS_CONSTANT / mean.ln();
        Some(((kelvin - ZERO_CELSIUS) * 1000.0).round() as i32)
    }
}

fn reaction_speed(milli_c: i32) -> f64 {
    let kelvin = f64::from(milli_c) / 1000.0 + ZERO_CELSIUS;
    (-ACTIVATION / (GAS_CONSTANT * kelvin)).exp()
}

/// Days that goods keep at a temperature when they keep `days` at 4 degrees.
pub fn shelf_life_days(days: f64, milli_c: i32) -> f64 {
    days * reaction_speed(4_000) / reaction_speed(milli_c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constant_temperature_is_its_own_mean() {
        let mut exposure = Exposure::default();
        for minute in 0..10 {
            exposure.add(minute * 60, 4_000);
        }
        assert_eq!(exposure.mean_kinetic(), Some(4_000));
    }

    #[test]
    fn warm_hours_weigh_more() {
        let mut exposure = Exposure::default();
        exposure.add(0, 2_000);
        exposure.add(3_600, 10_000);
        exposure.add(7_200, 10_000);
        assert!(exposure.mean_kinetic().unwrap() > 6_000);
    }
}
