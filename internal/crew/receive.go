package crew

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
)

// The types of messages by which a member makes a move, as the commands do.
const (
	doneType    = "done"    // its work is submitted
	failedType  = "failed"  // its attempt has failed, for the reason in the body
	refusedType = "refused" // by which it hears that it cannot
)

// receiver reads the messages to the orchestrator beside whoever reads them in its name. No member has
// such an id.
const receiver = ".patrol"

// receive makes the moves that members have sent for (C6). What is not of the epoch of their assignment
// changes nothing, and what cannot be done is answered.
func (c *Crew) receive(ctx context.Context, p Patrol) (list []Finding, err error) {
	in, err := c.inbox(receiver, Orchestrator)
	if err != nil {
		return nil, err
	}
	for _, d := range in.Damage {
		list = append(list, Finding{Text: d.Error()})
	}
	again := false
	for _, msg := range in.Messages {
		if msg.Type != doneType && msg.Type != failedType {
			continue
		}
		one, err := c.receiveOne(ctx, &msg, p.Fix)
		if one != nil {
			list = append(list, *one)
		}
		if pawl.KindOf(err) == pawl.Unavailable && err != nil { // the finding has it
			again = true
		} else if err != nil {
			return list, err
		}
	}
	if !p.Fix || again {
		return list, nil
	}
	return list, c.Ack(ctx, in)
}

// receiveOne makes the move that a message asks for. Its error means that it is to be tried again.
func (c *Crew) receiveOne(ctx context.Context, msg *Message, fix bool) (*Finding, error) {
	m, err := c.Load(msg.From)
	if err != nil || m.State != lifecycle.MemberWorking && m.State != lifecycle.MemberStale {
		return nil, nil // it has made its move, or is judged elsewhere
	}
	one := &Finding{Member: m.ID, State: m.State, Action: actionReceive, Text: fmt.Sprintf("it has sent %q", msg.Type)}
	switch {
	case msg.Epoch == 0:
		one.Text += " without an epoch, which ends no attempt"
		return one, nil
	case msg.Epoch != m.Epoch || msg.Task != "" && msg.Task != string(m.Task):
		return nil, nil // of an assignment that is over
	case !fix:
		return one, nil
	}
	by := Caller{Actor: memberActor + m.ID, Reason: msg.Body, Epoch: msg.Epoch}
	if msg.Type == doneType {
		_, err = c.Submit(ctx, m.ID, by)
	} else {
		_, err = c.Fail(ctx, m.ID, false, by)
	}
	if one.did(err); err == nil {
		return one, nil
	}
	if pawl.KindOf(err) == pawl.Unavailable {
		return one, err
	}
	return one, c.Send(ctx, &Message{From: Orchestrator, To: m.ID, Type: refusedType, Task: string(m.Task), Epoch: msg.Epoch, Body: err.Error()})
}
