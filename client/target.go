package client

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/transport"
)

// Target is a server to connect to. [URL], [Command] and [Conn] return one; a *[HTTPTarget]
// or a *[CommandTarget] is one with more settings.
type Target interface {
	// dial connects. memory is what an earlier connection has learned, or nil.
	dial(ctx context.Context, d *Dialer, memory *Discovery) (*link, error)
	// String returns a name for errors and logs, without secrets.
	String() string
}

// URL returns the server at a URL that begins with http:// or https://. It may use any HTTP
// transport of the protocol.
func URL(url string) Target { return &HTTPTarget{URL: url} }

// Command returns the server that a command starts as a child process. A name without a
// slash is looked up in PATH. No shell is involved. The child process inherits a minimal
// environment, see transport.CommandOptions; use a [CommandTarget] to extend it. A process that
// exits on server/discover, or after it has rejected a revision, is started again with
// initialize as its first message.
func Command(name string, args ...string) Target {
	return &CommandTarget{transport.CommandOptions{Path: name, Args: args}}
}

// Conn returns the server at the other end of an established connection. The [Client] owns
// conn and closes it. It cannot reconnect, so it ends with the connection.
func Conn(conn transport.Conn) Target { return &connTarget{conn: conn} }

// HTTPTarget is a server at a URL, with settings.
type HTTPTarget struct {
	URL string
	// Header is added to every request. It is sent to the origin of the URL only.
	Header http.Header
}

// CommandTarget is a server that runs as a child process, with settings.
type CommandTarget struct {
	transport.CommandOptions
}

type connTarget struct {
	conn transport.Conn
	used atomic.Bool
}

// errConnUsed is the error of a second dial to a connTarget.
var errConnUsed = fmt.Errorf("%w: cannot reconnect, because the target is a single connection", call.ErrConnectionLost)

// String implements [Target].
func (t *connTarget) String() string { return "connection" }
