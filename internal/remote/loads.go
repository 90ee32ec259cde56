package remote

import (
	"context"
	"net/http"
	"net/url"
)

// What loads have measured: no operation of an engine, but of the folder of results that a server shows.

// LoadRuns calls f with each load run, newest first, decoded into a T.
func LoadRuns[T any](ctx context.Context, e *Engine, f func(*T) error) error {
	return everyPage(ctx, e, call{operation: "list-load-runs", method: http.MethodGet, path: "/api/load/runs", query: url.Values{}}, f)
}

// LoadRun decodes a load run into v.
func (e *Engine) LoadRun(ctx context.Context, name string, v any) error {
	return e.evaluated(ctx, "get-load-run", at("/api/load/runs/%s", name), nil, v)
}

// LoadReport returns the report of a load run as a page.
func (e *Engine) LoadReport(ctx context.Context, name string) (page []byte, err error) {
	err = e.evaluated(ctx, "get-load-report", at("/api/load/runs/%s/report", name), nil, &page)
	return page, err
}

// CompareLoads compares two load runs, and decodes the comparison into v.
func (e *Engine) CompareLoads(ctx context.Context, a, b string, force bool, v any) error {
	q := values("a", a, "b", b)
	if force {
		q.Set("force", "true")
	}
	return e.evaluated(ctx, "compare-load-runs", "/api/load/compare", q, v)
}

// evaluated reads what the server computes, once it has room for that.
func (e *Engine) evaluated(ctx context.Context, operation, path string, query url.Values, v any) error {
	_, err := e.do(ctx, &call{operation: operation, method: http.MethodGet, path: path, query: query, slow: true, patient: true}, v)
	return err
}
