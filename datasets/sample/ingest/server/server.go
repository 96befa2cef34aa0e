// Package server is the HTTP face of ingestd.
package server

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync/atomic"

	"larderwatch/ingest/frame"
	"larderwatch/ingest/gate"
	"larderwatch/ingest/relay"
)

const maxBody = 256 << 10

// Sink takes the readings that passed the gate.
type Sink interface {
	Submit(ctx context.Context, readings []frame.Reading) error
}

// Server accepts batches from gateways.
type Server struct {
	Window       *gate.Window
	Throttle     *gate.Throttle
	Sink         Sink
	AcceptLegacy bool
	accepted     atomic.Uint64
	malformed    atomic.Uint64
}

type verdict struct {
	Accepted int      `json:"accepted"`
	Repeated int      `json:"repeated"`
	Slowed   int      `json:"slowed"`
	Faults   []string `json:"faults,omitempty"`
}

// Routes wires the paths.
func (s *Server) Routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/batches", s.acceptBatch)
	mux.HandleFunc("GET /v1/health", s.reportHealth)
	return mux
}

func (s *Server) acceptBatch(w http.ResponseWriter, r *http.Request) {
	var result verdict
	var keep []frame.Reading
	lines := bufio.NewScanner(http.MaxBytesReader(w, r.Body, maxBody))
	for lines.Scan() {
		if lines.Text() == "" {
			continue
		}
		if reading, ok := s.admit(lines.Text(), &result); ok {
			keep = append(keep, reading)
		}
	}
	if err := lines.Err(); err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	if len(keep) > 0 {
		if err := s.Sink.Submit(r.Context(), keep); err != nil {
			http.Error(w, err.Error(), statusFor(err))
			return
		}
	}
	s.accepted.Add(uint64(len(keep)))
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(result)
}

func (s *Server) admit(line string, result *verdict) (frame.Reading, bool) {
	reading, err := frame.ParseReading(line, s.AcceptLegacy)
	if err != nil {
		s.malformed.Add(1)
		result.Faults = append(result.Faults, err.Error())
		return reading, false
	}
	if s.Window.Seen(reading.Probe, reading.Sequence) {
		result.Repeated++
		return reading, false
	}
	if !s.Throttle.Allow(reading.Probe) {
		result.Slowed++
		return reading, false
	}
	result.Accepted++
	return reading, true
}

func statusFor(err error) int {
	switch {
	case errors.Is(err, relay.ErrSpoolFull):
		return http.StatusInsufficientStorage
	case errors.Is(err, relay.ErrRejected):
		return http.StatusUnprocessableEntity
	}
	return http.StatusBadGateway
}

func (s *Server) reportHealth(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"accepted":  s.accepted.Load(),
		"malformed": s.malformed.Load(),
		"repeated":  s.Window.Dropped(),
		"talkative": s.Throttle.Talkative(10),
	})
}
