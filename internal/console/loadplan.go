package console

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/spec"
)

// A LoadPlan is what a run would create on one agent.
type LoadPlan struct {
	Agent           string   `json:"agent"`
	Files           uint64   `json:"files"`
	Folders         uint64   `json:"folders"`
	Bytes           uint64   `json:"bytes"`
	FreeBytes       uint64   `json:"free_bytes"`
	FileSystem      string   `json:"file_system"`
	DirectAlignment uint32   `json:"direct_alignment,omitempty"` // 0: there is no direct I/O
	PrepareSeconds  float64  `json:"prepare_seconds"`
	RunSeconds      float64  `json:"run_seconds"` // 0: it is not known
	Faults          []string `json:"faults,omitempty"`
}

// LoadPlanOf returns a plan as it is shown. No plan is one of nothing.
func LoadPlanOf(agent string, p *loadpb.Plan, faults []*loadpb.Error) LoadPlan {
	plan := LoadPlan{
		Agent: agent, Files: p.GetFiles(), Folders: p.GetFolders(), Bytes: p.GetBytes(), FreeBytes: p.GetFreeBytes(), FileSystem: p.GetFileSystem(),
		DirectAlignment: p.GetDirectAlignment(), PrepareSeconds: p.GetPrepareSeconds(), RunSeconds: p.GetRunSeconds(),
	}
	for _, f := range faults {
		text := f.GetMessage()
		if f.GetHint() != "" {
			text += " (" + f.GetHint() + ")"
		}
		plan.Faults = append(plan.Faults, text)
	}
	return plan
}

// LoadPlans shows plans, and then why runs are not possible.
func LoadPlans(w io.Writer, plans []LoadPlan) error {
	rows := [][]string{{"AGENT", "FILES", "FOLDERS", "SIZE", "FREE", "FILE SYSTEM", "DIRECT I/O", "PREPARE", "RUN"}}
	for _, p := range plans {
		direct := "none"
		if p.DirectAlignment > 0 {
			direct = spec.SizeText(int64(p.DirectAlignment))
		}
		free := spec.RoundSizeText(float64(p.FreeBytes))
		if p.FileSystem == string(spec.S3) {
			free = "" // nobody knows
		}
		rows = append(rows, []string{
			p.Agent, strconv.FormatUint(p.Files, 10), strconv.FormatUint(p.Folders, 10), spec.RoundSizeText(float64(p.Bytes)), free,
			p.FileSystem, direct, planTime(p.PrepareSeconds), planTime(p.RunSeconds),
		})
	}
	if err := Table(w, rows); err != nil {
		return err
	}
	for _, p := range plans {
		for _, f := range p.Faults {
			fmt.Fprintf(w, "%s: %s\n", Printable(p.Agent), OneLine(f))
		}
	}
	return nil
}

// planTime returns a time that is estimated; empty if it is not known.
func planTime(seconds float64) string {
	if seconds == 0 {
		return ""
	}
	return Latency(int64(time.Duration(min(seconds, 1e9) * float64(time.Second))))
}
