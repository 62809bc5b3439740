package legacy

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

// pingedSession is a session whose test calls the pinger every 15 seconds.
type pingedSession struct {
	*testing.T
	session *Session
	pinger  Pinger
}

// next returns the id of the ping, if there is one.
func (b *pingedSession) next() (id string, lost error) {
	b.Helper()
	time.Sleep(15 * time.Second)
	ping, lost := b.pinger.Next(b.Context())
	if ping == nil {
		return "", lost
	}
	m := parse(b.T, string(ping))
	must.CheckThat(b, m.Kind == jsonrpc.Request && m.Method == mcp.MethodPing, "sent %s", ping)
	return m.ID.String(), lost
}

func withPinger(t *testing.T, f func(b *pingedSession)) {
	synctest.Test(t, func(t *testing.T) {
		server, _ := newServer()
		s := newSession(t, server, "2025-11-25")
		f(&pingedSession{t, s, s.NewPinger(15 * time.Second)})
	})
}

func TestAnsweringClientIsPingedRepeatedly(t *testing.T) {
	withPinger(t, func(b *pingedSession) {
		t := b.T
		seen := map[string]bool{}
		for range 1000 {
			id, lost := b.next()
			must.That(t, id != "" && !seen[id] && lost == nil, "ping %q, %v after %d", id, lost, len(seen))
			seen[id] = true
			must.That(t, b.session.ReceiveResponse(parse(t, `{"jsonrpc":"2.0","id":`+id+`,"result":{}}`)),
				"the response to a ping is unknown")
		}
	})
}

func TestActiveClientIsNotPinged(t *testing.T) {
	withPinger(t, func(b *pingedSession) {
		t := b.T
		for range 10 {
			b.session.ReceiveNotification(parse(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`))
			id, lost := b.next()
			must.That(t, id == "" && lost == nil, "ping %q, %v", id, lost)
		}
		id, _ := b.next()
		must.CheckThat(t, id != "", "a silent client is not pinged")
	})
}

func TestSilentClientIsLost(t *testing.T) {
	withPinger(t, func(b *pingedSession) {
		t := b.T
		for range 2 {
			id, lost := b.next()
			must.That(t, id != "" && lost == nil, "ping %q, %v", id, lost)
		}
		_, lost := b.next()
		var silent *call.SilentError
		must.CheckThat(t, errors.As(lost, &silent) && silent.After == 30*time.Second &&
			errors.Is(lost, call.ErrConnectionLost), "%v", lost)
	})
}

// Any message shows that the client is alive, even a late or useless one.
func TestAnyMessageKeepsAClient(t *testing.T) {
	withPinger(t, func(b *pingedSession) {
		t := b.T
		for range 10 {
			b.next()
			b.next()
			b.session.ReceiveResponse(parse(t, `{"jsonrpc":"2.0","id":"unknown","result":{}}`))
			must.Do(t, must.Err(b.next()))
		}
	})
}

// Some clients process nothing while their user answers.
func TestClientWithAnInputRequestIsNotPinged(t *testing.T) {
	withPinger(t, func(b *pingedSession) {
		t := b.T
		server := newAsking(t)
		b.session = newSession(t, server, "2025-11-25")
		b.pinger = b.session.NewPinger(15 * time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			serve(ctx, b.session, parse(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`), discard{})
			close(done)
		}()
		synctest.Wait()
		b.next() // the call is a message of the client
		for range 20 {
			id, lost := b.next()
			must.That(t, id == "" && lost == nil, "ping %q, %v", id, lost)
		}
		cancel()
		<-done
		id, lost := b.next()
		must.CheckThat(t, id != "" && lost == nil, "then ping %q, %v", id, lost)
	})
}

// newAsking returns a server whose calls request roots.
func newAsking(t *testing.T) *Server {
	s, _ := newServer()
	s.Engine = rpc.NewEngine(rpc.Handlers{mcp.MethodCallTool: func(ctx context.Context, c *rpc.Call) (any, error) {
		_, err := c.InputRequester.RequestInput(ctx, c, []rpc.InputRequest{{Method: mcp.MethodElicit,
			Params: []byte(`{}`)}})
		return nil, err
	}}, nil)
	return s
}

type discard struct{}

func (discard) Write(context.Context, []byte) error { return nil }

// The client's responses may reach another replica than the one that sent the request.
func TestActivityOnAnotherReplicaCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv := store.NewMemory()
		server, _ := newServer()
		here, there := NewSessions(server, kv, SessionLimits{}), NewSessions(server, kv, SessionLimits{})
		mine, other := openOn(t, here, there)
		defer mine.Release()
		defer other.Release()
		b := &pingedSession{t, mine.Session, mine.NewPinger(15 * time.Second)}
		for range 10 {
			id := must.Get(b.next())(t)
			must.CheckThat(t, !other.ReceiveResponse(parse(t, `{"jsonrpc":"2.0","id":`+id+`,"result":{}}`)),
				"the other replica knows a request")
			other.RecordActivity(t.Context())
		}
		var lost error
		for n := 0; lost == nil; n++ {
			must.That(t, n != 10, "the client is never lost")
			_, lost = b.next()
		}
	})
}

// A session of a lost client expires soon, unless it is used. T21: a session with requests
// in flight keeps its usual life.
func TestSessionOfALostClientExpiresSoon(t *testing.T) {
	for name, want := range map[string]struct{ used, serving, ends bool }{
		"expires soon":   {ends: true},
		"unless used":    {used: true},
		"unless serving": {serving: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, calls := newServer()
				kv := store.NewMemory()
				here, there := NewSessions(server, kv, SessionLimits{}), NewSessions(server, kv, SessionLimits{})
				mine, other := openOn(t, here, there)
				defer mine.Release()
				defer other.Release()
				if want.serving {
					done := make(chan struct{})
					go func() {
						serve(t.Context(), mine.Session, parse(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call"}`),
							nil)
						close(done)
					}()
					h := <-calls
					defer func() {
						must.Check(t, h.ctx.Err(), "the handler's context has ended")
						close(h.release)
						<-done
					}()
				}
				mine.ExpireSoon(t.Context(), 5*time.Minute)
				if want.used {
					must.Check(t, other.Touch(t.Context()))
				}
				time.Sleep(5*time.Minute + time.Second)
				err := other.Touch(t.Context())
				must.CheckThat(t, errors.Is(err, ErrNoSession) == want.ends, "five minutes later: %v", err)
			})
		})
	}
}

// openOn creates a session and opens it in two processes.
func openOn(t *testing.T, here, there *Sessions) (mine, other *StoredSession) {
	t.Helper()
	id := mustCreate(t, here, principal.Anonymous, "")
	mine = mustOpen(t, here, principal.Anonymous, id)
	must.Do(t, mine.MarkReady(t.Context()))
	return mine, mustOpen(t, there, principal.Anonymous, id)
}
