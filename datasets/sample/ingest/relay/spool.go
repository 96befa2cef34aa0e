package relay

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
)

// ErrSpoolFull is returned when no more batches can be kept.
var ErrSpoolFull = errors.New("relay: spool is full")

// Spool keeps batches as files, the oldest has the smallest number.
type Spool struct {
	mu    sync.Mutex
	dir   string
	limit int
	next  int
}

// OpenSpool continues after the last number found in dir.
func OpenSpool(dir string, limit int) (*Spool, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	s := &Spool{dir: dir, limit: limit}
	names, err := s.pending()
	if err != nil {
		return nil, err
	}
	if len(names) > 0 {
		if _, err := fmt.Sscanf(names[len(names)-1], "%08d.batch", &s.next); err != nil {
			return nil, err
		}
		s.next++
	}
	return s, nil
}

// Append stores a batch durably: first under another name, then renamed.
func (s *Spool) Append(payload string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	names, err := s.pending()
	if err != nil {
		return err
	}
	if len(names) >= s.limit {
		return ErrSpoolFull
	}
	final := filepath.Join(s.dir, fmt.Sprintf("%08d.batch", s.next))
	if err := os.WriteFile(final+".part", []byte(payload), 0o640); err != nil {
		return err
	}
	if err := os.Rename(final+".part", final); err != nil {
		return err
	}
	s.next++
	return nil
}

// Drain gives every batch to send, oldest first, and stops at a failure.
// A batch that the other side rejects for good is moved out of the way.
func (s *Spool) Drain(send func(string) error) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	names, err := s.pending()
	if err != nil {
		return 0, err
	}
	sent := 0
	for _, name := range names {
		path := filepath.Join(s.dir, name)
		data, err := os.ReadFile(path)
		if err != nil {
			return sent, err
		}
		err = send(string(data))
		if errors.Is(err, ErrRejected) {
			if err := s.quarantine(path); err != nil {
				return sent, err
			}
			continue
		}
		if err != nil {
			return sent, err
		}
		if err := os.Remove(path); err != nil {
			return sent, err
		}
		sent++
	}
	return sent, nil
}

func (s *Spool) quarantine(path string) error {
	return os.Rename(path, strings.TrimSuffix(path, ".batch")+".bad")
}

func (s *Spool) pending() ([]string, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".batch") {
			names = append(names, e.Name())
		}
	}
	sort.Strings(names)
	return names, nil
}
