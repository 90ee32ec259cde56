package main

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

func TestParseInstant(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"10m":                       now.Add(-10 * time.Minute),
		"1h30m ago":                 now.Add(-90 * time.Minute),
		"0s":                        now,
		"10:30:05":                  time.Date(2026, 1, 31, 10, 30, 5, 0, time.UTC),
		"10:30:05.25Z":              time.Date(2026, 1, 31, 10, 30, 5, 250e6, time.UTC),
		"10:30":                     time.Date(2026, 1, 31, 10, 30, 0, 0, time.UTC),
		"2026-01-30T10:00:00Z":      time.Date(2026, 1, 30, 10, 0, 0, 0, time.UTC),
		"2026-01-30T10:00:00+02:00": time.Date(2026, 1, 30, 8, 0, 0, 0, time.UTC),
		"2026-01-30 10:00:00+02:00": time.Date(2026, 1, 30, 8, 0, 0, 0, time.UTC),
		"2026-01-30T10:00:00.5Z":    time.Date(2026, 1, 30, 10, 0, 0, 5e8, time.UTC),
	} {
		if got, err := parseInstant("--at", text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "yesterday", "-10m", "25:00:00", "12:00:01", "2026-02-01T00:00:00Z", "2026-01-30"} {
		if at, err := parseInstant("--at", text, now); pawl.KindOf(err) != pawl.Invalid || err == nil {
			t.Errorf("%q: %s, %v; want it refused", text, at, err)
		}
	}
}
