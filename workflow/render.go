package workflow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/document"
)

// Render returns what a worker executes for node n, or for the instance of it
// whose item and index are in the scope. The error is of kind Invalid. The caller
// must not change the work: that of a node without expressions is always the same.
func (d *Definition) Render(n int, s *Scope) (*Work, error) {
	node := &d.Nodes[n-1]
	if node.work.fixed != nil {
		return node.work.fixed, nil
	}
	v, err := d.evaluate(s, node.work.each)
	if err != nil {
		return nil, err
	}
	w := &Work{Kind: node.Kind, Script: node.work.script}
	if err := v.work(node, w); err != nil {
		return nil, err
	}
	return w, nil
}

func (v *evaluation) work(node *Node, w *Work) error {
	if err := v.fullEnvironment(node, w); err != nil {
		return err
	}
	var err error
	if w.Dir, err = v.text(node.work.dir); err != nil {
		return err
	}
	switch node.Kind {
	case KindCommand:
		return v.argv(node, w)
	case KindHTTP:
		w.HTTP, err = v.request(&node.work)
	case KindHandler, KindCrew, KindLoad:
		w.Handler = node.Handler
		if node.work.with != nil {
			w.With, err = v.json(node.work.with)
		}
	}
	return err
}

// fullEnvironment evaluates the workflow's env, then the step's, which may
// refer to the former; all else may refer to both.
func (v *evaluation) fullEnvironment(node *Node, w *Work) error {
	outer, err := v.environment()
	if err != nil {
		return err
	}
	all := make(map[string]any, len(outer)+len(node.work.env))
	for name, text := range outer {
		all[name] = text
	}
	if all, err = v.texts(node.work.env, all); err != nil {
		return err
	}
	v.vars["env"] = all
	w.Env = make(map[string]string, len(all))
	for name, text := range all {
		w.Env[name] = text.(string)
	}
	return nil
}

func (v *evaluation) argv(node *Node, w *Work) error {
	for _, t := range node.work.argv {
		arg, err := v.text(t)
		if err != nil {
			return err
		}
		w.Argv = append(w.Argv, arg)
	}
	if w.Argv[0] == "" {
		return v.fault(node.work.argv[0].path, fmt.Errorf("the program has no name"))
	}
	return nil
}

func (v *evaluation) request(work *nodeWork) (*Request, error) {
	r := &Request{Method: work.method, Expect: slices.Clone(work.expect), Headers: make(map[string]string, len(work.headers))}
	var err error
	if r.URL, err = v.text(work.url); err != nil {
		return nil, err
	}
	if err := checkURL(r.URL, false); err != nil {
		return nil, v.fault(work.url.path, err)
	}
	for _, h := range work.headers {
		text, err := v.text(h.template)
		if err != nil {
			return nil, err
		}
		if strings.ContainsAny(text, "\r\n") {
			return nil, v.fault(h.path, fmt.Errorf("a header is one line, got %q", document.Shorten(text)))
		}
		r.Headers[h.name] = text
	}
	return r, v.body(work.body, r)
}

// body writes text as it is and everything else as JSON, with a Content-Type.
func (v *evaluation) body(t *template, r *Request) error {
	if t == nil {
		return nil
	}
	value, err := v.value(t)
	if err != nil {
		return err
	}
	if r.Body, err = asText(value); err != nil {
		return v.fault(t.path, err)
	}
	if _, text := value.(string); !text && value != nil && !hasHeader(r.Headers, "Content-Type") {
		r.Headers["Content-Type"] = "application/json"
	}
	return nil
}

func hasHeader(headers map[string]string, name string) bool {
	for have := range headers {
		if strings.EqualFold(have, name) {
			return true
		}
	}
	return false
}
