package client

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/modern"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/transport"
)

// Dialer holds the settings with which servers are dialled. The zero value works.
// A Dialer may be used concurrently, and must not be changed meanwhile.
type Dialer struct {
	// Name and Version are what servers show of this program; default "parley", "0.0.0".
	Name, Version string

	// Revision is the only revision to speak. Empty: the newest that the server speaks.
	Revision mcp.Revision

	// Require names capabilities without which a server is of no use: Dial fails with a
	// *[MissingCapabilitiesError], and so does a request that has to connect anew, to a
	// server that does not offer all of them. Members that are not set ask for nothing; of
	// Extensions and Experimental the names count. What a revision cannot declare is
	// missing in it, such as completions in 2024-11-05.
	Require mcp.ServerCapabilities

	// Extensions are those that the client supports: servers are told of them.
	Extensions []SupportedExtension

	// The functions below are called from the client's goroutines. One that panics is
	// logged, and a server that waits for its answer is told that there is none.

	// Elicit fills in a form for a server. Show which server asks, and let the user
	// decline. Answers that the form has defaults for may be left out. Nil: the server
	// is told that there are no forms here.
	Elicit func(ctx context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error)
	// ElicitURL asks the user for consent to visit a URL, and opens it if they give it, in
	// a browser of theirs. Show which server asks and the whole URL, make its host stand
	// out, and warn of hosts in Punycode; neither fetch it nor open it before. It leads over
	// https or to this machine, see mcp.ParseElicitURL; others are refused. In 2026-07-28 a
	// user who is not done when the server needs them to be is asked again. Nil: the server
	// is told that there is no such thing.
	ElicitURL func(ctx context.Context, request *mcp.ElicitParams) (*mcp.ElicitResult, error)
	// Sample has a model answer. Let the user see, change and refuse what is asked and
	// answered. Nil: the server is told that there is no model here.
	Sample func(ctx context.Context, params *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error)
	// SampleTools says that Sample can give the model tools.
	SampleTools bool
	// Roots lists the directories that servers may work in, as file URIs. Nil: none, and
	// the server is told so.
	Roots func(ctx context.Context) ([]mcp.Root, error)

	// Timeouts bound how long requests wait for their responses.
	Timeouts Timeouts

	// Discovery is what an earlier connection to the same target has learned of the server:
	// see [Client.Discovery]. With it, Dial sends nothing and starts nothing. Nil, or of
	// another target or revision than these: the server is asked.
	Discovery *Discovery

	// Cache keeps what servers allow to be kept. Give several Dialers the same one to share
	// it between clients. Nil: each client has one of its own.
	Cache *Cache

	// KeepAlive is how often the server of a connection is asked whether it is there, by a
	// ping or, in 2026-07-28, for its description, unless it has said something since. One
	// that leaves two in a row unanswered, for Timeouts.Ping each, while nothing else comes
	// from it, is lost: what waits for it ends with a *call.SilentError, which is an
	// ErrConnectionLost, and the next request connects anew. A connection that is half open
	// is noticed so.
	//
	// Zero: [defaultKeepAlive] for sessions over HTTP, which it keeps from expiring, too,
	// and never for a Conn. Negative: never. A Command is never asked, since its exit shows,
	// nor is a server over HTTP in 2026-07-28, where no connection is kept; but a stream on
	// which the server's own keep-alive comments stop, when it has shown their beat, is lost
	// unless KeepAlive is negative.
	KeepAlive time.Duration

	// Middleware wraps every request to a server, the first outermost, those included that
	// the client makes by itself to find out about a server and to watch it. It sees a
	// request together with what it takes: the questions that are answered and the retry
	// that follows them are inside. A request that is made again because the connection
	// was lost passes anew. See call.Call for what there is to see. A panic in it ends the
	// request with an error.
	Middleware []call.Middleware

	// HTTPClient sends requests over HTTP; nil: one of the Dialer's own. Its redirect
	// policy is not used: redirects are followed within the server's origin only.
	HTTPClient *http.Client

	// SkipOutputValidation takes the structured content of tools as it comes. By default it is
	// held against the tool's output schema, if the tool was listed before it is called:
	// see Client.CallTool.
	SkipOutputValidation bool

	// Auth has the credentials for servers over HTTP; an oauth.Client of package
	// auth/oauth is one. Nil: none are sent but what the Header of an [HTTPTarget] holds.
	Auth Authorizer

	// MaxMessage is the largest message to accept, in bytes; default 16 MiB.
	MaxMessage int

	// Logger takes what is worth noting and no error; nil: slog.Default().
	Logger *slog.Logger

	// Trace, if set, is called with every message that is sent and received, as it is
	// on the wire. It must not keep or change message, and may be called concurrently.
	Trace func(sent bool, message []byte)

	// OnLog, if set, is given the log messages of servers: on a session those that the
	// server sends of its own accord, or from the level that SetLogLevel has chosen; in
	// 2026-07-28 none before SetLogLevel. They are another party's words: show them as
	// such. It is called in the order in which the messages came, may be called
	// concurrently for several calls over HTTP, and must neither block nor use the client.
	//
	// Deprecated: 2026-07-28 deprecates logging by protocol; servers log to standard
	// error, see transport.CommandOptions.
	OnLog func(message mcp.LoggingMessageParams)

	// OnConnectionLost, if set, is told when a connection to a server ends that Dial, or a later
	// request, has made: its process has exited, its stream has ended. It is not told
	// of Close, nor over HTTP, where there is no connection to lose between requests.
	// It must neither block nor use the client.
	OnConnectionLost func(err error)

	sending *rpc.Sending // Middleware, once for all connections of a Client
}

// Authorizer puts credentials on requests over HTTP, of every revision, and gets them
// when a server asks for some. Server is the URL that was dialled. It is only asked
// about requests to that URL's origin, and must be safe for concurrent use.
//
// What a server marks as private is only kept for the same credentials (see [Cache]). An
// Authorizer that says which they are has a method Identity(server string) string: a
// digest of the access token that it would add, empty if that is not known. With one that
// has none, no other Client shares such results; it must not come to authorize as
// somebody else during the life of a Client.
type Authorizer interface {
	// Authorize adds credentials for server to req, if there are any. It may change the
	// headers of req only. An error keeps the request from being sent.
	Authorize(req *http.Request, server string) error
	// Reauthorize is told that the server has answered req, which Authorize has prepared,
	// with status 401 or 403. If it reports again, the request is authorized and sent
	// once more: a server that refuses a request has not acted on it. It may take as
	// long as a user does, while call.StopClocks stops the clocks of requests, and ends with
	// the context of req. Neither again nor an error: the response stands as it is. The
	// body of resp must be left alone.
	Reauthorize(req *http.Request, server string, resp *http.Response) (again bool, err error)
}

// Timeouts bound how long requests wait for their responses. A zero field means
// its default, a negative one no bound.
type Timeouts struct {
	Ping       time.Duration // default 5 s
	Initialize time.Duration // also server/discover; default 10 s
	Read       time.Duration // lists, resources, prompts, completions; default 30 s
	Tool       time.Duration // default 60 s; each report of progress begins it anew
	// Max bounds each of these, and what Timeout asks for one call, however much
	// progress is reported; default 30 minutes.
	Max time.Duration
	// URLElicitation is how long a user who has agreed to visit a URL is waited for in 2025-11-25:
	// while they are there, the time-outs of calls stand still, but for Max, and a call that
	// was refused until they have been there is made again then. Servers that do not report
	// the end use it up; default 5 minutes.
	URLElicitation time.Duration
	// Probe is how long a server on a byte stream is waited for, that is asked whether
	// it speaks the newest revision, before an older one is tried as well; default 2 s.
	// Negative: an older one is tried only when the server has answered, or Initialize
	// is over.
	Probe time.Duration
	// Start is how long a Command may take to show its first sign of life before the
	// other clocks start: package runners fetch programs first; default 60 s. Negative:
	// they start at once.
	Start time.Duration
}

func (t Timeouts) withDefaults() Timeouts {
	set := func(p *time.Duration, def time.Duration) {
		if *p == 0 {
			*p = def
		}
		*p = max(*p, 0)
	}
	set(&t.Ping, 5*time.Second)
	set(&t.Initialize, 10*time.Second)
	set(&t.Read, 30*time.Second)
	set(&t.Tool, 60*time.Second)
	set(&t.Max, 30*time.Minute)
	set(&t.URLElicitation, 5*time.Minute)
	set(&t.Probe, 2*time.Second)
	set(&t.Start, 60*time.Second)
	return t
}

// ErrRevision is in the errors of Dial when client and server share no revision.
var ErrRevision = call.ErrRevision

// Dial connects to a server with the zero Dialer. Ctx bounds the dialling only.
func Dial(ctx context.Context, target Target) (*Client, error) {
	return (&Dialer{}).Dial(ctx, target)
}

// Dial connects to a server and finds out which revision it speaks. Ctx bounds the
// dialling only; Close the client when done. An error is a *[DialError].
func (d *Dialer) Dial(ctx context.Context, target Target) (*Client, error) {
	settings := *d
	settings.Timeouts = d.Timeouts.withDefaults()
	if settings.Logger == nil {
		settings.Logger = slog.Default()
	}
	if settings.MaxMessage <= 0 {
		settings.MaxMessage = transport.DefaultClientMaxMessage
	}
	if r := settings.Revision; r != "" && !r.Known() {
		return nil, dialError(target, at(StageTarget, fmt.Errorf("%w: Dialer.Revision %q is unknown", ErrRevision, string(r))))
	}
	if err := checkExtensions(d.Extensions); err != nil {
		return nil, dialError(target, at(StageTarget, err))
	}
	c := newClient(settings.contained(), target)
	if memory := c.remembered(); memory != nil {
		c.memory, c.last = memory, memory.link(target)
		return c, nil
	}
	l, err := c.connected(ctx)
	if err != nil {
		c.end(err)
		return nil, err
	}
	c.release(l, false)
	return c, nil
}

func (d *Dialer) info() mcp.Implementation {
	i := mcp.Implementation{Name: d.Name, Version: d.Version}
	if i.Name == "" {
		i.Name = "parley"
	}
	if i.Version == "" {
		i.Version = "0.0.0"
	}
	return i
}

// offer is the revision to offer in a handshake.
func (d *Dialer) offer() mcp.Revision {
	if d.Revision != "" {
		return d.Revision
	}
	return mcp.LatestLegacy
}

// choose decides by a server's list of revisions how to go on with it.
func (d *Dialer) choose(supported []string) (mcp.Revision, error) {
	r, ok := revision.Choose(supported)
	if !ok || d.Revision != "" && d.Revision != r {
		return "", fmt.Errorf("%w: the server speaks %.200q", ErrRevision, supported)
	}
	return r, nil
}

// refused judges an error that may be a server's refusal of the revision we asked
// in. Older: it lists an older one that we speak, so the handshake is worth trying.
// The error says that there is nothing to be had: no revision in common, or one
// that the server refuses though it lists it. Then we do not go on to an older
// revision: whoever can forge that answer must not choose what we speak.
func (d *Dialer) refused(err error) (older bool, _ error) {
	supported, ok := modern.UnsupportedVersion(err)
	if !ok {
		return false, nil
	}
	r, err2 := d.choose(supported)
	switch {
	case err2 != nil:
		return false, err2
	case r.Modern():
		return false, err
	}
	return true, nil
}
