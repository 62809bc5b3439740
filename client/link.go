package client

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/dial/legacy"
	"github.com/parley-mcp/parley/internal/dial/modern"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/mcp"
)

// link is a connection to a server, with its revision.
type link struct {
	revision mcp.Revision
	server   ServerDetails
	call     func(ctx context.Context, req *outbound.Request) (json.RawMessage, error)
	// answers input requests of tasks; nil in older revisions
	answer   func(context.Context, mcp.InputRequests) (map[string]json.RawMessage, error)
	notify   func(context.Context, *outbound.Request) error
	failed   func() error          // why the connection has failed, or nil
	received func() uint64         // the number of messages received
	fail     func(error)           // ends the connection with an error
	close    func() error          // may be called more than once
	watch    watchFunc             // runs until the connection or ctx ends
	tasks    *outbound.TaskChanges // task changes that the server reports in a session; nil in 2026-07-28
	mirrors  bool                  // marked parameters are mirrored in headers
	sse      bool                  // HTTP+SSE, the transport of 2024-11-05
	session  bool                  // over HTTP: the server has assigned a session ID
	proven   atomic.Bool           // the server has answered in this revision

	logs sessionLevel // log level of a session

	pollsTasks atomic.Bool // the server does not report task changes, so the client polls

	// The following fields are guarded by Client.mu.

	remembered bool          // the details come from an earlier connection
	receivedAt time.Time     // when the server sent the details
	ttl        time.Duration // how long they are fresh
	public     bool          // whether they are the same for all clients
	users      int           // number of requests that use the connection
	lost       bool          // no new requests may use it
	retired    bool          // it is being closed in the background
	gone       chan struct{} // closed when that is done
	dropped    chan struct{} // closed when lost is set
}

// modernLink returns a link in 2026-07-28.
func modernLink(era *modern.Client, closeAll func() error) *link {
	return &link{
		revision: mcp.V20260728,
		watch: func(ctx context.Context, w *watch, round int, filter mcp.SubscriptionFilter) error {
			return w.listen(ctx, round, filter, era.Call)
		},
		call:     era.Call,
		answer:   era.Answer,
		notify:   era.NotifyAs,
		failed:   era.Failed,
		received: era.Received,
		fail:     era.Lost,
		close:    sync.OnceValue(closeAll),
	}
}

// discovered records the result of server/discover.
func (l *link) discovered(found *mcp.DiscoverResult, info *mcp.Implementation) *link {
	l.server = ServerDetails{Info: *info, Capabilities: found.Capabilities, Instructions: found.Instructions}
	l.receivedAt, l.ttl, l.public = time.Now(), limitTTL(found.TTLMs), found.CacheScope == mcp.CacheScopePublic
	l.remembered = false
	l.proven.Store(true)
	return l
}

// legacyLink returns a link in an older revision, after the handshake.
func legacyLink(era *legacy.Client, found *mcp.InitializeResult, closeAll func() error) *link {
	l := &link{
		revision:   found.ProtocolVersion,
		receivedAt: time.Now(),
		watch: func(ctx context.Context, w *watch, round int, filter mcp.SubscriptionFilter) error {
			return w.observe(ctx, round, filter, era)
		},
		server: ServerDetails{Info: found.ServerInfo, Capabilities: found.Capabilities,
			Instructions: found.Instructions},
		call:     era.Call,
		notify:   era.NotifyAs,
		failed:   era.Failed,
		received: era.Received,
		fail:     era.Lost,
		close:    sync.OnceValue(closeAll),
		tasks:    &era.TaskChanges,
	}
	era.TaskChanges.Begin() // lasts as long as the connection
	l.proven.Store(true)
	return l
}

// newEras returns the two implementations of the protocol, for 2026-07-28 and for older
// revisions. cancelling reports whether requests are cancelled by notifications.
func (d *Dialer) newEras(cancelling bool) (*modern.Client, *legacy.Client, error) {
	answerer := d.answerer()
	m, err := modern.NewClient(d.info(), d.capabilities(), answerer, cancelling, d.Logger)
	if err != nil {
		return nil, nil, err
	}
	l := legacy.NewClient(answerer, d.Logger)
	m.OnLog, l.OnLog = d.OnLog, d.OnLog
	m.Shared, l.Shared = d.Shared, d.Shared
	m.Sending, l.Sending = d.sending, d.sending
	m.Notifications = d.notifications()
	l.Notifications, m.ResultTypes = m.Notifications, d.resultTypes()
	l.ElicitationTimeout = d.Timeouts.URLElicitation
	return m, l, nil
}

// discoverRequest returns the server/discover request of a Dial.
func (d *Dialer) discoverRequest() *outbound.Request {
	return &outbound.Request{Method: mcp.MethodDiscover, Timeout: d.Timeouts.Initialize, Uncancellable: true}
}

// handshakeRequest returns the settings of the handshake's request.
func (d *Dialer) handshakeRequest() *outbound.Request {
	return &outbound.Request{Timeout: d.Timeouts.Initialize, Uncancellable: true}
}

// connected returns the connection, and connects first if there is none. The caller must
// call release.
func (c *Client) connected(ctx context.Context) (*link, error) {
	if l, err := c.current(); l != nil || err != nil {
		return l, err
	}
	select {
	case c.turn <- struct{}{}:
	case <-c.life.Done():
		return nil, call.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-c.turn }()
	if l, err := c.current(); l != nil || err != nil { // another request has connected
		return l, err
	}
	connecting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.life, func() { cancel(call.ErrClosed) })()
	if err := c.awaitOldProcesses(connecting); err != nil {
		return nil, err
	}
	l, err := c.target.dial(connecting, c.dialer, c.memory)
	if err != nil {
		return nil, c.dialer.dialError(c.target, err)
	}
	recalled := c.memory != nil
	c.memory = nil
	c.filterIcons(&l.server.Info.Icons)
	c.restoreLogLevel(connecting, l)
	if c.last != nil && !recalled { // the server may have changed
		c.cache.forget()
	}
	if !c.adopt(l) {
		l.close()
		return nil, call.ErrClosed
	}
	return l, nil
}

// adopt makes l the current connection, with one user. It returns false after Close.
func (c *Client) adopt(l *link) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.Err() != nil {
		return false
	}
	c.link, c.last = l, l
	l.users, l.gone, l.dropped = 1, make(chan struct{}), make(chan struct{})
	c.open[l] = struct{}{}
	if interval := c.dialer.keepAliveInterval(c.target, l); interval > 0 {
		c.pinging.Go(func() { c.keepAlive(l, interval) })
	}
	return true
}

// awaitOldProcesses waits until earlier child processes have exited, so that two never run
// at the same time.
func (c *Client) awaitOldProcesses(ctx context.Context) error {
	if _, ok := c.target.(*CommandTarget); !ok {
		return nil
	}
	c.mu.Lock()
	old := slices.Collect(maps.Keys(c.open))
	c.mu.Unlock()
	if err := c.dialer.endings.await(ctx); err != nil {
		return err
	}
	for _, l := range old { // all are retired, otherwise there would be a current connection
		select {
		case <-l.gone:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// current returns the connection and counts a user of it. It retires a connection that has
// failed, and then returns nil.
func (c *Client) current() (*link, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.Err() != nil {
		return nil, call.ErrClosed
	}
	if c.link == nil {
		return nil, nil
	}
	if c.link.failed() != nil {
		c.retire(c.link)
		return nil, nil
	}
	c.link.users++
	return c.link, nil
}

// release ends one use of a connection, and retires it if it is lost.
func (c *Client) release(l *link, lost bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.users--
	if lost || l.lost {
		c.retire(l)
	}
}

// drop retires a connection.
func (c *Client) drop(l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retire(l)
}

// retire takes a connection out of use and closes it in the background: at once if it has
// failed; otherwise, for instance if the server has forgotten the session, when the last
// user releases it. c.mu must be held.
func (c *Client) retire(l *link) {
	if !l.lost {
		close(l.dropped)
	}
	l.lost = true
	if c.link == l {
		c.link = nil
	}
	if l.retired || c.life.Err() != nil || l.users > 0 && l.failed() == nil {
		return
	}
	l.retired = true
	go func() {
		defer close(l.gone)
		if err := l.close(); err != nil {
			c.dialer.Logger.Warn("cannot close a lost connection", "server", c.target.String(), "error", err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.open, l)
	}()
}

// defaultKeepAlive is the default of Dialer.KeepAlive for sessions over HTTP.
const defaultKeepAlive = 30 * time.Second

// maxUnanswered is the number of pings in a row that a server may leave unanswered.
const maxUnanswered = 2

// keepAliveInterval returns how often a connection is checked; 0 means never. The exit of a
// process is noticed anyway, and 2026-07-28 has no idle connections over HTTP.
func (d *Dialer) keepAliveInterval(target Target, l *link) time.Duration {
	switch target.(type) {
	case *CommandTarget:
		return 0
	case *HTTPTarget:
		if l.revision.Modern() {
			return 0
		}
		if d.KeepAlive == 0 {
			return defaultKeepAlive
		}
	}
	return max(d.KeepAlive, 0)
}

// keepAlive checks a connection until it ends. If the server does not answer pings and sends
// nothing else, keepAlive ends the connection.
func (c *Client) keepAlive(l *link, interval time.Duration) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	ctx, cancel := context.WithCancel(c.life)
	defer cancel()
	received, since, unanswered := l.received(), time.Now(), 0
	for {
		select {
		case <-tick.C:
		case <-l.dropped:
			return
		case <-c.life.Done():
			return
		}
		if now := l.received(); now != received { // the connection is not idle
			received, since, unanswered = now, time.Now(), 0
			continue
		}
		_, err := l.call(ctx, c.pingRequest(l))
		if ctx.Err() != nil || l.failed() != nil {
			return
		}
		if isSessionLost(err) {
			c.drop(l)
			return
		}
		var late *call.TimeoutError
		if now := l.received(); !errors.As(err, &late) || now != received {
			// The server has sent something, or it cannot be reached, which the next request
			// will report.
			received, since, unanswered = now, time.Now(), 0
			continue
		}
		if unanswered++; unanswered == maxUnanswered {
			silent := &call.SilentError{After: time.Since(since)}
			c.dialer.Logger.Warn("closing a connection: the server does not answer pings", "server", c.target.String(),
				"error", silent)
			l.fail(silent)
			c.drop(l)
			return
		}
	}
}

// endings closes the connections of failed attempts in the background, because stopping a process or deleting a
// session can take seconds. It is safe for concurrent use.
type endings struct {
	mu  sync.Mutex
	all []<-chan struct{} // one for each connection, closed when the connection is
}

// add closes a connection in the background. The returned channel is closed when that is done.
func (e *endings) add(closeAll func() error) <-chan struct{} {
	ended := make(chan struct{})
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(slices.DeleteFunc(e.all, isClosed), ended)
	go func() {
		defer close(ended)
		_ = closeAll() // the error of the attempt is reported
	}()
	return ended
}

// await waits until all connections are closed, or ctx ends.
func (e *endings) await(ctx context.Context) error {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	all := slices.Clone(e.all)
	e.mu.Unlock()
	for _, ended := range all {
		select {
		case <-ended:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
