package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/dial/httpclient"
	"github.com/parley-mcp/parley/internal/dial/modern"
	"github.com/parley-mcp/parley/internal/httpurl"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/transport"
)

// Dialer connects to servers. Its fields are the settings of the connections; the zero value
// works. A Dialer is safe for concurrent use if its fields do not change.
//
// The client calls the functions in its fields from its own goroutines. It logs their panics, and a server whose
// question the function was answering receives an error.
type Dialer struct {
	// Name and Version describe the program to servers. The defaults are "parley" and "0.0.0".
	Name, Version string

	// Revision is the only revision to use. If it is empty, the client uses the newest
	// revision that the server supports.
	Revision mcp.Revision

	// Extensions are declared to servers. If they include mcp.ExtensionTasks, the program
	// implements that extension in 2026-07-28: only [Client.StartTool] expects tasks then.
	Extensions []Extension

	// NoTasks turns off tasks: servers of 2026-07-28 run tools without them, and the client does not ask for them in
	// 2025-11-25. See [Client.CallTool].
	//
	// Without NoTasks, servers of 2025-11-25 may also request that the client run Elicit, ElicitURL and Sample as
	// tasks, and poll for their results (basic/utilities/tasks). A connection has at most 64 such tasks, including
	// those that have ended. They end with the connection, and after 24 hours at the latest.
	NoTasks bool
	// Tasks, if set, remembers the tasks that servers create for tool calls.
	Tasks TaskStore

	// Shared tells the Client that it sends the requests of several people. It then attributes a message of the server
	// to a call only if the protocol says which one: in 2026-07-28, and on the event stream of the call over HTTP.
	// Without Shared, a message that names no call belongs to the newest call in flight.
	Shared bool

	// Elicit, ElicitURL, Sample and Roots answer requests of a server. If the request belongs to a call of CallTool,
	// GetPrompt or ReadResource, the context carries the values of the call's context and ends with the call.

	// Elicit asks the user to fill in a form for a server. It must show which server asks and
	// let the user decline. It may leave out fields that have a default. If it is nil, the
	// client does not declare elicitation by forms.
	Elicit func(ctx context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error)
	// ElicitURL asks the user for consent to open a URL and, if they agree, opens it in their browser. It must show
	// which server asks and the whole URL, emphasize the host and warn of hosts in Punycode. It must not fetch or open
	// the URL before. The client rejects URLs that mcp.ParseElicitURL rejects. In 2026-07-28, the server may ask again
	// if the user has not finished in time. If ElicitURL is nil, the client does not declare elicitation by URL.
	ElicitURL func(ctx context.Context, request *mcp.ElicitParams) (*mcp.ElicitResult, error)
	// Sample requests a message from a model. It should let the user review, change and
	// reject both the request and the message. If it is nil, the client does not declare
	// sampling.
	//
	// Deprecated: 2026-07-28 deprecates sampling (SEP-2577). The earliest removal is the first revision
	// from 2027-07-28 on. Use the API of a model provider instead.
	Sample func(ctx context.Context, params *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error)
	// SampleTools declares that Sample supports tools.
	//
	// Deprecated: 2026-07-28 deprecates sampling (SEP-2577). The earliest removal is the first revision
	// from 2027-07-28 on. Use the API of a model provider instead.
	SampleTools bool
	// Roots returns the directories that servers may work in, as file:// URIs with absolute
	// paths; others are errors, and nothing is sent. If it is nil, the client does not declare
	// roots. See [Client.NotifyRootsChanged].
	//
	// Deprecated: 2026-07-28 deprecates roots (SEP-2577). The earliest removal is the first revision from
	// 2027-07-28 on. Take directories from tool arguments, URIs or the configuration instead.
	Roots func(ctx context.Context) ([]mcp.Root, error)

	// Timeouts limit how long requests wait for their results.
	Timeouts Timeouts

	// Discovery contains what an earlier connection to the same target learned; see [Client.Discovery]. With it, Dial
	// sends nothing and starts nothing. It is ignored if its target or revision differs.
	Discovery *Discovery

	// KeepAlive is the interval in which the client checks idle connections, with a ping or,
	// in 2026-07-28, server/discover. If a server leaves two in a row unanswered, for
	// Timeouts.Ping each, and sends nothing else, the connection is lost: requests in flight
	// end with a *call.SilentError, which wraps call.ErrConnectionLost, and the next request
	// reconnects.
	//
	// Zero means 30 s for sessions over HTTP, which also keeps them from expiring, and no
	// checks for a [Conn]. A negative value disables the checks. The client never checks a
	// [Command], whose exit it notices, and has no idle connections over HTTP in 2026-07-28.
	// Unless KeepAlive is negative, an event stream over HTTP is also lost if the server has
	// sent keep-alive comments on it and stops. With a negative Timeouts.Ping no silence is too
	// long: a server may stand still, for example at a breakpoint.
	KeepAlive time.Duration

	// Middleware wraps every request to a server, including those that the client makes on its own, for instance to
	// discover the server, and the notifications of [Client.NotifyExtension] and [Client.NotifyRootsChanged]. The first
	// one is the outermost. It runs once for a request, including the input requests that the client answers and the
	// retry that follows, and again if the request is repeated after a lost connection. A panic in it ends the request
	// with an error.
	//
	// The result of a tool call that the server runs as a task is an *mcp.CreateTaskResult or, in
	// 2025-11-25, an *mcp.LegacyCreateTaskResult. The requests about the task pass through the
	// middleware, too.
	Middleware []call.Middleware

	// HTTPClient sends requests over HTTP. Its redirect policy is not used: the client follows redirects only within
	// the origin of the URL. If it is nil, the Dialer uses its own client, which closes connections after four idle
	// seconds, or sooner if the server announces so, because a call is lost if the server closes its connection at that
	// moment.
	HTTPClient *http.Client

	// Auth adds credentials to requests over HTTP; see package auth/oauth. If it is nil, requests carry only the
	// credentials in HTTPTarget.Header.
	Auth Authorizer

	// Header is sent with requests over HTTP in addition to HTTPTarget.Header. Its fields replace fields of the same
	// name there, and a name without values removes them. Names are in canonical form.
	Header http.Header

	// MaxMessage limits the size of messages from servers, in bytes. The default is 16 MiB. A larger
	// message is skipped, and its call fails.
	MaxMessage int

	// Logger receives warnings, for instance about invalid data from servers. The default is
	// slog.Default().
	Logger *slog.Logger

	// Trace, if set, is called with every message sent and received, as it is on the wire,
	// possibly concurrently. It must not keep or change message.
	Trace func(sent bool, message []byte)

	// OnLog, if set, receives the log messages of servers. A session sends those that the server chooses, or those from
	// the level that [Client.SetLogLevel] sets; 2026-07-28 sends none before SetLogLevel. The messages are untrusted:
	// show them as such. OnLog is called in the order of the messages, but concurrently for calls over HTTP. Its
	// context contains the values of the call's context, as for Elicit, if the call is known. It must not block or use
	// the client.
	//
	// Deprecated: 2026-07-28 deprecates logging by protocol (SEP-2577). The earliest removal is the first
	// revision from 2027-07-28 on. Log to standard error or with OpenTelemetry instead. See
	// transport.CommandOptions.
	OnLog func(ctx context.Context, message mcp.LoggingMessageParams)

	// OnConnectionLost, if set, is called when an established connection ends, for instance
	// because the server process exits. It is not called after Close, or over HTTP, which has
	// no connection between requests. It must not block or use the client.
	OnConnectionLost func(err error)

	sending *outbound.Chain // runs Middleware for all connections of a Client
	endings *endings        // connections of a Client that are closed in the background
}

// Dial connects to a server with the zero [Dialer]. ctx limits the Dial, not the life of the
// Client.
func Dial(ctx context.Context, target Target) (*Client, error) {
	return (&Dialer{}).Dial(ctx, target)
}

// Dial connects to a server and discovers which revision it supports. ctx limits the Dial,
// not the life of the Client, which the caller must close. An error is a *[DialError], which Dial
// returns when ctx ends, even if a process has not ended then; see [DialError.Wait].
func (d *Dialer) Dial(ctx context.Context, target Target) (*Client, error) {
	settings := *d
	settings.Timeouts, settings.endings = d.Timeouts.withDefaults(), new(endings)
	if settings.Logger == nil {
		settings.Logger = slog.Default()
	}
	if settings.MaxMessage <= 0 {
		settings.MaxMessage = transport.DefaultClientMaxMessage
	}
	if r := settings.Revision; r != "" && !r.Known() {
		return nil, settings.dialError(target, at(StageTarget, fmt.Errorf(
			"%w: Dialer.Revision must be one of %q, not %q", call.ErrRevision, mcp.Revisions(), string(r))))
	}
	if err := checkExtensions(d.Extensions, d.capabilities); err != nil {
		return nil, settings.dialError(target, at(StageTarget, err))
	}
	c := newClient(settings.contained(), target)
	if memory := c.remembered(); memory != nil {
		c.memory, c.last = memory, memory.link(target)
		c.filterIcons(&c.last.server.Info.Icons)
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

// choose returns the revision to use with a server that supports the given ones.
func (d *Dialer) choose(supported []string) (mcp.Revision, error) {
	r, ok := revision.Choose(supported)
	if !ok || d.Revision != "" && d.Revision != r {
		return "", fmt.Errorf("%w: the server supports %.200q", call.ErrRevision, supported)
	}
	return r, nil
}

// rejectsRevision examines an error that may reject the revision of a request. older reports
// that the server supports an older revision, so that a handshake may succeed. The error is
// not nil if none can succeed: no revision is shared, or the server rejects one that it
// lists. The client then does not fall back, because an attacker who can forge this answer
// must not choose the revision.
func (d *Dialer) rejectsRevision(err error) (older bool, _ error) {
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

// Authorizer adds credentials to the HTTP requests of a client, in every revision, and obtains them when a server asks
// for them. Package auth/oauth implements OAuth. The server argument of its methods is the URL of the target. The
// methods are only called for requests to the origin of that URL, possibly concurrently.
//
// An Authorizer may also implement a method Identity(server string) string, which returns a digest of the credentials
// that it would add now, or an empty string if it does not know. A Client keeps the private results of each identity
// apart. Without the method, the Authorizer must not change to the credentials of another user during the life of a
// Client.
type Authorizer interface {
	// Authorize adds credentials for server to the header of req, if it has any. It must not
	// change anything else. After an error the request is not sent.
	Authorize(req *http.Request, server string) error
	// Reauthorize is called when the server has answered an authorized request with status
	// 401 or 403. If it returns true, the client authorizes the request and sends it once
	// more. If it returns false and no error, the response stands. It must not read the body
	// of resp, and ends when the context of req ends.
	Reauthorize(req *http.Request, server string, resp *http.Response) (again bool, err error)
}

// BearerToken returns an Authorizer for access tokens that the program gets elsewhere, such as from a cloud provider.
// It adds them to requests to one server, whose URL is server, and to no others. Token is called for each request and
// must renew the token itself: a rejected request is not sent again.
func BearerToken(server string, token func(ctx context.Context) (string, error)) Authorizer {
	return &bearer{server, token}
}

type bearer struct {
	server string
	token  func(ctx context.Context) (string, error)
}

// Authorize implements [Authorizer].
func (b *bearer) Authorize(req *http.Request, server string) error {
	own, err := httpurl.Canonical(b.server)
	asked, errAsked := httpurl.Canonical(server)
	if err := errors.Join(err, errAsked); err != nil || asked != own {
		return err
	}
	if !httpurl.IsSecure(req.URL) {
		return fmt.Errorf("cannot send an access token to %s: it must be https", httpurl.WithoutQuery(req.URL))
	}
	token, err := b.token(req.Context())
	if err != nil {
		return fmt.Errorf("cannot get an access token: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	return nil
}

// Reauthorize implements [Authorizer]. It does nothing.
func (b *bearer) Reauthorize(*http.Request, string, *http.Response) (again bool, err error) {
	return false, nil
}

// Target is a server to connect to. [URL], [Command] and [Conn] return one; a *[HTTPTarget]
// or a *[CommandTarget] is one with more settings.
type Target interface {
	// dial connects. memory contains what an earlier connection learned; it may be nil.
	dial(ctx context.Context, d *Dialer, memory *Discovery) (*link, error)
	// String returns a name for errors and logs, without secrets.
	String() string
}

// URL returns the server at a URL that begins with http:// or https://. It may use any HTTP transport of the protocol.
// To send a header, such as an API key, use an HTTPTarget.
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
	// Header is added to every request. It is sent only to the origin of the URL.
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

// Timeouts limit how long requests wait for their results. Zero means the default of the
// field, a negative value no limit. The option [WithTimeout] replaces Read or Tool for one
// request.
type Timeouts struct {
	// Ping limits a ping. The default is 5 s.
	Ping time.Duration
	// Initialize limits server/discover and the handshake of a session. The default is 10 s.
	Initialize time.Duration
	// Read limits the requests of lists, resources, prompts and completions. The default is
	// 30 s.
	Read time.Duration
	// Tool limits the call of a tool or of a method of an extension. A progress notification
	// restarts it. The default is 60 s.
	Tool time.Duration
	// Max limits every request, whatever progress it reports, and the time for which
	// [Client.CallTool] waits for a task. The default is 30 min.
	Max time.Duration
	// URLElicitation limits the wait for a user who has agreed to open a URL, in 2025-11-25.
	// Meanwhile the time-outs of calls, except Max, are paused. A call that the server has
	// rejected because of the elicitation is then repeated. If the server does not report the
	// end of the elicitation, the wait lasts until the limit. The default is 5 min.
	URLElicitation time.Duration
	// Probe is how long Dial waits for a server on a byte stream to answer server/discover,
	// before it tries the handshake of older revisions. A server that accepts the handshake
	// is then used in its revision, even if it answers server/discover later. For a Command,
	// the time begins when the process has read server/discover or written its first output,
	// or after Start. Whether it has read is known on Linux, macOS and FreeBSD. The default
	// is 2 s. If it is negative, Dial tries the handshake only after an answer, or after
	// Initialize.
	Probe time.Duration
	// Start is how long a Command may take to write its first output, before other time-outs
	// begin: package runners may download the program first. All requests of a Dial share this
	// time, so a program that writes nothing is given up after Start, Probe and Initialize. The default
	// is 45 s. If it is negative, other time-outs begin at once.
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
	set(&t.Start, 45*time.Second)
	return t
}

// NewTransport returns an http.RoundTripper like the one that a Client uses if [Dialer.HTTPClient] is nil. Wrap it in
// your own RoundTripper, for example to record requests. It is a copy of http.DefaultTransport that closes idle
// connections early, because a request is lost if the server closes its connection at the same time. NewTransport
// returns nil if http.DefaultTransport is not an *http.Transport; use http.DefaultTransport then.
func NewTransport() http.RoundTripper { return httpclient.NewTransport() }
