package console

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

// TestTimesAsText writes the same moment in two zones.
func TestTimesAsText(t *testing.T) {
	t.Parallel()
	at, there := pawl.Timestamp(pawl.Micros(time.Date(2026, 1, 31, 23, 30, 0, 250e6, time.UTC))), time.FixedZone("", 3600)
	for _, tt := range []struct{ got, want string }{
		{Stamp(at.Time(), nil), "2026-01-31T23:30:00.250Z"},
		{Stamp(at.Time(), there), "2026-02-01T00:30:00.250+01:00"},
		{Second(at, nil), "2026-01-31 23:30:00Z"},
		{Second(at, there), "2026-02-01 00:30:00+01:00"},
		{exactly(at, nil), at.String()},
		{exactly(at, there), "2026-02-01T00:30:00.250000+01:00"},
		{Second(0, there) + exactly(0, there) + moment(time.Time{}, there), ""},
	} {
		if tt.got != tt.want {
			t.Errorf("got %s, want %s", tt.got, tt.want)
		}
	}
}
