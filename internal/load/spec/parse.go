package spec

import (
	"time"

	"github.com/pawl-dev/pawl/internal/document"
)

// MaxSource is the largest file, in bytes.
const MaxSource = document.MaxSource

// hints are about the YAML of a file.
var hints = document.Hints{
	Empty:   "a file has at least name and mix",
	Several: "one file is one workload: split it at ---",
	Tag:     "quote the text if it begins with !",
}

// Parse parses a file, one YAML document of at most MaxSource bytes, and fills in all defaults.
// The error is of type document.Problems: all faults, in the order of the file.
func Parse(src []byte) (*Test, error) { return ParseFile("", src) }

// ParseFile is Parse for a file whose name is in the errors.
func ParseFile(name string, src []byte) (*Test, error) {
	e := document.NewExaminer(name)
	root := document.Read(e, src, hints)
	if root == nil {
		return nil, e.Problems
	}
	normal, _ := e.Examine("", root, fileShape)
	if len(e.Problems) > 0 {
		e.Problems.Sort()
		return nil, e.Problems
	}
	return testOf(normal.(map[string]any)), nil
}

// testOf returns the Test of a normalised mapping. What was refused is missing, and becomes zero.
func testOf(m object) *Test {
	t := &Test{
		Name: text(m, "name"), Description: text(m, "description"), Target: text(m, "target"),
		Shared: m["shared"] == true, Seed: uint64(number(m, "seed")), Engine: Engine(text(m, "engine")),
		Direct: m["direct"] == true, Sync: Sync(text(m, "sync")), Verify: m["verify"] == true,
		Jobs: number(m, "jobs"), Depth: number(m, "depth"), Rate: rateOf(m["rate"]),
		Warmup: duration(m, "warmup"), Duration: duration(m, "duration"), Count: uint64(number(m, "count")),
		Cleanup: cleanupOf(m["cleanup"]), Interval: duration(m, "interval"),
		Timeouts: timeoutsOf(within(m, "timeouts")), Start: startOf(within(m, "start")),
	}
	if t.Engine == S3 {
		t.S3 = storeOf(within(m, "s3"))
	}
	budget := within(m, "errors")
	t.Errors = ErrorBudget{Count: uint64(number(budget, "count")), Percent: float(budget, "percent")}
	for _, one := range list(m, "files") {
		t.Files = append(t.Files, setOf(one))
	}
	for _, one := range list(m, "mix") {
		t.Mix = append(t.Mix, t.operationOf(one))
	}
	for _, one := range list(m, "thresholds") {
		t.Threshold = append(t.Threshold, thresholdsOf(one)...)
	}
	if t.Duration == 0 && t.Count == 0 {
		t.Duration = defaultDuration
	}
	return t
}

const (
	defaultDuration = 30 * time.Second
	defaultBlock    = 4096
	defaultTheta    = 0.99
)

func setOf(m object) FileSet {
	tree := within(m, "tree")
	return FileSet{
		Name: text(m, "name"), Count: uint64(number(m, "count")), Size: sizeOf(within(m, "size")),
		Tree:    Tree{Width: number(tree, "width"), Depth: number(tree, "depth")},
		Content: Content{Compressible: number(m, "compressible")}, Blocks: Allocation(text(m, "allocate")),
	}
}

func sizeOf(m object) (s Size) {
	s.Fixed = bytes(m, "fixed")
	if u := within(m, "uniform"); u != nil {
		s.Uniform = &Uniform{Min: bytes(u, "min"), Max: bytes(u, "max")}
	}
	if l := within(m, "lognormal"); l != nil {
		s.Lognormal = &Lognormal{Mean: bytes(l, "mean"), Deviation: bytes(l, "deviation"), Min: bytes(l, "min"), Max: bytes(l, "max")}
	}
	for _, one := range list(m, "list") {
		s.List = append(s.List, Weighted{Size: bytes(one, "size"), Weight: number(one, "weight")})
	}
	return s
}

// operationOf completes an operation from the file sets, which are known.
func (t *Test) operationOf(m object) Operation {
	o := Operation{
		Kind: Kind(text(m, "operation")), Files: text(m, "files"), Weight: number(m, "weight"),
		Block: sizeOf(within(m, "block")), Access: accessOf(m["access"]),
	}
	if _, given := m["files"]; !given && len(t.Files) == 1 {
		o.Files = t.Files[0].Name
	}
	if _, given := m["block"]; !given && o.Kind.HasData() && (t.Engine != S3 || o.Kind == Create) {
		o.Block = t.defaultBlock(&o)
	}
	return o
}

func (t *Test) defaultBlock(o *Operation) Size {
	if set := t.Set(o.Files); o.Kind == Create && set != nil && set.sized() {
		return set.Size
	}
	return Size{Fixed: defaultBlock}
}

func (f *FileSet) sized() bool {
	s := &f.Size
	return s.Fixed > 0 || s.Uniform != nil || s.Lognormal != nil || s.List != nil
}

// Set returns the file set of a name, or nil.
func (t *Test) Set(name string) *FileSet {
	for i := range t.Files {
		if t.Files[i].Name == name {
			return &t.Files[i]
		}
	}
	return nil
}

// HasData reports whether operations of the kind read or write content.
func (k Kind) HasData() bool { return k == Read || k == Write || k == Append || k == Create }

// Whole reports whether the operation reads or writes objects as a whole.
func (o *Operation) Whole() bool {
	_, most := o.Block.Range()
	return most == 0 && (o.Kind == Read || o.Kind == Write)
}

func accessOf(v any) Access {
	m, _ := v.(object)
	switch theta, given := m["zipf"].(float64); {
	case given:
		return Access{Pattern: Zipf, Theta: theta}
	case m["pattern"] == string(Zipf):
		return Access{Pattern: Zipf, Theta: defaultTheta}
	case m["pattern"] == string(Sequential):
		return Access{Pattern: Sequential}
	}
	return Access{Pattern: Random}
}

func rateOf(v any) *Rate {
	m, _ := v.(object)
	if m == nil {
		return nil
	}
	r := &Rate{Operations: float(m, "operations"), Arrival: Constant}
	if a := text(m, "arrival"); a != "" {
		r.Arrival = Arrival(a)
	}
	return r
}

func cleanupOf(v any) Cleanup {
	m, _ := v.(object)
	all := Deletes(text(m, "all"))
	if s, ok := v.(string); ok {
		all = Deletes(s) // the default
	}
	if all != "" {
		return Cleanup{all, all, all}
	}
	return Cleanup{Deletes(text(m, "completed")), Deletes(text(m, "error")), Deletes(text(m, "aborted"))}
}

func timeoutsOf(m object) Timeouts {
	return Timeouts{
		Config: duration(m, "config"), Prepare: duration(m, "prepare"), Start: duration(m, "start"), Silence: duration(m, "silence"),
		Acknowledge: duration(m, "acknowledge"), Lease: duration(m, "lease"), Abort: duration(m, "abort"),
	}
}

func storeOf(m object) *ObjectStore {
	return &ObjectStore{
		Endpoint: text(m, "endpoint"), Bucket: text(m, "bucket"), Region: text(m, "region"),
		PartSize: bytes(m, "part_size"), PartsAtOnce: number(m, "parts_at_once"), Retries: number(m, "retries"), Page: number(m, "page"), Timeout: duration(m, "timeout"), SignPayload: m["sign_payload"] == true,
	}
}

func startOf(m object) Start {
	return Start{Delay: duration(m, "delay"), Policy: Policy(text(m, "policy")), Quorum: number(m, "quorum")}
}

func thresholdsOf(m object) (all []Threshold) {
	for _, metric := range Metrics {
		var limit float64
		switch v := m[string(metric)].(type) {
		case nil:
			continue
		case string:
			limit = float64(duration(m, string(metric)))
		case int:
			limit = float64(v)
		case int64:
			limit = float64(v)
		case float64:
			limit = v
		}
		all = append(all, Threshold{Operation: Kind(text(m, "operation")), Metric: metric, Limit: limit})
	}
	return all
}

// An object is a normalised mapping.
type object = map[string]any

func within(m object, key string) object {
	o, _ := m[key].(object)
	return o
}

func list(m object, key string) (all []object) {
	values, _ := m[key].([]any)
	for _, v := range values {
		o, _ := v.(object)
		all = append(all, o)
	}
	return all
}

func text(m object, key string) string {
	s, _ := m[key].(string)
	return s
}

func number(m object, key string) int {
	n, _ := m[key].(int)
	return n
}

// bytes returns a size; defaults are as a file has them.
func bytes(m object, key string) int64 {
	n, ok := m[key].(int64)
	if !ok {
		n, _ = ParseSize(text(m, key))
	}
	return n
}

// float returns a number; defaults are whole ones.
func float(m object, key string) float64 {
	if f, ok := m[key].(float64); ok {
		return f
	}
	return float64(number(m, key))
}

func duration(m object, key string) time.Duration {
	d, _ := time.ParseDuration(text(m, key)) // the examiner has read it
	return d
}
