package pawl_test

import (
	"go/ast"
	"go/constant"
	"go/token"
	"math"
	"os"
	"path"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestLimits: docs/limits.md says what the constants say.
func TestLimits(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	values := constants{decls: map[string]ast.Expr{}}
	for _, s := range sources(t) {
		values.add(s)
	}
	rows := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 6 || strings.HasPrefix(cells[1], "--") || strings.TrimSpace(cells[4]) == "constant" {
			continue
		}
		rows++
		want, ok := quantity(strings.TrimSpace(cells[2]))
		if !ok {
			t.Errorf("%q is no quantity, in %s", cells[2], line)
			continue
		}
		dir, name, _ := strings.Cut(strings.TrimSpace(cells[4]), " ")
		if got, ok := values.of(dir, name); !ok || got != want {
			t.Errorf("%s %s is %v (found: %t), and the document says %s", dir, name, got, ok, cells[2])
		}
	}
	if rows < 40 {
		t.Errorf("%d rows", rows)
	}
}

// units are those of docs/limits.md; durations are in nanoseconds.
var units = map[string]float64{"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "s": 1e9, "min": 60e9, "h": 3600e9, "days": 24 * 3600e9}

func quantity(text string) (float64, bool) {
	number, unit, _ := strings.Cut(text, " ")
	n, err := strconv.ParseFloat(strings.ReplaceAll(number, ",", ""), 64)
	times, ok := units[unit]
	return n * times, err == nil && ok
}

// constants evaluates constants of the packages of this module: numbers, durations, products, shifts.
type constants struct{ decls map[string]ast.Expr }

// add adds the declarations of a file, and the fields of its composite literals as NAME.FIELD.
func (c *constants) add(s source) {
	dir := path.Dir(s.path)
	for _, d := range s.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST && g.Tok != token.VAR {
			continue
		}
		for _, spec := range g.Specs {
			v := spec.(*ast.ValueSpec)
			for i := range min(len(v.Names), len(v.Values)) {
				name := dir + " " + v.Names[i].Name
				c.decls[name] = v.Values[i]
				if lit, ok := v.Values[i].(*ast.CompositeLit); ok {
					c.fields(name, lit)
				}
			}
		}
	}
}

func (c *constants) fields(name string, lit *ast.CompositeLit) {
	for _, e := range lit.Elts {
		if pair, ok := e.(*ast.KeyValueExpr); ok {
			if key, ok := pair.Key.(*ast.Ident); ok {
				c.decls[name+"."+key.Name] = pair.Value
			}
		}
	}
}

func (c *constants) of(dir, name string) (float64, bool) {
	e := c.decls[dir+" "+name]
	if e == nil {
		return 0, false
	}
	v := c.eval(dir, e)
	f, _ := constant.Float64Val(constant.ToFloat(v))
	return f, v.Kind() != constant.Unknown && !math.IsNaN(f)
}

var durations = map[string]time.Duration{"Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour}

func (c *constants) eval(dir string, e ast.Expr) constant.Value {
	switch e := e.(type) {
	case *ast.BasicLit:
		return constant.MakeFromLiteral(e.Value, e.Kind, 0)
	case *ast.Ident:
		if of := c.decls[dir+" "+e.Name]; of != nil {
			return c.eval(dir, of)
		}
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok && x.Name == "time" {
			return constant.MakeInt64(int64(durations[e.Sel.Name]))
		}
	case *ast.BinaryExpr:
		x, y := c.eval(dir, e.X), c.eval(dir, e.Y)
		if x.Kind() == constant.Unknown || y.Kind() == constant.Unknown {
			break
		}
		if e.Op == token.SHL {
			n, _ := constant.Uint64Val(y)
			return constant.Shift(x, token.SHL, uint(n))
		}
		return constant.BinaryOp(x, e.Op, y)
	}
	return constant.MakeUnknown()
}
