// Package relay hands accepted readings to the back office.
package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand"
	"net/http"
	"strings"
	"time"

	"larderwatch/ingest/frame"
)

// ErrRejected means that trying again is useless.
var ErrRejected = errors.New("relay: batch rejected")

// StatusError is an answer other than 2xx.
type StatusError struct {
	Code int
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("relay: status %d", e.Code)
}

func (e *StatusError) transient() bool {
	return e.Code == http.StatusTooManyRequests || e.Code >= 500
}

// Forwarder sends batches, one at a time.
type Forwarder struct {
	Target   string
	Client   *http.Client
	Attempts int
	Pause    time.Duration
	Overflow *Spool
	sleep    func(context.Context, time.Duration) error
}

// Submit delivers the readings or puts them aside for later.
func (f *Forwarder) Submit(ctx context.Context, readings []frame.Reading) error {
	var b strings.Builder
	for _, r := range readings {
		b.WriteString(frame.EncodeReading(r))
		b.WriteByte('\n')
	}
	payload := b.String()
	err := f.deliver(ctx, payload)
	if err == nil || errors.Is(err, ErrRejected) {
		return err
	}
	if f.Overflow != nil {
		return f.Overflow.Append(payload)
	}
	return err
}

// Replay delivers what was put aside.
func (f *Forwarder) Replay(ctx context.Context) (int, error) {
	if f.Overflow == nil {
		return 0, nil
	}
	return f.Overflow.Drain(func(payload string) error {
		return f.deliver(ctx, payload)
	})
}

func (f *Forwarder) deliver(ctx context.Context, payload string) error {
	var last error
	for attempt := 0; attempt < f.Attempts; attempt++ {
		if attempt > 0 {
			if err := f.wait(ctx, backoff(f.Pause, attempt)); err != nil {
				return err
			}
		}
		last = f.postOnce(ctx, payload)
		var status *StatusError
		if last == nil {
			return nil
		}
		if errors.As(last, &status) && !status.transient() {
			return fmt.Errorf("%w: %v", ErrRejected, status)
		}
	}
	return last
}

func (f *Forwarder) postOnce(ctx context.Context, payload string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.Target, bytes.NewReader([]byte(payload)))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "text/plain; charset=us-ascii")
	resp, err := f.Client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return &StatusError{resp.StatusCode}
	}
	return nil
}

func (f *Forwarder) wait(ctx context.Context, d time.Duration) error {
	if f.sleep != nil {
		return f.sleep(ctx, d)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func backoff(base time.Duration, attempt int) time.Duration {
	d := base << uint(attempt-1)
	if d > 30*time.Second {
		d = 30 * time.Second
	}
	return d/2 + time.Duration(rand.Int63n(int64(d/2)+1))
}
