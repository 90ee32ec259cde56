package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/workflow"
)

// A batchTest is an engine, and what the response function of a batch has seen last.
type batchTest struct {
	*testing.T
	e    *Engine
	seen []pawl.Submitted
}

func newBatchTest(t *testing.T) *batchTest { return &batchTest{T: t, e: testEngine(t)} }

// ask returns a batch under a request id.
func (b *batchTest) ask(id, asked string) *link.Batch {
	return &link.Batch{Workspace: pawl.DefaultWorkspace, Endpoint: "POST /test", Change: pawl.Change{Actor: "ada", RequestID: id}, Asked: asked, Response: func(done []pawl.Submitted) []byte {
		b.seen = append([]pawl.Submitted(nil), done...)
		return fmt.Appendf(nil, "%d outcomes", len(done))
	}}
}

func (b *batchTest) jobs() int {
	b.Helper()
	jobs, err := b.e.Jobs(b.Context(), pawl.JobQuery{})
	if err != nil {
		b.Fatal(err)
	}
	return len(jobs)
}

// count returns how many jobs there are, whether there are many or not.
func (b *batchTest) count() (n int) {
	b.Helper()
	if err := b.e.RecentJobs(b.Context(), pawl.DefaultWorkspace, 10_000, func(*pawl.Job) bool { n++; return true }); err != nil {
		b.Fatal(err)
	}
	return n
}

// definitionOf returns a workflow of so many steps.
func definitionOf(t *testing.T, steps int) *workflow.Definition {
	t.Helper()
	text := "name: many\nsteps:\n"
	for i := range steps {
		text += fmt.Sprintf("- {id: s%d, handler: nobody}\n", i)
	}
	def, err := workflow.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return def
}

// TestSubmitOnce: jobs of a batch and the response to it are committed together, refusals of single ones
// included; a repeated batch gets the response and makes none (J8).
func TestSubmitOnce(t *testing.T) {
	t.Parallel()
	b, one := newBatchTest(t), definitionOf(t, 1)
	subs := func() []pawl.Submission {
		return []pawl.Submission{{Definition: one.Canonical()}, {Definition: one.Canonical(), Priority: 5000}, {Definition: []byte("{}")}, {Definition: one.Canonical(), RequestID: "own"}, {Definition: one.Canonical()}}
	}
	done := make([]pawl.Submitted, 5)
	done[4].Err = pawl.Errorf(pawl.NotFound, "refused before")
	text, again, err := b.e.SubmitOnce(t.Context(), b.ask("k", "a"), subs(), done)
	if err != nil || again || string(text) != "5 outcomes" {
		t.Fatalf("%q %t %v", text, again, err)
	}
	if s := b.seen; s[0].Err != nil || pawl.KindOf(s[1].Err) != pawl.Invalid || pawl.KindOf(s[2].Err) != pawl.Invalid || s[3].Err != nil || s[4].Err.Error() != "refused before" || s[0].ID == s[3].ID {
		t.Errorf("%+v", s)
	}
	own := b.seen[3].ID
	text, again, err = b.e.SubmitOnce(t.Context(), b.ask("k", "a"), subs(), make([]pawl.Submitted, 5))
	if err != nil || !again || string(text) != "5 outcomes" {
		t.Errorf("repeated: %q %t %v", text, again, err)
	}
	if _, _, err = b.e.SubmitOnce(t.Context(), b.ask("k", "b"), subs(), make([]pawl.Submitted, 5)); !errors.Is(err, link.ErrKeyReused) {
		t.Errorf("another batch under the request id: %v", err)
	}
	if n := b.jobs(); n != 2 {
		t.Errorf("there are %d jobs, want 2", n)
	}
	// The request id of a single job holds in other batches, too.
	if _, _, err := b.e.SubmitOnce(t.Context(), b.ask("other", "b"), subs()[3:4], make([]pawl.Submitted, 1)); err != nil || b.seen[0].ID != own || !b.seen[0].Replayed {
		t.Errorf("%v %+v", err, b.seen)
	}
	if single, err := b.e.Submit(t.Context(), subs()[3]); err != nil || single[0].ID != own || b.jobs() != 2 {
		t.Errorf("%v %+v, %d jobs", err, single, b.jobs())
	}
}

// TestSubmitOnceApart: of jobs that are too many for one commit as many as it takes are made, and the
// response says of the others that they were not.
func TestSubmitOnceApart(t *testing.T) {
	t.Parallel()
	b, wide := newBatchTest(t), definitionOf(t, 40)
	const made = (maxGroup - 1) / (1 + 40/heavyRows)
	subs := make([]pawl.Submission, 500)
	for i := range subs {
		subs[i].Definition = wide.Canonical()
	}
	for _, want := range []bool{false, true} {
		_, again, err := b.e.SubmitOnce(t.Context(), b.ask("k", "a"), subs, make([]pawl.Submitted, len(subs)))
		if n := b.count(); err != nil || again != want || n != made {
			t.Fatalf("%t %v, %d jobs, want %d", again, err, n, made)
		}
	}
	for i, s := range b.seen {
		if i < made && s.Err != nil || i >= made && !errors.Is(s.Err, errApart) {
			t.Errorf("job %d: %+v", i, s)
		}
	}
}

// TestSubmitOnceKeys: a batch has a request id, which none of its jobs has (J8); the trail of a job without
// one of its own has that of the batch.
func TestSubmitOnceKeys(t *testing.T) {
	t.Parallel()
	b, one := newBatchTest(t), definitionOf(t, 1)
	subs := []pawl.Submission{{Definition: one.Canonical(), RequestID: "k"}, {Definition: one.Canonical()}, {Definition: one.Canonical(), RequestID: "own"}, {Definition: one.Canonical(), Workspace: "other", RequestID: "k"}}
	for _, id := range []string{"", "a b"} {
		if _, _, err := b.e.SubmitOnce(t.Context(), b.ask(id, "a"), subs, make([]pawl.Submitted, 4)); pawl.KindOf(err) != pawl.Invalid {
			t.Errorf("under the request id %q: %v", id, err)
		}
	}
	if _, _, err := b.e.SubmitOnce(t.Context(), b.ask("k", "a"), subs, make([]pawl.Submitted, 4)); err != nil {
		t.Fatal(err)
	}
	if s := b.seen; !errors.Is(s[0].Err, link.ErrKeyReused) || s[1].Err != nil || s[2].Err != nil || s[3].Err != nil {
		t.Errorf("%+v", s)
	}
	for i, want := range []string{1: "k", 2: "own", 3: "k"} {
		if i == 0 {
			continue
		}
		var ids []string
		if err := b.e.History(t.Context(), b.seen[i].ID, func(m pawl.Transition) error {
			if m.Step == "" && m.Actor == b.seen[i].Receipt.Actor {
				ids = append(ids, m.RequestID)
			}
			return nil
		}); err != nil || len(ids) == 0 || ids[0] != want {
			t.Errorf("the trail of job %d has the request ids %q, %v; want %q", i, ids, err, want)
		}
	}
}

// TestSubmitOnceBroken: of a batch whose response cannot be made nothing is committed, since a repeated
// request would make its jobs again (J8). The decision of one job that fails does not affect the others.
func TestSubmitOnceBroken(t *testing.T) {
	t.Parallel()
	b, one := newBatchTest(t), definitionOf(t, 1)
	subs := []pawl.Submission{{Definition: one.Canonical()}, {Definition: one.Canonical()}}
	broken := b.ask("k", "a")
	broken.Response = func([]pawl.Submitted) []byte { panic("broken") }
	if _, _, err := b.e.SubmitOnce(t.Context(), broken, subs, make([]pawl.Submitted, 2)); err == nil || !strings.Contains(err.Error(), "broken") || b.jobs() != 0 {
		t.Errorf("%v, %d jobs", err, b.jobs())
	}
	if _, again, err := b.e.SubmitOnce(t.Context(), b.ask("k", "a"), subs, make([]pawl.Submitted, 2)); err != nil || again || b.jobs() != 2 {
		t.Errorf("after that: %t %v, %d jobs", again, err, b.jobs())
	}

	r, err := b.e.newRequest(pawl.Change{RequestID: "l"}, "", "POST /test", "a")
	if err != nil {
		t.Fatal(err)
	}
	all := &batch{request: r, of: b.ask("l", "a"), done: make([]pawl.Submitted, 2)}
	cmds := b.e.batched(all, subs)
	cmds[0].(*batched).e = new(Engine) // its decision panics
	if _, err := b.e.committer.together(t.Context(), append(cmds, &batchEnd{all, false}), nil); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(b.seen[0].Err, errUndecided) || b.seen[1].Err != nil || b.jobs() != 3 || string(all.response) != "2 outcomes" {
		t.Errorf("%+v, %d jobs", b.seen, b.jobs())
	}
}
