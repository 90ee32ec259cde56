package console

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/machine"
)

// Webhooks lists webhooks.
func Webhooks(w io.Writer, json bool, zone *time.Location) *Listing[pawl.WebhookView] {
	row := func(v *pawl.WebhookView) []string {
		return []string{v.ID, v.Name, v.Workspace, string(v.Status), v.URL, strings.Join(v.Machines, ","), eventsOf(v.Events, ","), failing(v, zone)}
	}
	return &Listing[pawl.WebhookView]{W: w, JSON: json, Head: []string{"ID", "NAME", "WORKSPACE", "STATUS", "URL", "MACHINES", "EVENTS", "FAILING SINCE"}, Row: row}
}

func eventsOf(events []machine.Event, between string) string {
	names := make([]string, len(events))
	for i, e := range events {
		names[i] = string(e)
	}
	return strings.Join(names, between)
}

func failing(v *pawl.WebhookView, zone *time.Location) string {
	if v.FailingSince == 0 {
		return ""
	}
	return Second(v.FailingSince, zone)
}

// Webhook writes what a webhook sends where, and how it fares.
func Webhook(w io.Writer, v *pawl.WebhookView, zone *time.Location) {
	facts := [][2]string{
		{"webhook", v.Name + " (" + v.ID + ")"},
		{"status", string(v.Status)},
		{"url", v.URL},
		{"workspace", orAll(v.Workspace)},
		{"machines", orAll(strings.Join(v.Machines, ", "))},
		{"events", orAll(eventsOf(v.Events, ", "))},
		{"created", exactly(v.CreatedAt, zone)},
	}
	if v.Job != "" {
		facts = append(facts, [2]string{"job", v.Job})
	}
	switch {
	case v.FailingSince != 0 && v.Failures == 0:
		facts = append(facts, [2]string{"blocked", fmt.Sprintf("since %s: %s", exactly(v.FailingSince, zone), v.Error)})
	case v.FailingSince != 0:
		facts = append(facts, [2]string{"failing", fmt.Sprintf("since %s, %d times: %s", exactly(v.FailingSince, zone), v.Failures, v.Error)})
	}
	if v.GapAt != 0 {
		facts = append(facts, [2]string{"gap", exactly(v.GapAt, zone) + ": " + v.Gap})
	}
	for _, fact := range facts {
		fmt.Fprintf(w, "%-12s %s\n", fact[0], Printable(fact[1]))
	}
}

func orAll(s string) string {
	if s == "" {
		return "all"
	}
	return s
}

// Deliveries lists deliveries.
func Deliveries(w io.Writer, json bool, zone *time.Location) *Listing[pawl.Delivery] {
	row := func(v *pawl.Delivery) []string {
		return []string{v.ID, Second(v.At, zone), v.Type, v.Message, strconv.Itoa(v.Attempt), responseOf(v), fmt.Sprint(v.Duration, " ms"), v.Error}
	}
	return &Listing[pawl.Delivery]{W: w, JSON: json, Head: []string{"ID", "TIME", "TYPE", "MESSAGE", "ATTEMPT", "STATUS", "TOOK", "ERROR"}, Row: row}
}

func responseOf(v *pawl.Delivery) string {
	if v.Status == 0 {
		return "-"
	}
	return strconv.Itoa(v.Status)
}

// Delivery writes what came of one attempt.
func Delivery(w io.Writer, v *pawl.Delivery) error {
	text := v.Error
	if v.Delivered {
		text = fmt.Sprintf("delivered: the receiver responded with %d", v.Status)
	}
	_, err := fmt.Fprintf(w, "%s (%s, %d ms)\n", Printable(text), v.Message, v.Duration)
	return err
}
