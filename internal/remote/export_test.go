package remote

import "time"

// Hurry makes the engine repeat requests after a millisecond.
func (e *Engine) Hurry() { e.pause = time.Millisecond }

// Missing returns the error for an operation that the server does not have.
func (e *Engine) Missing(operation, since string) error { return e.missing(operation, since) }
