package workflow

import (
	"fmt"
	"strings"

	"github.com/expr-lang/expr/types"

	"github.com/pawl-dev/pawl/internal/document"
)

// A template is a value of the file that may contain expressions: a scalar, a list or
// an object.
type template struct {
	path  string
	value any          // a scalar, if parts is nil
	parts []part       // of a string with expressions
	list  []*template  // of a list
	keys  []string     // of an object, sorted
	vals  []*template  // of an object, by keys
	kind  templateKind // which of them it is
}

type templateKind int

const (
	constantTemplate templateKind = iota
	textTemplate
	listTemplate
	objectTemplate
)

// A part is literal text, or an expression.
type part struct {
	text    string
	program *program
}

// A namedTemplate is an entry of an environment.
type namedTemplate struct {
	name string
	*template
}

// A piece is a part of a string before it is compiled.
type piece struct {
	text       string
	expression bool
	at         int // of an expression: its byte offset in the string, behind ${{
	ordinal    int // of an expression: the number of ${{ before it, escaped ones included
}

// splitTemplate splits a string into text and expressions. "$${{" means "${{".
func splitTemplate(s string) ([]piece, *exprError) {
	var pieces []piece
	var text strings.Builder
	seen := 0
	for i := 0; i < len(s); {
		if strings.HasPrefix(s[i:], "$${{") {
			text.WriteString("${{")
			i += len("$${{")
			seen++
			continue
		}
		if !strings.HasPrefix(s[i:], "${{") {
			text.WriteByte(s[i])
			i++
			continue
		}
		start := i + len("${{")
		length, ok := expressionLength(s[start:])
		if !ok {
			return nil, &exprError{message: "`${{` is not closed by `}}`", hint: "write $${{ for the text itself", at: seen}
		}
		if text.Len() > 0 {
			pieces = append(pieces, piece{text: text.String()})
			text.Reset()
		}
		pieces = append(pieces, piece{text: s[start : start+length], expression: true, at: start, ordinal: seen})
		i = start + length + len("}}")
		seen++
	}
	if text.Len() > 0 || len(pieces) == 0 {
		pieces = append(pieces, piece{text: text.String()})
	}
	return pieces, nil
}

// expressionLength returns the offset of the "}}" that ends an expression: outside
// quotes and braces.
func expressionLength(s string) (int, bool) {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '"', '\'', '`':
			end := quoteEnd(s[i+1:], c)
			if end < 0 {
				return 0, false
			}
			i += 1 + end
		case '{':
			depth++
		case '}':
			if depth > 0 {
				depth--
			} else if strings.HasPrefix(s[i:], "}}") {
				return i, true
			}
		}
	}
	return 0, false
}

func quoteEnd(s string, quote byte) int {
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == quote:
			return i
		case s[i] == '\\' && quote != '`':
			i++
		}
	}
	return -1
}

// hasExpression reports whether s contains ${{.
func hasExpression(s string) bool { return strings.Contains(s, "${{") }

// wholeExpression returns the expression that s consists of, except for space around
// it.
func wholeExpression(s string) (piece, bool) {
	trimmed := strings.TrimSpace(s)
	pieces, err := splitTemplate(trimmed)
	if err != nil || len(pieces) != 1 || !pieces[0].expression {
		return piece{}, false
	}
	pieces[0].at += strings.Index(s, trimmed)
	return pieces[0], true
}

// each calls do for every program of the template.
func (t *template) each(do func(*program)) {
	if t == nil {
		return
	}
	for _, p := range t.parts {
		if p.program != nil {
			do(p.program)
		}
	}
	for _, c := range t.list {
		c.each(do)
	}
	for _, c := range t.vals {
		c.each(do)
	}
}

// A programKey identifies a program.
type programKey struct {
	text     string
	wantBool bool
}

// A templateCompiler compiles templates and reports what is wrong with them.
type templateCompiler struct {
	variables types.Map
	programs  map[programKey]*program // compiled before, shared by the file
	others    int                     // how many the children have
	report    func(path string, p piece, err *exprError)
	check     func(path string, p piece, prog *program) bool // false: it has reported something
}

// compile compiles a value of the normalised file.
func (c *templateCompiler) compile(path string, v any) *template {
	t := &template{path: path}
	switch v := v.(type) {
	case string:
		t.kind = textTemplate
		t.parts = c.parts(path, v)
	case []any:
		t.kind = listTemplate
		for i, e := range v {
			t.list = append(t.list, c.compile(fmt.Sprintf("%s[%d]", path, i), e))
		}
	case map[string]any:
		t.kind = objectTemplate
		t.keys = sortedKeys(v)
		for _, k := range t.keys {
			t.vals = append(t.vals, c.compile(document.JoinPath(path, k), v[k]))
		}
	default:
		plain, err := plainNumbers(v, 0)
		if err != nil {
			c.report(path, piece{}, &exprError{message: err.Error()})
		}
		t.value = plain
	}
	return t
}

func (c *templateCompiler) parts(path, s string) []part {
	pieces, err := splitTemplate(s)
	if err != nil {
		c.report(path, piece{ordinal: err.at, expression: true}, &exprError{message: err.message, hint: err.hint})
		return nil
	}
	var parts []part
	for _, p := range pieces {
		if !p.expression {
			parts = append(parts, part{text: p.text})
			continue
		}
		parts = append(parts, part{program: c.expression(path, p, false)})
	}
	return parts
}

// expression compiles one expression. If it does not compile, that is reported, and the
// returned program cannot be run.
func (c *templateCompiler) expression(path string, p piece, wantBool bool) *program {
	key := programKey{p.text, wantBool}
	if prog := c.programs[key]; prog != nil {
		c.check(path, p, prog)
		return prog
	}
	if len(c.programs)+c.others >= MaxPrograms {
		c.report(path, p, &exprError{message: fmt.Sprintf("the workflow and its children have more than %d different expressions", MaxPrograms)})
		return &program{text: p.text}
	}
	prog, err := compileExpression(p.text, c.variables, wantBool)
	if err == nil {
		c.programs[key] = prog
	}
	if clean := c.check(path, p, prog); clean && err != nil {
		c.report(path, p, err)
	}
	return prog
}
