import unittest

from larderwatch.flags import Flag, FlagSet
from larderwatch.intake import Intake
from larderwatch.notify import ChannelDown, Dispatcher
from larderwatch.store import ReadingStore
from larderwatch.wire import Alarm, alarm_line


class Recorder:
    def __init__(self, failures=0):
        self.failures = failures
        self.sent = []

    def send(self, role, text):
        if self.failures:
            self.failures -= 1
            raise ChannelDown()
        self.sent.append(role)


def dispatcher(channel, hour=12, **flags):
    switches = FlagSet({name: Flag(value) for name, value in flags.items()})
    return Dispatcher(channel, switches, lambda now: hour, pause=lambda seconds: None)


def alarm(severity="critical", closed=None):
    return Alarm("walk-in-01", severity, 1000, closed, 9000)


class LadderTests(unittest.TestCase):
    def test_nobody_reacts(self):
        channel = Recorder()
        case = dispatcher(channel)
        case.announce(alarm(), 1000)
        for now in (1200, 1300, 1600, 1900):
            case.escalate_overdue(now)
        self.assertEqual(channel.sent, ["cook", "shift-lead", "manager"])

    def test_owner_is_last_when_switched_on(self):
        channel = Recorder()
        case = dispatcher(channel, escalate_to_owner=True)
        case.announce(alarm(), 1000)
        for now in (1300, 1600, 1900):
            case.escalate_overdue(now)
        self.assertEqual(channel.sent[-1], "owner")

    def test_taking_over_stops_the_ladder(self):
        channel = Recorder()
        case = dispatcher(channel)
        case.announce(alarm(), 1000)
        self.assertTrue(case.acknowledge(("walk-in-01", 1000), "k"))
        self.assertEqual(case.escalate_overdue(9000), 0)


class NightTests(unittest.TestCase):
    def test_notice_waits_for_the_morning(self):
        channel = Recorder()
        case = dispatcher(channel, hour=23, quiet_hours=True)
        case.announce(alarm("notice"), 1000)
        self.assertEqual(channel.sent, [])
        case._local_hour = lambda now: 7
        self.assertEqual(case.release_held(2000), 1)
        self.assertEqual(channel.sent, ["cook"])

    def test_critical_wakes_people(self):
        channel = Recorder()
        dispatcher(channel, hour=23, quiet_hours=True).announce(alarm(), 1000)
        self.assertEqual(channel.sent, ["cook"])


class DeliveryTests(unittest.TestCase):
    def test_two_failures_are_survived(self):
        channel = Recorder(failures=2)
        dispatcher(channel).announce(alarm(), 1000)
        self.assertEqual(channel.sent, ["cook"])

    def test_third_failure_is_raised(self):
        with self.assertRaises(ChannelDown):
            dispatcher(Recorder(failures=3)).announce(alarm(), 1000)

    def test_intake_stores_and_announces(self):
        channel = Recorder()
        intake = Intake(ReadingStore(), dispatcher(channel), clock=lambda: 1000.0)
        self.assertEqual(intake.take_alarm(alarm_line(alarm())), 1)
        self.assertEqual(intake.feed_page(0)["cursor"], 1)
        self.assertEqual(channel.sent, ["cook"])


if __name__ == "__main__":
    unittest.main()
