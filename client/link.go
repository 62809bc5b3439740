package client

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/legacy"
	"github.com/parley-mcp/parley/internal/modern"
	"github.com/parley-mcp/parley/mcp"
)

// Server is what a server says of itself. Info is for display only.
type Server struct {
	Info         mcp.Implementation
	Capabilities mcp.ServerCapabilities
	Instructions string // tell a model how to use the server
}

// link is one connection to a server, in the revision that was found. It does not
// outlive the connection.
type link struct {
	revision mcp.Revision
	server   Server
	call     func(ctx context.Context, req *call.Request) (json.RawMessage, error)
	failed   func() error                                         // why the link is of no more use; nil while it is
	close    func() error                                         // any number of times
	watch    func(ctx context.Context, w *watch, round int) error // until the link, or ctx, ends
	mirrors  bool                                                 // marked parameters are repeated in headers

	// Of the Client, under its lock.
	users   int           // calls on it
	lost    bool          // no more calls begin on it
	retired bool          // it is being closed in the background
	gone    chan struct{} // closed when that is done
	dropped chan struct{} // closed with lost, for those who stay on it
}

// modernLink is a link to a server of the stateless era.
func modernLink(era *modern.Client, found *mcp.DiscoverResult, info *mcp.Implementation, closeAll func() error) *link {
	return &link{
		revision: mcp.V20260728,
		watch:    func(ctx context.Context, w *watch, round int) error { return w.listen(ctx, round, era.Call) },
		server:   Server{Info: *info, Capabilities: found.Capabilities, Instructions: found.Instructions},
		call:     era.Call,
		failed:   era.Failed,
		close:    sync.OnceValue(closeAll),
	}
}

// legacyLink is a link to a server after the handshake.
func legacyLink(era *legacy.Client, found *mcp.InitializeResult, closeAll func() error) *link {
	return &link{
		revision: found.ProtocolVersion,
		watch: func(ctx context.Context, w *watch, round int) error {
			return w.overhear(ctx, round, era, found.Capabilities)
		},
		server: Server{Info: found.ServerInfo, Capabilities: found.Capabilities, Instructions: found.Instructions},
		call:   era.Call,
		failed: era.Failed,
		close:  sync.OnceValue(closeAll),
	}
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
	l.VisitTimeout = d.Timeouts.Visit
	return m, l, nil
}

// discovery is the request with which servers are asked what they are.
func (d *Dialer) discovery() *call.Request {
	return &call.Request{Method: mcp.MethodDiscover, Timeout: d.Timeouts.Initialize, Uncancellable: true}
}

// handshake is how the handshake's request is bounded.
func (d *Dialer) handshake() *call.Request {
	return &call.Request{Timeout: d.Timeouts.Initialize, Uncancellable: true}
}
