package workflow

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"reflect"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/types"
)

// The rewriter changes the syntax tree so that all work whose size depends on data is
// counted, and an evaluation ends when its budget is used up: each call of a predicate
// is counted, operands of functions and operators that read whole values are charged by
// their size, and the operators that make or compare values are Pawl's own. The meaning
// stays the same, except that integers do not wrap around.
type rewriter struct{}

// The names that only the rewriter uses.
const (
	nameTick  = "__tick"
	nameCost  = "__cost"
	nameAdd   = "__add"
	nameSub   = "__sub"
	nameMul   = "__mul"
	nameEqual = "__equal"
	nameIn    = "__in"
)

func (rewriter) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.BinaryNode:
		rewriteOperator(node, n)
	case *ast.BuiltinNode:
		rewriteBuiltin(node, n)
	}
}

func rewriteOperator(node *ast.Node, n *ast.BinaryNode) {
	switch n.Operator {
	case "+":
		replace(node, nameAdd, n.Left, n.Right)
	case "-":
		replace(node, nameSub, n.Left, n.Right)
	case "*":
		replace(node, nameMul, n.Left, n.Right)
	case "==":
		replace(node, nameEqual, n.Left, n.Right)
	case "!=":
		replace(node, nameEqual, n.Left, n.Right)
		not := &ast.UnaryNode{Operator: "not", Node: *node}
		not.SetLocation(n.Location())
		*node = not
	case "in":
		replace(node, nameIn, n.Left, n.Right)
	case "contains", "startsWith", "endsWith", "matches", "<", ">", "<=", ">=":
		n.Left = charged(n.Left)
		if _, literal := n.Right.(*ast.StringNode); !literal {
			n.Right = charged(n.Right)
		}
	}
}

func rewriteBuiltin(node *ast.Node, n *ast.BuiltinNode) {
	for i, arg := range n.Arguments {
		if p, ok := arg.(*ast.PredicateNode); ok {
			body := &ast.SequenceNode{Nodes: []ast.Node{call(nameTick, p.Node), p.Node}}
			body.SetLocation(p.Node.Location())
			p.Node = body
			continue
		}
		n.Arguments[i] = charged(arg)
	}
	*node = charged(n)
}

// charged wraps n in a charge for the size of its value.
func charged(n ast.Node) ast.Node {
	switch n.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NilNode:
		return n
	}
	return call(nameCost, n, n)
}

// call makes a call in the place of at.
func call(name string, at ast.Node, args ...ast.Node) ast.Node {
	callee := &ast.IdentifierNode{Value: name}
	callee.SetLocation(at.Location())
	c := &ast.CallNode{Callee: callee, Arguments: args}
	c.SetLocation(at.Location())
	return c
}

func replace(node *ast.Node, name string, args ...ast.Node) {
	*node = call(name, *node, args...)
}

// A meter counts the work of one evaluation.
type meter struct{ left int }

var errCost = errors.New("the expression does too much work: use smaller lists or less nesting")

// spend takes n units; the panic ends the evaluation with an error.
func (m *meter) spend(n int) {
	if n > m.left {
		m.left = 0
		panic(errCost)
	}
	m.left -= n
}

// charge spends the cost of reading a value once.
func (m *meter) charge(v any) { m.spend(1 + sizeOf(v)) }

// sizeOf returns the size of a value without what is nested in it: elements,
// or sixteenths of bytes.
func sizeOf(v any) int {
	switch v := v.(type) {
	case string:
		return len(v) / 16
	case []any:
		return len(v)
	case map[string]any:
		return len(v)
	case nil, bool, int, float64:
		return 0
	}
	if r := reflect.ValueOf(v); r.Kind() == reflect.Slice || r.Kind() == reflect.Map {
		return r.Len()
	}
	return 0
}

func (m *meter) tick(...any) any { m.spend(1); return nil }

func (m *meter) cost(args ...any) any { m.charge(args[0]); return args[0] }

// environment returns the functions of one evaluation, bound to m.
func (m *meter) environment() map[string]any {
	env := map[string]any{
		nameTick: m.tick, nameCost: m.cost, nameAdd: m.add, nameSub: m.sub, nameMul: m.mul,
		nameEqual: func(args ...any) any { return m.equal(args[0], args[1]) }, nameIn: m.in,
	}
	for name, f := range functions {
		env[name] = func(args ...any) any { return f(m, args) }
	}
	return env
}

// meteredEnv is the environment against which rewritten expressions are compiled.
var meteredEnv = func() types.Map {
	env := types.Map{}
	for _, name := range variableNames {
		env[name] = types.Any
	}
	for name := range new(meter).environment() {
		env[name] = types.TypeOf(new(meter).tick)
	}
	env[nameEqual], env[nameIn] = types.TypeOf(predicate), types.TypeOf(predicate)
	return env
}()

func predicate(...any) bool { return false }

func (m *meter) add(args ...any) any {
	m.spend(1)
	if a, ok := args[0].(string); ok {
		if b, ok := args[1].(string); ok {
			m.spend((len(a) + len(b)) / 16)
			return a + b
		}
	}
	return arithmetic("+", args, func(a, b int) (int, bool) {
		sum := a + b
		return sum, (sum > a) == (b > 0)
	}, func(a, b float64) float64 { return a + b })
}

func (m *meter) sub(args ...any) any {
	m.spend(1)
	return arithmetic("-", args, func(a, b int) (int, bool) {
		difference := a - b
		return difference, (difference < a) == (b > 0)
	}, func(a, b float64) float64 { return a - b })
}

func (m *meter) mul(args ...any) any {
	m.spend(1)
	return arithmetic("*", args, func(a, b int) (int, bool) {
		high, low := bits.Mul64(magnitude(a), magnitude(b))
		return a * b, high == 0 && (low <= math.MaxInt64 || low == 1<<63 && (a < 0) != (b < 0))
	}, func(a, b float64) float64 { return a * b })
}

func magnitude(a int) uint64 {
	if a < 0 {
		return uint64(-(a + 1)) + 1
	}
	return uint64(a)
}

func arithmetic(op string, args []any, ints func(a, b int) (int, bool), floats func(a, b float64) float64) any {
	a, aInt := args[0].(int)
	b, bInt := args[1].(int)
	if aInt && bInt {
		v, ok := ints(a, b)
		if !ok {
			panic(fmt.Errorf("%d %s %d does not fit 64 bits", a, op, b))
		}
		return v
	}
	x, xok := toFloat(args[0])
	y, yok := toFloat(args[1])
	if !xok || !yok {
		panic(fmt.Errorf("%s %s %s is not possible", typeName(args[0]), op, typeName(args[1])))
	}
	return floats(x, y)
}

func toFloat(v any) (float64, bool) {
	switch v := v.(type) {
	case int:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// typeName names the type of a value as the workflow file does.
func typeName(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case int:
		return "integer"
	case float64:
		return "number"
	case largeInteger:
		return "integer beyond 64 bits"
	case string:
		return "string"
	case map[string]any:
		return "object"
	default:
		switch reflect.ValueOf(v).Kind() {
		case reflect.Slice, reflect.Array:
			return "array"
		case reflect.Map:
			return "object"
		}
		return fmt.Sprintf("%T", v)
	}
}
