package workflow

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"
)

// Limits of expressions.
const (
	MaxExpression = 4096      // bytes of one expression
	MaxPrograms   = 5000      // different expressions of one file
	maxNodes      = 500       // of its syntax tree
	maxMemory     = 1_000_000 // elements of the lists that one evaluation makes
	maxCost       = 2_000_000 // units of work of one evaluation; see meter
)

// A program is one expression, compiled.
type program struct {
	text string
	code *vm.Program
	refs references
}

// references are the names in an expression.
type references struct {
	steps []stepRef
	names []nameRef // inputs.NAME, env.NAME, matrix.NAME and job.NAME
	roots []nameRef // variables used at all
}

type stepRef struct {
	id     string
	status bool   // or the output
	field  string // of the output that is used, if known
	at     int
}

type nameRef struct {
	root, name string
	at         int // byte offset into the expression
}

func (r *references) uses(root string) bool {
	return slices.ContainsFunc(r.roots, func(n nameRef) bool { return n.root == root })
}

// An exprError is a fault of an expression at a byte offset.
type exprError struct {
	message string
	hint    string
	at      int
}

func (e *exprError) Error() string { return e.message }

// compileExpression checks the expression against the variables and compiles it. With
// wantBool, an expression that cannot be a boolean is refused. The program has its
// references even if there is an error.
func compileExpression(text string, variables types.Map, wantBool bool) (*program, *exprError) {
	p := &program{text: text}
	if len(text) > MaxExpression {
		return p, &exprError{message: fmt.Sprintf("the expression is %d bytes long; at most %d are allowed", len(text), MaxExpression)}
	}
	if strings.TrimSpace(text) == "" {
		return p, &exprError{message: "the expression is empty"}
	}
	if err := p.check(variables, wantBool); err != nil {
		return p, err
	}
	code, err := expr.Compile(text, append(slices.Clone(languageOptions), expr.Env(meteredEnv), expr.Patch(rewriter{}))...)
	if err != nil {
		return p, locate(text, err)
	}
	p.code = code
	return p, nil
}

// check parses the expression, collects what it names, and checks its types.
func (p *program) check(variables types.Map, wantBool bool) *exprError {
	c := &collector{text: p.text, locals: map[string]bool{}, whole: map[*ast.IdentifierNode]bool{}, fields: map[*ast.MemberNode]int{}}
	options := append(slices.Clone(languageOptions), expr.Env(variables), expr.Patch(c))
	if wantBool {
		options = append(options, expr.AsBool())
	}
	_, err := expr.Compile(p.text, options...)
	refs, fault := c.finish()
	if fault != nil {
		return fault
	}
	p.refs = refs
	if err != nil {
		return locate(p.text, err)
	}
	return nil
}

// locate turns an error of the expression language into a fault with its place.
func locate(text string, err error) *exprError {
	var fe *file.Error
	if strings.Contains(err.Error(), "exceeds maximum allowed nodes") {
		return &exprError{message: fmt.Sprintf("the expression has more than %d parts", maxNodes)}
	}
	if !errors.As(err, &fe) {
		return &exprError{message: err.Error()}
	}
	return &exprError{message: fe.Message, at: byteOffset(text, fe.From)}
}

func byteOffset(text string, runes int) int {
	for i := range text {
		if runes == 0 {
			return i
		}
		runes--
	}
	return len(text)
}

// languageOptions fix the language: which builtins exist, and that the compiler changes
// nothing.
var languageOptions = func() []expr.Option {
	options := []expr.Option{expr.Optimize(false), expr.MaxNodes(maxNodes)}
	for _, name := range slices.Concat(clockFunctions, replacedFunctions) {
		options = append(options, expr.DisableBuiltin(name))
	}
	return options
}()

// variableNames are the variables of expressions; whether one is allowed is checked
// with the step.
var variableNames = []string{"inputs", "steps", "item", "index", "job", "env", "matrix"}

// variableTypes returns the types of the variables, given those of the inputs.
func variableTypes(inputs types.Map) types.Map {
	m := types.Map{
		"inputs": inputs,
		"steps":  types.Map{types.Extra: types.Map{"output": types.Any, "status": types.String}},
		"item":   types.Any,
		"index":  types.Int,
		"matrix": types.Any,
		"job":    types.Map{"id": types.String, "workflow": types.String, "error": types.Any, "status": types.Any},
		"env":    types.Map{types.Extra: types.String},
	}
	for name, t := range functionTypes {
		m[name] = t
	}
	return m
}

// inputTypes returns the types of inputs that are never null; the others may
// be anything.
func inputTypes(inputs []Input) types.Map {
	m := types.Map{}
	for _, in := range inputs {
		m[in.Name] = types.Any
		if !in.Required && in.Default == nil {
			continue
		}
		switch in.Type {
		case TypeString:
			m[in.Name] = types.String
		case TypeInteger:
			m[in.Name] = types.Int
		case TypeBoolean:
			m[in.Name] = types.Bool
		}
	}
	return m
}
