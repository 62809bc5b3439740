package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"os/exec"
	"sync"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
)

const (
	// maxStarts is how often a server that has never been ready is tried without
	// anybody asking: nobody can ask for it, since nobody knows its tools. One that
	// wants a login is not given up.
	maxStarts = 5

	firstPause = time.Second
	maxPause   = time.Minute
	// loginPause is how long after it was refused a server is tried again at the latest
	// that wants a login: somebody may have logged in meanwhile.
	loginPause = 15 * time.Second

	// stable is how long a server has to stay ready for its next failure not to
	// count as one more of the same.
	stable = 10 * time.Second

	// maxListed bounds each list of one server.
	maxListed = 10_000
)

// member is one server of a host, and the client to it.
type member struct {
	name   string
	target client.Target
	dialer client.Dialer
	logger *slog.Logger
	news   *bulletin

	wanted   chan struct{} // capacity 1: somebody wants the server to be ready
	closeErr error         // set when run has returned

	mu       sync.Mutex
	client   *client.Client // nil until the first dial has succeeded
	status   Status
	since    time.Time          // when status.State became Ready
	failures int                // in a row
	version  uint64             // grows with each change of status
	unwatch  context.CancelFunc // ends what watcher does, without waiting for it; may be nil
	changed  bulletin
	follows  follows
	watcher  *watcher // run's own
}

func newMember(h *Host, s Server) *member {
	m := &member{
		name:    s.Name,
		target:  s.Target,
		dialer:  h.Dialer,
		logger:  h.logger().With("server", s.Name),
		news:    &h.news,
		wanted:  make(chan struct{}, 1),
		status:  Status{Name: s.Name, State: Starting},
		version: 1,
	}
	if m.dialer.Logger == nil {
		m.dialer.Logger = m.logger
	} else {
		m.dialer.Logger = m.dialer.Logger.With("server", s.Name)
	}
	m.dialer.OnLost = func(err error) { m.lost(nil, err) }
	m.dialer.Trace = nil
	if h.Trace != nil {
		m.dialer.Trace = func(sent bool, message []byte) { h.Trace(s.Name, sent, message) }
	}
	return m
}

// run makes the server ready, at first without being asked and then whenever
// somebody wants it, until ctx ends. It is the only one that dials.
func (m *member) run(ctx context.Context) {
	defer func() {
		m.stopWatching()
		if c := m.current(); c != nil {
			m.closeErr = c.Close()
		}
		m.set(func(s *Status) bool {
			s.State, s.Err = Down, ErrClosed
			return true
		})
	}()
	for starts := 1; ; starts++ {
		err := m.connect(ctx)
		if ctx.Err() != nil {
			return
		}
		var again <-chan time.Time
		if err != nil {
			never := m.current() == nil
			unauthorized := errors.Is(err, client.ErrUnauthorized)
			retry := never && (starts < maxStarts && !hopeless(err) || unauthorized)
			m.down(err, never && !retry)
			switch {
			case retry && unauthorized:
				again = time.After(min(pause(starts), loginPause))
			case retry:
				again = time.After(pause(starts))
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-m.wanted:
		case <-again:
			m.want()
			<-m.wanted // its own wish, or somebody's who came first
		}
	}
}

// hopeless reports whether trying again would be for nothing: there is no such
// program, or it may not be run.
func hopeless(err error) bool {
	return errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)
}

// connect dials, or has the client dial again, and asks for what there is.
func (m *member) connect(ctx context.Context) error {
	m.stopWatching()
	c := m.current()
	if c == nil {
		var err error
		if c, err = m.dialer.Dial(ctx, m.target); err != nil {
			return err
		}
	} else if err := c.Ping(ctx); err != nil {
		return err
	}
	m.startWatching(ctx, c) // and then list: so no change is missed
	status := Status{Name: m.name, State: Ready, Revision: c.Revision(), Server: c.Server()}
	err := list(ctx, c, &status, everything)
	if err != nil {
		m.stopWatching()
		if m.current() == nil {
			c.Close()
		}
		return err
	}
	m.set(func(s *Status) bool {
		m.client, m.since = c, time.Now()
		*s = status
		return true
	})
	m.logger.Info("server ready", "revision", c.Revision(), "tools", len(status.Tools))
	return nil
}

// everything is what a server can list.
const everything = client.ToolsChanged | client.PromptsChanged | client.ResourcesChanged

// list asks for the lists of some kinds, as far as the server says it has them.
func list(ctx context.Context, c *client.Client, s *Status, kinds rpc.ChangeKind) error {
	has := c.Server().Capabilities
	if kinds&client.ToolsChanged != 0 {
		if err := collect(&s.Tools, has.Tools != nil, c.Tools(ctx, client.Fresh())); err != nil {
			return err
		}
	}
	if kinds&client.ResourcesChanged != 0 {
		if err := collect(&s.Resources, has.Resources != nil, c.Resources(ctx, client.Fresh())); err != nil {
			return err
		}
		if err := collect(&s.Templates, has.Resources != nil, c.ResourceTemplates(ctx, client.Fresh())); err != nil {
			return err
		}
	}
	if kinds&client.PromptsChanged != 0 {
		return collect(&s.Prompts, has.Prompts != nil, c.Prompts(ctx, client.Fresh()))
	}
	return nil
}

// collect gathers the elements of a list that the server has. Servers that have
// resources need not know of templates, nor the other way round.
func collect[E any](into *[]E, has bool, elements iter.Seq2[*E, error]) error {
	*into = nil
	if !has {
		return nil
	}
	for e, err := range elements {
		var reported *jsonrpc.Error
		switch {
		case errors.As(err, &reported) && reported.Code == jsonrpc.CodeMethodNotFound:
			return nil
		case err != nil:
			return err
		case len(*into) == maxListed:
			return fmt.Errorf("%w: the server lists more than %d of a kind", client.ErrInvalidResponse, maxListed)
		}
		*into = append(*into, *e)
	}
	return nil
}

// await returns the client when the server is ready, having it made so if needed.
func (m *member) await(ctx context.Context) (*client.Client, error) {
	for {
		changed := m.changed.next()
		m.mu.Lock()
		c, status := m.client, m.status
		m.mu.Unlock()
		switch {
		case status.State == Ready:
			return c, nil
		case status.State == Down && (errors.Is(status.Err, ErrClosed) || time.Now().Before(status.Retry)):
			return nil, &DownError{Server: m.name, Retry: status.Retry, Err: status.Err}
		case status.State == Down:
			m.want()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// want asks for a server that is down to be made ready.
func (m *member) want() {
	m.set(func(s *Status) bool {
		if s.State != Down {
			return false
		}
		s.State = Starting
		select {
		case m.wanted <- struct{}{}:
		default:
		}
		return true
	})
}

// lost notes that a server that was ready is not anymore. If c is not nil and not
// the client of now, that is no news.
func (m *member) lost(c *client.Client, err error) {
	news := m.set(func(s *Status) bool {
		if s.State != Ready || c != nil && c != m.client {
			return false
		}
		if time.Since(m.since) >= stable {
			m.failures = -1 // the first failure is forgiven: it may be tried again at once
		}
		m.fail(s, err)
		return true
	})
	if news {
		m.logger.Warn("server lost", "error", err)
	}
}

// down notes that the server could not be made ready.
func (m *member) down(err error, givenUp bool) {
	m.set(func(s *Status) bool {
		s.GivenUp = givenUp
		m.fail(s, err)
		return true
	})
	m.logger.Warn("server down", "error", err, "given_up", givenUp)
}

// fail is called with mu held. Watching ends with it: a watch that went on would have the
// client dial.
func (m *member) fail(s *Status, err error) {
	if m.unwatch != nil {
		m.unwatch()
	}
	m.failures++
	s.State, s.Err, s.Retry = Down, err, time.Now().Add(pause(m.failures))
}

// pause is how long nothing is tried after so many failures in a row.
func pause(failures int) time.Duration {
	if failures <= 0 {
		return 0
	}
	return min(firstPause<<min(failures-1, 10), maxPause)
}

func (m *member) current() *client.Client {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.client
}

func (m *member) snapshot() (Status, uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.status, m.version
}

// set changes the status and, if it has changed, tells everybody who waits for that.
func (m *member) set(change func(*Status) bool) (changed bool) {
	m.mu.Lock()
	changed = change(&m.status)
	if changed {
		m.version++
	}
	m.mu.Unlock()
	if changed {
		m.changed.changed()
		m.news.changed()
	}
	return changed
}
