package workflow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"

	"github.com/pawl-dev/pawl/internal/document"
)

// A collector walks an expression and records the names in it. Children come before
// their parents, so an identifier is recorded before it is known to be part of a path.
type collector struct {
	text   string
	refs   references
	locals map[string]bool // names declared by let
	idents []*ast.IdentifierNode
	whole  map[*ast.IdentifierNode]bool // identifiers that a full path has consumed
	partly []*ast.MemberNode            // steps.ID without a field, so far
	fields map[*ast.MemberNode]int      // steps.ID.output, by their place among the steps of refs
	fault  *exprError
}

// Visit records one node; it changes nothing.
func (c *collector) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		c.idents = append(c.idents, n)
	case *ast.VariableDeclaratorNode:
		c.locals[n.Name] = true
	case *ast.MemberNode:
		c.member(n)
	}
}

func (c *collector) offset(n ast.Node) int { return byteOffset(c.text, n.Location().From) }

func (c *collector) member(n *ast.MemberNode) {
	name, literal := n.Property.(*ast.StringNode)
	switch base := unchained(n.Node).(type) {
	case *ast.IdentifierNode:
		c.memberOfVariable(n, base, name, literal)
	case *ast.MemberNode:
		c.fieldOfStep(n, base, name, literal)
	}
}

// memberOfVariable records inputs.NAME and the like, and the first half of steps.ID.
func (c *collector) memberOfVariable(n *ast.MemberNode, base *ast.IdentifierNode, name *ast.StringNode, literal bool) {
	switch {
	case base.Value == "steps" && literal:
		c.whole[base] = true
		c.partly = append(c.partly, n)
	case base.Value == "steps" || base.Value == "env":
		if !literal {
			c.fail(n, fmt.Sprintf("%s[...] needs a literal name", base.Value), "")
			return
		}
		fallthrough
	case (base.Value == "inputs" || base.Value == "matrix" || base.Value == "job") && literal:
		c.whole[base] = true
		c.refs.names = append(c.refs.names, nameRef{root: base.Value, name: name.Value, at: c.offset(base)})
	}
}

// fieldOfStep records steps.ID.output and steps.ID.status, and which field of the
// output is used.
func (c *collector) fieldOfStep(n, base *ast.MemberNode, name *ast.StringNode, literal bool) {
	if i, ok := c.fields[base]; ok && literal {
		c.refs.steps[i].field = name.Value
	}
	i := slices.Index(c.partly, base)
	if i < 0 {
		return
	}
	c.partly = slices.Delete(c.partly, i, i+1)
	id := base.Property.(*ast.StringNode).Value
	if !literal || name.Value != "output" && name.Value != "status" {
		c.fail(base, fmt.Sprintf("a step has output and status: write steps.%s.output or steps.%s.status", id, id), "")
		return
	}
	if name.Value == "output" {
		c.fields[n] = len(c.refs.steps)
	}
	root := unchained(base.Node)
	c.refs.steps = append(c.refs.steps, stepRef{id: id, status: name.Value == "status", at: c.offset(root)})
}

// unchained removes optional chaining.
func unchained(n ast.Node) ast.Node {
	for {
		chain, ok := n.(*ast.ChainNode)
		if !ok {
			return n
		}
		n = chain.Node
	}
}

func (c *collector) fail(n ast.Node, message, hint string) {
	if c.fault == nil {
		c.fault = &exprError{message: message, hint: hint, at: c.offset(n)}
	}
}

// finish returns the references, or the first fault.
func (c *collector) finish() (references, *exprError) {
	for _, n := range c.idents {
		c.identifier(n)
	}
	for _, n := range c.partly {
		id := n.Property.(*ast.StringNode).Value
		c.fail(n.Node, fmt.Sprintf("a step has output and status: write steps.%s.output or steps.%s.status", id, id), "")
	}
	return c.refs, c.fault
}

// identifier judges a bare name.
func (c *collector) identifier(n *ast.IdentifierNode) {
	name := n.Value
	switch {
	case c.locals[name]:
	case slices.Contains(clockFunctions, name):
		c.fail(n, fmt.Sprintf("%s() is not available: expressions have no clock", name), "pass the time in as an input")
	case name == "steps" && !c.whole[n]:
		c.fail(n, "`steps` alone is not a value: write steps.ID.output or steps.ID.status", "")
	case name == "env" && !c.whole[n]:
		c.fail(n, "`env` alone is not a value: write env.NAME", "")
	case slices.Contains(variableNames, name):
		c.refs.roots = append(c.refs.roots, nameRef{root: name, at: c.offset(n)})
	case functionTypes[name] != nil && !strings.HasPrefix(name, "__"):
	default:
		hint := ""
		if near := document.Nearest(name, knownNames); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		c.fail(n, fmt.Sprintf("unknown name %q", name), hint)
	}
}
