package verify

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"

	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// A use is the purpose of some expressions of a step, which are evaluated together.
type use string

// The uses of expressions.
const (
	useIf      use = "if"
	useForeach use = "foreach"
	useWork    use = "work"   // when a worker takes the step
	useWait    use = "wait"   // when a step that waits begins
	useOutput  use = "output" // of the job
)

// An expr is one expression in a file.
type expr struct {
	node  int    // 0: of the workflow itself
	use   use    //
	path  string // steps[2].env.FILE
	text  string
	whole bool // all of its value, so that null stays null
	tree  ast.Node
	outs  []outputRef
	stats []statusRef
	names map[string]bool // roots such as item, and inputs.NAME, matrix.NAME
}

// An outputRef is a step whose output an expression names.
type outputRef struct {
	node    int
	fields  []string // that are used of it, as far as they are constant
	guarded bool     // the expression handles null
}

// A statusRef is a step whose status an expression compares with words.
type statusRef struct {
	node  int
	words []string
}

// A reading is a definition with its expressions.
type reading struct {
	def    *workflow.Definition
	file   workflow.File
	steps  map[int]*workflow.Step // as they are written, by node
	paths  map[int]string         // steps[2], by node
	exprs  []*expr
	byUse  map[site][]*expr
	shapes *shapes
	known  map[resultKey][]json.RawMessage
}

type site struct {
	use  use
	node int
}

// read collects the expressions of a definition.
func read(def *workflow.Definition) (*reading, error) {
	r := &reading{def: def, steps: map[int]*workflow.Step{}, paths: map[int]string{}, byUse: map[site][]*expr{}, known: map[resultKey][]json.RawMessage{}}
	if err := json.Unmarshal(def.Canonical(), &r.file); err != nil {
		return nil, fmt.Errorf("read the workflow %s: %w", def.Name, err)
	}
	r.list("steps", r.file.Steps)
	for _, kind := range []workflow.Hook{workflow.HookOnFailure, workflow.HookOnCancel, workflow.HookAlways} {
		r.list("hooks."+string(kind), r.file.Hooks.Of(kind))
	}
	for n := 1; n <= len(def.Nodes); n++ {
		r.step(n)
	}
	for _, name := range slices.Sorted(maps.Keys(r.file.Env)) {
		r.value(0, useWork, "env."+name, r.file.Env[name])
	}
	if r.file.Output != nil {
		r.value(0, useOutput, "output", r.file.Output)
	}
	r.value(0, useWork, "concurrency.key", r.file.Concurrency.Key)
	for _, e := range r.exprs {
		r.byUse[site{e.use, e.node}] = append(r.byUse[site{e.use, e.node}], e)
	}
	r.shapes = newShapes(r)
	return r, nil
}

// at returns the expressions of a place.
func (r *reading) at(u use, node int) []*expr { return r.byUse[site{u, node}] }

// gone reports whether an expression of a place uses a missing output.
func (r *reading) gone(at use, node int, scope *workflow.Scope) bool {
	return slices.ContainsFunc(r.at(at, node), func(e *expr) bool { return len(e.missing(scope, true)) > 0 })
}

// missing returns the references of an expression to missing outputs; those that it
// handles are included only if all is set.
func (e *expr) missing(scope *workflow.Scope, all bool) []outputRef {
	var refs []outputRef
	for _, ref := range e.outs {
		status := scope.Statuses[ref.node]
		if status != lifecycle.StepComplete && status != lifecycle.StepResolvedManually && (all || !ref.guarded) {
			refs = append(refs, ref)
		}
	}
	return refs
}

// printed reports whether an expression writes an output into text, where null is
// empty.
func (e *expr) printed() bool {
	root, _ := e.reference()
	if root != "steps" || !e.whole {
		return root == "steps"
	}
	for _, key := range []string{".with", ".http.body", ".inputs.", "output", ".foreach", ".if"} {
		if strings.Contains(e.path, key) {
			return false // null stays null there
		}
	}
	return true
}

// nodes returns the steps that an expression names.
func (e *expr) nodes() []int {
	var nodes []int
	for _, ref := range e.outs {
		nodes = append(nodes, ref.node)
	}
	for _, ref := range e.stats {
		nodes = append(nodes, ref.node)
	}
	return nodes
}

// reference returns the variable and the fields of an expression that is only a path, or
// "".
func (e *expr) reference() (root string, fields []string) {
	root, fields, _ = path(e.tree)
	return root, fields
}

func (r *reading) list(path string, steps []workflow.Step) {
	for i := range steps {
		n := r.def.NodeByID(steps[i].ID)
		r.steps[n], r.paths[n] = &steps[i], fmt.Sprintf("%s[%d]", path, i)
	}
}

func (r *reading) step(n int) {
	s, path := r.steps[n], r.paths[n]
	if s.If != "" {
		text := strings.TrimSpace(s.If)
		if pieces := split(text); len(pieces) == 1 && pieces[0].code {
			text = pieces[0].text
		}
		r.add(n, useIf, path+".if", text, true)
	}
	r.value(n, useForeach, path+".foreach", s.Foreach)
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		r.value(n, useWork, path+".env."+name, s.Env[name])
	}
	r.value(n, useWork, path+".dir", s.Dir)
	for i, arg := range s.Command {
		r.value(n, useWork, fmt.Sprintf("%s.command[%d]", path, i), arg)
	}
	r.value(n, useWork, path+".with", s.With)
	if h := s.HTTP; h != nil {
		r.value(n, useWork, path+".http.url", h.URL)
		for _, name := range slices.Sorted(maps.Keys(h.Headers)) {
			r.value(n, useWork, path+".http.headers."+name, h.Headers[name])
		}
		r.value(n, useWork, path+".http.body", h.Body)
	}
	if s.Approval != nil {
		r.value(n, useWait, path+".approval.prompt", s.Approval.Prompt)
	}
	r.value(n, useWait, path+".sleep", s.Sleep)
	for _, name := range slices.Sorted(maps.Keys(s.Inputs)) {
		r.value(n, useWait, path+".inputs."+name, s.Inputs[name])
	}
}

// value collects the expressions of a value of the file.
func (r *reading) value(n int, u use, path string, v any) {
	switch v := v.(type) {
	case string:
		pieces := split(v)
		for _, p := range pieces {
			if p.code {
				r.add(n, u, path, p.text, len(pieces) == 1)
			}
		}
	case []any:
		for i, e := range v {
			r.value(n, u, fmt.Sprintf("%s[%d]", path, i), e)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			r.value(n, u, path+"."+k, v[k])
		}
	}
}

func (r *reading) add(n int, u use, path, text string, whole bool) {
	e := &expr{node: n, use: u, path: path, text: strings.TrimSpace(text), whole: whole, tree: &ast.NilNode{}, names: map[string]bool{}}
	if tree, err := parser.Parse(text); err == nil { // cannot fail: it has been compiled
		e.tree = tree.Node
	}
	c := &refs{r: r, e: e, optional: map[int]bool{}}
	c.walk(e.tree)
	for i := range e.outs {
		out := &e.outs[i]
		out.guarded = c.optional[out.node] || slices.ContainsFunc(e.stats, func(s statusRef) bool { return s.node == out.node })
	}
	r.exprs = append(r.exprs, e)
}

// refs collects the names in one expression.
type refs struct {
	r        *reading
	e        *expr
	optional map[int]bool // nodes whose output is allowed to be null
}

func (c *refs) walk(n ast.Node) {
	ast.Walk(&n, outermost{c})
}

// outermost visits children before their parents, and records each path when it is
// complete: the last member node of a path replaces those before it.
type outermost struct{ c *refs }

// Visit records one node.
func (o outermost) Visit(node *ast.Node) {
	c := o.c
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		c.e.names[n.Value] = true
	case *ast.MemberNode:
		c.member(n)
	case *ast.BinaryNode:
		c.binary(n)
	}
}

func (c *refs) member(n *ast.MemberNode) {
	root, fields, optional := path(n)
	if root == "" || len(fields) == 0 {
		return
	}
	switch {
	case root == "inputs" || root == "matrix" || root == "env" || root == "job":
		c.e.names[root+"."+fields[0]] = true
	case root == "steps" && len(fields) >= 2:
		c.stepMember(fields, optional)
	}
}

func (c *refs) stepMember(fields []string, optional bool) {
	node := c.r.def.NodeByID(fields[0])
	if fields[1] == "status" {
		if !slices.ContainsFunc(c.e.stats, func(s statusRef) bool { return s.node == node }) {
			c.e.stats = append(c.e.stats, statusRef{node: node})
		}
		return
	}
	ref := outputRef{node: node, fields: fields[2:]}
	if optional {
		c.optional[node] = true
	}
	if last := len(c.e.outs) - 1; last >= 0 && c.e.outs[last].node == node && len(ref.fields) == len(c.e.outs[last].fields)+1 && slices.Equal(ref.fields[:len(ref.fields)-1], c.e.outs[last].fields) {
		c.e.outs[last] = ref
		return
	}
	c.e.outs = append(c.e.outs, ref)
}

// binary records the words that a status is compared with, and where null is expected.
func (c *refs) binary(n *ast.BinaryNode) {
	for _, side := range [][2]ast.Node{{n.Left, n.Right}, {n.Right, n.Left}} {
		root, fields, _ := path(side[0])
		if root != "steps" || len(fields) < 2 {
			continue
		}
		node := c.r.def.NodeByID(fields[0])
		_, null := side[1].(*ast.NilNode)
		switch {
		case fields[1] == "output" && (n.Operator == "??" || null):
			c.optional[node] = true
		case fields[1] == "status":
			for i := range c.e.stats {
				if c.e.stats[i].node == node {
					c.e.stats[i].words = append(c.e.stats[i].words, words(side[1])...)
				}
			}
		}
	}
}

// words returns the texts in a literal, or in a list of literals.
func words(n ast.Node) []string {
	switch n := n.(type) {
	case *ast.StringNode:
		return []string{n.Value}
	case *ast.ArrayNode:
		var all []string
		for _, e := range n.Nodes {
			all = append(all, words(e)...)
		}
		return all
	}
	return nil
}

// path returns the variable and the fields of a path; an element by index is "[]".
// Other expressions have no root.
func path(n ast.Node) (root string, fields []string, optional bool) {
	switch n := n.(type) {
	case *ast.ChainNode:
		return path(n.Node)
	case *ast.IdentifierNode:
		return n.Value, nil, false
	case *ast.MemberNode:
		root, fields, optional = path(n.Node)
		if root == "" {
			return "", nil, false
		}
		optional = optional || n.Optional
		switch p := n.Property.(type) {
		case *ast.StringNode:
			return root, append(slices.Clone(fields), p.Value), optional
		}
		return root, append(slices.Clone(fields), "[]"), optional
	}
	return "", nil, false
}

// A piece is text, or an expression.
type piece struct {
	text string
	code bool
}

// split splits a string at its expressions.
func split(s string) []piece {
	var pieces []piece
	for s != "" {
		at := strings.Index(s, "${{")
		if at < 0 {
			return append(pieces, piece{text: s})
		}
		if at > 0 && s[at-1] == '$' {
			pieces = append(pieces, piece{text: s[:at+3]})
			s = s[at+3:]
			continue
		}
		if at > 0 {
			pieces = append(pieces, piece{text: s[:at]})
		}
		end := closing(s[at+3:])
		pieces = append(pieces, piece{text: s[at+3 : at+3+end], code: true})
		s = s[min(at+3+end+2, len(s)):]
	}
	return pieces
}

// closing returns the offset of the "}}" that ends an expression: outside quotes and
// braces.
func closing(s string) int {
	depth, quote := 0, byte(0)
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quote != 0 && c == '\\' && quote != '`':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'' || c == '`':
			quote = c
		case c == '{':
			depth++
		case c == '}' && depth > 0:
			depth--
		case c == '}' && strings.HasPrefix(s[i:], "}}"):
			return i
		}
	}
	return len(s)
}
