package local_test

import (
	"os"
	"testing"

	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/local"
)

// (J12) if the server is killed while a transaction that has submitted is open, its commit
// fails, and neither the job nor the user's row is there. A new transaction on the same pool
// makes the job.
func TestSubmitTxAcrossARestartPostgres(t *testing.T) {
	t.Parallel()
	if os.Getenv("PAWL_TEST_POSTGRES") == "" { // else it is installed
		must(t, pgtest.Install(os.Stderr))
	}
	server, err := pgtest.Start(t.Context(), true)
	must(t, err)
	t.Cleanup(func() { _ = server.Stop() })
	open(t, server.URL, passive).Close() // makes the tables
	def := plain(t)
	users, before := map[string]*user{}, map[string]*userTx{}
	c := open(t, server.URL, local.Config{})
	for _, kind := range []string{"pgx", "sql", "pq"} {
		u, err := openUser(t.Context(), kind, server.URL)
		must(t, err)
		t.Cleanup(func() { _ = u.close() })
		users[kind] = u
		u.do(t, "create table if not exists mine (n bigint)")
		tx := u.open(t)
		one2(t)(c.Jobs.SubmitTx(t.Context(), tx.tx, submission(def, 1)))
		must(t, tx.exec(t.Context(), "insert into mine values (1)"))
		before[kind] = tx
	}
	server.Kill()
	must(t, server.Restart(t.Context()))
	for kind, u := range users {
		if err := before[kind].commit(); err == nil {
			t.Errorf("%s: the commit succeeds, though the server has lost the transaction", kind)
		}
		tx := u.open(t)
		jobs, err := tx.count(t.Context(), "select count(*) from job")
		must(t, err)
		if rows := u.rows(t); jobs != 0 || rows != 0 {
			t.Errorf("%s: after the restart there are %d jobs and %d rows, want none", kind, jobs, rows)
		}
		must(t, tx.rollback())
	}
	serve(t, c, returnsInput)
	for kind, u := range users {
		tx := u.open(t)
		done := one2(t)(c.Jobs.SubmitTx(t.Context(), tx.tx, submission(def, 2)))
		if err := tx.commit(); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		c.Hint()
		completes(t, c, done.ID, 2)
	}
}

// (J12) a transaction may stay open for as long as the user's own settings allow: that a job
// was submitted in it changes no setting of its session, such as the 5 s after which the
// server ends an idle transaction of the engine.
func TestSubmitTxChangesNoSettingPostgres(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"pgx", "sql", "pq"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			where := pgtest.URL(t)
			c := open(t, where, passive)
			u, err := openUser(t.Context(), kind, where)
			must(t, err)
			t.Cleanup(func() { must(t, u.close()) })
			tx := u.open(t)
			count := func(query string) int {
				n, err := tx.count(t.Context(), query)
				must(t, err)
				return n
			}
			const settings = "select hashtext(string_agg(name || '=' || setting, ',' order by name)) from pg_settings"
			was := count(settings)
			one2(t)(c.Jobs.SubmitTx(t.Context(), tx.tx, submission(plain(t), 1)))
			if count(settings) != was {
				t.Error("a setting of the user's session has changed")
			}
			if count("select count(*) from pg_settings where name = 'idle_in_transaction_session_timeout' and setting <> '0'") != 0 {
				t.Error("the server ends the user's transaction when it is idle")
			}
		})
	}
}
