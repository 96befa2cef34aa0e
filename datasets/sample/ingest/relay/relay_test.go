package relay

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"larderwatch/ingest/frame"
)

type scripted struct {
	codes []int
	hits  int
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	code := s.codes[min(s.hits, len(s.codes)-1)]
	s.hits++
	w.WriteHeader(code)
}

func forwarderTo(t *testing.T, s *scripted) *Forwarder {
	t.Helper()
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	return &Forwarder{
		Target: srv.URL, Client: srv.Client(), Attempts: 3, Pause: time.Millisecond,
		sleep: func(context.Context, time.Duration) error { return nil },
	}
}

var batch = []frame.Reading{{Probe: "chest-07", Sequence: 3, Taken: 1700000000, MilliC: -19000, Battery: 55}}

func TestTransientStatusIsRetried(t *testing.T) {
	s := &scripted{codes: []int{503, 429, 204}}
	if err := forwarderTo(t, s).Submit(context.Background(), batch); err != nil {
		t.Fatal(err)
	}
	if s.hits != 3 {
		t.Fatalf("hits %d", s.hits)
	}
}

func TestClientErrorIsNotRetried(t *testing.T) {
	s := &scripted{codes: []int{422}}
	err := forwarderTo(t, s).Submit(context.Background(), batch)
	if !errors.Is(err, ErrRejected) || s.hits != 1 {
		t.Fatalf("err %v, hits %d", err, s.hits)
	}
}

func TestOutageGoesToTheSpoolAndComesBack(t *testing.T) {
	s := &scripted{codes: []int{500, 500, 500, 204}}
	f := forwarderTo(t, s)
	spool, err := OpenSpool(t.TempDir(), 4)
	if err != nil {
		t.Fatal(err)
	}
	f.Overflow = spool
	if err := f.Submit(context.Background(), batch); err != nil {
		t.Fatal(err)
	}
	sent, err := f.Replay(context.Background())
	if err != nil || sent != 1 {
		t.Fatalf("sent %d, err %v", sent, err)
	}
}

func TestBackoffStaysUnderTheCeiling(t *testing.T) {
	for attempt := 1; attempt < 12; attempt++ {
		if d := backoff(time.Second, attempt); d > 30*time.Second {
			t.Fatalf("attempt %d waits %v", attempt, d)
		}
	}
}
