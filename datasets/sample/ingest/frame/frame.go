// Package frame reads and writes the lines that probes send.
package frame

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

const (
	prefixCurrent = "LW2"
	prefixLegacy  = "LW1"
)

// Errors that callers tell apart with errors.Is.
var (
	ErrUnknownPrefix = errors.New("frame: unknown prefix")
	ErrTrailer       = errors.New("frame: trailer does not match")
	ErrLegacyRefused = errors.New("frame: old frames are not accepted here")
)

// FieldError names the field that could not be read.
type FieldError struct {
	Field string
	Value string
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("frame: bad %s %q", e.Field, e.Value)
}

// Reading is one measurement of one probe.
type Reading struct {
	Probe    string
	Sequence uint16
	Taken    int64
	MilliC   int32
	Battery  uint8
}

// ParseReading turns a line into a Reading.
func ParseReading(line string, allowLegacy bool) (Reading, error) {
	line = strings.TrimRight(line, "\r\n")
	fields := strings.Split(line, ";")
	switch fields[0] {
	case prefixCurrent:
		if err := verifyTrailer(line); err != nil {
			return Reading{}, err
		}
		return decodeCurrent(fields)
	case prefixLegacy:
		if !allowLegacy {
			return Reading{}, ErrLegacyRefused
		}
		return decodeLegacy(fields)
	}
	return Reading{}, ErrUnknownPrefix
}

func decodeCurrent(fields []string) (Reading, error) {
	if len(fields) != 7 {
		return Reading{}, &FieldError{"field count", strconv.Itoa(len(fields))}
	}
	if !validProbe(fields[1]) {
		return Reading{}, &FieldError{"probe", fields[1]}
	}
	seq, err := strconv.ParseUint(fields[2], 10, 16)
	if err != nil {
		return Reading{}, &FieldError{"sequence", fields[2]}
	}
	taken, err := strconv.ParseInt(fields[3], 10, 64)
	if err != nil || taken < 0 {
		return Reading{}, &FieldError{"taken", fields[3]}
	}
	milli, err := strconv.ParseInt(fields[4], 10, 32)
	if err != nil {
		return Reading{}, &FieldError{"millidegrees", fields[4]}
	}
	battery, err := strconv.ParseUint(fields[5], 10, 8)
	if err != nil || battery > 100 {
		return Reading{}, &FieldError{"battery", fields[5]}
	}
	return Reading{fields[1], uint16(seq), taken, int32(milli), uint8(battery)}, nil
}

func decodeLegacy(fields []string) (Reading, error) {
	if len(fields) != 4 {
		return Reading{}, &FieldError{"field count", strconv.Itoa(len(fields))}
	}
	taken, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil {
		return Reading{}, &FieldError{"taken", fields[2]}
	}
	tenths, err := strconv.ParseInt(fields[3], 10, 16)
	if err != nil {
		return Reading{}, &FieldError{"tenths", fields[3]}
	}
	// The old hardware has no counter; the minute stands in for it.
	seq := uint16((taken / 60) % 65536)
	return Reading{Probe: fields[1], Sequence: seq, Taken: taken, MilliC: int32(tenths) * 100, Battery: 100}, nil
}

// EncodeReading writes the current form, whatever form was read.
func EncodeReading(r Reading) string {
	body := fmt.Sprintf("%s;%s;%d;%d;%d;%d;", prefixCurrent, r.Probe, r.Sequence, r.Taken, r.MilliC, r.Battery)
	return body + trailer(body)
}

func validProbe(name string) bool {
	if len(name) < 4 || len(name) > 16 {
		return false
	}
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}
