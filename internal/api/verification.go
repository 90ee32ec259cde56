package api

import (
	"context"
	"crypto/rand"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/pawl-dev/pawl"
)

// The states of a verification.
const (
	verifying = "running"
	verified  = "ended"
	broken    = "failed" // it could not be carried out: that says nothing about the trails
)

// A verification is an examination of all trails, by this server.
type verification struct {
	ID        string         `json:"id" doc:"Differs from one examination to the next, and from one server to another."`
	Status    string         `json:"status" enum:"running,ended,failed" doc:"failed: it could not be carried out, which says nothing about the trails."`
	Actor     string         `json:"actor" doc:"Who began it."`
	StartedAt pawl.Timestamp `json:"started_at"`
	EndedAt   pawl.Timestamp `json:"ended_at,omitzero"`
	Entries   int64          `json:"entries" doc:"How many entries were checked so far."`
	Verdict   *pawl.Verdict  `json:"verdict,omitempty"` // once it has ended
	Error     string         `json:"error,omitempty" doc:"Why it has failed."`
}

// A verifier examines all trails, once at a time, and keeps the last result. It belongs to a
// Service, whose Close ends it.
type verifier struct {
	running sync.WaitGroup

	mu     sync.Mutex
	closed bool
	last   verification
	end    context.CancelFunc // of the last one
}

// start begins an examination, unless one is running, and returns the one that runs.
func (v *verifier) start(ctx context.Context, s *Service) (verification, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.closed:
		return verification{}, pawl.Errorf(pawl.Unavailable, "the server is ending")
	case v.last.Status == verifying:
		return v.last, nil
	}
	v.last = verification{ID: rand.Text(), Status: verifying, Actor: ActorOf(ctx), StartedAt: pawl.Timestamp(pawl.Micros(s.Now()))}
	own, end := context.WithCancel(context.WithoutCancel(ctx)) // it outlives its request
	v.end = end
	v.running.Go(func() {
		defer end()
		verdict, err := v.examine(own, s)
		if err != nil && own.Err() == nil {
			s.Log.Error("the audit trails could not be verified", "error", err)
		}
		v.done(s, verdict, err)
	})
	return v.last, nil
}

// examine examines all trails. A panic is its error: it must not end the process.
func (v *verifier) examine(ctx context.Context, s *Service) (verdict *pawl.Verdict, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return s.Engine.VerifyTrail(ctx, pawl.ID{}, v.checked)
}

// checked notes progress.
func (v *verifier) checked(entries int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.last.Entries = entries
}

func (v *verifier) done(s *Service, verdict *pawl.Verdict, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.last.EndedAt = pawl.Timestamp(pawl.Micros(s.Now()))
	if err != nil {
		v.last.Status, v.last.Error = broken, Of(err).Detail
		return
	}
	v.last.Status, v.last.Verdict, v.last.Entries = verified, verdict, verdict.Entries
}

// close ends the examination that runs, and waits for it.
func (v *verifier) close() {
	v.mu.Lock()
	v.closed = true
	if v.end != nil {
		v.end()
	}
	v.mu.Unlock()
	v.running.Wait()
}

// Close ends what runs beside requests. It may be called twice.
func (s *Service) Close() { s.verifier.close() }

func (s *Service) startVerification(ctx context.Context, _ *struct{}) (*body[verification], error) {
	v, err := s.verifier.start(ctx, s)
	if err != nil {
		return nil, err
	}
	return &body[verification]{v}, nil
}

func (s *Service) getVerification(_ context.Context, _ *struct{}) (*body[verification], error) {
	s.verifier.mu.Lock()
	defer s.verifier.mu.Unlock()
	if s.verifier.last.ID == "" {
		return nil, &pawl.Error{Kind: pawl.NotFound, Message: "this server has verified no trails since it was started", Hint: "begin it with POST /api/audit/verify-all"}
	}
	return &body[verification]{s.verifier.last}, nil
}
