import unittest

from larderwatch.calibration import Calibrator, CertificateExpired
from larderwatch.flags import Flag, FlagSet
from larderwatch.report import build_daily_sheet, load_bands, render_csv, render_text
from larderwatch.store import ReadingStore
from larderwatch.wire import Reading

PROFILES = """
# shared with the rules library
[fridge]
low = 0
high = 5000
grace = 1200
[assign]
walk-in-01 = fridge
"""

CERTIFICATES = """probe,issued,low_at,low_error,high_at,high_error
walk-in-01,0,0,100,10000,600
"""


def sheet(values, flags=None, step=300):
    store = ReadingStore()
    store.append_readings(
        Reading("walk-in-01", i, i * step, value, 90) for i, value in enumerate(values)
    )
    return build_daily_sheet(
        store,
        load_bands(PROFILES),
        0,
        FlagSet(flags or {}),
        Calibrator.from_csv(CERTIFICATES),
    )


class SheetTests(unittest.TestCase):
    def test_minutes_outside(self):
        (row,) = sheet([4000, 6000, 6000, 4000])
        self.assertEqual((row.minutes_outside, row.verdict), (10, "fail"))

    def test_gap_makes_the_day_incomplete(self):
        (row,) = sheet([4000, 4000], step=3600)
        self.assertEqual((row.gaps, row.verdict), (((0, 3600),), "incomplete"))

    def test_correction_can_turn_a_failure_into_a_pass(self):
        values = [5200, 5200, 5200]
        self.assertEqual(sheet(values)[0].verdict, "fail")
        self.assertEqual(sheet(values, {"calibrated_reports": Flag(True)})[0].verdict, "pass")

    def test_both_renderings(self):
        rows = sheet([4000, 4500])
        self.assertIn("walk-in-01,4.0,4.5,0,pass", render_csv(rows))
        self.assertIn("pass", render_text(rows))


class CertificateTests(unittest.TestCase):
    def test_error_is_interpolated(self):
        self.assertEqual(Calibrator.from_csv(CERTIFICATES).corrected("walk-in-01", 1, 5000), 4650)

    def test_strict_calibrator_refuses_old_paper(self):
        late = 2 * 365 * 86_400
        with self.assertRaises(CertificateExpired):
            Calibrator.from_csv(CERTIFICATES, strict=True).corrected("walk-in-01", late, 5000)
        self.assertEqual(Calibrator.from_csv(CERTIFICATES).corrected("walk-in-01", late, 5000), 5000)


class RolloutTests(unittest.TestCase):
    def test_share_is_roughly_met(self):
        flags = FlagSet({"calibrated_reports": Flag(True, 50)})
        on = sum(flags.is_enabled("calibrated_reports", f"probe-{i}") for i in range(400))
        self.assertTrue(140 < on < 260)

    def test_unknown_switch_is_off(self):
        self.assertFalse(FlagSet({}).is_enabled("missing"))


if __name__ == "__main__":
    unittest.main()
