package api_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
)

var randomRequests = flag.Int("random.requests", 500, "how many requests TestRandomRequests sends")

// TestRandomRequests sends requests to every operation, with parameters and bodies that
// are made from the document, some of them right and some wrong: no answer is 500 or
// undeclared (J3, J4).
func TestRandomRequests(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	defer d.work()()
	document := d.site.want(200, "GET", "/openapi.json", "").body
	var doc map[string]any
	if err := json.Unmarshal(document, &doc); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(7, 19))
	g := &generator{r, doc, d.known(t)}
	type target struct {
		method, path string
		operation    map[string]any
	}
	var targets []target
	paths := doc["paths"].(map[string]any)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		methods := paths[path].(map[string]any)
		for _, method := range slices.Sorted(maps.Keys(methods)) {
			targets = append(targets, target{strings.ToUpper(method), path, methods[method].(map[string]any)})
		}
	}
	for range *randomRequests {
		to := targets[r.IntN(len(targets))]
		path, headers := g.address(to.path, to.operation)
		if strings.Contains(path, "wait=") || strings.Contains(path, "follow=") || strings.HasSuffix(to.path, "/follow") || to.path == "/api/events" {
			continue // it would wait
		}
		body := ""
		if b, has := to.operation["requestBody"].(map[string]any); has && r.IntN(10) > 0 {
			content := b["content"].(map[string]any)
			media, isJSON := content["application/json"].(map[string]any)
			if !isJSON { // bytes
				media = map[string]any{"schema": map[string]any{"type": "string"}}
			}
			value := g.value(media["schema"], 0)
			if o, is := value.(map[string]any); is && (strings.HasSuffix(to.path, "/exchange") || strings.HasSuffix(to.path, "/claim")) {
				o["wait_ms"] = min(g.IntN(20), 1) // it would wait
			}
			body = text(value)
			if r.IntN(20) == 0 {
				body = body[:r.IntN(len(body))]
			}
		}
		a := d.do(to.method, path, body, headers...)
		if a.status >= 500 && a.status != 503 {
			t.Errorf("%s %s %s: %d %s", to.method, path, body, a.status, a.body)
		}
		if plain, _, _ := strings.Cut(path, "?"); strings.Contains(plain+"/", "//") {
			continue // a parameter was empty, so that it is another path
		}
		d.check(t, to.method, path, a)
		if t.Failed() {
			t.Fatalf("the request was %s %s %s", to.method, path, body)
		}
	}
}

// known makes records, so that some of the requests meet one.
func (d *drive) known(t testing.TB) []string {
	t.Helper()
	d.want(201, "POST", "/api/workflows", text(map[string]any{"source": order}))
	d.want(201, "POST", "/api/schedules", `{"name":"nightly","workflow":"order","cron":"0 3 * * *"}`)
	job := d.want(201, "POST", "/api/jobs", `{"workflow":"order"}`).field(t, "id").(string)
	step := d.step(job, "ship", "in_progress")
	worker := d.want(200, "GET", "/api/workers", "").field(t, "items.0.id").(string)
	remote := d.want(201, "POST", "/api/workers", `{"handlers":["far"]}`).field(t, "id").(string)
	return []string{job, step, worker, remote, "order", "order@1", "nightly", "0 3 * * *", order, "1", "job", "queue", "default", "1h", "monday", "now"}
}

// A generator makes values from schemas.
type generator struct {
	*rand.Rand
	doc   map[string]any
	known []string
}

// address fills a path and adds parameters.
func (g *generator) address(path string, operation map[string]any) (string, []string) {
	query, headers := url.Values{}, []string{}
	parameters, _ := operation["parameters"].([]any)
	for _, p := range parameters {
		p := p.(map[string]any)
		name, in := p["name"].(string), p["in"].(string)
		value := strings.Trim(text(g.value(p["schema"], 0)), `"`)
		switch {
		case in == "path":
			if value = g.known[g.IntN(len(g.known))]; g.IntN(5) == 0 {
				value = g.word()
			}
			path = strings.Replace(path, "{"+name+"}", url.PathEscape(value), 1)
		case in == "query" && (p["required"] == true || g.IntN(3) == 0):
			query.Set(name, value)
		case in == "header" && g.IntN(4) == 0:
			headers = append(headers, name, strings.Map(func(r rune) rune {
				if r < ' ' || r > '~' {
					return -1
				}
				return r
			}, value))
		}
	}
	if g.IntN(20) == 0 {
		query.Set("nonsense", "1")
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path, headers
}

// value makes a value of a schema; one in twelve is of no schema.
func (g *generator) value(schema any, depth int) any {
	s, _ := schema.(map[string]any)
	if ref, is := s["$ref"].(string); is {
		name := ref[strings.LastIndex(ref, "/")+1:]
		return g.value(g.doc["components"].(map[string]any)["schemas"].(map[string]any)[name], depth)
	}
	if g.IntN(12) == 0 || depth > 6 {
		return g.anything(depth)
	}
	if enum, is := s["enum"].([]any); is {
		return enum[g.IntN(len(enum))]
	}
	kind := s["type"]
	if list, is := kind.([]any); is {
		kind = list[g.IntN(len(list))]
	}
	switch kind {
	case "object":
		o := map[string]any{}
		required, _ := s["required"].([]any)
		properties, _ := s["properties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			if slices.Contains(required, any(name)) || g.IntN(2) == 0 {
				o[name] = g.value(properties[name], depth+1)
			}
		}
		if more := s["additionalProperties"]; more != nil && more != false || g.IntN(12) == 0 {
			o[g.word()] = g.anything(depth + 1)
		}
		return o
	case "array":
		list := make([]any, g.IntN(4))
		for i := range list {
			list[i] = g.value(s["items"], depth+1)
		}
		return list
	case "string":
		return g.word()
	case "integer", "number":
		return g.IntN(400) - 200
	case "boolean":
		return g.IntN(2) == 0
	case "null":
		return nil
	}
	return g.anything(depth)
}

func (g *generator) anything(depth int) any {
	switch g.IntN(7) {
	case 0:
		return nil
	case 1:
		return g.IntN(2) == 0
	case 2:
		return (g.Float64() - 0.5) * 1e18
	case 3:
		if depth < 4 {
			return []any{g.anything(depth + 1)}
		}
	case 4:
		if depth < 4 {
			return map[string]any{g.word(): g.anything(depth + 1)}
		}
	}
	return g.word()
}

// word makes text: what is known, or what is hard to handle.
func (g *generator) word() string {
	hard := []string{"", " ", "a", "../..", "%2e%2e", "\x00", "\u202e", "ü", "${{ 1 }}", "'; drop table jobs; --", "-1", "9223372036854775808",
		"j_00000000000070008000000000000000", strings.Repeat("x", 300), "2026-03-01T12:00:00Z", "load[3]", "\n", fmt.Sprint(g.Uint64())}
	if g.IntN(2) == 0 {
		return g.known[g.IntN(len(g.known))]
	}
	return hard[g.IntN(len(hard))]
}
