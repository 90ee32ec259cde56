package schedule_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/schedule"
)

func parse(t testing.TB, expr, zone string) *schedule.Cron {
	t.Helper()
	c, err := schedule.Parse(expr, zone)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// at reads a time such as 2026-03-29T03:00:00+02:00.
func at(t testing.TB, s string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func stamps(times []time.Time) string {
	var b strings.Builder
	for _, v := range times {
		b.WriteString(v.Format(" Mon "+time.RFC3339) + "\n")
	}
	return b.String()
}

// The fields mean what cron has always meant by them.
func TestUpcoming(t *testing.T) {
	t.Parallel()
	const from = "2026-01-01T00:00:00Z" // a Thursday
	for _, tt := range []struct{ expr, want string }{
		{"30 4 1,15 * 5", " Thu 2026-01-01T04:30:00Z\n Fri 2026-01-02T04:30:00Z\n Fri 2026-01-09T04:30:00Z\n"}, // either day will do
		{"0 9 */2 * MON", " Mon 2026-01-05T09:00:00Z\n Mon 2026-01-19T09:00:00Z\n Mon 2026-02-09T09:00:00Z\n"}, // both have to agree
		{"*/20 22-2 * * *", " Thu 2026-01-01T00:20:00Z\n Thu 2026-01-01T00:40:00Z\n Thu 2026-01-01T01:00:00Z\n"},
		{"0 12 * * fri-Mon/2", " Fri 2026-01-02T12:00:00Z\n Sun 2026-01-04T12:00:00Z\n Fri 2026-01-09T12:00:00Z\n"},
		{"0 12 * * 6-7", " Sat 2026-01-03T12:00:00Z\n Sun 2026-01-04T12:00:00Z\n Sat 2026-01-10T12:00:00Z\n"},
		{"0 12 * NOV-feb/2 7", " Sun 2026-01-04T12:00:00Z\n Sun 2026-01-11T12:00:00Z\n Sun 2026-01-18T12:00:00Z\n"},
		{"5/40 0 31 * *", " Sat 2026-01-31T00:05:00Z\n Sat 2026-01-31T00:45:00Z\n Tue 2026-03-31T00:05:00Z\n"},
		{"0 0 29 FEB *", " Tue 2028-02-29T00:00:00Z\n Sun 2032-02-29T00:00:00Z\n Fri 2036-02-29T00:00:00Z\n"},
		{"@hourly", " Thu 2026-01-01T01:00:00Z\n Thu 2026-01-01T02:00:00Z\n Thu 2026-01-01T03:00:00Z\n"},
		{"@daily", " Fri 2026-01-02T00:00:00Z\n Sat 2026-01-03T00:00:00Z\n Sun 2026-01-04T00:00:00Z\n"},
		{"@midnight", " Fri 2026-01-02T00:00:00Z\n Sat 2026-01-03T00:00:00Z\n Sun 2026-01-04T00:00:00Z\n"},
		{"@weekly", " Sun 2026-01-04T00:00:00Z\n Sun 2026-01-11T00:00:00Z\n Sun 2026-01-18T00:00:00Z\n"},
		{"@monthly", " Sun 2026-02-01T00:00:00Z\n Sun 2026-03-01T00:00:00Z\n Wed 2026-04-01T00:00:00Z\n"},
		{"@yearly", " Fri 2027-01-01T00:00:00Z\n Sat 2028-01-01T00:00:00Z\n Mon 2029-01-01T00:00:00Z\n"},
		{"@annually", " Fri 2027-01-01T00:00:00Z\n Sat 2028-01-01T00:00:00Z\n Mon 2029-01-01T00:00:00Z\n"},
		{"@every 90s", " Thu 2026-01-01T00:01:30Z\n Thu 2026-01-01T00:03:00Z\n Thu 2026-01-01T00:04:30Z\n"},
		{" @every  1s ", " Thu 2026-01-01T00:00:01Z\n Thu 2026-01-01T00:00:02Z\n Thu 2026-01-01T00:00:03Z\n"},
	} {
		t.Run(tt.expr, func(t *testing.T) {
			t.Parallel()
			got := schedule.Upcoming(parse(t, tt.expr, ""), at(t, from), 3)
			if diff := cmp.Diff(tt.want, stamps(got)); diff != "" {
				t.Errorf("times (-want +got):\n%s", diff)
			}
		})
	}
}

// Next is later than what it is asked about, by whatever fraction of a second.
func TestNextIsLater(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ expr, after, want string }{
		{"* * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"},
		{"* * * * *", "2026-01-01T00:00:59.999999999Z", "2026-01-01T00:01:00Z"},
		{"* * * * *", "2025-12-31T23:59:59.999999999Z", "2026-01-01T00:00:00Z"},
		{"@every 10s", "2026-01-01T00:00:09.9Z", "2026-01-01T00:00:10Z"},
		{"@every 10s", "2026-01-01T00:00:10Z", "2026-01-01T00:00:20Z"},
		{"@every 7s", "1969-12-31T23:59:52Z", "1969-12-31T23:59:53Z"}, // multiples of before the epoch, too
		{"@every 7s", "1969-12-31T23:59:53Z", "1970-01-01T00:00:00Z"},
		{"0 0 29 2 */6", "2026-01-01T00:00:00Z", "2032-02-29T00:00:00Z"}, // a Sunday
		{"0 0 29 2 */6", "2072-03-01T00:00:00Z", "2076-02-29T00:00:00Z"}, // a Saturday
		{"0 0 */29 2 MON", "2072-03-01T00:00:00Z", "2077-02-01T00:00:00Z"},
		{"0 0 29 2 */4", "2088-03-01T00:00:00Z", "2120-02-29T00:00:00Z"}, // a Thursday; 2100 has no such day
	} {
		t.Run(tt.expr+" after "+tt.after, func(t *testing.T) {
			t.Parallel()
			got := parse(t, tt.expr, "").Next(at(t, tt.after)).Format(time.RFC3339Nano)
			if got != tt.want {
				t.Errorf("Next = %s, want %s", got, tt.want)
			}
		})
	}
}

// An expression that is wrong gets one error, which names the field, the
// value and what is allowed.
func TestParseErrors(t *testing.T) {
	t.Parallel()
	const wantMinute = `want 0 to 59, *, a range such as 0-2, a step such as */2, or a list of these`
	const wantDay = `want 1 to 31, *, a range such as 1-3, a step such as */2, or a list of these`
	const wantMonth = `want 1 to 12 or JAN to DEC, *, a range such as 1-3, a step such as */2, or a list of these`
	const wantWeekday = `want 0 to 6 or SUN to SAT, *, a range such as 0-2, a step such as */2, or a list of these`
	const wantEvery = `want whole seconds, such as 90s or 1h30m, from 1s to 8784h0m0s`
	const wantMacro = `want five fields, @every with a duration, or one of @annually, @daily, @hourly, @midnight, @monthly, @weekly, @yearly`
	for _, tt := range []struct{ expr, zone, want, hint string }{
		{expr: "60 * * * *", want: `cron expression "60 * * * *": minute "60": ` + wantMinute},
		{expr: "-1 * * * *", want: `cron expression "-1 * * * *": minute "-1": ` + wantMinute},
		{expr: "+1 * * * *", want: `cron expression "+1 * * * *": minute "+1": ` + wantMinute},
		{expr: "1,,2 * * * *", want: `cron expression "1,,2 * * * *": minute "": ` + wantMinute},
		{expr: "*-5 * * * *", want: `cron expression "*-5 * * * *": minute "*-5": ` + wantMinute},
		{expr: "1-2-3 * * * *", want: `cron expression "1-2-3 * * * *": minute "1-2-3": ` + wantMinute},
		{expr: "0,1.5 * * * *", want: `cron expression "0,1.5 * * * *": minute "1.5": ` + wantMinute},
		{expr: "? * * * *", want: `cron expression "? * * * *": minute "?": ` + wantMinute},
		{expr: "*/0 * * * *", want: `cron expression "*/0 * * * *": minute "*/0": want a step from 1 to 59`},
		{expr: "*/90 * * * *", want: `cron expression "*/90 * * * *": minute "*/90": want a step from 1 to 59`},
		{expr: "*/ * * * *", want: `cron expression "*/ * * * *": minute "*/": want a step from 1 to 59`},
		{expr: "*/2/2 * * * *", want: `cron expression "*/2/2 * * * *": minute "*/2/2": want a step from 1 to 59`},
		{expr: "3-5/3 * * * *", want: `cron expression "3-5/3 * * * *": minute "3-5/3": want a step from 1 to 2`},
		{expr: "0 24 * * *", want: `cron expression "0 24 * * *": hour "24": want 0 to 23, *, a range such as 0-2, a step such as */2, or a list of these`},
		{expr: "0 0 0 * *", want: `cron expression "0 0 0 * *": day of the month "0": ` + wantDay},
		{expr: "0 0 L * *", want: `cron expression "0 0 L * *": day of the month "L": ` + wantDay},
		{expr: "0 0 * 13 *", want: `cron expression "0 0 * 13 *": month "13": ` + wantMonth},
		{expr: "0 0 * MON *", want: `cron expression "0 0 * MON *": month "MON": ` + wantMonth},
		{expr: "0 0 * * 8", want: `cron expression "0 0 * * 8": weekday "8": ` + wantWeekday},
		{expr: "0 0 * * FRI#2", want: `cron expression "0 0 * * FRI#2": weekday "FRI#2": ` + wantWeekday},
		{expr: "", want: `cron expression "": 0 fields: want 5: minute, hour, day of the month, month, weekday`},
		{expr: "0 0 * *", want: `cron expression "0 0 * *": 4 fields: want 5: minute, hour, day of the month, month, weekday`},
		{
			expr: "0 0 0 * * *", want: `cron expression "0 0 0 * * *": 6 fields: want 5: minute, hour, day of the month, month, weekday`,
			hint: "there is no field for seconds; below a minute there is @every, such as @every 10s",
		},
		{
			expr: "CRON_TZ=Europe/Berlin 0 0 * * *", want: `cron expression "CRON_TZ=Europe/Berlin 0 0 * * *": "CRON_TZ=Europe/Berlin" is not part of an expression`,
			hint: "name the time zone with --timezone",
		},
		{expr: "TZ=UTC @daily", want: `cron expression "TZ=UTC @daily": "TZ=UTC" is not part of an expression`, hint: "name the time zone with --timezone"},
		{expr: "@reboot", want: `cron expression "@reboot": ` + wantMacro},
		{expr: "@daily 3", want: `cron expression "@daily 3": ` + wantMacro},
		{expr: "@every", want: `cron expression "@every": @every "": ` + wantEvery},
		{expr: "@every 1", want: `cron expression "@every 1": @every "1": ` + wantEvery},
		{expr: "@every 0s", want: `cron expression "@every 0s": @every "0s": ` + wantEvery},
		{expr: "@every -1s", want: `cron expression "@every -1s": @every "-1s": ` + wantEvery},
		{expr: "@every 1.5s", want: `cron expression "@every 1.5s": @every "1.5s": ` + wantEvery},
		{expr: "@every 8785h", want: `cron expression "@every 8785h": @every "8785h": ` + wantEvery},
		{expr: "0 0 30 2 *", want: `cron expression "0 0 30 2 *": no month "2" has a day "30", so it is never due`},
		{expr: "0 0 31 4,6,SEP,11 *", want: `cron expression "0 0 31 4,6,SEP,11 *": no month "4,6,SEP,11" has a day "31", so it is never due`},
		{expr: strings.Repeat("1,", 100) + "1 * * * *", want: `cron expression of 209 bytes: at most 200 are allowed`},
		{expr: "@daily", zone: "Europe/Berlim", want: `time zone "Europe/Berlim": want an IANA name such as Europe/Berlin, or UTC`},
		{expr: "@daily", zone: "Local", want: `time zone "Local": want an IANA name such as Europe/Berlin, or UTC`},
		{expr: "@daily", zone: "../etc/passwd", want: `time zone "../etc/passwd": want an IANA name such as Europe/Berlin, or UTC`},
	} {
		t.Run(tt.expr+" "+tt.zone, func(t *testing.T) {
			t.Parallel()
			_, err := schedule.Parse(tt.expr, tt.zone)
			var got *pawl.Error
			if !errors.As(err, &got) {
				t.Fatalf("error %v, want a *pawl.Error", err)
			}
			want := &pawl.Error{Kind: pawl.Invalid, Message: tt.want, Hint: tt.hint}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

// A day that never comes alone is no error when the weekday is enough.
func TestEitherDayComes(t *testing.T) {
	t.Parallel()
	got := parse(t, "0 0 30 2 MON", "").Next(at(t, "2026-02-20T00:00:00Z")).Format(time.RFC3339)
	if want := "2026-02-23T00:00:00Z"; got != want {
		t.Errorf("Next = %s, want %s", got, want)
	}
}

func TestOverlapWords(t *testing.T) {
	t.Parallel()
	for _, word := range []string{schedule.Skip, schedule.Queue, schedule.CancelOld, schedule.DefaultOverlap} {
		if err := schedule.CheckOverlap(word); err != nil {
			t.Errorf("CheckOverlap(%q) = %v, want nil", word, err)
		}
	}
	for _, word := range []string{"", "SKIP", "both"} {
		err := schedule.CheckOverlap(word)
		want := `overlap "` + word + `": want skip, queue or cancel_old`
		if err == nil || err.Error() != want || pawl.KindOf(err) != pawl.Invalid {
			t.Errorf("CheckOverlap(%q) = %v, want %s", word, err, want)
		}
	}
}
