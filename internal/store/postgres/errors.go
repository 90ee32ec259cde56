package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
)

// SQLSTATE codes that mean something to the store.
const (
	codeUnique        = "23505"
	codeStale         = "22007" // no date, which no other value is taken for; see counted
	codeSerialization = "40001"
	codeDeadlock      = "40P01"
	codeReadOnly      = "25006"
	codeNoDatabase    = "3D000"
	codeNoPassword    = "28P01"
	codeNoAccess      = "28000"
	codeTooMany       = "53300"
	codeDiskFull      = "53100"
	codeNoTable       = "42P01"
	codeLockTimeout   = "55P03"
	codeNoRight       = "42501"
	codeNoValue       = "22023" // a setting has no such value
	codeFailed        = "25P02" // the transaction has failed before
)

// code returns the SQLSTATE of an error, from any driver, or "".
func code(err error) string {
	var coded interface{ SQLState() string }
	if errors.As(err, &coded) {
		return coded.SQLState()
	}
	return ""
}

// severed reports whether err left the connection unusable: the server said so, or stopped
// replying.
func severed(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Severity == "FATAL" || pg.Severity == "PANIC" || pg.SeverityUnlocalized == "FATAL" || pg.SeverityUnlocalized == "PANIC"
	}
	return err != nil
}

// clash reports whether the server aborted a transaction in favour of another.
func clash(err error) bool { c := code(err); return c == codeSerialization || c == codeDeadlock }

// connectError describes a failure to connect.
func connectError(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) && code(err) == "" {
		return &pawl.Error{Kind: pawl.Unavailable, Message: "cannot connect to PostgreSQL in time", Err: err}
	}
	e := &pawl.Error{Kind: pawl.Unavailable, Message: "cannot connect to PostgreSQL", Err: err}
	switch code(err) {
	case codeNoDatabase:
		e.Kind, e.Message, e.Hint = pawl.NotFound, "the database does not exist", "create it with createdb NAME"
	case codeNoPassword, codeNoAccess:
		e.Kind, e.Message, e.Hint = pawl.Refused, "PostgreSQL refuses the user or password", "check the user and password of the url, or PGPASSWORD"
	case codeTooMany:
		e.Hint = "raise max_connections of the server, or lower the connections of each process"
	case "":
		e.Hint = "check that the server runs and that host and port of the url are right"
	}
	return e
}

// queryError describes the failure of a statement.
func queryError(doing string, err error) error {
	if err == nil {
		return nil
	}
	var known *pawl.Error
	if errors.As(err, &known) {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	e := &pawl.Error{Kind: pawl.Internal, Message: doing, Err: err}
	switch c := code(err); {
	case c == codeReadOnly:
		e.Kind, e.Message = pawl.Unavailable, doing+": the database is read-only"
		e.Hint = "connect to the primary server (target_session_attrs=read-write)"
	case c == codeDiskFull:
		e.Kind, e.Hint = pawl.Unavailable, "free space on the database server's disk"
	case c == codeNoTable:
		e.Kind, e.Message = pawl.Conflict, doing+": the database lacks a table of its schema version"
		e.Hint = "restore the database from a backup: pawl migrate up makes only what its version lacks"
	case c == codeNoRight:
		e.Kind, e.Hint = pawl.Refused, "grant the user what it needs on the schema"
	case clash(err), c == codeLockTimeout:
		e.Kind, e.Message = pawl.Unavailable, doing+": the database is busy"
		e.Err = &store.BusyError{Err: err}
	case severed(err):
		e.Kind, e.Message = pawl.Unavailable, doing+": the database is out of reach"
	}
	return e
}

// writeError describes the outcome of a transaction whose writing failed: whether its commit
// may have happened.
func writeError(err error) error {
	switch c := code(err); {
	case severed(err) && !pgconn.SafeToRetry(err):
		return fmt.Errorf("%w: %w", store.ErrUnknown, err)
	case c == codeUnique, c == codeStale, clash(err):
		return fmt.Errorf("%w: %w", store.ErrStale, err)
	}
	return queryError("write a transaction", err)
}
