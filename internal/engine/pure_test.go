package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/machine"
)

// A pure store panics when a decision reads from it, that is, when a view is called during
// a transaction of the same goroutine: row locks would be held for the duration of the
// read, and it could wait for a connection held by a goroutine that waits for the locks.
// Every test of the engine uses one.
type pure struct {
	store.Store
	deciding sync.Map // goroutines
}

func (p *pure) Do(ctx context.Context, q *store.Query, decide func(*store.Facts) (*store.Changes, error)) error {
	if early := q.Early; early != nil {
		guarded := *q
		guarded.Early = func(f *store.Facts) *store.Changes {
			defer p.decides()()
			return early(f)
		}
		q = &guarded
	}
	return p.Store.Do(ctx, q, func(f *store.Facts) (*store.Changes, error) {
		defer p.decides()()
		return decide(f)
	})
}

// decides notes that this goroutine decides, until the result is called.
func (p *pure) decides() func() {
	id := goroutine()
	p.deciding.Store(id, true)
	return func() { p.deciding.Delete(id) }
}

// goroutine returns the number of this goroutine.
func goroutine() string {
	buf := make([]byte, 64)
	id, _, _ := bytes.Cut(buf[len("goroutine "):runtime.Stack(buf, false)], []byte(" "))
	return string(id)
}

// outside panics within a decision.
func (p *pure) outside() store.Store {
	if _, deciding := p.deciding.Load(goroutine()); deciding {
		panic("a decision reads from the store")
	}
	return p.Store
}

func (p *pure) Look(ctx context.Context, q store.LookQuery) (*store.Agenda, error) {
	return p.outside().Look(ctx, q)
}

func (p *pure) Job(ctx context.Context, key rowkey.Job) (*pawl.Job, error) {
	return p.outside().Job(ctx, key)
}

func (p *pure) WholeJob(ctx context.Context, key rowkey.Job) (*store.WholeJob, error) {
	return p.outside().WholeJob(ctx, key)
}

func (p *pure) Jobs(ctx context.Context, f store.JobFilter) ([]*pawl.Job, error) {
	return p.outside().Jobs(ctx, f)
}

func (p *pure) Steps(ctx context.Context, job rowkey.Job, after pawl.Ord, limit int) ([]*pawl.Step, error) {
	return p.outside().Steps(ctx, job, after, limit)
}

func (p *pure) Bodies(ctx context.Context, keys []pawl.StepKey) (map[pawl.StepKey]*pawl.Step, error) {
	return p.outside().Bodies(ctx, keys)
}

func (p *pure) Marked(ctx context.Context, job rowkey.Job) ([]*pawl.Step, error) {
	return p.outside().Marked(ctx, job)
}

func (p *pure) StepCounts(ctx context.Context, job rowkey.Job) (map[machine.State]int, error) {
	return p.outside().StepCounts(ctx, job)
}

func (p *pure) Worker(ctx context.Context, key rowkey.Worker) (*pawl.Worker, error) {
	return p.outside().Worker(ctx, key)
}

func (p *pure) Workers(ctx context.Context, f store.WorkerFilter) ([]*pawl.Worker, error) {
	return p.outside().Workers(ctx, f)
}

func (p *pure) Usage(ctx context.Context, pools []store.Pool) (map[store.Pool]int, error) {
	return p.outside().Usage(ctx, pools)
}

func (p *pure) PendingIn(ctx context.Context, pool rowkey.Pool, after store.Ranked, limit int) ([]store.Ranked, error) {
	return p.outside().PendingIn(ctx, pool, after, limit)
}

func (p *pure) Running(ctx context.Context, from store.Spot, limit int) ([]store.Passed, error) {
	return p.outside().Running(ctx, from, limit)
}

func (p *pure) Unstarted(ctx context.Context, after rowkey.Job, limit int) ([]store.Unstarted, rowkey.Job, error) {
	return p.outside().Unstarted(ctx, after, limit)
}

func (p *pure) HeldSchedules(ctx context.Context, after rowkey.Schedule, limit int) ([]rowkey.Schedule, error) {
	return p.outside().HeldSchedules(ctx, after, limit)
}

func (p *pure) SpotAt(ctx context.Context, share float64) (store.Spot, error) {
	return p.outside().SpotAt(ctx, share)
}

func (p *pure) Bare(ctx context.Context, job rowkey.Job, after pawl.Ord, limit int) ([]*pawl.Step, error) {
	return p.outside().Bare(ctx, job, after, limit)
}

func (p *pure) Quotas(ctx context.Context, workspace string, after pawl.WorkflowName, limit int) ([]*pawl.Quota, error) {
	return p.outside().Quotas(ctx, workspace, after, limit)
}

func (p *pure) Signals(ctx context.Context, job rowkey.Job) ([]*pawl.Signal, error) {
	return p.outside().Signals(ctx, job)
}

func (p *pure) Token(ctx context.Context, key rowkey.Token) (*pawl.Token, error) {
	return p.outside().Token(ctx, key)
}

func (p *pure) TokenBySum(ctx context.Context, sum [32]byte) (*pawl.Token, error) {
	return p.outside().TokenBySum(ctx, sum)
}

func (p *pure) Tokens(ctx context.Context, before rowkey.Token, limit int) ([]*pawl.Token, error) {
	return p.outside().Tokens(ctx, before, limit)
}

func (p *pure) Webhook(ctx context.Context, key rowkey.Webhook) (*pawl.Webhook, error) {
	return p.outside().Webhook(ctx, key)
}

func (p *pure) Webhooks(ctx context.Context, before rowkey.Webhook, limit int) ([]*pawl.Webhook, error) {
	return p.outside().Webhooks(ctx, before, limit)
}

func (p *pure) WebhookPlace(ctx context.Context, key rowkey.Webhook) (store.WebhookPlace, error) {
	return p.outside().WebhookPlace(ctx, key)
}

func (p *pure) SaveWebhook(ctx context.Context, key rowkey.Webhook, place *store.WebhookPlace, list []store.Delivery) error {
	return p.outside().SaveWebhook(ctx, key, place, list)
}

func (p *pure) Deliveries(ctx context.Context, key rowkey.Webhook, before int64, limit int) ([]store.Delivery, error) {
	return p.outside().Deliveries(ctx, key, before, limit)
}

func (p *pure) Delivered(ctx context.Context, key rowkey.Webhook, moved int64) ([]string, error) {
	return p.outside().Delivered(ctx, key, moved)
}

func (p *pure) Pauses(ctx context.Context, f store.PauseFilter) ([]*pawl.QueuePause, error) {
	return p.outside().Pauses(ctx, f)
}

func (p *pure) Schedule(ctx context.Context, key rowkey.Schedule) (*pawl.Schedule, error) {
	return p.outside().Schedule(ctx, key)
}

func (p *pure) Schedules(ctx context.Context, n, after pawl.ScheduleName, limit int) ([]*pawl.Schedule, error) {
	return p.outside().Schedules(ctx, n, after, limit)
}

func (p *pure) Registered(ctx context.Context, n pawl.WorkflowName, below, limit int) ([]*pawl.Version, error) {
	return p.outside().Registered(ctx, n, below, limit)
}

func (p *pure) Workflows(ctx context.Context, workspace string, after pawl.WorkflowName, limit int) ([]*pawl.Version, error) {
	return p.outside().Workflows(ctx, workspace, after, limit)
}

func (p *pure) History(ctx context.Context, job rowkey.Job, after store.HistoryPlace, limit int) ([]store.Entry, store.HistoryPlace, error) {
	return p.outside().History(ctx, job, after, limit)
}

func (p *pure) Refusals(ctx context.Context, job rowkey.Job, after store.RefusalPlace, limit int) ([]pawl.Refusal, error) {
	return p.outside().Refusals(ctx, job, after, limit)
}

func (p *pure) RegisteredVersion(ctx context.Context, n pawl.WorkflowName, version int) (*pawl.Version, error) {
	return p.outside().RegisteredVersion(ctx, n, version)
}

func (p *pure) Definition(ctx context.Context, key rowkey.Definition) (*pawl.Definition, error) {
	return p.outside().Definition(ctx, key)
}

func (p *pure) Trail(ctx context.Context, k store.EntityKey, after int64, limit int) ([]audit.Entry, error) {
	return p.outside().Trail(ctx, k, after, limit)
}

// TestDecisionsHaveNoContext: every read of a store takes a context, and this package makes
// a context of its own only where a transaction begins and where the engine starts. So a
// decision, which is given none, cannot read.
func TestDecisionsHaveNoContext(t *testing.T) {
	t.Parallel()
	allowed := []string{"engine.go Open", "committer.go attempt", "committer.go lookUp"}
	var found []string
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			name := ""
			if fn, ok := d.(*ast.FuncDecl); ok {
				name = fn.Name.Name
			}
			ast.Inspect(d, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && fmt.Sprint(s.X) == "context" && (s.Sel.Name == "Background" || s.Sel.Name == "TODO") {
					found = append(found, f.Name()+" "+name)
				}
				return true
			})
		}
	}
	slices.Sort(found)
	slices.Sort(allowed)
	if !slices.Equal(found, allowed) {
		t.Errorf("contexts are made in %q, want %q", found, allowed)
	}
}

// TestDecisionsThatRead: the tests' store detects a decision that reads.
func TestDecisionsThatRead(t *testing.T) {
	onStores(t, func(t *testing.T, open func() store.Store) {
		s := open()
		defer func() {
			if p := recover(); p == nil {
				t.Error("a decision has read from the store, and nobody noticed")
			}
		}()
		_ = s.Do(t.Context(), &store.Query{}, func(*store.Facts) (*store.Changes, error) {
			_, err := s.Job(t.Context(), 1)
			return nil, err
		})
	})
}

// TestPureStoreGuardsEveryView: a view that is added to stores is guarded too.
func TestPureStoreGuardsEveryView(t *testing.T) {
	t.Parallel()
	free := []string{"Nodes", "Moves", "InFlight", "Stats", "Trails", "Refusals", "Refused", "Payloads", "SignalData",
		"Counts", "JobKeys", "JobSequence", "Lines", "StepOrds", "StepsAt", "Waits", "NewestSteps"} // used only by the engine's views
	views, guarded := reflect.TypeFor[store.Views](), reflect.TypeFor[*pure]()
	source, err := os.ReadFile("pure_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for i := range views.NumMethod() {
		name := views.Method(i).Name
		if _, ok := guarded.MethodByName(name); !ok || !slices.Contains(free, name) && !bytes.Contains(source, []byte("func (p *pure) "+name+"(")) {
			t.Errorf("the view %s is not guarded", name)
		}
	}
}
