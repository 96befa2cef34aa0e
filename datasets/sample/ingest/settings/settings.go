// Package settings collects what ingestd needs to know at start.
package settings

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"
)

// Settings is read once and not changed afterwards.
type Settings struct {
	Listen       string
	Target       string
	SpoolDir     string
	SpoolLimit   int
	PerMinute    int
	Burst        int
	Attempts     int
	Pause        time.Duration
	AcceptLegacy bool
	SpoolOutage  bool
}

type toggle struct {
	Enabled bool `json:"enabled"`
	Percent *int `json:"percent"`
}

// Load reads the environment and the shared file of switches.
func Load(lookup func(string) (string, bool)) (Settings, error) {
	s := Settings{Listen: ":8470", SpoolDir: "spool", Pause: 500 * time.Millisecond}
	if v, ok := lookup("LARDER_LISTEN"); ok {
		s.Listen = v
	}
	if v, ok := lookup("LARDER_SPOOL_DIR"); ok {
		s.SpoolDir = v
	}
	target, ok := lookup("LARDER_TARGET")
	if !ok || target == "" {
		return s, fmt.Errorf("settings: LARDER_TARGET is missing")
	}
	s.Target = target
	for _, number := range []struct {
		name     string
		fallback int
		into     *int
	}{
		{"LARDER_PER_MINUTE", 12, &s.PerMinute},
		{"LARDER_BURST", 20, &s.Burst},
		{"LARDER_ATTEMPTS", 4, &s.Attempts},
		{"LARDER_SPOOL_LIMIT", 500, &s.SpoolLimit},
	} {
		value, err := positive(lookup, number.name, number.fallback)
		if err != nil {
			return s, err
		}
		*number.into = value
	}
	path, ok := lookup("LARDER_FLAGS")
	if !ok {
		path = "config/flags.json"
	}
	toggles, err := readToggles(path)
	if err != nil {
		return s, err
	}
	s.AcceptLegacy = toggles["accept_legacy_frames"].Enabled
	s.SpoolOutage = toggles["spool_on_outage"].Enabled
	return s, nil
}

func readToggles(path string) (map[string]toggle, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	toggles := make(map[string]toggle)
	if err := json.Unmarshal(data, &toggles); err != nil {
		return nil, fmt.Errorf("settings: %s: %w", path, err)
	}
	return toggles, nil
}

func positive(lookup func(string) (string, bool), name string, fallback int) (int, error) {
	raw, ok := lookup(name)
	if !ok {
		return fallback, nil
	}
	n, err := strconv.Atoi(raw)
	if err != nil || n <= 0 {
		return 0, fmt.Errorf("settings: %s must be a positive number, not %q", name, raw)
	}
	return n, nil
}
