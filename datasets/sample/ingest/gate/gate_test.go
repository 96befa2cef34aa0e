package gate

import (
	"testing"
	"time"
)

func TestRepeatIsDroppedOnce(t *testing.T) {
	w := NewWindow()
	if w.Seen("walk-in-01", 7) {
		t.Fatal("first sight reported as repeat")
	}
	if !w.Seen("walk-in-01", 7) {
		t.Fatal("repeat not noticed")
	}
	if w.Seen("chest-07", 7) {
		t.Fatal("probes share a history")
	}
	if w.Dropped() != 1 {
		t.Fatalf("dropped %d", w.Dropped())
	}
}

func TestLateArrivalInsideTheBitmapPasses(t *testing.T) {
	w := NewWindow()
	for _, seq := range []uint16{10, 12, 13} {
		w.Seen("walk-in-01", seq)
	}
	if w.Seen("walk-in-01", 11) {
		t.Fatal("late reading dropped")
	}
	if !w.Seen("walk-in-01", 12) {
		t.Fatal("repeat passed")
	}
}

func TestCounterWrapsAround(t *testing.T) {
	w := NewWindow()
	w.Seen("pass-03", 65535)
	if w.Seen("pass-03", 0) {
		t.Fatal("wrapped counter taken for a repeat")
	}
	if !w.Seen("pass-03", 65535) {
		t.Fatal("number before the wrap forgotten")
	}
}

func TestBucketRefillsWithTime(t *testing.T) {
	clock := time.Unix(1700000000, 0)
	th := NewThrottle(60, 2)
	th.now = func() time.Time { return clock }
	for i := 0; i < 2; i++ {
		if !th.Allow("pass-03") {
			t.Fatal("burst refused")
		}
	}
	if th.Allow("pass-03") {
		t.Fatal("third reading in the same second let through")
	}
	clock = clock.Add(time.Second)
	if !th.Allow("pass-03") {
		t.Fatal("no token after a second")
	}
	if names := th.Talkative(1); len(names) != 1 || names[0] != "pass-03" {
		t.Fatalf("talkative %v", names)
	}
}
