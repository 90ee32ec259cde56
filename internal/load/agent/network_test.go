package agent

import (
	"bytes"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/lifecycle"
)

// A proxy stands between a controller and an agent, and does what networks do.
type proxy struct {
	t       *testing.T
	address string
	target  string

	mu     sync.Mutex    // guards what follows
	frozen chan struct{} // nothing passes until it is closed; nil: everything does
	delay  time.Duration // of what the agent sends
	conns  []net.Conn
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{t: t, address: l.Addr().String(), target: target}
	var passing sync.WaitGroup
	passing.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", target)
			if err != nil {
				from.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, from, to)
			p.mu.Unlock()
			passing.Go(func() { p.pass(to, from, false) })
			passing.Go(func() { p.pass(from, to, true) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.thaw()
		p.cut()
		passing.Wait()
	})
	return p
}

func (p *proxy) pass(to, from net.Conn, slow bool) {
	defer to.Close()
	b := make([]byte, 512)
	for {
		n, err := from.Read(b)
		p.mu.Lock()
		frozen, delay := p.frozen, p.delay
		p.mu.Unlock()
		if frozen != nil {
			<-frozen
		}
		if slow && delay > 0 {
			time.Sleep(delay)
		}
		if err != nil {
			return
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

// freeze lets nothing pass, and keeps the connections open.
func (p *proxy) freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = make(chan struct{})
}

func (p *proxy) thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen != nil {
		close(p.frozen)
		p.frozen = nil
	}
}

// cut closes the connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

// lost checks that the run has ended for want of a controller, that nothing is left, and that
// its result can be fetched.
func (s *served) lost() {
	s.t.Helper()
	c := dial(s.t, s.address)
	r := c.idle()
	if r.GetState() != string(lifecycle.AgentError) || r.GetError().GetCode() != codeLost {
		s.t.Errorf("the run: %v", r)
	}
	s.isClean()
	if b, err := c.fetch(0); err != nil || len(b) == 0 {
		s.t.Errorf("the result: %d bytes, %v", len(b), err)
	}
}

// A controller that dies closes its connection: the run ends at once.
func TestControllerDies(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	p := newProxy(t, s.address)
	dial(t, p.address).greet(0).begin(endless)
	p.cut()
	s.lost()
}

// A half-open connection says nothing: the run ends with the lease (pain 15).
func TestHalfOpenConnection(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	p := newProxy(t, s.address)
	dial(t, p.address).greet(2000).begin(endless) // long enough to begin on a busy machine
	p.freeze()
	s.lost()
}

// A slow network holds up neither the run nor its end; the result is whole.
func TestSlowNetwork(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	p := newProxy(t, s.address)
	c := dial(t, p.address).greet(0)
	c.send(&loadpb.ControlMessage{Command: loadpb.Command_COMMAND_START, ConfigYaml: short})
	c.until(statusReady)
	p.mu.Lock()
	p.delay = 100 * time.Millisecond // for each 512 bytes
	p.mu.Unlock()
	c.send(&loadpb.ControlMessage{Command: loadpb.Command_COMMAND_START, CoordinatedStartTimeNs: time.Now().Add(100 * time.Millisecond).UnixNano()})
	direct := dial(t, s.address)
	if r := direct.idle(); r.GetState() != string(lifecycle.AgentCompleted) {
		t.Errorf("the run: %v", r)
	}
	m := c.until(statusCompleted)
	c.end(m)
	if b, err := direct.fetch(0); err != nil || uint64(len(b)) != m.GetResult().GetSizeBytes() {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

// The connection breaks before the controller has the final message: the result can be fetched,
// also after the agent was started again (L6, pain 14).
func TestFinalMessageIsLost(t *testing.T) {
	t.Parallel()
	state, root := t.TempDir(), t.TempDir()
	agent, address := startAgent(t, state, root)
	p := newProxy(t, address)
	c := dial(t, p.address).greet(0)
	c.begin(short)
	p.freeze()
	c = dial(t, address)
	if r := c.idle(); r.GetState() != string(lifecycle.AgentCompleted) {
		t.Errorf("the run: %v", r)
	}
	before, err := c.fetch(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = agent.Wait()
	_, address = startAgent(t, state, root)
	if after, err := dial(t, address).fetch(0); err != nil || !bytes.Equal(before, after) {
		t.Errorf("%d bytes before and %d after, %v", len(before), len(after), err)
	}
	verifyTrails(t, state)
}

// An agent that is told to end ends its run, says so, and cleans up.
func TestAgentIsStopped(t *testing.T) {
	t.Parallel()
	state, root := t.TempDir(), t.TempDir()
	agent, address := startAgent(t, state, root)
	c := dial(t, address).greet(0)
	c.begin(endless)
	if err := agent.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.end(c.until(statusError))
	if err := agent.Wait(); err != nil {
		t.Errorf("the agent has ended with %v", err)
	}
	if left := files(t, root); len(left) > 0 {
		t.Errorf("%d files are left", len(left))
	}
	verifyTrails(t, state)
}

// Results are kept for 24 h, and a number of them (L6).
func TestResultsAreSwept(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		store := func(run string, age time.Duration) {
			r, err := b.agent.record(run)
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := r.finish(&loadpb.Result{RunId: run}); err != nil {
				t.Fatal(err)
			}
			at := b.agent.now().Add(-age)
			if err := os.Chtimes(r.path, at, at); err != nil {
				t.Fatal(err)
			}
		}
		store("old", keepFor+time.Minute)
		store("young", keepFor-time.Minute)
		b.agent.sweep()
		if got := b.agent.kept(); len(got) != 1 || got[0] != "young" {
			t.Errorf("kept: %q", got)
		}
		if _, err := b.agent.open("old"); status.Code(err) != codes.NotFound {
			t.Errorf("the old one: %v", err)
		}
		for i := range keepMost {
			store("r"+time.Duration(i).String(), time.Duration(i)*time.Second)
		}
		b.agent.sweep()
		if got := b.agent.kept(); len(got) != keepMost || got[0] != "r0s" {
			t.Errorf("kept: %d, first %q", len(got), got[0])
		}
	})
}
