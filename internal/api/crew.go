package api

import (
	"context"
	"errors"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/crew"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

func (s *Service) crewOperations() []operation {
	const tag, at = "crew", "/api/crew/members/{member}"
	reads := func(id, path, summary, detail string) operation {
		return operation{id: id, method: get, path: path, role: Viewer, everywhere: true, errors: []Slug{SlugNotFound, SlugConflict}, tag: tag, summary: summary, detail: detail}
	}
	verb := func(name, summary, detail string) operation {
		return operation{id: name + "-crew-member", method: post, path: at + "/" + name, role: Operator, everywhere: true, repeat: settles, errors: []Slug{SlugNotFound, SlugConflict, SlugInvalidTransition}, tag: tag, summary: summary, detail: detail}
	}
	with := func(o operation, add func(huma.API, huma.Operation)) operation { o.add = add; return o }
	plain := func(name string, do crewVerb, summary, detail string) operation {
		return with(verb(name, summary, detail), does(s, s.crewCommand(do)))
	}
	return []operation{
		with(reads("list-crew-members", "/api/crew/members", "List the members of the crew", "Lists the members of the crew that the server was started with, by id, with what they work on."), does(s, s.listCrew)),
		with(reads("get-crew-member", at, "Read a member of the crew", "Reads a member of the crew: its state, its task, its heartbeat, its review and the results of the gates."), does(s, s.getCrewMember)),
		with(reads("list-crew-history", at+"/history", "List every move of a member", "Lists the moves of a member, oldest first."), does(s, s.listCrewHistory)),
		with(reads("get-crew-diff", at+"/diff", "Show what the work of a member changes", "Compares the commits of a member with where its branch left the target. What is not committed is named, and not in the patch."), does(s, s.getCrewDiff)),
		with(reads("get-crew-log", at+"/log", "Read what the program of a member has printed", "Reads the ends of both streams of the program of the member's assignment, at most 1 MiB of each."), does(s, s.getCrewLog)),
		with(reads("list-crew-queue", "/api/crew/queue", "List what waits to land on a branch", "Lists the approved work that waits to land on a target, in the order in which it will."), does(s, s.listCrewQueue)),
		with(verb("assign", "Give a task to a member", "Gives a task to an idle member. The server starts its program if it has one."), does(s, s.assignCrewTask)),
		with(verb("approve", "Approve the work of a member", "Approves what a member has submitted, if the gates have passed and its branch is not behind its target."), does(s, s.approveCrew)),
		with(verb("request-changes", "Send work back to its member", "Sends work back to its member with the reason."), does(s, s.requestCrewChanges)),
		with(verb("merge", "Let approved work land", "Puts approved work into the queue of its target, which the server lands."), does(s, s.mergeCrew)),
		plain("cancel", (*crew.Crew).Cancel, "End the work of a member for good", "Ends the work of a member for good, and its program."),
		plain("retry", (*crew.Crew).Retry, "Let a member try again", "Begins another attempt of a task that has failed."),
		plain("reset", leaves(lifecycle.MemberReset), "Make a member idle that has failed", "Makes a member idle that has failed. Its history, branches and worktrees stay."),
		plain("recycle", leaves(lifecycle.MemberRecycle), "Make a member idle whose work has landed", "Makes a member idle whose work has landed."),
	}
}

// A crewVerb changes a member.
type crewVerb func(c *crew.Crew, ctx context.Context, id string, by crew.Caller) (*crew.Member, error)

func leaves(event machine.Event) crewVerb {
	return func(c *crew.Crew, ctx context.Context, id string, by crew.Caller) (*crew.Member, error) {
		return c.Leave(ctx, id, event, by)
	}
}

// A CrewPath names a member of the crew.
type CrewPath struct {
	Member string `path:"member" doc:"The id of a member." example:"auth"`
}

// A CrewMember is a member of the crew, with what it works on.
type CrewMember struct {
	ID             string         `json:"worker_id"`
	State          machine.State  `json:"state" doc:"Empty if the member cannot be read."`
	Task           *string        `json:"task_id"`
	Branch         *string        `json:"branch"`
	Target         *string        `json:"target" doc:"The branch on which the work is to land."`
	Base           *string        `json:"base" doc:"The commit at which it began."`
	AssignedAt     pawl.Timestamp `json:"assigned_at"`
	NotBefore      pawl.Timestamp `json:"not_before" doc:"The attempt does not begin earlier."`
	StateChangedAt pawl.Timestamp `json:"state_changed_at"`
	Attempt        int            `json:"attempt"`
	MaxAttempts    int            `json:"max_attempts"`
	LastError      *string        `json:"last_error"`
	PullRequest    *string        `json:"pr_url"`
	Version        int64          `json:"version"`
	Epoch          int64          `json:"epoch" doc:"The number of the assignment."`
	Attention      *string        `json:"attention" doc:"Why a person should look."`
	Running        bool           `json:"running" doc:"A program that Pawl has started works for it."`
	HeartbeatAt    pawl.Timestamp `json:"heartbeat_at"`
	Note           *string        `json:"note" doc:"What it says it does."`
	ReviewState    *string        `json:"review_state"`
	ReviewRound    int            `json:"review_round" doc:"0: nothing was submitted."`
	ReviewHead     *string        `json:"review_head" doc:"The commit that was submitted."`
	ReviewBy       *string        `json:"review_by"`
	ReviewText     *string        `json:"review_text"`
	Checks         []crew.Check   `json:"checks" doc:"The results of the gates."`
	Queued         bool           `json:"queued" doc:"It waits to land."`
	Problem        *string        `json:"problem" doc:"Why it cannot be read."`
}

// theCrew returns the crew of the server.
func (s *Service) theCrew() (*crew.Crew, error) {
	if s.Crew == nil {
		return nil, &pawl.Error{Kind: pawl.NotFound, Message: "this server has no crew", Hint: "start it with --crew DIR, a folder in the repository"}
	}
	return s.Crew, nil
}

// crewError returns an error of a crew as one of a kind: what would lose work, or does not pass, is a
// conflict with the state.
func crewError(err error) error {
	var loss *crew.LossError
	var gate *crew.GateError
	var tampered *crew.TamperedError
	if errors.As(err, &loss) || errors.As(err, &gate) || errors.As(err, &tampered) {
		return &pawl.Error{Kind: pawl.Conflict, Message: err.Error()}
	}
	return err
}

func (s *Service) listCrew(_ context.Context, in *struct {
	Window
	Attention bool `query:"attention" doc:"Only members at which a person should look."`
}) (*body[page[CrewMember]], error) {
	c, err := s.theCrew()
	if err != nil {
		return nil, err
	}
	board, err := c.Board()
	if err != nil {
		return nil, err
	}
	var all []CrewMember
	for i := range board {
		if m := memberOf(c, &board[i]); !in.Attention || m.Attention != nil || m.Problem != nil {
			all = append(all, *m)
		}
	}
	return indexedPage(in.Window, all, "crew", in.Attention)
}

func (s *Service) getCrewMember(_ context.Context, in *struct{ CrewPath }) (*body[CrewMember], error) {
	c, err := s.theCrew()
	if err != nil {
		return nil, err
	}
	return shownMember(c, in.Member)
}

func shownMember(c *crew.Crew, id string) (*body[CrewMember], error) {
	status, err := c.Status(id)
	if err != nil {
		return nil, crewError(err)
	}
	return &body[CrewMember]{*memberOf(c, status)}, nil
}

// orNothing returns a text, nil if it is empty.
func orNothing[T ~string](text T) *string {
	if text == "" {
		return nil
	}
	s := string(text)
	return &s
}

func memberOf(c *crew.Crew, s *crew.Status) *CrewMember {
	v := &CrewMember{ID: s.ID, Checks: []crew.Check{}, Problem: orNothing(s.Problem)}
	m := s.Member
	if m == nil {
		return v
	}
	v.State, v.Task, v.Branch, v.AssignedAt, v.StateChangedAt = m.State, orNothing(m.Task), orNothing(m.Branch), m.AssignedAt, m.StateChangedAt
	v.Attempt, v.MaxAttempts, v.LastError, v.PullRequest = m.Attempt, m.MaxAttempts, orNothing(m.LastError), orNothing(m.PullRequest)
	v.Version, v.Epoch, v.Attention, v.ReviewState = m.Version, m.Epoch, orNothing(m.Attention), orNothing(m.Review)
	v.Queued = s.Queued != nil
	if a := s.Assignment; a != nil {
		v.Target, v.Base, v.NotBefore = orNothing(a.Target), orNothing(a.Base), a.Before
	}
	if s.Beat != nil {
		v.HeartbeatAt, v.Note = s.Beat.At, orNothing(s.Beat.Note)
	}
	if s.Run != nil {
		v.Running = s.Run.Alive
	}
	if r := s.Review; r != nil {
		v.ReviewRound, v.ReviewHead, v.ReviewBy, v.ReviewText = r.Round, orNothing(r.Head), orNothing(r.By), orNothing(r.Text)
	}
	if checks, err := c.Checked(m); err == nil && checks != nil {
		v.Checks = append(v.Checks, checks.List...)
	}
	return v
}

func (s *Service) listCrewHistory(_ context.Context, in *struct {
	CrewPath
	Window
}) (*body[page[pawl.Transition]], error) {
	c, err := s.theCrew()
	if err != nil {
		return nil, err
	}
	var all []pawl.Transition
	if err := c.History(in.Member, func(e *audit.Entry) error {
		all = append(all, pawl.TransitionOf(e))
		return nil
	}); err != nil {
		return nil, crewError(err)
	}
	return indexedPage(in.Window, all, "crew", in.Member)
}

func (s *Service) getCrewDiff(ctx context.Context, in *struct{ CrewPath }) (*body[crew.Diff], error) {
	c, err := s.theCrew()
	if err != nil {
		return nil, err
	}
	d, err := c.Diff(ctx, in.Member)
	if err != nil {
		return nil, crewError(err)
	}
	return &body[crew.Diff]{*d}, nil
}

func (s *Service) getCrewLog(_ context.Context, in *struct {
	CrewPath
	Lines int `query:"lines" minimum:"0" maximum:"100000" default:"100" doc:"How many of the last lines of each stream. 0: all that there is room for."`
}) (*body[crew.Output], error) {
	c, err := s.theCrew()
	if err != nil {
		return nil, err
	}
	m, err := c.Load(in.Member)
	if err != nil {
		return nil, crewError(err)
	}
	o, err := c.OutputOf(m.ID, m.Epoch, in.Lines)
	if err != nil {
		return nil, crewError(err)
	}
	return &body[crew.Output]{*o}, nil
}

func (s *Service) listCrewQueue(ctx context.Context, in *struct {
	Window
	Target string `query:"target" maxLength:"255" doc:"A branch. Without it, the one that is checked out in the main worktree."`
}) (*body[page[crew.Entry]], error) {
	c, err := s.theCrew()
	if err != nil {
		return nil, err
	}
	target, all, err := c.QueueOf(ctx, in.Target)
	if err != nil {
		return nil, err
	}
	return indexedPage(in.Window, all, "crew-queue", target)
}

// crewCaller returns the crew, and who changes it.
func (s *Service) crewCaller(ctx context.Context, k Key, n Note) (*crew.Crew, crew.Caller, error) {
	c, err := s.theCrew()
	if err != nil {
		return nil, crew.Caller{}, err
	}
	by, err := k.change(ctx, n)
	return c, crew.Caller{Actor: by.Actor, Reason: by.Reason, Request: by.RequestID}, err
}

func (s *Service) crewCommand(do crewVerb) func(context.Context, *struct {
	CrewPath
	Command
}) (*body[CrewMember], error) {
	return func(ctx context.Context, in *struct {
		CrewPath
		Command
	}) (*body[CrewMember], error) {
		c, by, err := s.crewCaller(ctx, in.Key, given(in.Body))
		if err != nil {
			return nil, err
		}
		if _, err := do(c, ctx, in.Member, by); err != nil {
			return nil, crewError(err)
		}
		return shownMember(c, in.Member)
	}
}

// A CrewTask is what is to be done.
type CrewTask struct {
	Note
	Task        string `json:"task" minLength:"1" maxLength:"64" doc:"The id of the task: letters, digits, '.', '_' and '-'." example:"login-page"`
	Target      string `json:"target,omitempty" maxLength:"255" doc:"The branch on which the work is to land. Without it, the one that is checked out in the main worktree."`
	Base        string `json:"base,omitempty" maxLength:"255" doc:"The commit at which the work begins. Without it, the head of the target."`
	Prompt      string `json:"prompt,omitempty" maxLength:"65536" doc:"What is to be done."`
	MaxAttempts int    `json:"max_attempts,omitempty" minimum:"0" maximum:"100" doc:"How many attempts the member has. 0: 3."`
}

func (s *Service) assignCrewTask(ctx context.Context, in *struct {
	CrewPath
	Key
	Body CrewTask
}) (*body[CrewMember], error) {
	b := in.Body
	c, by, err := s.crewCaller(ctx, in.Key, b.Note)
	if err != nil {
		return nil, err
	}
	if b.Target == "" {
		if b.Target, err = c.Repo.CurrentBranch(ctx); err != nil {
			return nil, err
		}
	}
	if _, err := c.Assign(ctx, in.Member, crew.Task{ID: b.Task, Target: b.Target, Base: b.Base, Prompt: b.Prompt, MaxAttempts: b.MaxAttempts}, by); err != nil {
		return nil, crewError(err)
	}
	return shownMember(c, in.Member)
}

// A CrewDecision decides about what a member has submitted.
type CrewDecision struct {
	Note
	Head string `json:"head,omitempty" maxLength:"64" doc:"The commit that was reviewed, or its beginning; another one is refused."`
}

func (s *Service) approveCrew(ctx context.Context, in *struct {
	CrewPath
	Key
	Body *CrewDecision `required:"false"`
}) (*body[CrewMember], error) {
	return s.decideCrew(ctx, in.Member, in.Key, given(in.Body), (*crew.Crew).Approve)
}

func (s *Service) requestCrewChanges(ctx context.Context, in *struct {
	CrewPath
	Key
	Body CrewDecision
}) (*body[CrewMember], error) {
	if in.Body.Reason == "" {
		return nil, pawl.Errorf(pawl.Invalid, "reason: want what is to be changed")
	}
	return s.decideCrew(ctx, in.Member, in.Key, in.Body, (*crew.Crew).RequestChanges)
}

func (s *Service) decideCrew(ctx context.Context, id string, k Key, d CrewDecision, decide func(*crew.Crew, context.Context, string, string, crew.Caller) (*crew.Member, error)) (*body[CrewMember], error) {
	c, by, err := s.crewCaller(ctx, k, d.Note)
	if err != nil {
		return nil, err
	}
	if _, err := decide(c, ctx, id, d.Head, by); err != nil {
		return nil, crewError(err)
	}
	return shownMember(c, id)
}

// A CrewLanding lets work land.
type CrewLanding struct {
	Note
	Priority int `json:"priority,omitempty" minimum:"-1000000" maximum:"1000000" doc:"Higher ones land first."`
}

func (s *Service) mergeCrew(ctx context.Context, in *struct {
	CrewPath
	Key
	Body *CrewLanding `required:"false"`
}) (*body[CrewMember], error) {
	b := given(in.Body)
	c, by, err := s.crewCaller(ctx, in.Key, b.Note)
	if err != nil {
		return nil, err
	}
	if _, err := c.Enqueue(ctx, in.Member, b.Priority, by); err != nil {
		return nil, crewError(err)
	}
	return shownMember(c, in.Member)
}
