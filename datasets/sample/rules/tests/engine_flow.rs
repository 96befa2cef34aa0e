use larder_rules::alarm::{Alarm, Severity};
use larder_rules::engine::Engine;
use larder_rules::frame::{seal, Reading};
use larder_rules::threshold::ProfileBook;
use larder_rules::{evaluate_text, RuleError};

const PROFILES: &str = "\
[plain]
low = 0
high = 5000
grace = 600
[calm]
low = 0
high = 5000
grace = 600
smoothing = 3
[assign]
shelf-01 = plain
shelf-02 = calm
";

fn at(probe: &str, minute: i64, milli_c: i32) -> Reading {
    Reading { probe: probe.to_owned(), sequence: minute as u16, taken: minute * 60, milli_c, battery: 80 }
}

fn drive(probe: &str, values: &[i32]) -> Vec<Alarm> {
    let mut engine = Engine::new(ProfileBook::from_text(PROFILES).unwrap());
    values
        .iter()
        .enumerate()
        .flat_map(|(i, &v)| engine.apply_reading(&at(probe, i as i64 * 5, v)).unwrap())
        .collect()
}

#[test]
fn short_drift_is_forgiven() {
    assert!(drive("shelf-01", &[4000, 6000, 6000, 4000, 4000]).is_empty());
}

#[test]
fn long_drift_is_raised_and_closed() {
    let alarms = drive("shelf-01", &[4000, 6000, 6100, 6200, 4000, 4000]);
    assert_eq!(alarms.len(), 2);
    assert_eq!(alarms[0].severity, Severity::Notice);
    assert_eq!(alarms[1].closed, Some(20 * 60));
    assert_eq!(alarms[1].peak_milli_c, 6200);
}

#[test]
fn getting_worse_is_said_again() {
    let severities: Vec<Severity> =
        drive("shelf-01", &[6000, 6000, 6000, 8000, 12_000]).iter().map(|a| a.severity).collect();
    assert_eq!(severities, [Severity::Notice, Severity::Warning, Severity::Critical]);
}

#[test]
fn open_door_does_not_restart_the_grace_of_a_calm_profile() {
    assert_eq!(drive("shelf-02", &[6000, 6000, 3000, 6000, 6000]).len(), 1);
    assert!(drive("shelf-01", &[6000, 6000, 3000, 6000, 6000]).is_empty());
}

#[test]
fn alarm_line_is_read_back() {
    let alarm = Alarm {
        probe: "shelf-01".to_owned(),
        severity: Severity::Warning,
        opened: 1_700_000_000,
        closed: None,
        peak_milli_c: 9_100,
    };
    assert_eq!(Alarm::from_line(&alarm.to_line()), Ok(alarm));
}

#[test]
fn strangers_are_reported_and_do_not_stop_the_rest() {
    let lines = [seal("LW2;cellar-9;1;60;4000;80;"), seal("LW2;shelf-01;1;60;4000;80;")].join("\n");
    let (raised, faults) = evaluate_text(PROFILES, &lines).unwrap();
    assert!(raised.is_empty());
    assert_eq!(faults, [RuleError::Unassigned("cellar-9".to_owned())]);
}

#[test]
fn overview_puts_alarmed_probes_first() {
    let mut engine = Engine::new(ProfileBook::from_text(PROFILES).unwrap());
    for minute in [0, 5, 10, 15] {
        engine.apply_reading(&at("shelf-01", minute, 4000)).unwrap();
        engine.apply_reading(&at("shelf-02", minute, 9000)).unwrap();
    }
    let rows = engine.overview();
    assert_eq!(rows[0].probe, "shelf-02");
    assert!(rows[0].alarmed && !rows[1].alarmed && !rows[0].battery_low);
    assert_eq!(rows[1].mean_kinetic, Some(4000));
}
