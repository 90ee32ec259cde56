package console

import (
	"fmt"
	"io"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
)

// Pruned says what was removed, or would be removed, and what stays.
type Pruned struct {
	DryRun  bool         `json:"dry_run"`
	Removed pawl.Pruning `json:"removed"`
	Left    []left       `json:"left"`
}

// left are entities that are old enough to be removed, but stay.
type left struct {
	Kind  string `json:"kind"`
	Count int64  `json:"count"`
	Why   string `json:"why"`
}

func WhatIsLeft(prospects []pawl.Prospect, dry bool) []left {
	list := []left{}
	add := func(kind string, count int64, why string) {
		if count > 0 {
			list = append(list, left{kind, count, why})
		}
	}
	for _, p := range prospects {
		if p.Kind != lifecycle.Job.Name {
			continue // living workers and kept schedules need no mention
		}
		add(p.Kind, p.Open, "not ended")
		add(p.Kind, p.Needed, "needed by a job that has not ended")
		add(p.Kind, p.Beside, "created on the same day as a job that stays, or on a day that is too recent")
		if !dry {
			add(p.Kind, p.Goes, "in use by others; removed the next time")
		}
	}
	return list
}

func ShowPruned(out, talk io.Writer, p *Pruned) error {
	r := &p.Removed
	verb, rows := "removed", fmt.Sprintf(", with %s and %d rows of the audit trail", Plural(r.Steps, lifecycle.Step.Name), r.Entries)
	if p.DryRun {
		verb, rows = "would remove", ""
	}
	if r.Jobs+r.Workers+r.Schedules+r.Tokens+r.Pauses+r.Webhooks == 0 {
		rows = ""
	}
	if _, err := fmt.Fprintf(out, "%s %s%s\n", verb, strings.Join([]string{
		Plural(r.Jobs, lifecycle.Job.Name), Plural(r.Workers, lifecycle.Worker.Name), Plural(r.Schedules, lifecycle.Schedule.Name), Plural(r.Tokens, lifecycle.Token.Name), Plural(r.Pauses, "queue pause"), Plural(r.Webhooks, lifecycle.Webhook.Name),
	}, ", "), rows); err != nil {
		return err
	}
	for _, l := range p.Left {
		fmt.Fprintf(out, "left %s: %s\n", Plural(l.Count, l.Kind), l.Why)
	}
	for _, busy := range r.Busy {
		Say(talk, "note", busy+"; the rest is removed the next time")
	}
	return nil
}
