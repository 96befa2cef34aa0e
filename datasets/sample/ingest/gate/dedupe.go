// Package gate decides which readings are let through.
package gate

import "sync"

// history remembers the last sequence numbers of one probe as a bitmap that
// slides along with the newest number.
type history struct {
	newest uint16
	bits   uint64
	primed bool
}

// Window drops readings that a gateway has sent before.
type Window struct {
	mu      sync.Mutex
	probes  map[string]*history
	dropped uint64
}

// NewWindow returns an empty Window.
func NewWindow() *Window {
	return &Window{probes: make(map[string]*history)}
}

// Seen records the sequence number and tells whether it was known already.
func (w *Window) Seen(probe string, seq uint16) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.probes[probe]
	if h == nil {
		h = &history{}
		w.probes[probe] = h
	}
	if h.noteSequence(seq) {
		return false
	}
	w.dropped++
	return true
}

// Dropped counts the repeated readings so far.
func (w *Window) Dropped() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dropped
}

func (h *history) noteSequence(seq uint16) bool {
	if !h.primed {
		h.newest, h.bits, h.primed = seq, 1, true
		return true
	}
	ahead := int16(seq - h.newest)
	if ahead > 0 {
		if ahead >= 64 {
			h.bits = 0
		} else {
			h.bits <<= uint(ahead)
		}
		h.bits |= 1
		h.newest = seq
		return true
	}
	behind := uint(-int32(ahead))
	if behind >= 64 {
		// Too far back for the bitmap to know.
		h.newest, h.bits = seq, 1
		return true
	}
	mask := uint64(1) << behind
	if h.bits&mask != 0 {
		return false
	}
	h.bits |= mask
	return true
}
