package expressions

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

// A Use is the purpose of some expressions of a step, which are evaluated together.
type Use string

// The uses of expressions.
const (
	UseIf      Use = "if"
	UseForeach Use = "foreach"
	UseWork    Use = "work"   // when a worker takes the step
	UseWait    Use = "wait"   // when a step that waits begins
	UseOutput  Use = "output" // of the job
)

// An Expr is one expression in a file.
type Expr struct {
	Node     int    // whose step it is of; 0: of the workflow itself
	Use      Use    // what it is evaluated for
	Path     string // its place in the file: steps[2].env.FILE
	Text     string
	Whole    bool // it is all of its value, so that null stays null
	Outputs  []OutputRef
	Statuses []StatusRef
	Names    map[string]bool // that it uses: roots such as item, and inputs.NAME, matrix.NAME

	tree ast.Node
}

// An OutputRef is a step whose output an expression names.
type OutputRef struct {
	Node    int
	Fields  []string // that are used of it, as far as they are constant
	Guarded bool     // the expression handles null
}

// A StatusRef is a step whose status an expression compares with words.
type StatusRef struct {
	Node  int
	Words []string
}

// A Reading is a definition with its expressions.
type Reading struct {
	Definition *workflow.Definition
	File       workflow.File          // as it is written
	Steps      map[int]*workflow.Step // likewise, by node
	Paths      map[int]string         // their places in the file, by node: steps[2]
	Exprs      []*Expr                // in the order of the file

	byUse  map[site][]*Expr
	shapes *shapes
	known  map[resultKey][]json.RawMessage
}

type site struct {
	use  Use
	node int
}

// Read collects the expressions of a definition, and learns what they assume about
// values.
func Read(def *workflow.Definition) (*Reading, error) {
	r := &Reading{Definition: def, Steps: map[int]*workflow.Step{}, Paths: map[int]string{}, byUse: map[site][]*Expr{}, known: map[resultKey][]json.RawMessage{}}
	if err := json.Unmarshal(def.Canonical(), &r.File); err != nil {
		return nil, fmt.Errorf("read the workflow %s: %w", def.Name, err)
	}
	r.list("steps", r.File.Steps)
	for _, kind := range []workflow.Hook{workflow.HookOnFailure, workflow.HookOnCancel, workflow.HookAlways} {
		r.list("hooks."+string(kind), r.File.Hooks.Of(kind))
	}
	for n := 1; n <= len(def.Nodes); n++ {
		r.step(n)
	}
	for _, name := range slices.Sorted(maps.Keys(r.File.Env)) {
		r.value(0, UseWork, "env."+name, r.File.Env[name])
	}
	if r.File.Output != nil {
		r.value(0, UseOutput, "output", r.File.Output)
	}
	r.value(0, UseWork, "concurrency.key", r.File.Concurrency.Key)
	for _, e := range r.Exprs {
		r.byUse[site{e.Use, e.Node}] = append(r.byUse[site{e.Use, e.Node}], e)
	}
	r.shapes = newShapes(r)
	return r, nil
}

// At returns the expressions of a node that are evaluated for a use.
func (r *Reading) At(u Use, node int) []*Expr { return r.byUse[site{u, node}] }

// MissingAt reports whether an expression of a place uses a missing output.
func (r *Reading) MissingAt(at Use, node int, scope *workflow.Scope) bool {
	return slices.ContainsFunc(r.At(at, node), func(e *Expr) bool { return len(e.Missing(scope, true)) > 0 })
}

// Missing returns the references of an expression to missing outputs; those that it
// handles are included only if all is set.
func (e *Expr) Missing(scope *workflow.Scope, all bool) []OutputRef {
	var refs []OutputRef
	for _, ref := range e.Outputs {
		status := scope.Statuses[ref.Node]
		if status != lifecycle.StepComplete && status != lifecycle.StepResolvedManually && (all || !ref.Guarded) {
			refs = append(refs, ref)
		}
	}
	return refs
}

// Printed reports whether an expression writes an output into text, where null is
// empty.
func (e *Expr) Printed() bool {
	root, _ := e.Reference()
	if root != "steps" || !e.Whole {
		return root == "steps"
	}
	for _, key := range []string{".with", ".http.body", ".inputs.", "output", ".foreach", ".if"} {
		if strings.Contains(e.Path, key) {
			return false // null stays null there
		}
	}
	return true
}

// Nodes returns the steps that an expression names.
func (e *Expr) Nodes() []int {
	var nodes []int
	for _, ref := range e.Outputs {
		nodes = append(nodes, ref.Node)
	}
	for _, ref := range e.Statuses {
		nodes = append(nodes, ref.Node)
	}
	return nodes
}

// Reference returns the variable and the fields of an expression that is only a path; the
// variable of any other is "".
func (e *Expr) Reference() (root string, fields []string) {
	root, fields, _ = path(e.tree)
	return root, fields
}

func (r *Reading) list(path string, steps []workflow.Step) {
	for i := range steps {
		n := r.Definition.NodeByID(steps[i].ID)
		r.Steps[n], r.Paths[n] = &steps[i], fmt.Sprintf("%s[%d]", path, i)
	}
}

func (r *Reading) step(n int) {
	s, path := r.Steps[n], r.Paths[n]
	if s.If != "" {
		text := strings.TrimSpace(s.If)
		if pieces := split(text); len(pieces) == 1 && pieces[0].code {
			text = pieces[0].text
		}
		r.add(n, UseIf, path+".if", text, true)
	}
	r.value(n, UseForeach, path+".foreach", s.Foreach)
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		r.value(n, UseWork, path+".env."+name, s.Env[name])
	}
	r.value(n, UseWork, path+".dir", s.Dir)
	for i, arg := range s.Command {
		r.value(n, UseWork, fmt.Sprintf("%s.command[%d]", path, i), arg)
	}
	r.value(n, UseWork, path+".with", s.With)
	if h := s.HTTP; h != nil {
		r.value(n, UseWork, path+".http.url", h.URL)
		for _, name := range slices.Sorted(maps.Keys(h.Headers)) {
			r.value(n, UseWork, path+".http.headers."+name, h.Headers[name])
		}
		r.value(n, UseWork, path+".http.body", h.Body)
	}
	if s.Approval != nil {
		r.value(n, UseWait, path+".approval.prompt", s.Approval.Prompt)
	}
	r.value(n, UseWait, path+".sleep", s.Sleep)
	for _, name := range slices.Sorted(maps.Keys(s.Inputs)) {
		r.value(n, UseWait, path+".inputs."+name, s.Inputs[name])
	}
}

// value collects the expressions of a value of the file.
func (r *Reading) value(n int, u Use, path string, v any) {
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

func (r *Reading) add(n int, u Use, path, text string, whole bool) {
	e := &Expr{Node: n, Use: u, Path: path, Text: strings.TrimSpace(text), Whole: whole, tree: &ast.NilNode{}, Names: map[string]bool{}}
	if tree, err := parser.Parse(text); err == nil { // cannot fail: it has been compiled
		e.tree = tree.Node
	}
	c := &refs{r: r, e: e, optional: map[int]bool{}}
	c.walk(e.tree)
	for i := range e.Outputs {
		out := &e.Outputs[i]
		out.Guarded = c.optional[out.Node] || slices.ContainsFunc(e.Statuses, func(s StatusRef) bool { return s.Node == out.Node })
	}
	r.Exprs = append(r.Exprs, e)
}

// refs collects the names in one expression.
type refs struct {
	r        *Reading
	e        *Expr
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
		c.e.Names[n.Value] = true
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
		c.e.Names[root+"."+fields[0]] = true
	case root == "steps" && len(fields) >= 2:
		c.stepMember(fields, optional)
	}
}

func (c *refs) stepMember(fields []string, optional bool) {
	node := c.r.Definition.NodeByID(fields[0])
	if fields[1] == "status" {
		if !slices.ContainsFunc(c.e.Statuses, func(s StatusRef) bool { return s.Node == node }) {
			c.e.Statuses = append(c.e.Statuses, StatusRef{Node: node})
		}
		return
	}
	ref := OutputRef{Node: node, Fields: fields[2:]}
	if optional {
		c.optional[node] = true
	}
	if last := len(c.e.Outputs) - 1; last >= 0 && c.e.Outputs[last].Node == node && len(ref.Fields) == len(c.e.Outputs[last].Fields)+1 && slices.Equal(ref.Fields[:len(ref.Fields)-1], c.e.Outputs[last].Fields) {
		c.e.Outputs[last] = ref
		return
	}
	c.e.Outputs = append(c.e.Outputs, ref)
}

// binary records the words that a status is compared with, and where null is expected.
func (c *refs) binary(n *ast.BinaryNode) {
	for _, side := range [][2]ast.Node{{n.Left, n.Right}, {n.Right, n.Left}} {
		root, fields, _ := path(side[0])
		if root != "steps" || len(fields) < 2 {
			continue
		}
		node := c.r.Definition.NodeByID(fields[0])
		_, null := side[1].(*ast.NilNode)
		switch {
		case fields[1] == "output" && (n.Operator == "??" || null):
			c.optional[node] = true
		case fields[1] == "status":
			for i := range c.e.Statuses {
				if c.e.Statuses[i].Node == node {
					c.e.Statuses[i].Words = append(c.e.Statuses[i].Words, words(side[1])...)
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
