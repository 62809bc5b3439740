package client

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/transport"
)

// Target is a server to dial: [URL], [Command], a *[HTTPTarget], a *[CommandTarget] or [Conn].
type Target interface {
	// dial connects; with what is remembered of the server, if anything is, to begin with.
	dial(ctx context.Context, d *Dialer, memory *Discovery) (*link, error)
	// String names the target in errors, without secrets.
	String() string
}

// HTTPTarget is a server at a URL.
type HTTPTarget struct {
	URL string
	// Header is sent with every request, to the URL's own origin only.
	Header http.Header

	// Identity, if set, names whoever requests are authorized as at the moment: a digest of
	// an access token, say. Clients that share a [Cache] share what a server has marked as
	// private under the same name only. It is sent to nobody. Nil: the name is that of the
	// Header and of what Dialer.Auth says that it adds (see [Authorizer]), and with a
	// Dialer.HTTPClient, which may add credentials that nobody sees, one that no other
	// client has. It may be called concurrently.
	Identity func() string
}

// URL is the server at a URL, of whichever HTTP transport it speaks.
func URL(url string) Target { return &HTTPTarget{URL: url} }

// CommandTarget is a server that runs as a child process.
type CommandTarget struct {
	transport.CommandOptions
}

// Command is the server that a command starts. Without a slash, name is looked up
// in PATH; no shell is involved. The child gets a minimal environment: see
// transport.CommandOptions, and [CommandTarget] to give it more.
func Command(name string, args ...string) Target {
	return &CommandTarget{transport.CommandOptions{Path: name, Args: args}}
}

// Conn is a server at the other end of a connection that is there already. It
// cannot be dialled a second time: when it ends, the Client ends with it.
func Conn(conn transport.Conn) Target { return &oneConn{conn: conn} }

type oneConn struct {
	conn transport.Conn
	used atomic.Bool
}

// errConnUsed is the error of dialling a Conn once more.
var errConnUsed = fmt.Errorf("%w: a connection cannot be dialled again", call.ErrConnectionLost)

// String implements Target.
func (t *oneConn) String() string { return "connection" }
