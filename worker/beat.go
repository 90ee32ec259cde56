package worker

import (
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/trouble"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// News is the reply to a beat of the worker with that key.
type news struct {
	worker rowkey.Worker
	state  machine.State
	work   bool
}

// beat sends beats, stops the claims that the replies name, and passes the rest to the
// loop.
func (w *Worker) beat() {
	tick := time.NewTimer(0)
	defer tick.Stop()
	log := trouble.New(w.log, "a heartbeat failed; it is tried again until one succeeds", "heartbeats work again")
	for {
		select {
		case <-tick.C:
		case <-w.link.Stops():
		case <-w.life.Done():
			return
		}
		next, err := w.config.Beat, w.beatOnce()
		if w.life.Err() == nil {
			log.Note(err)
		}
		if err != nil {
			next = min(next, beatAgain)
		}
		tick.Reset(next)
	}
}

// beatAgain is the pause before a failed heartbeat is tried again. The store bounds
// each attempt, so that the silence has time for several.
const beatAgain = 200 * time.Millisecond

func (w *Worker) beatOnce() error {
	p, sent := w.pulse(), time.Now()
	said, err := w.link.Beat(w.life, p)
	if err != nil {
		return err
	}
	if !lifecycle.Worker.Ended(said.State) {
		w.renew(p.Worker, sent)
	}
	w.stop(said.Stops, ErrCanceled)
	w.stop(said.Taken, errEnded)
	w.alone.Store(said.Alone)
	w.tell(news{p.Worker, said.State, said.Work})
	w.spare(p.Worker, said.State)
	return nil
}

// pulse returns the content of a beat. It has routes only while the worker has a free
// slot.
func (w *Worker) pulse() link.Pulse {
	free := w.free()
	w.mu.Lock()
	defer w.mu.Unlock()
	p := link.Pulse{Node: w.config.Node, Clock: pawl.Micros(time.Now()), Worker: w.self.Key()}
	for k := range w.running {
		p.Claims = append(p.Claims, link.Stop{StepKey: k.StepKey, Claim: k.claim})
	}
	if free > 0 {
		p.Routes = w.self.Routes
	}
	return p
}

// tell passes news to the loop, in place of news that the loop has not read yet.
func (w *Worker) tell(n news) {
	for {
		select {
		case w.news <- n:
			return
		case <-w.news:
		}
	}
}

// learn handles news: that there may be something to claim, or that the worker was
// ended. A worker without a free slot does not visit the engine, and learns of its end
// only from here.
func (w *Worker) learn(n news) {
	w.turn.Lock()
	defer w.turn.Unlock()
	w.heed(n)
}

// heed is learn with turn held.
func (w *Worker) heed(n news) {
	switch {
	case n.worker != w.key():
	case lifecycle.Worker.Ended(n.state):
		w.fail(link.ErrWorkerEnded)
	case n.work && n.state != lifecycle.WorkerPaused:
		w.want()
	}
}

func (w *Worker) stop(stops []link.Stop, cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range stops {
		if o, runs := w.running[claimKey{s.StepKey, s.Claim}]; runs {
			o.cancel(cause)
		}
	}
}

// A TerminatedError is returned when an operator has terminated the worker.
type TerminatedError struct{ Worker, Actor, Reason string }

func (e *TerminatedError) Error() string {
	return fmt.Sprintf("worker %s was terminated by %s: %s", e.Worker, e.Actor, e.Reason)
}

var errEnded = errors.New("the worker was ended")

// ended drops everything, since this worker was ended though it lives; fail has stopped its
// steps. Results of its handlers are still reported, and kept as refused facts (T5). If an operator has ended
// it, it stops for good; otherwise it was taken for dead, and registers anew (J1). The
// loop calls it, with turn held.
func (w *Worker) ended() {
	w.trouble = nil // of the old record
	held := append(w.held(), w.late...)
	w.late = nil
	end, err := w.link.WorkerEnd(w.life, w.key())
	for err != nil && !w.draining() {
		w.log.Warn("reading who ended this worker failed; it is retried", "error", err)
		w.rest()
		end, err = w.link.WorkerEnd(w.life, w.key())
	}
	if end.Operator {
		w.obey(&TerminatedError{Worker: w.ID(), Actor: end.Actor, Reason: end.Reason})
	} else {
		w.reincarnate(end.Reason, held)
	}
}

// obey ends the worker because an operator has terminated it.
func (w *Worker) obey(end *TerminatedError) {
	w.mu.Lock()
	w.fate = end
	w.mu.Unlock()
	w.once.Do(func() { close(w.drain) })
	w.interrupt()
}

// held returns the claims that the worker runs, and those whose reports wait.
func (w *Worker) held() []link.Claimed {
	claims := claimsOf(w.outbox)
	w.mu.Lock()
	defer w.mu.Unlock()
	for k := range w.running {
		claims = append(claims, link.Claimed{StepKey: k.StepKey, Claims: k.claim})
	}
	return claims
}

func claimsOf(reports []link.Report) []link.Claimed {
	claims := make([]link.Claimed, len(reports))
	for i, r := range reports {
		claims[i] = link.Claimed{StepKey: r.Step, Claims: r.Claim}
	}
	return claims
}

func (w *Worker) reincarnate(reason string, held []link.Claimed) {
	w.log.Warn("this worker was declared dead; it drops its steps and registers again", "reason", reason,
		"hint", "if this repeats, shorten the interval between beats to a third of the servers' silence, or less")
	w.mu.Lock()
	release, before := w.release, &link.Predecessor{Worker: w.self.Key(), Claims: held}
	w.mu.Unlock()
	release()
	for !w.draining() {
		err := w.register(w.life, before)
		if err == nil {
			return
		}
		if errors.Is(err, link.ErrUnknown) {
			before.Claims = nil // their losses may have been taken back already
		}
		w.log.Warn("registering again failed; it is retried", "error", err)
		w.rest()
	}
}

// spare pauses the worker while there is too little memory or disk, and resumes it
// when that is over (J9). A worker that has never had a task cannot be paused, and
// claims nothing all the same.
func (w *Worker) spare(key rowkey.Worker, state machine.State) {
	if w.config.Scarce == nil {
		return
	}
	why := w.config.Scarce()
	w.mu.Lock()
	was, offer := w.scarce, w.offer
	w.scarce = why != ""
	w.mu.Unlock()
	if why != "" {
		offer.Close()
		offer.Recall()
	}
	switch {
	case why != "" && !was:
		w.log.Warn("the worker pauses itself; its steps go to other workers", "reason", why)
	case why == "" && was:
		w.log.Warn("the worker resumes: there is enough memory and disk again")
	}
	switch {
	case why != "" && state == lifecycle.WorkerRunning:
		w.paused = w.moveSelf(key, lifecycle.WorkerPause, why)
	case why == "" && state == lifecycle.WorkerPaused && w.paused:
		w.paused = !w.moveSelf(key, lifecycle.WorkerResume, "there is enough memory and disk again")
	default:
		w.moves.Forget()
		w.paused = w.paused && state == lifecycle.WorkerPaused
	}
	if why != "" {
		w.stopAll(ErrInterrupted)
	}
	if why == "" && was {
		w.tell(news{worker: key, state: lifecycle.WorkerRunning, work: true})
	}
}

// moveSelf reports whether the worker's record was moved.
func (w *Worker) moveSelf(key rowkey.Worker, event machine.Event, reason string) bool {
	err := w.link.MoveWorker(w.life, key, event, decide.Note{Actor: w.ID(), Reason: reason})
	if w.life.Err() == nil {
		w.moves.Note(err)
	}
	return err == nil
}
