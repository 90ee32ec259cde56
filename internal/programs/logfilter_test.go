package programs

import (
	"log/slog"
	"strings"
	"sync"
	"testing"
)

// What a change of state says is logged a second time only at level Info (S14).
func TestLogFilter(t *testing.T) {
	t.Parallel()
	for level, want := range map[slog.Level]bool{slog.LevelWarn: false, slog.LevelInfo: true} {
		var b safeBuilder
		missing := testProgram("missing", "web")
		missing.Command = []string{"/no/such/program"}
		h := newFixture(t, Config{Log: slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: level}))}, missing)
		h.in("missing", failed)
		h.stop()
		text := b.String()
		for _, part := range []string{"action failed", "service escalates"} {
			if strings.Contains(text, part) != want {
				t.Errorf("level %s, %q: %t, want %t in\n%s", level, part, !want, want, text)
			}
		}
		if strings.Contains(text, "level=ERROR") {
			t.Errorf("level %s:\n%s", level, text)
		}
	}
}

// A safeBuilder is a strings.Builder for several goroutines.
type safeBuilder struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *safeBuilder) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *safeBuilder) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
