package expressions

import (
	"maps"
	"slices"
	"strconv"

	"github.com/expr-lang/expr/ast"

	"github.com/pawl-dev/pawl/workflow"
)

// A shape is what the expressions of a file assume about a value.
type shape struct {
	fields   map[string]*shape
	element  *shape // of a list
	list     bool
	number   bool
	truth    bool
	text     bool
	literals []any // that it is compared with
	decides  bool  // a condition or a foreach depends on it
	opaque   bool  // expressions compute with it, so its literals do not cover all cases
}

func (s *shape) field(name string) *shape {
	if s.fields == nil {
		s.fields = map[string]*shape{}
	}
	if s.fields[name] == nil {
		s.fields[name] = &shape{}
	}
	return s.fields[name]
}

func (s *shape) elements() *shape {
	s.list = true
	if s.element == nil {
		s.element = &shape{}
	}
	return s.element
}

// shapes are those of the outputs of steps, and of inputs.
type shapes struct {
	r       *Reading
	outputs map[int]*shape
	inputs  map[string]*shape
	items   map[int]*shape // of the items of a foreach
}

// newShapes learns from every expression. The sources of the items of a foreach come
// first.
func newShapes(r *Reading) *shapes {
	k := &shapes{r: r, outputs: map[int]*shape{}, inputs: map[string]*shape{}, items: map[int]*shape{}}
	for n := 1; n <= len(r.Definition.Nodes); n++ {
		k.outputs[n], k.items[n] = &shape{}, &shape{}
		if r.Definition.Node(n).Fans() {
			k.outputs[n].list, k.outputs[n].element = true, &shape{}
		}
	}
	for _, in := range r.Definition.Inputs {
		k.inputs[in.Name] = &shape{}
	}
	for n := 1; n <= len(r.Definition.Nodes); n++ {
		for _, e := range r.At(UseForeach, n) {
			w := &learner{k: k, e: e, decides: true}
			if of := w.walk(e.tree); of != nil && e.Whole && e.Path == r.Paths[n]+".foreach" {
				of.decides = true
				k.items[n] = of.elements()
			}
		}
	}
	for _, e := range r.Exprs {
		if e.Use == UseForeach {
			continue
		}
		w := &learner{k: k, e: e, decides: e.Use == UseIf}
		if s := w.walk(e.tree); s != nil {
			if e.Use == UseIf {
				s.truth, s.decides = true, true
			} else if !e.Whole {
				s.text = true
			}
		}
	}
	return k
}

// A learner walks one expression.
type learner struct {
	k       *shapes
	e       *Expr
	decides bool
	locals  map[string]*shape
	pointer *shape // of the predicate around
}

// walk returns the shape of what n is taken from, or nil.
func (w *learner) walk(n ast.Node) *shape {
	s := w.of(n)
	if s != nil && w.decides {
		s.decides = true
	}
	return s
}

func (w *learner) of(n ast.Node) *shape {
	switch n := n.(type) {
	case *ast.IdentifierNode:
		if n.Value == "item" && w.e.Node > 0 {
			return w.k.items[w.e.Node]
		}
		return w.locals[n.Value]
	case *ast.PointerNode:
		return w.pointer
	case *ast.ChainNode:
		return w.walk(n.Node)
	case *ast.MemberNode:
		return w.member(n)
	case *ast.BinaryNode:
		return w.binary(n)
	case *ast.UnaryNode:
		if s := w.walk(n.Node); s != nil {
			s.truth = s.truth || n.Operator == "!" || n.Operator == "not"
			s.number = s.number || n.Operator == "-"
		}
	case *ast.BuiltinNode:
		return w.builtin(n)
	case *ast.ConditionalNode:
		if s := w.walk(n.Cond); s != nil {
			s.truth = true
		}
		w.walk(n.Exp2)
		return w.walk(n.Exp1)
	case *ast.VariableDeclaratorNode:
		s := w.walk(n.Value)
		if w.locals == nil {
			w.locals = map[string]*shape{}
		}
		w.locals[n.Name] = s
		return w.walk(n.Expr)
	default:
		w.children(n)
	}
	return nil
}

func (w *learner) children(n ast.Node) {
	var inner []ast.Node
	switch n := n.(type) {
	case *ast.CallNode:
		inner = n.Arguments
	case *ast.ArrayNode:
		inner = n.Nodes
	case *ast.MapNode:
		inner = n.Pairs
	case *ast.PairNode:
		inner = []ast.Node{n.Value}
	case *ast.SequenceNode:
		inner = n.Nodes
	case *ast.PredicateNode:
		inner = []ast.Node{n.Node}
	case *ast.SliceNode:
		if s := w.walk(n.Node); s != nil {
			s.elements()
		}
	}
	for _, c := range inner {
		w.walk(c)
	}
}

func (w *learner) member(n *ast.MemberNode) *shape {
	if root, fields, _ := path(n); len(fields) > 0 {
		switch {
		case root == "steps" && len(fields) == 2 && fields[1] == "output":
			return w.k.outputs[w.k.r.Definition.NodeByID(fields[0])]
		case root == "inputs" && len(fields) == 1:
			return w.k.inputs[fields[0]]
		case root == "steps" && len(fields) < 3, root == "matrix", root == "job", root == "env":
			return nil
		}
	}
	s := w.walk(n.Node)
	if s == nil {
		return nil
	}
	if name, ok := n.Property.(*ast.StringNode); ok {
		return s.field(name.Value)
	}
	w.walk(n.Property)
	return s.elements()
}

func (w *learner) binary(n *ast.BinaryNode) *shape {
	l, r := w.walk(n.Left), w.walk(n.Right)
	for _, side := range []struct {
		s     *shape
		other ast.Node
	}{{l, n.Right}, {r, n.Left}} {
		if side.s != nil {
			side.s.learn(n.Operator, side.other, side.s == r)
		}
	}
	if n.Operator == "??" {
		return l
	}
	return nil
}

// learn records what an operator shows about its operand.
func (s *shape) learn(operator string, other ast.Node, right bool) {
	s.literals = append(s.literals, literals(other)...)
	switch operator {
	case "<", "<=", ">", ">=":
		s.number = true
	case "+", "-", "*", "/", "%", "**":
		s.number, s.opaque = operator != "+", true
	case "contains", "startsWith", "endsWith", "matches":
		s.text, s.opaque = true, true
	case "&&", "and", "||", "or":
		s.truth = true
	case "in":
		if right {
			s.elements().literals = append(s.elements().literals, literals(other)...)
			s.literals = nil
		}
	}
}

// literals returns the constants of a literal, or of a list of them.
func literals(n ast.Node) []any {
	switch n := n.(type) {
	case *ast.StringNode:
		return []any{n.Value}
	case *ast.IntegerNode:
		return []any{n.Value}
	case *ast.FloatNode:
		return []any{n.Value}
	case *ast.BoolNode:
		return []any{n.Value}
	case *ast.ArrayNode:
		var all []any
		for _, e := range n.Nodes {
			all = append(all, literals(e)...)
		}
		return all
	}
	return nil
}

func (w *learner) builtin(n *ast.BuiltinNode) *shape {
	if len(n.Arguments) == 0 {
		return nil
	}
	s := w.walk(n.Arguments[0])
	outer := w.pointer
	defer func() { w.pointer = outer }()
	if len(n.Arguments) > 1 {
		w.pointer = nil
		if s != nil {
			if _, predicate := n.Arguments[1].(*ast.PredicateNode); predicate {
				w.pointer = s.elements()
			}
		}
	}
	for _, a := range n.Arguments[1:] {
		w.walk(a)
	}
	if s == nil {
		return nil
	}
	s.opaque = true
	switch n.Name {
	case "filter", "sortBy", "reverse", "take", "sort":
		s.elements()
		return s
	case "first", "last", "find", "findLast":
		return s.elements()
	case "len":
		if !s.text && s.fields == nil {
			s.elements()
		}
	case "trim", "upper", "lower", "hasPrefix", "hasSuffix", "split", "trimPrefix", "trimSuffix":
		s.text = true
	case "int", "float", "abs", "ceil", "floor", "round":
		s.number = true
	}
	return nil
}

// maxVariants bounds how many values of one output are tried.
const maxVariants = 6

// variants returns values of the shape, the simplest first: as many as make a
// difference to what depends on them, maxVariants at most. Without all it returns one.
func (s *shape) variants(all bool) []any {
	var list []any
	switch {
	case s.list || s.element != nil:
		list = s.lists(all)
	case len(s.fields) > 0:
		list = s.objects(all)
	default:
		list = s.scalars()
	}
	if !all || !s.decides {
		list = list[:1]
	}
	return list[:min(len(list), maxVariants)]
}

func (s *shape) lists(all bool) []any {
	element := &shape{}
	if s.element != nil {
		element = s.element
	}
	lists := []any{[]any{element.variants(false)[0], element.variants(false)[0]}, []any{}}
	if all {
		for _, v := range element.variants(true)[1:] {
			lists = append(lists, []any{v, v})
		}
	}
	return lists
}

// objects varies one field at a time, and all fields together if that gives few values.
func (s *shape) objects(all bool) []any {
	names := slices.Sorted(maps.Keys(s.fields))
	objects := []map[string]any{{}}
	for _, name := range names {
		values := s.fields[name].variants(all)
		var next []map[string]any
		for i, v := range values {
			for _, o := range objects {
				if i > 0 && len(objects)*len(values) > maxVariants && len(next) >= maxVariants {
					break
				}
				c := map[string]any{name: v}
				for k, old := range o {
					c[k] = old
				}
				next = append(next, c)
			}
		}
		objects = next
	}
	list := make([]any, len(objects))
	for i, o := range objects {
		list[i] = o
	}
	return list
}

func (s *shape) scalars() []any {
	if len(s.literals) > 0 {
		return s.around()
	}
	switch {
	case s.truth:
		return []any{true, false}
	case s.number:
		return []any{1, 0}
	case s.text:
		return []any{"made up"}
	}
	return []any{"made up"}
}

// around returns the literals, and values close to them.
func (s *shape) around() []any {
	var list []any
	add := func(v any) {
		if !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	for _, l := range s.literals {
		switch l := l.(type) {
		case int:
			add(l + 1)
			add(l)
			add(l - 1)
		case float64:
			add(l + 1)
			add(l)
			add(l - 1)
		case bool:
			add(l)
			add(!l)
		default:
			add(l)
		}
	}
	if len(list) > 0 {
		if _, text := list[0].(string); text {
			add("made up")
		}
	}
	return list
}

// variants returns possible outputs of step n, the simplest first.
func (k *shapes) variants(n int, instance, all bool) []any {
	node, s := k.r.Definition.Node(n), k.outputs[n]
	if instance && s.element != nil {
		s = s.element
		if len(node.Matrix) > 0 {
			s = s.field("output")
		}
	}
	switch {
	case node.Kind == workflow.KindSleep, node.Output == workflow.OutputNone && !node.Kind.Waits():
		return []any{nil}
	case node.Kind == workflow.KindHTTP:
		return k.response(s, all)
	case node.Kind == workflow.KindCommand || node.Kind == workflow.KindRun:
		return written(node.Output, s.variants(all))
	}
	return s.variants(all)
}

// written returns the values in the form of an output mode.
func written(mode workflow.OutputMode, values []any) []any {
	var list []any
	for _, v := range values {
		_, isList := v.([]any)
		switch mode {
		case workflow.OutputText:
			v = textOf(v)
		case workflow.OutputLines:
			if !isList {
				v = []any{textOf(v), "made up"}
			}
			lines := []any{}
			for _, e := range v.([]any) {
				lines = append(lines, textOf(e))
			}
			v = lines
		}
		list = append(list, v)
	}
	return list
}

func textOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case int:
		return strconv.Itoa(v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case bool:
		return strconv.FormatBool(v)
	}
	return "made up"
}

// response returns the output of a request.
func (k *shapes) response(s *shape, all bool) []any {
	var list []any
	body := s.fields["body"]
	if body == nil {
		body = &shape{}
	}
	for _, v := range body.variants(all) {
		list = append(list, map[string]any{"status": 200, "headers": map[string]any{"content-type": "application/json"}, "body": v})
	}
	return list
}
