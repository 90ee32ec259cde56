package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
)

// countFile returns the numbers of one Go file.
func countFile(name string, src []byte) (numbers, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
	if err != nil {
		return numbers{}, err
	}
	n := numbers{Files: 1}
	n.countLines(src)
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			n.countFunc(d)
		case *ast.GenDecl:
			n.countSpecs(d)
		}
	}
	return n, nil
}

// What is on a line: the most telling thing wins.
const (
	blankLine = iota
	commentLine
	codeLine
)

// countLines counts lines by what is on them. A line of a raw string is code,
// an empty line within a comment is of the comment.
func (n *numbers) countLines(src []byte) {
	lines := bytes.Count(src, []byte("\n"))
	if len(src) > 0 && src[len(src)-1] != '\n' {
		lines++
	}
	kinds := make([]int, lines)
	eachToken(src, func(first, last, kind int) {
		for i := first; i <= last; i++ {
			kinds[i-1] = max(kinds[i-1], kind)
		}
	})
	for _, kind := range kinds {
		switch kind {
		case blankLine:
			n.Blank++
		case commentLine:
			n.Comment++
		case codeLine:
			n.Code++
		}
	}
	n.Lines += lines
}

// eachToken calls f with the first line, the last line and the kind of each
// token of src, comments included.
func eachToken(src []byte, f func(first, last, kind int)) {
	fset := token.NewFileSet()
	file := fset.AddFile("", fset.Base(), len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, scanner.ScanComments)
	for {
		pos, tok, text := s.Scan()
		kind := codeLine
		switch {
		case tok == token.EOF:
			return
		case tok == token.SEMICOLON && text != ";": // the scanner's own, at the end of a line
			continue
		case tok == token.COMMENT:
			kind = commentLine
		}
		first := file.Line(pos)
		f(first, first+height(tok, src[file.Offset(pos):]), kind)
	}
}

// height returns how many lines below its first one the token at the start of
// src reaches. It reads the source, since the scanner's text lacks carriage
// returns and so has another length.
func height(tok token.Token, src []byte) int {
	var end int
	switch {
	case tok == token.STRING && src[0] == '`':
		end = 1 + bytes.IndexByte(src[1:], '`')
	case tok == token.COMMENT && src[1] == '*':
		end = bytes.Index(src, []byte("*/"))
	default:
		return 0
	}
	return bytes.Count(src[:max(end, 0)], []byte("\n"))
}

func (n *numbers) countFunc(d *ast.FuncDecl) {
	if d.Recv == nil {
		n.Funcs++
		n.countExported(d.Name)
		return
	}
	n.Methods++
	if receiver := receiverName(d.Recv); receiver != nil && receiver.IsExported() {
		n.countExported(d.Name)
	}
}

// receiverName returns the name of a receiver's type: T of T, *T and *T[K, V].
func receiverName(recv *ast.FieldList) *ast.Ident {
	if len(recv.List) == 0 {
		return nil
	}
	t := recv.List[0].Type
	for {
		switch inner := t.(type) {
		case *ast.Ident:
			return inner
		case *ast.StarExpr:
			t = inner.X
		case *ast.ParenExpr:
			t = inner.X
		case *ast.IndexExpr:
			t = inner.X
		case *ast.IndexListExpr:
			t = inner.X
		default:
			return nil
		}
	}
}

func (n *numbers) countSpecs(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			n.Types++
			n.countExported(s.Name)
		case *ast.ValueSpec:
			n.countValues(d.Tok, s.Names)
		}
	}
}

// countValues counts constants or variables by name; _ declares nothing.
func (n *numbers) countValues(tok token.Token, names []*ast.Ident) {
	for _, name := range names {
		switch {
		case name.Name == "_":
			continue
		case tok == token.CONST:
			n.Consts++
		default:
			n.Vars++
		}
		n.countExported(name)
	}
}

func (n *numbers) countExported(name *ast.Ident) {
	if name.IsExported() {
		n.Exported++
	}
}
