package audit_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/audit"
)

// drawSeals draws an entry of version 2.
func drawSeals(t *rapid.T) audit.Entry {
	e := sample(0)
	e.Version = audit.Version2
	for _, field := range rapid.Permutation(audit.Fields).Draw(t, "fields")[:rapid.IntRange(0, len(audit.Fields)).Draw(t, "seals")] {
		var salt audit.Salt
		copy(salt[:], rapid.SliceOfN(rapid.Byte(), audit.SaltSize, audit.SaltSize).Draw(t, "salt"))
		payload := rapid.SliceOfN(rapid.Byte(), 0, 2000).Draw(t, "payload")
		s := audit.Sealed(field, salt, payload)
		switch rapid.IntRange(0, 2).Draw(t, "kept") {
		case 0:
			s.Salt = nil
		case 1:
			s.Payload = slices.Concat([]byte{}, payload)
			if len(payload) == 0 {
				s.Payload = []byte{}
			}
		}
		e.Seals = append(e.Seals, s)
	}
	if rapid.Bool().Draw(t, "tree") {
		e.Tree = &audit.Tree{N: rapid.Int64Range(0, 1<<40).Draw(t, "n"), Acc: sha256.Sum256([]byte{1})}
	}
	e.Again = rapid.Int64Range(0, 3).Draw(t, "again")
	return e
}

// K6: what stores keep beside the columns comes back, and what is cut off is an error.
func TestK6ExtraRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := drawSeals(t)
		extra := e.AppendExtra(nil)
		got := sample(0)
		if err := got.ReadExtra(extra); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(e, got); diff != "" {
			t.Fatalf("%x (-want +got):\n%s", extra, diff)
		}
		cut := rapid.IntRange(0, len(extra)-1).Draw(t, "cut")
		var damaged audit.Entry
		if err := damaged.ReadExtra(extra[:cut]); err == nil && cut > 1 && damaged.Again == e.Again && len(damaged.Seals) == len(e.Seals) {
			t.Fatalf("%d of %d bytes are read as all of them", cut, len(extra))
		}
	})
}

// K6: the form of version 2 is as documented, and nothing of the payload is in it.
func TestK6Version2IsTheDocumentedDigest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := drawSeals(t)
		n, acc := "", ""
		if e.Tree != nil {
			n, acc = fmt.Sprint(e.Tree.N), string(e.Tree.Acc[:])
		}
		form := "1:2" + twin(&e)
		add := func(s string) { form += fmt.Sprintf("%d:%s", len(s), s) }
		for _, s := range []string{n, acc, fmt.Sprint(e.Again), fmt.Sprint(len(e.Seals))} {
			add(s)
		}
		for _, s := range e.Seals {
			add(s.Field)
			add(string(s.Sum[:]))
		}
		e.Seal(audit.Hash{})
		if want := sha256.Sum256([]byte(string(make([]byte, 32)) + form)); e.Hash != want {
			t.Fatalf("hash %x, want %x", e.Hash, want)
		}
		kept := e.Hash
		for i := range e.Seals {
			e.Seals[i].Salt, e.Seals[i].Payload = nil, nil
		}
		e.Folded++
		if e.Seal(audit.Hash{}); e.Hash != kept {
			t.Fatal("the hash is another one without payload")
		}
	})
}

// K6: lines of version 2 are read back, without payload.
func TestK6ExportVersion2RoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := drawSeals(t)
		e.Folded = rapid.Int64Range(0, 2).Draw(t, "folded")
		e.Seal(audit.Hash{})
		var b bytes.Buffer
		if err := audit.WriteLines(&b, []audit.Entry{e}); err != nil {
			t.Fatal(err)
		}
		for i := range e.Seals {
			e.Seals[i].Salt, e.Seals[i].Payload = nil, nil
		}
		var got audit.Entry
		if err := json.Unmarshal(b.Bytes(), &got); err != nil {
			t.Fatalf("%v: %s", err, b.Bytes())
		}
		if diff := cmp.Diff(e, got); diff != "" {
			t.Fatalf("%s(-want +got):\n%s", b.Bytes(), diff)
		}
	})
}

// Keys of version 2 have one spelling, and no place in version 1.
func TestVersion2Lines(t *testing.T) {
	t.Parallel()
	e := sample(0)
	e.Version, e.Again = audit.Version2, 3
	e.Seals = []audit.Seal{audit.Sealed(audit.FieldOutput, audit.Salt{1}, []byte("yes"))}
	e.Seal(audit.Hash{})
	line := strings.TrimSpace(export(t, []audit.Entry{e}))
	for old, bad := range map[string]string{
		`"version":2`:      `"version":1`,
		`,"version":2`:     ``,
		`"again":3`:        `"again":0`,
		`"field":"output"`: `"field":"secret"`,
		`"seals":[`:        `"seals":[{},`,
		`"sum":"`:          `"sum":"A`,
	} {
		changed := strings.Replace(line, old, bad, 1)
		if changed == line {
			t.Fatalf("%s: no %s", line, old)
		}
		var got audit.Entry
		if err := got.UnmarshalJSON([]byte(changed)); err == nil {
			t.Errorf("%s instead of %s is read", bad, old)
		}
	}
}

// K6: an edit, a removal or an addition of payload is reported, with its field.
func TestK6VerifyPayload(t *testing.T) {
	t.Parallel()
	trail := func() []audit.Entry {
		list := jobTrail()
		for i := range list {
			list[i].Version = audit.Version2
		}
		list[0].Seals = []audit.Seal{audit.Sealed(audit.FieldInputs, audit.Salt{1}, []byte(`{"a":1}`))}
		beside := audit.Sealed(audit.FieldFailure, audit.Salt{2}, []byte(`{"class":"exit"}`))
		beside.Payload = []byte(`{"class":"exit"}`)
		list[3].Seals = []audit.Seal{beside}
		list[4].Seals = []audit.Seal{audit.Sealed(audit.FieldError, audit.Salt{3}, []byte(`{"class":"last"}`))}
		return reseal(list)
	}
	bodies := func() map[string][]byte {
		return map[string][]byte{audit.FieldInputs: []byte(`{"a":1}`), audit.FieldOutput: nil, audit.FieldError: []byte(`{"class":"last"}`)}
	}
	tests := []struct {
		name   string
		tamper func([]audit.Entry, map[string][]byte)
		want   want
	}{
		{"untouched", func([]audit.Entry, map[string][]byte) {}, want{}},
		{"inputs edited", func(_ []audit.Entry, b map[string][]byte) { b[audit.FieldInputs] = []byte(`{"a":2}`) }, want{audit.FaultPayload, 1}},
		{"inputs removed", func(_ []audit.Entry, b map[string][]byte) { b[audit.FieldInputs] = nil }, want{audit.FaultPayload, 1}},
		{"inputs withheld", func(e []audit.Entry, b map[string][]byte) { b[audit.FieldInputs], e[0].Seals[0].Salt = nil, nil }, want{audit.FaultPayload, 1}},
		{"inputs withheld, and there", func(e []audit.Entry, _ map[string][]byte) { e[0].Seals[0].Salt = nil }, want{audit.FaultPayload, 1}},
		{"salt of inputs edited", func(e []audit.Entry, _ map[string][]byte) { e[0].Seals[0].Salt[0]++ }, want{audit.FaultPayload, 1}},
		{"output added", func(_ []audit.Entry, b map[string][]byte) { b[audit.FieldOutput] = []byte(`1`) }, want{audit.FaultPayload, 6}},
		{"failure edited", func(e []audit.Entry, _ map[string][]byte) { e[3].Seals[0].Payload = []byte(`{"class":"exut"}`) }, want{audit.FaultPayload, 4}},
		{"failure removed", func(e []audit.Entry, _ map[string][]byte) { e[3].Seals[0].Payload = nil }, want{audit.FaultPayload, 4}},
		{"failure withheld", func(e []audit.Entry, _ map[string][]byte) { e[3].Seals[0].Payload, e[3].Seals[0].Salt = nil, nil }, want{audit.FaultPayload, 4}},
		{"error is an earlier one", func(_ []audit.Entry, b map[string][]byte) { b[audit.FieldError] = []byte(`{"class":"exit"}`) }, want{audit.FaultPayload, 5}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			list, b := trail(), bodies()
			test.tamper(list, b)
			checkFault(t, audit.VerifyPayload(list, b, nil, nil), test.want)
		})
	}
	owed := audit.Sealed(audit.FieldError, audit.Salt{4}, []byte(`{"class":"owed"}`))
	b := bodies()
	checkFault(t, audit.VerifyPayload(trail(), b, &owed, nil), want{audit.FaultPayload, 6})
	b[audit.FieldError] = []byte(`{"class":"owed"}`)
	checkFault(t, audit.VerifyPayload(trail(), b, &owed, nil), want{})
	old := jobTrail() // older than seals: it has sealed nothing
	checkFault(t, audit.VerifyPayload(old, bodies(), nil, nil), want{})
}

// K6: the data of a signal is what its entry seals.
func TestK6VerifyData(t *testing.T) {
	t.Parallel()
	trail := jobTrail()
	for i := range trail {
		trail[i].Version = audit.Version2
	}
	trail[2].Seals = []audit.Seal{audit.Sealed(audit.FieldData, audit.Salt{1}, []byte(`1`))}
	checkFault(t, audit.VerifyData(trail, map[int64][]byte{3: []byte(`1`)}, nil), want{})
	checkFault(t, audit.VerifyData(trail, map[int64][]byte{3: []byte(`2`)}, nil), want{audit.FaultPayload, 3})
	checkFault(t, audit.VerifyData(trail, nil, nil), want{audit.FaultPayload, 3})
	checkFault(t, audit.VerifyData(trail, map[int64][]byte{3: []byte(`1`), 4: []byte(`1`)}, nil), want{audit.FaultPayload, 4})
	checkFault(t, audit.VerifyData(trail, map[int64][]byte{3: []byte(`1`), 9: []byte(`1`)}, nil), want{audit.FaultPayload, 6})
	trail[2].Seals[0].Salt = nil
	checkFault(t, audit.VerifyData(trail, map[int64][]byte{3: nil}, nil), want{audit.FaultPayload, 3})
	checkFault(t, audit.VerifyData(trail, map[int64][]byte{3: []byte(`1`)}, nil), want{audit.FaultPayload, 3})
}
