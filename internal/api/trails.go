package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/pawl-dev/pawl"
)

// An exported row is a line of an export.
type exported struct {
	Entity    string          `json:"entity" doc:"The public id."`
	Sequence  int64           `json:"sequence" doc:"From 1, without gaps."`
	From      *string         `json:"from" nullable:"true" doc:"null: it was made."`
	To        string          `json:"to"`
	Event     string          `json:"event"`
	Reason    string          `json:"reason"`
	Actor     string          `json:"actor"`
	RequestID string          `json:"request_id"`
	Metadata  json.RawMessage `json:"metadata"`
	At        string          `json:"at"`
	Hash      string          `json:"hash"`
	Version   int             `json:"version,omitempty" doc:"Of the form of the hash."`
	Seals     []struct {
		Field string `json:"field"`
		Sum   string `json:"sum"`
	} `json:"seals,omitempty"`
	Tree *struct {
		N   int64  `json:"n"`
		Acc string `json:"acc"`
	} `json:"tree,omitempty"`
	Again  int64 `json:"again,omitempty"`
	Folded int64 `json:"folded,omitempty"`
}

func (s *Service) exportTrails(ctx context.Context, _ *struct{}, w *bufio.Writer) error {
	return s.Engine.ExportTrail(ctx, pawl.ID{}, w)
}

func (s *Service) exportJobTrail(ctx context.Context, in *struct{ JobPath }, w *bufio.Writer) error {
	id, err := in.job()
	if err != nil {
		return err
	}
	return s.Engine.ExportTrail(ctx, id, w)
}

func (s *Service) writeCheckpoint(ctx context.Context, _ *struct{}, w *bufio.Writer) error {
	_, err := s.Engine.WriteCheckpoint(ctx, w, "")
	return err
}

// A pruned is what a step of retention has removed.
type pruned struct {
	Removed pawl.Pruning `json:"removed"`
	More    bool         `json:"more" doc:"The time was up: there may be more."`
}

// pruneTime is how long one request removes.
const pruneTime = 5 * time.Second

func (s *Service) prune(ctx context.Context, in *struct {
	Key
	Body struct {
		Note
		OlderThan string `json:"older_than" maxLength:"32" doc:"The age: a duration of at least 1h." example:"720h"`
	}
}) (*body[pruned], error) {
	age, err := ageOf(in.Body.OlderThan)
	if err != nil {
		return nil, err
	}
	c, err := in.change(ctx, in.Body.Note)
	if err != nil {
		return nil, err
	}
	within, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	began := s.Now()
	removed, err := s.Engine.Prune(within, age, c, func(pawl.Pruning) {
		if s.Now().Sub(began) >= pruneTime {
			cancel(errTimeUp)
		}
	})
	more := err != nil && errors.Is(context.Cause(within), errTimeUp)
	if err != nil && !more {
		return nil, err
	}
	return &body[pruned]{pruned{removed, more}}, nil
}

// errTimeUp ends a step of retention between two transactions.
var errTimeUp = errors.New("the time of a request is up")

// ageOf reads how long ago something ended.
func ageOf(text string) (time.Duration, error) {
	age, err := time.ParseDuration(text)
	if err != nil || age < time.Hour {
		return 0, pawl.Errorf(pawl.Invalid, "older_than %q: want a duration of at least 1h", text)
	}
	return age, nil
}
