package client

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/internal/legacy"
	"github.com/parley-mcp/parley/internal/modern"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
)

// ServerDetails are what a server declares about itself. Info is for display only: a server
// can call itself anything.
type ServerDetails struct {
	Info         mcp.Implementation     `json:"info"`
	Capabilities mcp.ServerCapabilities `json:"capabilities"`
	Instructions string                 `json:"instructions,omitempty"` // tell a model how to use the server
}

// link is one connection to a server, in the revision that was found. It does not
// outlive the connection.
type link struct {
	revision mcp.Revision
	server   ServerDetails
	call     func(ctx context.Context, req *rpc.Request) (json.RawMessage, error)
	notify   func(ctx context.Context, method string, params []byte) error // an extension's notification
	failed   func() error                                                  // why the link is of no more use; nil while it is
	heard    func() uint64                                                 // grows with each message of the server
	lose     func(error)                                                   // has the link fail
	close    func() error                                                  // any number of times
	watch    func(ctx context.Context, w *watch, round int) error          // until the link, or ctx, ends
	mirrors  bool                                                          // marked parameters are repeated in headers
	pair     bool                                                          // it is the transport of 2024-11-05
	proven   atomic.Bool                                                   // the server has answered in this revision

	// Of the Client, under its lock.
	learned time.Time     // when the server has said server
	fresh   time.Duration // and for how long that is so
	public  bool          // and to everybody
	users   int           // calls on it
	lost    bool          // no more calls begin on it
	retired bool          // it is being closed in the background
	gone    chan struct{} // closed when that is done
	dropped chan struct{} // closed with lost, for those who stay on it
}

// modernLink is a link to a server of the stateless era.
func modernLink(era *modern.Client, closeAll func() error) *link {
	return &link{
		revision: mcp.V20260728,
		watch:    func(ctx context.Context, w *watch, round int) error { return w.listen(ctx, round, era.Call) },
		call:     era.Call,
		notify:   era.NotifyExtension,
		failed:   era.Failed,
		heard:    era.Heard,
		lose:     era.Lost,
		close:    sync.OnceValue(closeAll),
	}
}

// discovered notes what the server says of itself.
func (l *link) discovered(found *mcp.DiscoverResult, info *mcp.Implementation) *link {
	l.server = ServerDetails{Info: *info, Capabilities: found.Capabilities, Instructions: found.Instructions}
	l.learned, l.fresh, l.public = time.Now(), freshFor(found.TTLMs), found.CacheScope == mcp.CacheScopePublic
	l.proven.Store(true)
	return l
}

// legacyLink is a link to a server after the handshake.
func legacyLink(era *legacy.Client, found *mcp.InitializeResult, closeAll func() error) *link {
	l := &link{
		revision: found.ProtocolVersion,
		learned:  time.Now(),
		watch: func(ctx context.Context, w *watch, round int) error {
			return w.observe(ctx, round, era, found.Capabilities)
		},
		server: ServerDetails{Info: found.ServerInfo, Capabilities: found.Capabilities, Instructions: found.Instructions},
		call:   era.Call,
		notify: era.Notify,
		failed: era.Failed,
		heard:  era.Heard,
		lose:   era.Lost,
		close:  sync.OnceValue(closeAll),
	}
	l.proven.Store(true)
	return l
}

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

// discovery is the request with which servers are asked what they are.
func (d *Dialer) discovery() *rpc.Request {
	return &rpc.Request{Method: mcp.MethodDiscover, Timeout: d.Timeouts.Initialize, Uncancellable: true}
}

// handshake is how the handshake's request is bounded.
func (d *Dialer) handshake() *rpc.Request {
	return &rpc.Request{Timeout: d.Timeouts.Initialize, Uncancellable: true}
}
