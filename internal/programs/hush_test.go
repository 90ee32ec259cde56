package programs

import (
	"log/slog"
	"strings"
	"sync"
	"testing"
)

// What a change of state tells is not told a second time, but to those who ask for
// more (S14).
func TestHush(t *testing.T) {
	t.Parallel()
	for level, want := range map[slog.Level]bool{slog.LevelWarn: false, slog.LevelInfo: true} {
		var b ledger
		missing := genuine("missing", "web")
		missing.Command = []string{"/no/such/program"}
		h := newHouse(t, Config{Log: slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: level}))}, missing)
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

// A ledger is a text that several write.
type ledger struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *ledger) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *ledger) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
