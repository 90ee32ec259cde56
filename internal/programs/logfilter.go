package programs

import (
	"context"
	"log/slog"

	"github.com/pawl-dev/pawl/supervisor"
)

// A logFilter lowers to Info what the supervisor logs about a program that cannot be
// started or has failed: the change of state says that already, with the reason.
type logFilter struct {
	slog.Handler
	manager *Manager
}

// Handle implements slog.Handler.
func (h logFilter) Handle(ctx context.Context, r slog.Record) error {
	if r.Level > slog.LevelInfo && h.redundant(r) {
		r.Level = slog.LevelInfo
		if !h.Enabled(ctx, r.Level) {
			return nil
		}
	}
	return h.Handler.Handle(ctx, r)
}

// redundant reports whether a change of state says the same as r.
func (h logFilter) redundant(r slog.Record) (known bool) {
	r.Attrs(func(a slog.Attr) bool {
		switch {
		case a.Key == "action": // one that has failed, or is retried
			known = a.Value.String() == actionStart
		case a.Key == "service" && r.Message == supervisor.Escalates:
			prog := h.manager.program(a.Value.String())
			known = prog != nil && prog.handle != nil && prog.handle.Snapshot().State == failed
		}
		return !known
	})
	return known
}

// WithAttrs implements slog.Handler.
func (h logFilter) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logFilter{h.Handler.WithAttrs(attrs), h.manager}
}

// WithGroup implements slog.Handler.
func (h logFilter) WithGroup(name string) slog.Handler {
	return logFilter{h.Handler.WithGroup(name), h.manager}
}
