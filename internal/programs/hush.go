package programs

import (
	"context"
	"log/slog"

	"github.com/pawl-dev/pawl/supervisor"
)

// A hush logs at Info what the supervisor says of a program that cannot be started,
// or has failed: its change of state tells that already, with the reason.
type hush struct {
	slog.Handler
	keeper *Keeper
}

// Handle implements slog.Handler.
func (h hush) Handle(ctx context.Context, r slog.Record) error {
	if r.Level > slog.LevelInfo && h.known(r) {
		r.Level = slog.LevelInfo
		if !h.Enabled(ctx, r.Level) {
			return nil
		}
	}
	return h.Handler.Handle(ctx, r)
}

func (h hush) known(r slog.Record) (known bool) {
	r.Attrs(func(a slog.Attr) bool {
		switch {
		case a.Key == "action": // that has failed, or is to be tried again
			known = a.Value.String() == actionStart
		case a.Key == "service" && r.Message == supervisor.Escalates:
			w := h.keeper.ward(a.Value.String())
			known = w != nil && w.handle != nil && w.handle.Snapshot().State == failed
		}
		return !known
	})
	return known
}

// WithAttrs implements slog.Handler.
func (h hush) WithAttrs(attrs []slog.Attr) slog.Handler {
	return hush{h.Handler.WithAttrs(attrs), h.keeper}
}

// WithGroup implements slog.Handler.
func (h hush) WithGroup(name string) slog.Handler {
	return hush{h.Handler.WithGroup(name), h.keeper}
}
