package remote

import (
	"context"
	"encoding/json"
	"net/http"
)

// What needs no database, but the version of the server. The definitions are in their canonical
// form.

// Validate returns an error unless the server accepts a definition.
func (e *Engine) Validate(ctx context.Context, canonical []byte) error {
	return e.rehearse(ctx, "validate", map[string]any{"definition": json.RawMessage(canonical)}, nil)
}

// Verify finds faults of a definition, and decodes the report into v.
func (e *Engine) Verify(ctx context.Context, canonical []byte, inputs map[string]any, v any) error {
	return e.rehearse(ctx, "verify", map[string]any{"definition": json.RawMessage(canonical), "inputs": inputs}, v)
}

// A Simulation says what the server is to simulate.
type Simulation struct {
	Definition json.RawMessage `json:"definition"`
	Inputs     map[string]any  `json:"inputs"`
	Seed       uint64          `json:"seed"`
	Runs       int             `json:"runs"`
	Faults     []string        `json:"faults"`
}

// Simulate runs a definition on a simulated clock, and decodes the result, or the outlook of
// several runs, into those.
func (e *Engine) Simulate(ctx context.Context, s Simulation, result, outlook any) error {
	return e.rehearse(ctx, "simulate", s, &struct {
		Result  any `json:"result"`
		Outlook any `json:"outlook"`
	}{result, outlook})
}

func (e *Engine) rehearse(ctx context.Context, what string, body, v any) error {
	_, err := e.do(ctx, &call{operation: what + "-workflow", method: http.MethodPost, path: "/api/workflows/" + what, body: body, slow: true}, v)
	return err
}

// RoundTrip sends a request to the server in place of the host of its URL, with the token. It
// is no operation of an engine: package control uses it.
func (e *Engine) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := r.Clone(r.Context())
	at, err := http.NewRequest(r.Method, e.base+r.URL.RequestURI(), nil)
	if err != nil {
		return nil, err
	}
	sent.URL, sent.Host = at.URL, ""
	sent.Header.Set("User-Agent", agent)
	if e.token != "" {
		sent.Header.Set("Authorization", "Bearer "+e.token)
		sent.Header.Del("Pawl-Actor")
	}
	response, err := e.slow.Transport.RoundTrip(sent)
	if err != nil {
		return nil, e.unreachable(err)
	}
	return response, nil
}
