package remote

import "time"

// Hurry makes the engine repeat requests after a millisecond.
func (e *Engine) Hurry() { e.pause = time.Millisecond }
