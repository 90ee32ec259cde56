// Package pawltest runs workflows in tests: an engine in memory, a worker with the
// handlers under test, and a clock that only the test moves. No real time passes, so a
// test of a month of retries, sleeps and reminders takes milliseconds.
//
// The clock is that of testing/synctest, in whose bubble an Engine lives. So it is also the
// clock of the handlers: their timers, their contexts' deadlines and time.Now move with it.
//
//	func TestInvoice(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			e := pawltest.New(t, pawltest.Config{Handle: func(w *worker.Worker) {
//				worker.Handle(w, "mail", mail)
//			}})
//			id, err := e.Client.Jobs.Submit(t.Context(), invoice, map[string]any{"to": "ada"})
//			if err != nil {
//				t.Fatal(err)
//			}
//			e.Advance(30 * 24 * time.Hour) // the invoice is overdue
//			if _, err := e.Client.Approvals.Approve(t.Context(), id, "remind", nil, pawl.Change{}); err != nil {
//				t.Fatal(err)
//			}
//			if err := e.Wait(id).Err(); err != nil {
//				t.Error(err)
//			}
//		})
//	}
//
// RunUntilIdle runs what can run now, Advance what is due within a time, and Wait
// everything until a job ends. Wait fails a test whose job does not end by itself, and
// says why. A backoff with jitter takes its longest delay.
//
// While a handler waits for something outside of the bubble (a network, a file, a
// program) the clock stands still. Connections of that kind that are still open when
// the test ends fail it; see testing/synctest.
package pawltest
