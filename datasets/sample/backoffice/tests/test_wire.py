import unittest

from larderwatch.store import DAY, ReadingStore
from larderwatch.wire import (
    Alarm,
    Reading,
    WireError,
    alarm_line,
    parse_alarm,
    parse_reading,
    seal_line,
)


class ReadingLines(unittest.TestCase):
    def test_sealed_reading(self):
        line = seal_line("LW2;walk-in-01;41;1700000000;4250;87;")
        self.assertEqual(parse_reading(line), Reading("walk-in-01", 41, 1700000000, 4250, 87))

    def test_wrong_trailer(self):
        with self.assertRaises(WireError) as caught:
            parse_reading("LW2;walk-in-01;41;1700000000;4250;87;0000")
        self.assertEqual(caught.exception.field, "trailer")

    def test_sequence_out_of_range(self):
        with self.assertRaises(WireError) as caught:
            parse_reading(seal_line("LW2;walk-in-01;65536;1700000000;4250;87;"))
        self.assertEqual(caught.exception.field, "sequence")


class AlarmLines(unittest.TestCase):
    def test_open_alarm_survives_the_round_trip(self):
        alarm = Alarm("chest-07", "critical", 1700000000, None, -9000)
        self.assertEqual(parse_alarm(alarm_line(alarm)), alarm)

    def test_unknown_severity(self):
        with self.assertRaises(WireError):
            parse_alarm(seal_line("AL1;chest-07;mild;1;-;0;"))


class Storage(unittest.TestCase):
    def setUp(self):
        self.store = ReadingStore()

    def fill(self, probe, *times):
        return self.store.append_readings(Reading(probe, 1, t, 4000, 90) for t in times)

    def test_same_reading_is_stored_once(self):
        self.assertEqual(self.fill("walk-in-01", 60, 120), 2)
        self.assertEqual(self.fill("walk-in-01", 120, 180), 1)

    def test_sweep_thins_and_drops(self):
        now = 100 * DAY
        old, middle, fresh = 10 * DAY, 60 * DAY, 99 * DAY
        self.fill("walk-in-01", old, middle, middle + 60, middle + 3600, fresh, fresh + 60)
        removed = self.store.sweep(self.store.plan_retention(now, 30, 80))
        kept = [r.taken for r in self.store.window("walk-in-01", 0, now)]
        self.assertEqual(removed, 2)
        self.assertEqual(kept, [middle, middle + 3600, fresh, fresh + 60])

    def test_sweep_spares_probes_with_an_open_alarm(self):
        self.fill("chest-07", 1)
        self.store.record_alarm(Alarm("chest-07", "warning", 1, None, 0))
        self.assertEqual(self.store.sweep(self.store.plan_retention(500 * DAY, 1, 2)), 0)


if __name__ == "__main__":
    unittest.main()
