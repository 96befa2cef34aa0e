package gate

import (
	"sync"
	"time"
)

type bucket struct {
	tokens float64
	last   time.Time
}

// Throttle is a token bucket for each probe.
type Throttle struct {
	mu       sync.Mutex
	rate     float64
	burst    float64
	buckets  map[string]*bucket
	now      func() time.Time
	rejected map[string]int
}

// NewThrottle allows perMinute readings of each probe, and burst at once.
func NewThrottle(perMinute, burst int) *Throttle {
	return &Throttle{
		rate:     float64(perMinute) / 60,
		burst:    float64(burst),
		buckets:  make(map[string]*bucket),
		now:      time.Now,
		rejected: make(map[string]int),
	}
}

// Allow takes a token; false means that the probe is too talkative.
func (t *Throttle) Allow(probe string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.refill(probe)
	if b.tokens < 1 {
		t.rejected[probe]++
		return false
	}
	b.tokens--
	return true
}

func (t *Throttle) refill(probe string) *bucket {
	now := t.now()
	b, ok := t.buckets[probe]
	if !ok {
		b = &bucket{tokens: t.burst, last: now}
		t.buckets[probe] = b
		return b
	}
	b.tokens += now.Sub(b.last).Seconds() * t.rate
	if b.tokens > t.burst {
		b.tokens = t.burst
	}
	b.last = now
	return b
}

// Talkative lists probes that lost at least min readings.
func (t *Throttle) Talkative(min int) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var names []string
	for name, count := range t.rejected {
		if count >= min {
			names = append(names, name)
		}
	}
	return names
}

// ForgetIdle removes buckets that were not used for the given time.
func (t *Throttle) ForgetIdle(idle time.Duration) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	limit := t.now().Add(-idle)
	removed := 0
	for name, b := range t.buckets {
		if b.last.Before(limit) {
			delete(t.buckets, name)
			delete(t.rejected, name)
			removed++
		}
	}
	return removed
}
