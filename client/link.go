package client

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/internal/dial/legacy"
	"github.com/parley-mcp/parley/internal/dial/modern"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/mcp"
)

// link is one connection to a server, in one revision.
type link struct {
	revision mcp.Revision
	server   ServerDetails
	call     func(ctx context.Context, req *outbound.Request) (json.RawMessage, error)
	answer   func(context.Context, mcp.InputRequests) (map[string]json.RawMessage, error) // answers input requests of tasks; nil in older revisions
	notify   func(ctx context.Context, method string, params []byte) error
	failed   func() error          // why the connection has failed, or nil
	received func() uint64         // the number of messages received
	fail     func(error)           // ends the connection with an error
	close    func() error          // may be called more than once
	watch    watchFunc             // until the connection or ctx ends
	tasks    *outbound.TaskChanges // the changes of tasks that the server reports in a session; nil in 2026-07-28
	mirrors  bool                  // marked parameters are mirrored in headers
	sse      bool                  // HTTP+SSE, the transport of 2024-11-05
	session  bool                  // the server has named a session over HTTP
	proven   atomic.Bool           // the server has answered in this revision

	logs sessionLevel // of a session

	pollsTasks atomic.Bool // the server does not report changes of tasks

	// The following fields are guarded by Client.mu.

	remembered bool          // the details are of an earlier connection
	receivedAt time.Time     // when the server has sent the details
	ttl        time.Duration // how long they are fresh
	public     bool          // whether they are the same for all clients
	users      int           // requests that use the connection
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
		notify:   era.NotifyExtension,
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
		server:   ServerDetails{Info: found.ServerInfo, Capabilities: found.Capabilities, Instructions: found.Instructions},
		call:     era.Call,
		notify:   era.Notify,
		failed:   era.Failed,
		received: era.Received,
		fail:     era.Lost,
		close:    sync.OnceValue(closeAll),
		tasks:    &era.TaskChanges,
	}
	era.TaskChanges.Begin() // for as long as the connection lasts
	l.proven.Store(true)
	return l
}

// newEras returns the two implementations of the protocol, for 2026-07-28 and for older
// revisions. cancelling means that requests are cancelled by notifications.
func (d *Dialer) newEras(cancelling bool) (*modern.Client, *legacy.Client, error) {
	answerer := d.answerer()
	m, err := modern.NewClient(d.info(), d.capabilities(), answerer, cancelling, d.Logger)
	if err != nil {
		return nil, nil, err
	}
	l := legacy.NewClient(answerer, d.Logger)
	m.OnLog, l.OnLog = d.OnLog, d.OnLog
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
