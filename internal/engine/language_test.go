package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/worker"
	"github.com/pawl-dev/pawl/workflow"
)

// ann is the operator of these tests.
var ann = pawl.Change{Actor: "ann", Reason: "because"}

// A sentence is one promise of the workflow language, checked by a job that really runs.
type sentence struct {
	says   string
	file   string // without its name; FOLDER and SERVER are replaced by those of the test
	inputs string
	do     func(t *testing.T, p *process, id pawl.ID) // what operators do meanwhile

	status machine.State // default COMPLETED
	output string        // of the job, JSON; empty: not checked
	fails  string        // part of the job's error, after the step: message
	steps  string        // "a complete, b skipped", the relevant ones
}

var sentences = []sentence{
	{says: "output text, the default, cuts one trailing newline; lines, json and none", file: `
steps:
  - {id: text, run: "printf 'a\\nb\\n\\n'"}
  - {id: lines, run: "printf 'a\\nb\\n'", output: lines}
  - {id: json, run: "echo '{\"n\": 1}'", output: json}
  - {id: none, run: "echo x", output: none}
output: "${{ [steps.text.output, steps.lines.output, steps.json.output, steps.none.output] }}"`,
		output: `["a\nb\n",["a","b"],{"n":1},null]`},
	{says: "an output that is not JSON, where it has to be, is a permanent error", file: `
steps: [{id: a, run: "echo '{'", output: json}]`,
		status: lifecycle.JobFailed, fails: "a: ", steps: "a permanent_error"},
	{says: "what is written to PAWL_OUTPUT is the output and wins over stdout", file: `
steps: [{id: a, run: "echo loud; echo '{\"from\": \"file\"}' > \"$PAWL_OUTPUT\""}]
output: ${{ steps.a.output.from }}`,
		output: `"file"`},
	{says: "a command gets PAWL_JOB_ID, PAWL_STEP_ID and PAWL_ATTEMPT", file: `
steps:
  - {id: a, run: "echo \"$PAWL_JOB_ID ${PAWL_STEP_ID%%_*} $PAWL_ATTEMPT\"; test \"$PAWL_ATTEMPT\" = 2", retry: {base: 0s}}
output: "${{ steps.a.output == job.id + ' st 2' }}"`,
		output: `true`},
	{says: "PAWL_INPUT is a file of inputs, the needs' outputs, item, index and matrix", file: `
inputs: {day: {type: string, required: true}}
steps:
  - {id: a, run: echo one, output: text}
  - {id: each, needs: [a], foreach: ["x", "y"], run: "cat \"$PAWL_INPUT\"", output: json}
  - {id: grid, matrix: {os: [linux]}, run: "cat \"$PAWL_INPUT\"", output: json}
output: "${{ [steps.each.output[1], steps.grid.output[0]] }}"`,
		inputs: `{"day": "monday"}`,
		output: `[{"index":1,"inputs":{"day":"monday"},"item":"y","needs":{"a":"one"}},{"matrix":{"os":"linux"},"output":{"index":0,"inputs":{"day":"monday"},"matrix":{"os":"linux"},"needs":{}}}]`},
	{says: "env of the workflow, and of the step on top of it", file: `
inputs: {day: {default: monday}}
env: {A: outer, B: "${{ inputs.day }}"}
steps: [{id: a, env: {A: "inner ${{ inputs.day }}"}, run: "echo \"$A, $B\""}]
output: ${{ steps.a.output }}`,
		output: `"inner monday, monday"`},
	{says: "a command is argv and no shell", file: `
inputs: {x: {default: "$(id); ` + "`id`" + ` \"quoted\" *"}}
steps: [{id: a, command: [printf, "%s|", "${{ inputs.x }}", "two words"]}]
output: ${{ steps.a.output }}`,
		output: "\"$(id); `id` \\\"quoted\\\" *|two words|\""},
	{says: "the working directory is that of the job unless dir says otherwise", file: `
steps: [{id: a, run: pwd}, {id: b, run: pwd, dir: sub}, {id: c, dir: "${{ steps.b.output }}", needs: [b], command: [pwd]}]
output: "${{ [steps.a.output, steps.b.output, steps.c.output] }}"`,
		output: `["FOLDER","FOLDER/sub","FOLDER/sub"]`},
	{says: "a value that is one whole expression keeps its type, inside text it is written as text", file: `
steps: [{id: a, handler: with, with: {n: "${{ 1 + 2 }}", text: "n is ${{ 1 + 2 }}", list: ["${{ [1, 2] }}"], plain: true}}]
output: {whole: "${{ steps.a.output }}", part: "${{ steps.a.output.n }}!", keys: "${{ toJSON({'b': 1, 'a': fromJSON('[2]')}) }}"}`,
		output: `{"keys":"{\"a\":[2],\"b\":1}","part":"3!","whole":{"list":[[1,2]],"n":3,"plain":true,"text":"n is 3"}}`},
	{says: "inputs have types, defaults and requirements", file: `
inputs: {day: {required: true}, n: {type: integer, default: 3}, none: {type: boolean}}
steps: []
output: "${{ [inputs.day, inputs.n, inputs.none] }}"`,
		inputs: `{"day": "x"}`, output: `["x",3,null]`},
	{says: "foreach runs once for each item, the outputs are in order", file: `
inputs: {files: {type: array, default: [{path: c}, {path: a}, {path: b}]}}
steps:
  - {id: load, foreach: "${{ inputs.files }}", parallel: 2, env: {FILE: "${{ item.path }}", N: "${{ index }}"}, run: "echo \"$N $FILE\""}
  - {id: none, foreach: "${{ [] }}", run: "exit 1"}
output: "${{ [steps.load.output, steps.none.output] }}"`,
		output: `[["0 c","1 a","2 b"],[]]`, steps: "load complete, load[0] complete, load[2] complete, none complete"},
	{says: "an instance that fails for good fails the step, under halt the others are cancelled", file: `
steps:
  - {id: load, foreach: [1, 2, 3], parallel: 1, run: "exit 7", retry: {permanent_exit_codes: [7]}}
  - {id: after, needs: [load], run: echo}`,
		status: lifecycle.JobFailed, fails: "load[0]: ", steps: "load permanent_error, load[0] permanent_error, after cancelled"},
	{says: "a matrix runs each combination, the last name varying fastest, and gathers values and outputs", file: `
steps: [{id: test, matrix: {os: [linux, darwin], n: [1, 2]}, command: [echo, "${{ matrix.os }}", "${{ matrix.n }}", "${{ index }}"]}]
output: ${{ steps.test.output }}`,
		output: `[{"matrix":{"n":1,"os":"linux"},"output":"linux 1 0"},{"matrix":{"n":2,"os":"linux"},"output":"linux 2 1"},{"matrix":{"n":1,"os":"darwin"},"output":"darwin 1 2"},{"matrix":{"n":2,"os":"darwin"},"output":"darwin 2 3"}]`,
		steps:  "test complete, test[linux,2] complete, test[darwin,1] complete"},
	{says: "if: false is skipped, so is what needs it, unless it has an if that is true", file: `
steps:
  - {id: a, if: "${{ false }}", run: echo}
  - {id: b, needs: [a], run: echo}
  - {id: c, needs: [a], if: "steps.a.status == 'skipped'", run: echo ran}
  - {id: d, needs: [b, c], if: "steps.b.status == 'complete'", run: echo}
  - {id: e, needs: [d], if: true, foreach: [1], run: echo}
output: "${{ [steps.a.output, steps.c.output] }}"`,
		output: `[null,"ran"]`, steps: "a skipped, b skipped, c complete, d skipped, e complete"},
	{says: "an if that does not come to true or false fails the step", file: `
inputs: {x: {type: array, default: []}}
steps: [{id: a, if: "inputs.x[3] == 1", run: echo}]`,
		status: lifecycle.JobFailed, fails: "a: if: ", steps: "a permanent_error"},
	{says: "an approval waits for a person; the form is the output, with its defaults", file: `
inputs: {day: {default: monday}}
steps:
  - {id: gate, approval: {prompt: "Publish ${{ inputs.day }}?", form: {note: {type: string, required: true}, n: {type: integer, default: 2}}, expires: 24h}}
output: ${{ steps.gate.output }}`,
		do: func(t *testing.T, p *process, id pawl.ID) {
			s := p.waiting(id, "gate")
			if w := s.Wait; w == nil || w.Prompt != "Publish monday?" || w.Until == 0 || s.WorkerID != nil {
				t.Errorf("it waits for %+v, worker %v; want the prompt and a deadline, and no worker", w, s.WorkerID)
			}
			must(t, errorOf(p.engine.Approve(t.Context(), id, "gate", map[string]any{"note": "fine"}, ann)))
		},
		output: `{"n":2,"note":"fine"}`},
	{says: "an approval that is refused is a permanent error that says who", file: `
on_error: drain
steps: [{id: gate, approval: {prompt: x}}, {id: after, needs: [gate], run: echo}, {id: other, run: echo}]`,
		do: func(t *testing.T, p *process, id pawl.ID) {
			p.waiting(id, "gate")
			must(t, errorOf(p.engine.Reject(t.Context(), id, "gate", ann)))
		},
		status: lifecycle.JobFailed, fails: "gate: rejected by ann: because", steps: "gate permanent_error, after cancelled, other complete"},
	{says: "an approval that expires, and an event that does not come, say when", file: `
on_error: drain
steps: [{id: gate, approval: {prompt: x, expires: 20ms}}, {id: paid, event: {name: paid, timeout: 30ms}}]`,
		status: lifecycle.JobFailed, fails: "within", steps: "gate permanent_error, paid permanent_error"},
	{says: "an event waits for its signal, the data is the output; one that came early counts", file: `
steps:
  - {id: first, event: {name: go_on, timeout: 48h}}
  - {id: paid, needs: [first], event: {name: payment_received}}
output: "${{ [steps.first.output, steps.paid.output] }}"`,
		do: func(t *testing.T, p *process, id pawl.ID) {
			must(t, errorOf(p.engine.Signal(t.Context(), id, "payment_received", json.RawMessage(`{"amount": 7}`), ann)))
			p.waiting(id, "first")
			must(t, errorOf(p.engine.Signal(t.Context(), id, "go_on", nil, ann)))
		},
		output: `[null,{"amount":7}]`},
	{says: "sleep waits, and has no output", file: `
inputs: {ms: {type: integer, default: 10}}
steps: [{id: a, sleep: "${{ inputs.ms }}ms"}, {id: b, sleep: 0s, needs: [a]}]
output: "${{ [steps.a.output, steps.b.status] }}"`,
		output: `[null,"complete"]`},
	{says: "waits fan out as other steps do", file: `
steps:
  - {id: ask, foreach: ["x", "y"], approval: {prompt: "Take ${{ item }} (${{ index }})?", form: {yes: {type: boolean, default: true}}}}
  - {id: nap, matrix: {ms: [1, 2]}, sleep: "${{ matrix.ms }}ms"}
output: "${{ [steps.ask.output, steps.nap.output] }}"`,
		do: func(t *testing.T, p *process, id pawl.ID) {
			if w := p.waiting(id, "ask[1]").Wait; w.Prompt != "Take y (1)?" {
				t.Errorf("the prompt is %q", w.Prompt)
			}
			must(t, errorOf(p.engine.Approve(t.Context(), id, "ask[1]", map[string]any{"yes": false}, ann)))
			p.waiting(id, "ask[0]")
			must(t, errorOf(p.engine.Approve(t.Context(), id, "ask[0]", nil, ann)))
		},
		output: `[[{"yes":true},{"yes":false}],[{"matrix":{"ms":1},"output":null},{"matrix":{"ms":2},"output":null}]]`},
	{says: "http sends the request and gives status, headers and body", file: `
inputs: {day: {default: monday}}
steps:
  - {id: a, http: {method: POST, url: "SERVER/publish?day=${{ inputs.day }}", headers: {X-Day: "${{ inputs.day }}"}, body: "note of ${{ inputs.day }}", expect: [201]}}
output: "${{ [steps.a.output.status, steps.a.output.body] }}"`,
		output: `[201,"POST /publish?day=monday monday note of monday"]`},
	{says: "an unexpected status is permanent, 503 is retried", file: `
on_error: drain
steps:
  - {id: a, http: {url: SERVER/404}}
  - {id: b, http: {url: SERVER/503}, retry: {max_attempts: 2, base: 0s}}`,
		status: lifecycle.JobFailed, steps: "a permanent_error 1, b permanent_error 2"},
	{says: "three attempts by default; a permanent exit code has one", file: `
on_error: drain
steps:
  - {id: a, run: "exit 1", retry: {base: 0s}}
  - {id: b, run: "exit 2", retry: {max_attempts: 5, base: 0s, permanent_exit_codes: [2]}}`,
		status: lifecycle.JobFailed, steps: "a permanent_error 3, b permanent_error 1"},
	{says: "the timeout of a step is that of one attempt", file: `
steps: [{id: a, run: "sleep 60", timeout: 50ms, retry: {max_attempts: 2, base: 0s}}]`,
		status: lifecycle.JobFailed, fails: "timed out after 50ms", steps: "a permanent_error 2"},
	{says: "on_error: drain lets independent branches finish, what needs the failed step is cancelled", file: `
on_error: drain
steps:
  - {id: bad, run: "exit 1", retry: {max_attempts: 1}}
  - {id: after, needs: [bad], run: echo}
  - {id: good, sleep: 20ms}
  - {id: also, needs: [good], run: echo}`,
		status: lifecycle.JobFailed, fails: "bad: ", steps: "bad permanent_error, after cancelled, good complete, also complete"},
	{says: "halt cancels what is unfinished, waits too", file: `
steps:
  - {id: ask, approval: {prompt: x}}
  - {id: nap, sleep: 1h}
  - {id: told, event: {name: e}}
  - {id: bad, run: "exit 1", retry: {max_attempts: 1}}`,
		status: lifecycle.JobFailed, fails: "bad: ", steps: "ask cancelled, nap cancelled, told cancelled"},
	{says: "the timeout of the job ends its waits", file: `
timeout: 100ms
steps: [{id: ask, approval: {prompt: x}}, {id: nap, sleep: 1h}, {id: told, event: {name: e}}, {id: each, foreach: [1, 2], sleep: 1h}, {id: child, workflow: napping}]`,
		status: lifecycle.JobCanceled, fails: "timeout: it took longer than 100ms",
		steps: "ask cancelled, nap cancelled, told cancelled, each cancelled, each[1] cancelled"},
	{says: "a child is a registered name (the newest, or a version) or a file beside this one", file: `
steps:
  - {id: newest, workflow: cleanup, inputs: {day: monday}}
  - {id: first, workflow: cleanup@1}
  - {id: beside, workflow: sub/cleanup.yaml, inputs: {day: "${{ 'tues' + 'day' }}"}}
output: "${{ [steps.newest.output, steps.first.output, steps.beside.output] }}"`,
		output: `["2 monday","1","file tuesday in FOLDER"]`},
	{says: "a child that is not registered, or of inputs that do not fit, is a permanent error", file: `
on_error: drain
steps:
  - {id: a, workflow: nowhere}
  - {id: b, workflow: cleanup@9}
  - {id: c, workflow: cleanup, inputs: {day: 3}}`,
		status: lifecycle.JobFailed, steps: "a permanent_error 1, b permanent_error 1, c permanent_error 1"},
	{says: "expressions are not allowed inside a script", file: `
steps: [{id: a, run: "echo ${{ 1 }}"}]`, status: "refused"},
	{says: "hooks on failure, then always, know job.error and job.status", file: `
steps: [{id: bad, run: "exit 1", retry: {max_attempts: 1}}]
hooks:
  failure: [{id: tell, command: [test, "${{ job.status }}: ${{ len(job.error) > 0 }}", "=", "FAILED: true"]}]
  always: [{id: tidy, if: "job.status == 'FAILED' && steps.bad.status == 'permanent_error'", run: "test -n \"$E\"", env: {E: "${{ job.error }}"}}]`,
		status: lifecycle.JobFailed, fails: "bad: ", steps: "tell complete, tidy complete"},
	{says: "after a success only the hooks for always run", file: `
steps: [{id: a, run: echo}]
hooks:
  failure: [{id: tell, run: "exit 1"}]
  always: [{id: tidy, if: "job.status == 'COMPLETED'", run: echo}]`,
		steps: "tell skipped, tidy complete"},
	{says: "the output of the job is any value", file: `
steps: [{id: a, run: echo hi}]
output: {list: ["${{ steps.a.output }}", 1, null], status: "${{ steps.a.status }}"}`,
		output: `{"list":["hi",1,null],"status":"complete"}`},
	{says: "a job whose output does not evaluate fails", file: `
steps: [{id: a, run: echo hi}]
output: "${{ fromJSON(steps.a.output) }}"`,
		status: lifecycle.JobFailed, fails: "output: ", steps: "a complete"},
}

// TestTheLanguage checks every sentence of WORKFLOW.md about running jobs.
func TestTheLanguage(t *testing.T) { // T12, T1, T7, J6
	onShared(t, func(t *testing.T, db *database) {
		folder := newFolder(t)
		server := newPublisher(t)
		p := start(t, db.open(), setup{handlers: map[string]worker.Handler{
			"command": worker.Command(worker.CommandConfig{TempDir: t.TempDir()}), "run": worker.Command(worker.CommandConfig{TempDir: t.TempDir()}),
			"http": worker.HTTP(worker.HTTPConfig{}), "with": func(_ context.Context, t *worker.Task) worker.Result { return worker.Result{Output: t.Work.With} },
		}, capacity: 8})
		for _, src := range []string{
			"name: cleanup\ninputs: {day: {}}\nsteps: []\noutput: '1'\n",
			"name: cleanup\ninputs: {day: {}}\nsteps: []\noutput: '2 ${{ inputs.day }}'\n",
			"name: napping\nsteps: [{id: nap, sleep: 1h}]\n",
		} {
			p.register(define(t, src))
		}
		t.Run("sentences", func(t *testing.T) {
			for i, s := range sentences {
				t.Run(fmt.Sprint(i), func(t *testing.T) {
					t.Parallel()
					s.file = strings.ReplaceAll(s.file, "SERVER", server)
					s.output = strings.ReplaceAll(s.output, "FOLDER", folder)
					mine := *p
					mine.t = t
					s.prove(t, &mine, folder)
				})
			}
		})
		verify(t, p.store)
	})
}

func (s *sentence) prove(t *testing.T, p *process, folder string) {
	src := "name: sentence\n" + strings.TrimPrefix(s.file, "\n") + "\n"
	def, err := workflow.ParseWith(filepath.Join(folder, "main.yaml"), []byte(src), func(from, path string) (string, []byte, error) {
		known := filepath.Join(filepath.Dir(from), path)
		src, err := os.ReadFile(known)
		return known, src, err
	})
	if s.status == "refused" {
		if err == nil {
			t.Errorf("%s: it was not refused", s.says)
		}
		return
	}
	must(t, err)
	bound, err := def.BindInputs(object(t, s.inputs))
	must(t, err)
	id := p.submission(pawl.Submission{Definition: def.Canonical(), Inputs: bound, Dir: folder})
	if s.do != nil {
		s.do(t, p, id)
	}
	v := p.wait(id)
	if s.status == "" {
		s.status = lifecycle.JobCompleted
	}
	if v.Status != s.status {
		t.Fatalf("%s: the job is %s (%v), want %s\n%s", s.says, v.Status, v.Error, s.status, p.dump(id))
	}
	if diff := cmp.Diff(s.output, string(v.Output)); s.output != "" && diff != "" {
		t.Errorf("%s: output (-want +got):\n%s", s.says, diff)
	}
	if v.Error != nil {
		if got := v.Error.Step + ": " + v.Error.Message; !strings.Contains(got, s.fails) {
			t.Errorf("%s: the job failed by %q, want %q", s.says, got, s.fails)
		}
	}
	s.checkSteps(t, v)
	p.settled(id)
}

func (s *sentence) checkSteps(t *testing.T, v *pawl.JobView) {
	t.Helper()
	if s.steps == "" {
		return
	}
	for _, want := range strings.Split(s.steps, ", ") {
		words := strings.Fields(want)
		got := steps(v)[words[0]]
		have := []string{words[0], string(got.Status), fmt.Sprint(got.Attempts)}
		if diff := cmp.Diff(words, have[:len(words)]); diff != "" {
			t.Errorf("%s: step (-want +got):\n%s", s.says, diff)
		}
	}
}

// newFolder makes the folder of a workflow file, with a child in a subfolder.
func newFolder(t *testing.T) string {
	t.Helper()
	folder, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	must(t, os.Mkdir(filepath.Join(folder, "sub"), 0o755))
	child := "name: beside\ninputs: {day: {}}\nsteps: [{id: where, run: pwd}]\noutput: 'file ${{ inputs.day }} in ${{ steps.where.output }}'\n"
	must(t, os.WriteFile(filepath.Join(folder, "sub", "cleanup.yaml"), []byte(child), 0o644))
	return folder
}

// newPublisher returns the address of a server that echoes requests, or returns the status
// that the path names.
func newPublisher(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/404":
			w.WriteHeader(http.StatusNotFound)
		case "/503":
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			body, _ := io.ReadAll(r.Body)
			w.WriteHeader(http.StatusCreated)
			fmt.Fprintf(w, "%s %s %s %s", r.Method, r.URL, r.Header.Get("X-Day"), body)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// submission submits one job as given.
func (p *process) submission(s pawl.Submission) pawl.ID {
	p.t.Helper()
	s.Actor = "test"
	answers, err := p.engine.Submit(p.t.Context(), s)
	must(p.t, err)
	must(p.t, answers[0].Err)
	return answers[0].ID
}

// register makes the definition the newest version of its name.
func (p *process) register(def *workflow.Definition) {
	p.t.Helper()
	_, _, err := p.engine.RegisterWorkflow(p.t.Context(), pawl.DefaultWorkspace, def.Canonical(), "", ann)
	must(p.t, err)
}

// see returns a step once f accepts it.
func (p *process) see(id pawl.ID, key string, f func(*pawl.StepView) bool) pawl.StepView {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	var s pawl.StepView
	err := p.engine.Watch(ctx, id, func() (bool, error) {
		v, err := p.engine.Job(ctx, id)
		if err != nil {
			return false, err
		}
		s = steps(v)[key]
		return !f(&s), nil
	})
	if err != nil {
		p.t.Fatalf("step %s is %+v: %v\n%s", key, s, err, p.dump(id))
	}
	return s
}

// waiting returns a step once it waits for something other than a worker.
func (p *process) waiting(id pawl.ID, key string) pawl.StepView {
	p.t.Helper()
	return p.see(id, key, func(s *pawl.StepView) bool { return s.Status == lifecycle.StepInProgress })
}
