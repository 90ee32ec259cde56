package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/store"
)

// Diagnose reports what is wrong with the file. It creates no file, and works for any schema
// version. It checks the integrity of the file for at most the given time; 0 skips that check.
func Diagnose(ctx context.Context, cfg Config, integrity time.Duration) []health.Finding {
	d := &diagnosis{ctx: ctx, cfg: cfg.withDefaults(), Diagnosis: new(health.Diagnosis)}
	if err := d.all(integrity); err != nil {
		d.Unusable(err)
	}
	return d.Findings
}

// A diagnosis is one examination of a file, on a connection of its own.
type diagnosis struct {
	*health.Diagnosis
	ctx  context.Context
	cfg  Config
	conn *conn
}

func (d *diagnosis) all(integrity time.Duration) error {
	if err := d.cfg.validate(); err != nil {
		return err
	}
	if _, err := os.Stat(d.cfg.Path); errors.Is(err, fs.ErrNotExist) {
		return pawl.Errorf(pawl.NotFound, "there is no file %s; the first command that needs it makes it", d.cfg.Path)
	}
	c, err := sqlite.OpenConn(d.cfg.Path, sqlite.OpenReadWrite)
	if err != nil {
		return translate("open "+d.cfg.Path, err)
	}
	d.conn = &conn{Conn: c}
	defer d.conn.close()
	c.SetBusyTimeout(2 * time.Second)
	id, err := d.conn.number("PRAGMA application_id")
	if err != nil {
		return translate("open "+d.cfg.Path, err)
	}
	current, err := d.conn.version()
	if err != nil {
		return translate("open "+d.cfg.Path, err)
	}
	if id != applicationID && (id != 0 || current.Current > 0) {
		return pawl.Errorf(pawl.Conflict, "%s is a database of another program", d.cfg.Path)
	}
	d.Say("database", health.OK, "", "SQLite file %s", d.cfg.Path)
	d.version(current)
	d.synchronous()
	d.check("network_file_system", d.network)
	d.check("disk", d.disk)
	d.check("wal_size", d.walSize)
	d.check("journal_mode", d.journal)
	d.check("file_mode", d.modes)
	d.check("readers", d.readers)
	if current.Current == newest() {
		d.check("schema", d.catalog)
		d.check("audit_doubles", d.doubles)
	}
	if integrity > 0 {
		d.check("integrity", func() error { return d.integrity(integrity) })
	}
	return nil
}

func (d *diagnosis) check(name string, look func() error) {
	if err := look(); err != nil {
		d.Fail(name, err)
	}
	d.Well(name)
}

func (d *diagnosis) version(v store.SchemaVersion) {
	switch err := v.Check(changes()); {
	case v.Current == 0:
		d.Say("schema_version", health.Warning, "", "the database is empty: pawl migrate up, or the first command that needs it, makes the tables")
	case err != nil:
		d.Say("schema_version", health.Problem, "", "%s", err.Error())
	case v.Current < newest():
		d.Say("schema_version", health.Warning, "", "version %d, and this program brings %d", v.Current, newest())
	default:
		d.Say("schema_version", health.OK, "", "version %d", v.Current)
	}
}

func (d *diagnosis) synchronous() {
	if d.cfg.Synchronous != Full {
		d.Say("synchronous", health.Warning, "", "synchronous is %s", d.cfg.Synchronous)
	}
	d.Well("synchronous")
}

func (d *diagnosis) network() error {
	kind, severity, err := fileSystem(d.cfg.Path)
	if err == nil && severity != health.OK {
		d.Say("network_file_system", severity, "", "the file is on %s", kind)
	}
	return err
}

func (d *diagnosis) disk() error {
	free, known, err := freeSpace(filepath.Dir(d.cfg.Path))
	if err == nil && known {
		d.Grade("disk", float64(free), "", "%s are free", health.Bytes.Format(float64(free)))
	}
	return err
}

func (d *diagnosis) walSize() error {
	info, err := os.Stat(d.cfg.Path + "-wal")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		n := float64(info.Size())
		d.Grade("wal_size", n, "", "it has %s", health.Bytes.Format(n))
	}
	return err
}

// modes checks which users may read the files: inputs, outputs and logs are in them.
func (d *diagnosis) modes() error {
	path, err := filepath.EvalSymlinks(d.cfg.Path)
	if err != nil {
		return err
	}
	if folder, err := os.Stat(filepath.Dir(path)); err != nil || folder.Mode()&0o001 == 0 {
		return err // other users have no access to it
	}
	var open []string
	for _, ending := range []string{"", "-wal", "-shm", "-logs", "-logs-wal", "-logs-shm"} {
		info, err := os.Stat(path + ending)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if info.Mode()&0o006 != 0 {
			open = append(open, path+ending)
		}
	}
	if len(open) > 0 {
		d.Say("file_mode", health.Warning, "", "every user of the machine can read or write %s", strings.Join(open, ", "))
		for i := range open {
			open[i] = shellQuoted(open[i])
		}
		d.Advise("chmod o-rwx " + strings.Join(open, " "))
	}
	return nil
}

// shellQuoted quotes a word for a shell's command line.
func shellQuoted(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+@%") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func (d *diagnosis) journal() error {
	return d.conn.ask("PRAGMA journal_mode", nil, func(cols *columns) {
		if mode := cols.text(); mode != "wal" {
			d.Say("journal_mode", health.Problem, "", "journal_mode is %s", mode)
		}
	})
}

// readers copies the log into the file as far as possible, as any commit does now and then,
// and measures the rest.
func (d *diagnosis) readers() error {
	page, err := d.conn.number("PRAGMA page_size")
	if err != nil {
		return err
	}
	return d.conn.ask("PRAGMA wal_checkpoint(PASSIVE)", nil, func(cols *columns) {
		cols.int() // whether it was blocked
		logged, taken := cols.int(), cols.int()
		if left := float64((logged - taken) * page); left > 0 {
			d.Grade("readers", left, "", "%s of the -wal file cannot be taken over", health.Bytes.Format(left))
		}
	})
}

// integrity stops when its time is over: a large file takes minutes.
func (d *diagnosis) integrity(limit time.Duration) error {
	ctx, cancel := context.WithTimeout(d.ctx, limit)
	defer cancel()
	d.conn.SetInterrupt(ctx.Done())
	defer d.conn.SetInterrupt(nil)
	err := d.conn.ask("PRAGMA quick_check(10)", nil, func(cols *columns) {
		if fault := cols.text(); fault != "ok" {
			d.Say("integrity", health.Problem, "", "%s", fault)
		}
	})
	if ctx.Err() != nil && d.ctx.Err() == nil {
		d.Say("integrity", health.OK, "", "nothing found in %s, and the file was not gone through to its end", limit)
		return nil
	}
	if err != nil && primary(err) == sqlite.ResultCorrupt {
		d.Say("integrity", health.Problem, "", "%v", err)
		return nil
	}
	return err
}

// catalog compares the schema with the one that the migrations create in memory. It ignores
// indexes, columns and views that were added by hand.
func (d *diagnosis) catalog() error {
	made, statements, err := reference()
	if err != nil {
		return err
	}
	there, err := d.conn.catalog()
	if err != nil {
		return err
	}
	for _, line := range there {
		if strings.HasPrefix(line, "table ") && !slices.Contains(made, line) {
			d.Say("schema", health.Warning, line, "it is not one of this program's")
		}
	}
	for _, line := range made {
		if !slices.Contains(there, line) && (strings.HasPrefix(line, "table ") || slices.Contains(there, "table "+partOf(line))) {
			d.Say("schema", health.Problem, line, "it is missing, or another one")
			if name, sql := indexOf(line), statements[indexOf(line)]; sql != "" {
				if slices.ContainsFunc(there, func(other string) bool { return indexOf(other) == name }) {
					sql = "DROP INDEX " + name + "; " + sql
				}
				d.Advise(sql)
			}
		}
	}
	return nil
}

// reference returns the catalogue of a new database, and the statements that create its
// indexes.
func reference() (lines []string, indexes map[string]string, err error) {
	m, err := sqlite.OpenConn(memory, sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err != nil {
		return nil, nil, err
	}
	c := &conn{Conn: m}
	defer c.close()
	if _, err := c.migrate(changes(), 0, newest()); err != nil {
		return nil, nil, err
	}
	indexes = map[string]string{}
	err = c.ask("SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL", nil, func(cols *columns) {
		name := cols.text()
		indexes[name] = strings.Join(strings.Fields(cols.text()), " ") + ";"
	})
	if err != nil {
		return nil, nil, fmt.Errorf("read the schema: %w", err)
	}
	lines, err = c.catalog()
	return lines, indexes, err
}

// indexOf returns the name of the index that a line of the catalogue describes, or "".
func indexOf(line string) string {
	words := strings.Fields(line)
	if len(words) < 3 || words[0] != "index" {
		return ""
	}
	return words[2]
}

// catalog returns tables, columns, indexes and views, one line each: the type, the table if it
// is part of one, and the name.
func (c *conn) catalog() ([]string, error) {
	var lines []string
	err := c.ask(`SELECT type || ' ' || CASE WHEN type IN ('index', 'view') THEN tbl_name || ' ' ELSE '' END || name
  || CASE type WHEN 'index' THEN ' ' || substr(sql, instr(sql, ' ON ')) ELSE '' END
FROM sqlite_schema WHERE type IN ('table', 'index', 'view') AND name NOT LIKE 'sqlite_%'
UNION ALL SELECT 'column ' || s.name || ' ' || i.name || ' ' || i.type || CASE WHEN i."notnull" THEN ' NOT NULL' ELSE '' END
FROM sqlite_schema s, pragma_table_info(s.name) i WHERE s.type = 'table' AND s.name NOT LIKE 'sqlite_%'
ORDER BY 1`, nil, func(cols *columns) { lines = append(lines, strings.Join(strings.Fields(cols.text()), " ")) })
	if err != nil {
		return nil, fmt.Errorf("read the schema: %w", err)
	}
	return lines, nil
}

// partOf returns the table to which a line of the catalogue belongs.
func partOf(line string) string {
	_, rest, _ := strings.Cut(line, " ")
	table, _, _ := strings.Cut(rest, " ")
	return table
}
