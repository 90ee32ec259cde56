package spec

import (
	"slices"

	"github.com/pawl-dev/pawl/internal/document"
)

// The keys of which a probe has exactly one.
var (
	probeKinds = []string{"command", "http", "tcp", "log", "notify"}
	aliveKinds = []string{"command", "http", "tcp", "notify"}
)

var readyShape = &document.Shape{
	Kind: document.ShapeObject, Also: alsoReady, OneOf: probeKinds, Hint: probeHint, Fields: slices.Concat(probeFields, []document.Field{
		{Name: "log", Shape: &document.Shape{Kind: document.ShapeText, Min: 1, Max: MaxPattern},
			Doc: "A regular expression (RE2) that matches somewhere in a line that the program has printed since its start."},
		{Name: "notify", Shape: boolShape,
			Doc: "The program reports it, with `READY=1`. See [notify](#notify)."},
		{Name: "interval", Default: "1s", Shape: intervalShape,
			Doc: "From the end of one probe to the next."},
		{Name: "timeout", Default: "1s", Shape: timeShape,
			Doc: "The limit of one probe."},
		{Name: "successes", Default: 1, Shape: countShape,
			Doc: "How many successes in a row make it ready."},
		{Name: "failures", Default: 3, Shape: countShape,
			Doc: "How many failures in a row make it degraded, once it was ready."},
	}),
}

var aliveShape = &document.Shape{
	Kind: document.ShapeObject, Also: alsoAlive, OneOf: aliveKinds, Hint: probeHint, Fields: slices.Concat(probeFields, []document.Field{
		{Name: "notify", Shape: boolShape,
			Doc: "The program reports it, with `WATCHDOG=1`. See [notify](#notify)."},
		{Name: "interval", Default: "10s", Shape: intervalShape,
			Doc: "From the end of one probe to the next."},
		{Name: "timeout", Default: "1s", Shape: timeShape,
			Doc: "The limit of one probe. With notify the longest silence, which is 30s by default."},
		{Name: "failures", Default: 3, Shape: countShape,
			Doc: "How many failures in a row restart it."},
		{Name: "log", Shape: &document.Shape{Kind: document.ShapeText}, Barred: barred("a log does not say that a program is alive", "it belongs to ready")},
		{Name: "successes", Shape: countShape, Barred: barred("one success is enough to be alive", "it belongs to ready")},
	}),
}

const probeHint = "write {http: URL}, {tcp: PORT}, {command: [...]} or {notify: true}"

var intervalShape = &document.Shape{Kind: document.ShapeDuration, Least: MinInterval, Most: MaxDuration}

// probeFields are those that each kind of probe has.
var probeFields = []document.Field{
	{Name: "command", Shape: commandShape, Elsewhere: []string{"exec", "test"},
		Doc: "A program that succeeds with exit code 0. It has the service's folder, environment, user and limits."},
	{Name: "http", Shape: &document.Shape{Kind: document.ShapeText, Min: 1, Max: MaxURL}, Elsewhere: []string{"http_get", "url"},
		Doc: "A URL whose response to a GET has a status from 200 to 399."},
	{Name: "tcp", Shape: &document.Shape{Kind: document.ShapeOwn, Own: addressOwn}, Elsewhere: []string{"tcp_socket", "port"},
		Doc: "HOST:PORT that accepts a connection. A number is a port of 127.0.0.1."},
}

func barred(message, hint string) *document.Judgement {
	return &document.Judgement{Message: message, Hint: hint}
}
