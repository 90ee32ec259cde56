package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/internal/schedule"
	"github.com/pawl-dev/pawl/workflow"
)

func schedulesPage(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../../docs/schedules.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var block = regexp.MustCompile("(?s)```(sh|yaml)\n(.*?)```")

// What docs/schedules.md shows are command lines that the program takes, and
// workflows that are valid.
func TestSchedulesPageIsRight(t *testing.T) {
	t.Parallel()
	blocks := block.FindAllStringSubmatch(schedulesPage(t), -1)
	if len(blocks) < 3 {
		t.Fatalf("%d blocks; want commands and a workflow", len(blocks))
	}
	for _, b := range blocks {
		if b[1] == "yaml" {
			if _, err := workflow.Parse("page.yaml", []byte(b[2])); err != nil {
				t.Error(err)
			}
			continue
		}
		for _, line := range strings.Split(strings.TrimSpace(b[2]), "\n") {
			if err := parses(line); err != nil {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
}

var (
	tableRow = regexp.MustCompile(`(?m)^\| (\x60.*?) \| (.*?) \|(?: (.*?) \|)?$`)
	inCode   = regexp.MustCompile(`\x60(.*?)\x60`)
)

// Each expression of the page is one, and is due when the page says that it is
// where the clocks change.
func TestSchedulesPageTellsTheTimes(t *testing.T) {
	t.Parallel()
	page := schedulesPage(t)
	expressions, _, _ := strings.Cut(page[strings.Index(page, "## Expressions"):], "## The time of a job")
	rows := tableRow.FindAllStringSubmatch(expressions, -1)
	if len(rows) < 10 {
		t.Fatalf("%d rows; want those of two tables", len(rows))
	}
	for _, row := range rows {
		for _, expr := range inCode.FindAllStringSubmatch(row[1], -1) {
			c, err := schedule.Parse(expr[1], "Europe/Berlin")
			if err != nil {
				t.Error(err)
				continue
			}
			if row[3] == "" {
				continue
			}
			got := []string{timesOn(t, c, "2026-03-29"), timesOn(t, c, "2026-10-25")}
			if diff := cmp.Diff(row[2:], got); diff != "" {
				t.Errorf("%s (-page +times):\n%s", expr[1], diff)
			}
		}
	}
}

// timesOn writes the times of a day in Berlin, or how many they are.
func timesOn(t *testing.T, c *schedule.Cron, day string) string {
	t.Helper()
	at, err := time.Parse(time.DateOnly, day)
	if err != nil {
		t.Fatal(err)
	}
	var times []string
	for due := c.Next(at.Add(-6 * time.Hour)); due.Format(time.DateOnly) <= day; due = c.Next(due) {
		if due.Format(time.DateOnly) == day {
			times = append(times, due.Format("15:04 -07"))
		}
	}
	if len(times) > 3 {
		return fmt.Sprint(len(times), " times")
	}
	return strings.Join(times, ", ")
}
