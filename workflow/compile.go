package workflow

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/expr-lang/expr/types"

	"github.com/pawl-dev/pawl"
)

// nodeWork is the compiled form of what Render returns.
type nodeWork struct {
	env     []namedTemplate
	dir     *template
	argv    []*template
	script  string
	method  string
	url     *template
	headers []namedTemplate
	body    *template
	expect  []int
	with    *template

	needs []int // nodes that its programs name
	fixed *Work // what it renders to, if it has no programs
}

// each calls do for every program of the work.
func (w *nodeWork) each(do func(*program)) {
	for _, list := range [][]namedTemplate{w.env, w.headers} {
		for _, t := range list {
			t.each(do)
		}
	}
	for _, t := range slices.Concat(w.argv, []*template{w.dir, w.url, w.body, w.with}) {
		t.each(do)
	}
}

// A compilation turns a normalised file into a definition.
type compilation struct {
	e         *examiner
	file      File
	d         *Definition
	variables types.Map
	sources   []source // by node - 1
	known     []string // see ids
	programs  map[programKey]*program
	ancestors []nodeSet // by node - 1
}

// A source is the place of a node in the file.
type source struct {
	*Step
	path string // steps[3], or hooks.failure[0]
	hook Hook
}

// compile compiles canonical JSON. Problems are reported to e; the definition is usable
// only if there are none.
func (e *examiner) compile(canonical []byte) (*Definition, error) {
	c := &compilation{e: e, programs: map[programKey]*program{}, d: &Definition{canonical: canonical, hash: sha256.Sum256(canonical)}}
	if err := json.Unmarshal(canonical, &c.file); err != nil {
		return nil, &pawl.Error{Kind: pawl.Internal, Message: "workflow", Err: err}
	}
	c.head()
	c.nodes()
	c.graph()
	c.ancestry()
	c.expressions()
	c.outputs()
	c.d.height, c.d.programs = e.height, e.programs+len(c.programs)
	if len(e.Problems) == 0 {
		c.prepare()
	}
	return c.d, nil
}

// prepare computes what is needed repeatedly and never changes.
func (c *compilation) prepare() {
	c.d.roots = c.d.Roots()
	for i := range c.d.Nodes {
		n := &c.d.Nodes[i]
		n.work.needs = c.d.nodesOf(n.work.each)
		if !n.Kind.Waits() && c.d.isFixed(n) {
			n.work.fixed, _ = c.d.Render(i+1, &Scope{}) // what fails here fails each time
		}
	}
}

// isFixed reports whether the work of a node has no programs.
func (d *Definition) isFixed(n *Node) bool {
	fixed := true
	n.work.each(func(*program) { fixed = false })
	for i := range d.env {
		d.env[i].each(func(*program) { fixed = false })
	}
	return fixed
}

func (c *compilation) head() {
	f, d := &c.file, c.d
	d.Name, d.Description, d.Workers, d.Timeout, d.OnError = f.Name, f.Description, f.Workers, f.Timeout, f.OnError
	if d.Workers == 0 {
		d.Workers, d.AnyWorkers = MaxWorkers, true
	}
	d.Concurrency = f.Concurrency.Limit
	d.inputs = map[string]*Input{}
	d.Inputs = inputsOf(f.Inputs)
	for i := range d.Inputs {
		d.inputs[d.Inputs[i].Name] = &d.Inputs[i]
	}
	c.variables = variableTypes(inputTypes(d.Inputs))
}

// nodes makes the nodes: the steps in the order of the file, then the hooks; or in the
// order that a canonical form gives.
func (c *compilation) nodes() {
	add := func(list []Step, path string, hook Hook) {
		for i := range list {
			c.sources = append(c.sources, source{&list[i], fmt.Sprintf("%s[%d]", path, i), hook})
		}
	}
	add(c.file.Steps, "steps", NoHook)
	for _, kind := range hookKinds {
		add(c.file.Hooks.Of(kind), "hooks."+string(kind), kind)
	}
	if len(c.file.order) > 0 {
		c.reorder(c.file.order)
	}
	for _, s := range c.sources {
		n := c.node(s)
		c.d.Nodes = append(c.d.Nodes, n)
		c.d.Events = c.d.Events || n.Kind == KindEvent
	}
	for _, kind := range hookKinds {
		for i, s := range c.sources {
			if s.hook == kind {
				c.d.Hooks = append(c.d.Hooks, i+1)
			}
		}
	}
}

// reorder numbers the nodes by the position of their ids in order, which has to name
// each of them once.
func (c *compilation) reorder(order []string) {
	var sources []source
	for i, id := range order {
		path := fmt.Sprintf("order[%d]", i)
		at := slices.IndexFunc(c.sources, func(s source) bool { return s.ID == id })
		switch {
		case slices.ContainsFunc(sources, func(s source) bool { return s.ID == id }):
			c.e.ReportAt(path, fmt.Sprintf("the id %q appears twice", id), "")
		case at < 0:
			c.e.ReportAt(path, fmt.Sprintf("there is no step %q", id), "")
		default:
			sources = append(sources, c.sources[at])
		}
	}
	if len(sources) != len(c.sources) {
		c.e.ReportAt("order", "it does not name each step and each hook once", "")
		return
	}
	c.sources = sources
}

func (c *compilation) node(s source) Node {
	n := Node{
		ID: s.ID, Hook: s.hook, Kind: s.kind(), Queue: cmp.Or(s.Queue, DefaultQueue), Priority: s.Priority, QueueTimeout: s.QueueTimeout, Isolation: s.Isolation,
		Parallel: s.Parallel, Timeout: s.Timeout, Retry: s.Retry, Output: s.Output, HasIf: s.If != "", HasForeach: s.Foreach != nil,
		Matrix: s.Matrix, path: s.path,
	}
	n.Handler = string(n.Kind)
	switch n.Kind {
	case KindHandler:
		n.Handler = s.Handler
	case KindApproval:
		n.Approval, n.Expires = &Approval{Form: inputsOf(s.Approval.Form)}, s.Approval.Expires
	case KindEvent:
		n.Event, n.Expires = s.Event.Name, s.Event.Timeout
	case KindWorkflow:
		w := s.Workflow
		n.Child = &Child{Name: w.Name, Version: w.Version, File: w.File, Definition: c.e.children[s.path+".workflow.definition"]}
	}
	for _, a := range n.Matrix {
		for i, v := range a.Values {
			a.Values[i], _ = plainNumbers(v, 0) // they have been examined
		}
	}
	return n
}

func (s *Step) kind() Kind {
	switch {
	case len(s.Command) > 0:
		return KindCommand
	case s.Run != "":
		return KindRun
	case s.HTTP != nil:
		return KindHTTP
	case s.Crew != nil:
		return KindCrew
	case s.Load != nil:
		return KindLoad
	case s.Approval != nil:
		return KindApproval
	case s.Sleep != "":
		return KindSleep
	case s.Event != nil:
		return KindEvent
	case s.Workflow != nil:
		return KindWorkflow
	}
	return KindHandler
}

// graph resolves ids and needs.
func (c *compilation) graph() {
	c.d.byID = map[string]int{}
	for i, s := range c.sources {
		if s.ID == "" {
			continue
		}
		if first, twice := c.d.byID[s.ID]; twice {
			c.e.ReportAt(s.path+".id", fmt.Sprintf("the id %q appears twice, first as %s", s.ID, c.sources[first-1].path), "")
			continue
		}
		c.d.byID[s.ID] = i + 1
	}
	for i := range c.sources {
		c.needs(i)
	}
	for i := range c.d.Nodes {
		for _, need := range c.d.Nodes[i].Needs {
			c.d.Nodes[need-1].Dependents = append(c.d.Nodes[need-1].Dependents, i+1)
		}
	}
}

func (c *compilation) needs(i int) {
	step, node := c.sources[i], &c.d.Nodes[i]
	for j, id := range step.Needs {
		path := fmt.Sprintf("%s.needs[%d]", step.path, j)
		need := c.d.byID[id]
		switch {
		case id == "":
		case id == step.ID:
			c.e.ReportAt(path, fmt.Sprintf("step %q needs itself", id), "")
		case need == 0:
			c.e.ReportAt(path, fmt.Sprintf("there is no step %q", id), c.e.Suggest(id, c.ids()))
		case c.sources[need-1].hook != NoHook:
			c.e.ReportAt(path, fmt.Sprintf("%q is a hook: it runs when all steps have ended", id), "")
		case slices.Contains(node.Needs, need):
			c.e.ReportAt(path, fmt.Sprintf("the need %q appears twice", id), "")
		default:
			node.Needs = append(node.Needs, need)
		}
	}
	slices.Sort(node.Needs)
}

// ids returns the known ids of steps, in the order of the nodes.
func (c *compilation) ids() []string {
	if c.known == nil {
		for _, s := range c.sources {
			if s.hook == NoHook {
				c.known = append(c.known, s.ID)
			}
		}
	}
	return c.known
}

// ancestry finds cycles and the ancestors of every node.
func (c *compilation) ancestry() {
	order, cyclic := c.order()
	if len(cyclic) > 0 {
		c.reportCycles(cyclic)
	}
	c.ancestors = make([]nodeSet, len(c.d.Nodes))
	for _, n := range slices.Concat(order, cyclic) {
		all := &c.ancestors[n-1]
		for _, need := range c.d.Nodes[n-1].Needs {
			all.add(need)
			all.join(&c.ancestors[need-1])
		}
	}
}

// A nodeSet is a set of nodes.
type nodeSet [pawl.MaxNodes/64 + 1]uint64

func (s *nodeSet) add(n int)      { s[n/64] |= 1 << (n % 64) }
func (s *nodeSet) has(n int) bool { return s[n/64]&(1<<(n%64)) != 0 }

func (s *nodeSet) join(t *nodeSet) {
	for i := range s {
		s[i] |= t[i]
	}
}

// order returns the nodes with every need before those that need it, and the
// nodes for which there is no such order.
func (c *compilation) order() (order, rest []int) {
	unmet := make([]int, len(c.d.Nodes)+1)
	for i := range c.d.Nodes {
		unmet[i+1] = len(c.d.Nodes[i].Needs)
		if unmet[i+1] == 0 {
			order = append(order, i+1)
		}
	}
	for k := 0; k < len(order); k++ {
		for _, n := range c.d.Nodes[order[k]-1].Dependents {
			if unmet[n]--; unmet[n] == 0 {
				order = append(order, n)
			}
		}
	}
	for n := 1; n <= len(c.d.Nodes); n++ {
		if unmet[n] > 0 {
			rest = append(rest, n)
		}
	}
	return order, rest
}

// reportCycles reports each cycle once, at its first step in the file. Every
// node of rest is on a cycle or behind one, so walking its needs within rest
// leads into a cycle.
func (c *compilation) reportCycles(rest []int) {
	walked := map[int]bool{}
	for _, start := range rest {
		var path []int
		at := start
		for !walked[at] {
			walked[at] = true
			path = append(path, at)
			at = c.needWithin(at, rest)
		}
		if i := slices.Index(path, at); i >= 0 {
			c.reportCycle(path[i:])
		}
	}
}

func (c *compilation) needWithin(n int, rest []int) int {
	for _, need := range c.d.Nodes[n-1].Needs {
		if _, in := slices.BinarySearch(rest, need); in {
			return need
		}
	}
	return n
}

// reportCycle writes a cycle from its first step: "a -> b -> a" says that a
// needs b and b needs a.
func (c *compilation) reportCycle(cycle []int) {
	first := slices.Index(cycle, slices.Min(cycle))
	cycle = slices.Concat(cycle[first:], cycle[:first], cycle[first:first+1])
	text := ""
	for i, n := range cycle {
		if i > 0 {
			text += " -> "
		}
		text += c.d.Nodes[n-1].ID
	}
	c.e.ReportAt(c.sources[cycle[0]-1].path+".needs", "the needs form a cycle: "+text, "")
}

// inputsOf returns the inputs that schemas describe, by name.
func inputsOf(schemas map[string]InputSchema) []Input {
	var inputs []Input
	for _, name := range sortedKeys(schemas) {
		inputs = append(inputs, schemas[name].input(name))
	}
	return inputs
}

// input returns the input that a schema describes.
func (s InputSchema) input(name string) Input {
	in := Input{Name: name, Type: s.Type, Description: s.Description, Required: s.Required, Pattern: s.Pattern}
	if s.Default != nil {
		in.Default = canonicalNumber(s.Default)
	}
	for _, v := range s.Enum {
		in.Enum = append(in.Enum, canonicalNumber(v))
	}
	in.pattern = newMatcher(s.Pattern)
	return in
}

// canonicalNumber writes a normalised value, which cannot fail.
func canonicalNumber(v any) json.RawMessage {
	plain, err := plainNumbers(v, 0)
	if err == nil {
		if out, err := encodeJSON(plain); err == nil {
			return out
		}
	}
	return json.RawMessage("null")
}
