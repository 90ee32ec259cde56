// Package schedule decides when a schedule is due, and what it does then. It reads cron
// expressions, computes their times across every change of the clocks, and decides
// between making a job, letting one wait and skipping. It has no clock: now is always
// an argument.
//
// # Expressions
//
// An expression has five fields, with blanks between them:
//
//	minute            0 to 59
//	hour              0 to 23
//	day of the month  1 to 31
//	month             1 to 12, or JAN to DEC
//	weekday           0 to 6 from Sunday on, 7 for Sunday too, or SUN to SAT
//
// A field is * for every value, a value, a range (9-17), which may run over the
// end (22-2, FRI-MON), a step (*/15, 9-17/2, or 5/20 for every 20 from 5 on), or
// a list of these (0,30). A step begins anew in each round of its field. Case
// does not matter in names.
//
// If both the day of the month and the weekday are restricted, a match of either is
// enough, as always in cron. A field that begins with * counts as unrestricted for
// this: of */2 and MON, both have to agree.
//
// These replace whole expressions: @hourly, @daily and @midnight, @weekly (on Sunday),
// @monthly, @yearly and @annually.
//
// @every and a duration (@every 90s, @every 1h30m) is due at the multiples of the
// duration since the Unix epoch, in UTC, whatever the time zone, so that it means the
// same times in every process. The duration is whole seconds, from MinEvery to
// MaxEvery.
//
// # When the clocks change
//
// The time zone is an IANA name, by default UTC. The times of an expression are local
// times of its zone, some of which are skipped or occur twice:
//
//   - A time that the clocks skip is due at the first instant after the gap. If a gap
//     contains several times of an expression, they are due once.
//   - A time that occurs twice is due once: the first time.
//
// Two exceptions make recurring times go by real time:
//
//   - An expression of every hour (hour *, 0-23, */1) is not due after a gap: the next
//     hour comes. So "30 * * * *" runs 23 times on a day of 23 hours.
//   - An expression of every hour, or with * or a step in its minute or its hour, is
//     due in both rounds of an hour that occurs twice. So "30 * * * *" runs 25 times on
//     a day of 25 hours, and "*/10 1-3 * * *" does not pause for an hour.
//
// All of this holds for every kind of change: of half an hour, at midnight, or of a
// whole day.
package schedule
