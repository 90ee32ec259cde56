package sleep_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/sleep"
)

func TestFor(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		ends   time.Duration // of the context
		passed time.Duration
		want   bool
	}{
		{"the time passes", time.Hour, time.Minute, true},
		{"the context ends before", time.Second, time.Second, false},
		{"the context has ended", 0, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tt.ends)
				defer cancel()
				began := time.Now()
				got := sleep.For(ctx, time.Minute)
				if passed := time.Since(began); got != tt.want || passed != tt.passed {
					t.Errorf("%t after %s, want %t after %s", got, passed, tt.want, tt.passed)
				}
			})
		})
	}
}
