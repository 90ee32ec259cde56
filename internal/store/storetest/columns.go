package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"reflect"
	"slices"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

var columnTests = []test{
	{name: "K5/ColumnsAreThere", run: columnsAreThere},
	{name: "K5/EveryFieldOfJobs", run: func(e *env) { e.ok(everyChange(e, jobs)) }},
	{name: "K5/EveryFieldOfSteps", run: func(e *env) { e.ok(everyChange(e, steps)) }},
	{name: "K5/EveryFieldOfWorkers", run: func(e *env) { e.ok(everyChange(e, workers)) }},
	{name: "K5/EveryFieldOfSchedules", run: func(e *env) { e.ok(everyChange(e, schedules)) }},
	{name: "K5/EveryFieldOfTokens", run: func(e *env) { e.ok(everyChange(e, tokens)) }},
	{name: "K5/EveryFieldOfPauses", run: func(e *env) { e.ok(everyChange(e, pauses)) }},
	{name: "K5/EveryFieldOfWebhooks", run: func(e *env) { e.ok(everyChange(e, webhooks)) }},
	{name: "K5/AnyFields", run: anyFields},
	{name: "K5/EveryFieldOfClaims", run: func(e *env) { e.ok(claimedFields(e)) }},
	{name: "K5/AfterAnotherWrote", run: func(e *env) { e.ok(afterAnother(e)) }, shared: true},
}

// columnsAreThere: the database has the columns that the tables declare. Any other columns are
// derived.
func columnsAreThere(e *env) {
	for table, want := range map[string][]string{
		"job": namesOf(store.Jobs), "step": namesOf(store.Steps), "worker": namesOf(store.Workers), "schedule": namesOf(store.Schedules), "token": namesOf(store.Tokens), "queue_pause": namesOf(store.QueuePauses), "webhook": namesOf(store.Webhooks),
	} {
		have, _, err := e.db.SQL(e.ctx, "select * from "+table+" where false")
		e.ok(err)
		have = slices.DeleteFunc(have, func(name string) bool { return name == "line" || name == "place" })
		e.diff("columns of "+table, slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(have)))
	}
}

func namesOf[R any](t *store.Table[R]) (names []string) {
	for _, c := range t.Columns {
		names = append(names, c.Name)
	}
	return names
}

// formSizes are how many records a transaction changes: stores have separate statements for
// one, for few, and for many.
var formSizes = []int{1000, 3, 1}

// A species is a kind of record, and how a store reads and writes it.
type species[R any] struct {
	kind   string
	fixed  []string // fields that are written only once
	bodies []string
	base   func(e *env, now int64, n int, ch *store.Changes) []*R // n new records of two kinds in turn, added to the changes
	key    func(*R) pawl.StepKey
	query  func(keys []pawl.StepKey) *store.Query
	fact   func(*store.Facts, pawl.StepKey) *R
	facts  []string // the bodies that facts have
	update func(*store.Changes, store.Update[*R])
	views  []func(e *env, st store.Store, keys []pawl.StepKey) (map[pawl.StepKey]*R, error) // nil: not for this number
	record func(*R) *pawl.Record
}

// everyChange changes every field that may change: each alone, and each pair of them; through
// statements for one record, for few and for many; of records in this handle's cache, and of
// records that it has to read. It reads the results back through facts and views, by this
// handle and by another.
func everyChange[R any](e *env, s *species[R]) error {
	moving := s.moving()
	var singles, pairs [][]string
	for i, a := range moving {
		singles = append(singles, []string{a}, []string{a}) // of two kinds of records; see species.base
		for _, b := range moving[:i] {
			pairs = append(pairs, []string{a, b})
		}
	}
	for _, size := range formSizes {
		for _, cold := range []bool{false, true} {
			if err := changeFields(e, s, singles, size, cold); err != nil {
				return fmt.Errorf("one field, %d records at once, read before %v: %w", size, cold, err)
			}
		}
	}
	if err := changeFields(e, s, pairs, formSizes[0], false); err != nil {
		return fmt.Errorf("two fields: %w", err)
	}
	return nil
}

// changeFields creates a record for each change, and changes them, size at once. With cold, a
// handle that has not cached them does it.
func changeFields[R any](e *env, s *species[R], changes [][]string, size int, cold bool) error {
	model, err := s.add(e, len(changes))
	if err != nil {
		return err
	}
	if err := s.check(e, model); err != nil {
		return fmt.Errorf("as added: %w", err)
	}
	st := e.st
	if cold && e.db.Name != "" {
		st = e.another()
	}
	keys := slices.SortedFunc(maps.Keys(model), pawl.StepKey.Compare)
	todo := make(map[pawl.StepKey][]string, len(keys))
	for i, k := range keys {
		todo[k] = changes[i]
	}
	for some := range slices.Chunk(keys, size) {
		if err := s.change(e, st, model, some, todo); err != nil {
			return err
		}
	}
	if err := s.check(e, model); err != nil {
		return fmt.Errorf("as changed: %w", err)
	}
	return nil
}

// afterAnother changes records that this handle has cached and another has changed since.
func afterAnother(e *env) error {
	return errors.Join(afterAnotherOf(e, jobs, "Priority"), afterAnotherOf(e, steps, "Losses"),
		afterAnotherOf(e, workers, "Capacity"), afterAnotherOf(e, schedules, "Due"), afterAnotherOf(e, tokens, "DueAt"),
		afterAnotherOf(e, pauses, "DueAt"), afterAnotherOf(e, webhooks, "FormerUntil"))
}

func afterAnotherOf[R any](e *env, s *species[R], name string) error {
	for _, size := range formSizes {
		moving := s.moving()
		model, err := s.add(e, len(moving))
		if err != nil {
			return err
		}
		theirs, ours := map[pawl.StepKey][]string{}, map[pawl.StepKey][]string{}
		keys := slices.SortedFunc(maps.Keys(model), pawl.StepKey.Compare)
		for i, k := range keys {
			theirs[k], ours[k] = []string{name}, []string{moving[i]}
		}
		for some := range slices.Chunk(keys, size) {
			if err := errors.Join(s.change(e, e.another(), model, some, theirs), s.change(e, e.st, model, some, ours)); err != nil {
				return err
			}
		}
		if err := s.check(e, model); err != nil {
			return err
		}
	}
	return nil
}

// add stores n records with a value in every field.
func (s *species[R]) add(e *env, n int) (map[pawl.StepKey]R, error) {
	model := make(map[pawl.StepKey]R, n)
	err := e.st.Do(e.ctx, &store.Query{}, func(f *store.Facts) (*store.Changes, error) {
		ch := new(store.Changes)
		for _, r := range s.base(e, f.Now, n, ch) {
			model[s.key(r)] = *r
		}
		return ch, nil
	})
	return model, err
}

// change changes fields of some records in one transaction, and the model.
func (s *species[R]) change(e *env, st store.Store, model map[pawl.StepKey]R, keys []pawl.StepKey, fields map[pawl.StepKey][]string) error {
	next := make(map[pawl.StepKey]R, len(keys))
	for _, k := range keys {
		r := model[k]
		for _, name := range fields[k] {
			vary(s.kind, &r, name)
		}
		next[k] = r
	}
	var seen error
	err := st.Do(e.ctx, s.query(keys), func(f *store.Facts) (*store.Changes, error) {
		seen = s.compare("facts", keys, model, func(k pawl.StepKey) *R { return s.fact(f, k) }, s.facts)
		ch := new(store.Changes)
		for _, k := range keys {
			r := s.fact(f, k)
			if r == nil {
				return nil, fmt.Errorf("%s %v is not in the facts", s.kind, k)
			}
			was, is := s.record(r).Seq, next[k]
			for _, name := range fields[k] {
				field(r, name).Set(field(&is, name))
			}
			for _, name := range s.facts {
				if !slices.Contains(fields[k], name) {
					field(r, name).SetZero()
				}
			}
			s.update(ch, store.Update[*R]{Record: r, Was: was})
		}
		return ch, nil
	})
	maps.Copy(model, next)
	return errors.Join(err, seen)
}

// check reads all records, through facts and views of this handle and of another.
func (s *species[R]) check(e *env, model map[pawl.StepKey]R) error {
	keys := slices.SortedFunc(maps.Keys(model), pawl.StepKey.Compare)
	handles := map[string]store.Store{"": e.st}
	if e.db.Name != "" {
		handles[" of another handle"] = e.another()
	}
	for whose, st := range handles {
		var facts *store.Facts
		err := st.Do(e.ctx, s.query(keys), func(f *store.Facts) (*store.Changes, error) { facts = f; return nil, nil })
		if err != nil {
			return err
		}
		if err := s.compare("facts"+whose, keys, model, func(k pawl.StepKey) *R { return s.fact(facts, k) }, s.facts); err != nil {
			return err
		}
		for i, view := range s.views {
			shown, err := view(e, st, keys)
			if err != nil {
				return fmt.Errorf("view %d%s: %w", i, whose, err)
			}
			if shown == nil {
				continue
			}
			if err := s.compare(fmt.Sprintf("view %d%s", i, whose), keys, model, func(k pawl.StepKey) *R { return shown[k] }, s.bodies); err != nil {
				return err
			}
		}
	}
	return nil
}

// compare compares records with the model; of says which bodies they have.
func (s *species[R]) compare(what string, keys []pawl.StepKey, model map[pawl.StepKey]R, of func(pawl.StepKey) *R, bodies []string) error {
	for _, k := range keys {
		want := model[k]
		for _, name := range s.bodies {
			if !slices.Contains(bodies, name) {
				field(&want, name).SetZero()
			}
		}
		if got := of(k); got == nil || !reflect.DeepEqual(&want, got) {
			return fmt.Errorf("%s: %s %v (-want +got):\n%s", what, s.kind, k, cmp.Diff(&want, got))
		}
	}
	return nil
}

// moving returns the fields that may change.
func (s *species[R]) moving() []string {
	return slices.DeleteFunc(fieldNames(reflect.TypeFor[R]()), func(name string) bool { return slices.Contains(s.fixed, name) })
}

// fieldNames returns the fields of a record; embedded records are expanded in place.
func fieldNames(t reflect.Type) (names []string) {
	for i := range t.NumField() {
		if f := t.Field(i); f.Anonymous {
			names = append(names, fieldNames(f.Type)...)
		} else {
			names = append(names, f.Name)
		}
	}
	return names
}

func field[R any](r *R, name string) reflect.Value {
	return reflect.ValueOf(r).Elem().FieldByName(name)
}

// fill sets every unset field to a value that is not zero.
func fill[R any](kind string, r *R) {
	for _, name := range fieldNames(reflect.TypeFor[R]()) {
		if field(r, name).IsZero() {
			vary(kind, r, name)
		}
	}
}

// values are those of fields with restricted values.
var values = map[string][]any{
	"State of " + lifecycle.Job.Name:        anyOf(lifecycle.Job.States),
	"State of " + lifecycle.Step.Name:       anyOf(lifecycle.Step.States),
	"State of " + lifecycle.Worker.Name:     anyOf(lifecycle.Worker.States),
	"State of " + lifecycle.Schedule.Name:   anyOf(lifecycle.Schedule.States),
	"State of " + lifecycle.Token.Name:      anyOf(lifecycle.Token.States),
	"State of " + lifecycle.QueuePause.Name: anyOf(lifecycle.QueuePause.States),
	"State of " + lifecycle.Webhook.Name:    anyOf(lifecycle.Webhook.States),
	"Ending":                                {machine.State("COMPLETED"), machine.State("FAILED"), machine.State("CANCELED")},
	"Mark":                                  {pawl.Attention, pawl.Waiting, pawl.Blocked},
	"Hooks":                                 {pawl.HooksRun, pawl.HooksCancelled},
	"Depth":                                 {1, 2, 3, 4, 5},
}

func anyOf(states []machine.State) (list []any) {
	for _, s := range states {
		list = append(list, s)
	}
	return list
}

// vary changes a field of a record, depending on its value.
func vary[R any](kind string, r *R, name string) {
	v := field(r, name)
	list := values[name]
	if list == nil {
		list = values[name+" of "+kind]
	}
	if list != nil {
		i := slices.Index(list, v.Interface())
		v.Set(reflect.ValueOf(list[(i+1)%len(list)]).Convert(v.Type()))
		return
	}
	n := int64(fnv32(name)%1_000_000) + 1
	switch old := v.Interface().(type) {
	case bool:
		v.SetBool(!old)
	case []byte:
		v.SetBytes(fmt.Appendf(nil, "%s %d", name, len(old)))
	case json.RawMessage:
		v.SetBytes(fmt.Appendf(nil, `{"%s":%d}`, name, len(old)+1))
	case *pawl.Failure:
		f := &pawl.Failure{Class: "c", Message: name, Permanent: true, Delay: 3, Step: "s", Metadata: []byte(`{"m":1}`)}
		if old != nil {
			f.Message = old.Message + "'"
		}
		v.Set(reflect.ValueOf(f))
	case *pawl.Tree:
		tree := &pawl.Tree{Tree: audit.Tree{N: n, Acc: audit.Hash{3: 1}}}
		if old != nil {
			tree.N, tree.Acc[31] = old.N+1, old.Acc[31]+1
		}
		if old != nil && old.Owed == nil {
			tree.Owed = &pawl.Owed{Sum: tree.Acc, Salt: audit.Salt{15: 1}}
		}
		v.Set(reflect.ValueOf(tree))
	case []rowkey.Route:
		v.Set(reflect.ValueOf(append(slices.Clone(old), rowkey.Route(n))))
	case []pawl.Role:
		v.Set(reflect.ValueOf(append(slices.Clone(old), pawl.Role(name))))
	case []machine.Event:
		v.Set(reflect.ValueOf(append(slices.Clone(old), machine.Event(name))))
	case []string:
		v.Set(reflect.ValueOf(append(slices.Clone(old), name)))
	default:
		switch v.Kind() {
		case reflect.String:
			v.SetString(name + fmt.Sprint(len(v.String())))
		case reflect.Array:
			v.Index(v.Len() - 1).SetUint(v.Index(v.Len()-1).Uint()%255 + 1)
			v.Index(0).SetUint(uint64(n % 256))
		default:
			v.SetInt(v.Int()%1_000_000 + n)
		}
	}
}

func fnv32(s string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(s))
	return h.Sum32()
}

// anyFields changes any fields of any records together, at random.
func anyFields(e *env) {
	rapid.Check(e.T, func(t *rapid.T) {
		size := rapid.SampledFrom(formSizes).Draw(t, "size")
		cold := rapid.Bool().Draw(t, "cold")
		var err error
		switch rapid.IntRange(0, 6).Draw(t, "kind") {
		case 0:
			err = changeFields(e, jobs, someFields(t, jobs.moving()), size, cold)
		case 1:
			err = changeFields(e, steps, someFields(t, steps.moving()), size, cold)
		case 2:
			err = changeFields(e, workers, someFields(t, workers.moving()), size, cold)
		case 3:
			err = changeFields(e, schedules, someFields(t, schedules.moving()), size, cold)
		case 4:
			err = changeFields(e, tokens, someFields(t, tokens.moving()), size, cold)
		case 5:
			err = changeFields(e, pauses, someFields(t, pauses.moving()), size, cold)
		case 6:
			err = changeFields(e, webhooks, someFields(t, webhooks.moving()), size, cold)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
}

func someFields(t *rapid.T, names []string) [][]string {
	return rapid.SliceOfN(rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 6, rapid.ID), 1, 24).Draw(t, "fields")
}
