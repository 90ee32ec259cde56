package schedule

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
)

// Limits of expressions.
const (
	MaxExpression = 200 // bytes
	MinEvery      = time.Second
	MaxEvery      = 366 * 24 * time.Hour
)

// A Cron is a cron expression in a time zone. It is read only and may be used
// from any number of goroutines.
type Cron struct {
	zone  *time.Location
	every time.Duration // of @every, or 0: then the rest is empty

	minute, hour, day, month, weekday set

	eitherDay bool // day and weekday are both restricted: a match of either is enough
	hourly    bool // it has every hour
	recurs    bool // it has every hour, or * or a step in its minute or its hour
}

// macros are the names of whole expressions.
var macros = map[string]string{
	"@hourly":   "0 * * * *",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@weekly":   "0 0 * * 0",
	"@monthly":  "0 0 1 * *",
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
}

const everyMacro = "@every"

// Parse reads a cron expression, as the package comment describes it, in the
// time zone of the IANA name zone, or in UTC if that is empty. Errors are of
// kind Invalid and name the field, the value and what is allowed. An expression
// whose day never comes (30 February) is an error, and so is a time zone inside
// the expression (CRON_TZ=).
func Parse(expr, zone string) (*Cron, error) {
	if len(expr) > MaxExpression {
		return nil, pawl.Errorf(pawl.Invalid, "cron expression of %d bytes: at most %d are allowed", len(expr), MaxExpression)
	}
	location, err := locate(zone)
	if err != nil {
		return nil, err
	}
	c := &Cron{zone: location}
	if hint, err := c.read(strings.Fields(expr)); err != nil {
		return nil, &pawl.Error{Kind: pawl.Invalid, Message: fmt.Sprintf("cron expression %q: %v", expr, err), Hint: hint}
	}
	return c, nil
}

// locate returns the time zone of an IANA name. Only this function reads the zone
// database.
func locate(zone string) (*time.Location, error) {
	if zone != "Local" {
		if location, err := time.LoadLocation(zone); err == nil {
			return location, nil
		}
	}
	return nil, pawl.Errorf(pawl.Invalid, "time zone %.64q: want an IANA name such as Europe/Berlin, or UTC", zone)
}

// read reads the words of an expression. The hint belongs to the error.
func (c *Cron) read(words []string) (hint string, err error) {
	switch {
	case len(words) == 0:
	case strings.Contains(words[0], "TZ="):
		return "name the time zone with --timezone", fmt.Errorf("%q is not part of an expression", words[0])
	case words[0] == everyMacro:
		return "", c.readEvery(words[1:])
	case words[0][0] == '@':
		return "", c.readMacro(words)
	}
	if len(words) == len(fields)+1 {
		hint = "there is no field for seconds; below a minute there is @every, such as @every 10s"
	}
	if len(words) != len(fields) {
		return hint, fmt.Errorf("%d fields: want 5: minute, hour, day of the month, month, weekday", len(words))
	}
	return "", c.readFields(words)
}

func (c *Cron) readMacro(words []string) error {
	expr, known := macros[words[0]]
	if !known || len(words) > 1 {
		return fmt.Errorf("want five fields, @every with a duration, or one of %s", strings.Join(macroNames(), ", "))
	}
	return c.readFields(strings.Fields(expr))
}

func macroNames() []string {
	var names []string
	for name := range macros {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (c *Cron) readEvery(words []string) error {
	d, err := time.ParseDuration(strings.Join(words, " "))
	if err != nil || d%time.Second != 0 || d < MinEvery || d > MaxEvery {
		return fmt.Errorf("@every %q: want whole seconds, such as 90s or 1h30m, from %v to %v", strings.Join(words, " "), MinEvery, MaxEvery)
	}
	c.every = d
	return nil
}

// readFields reads five fields.
func (c *Cron) readFields(words []string) error {
	for i, into := range []*set{&c.minute, &c.hour, &c.day, &c.month, &c.weekday} {
		var err error
		if *into, err = fields[i].parse(words[i]); err != nil {
			return err
		}
	}
	c.eitherDay = words[2][0] != '*' && words[4][0] != '*'
	c.hourly = c.hour == 1<<24-1
	c.recurs = c.hourly || strings.ContainsAny(words[0]+words[1], "*/")
	if _, ok := c.match(pawl.Time(0), pawl.Time(0).AddDate(horizon, 0, 0)); !ok {
		return fmt.Errorf("no %s %q has a day %q, so it is never due", fields[3].name, words[3], words[2])
	}
	return nil
}
