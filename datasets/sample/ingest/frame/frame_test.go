package frame

import (
	"errors"
	"strings"
	"testing"
)

func sample() Reading {
	return Reading{Probe: "walk-in-01", Sequence: 41, Taken: 1700000000, MilliC: 4250, Battery: 87}
}

func TestEncodedReadingIsReadBack(t *testing.T) {
	want := sample()
	got, err := ParseReading(EncodeReading(want)+"\r\n", false)
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Fatalf("got %+v, want %+v", got, want)
	}
}

func TestFlippedDigitIsNoticed(t *testing.T) {
	line := strings.Replace(EncodeReading(sample()), ";4250;", ";4251;", 1)
	if _, err := ParseReading(line, false); !errors.Is(err, ErrTrailer) {
		t.Fatalf("got %v", err)
	}
}

func TestOldHardwareNeedsPermission(t *testing.T) {
	line := "LW1;chest-07;1700000000;-185"
	if _, err := ParseReading(line, false); !errors.Is(err, ErrLegacyRefused) {
		t.Fatalf("got %v", err)
	}
	r, err := ParseReading(line, true)
	if err != nil {
		t.Fatal(err)
	}
	if r.MilliC != -18500 {
		t.Fatalf("millidegrees %d", r.MilliC)
	}
}

func TestFieldErrorNamesTheField(t *testing.T) {
	body := "LW2;walk-in-01;1;1700000000;4250;140;"
	_, err := ParseReading(body+trailer(body), false)
	var field *FieldError
	if !errors.As(err, &field) || field.Field != "battery" {
		t.Fatalf("got %v", err)
	}
}

func TestProbeNames(t *testing.T) {
	for name, want := range map[string]bool{
		"abcd": true, "pass-03": true, "abc": false, "Walk-in": false, "seventeen-letters": false,
	} {
		if validProbe(name) != want {
			t.Errorf("validProbe(%q) is not %v", name, want)
		}
	}
}
