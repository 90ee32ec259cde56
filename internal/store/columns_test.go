package store_test

import (
	"reflect"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
)

// unstored names fields of records that no store keeps, with the reason.
var unstored = map[string]string{}

// TestEveryFieldIsOneColumn (K5): each field of a record is in exactly one column of its
// table, or named as not stored.
func TestEveryFieldIsOneColumn(t *testing.T) {
	t.Parallel()
	everyField(t, store.Jobs)
	everyField(t, store.Steps)
	everyField(t, store.Workers)
	everyField(t, store.Schedules)
	everyField(t, &store.Table[pawl.Record]{Name: "record", Columns: store.RecordColumns})
}

func everyField[R any](t *testing.T, table *store.Table[R]) {
	t.Helper()
	names, used := map[string]bool{}, map[string]string{}
	for _, c := range table.Columns {
		if names[c.Name] {
			t.Errorf("%s: two columns %s", table.Name, c.Name)
		}
		names[c.Name] = true
	}
	for _, path := range fieldsOf(reflect.TypeFor[R]()) {
		r := new(R)
		setField(reflect.ValueOf(r).Elem().FieldByIndex(path))
		name := table.Name + "." + nameOf(reflect.TypeFor[R](), path)
		n := 0
		for _, c := range table.Columns {
			if c.From == nil && differs(c, new(R), r) {
				n++
				if was := used[c.Name]; was != "" {
					t.Errorf("%s and %s are both in the column %s", was, name, c.Name)
				}
				used[c.Name] = name
			}
		}
		switch reason := unstored[name]; {
		case reason == "" && n != 1:
			t.Errorf("%s is in %d columns, want 1; a field that is not stored is named in unstored, with the reason", name, n)
		case reason != "" && n != 0:
			t.Errorf("%s is named as not stored, and is in %d columns", name, n)
		}
	}
	for _, c := range table.Columns {
		if c.From == nil && used[c.Name] == "" {
			t.Errorf("%s: the column %s is no field", table.Name, c.Name)
		}
	}
}

func differs[R any](c *store.Column[R], a, b *R) bool {
	if c.Role == store.Body {
		return !c.Nil(b)
	}
	return !c.Same(a, b)
}

// fieldsOf returns the fields of a record; embedded records are expanded in place.
func fieldsOf(t reflect.Type) (paths [][]int) {
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.Anonymous {
			paths = append(paths, []int{i})
			continue
		}
		for _, p := range fieldsOf(f.Type) {
			paths = append(paths, append([]int{i}, p...))
		}
	}
	return paths
}

func nameOf(t reflect.Type, path []int) string { return t.FieldByIndex(path).Name }

// setField sets a field to a value that is not zero.
func setField(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		setField(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Array:
		v.Index(v.Len() - 1).SetUint(1)
	case reflect.Struct:
		setField(v.Field(0))
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	default:
		v.SetInt(1)
	}
}
