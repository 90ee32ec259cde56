package audit_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// grown is a job in the making, with its steps, as an engine counts them out.
type grown struct {
	job   []audit.Entry
	steps map[int64][]audit.Entry // by ord
	ended bool
}

func stepID(ord int64) string {
	id := jobID[len("j_"):]
	return fmt.Sprintf("st_%s%08x", id[:24], ord)
}

// version2 makes a trail one of version 2.
func version2(list []audit.Entry) []audit.Entry {
	for i := range list {
		list[i].Version = audit.Version2
	}
	return reseal(list)
}

// drawGrown draws a job that has ended, with up to 4 nodes, some of which are fan-outs.
func drawGrown(t *rapid.T) *grown {
	g := &grown{steps: map[int64][]audit.Entry{}, ended: true}
	ends := func(ord int64) []machine.Event {
		return rapid.SampledFrom([][]machine.Event{
			{lifecycle.StepEnqueue, lifecycle.StepClaim, lifecycle.StepSuccess},
			{lifecycle.StepEnqueue, lifecycle.StepClaim, lifecycle.StepFailPermanently},
			{lifecycle.StepCancel}, {lifecycle.StepSkip},
		}).Draw(t, fmt.Sprint("end of ", ord))
	}
	tree := audit.Tree{}
	count := func(tree *audit.Tree, ord int64) {
		list := g.steps[ord]
		last := &list[len(list)-1]
		tree.N++
		tree.Acc = dumbBranch(tree.Acc, ord, last.Sequence, last.Hash)
		last.Folded = tree.N
	}
	nodes := rapid.Permutation([]int64{1, 2, 3, 4}[:rapid.IntRange(1, 4).Draw(t, "nodes")]).Draw(t, "order")
	for _, node := range nodes {
		ord := node << 20
		trail := version2(trailOf(lifecycle.Step, stepID(ord), ends(ord)...))
		if n := rapid.IntRange(-3, 4).Draw(t, "instances"); n > 0 {
			var inside audit.Tree
			for _, i := range rapid.Permutation([]int64{1, 2, 3, 4}[:n]).Draw(t, "instance order") {
				g.steps[ord+i] = version2(trailOf(lifecycle.Step, stepID(ord+i), ends(ord+i)...))
				count(&inside, ord+i)
			}
			trail[len(trail)-1].Tree = &inside
			reseal(trail)
		}
		g.steps[ord] = trail
		count(&tree, ord)
		if last := trail[len(trail)-1]; last.To == lifecycle.StepPermanentError && rapid.Bool().Draw(t, "resolved") {
			was := last.Folded
			trail[len(trail)-1].Folded = 0
			next := last
			next.From, next.To, next.Event = last.To, lifecycle.StepResolvedManually, lifecycle.StepResolve
			next.Sequence, next.Again, next.Folded = last.Sequence+1, was, 0
			next.Seal(last.Hash)
			g.steps[ord] = append(trail, next)
			count(&tree, ord)
		}
	}
	g.job = version2(jobTrail())
	g.job[len(g.job)-1].Tree = &tree
	reseal(g.job)
	return g
}

// dumbBranch is Branch as the documentation has it.
func dumbBranch(acc audit.Hash, ord, seq int64, head audit.Hash) audit.Hash {
	var numbers []byte
	numbers = binary.BigEndian.AppendUint64(numbers, uint64(ord))
	numbers = binary.BigEndian.AppendUint64(numbers, uint64(seq))
	return sha256.Sum256(slices.Concat(acc[:], numbers, head[:]))
}

func (g *grown) lines(t rapid.TB) string {
	var b bytes.Buffer
	b.WriteString(export(t, g.job))
	for _, list := range g.steps {
		b.WriteString(export(t, list))
	}
	return b.String()
}

// K6: an export proves the trees, in whatever order its trails come.
func TestK6TreesOfAnExport(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		if _, err := audit.VerifyLines(strings.NewReader(drawGrown(t).lines(t))); err != nil {
			t.Fatal(err)
		}
	})
}

// K6: a step that is missing with its whole trail is reported, and so is one too many,
// one that was exchanged, made shorter or longer, or has another number.
func TestK6TamperedTrees(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := drawGrown(t)
		var ords []int64
		for ord := range g.steps {
			ords = append(ords, ord)
		}
		slices.Sort(ords)
		ord := rapid.SampledFrom(ords).Draw(t, "of")
		list := g.steps[ord]
		last := &list[len(list)-1]
		what := rapid.SampledFrom([]string{"remove", "add", "add instance", "rewrite", "renumber", "not counted", "shorten", "prolong", "no tree", "tree"}).Draw(t, "what")
		switch what {
		case "remove":
			delete(g.steps, ord)
		case "add":
			end := ords[len(ords)-1]>>20 + 1
			g.steps[end<<20] = version2(trailOf(lifecycle.Step, stepID(end<<20), lifecycle.StepSkip))
			g.steps[end<<20][1].Folded = rapid.Int64Range(0, 9).Draw(t, "folded")
		case "add instance":
			end := ords[len(ords)-1] + 1
			g.steps[end] = version2(trailOf(lifecycle.Step, stepID(end), lifecycle.StepSkip))
			g.steps[end][1].Folded = rapid.Int64Range(0, 9).Draw(t, "folded")
		case "rewrite":
			list[0].Actor = "somebody else"
			for i := range list {
				folded := list[i].Folded
				head := audit.Hash{}
				if i > 0 {
					head = list[i-1].Hash
				}
				list[i].Seal(head)
				list[i].Folded = folded
			}
		case "renumber":
			last.Folded++
		case "not counted":
			last.Folded = 0
		case "shorten":
			list[len(list)-2].Folded = last.Folded
			g.steps[ord] = list[:len(list)-1]
		case "prolong":
			next := *last
			next.Sequence, next.From, next.To, next.Event = last.Sequence+1, lifecycle.StepPermanentError, lifecycle.StepResolvedManually, lifecycle.StepResolve
			if last.To != lifecycle.StepPermanentError {
				return
			}
			last.Folded = 0
			next.Seal(last.Hash)
			g.steps[ord] = append(list, next)
		case "no tree":
			g.job[len(g.job)-1].Tree = nil
			reseal(g.job)
		case "tree":
			g.job[len(g.job)-1].Tree.N--
			reseal(g.job)
		}
		_, err := audit.VerifyLines(strings.NewReader(g.lines(t)))
		var f *audit.Fault
		if !errors.As(err, &f) || f.Code != audit.FaultTree || f.Entity != jobID {
			t.Fatalf("%s of %d: %v", what, ord, err)
		}
		if what == "remove" && !strings.Contains(f.Message, fmt.Sprintf("(ord %d)", ord)) {
			t.Fatalf("ord %d was removed: %v", ord, err)
		}
	})
}

// A part of an export, and a job that is older than trees, have nothing to prove.
func TestTreesOfParts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := drawGrown(t)
		whole := g.job
		g.job = nil
		if _, err := audit.VerifyLines(strings.NewReader(g.lines(t))); err != nil {
			t.Fatal("without the job:", err)
		}
		for i := range whole {
			whole[i].Version, whole[i].Tree = 0, nil
		}
		g.job = reseal(whole)
		for ord := range g.steps {
			delete(g.steps, ord)
			break
		}
		if _, err := audit.VerifyLines(strings.NewReader(g.lines(t))); err != nil {
			t.Fatal("of an old job:", err)
		}
	})
}
