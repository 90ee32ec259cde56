package workflow

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/document"
)

// A context lists what the expressions of one place in the file may use.
type context struct {
	where string   // in an error: "of `if`"
	steps *nodeSet // those whose output and status are known; nil: none
	all   bool     // every step is
	self  int      // the node, or 0
	item  bool     // item and index are
	axes  []Axis   // the names of matrix; index is known, too
	hook  bool     // job.error and job.status are
	early bool     // there is no job yet
	env   []string // the variables of env
	noEnv bool     // env is not known at all
	hint  string   // why item, index and matrix are not known
}

// expressions compiles every expression of the file.
func (c *compilation) expressions() {
	env := sortedKeys(c.file.Env)
	c.d.env = c.named("env", c.file.Env, context{where: "the workflow's env", noEnv: true})
	for i := range c.sources {
		c.step(i, env)
	}
	if key := c.file.Concurrency.Key; key != "" {
		c.d.key = c.template("concurrency.key", key, context{where: "the key of concurrency", noEnv: true, early: true})
	}
	if c.file.Output != nil {
		c.d.output = c.template("output", c.file.Output, context{all: true, env: env})
	}
}

func (c *compilation) step(i int, workflowEnv []string) {
	s, n := c.sources[i].Step, &c.d.Nodes[i]
	path := func(key string) string { return n.path + "." + key }
	node := context{self: i + 1, steps: &c.ancestors[i], env: workflowEnv}
	node.all, node.hook = n.Hook != NoHook, n.Hook != NoHook
	if n.Fans() {
		node.hint = "it is decided once for the step, before there are instances"
	}
	if n.HasIf {
		n.condition = c.condition(path("if"), s.If, node)
	}
	if n.HasForeach {
		n.foreach = c.foreach(path("foreach"), s.Foreach, node)
	}
	inner := node
	inner.item, inner.axes, inner.hint = n.HasForeach, n.Matrix, ""
	n.work.env = c.named(path("env"), s.Env, inner)
	inner.env = slices.Concat(workflowEnv, sortedKeys(s.Env))
	c.work(path, s, &n.work, inner)
	c.wait(path, s, n, inner)
}

// work compiles what is rendered with the whole environment known.
func (c *compilation) work(path func(string) string, s *Step, w *nodeWork, ctx context) {
	w.script = s.Run
	if s.Dir != "" {
		w.dir = c.template(path("dir"), s.Dir, ctx)
	}
	for j, arg := range s.Command {
		w.argv = append(w.argv, c.template(fmt.Sprintf("%s[%d]", path("command"), j), arg, ctx))
	}
	if s.With != nil {
		w.with = c.template(path("with"), s.With, ctx)
	}
	if s.Crew != nil {
		w.with = c.template(path("crew"), s.Crew.value(), ctx)
	}
	if s.Load != nil {
		w.with = c.template(path("load"), s.Load.value(), ctx)
	}
	if h := s.HTTP; h != nil {
		w.method, w.expect = h.Method, h.Expect
		w.url = c.template(path("http.url"), h.URL, ctx)
		w.headers = c.named(path("http.headers"), h.Headers, ctx)
		if h.Body != nil {
			w.body = c.template(path("http.body"), h.Body, ctx)
		}
	}
}

// condition compiles an `if`, which is one expression.
func (c *compilation) condition(path, text string, ctx context) *program {
	t := c.compiler(ctx)
	if p, ok := wholeExpression(text); ok {
		return t.expression(path, p, true)
	}
	if hasExpression(text) {
		c.e.ReportAt(path, "an `if` is one expression", "put all of it into one ${{ }}, or leave ${{ }} out")
		return &program{}
	}
	return t.expression(path, piece{text: text}, true)
}

// foreach compiles a list, or one expression.
func (c *compilation) foreach(path string, v any, ctx context) *template {
	text, ok := v.(string)
	if !ok {
		return c.template(path, v, ctx)
	}
	p, ok := wholeExpression(text)
	if !ok {
		c.e.ReportAt(path, fmt.Sprintf("want a list, or one expression, got text %q", document.Shorten(text)), "write ${{ EXPRESSION }}")
		return &template{}
	}
	return &template{path: path, kind: textTemplate, parts: []part{{program: c.compiler(ctx).expression(path, p, false)}}}
}

func (c *compilation) template(path string, v any, ctx context) *template {
	return c.compiler(ctx).compile(path, v)
}

func (c *compilation) named(path string, m map[string]string, ctx context) []namedTemplate {
	var out []namedTemplate
	for _, name := range sortedKeys(m) {
		out = append(out, namedTemplate{name, c.template(document.JoinPath(path, name), m[name], ctx)})
	}
	return out
}

func (c *compilation) compiler(ctx context) *templateCompiler {
	return &templateCompiler{
		variables: c.variables,
		programs:  c.programs,
		others:    c.e.programs,
		report:    c.fault,
		check:     func(path string, p piece, prog *program) bool { return c.references(path, p, prog, &ctx) },
	}
}

func (c *compilation) fault(path string, p piece, err *exprError) {
	c.e.Report(c.e.expressionPlace(path, p, err.at), path, err.message, err.hint)
}

// references checks whether the names in an expression are known in its place, and
// reports whether all are.
func (c *compilation) references(path string, p piece, prog *program, ctx *context) bool {
	before := len(c.e.Problems)
	fault := func(at int, hint, format string, args ...any) {
		c.fault(path, p, &exprError{message: fmt.Sprintf(format, args...), hint: hint, at: at})
	}
	for _, ref := range prog.refs.steps {
		c.stepReference(ref, ctx, fault)
	}
	for _, ref := range prog.refs.names {
		c.nameReference(ref, ctx, fault)
	}
	for _, ref := range prog.refs.roots {
		c.rootReference(ref, prog, ctx, fault)
	}
	return len(c.e.Problems) == before
}

// A faultFunc reports what is wrong at a byte of an expression.
type faultFunc func(at int, hint, format string, args ...any)

// nameReference checks a name that follows a variable.
func (c *compilation) nameReference(ref nameRef, ctx *context, fault faultFunc) {
	switch ref.root {
	case "inputs":
		if c.d.inputs[ref.name] == nil {
			fault(ref.at, c.e.Suggest(ref.name, sortedKeys(c.d.inputs)), "there is no input %q", ref.name)
		}
	case "env":
		if !ctx.noEnv && !slices.Contains(ctx.env, ref.name) {
			fault(ref.at, c.envHint(ref.name, ctx.env), "there is no variable %q in env", ref.name)
		}
	case "matrix":
		names := axisNames(ctx.axes)
		if len(names) > 0 && !slices.Contains(names, ref.name) {
			fault(ref.at, c.e.Suggest(ref.name, names), "there is no %q in the matrix", ref.name)
		}
	case "job":
		switch {
		case ctx.early && ref.name != "workflow":
			fault(ref.at, "", "%s cannot refer to job.%s: there is no job yet", ctx.where, ref.name)
		case !ctx.hook && (ref.name == "error" || ref.name == "status"):
			fault(ref.at, "", "`job.%s` is available in hooks only", ref.name)
		}
	}
}

func axisNames(axes []Axis) []string {
	var names []string
	for _, a := range axes {
		names = append(names, a.Name)
	}
	return names
}

// rootReference checks a variable.
func (c *compilation) rootReference(ref nameRef, prog *program, ctx *context, fault faultFunc) {
	hint := func(known string) string { return cmp.Or(ctx.hint, known) }
	switch {
	case ref.root == "env" && ctx.noEnv:
		fault(ref.at, "", "%s cannot refer to env", ctx.where)
	case ref.root == "item" && !ctx.item:
		fault(ref.at, hint("only a step with foreach has it"), "`item` is not available here")
	case ref.root == "index" && !ctx.item && ctx.axes == nil:
		fault(ref.at, hint("only a step with foreach or matrix has it"), "`index` is not available here")
	case ref.root == "matrix" && ctx.axes == nil:
		fault(ref.at, hint("only a step with matrix has it"), "`matrix` is not available here")
	case ref.root == "job" && ctx.early && !slices.ContainsFunc(prog.refs.names, func(n nameRef) bool { return n.root == "job" && n.at == ref.at }):
		fault(ref.at, "", "%s cannot refer to job: there is no job yet", ctx.where)
	}
}

func (c *compilation) envHint(name string, known []string) string {
	if hint := c.e.Suggest(name, known); hint != "" {
		return hint
	}
	return "env holds what the file sets, not the environment of the machine"
}

func (c *compilation) stepReference(ref stepRef, ctx *context, fault faultFunc) {
	n := c.d.byID[ref.id]
	if n > 0 {
		c.formReference(ref, &c.d.Nodes[n-1], fault)
	}
	switch {
	case n == 0:
		fault(ref.at, c.e.Suggest(ref.id, c.ids()), "there is no step %q", ref.id)
	case c.d.Nodes[n-1].Hook != NoHook:
		fault(ref.at, "", "%q is a hook: steps cannot refer to its output and status", ref.id)
	case ctx.all || ctx.steps != nil && ctx.steps.has(n):
	case n == ctx.self:
		fault(ref.at, "", "step %q refers to itself", ref.id)
	case ctx.where != "":
		fault(ref.at, "", "%s cannot refer to steps", ctx.where)
	default:
		field := "output"
		if ref.status {
			field = "status"
		}
		fault(ref.at, fmt.Sprintf("add %s to needs", ref.id), "the %s of step %q is not available here: this step does not need it, directly or through others", field, ref.id)
	}
}

// formReference checks a field of the output of an approval.
func (c *compilation) formReference(ref stepRef, n *Node, fault faultFunc) {
	if n.Approval == nil || n.Fans() || ref.field == "" {
		return
	}
	var names []string
	for _, in := range n.Approval.Form {
		names = append(names, in.Name)
	}
	if !slices.Contains(names, ref.field) {
		fault(ref.at, c.e.Suggest(ref.field, names), "the form of step %q has no field %q", ref.id, ref.field)
	}
}

// nodesOf returns the nodes that programs refer to, ascending.
func (d *Definition) nodesOf(each func(func(*program))) []int {
	var nodes []int
	each(func(p *program) {
		for _, ref := range p.refs.steps {
			nodes = append(nodes, d.byID[ref.id])
		}
	})
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// IfNeeds returns the nodes whose output or status the `if` of node n names.
func (d *Definition) IfNeeds(n int) []int {
	return d.nodesOf(func(do func(*program)) {
		if p := d.Nodes[n-1].condition; p != nil {
			do(p)
		}
	})
}

// ForeachNeeds returns the nodes whose output or status the `foreach` of node n
// names.
func (d *Definition) ForeachNeeds(n int) []int { return d.nodesOf(d.Nodes[n-1].foreach.each) }

// RenderNeeds returns the nodes whose output or status the work of node n names.
// The caller must not change it.
func (d *Definition) RenderNeeds(n int) []int { return d.Nodes[n-1].work.needs }

// WaitNeeds returns the nodes whose output or status EvalWait of node n names.
func (d *Definition) WaitNeeds(n int) []int { return d.nodesOf(d.Nodes[n-1].wait.each) }

// OutputNeeds returns the nodes whose output or status the workflow's output
// names.
func (d *Definition) OutputNeeds() []int { return d.nodesOf(d.output.each) }
