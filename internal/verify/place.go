package verify

import (
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Locate finds the lines of the findings about a file, and sorts all findings by the
// order of the file. Findings about its child workflows get no line. A key that is not
// in the file, a default, has the line of its step.
func (r *Report) Locate(src []byte) {
	file, err := parser.ParseBytes(src, 0)
	if err == nil && len(file.Docs) > 0 {
		for i := range r.Findings {
			if f := &r.Findings[i]; f.File == "" && f.Key != "" {
				f.Line, f.Column = locate(file.Docs[0].Body, f.Key)
			}
		}
	}
	r.sort()
}

// locate follows a key as far as the file has it, and returns the place of the last
// value or key that exists.
func locate(node ast.Node, key string) (line, column int) {
	for _, part := range parts(key) {
		next := inside(node, part)
		if next == nil {
			break
		}
		node = next
	}
	return place(node)
}

func place(node ast.Node) (line, column int) {
	switch n := node.(type) {
	case *ast.MappingNode:
		if len(n.Values) > 0 {
			return place(n.Values[0])
		}
	case *ast.MappingValueNode:
		return place(n.Key)
	case *ast.SequenceNode:
		if len(n.Values) > 0 {
			return place(n.Values[0])
		}
	case *ast.LiteralNode:
		return place(n.Value)
	}
	token := node.GetToken()
	if token == nil || token.Position == nil {
		return 0, 0
	}
	return token.Position.Line, token.Position.Column
}

// parts splits a key: steps[2].env.FILE is steps, 2, env and FILE.
func parts(key string) []string {
	return strings.FieldsFunc(key, func(r rune) bool { return r == '.' || r == '[' || r == ']' })
}

func inside(node ast.Node, part string) ast.Node {
	switch n := node.(type) {
	case *ast.MappingNode:
		for _, v := range n.Values {
			if named(v, part) {
				return v.Value
			}
		}
	case *ast.MappingValueNode:
		if named(n, part) {
			return n.Value
		}
	case *ast.SequenceNode:
		if i, err := strconv.Atoi(part); err == nil && i < len(n.Values) {
			return n.Values[i]
		}
	}
	return nil
}

func named(v *ast.MappingValueNode, part string) bool {
	token := v.Key.GetToken()
	return token != nil && token.Value == part
}
