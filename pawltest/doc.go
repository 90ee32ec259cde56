// Package pawltest runs workflows in tests: an engine in memory, a worker with the handlers
// under test, and a clock that moves only as the test lets it. Nothing waits in fact, so that
// a test of a month of retries, sleeps and reminders takes milliseconds.
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
//			if err := e.Client.Approvals.Approve(t.Context(), id, "remind", nil, pawl.Change{}); err != nil {
//				t.Fatal(err)
//			}
//			if err := e.Wait(id).Err(); err != nil {
//				t.Error(err)
//			}
//		})
//	}
//
// RunUntilIdle lets happen what can happen now, Advance what happens within a time, and Wait
// whatever it takes for a job to end. Wait fails a test whose job does not end by itself,
// and says why. A backoff with jitter lasts as long as it can.
//
// A handler that waits for what is outside of the bubble (a network, a file, a program) holds
// the clock for as long. What is left of such connections when the test ends fails it; see
// testing/synctest.
package pawltest
