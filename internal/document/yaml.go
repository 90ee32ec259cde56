package document

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Limits of a file.
const (
	MaxSource  = 1 << 20 // bytes
	MaxDepth   = 100     // nesting of a value
	MaxMapping = 10_000  // entries of one mapping
)

// Hints are the hints for errors in the YAML of a kind of file.
type Hints struct {
	Empty   string // the file holds nothing
	Several string // it holds several documents
	Tag     string // a value begins with !
}

// Read reads one document into a value. Faults of the YAML itself are reported to e;
// the value is nil if there is nothing to examine.
func Read(e *Examiner, src []byte, hints Hints) *Value {
	if len(src) > MaxSource {
		e.Report(Place{}, "", fmt.Sprintf("the file has more than %d bytes", MaxSource), "")
		return nil
	}
	if at, what := badByte(src); what != "" {
		e.Report(at, "", what, "")
		return nil
	}
	file, fault := parseYAML(string(src))
	if fault != nil {
		e.Report(fault.Place, "", fault.message, fault.hint)
		return nil
	}
	docs := documents(file)
	switch {
	case len(docs) == 0:
		e.Report(Place{1, 1}, "", "the file is empty", hints.Empty)
		return nil
	case len(docs) > 1:
		e.Report(placeOf(docs[1].Start), "", "the file holds more than one document", hints.Several)
		return nil
	}
	r := yamlReader{e: e, hints: hints}
	return r.read("", docs[0].Body)
}

// badByte returns the place of the first byte that is not printable UTF-8, and its
// fault.
func badByte(src []byte) (Place, string) {
	at := Place{1, 1}
	for len(src) > 0 {
		r, size := utf8.DecodeRune(src)
		switch {
		case r == utf8.RuneError && size == 1:
			return at, fmt.Sprintf("the file is not text in UTF-8: byte 0x%02X", src[0])
		case r < ' ' && r != '\n' && r != '\r' && r != '\t':
			return at, fmt.Sprintf("the file has a control character, U+%04X", r)
		}
		at.Column++
		if r == '\n' {
			at = Place{at.Line + 1, 1}
		}
		src = src[size:]
	}
	return at, ""
}

type yamlFault struct {
	Place
	message, hint string
}

// parseYAML runs the parser. Duplicate keys are left to the examiner, which
// reports all of them. A panic of the parser is a fault of the file.
func parseYAML(src string) (file *ast.File, fault *yamlFault) {
	defer func() {
		if r := recover(); r != nil {
			file, fault = nil, &yamlFault{Place{1, 1}, "the file is not YAML that can be read", ""}
		}
	}()
	tokens := lexer.Tokenize(strings.TrimPrefix(src, "\ufeff"))
	if deep := tooDeep(tokens); deep != nil {
		return nil, &yamlFault{placeOf(deep), fmt.Sprintf("the value is nested deeper than %d", MaxDepth), ""}
	}
	if long := tooLong(tokens); long != nil {
		return nil, &yamlFault{placeOf(long), fmt.Sprintf("the mapping has more than %d entries", MaxMapping), ""}
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err == nil {
		return file, nil
	}
	var syntax yaml.Error
	if errors.As(err, &syntax) && syntax.GetToken() != nil {
		message, hint := syntax.GetMessage(), ""
		if strings.Contains(message, "'\t'") {
			message, hint = strings.ReplaceAll(message, "'\t'", "TAB"), "YAML is indented with spaces"
		}
		return nil, &yamlFault{placeOf(syntax.GetToken()), "not YAML: " + message, hint}
	}
	return nil, &yamlFault{Place{1, 1}, "not YAML: " + err.Error(), ""}
}

// tooDeep finds the token at which brackets, or the dashes and question marks
// of one line, nest deeper than any file does. It keeps the parser, which
// recurses, from exhausting the stack.
func tooDeep(tokens token.Tokens) *token.Token {
	flow, line, inLine := 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != line {
			line, inLine = t.Position.Line, 0
		}
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			flow++
		case token.MappingEndType, token.SequenceEndType:
			flow--
		case token.SequenceEntryType, token.MappingKeyType, token.TagType, token.AnchorType:
			inLine++
		}
		if flow > MaxDepth || inLine > MaxDepth || t.Position.Column > 4*MaxDepth && flow == 0 && t.Type == token.MappingValueType {
			return t
		}
	}
	return nil
}

// tooLong finds the key at which a mapping has more entries than any file
// has. The parser takes time in the square of them.
func tooLong(tokens token.Tokens) *token.Token {
	type mapping struct{ column, entries int }
	var open []mapping // by column, the innermost last
	closeBehind := func(column int) {
		for len(open) > 0 && open[len(open)-1].column > column {
			open = open[:len(open)-1]
		}
	}
	flow, entries := 0, 0
	for _, t := range tokens {
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			flow, entries = flow+1, 0
		case token.MappingEndType, token.SequenceEndType:
			flow, entries = flow-1, 0
		case token.SequenceEntryType:
			closeBehind(t.Position.Column)
		case token.MappingValueType:
			if flow > 0 || t.Prev == nil {
				entries++
			} else {
				column := t.Prev.Position.Column
				closeBehind(column)
				if len(open) == 0 || open[len(open)-1].column < column {
					open = append(open, mapping{column: column})
				}
				open[len(open)-1].entries++
				entries = open[len(open)-1].entries
			}
			if entries > MaxMapping {
				return t
			}
		}
	}
	return nil
}

func documents(file *ast.File) []*ast.DocumentNode {
	var docs []*ast.DocumentNode
	for _, d := range file.Docs {
		if d.Body != nil && d.Body.Type() != ast.CommentType && d.Body.Type() != ast.DirectiveType {
			docs = append(docs, d)
		}
	}
	return docs
}

func placeOf(t *token.Token) Place {
	if t == nil || t.Position == nil {
		return Place{1, 1}
	}
	return Place{max(1, t.Position.Line), max(1, t.Position.Column)}
}

// A yamlReader turns a syntax tree into values.
type yamlReader struct {
	e     *Examiner
	hints Hints
}

func (r *yamlReader) read(path string, node ast.Node) *Value {
	if node == nil {
		return &Value{Kind: Null}
	}
	v := &Value{Place: placeOf(node.GetToken())}
	switch n := node.(type) {
	case *ast.NullNode:
		v.Kind, v.Text = Null, n.Token.Value
	case *ast.BoolNode:
		v.Kind, v.Text = Boolean, n.Token.Value
	case *ast.IntegerNode:
		v.Kind, v.Text = Number, n.Token.Value
	case *ast.FloatNode:
		v.Kind, v.Text = Number, n.Token.Value
		if !floatForm.MatchString(v.Text) {
			v.Kind = Text // such as e1, which the parser takes for a number
		}
	case *ast.InfinityNode:
		v.Kind, v.Text = Number, n.Token.Value
	case *ast.NanNode:
		v.Kind, v.Text = Number, n.Token.Value
	case *ast.StringNode:
		v.Kind, v.Text = Text, n.Value
		if n.Token.Type == token.StringType && looksNumeric(n.Value) {
			v.Kind = Number // too large for the parser
		}
	case *ast.LiteralNode:
		v.Kind, v.Text, v.Place = Text, n.Value.Value, placeOf(n.Start)
	case *ast.SequenceNode:
		v.Kind, v.Place = List, placeOf(n.Start)
		for i, item := range n.Values {
			v.Items = append(v.Items, r.read(fmt.Sprintf("%s[%d]", path, i), item))
		}
	case *ast.MappingNode:
		r.mapping(path, v, n.Values)
	case *ast.MappingValueNode:
		r.mapping(path, v, []*ast.MappingValueNode{n})
	default:
		r.refuse(path, v, node)
	}
	return v
}

// floatForm is what YAML 1.2 takes for a number, as far as it begins.
var floatForm = regexp.MustCompile(`^[-+]?\.?[0-9]`)

func looksNumeric(s string) bool {
	_, err := ParseNumber(s)
	return floatForm.MatchString(s) && (err == nil || errors.Is(err, errNumberSize))
}

// mapping reads the entries; a duplicate key is reported, and the first one counts.
func (r *yamlReader) mapping(path string, v *Value, values []*ast.MappingValueNode) {
	v.Kind = Object
	seen := map[string]Place{}
	for i, mv := range values {
		key, ok := keyText(mv.Key)
		at := placeOf(mv.Key.GetToken())
		if i == 0 && v.Place.Line >= at.Line && v.Place.Column > at.Column {
			v.Place = at
		}
		if !ok {
			r.e.Report(at, path, "this kind of key is not supported", "keys are plain names; merge keys (<<) and complex keys are not")
			continue
		}
		if first, twice := seen[key]; twice {
			r.e.Report(at, JoinPath(path, key), fmt.Sprintf("the key appears twice, first in line %d", first.Line), "")
			continue
		}
		seen[key] = at
		v.Entries = append(v.Entries, Entry{Place: at, Key: key, Value: r.read(JoinPath(path, key), mv.Value)})
	}
}

// keyText returns the text of a key; numbers, booleans and null are keys as they are
// written.
func keyText(key ast.MapKeyNode) (string, bool) {
	switch k := key.(type) {
	case *ast.StringNode:
		return k.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode, *ast.InfinityNode, *ast.NanNode:
		return k.GetToken().Value, true
	}
	return "", false
}

// refuse reports YAML that no file uses.
func (r *yamlReader) refuse(path string, v *Value, node ast.Node) {
	v.Kind = Broken
	message, hint := "this kind of YAML is not supported", ""
	switch n := node.(type) {
	case *ast.AnchorNode:
		r.e.Report(v.Place, path, "anchors (&) are not supported", "quote the text if it begins with &")
		*v = *r.read(path, n.Value)
		return
	case *ast.AliasNode:
		message = "aliases (*) are not supported"
		hint = "quote the text if it begins with *"
	case *ast.TagNode:
		message = fmt.Sprintf("tags (%s) are not supported", n.Start.Value)
		hint = r.hints.Tag
	}
	r.e.Report(v.Place, path, message, hint)
}
