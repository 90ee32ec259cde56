package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
)

// slowly reads a value by encoding/json alone.
func slowly(text []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more")
	}
	return v, nil
}

// usual are texts that are read without encoding/json, odd ones those that are not.
var (
	usual = []string{
		`{}`, `[]`, `""`, `null`, ` true `, `false`, `0`, `-0`, `12345678901234567890`, `1.50e+10`, `1E-2`,
		`{"due":12,"body":"the 1 job; of 2 queues"}`, `{"a":{"b":[1,[],{}]},"a":"twice","":null}`, "\t[ 1 ,\n\"x\" ,{ \"k\" : false }\r]",
		`"a \"quote\", \\ and \u00e9 \ud83d\ude00 \ud83d"`, `"caf` + "\u00e9 \u2028 \x7f" + `"`, `{"\u0061":1,"a":2}`, `"\b\f\n\r\t\/\\\"x"`, `"\u00e9\n"`,
	}
	odd = []string{
		``, ` `, `{`, `[1,]`, `[1 2]`, `{"a"}`, `{"a":}`, `{a:1}`, `{"a":1,}`, `{1:2}`, `"open`, `"\`, `"\x"`, `"\u12"`, `"\u12`, `"\u12g4"`, `"a" 1`, `"\"`, "\"\x01\"", "\"\xff\"", `tru`, `nul`, `truex`,
		`01`, `-`, `1.`, `.5`, `1e`, `+1`, `1 2`, `{} {}`, `]`, `[}`, "\x00", strings.Repeat("[", maxNested+1) + strings.Repeat("]", maxNested+1),
	}
)

// TestJSONIsReadAsByTheLibrary: what a jsonReader reads is what encoding/json reads, and it leaves the
// rest to that.
func TestJSONIsReadAsByTheLibrary(t *testing.T) {
	t.Parallel()
	for _, text := range usual {
		if v, ok := ReadJSON([]byte(text)); !ok {
			t.Errorf("%s is odd: %v", text, v)
		}
		sameAsSlowly(t, []byte(text))
	}
	for _, text := range odd {
		if v, ok := ReadJSON([]byte(text)); ok {
			t.Errorf("%s was read as %v", text, v)
		}
		sameAsSlowly(t, []byte(text))
	}
}

func sameAsSlowly(t *testing.T, text []byte) {
	t.Helper()
	want, fault := slowly(text)
	got, ok := ReadJSON(text)
	if ok && fault != nil {
		t.Fatalf("%q was read as %v; want %v", text, got, fault)
	}
	if ok && !reflect.DeepEqual(got, want) {
		t.Fatalf("%q was read as %#v; want %#v", text, got, want)
	}
	if valid := ValidJSON(text); valid != json.Valid(text) {
		t.Fatalf("%q is valid: %t", text, valid)
	}
}

// FuzzReadJSON: the same for any text.
func FuzzReadJSON(f *testing.F) {
	for _, text := range append(usual, odd...) {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) { sameAsSlowly(t, text) })
}
