package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/store"
)

// Host keeps a client for each of its servers. Set the fields before Start and do not
// change them afterwards. The methods are safe for concurrent use. A Host must not be
// copied.
type Host struct {
	// Servers are the servers to start or dial. See also [Host.SetServers].
	Servers []ServerConfig

	// Dialer dials each server. The Host ignores its OnConnectionLost. Elicit, ElicitURL, Sample and Roots receive all
	// requests that the policy allows, even those for callers. If one of them is nil, the [Caller] of the connection is
	// asked instead. The same applies to OnLog.
	Dialer client.Dialer
	// Callers says that callers answer the questions of servers. The Host then declares elicitation, sampling and roots
	// to servers before it knows a caller. A gateway sets it.
	Callers bool
	// AdaptDialer, if set, is called for each new server, with its name and a copy of Dialer. It can set other
	// functions, and append middleware, which runs inside the middleware of Dialer and sees the server's own names.
	AdaptDialer func(server string, d *client.Dialer)

	// MaxName is the maximum length of the names of tools in the merged list, 32 to 128
	// characters. 0 means 128, the maximum of the protocol; some clients accept 64.
	MaxName int

	// Logger receives the state changes of the servers. Nil means slog.Default().
	Logger *slog.Logger

	// Policy, if set, decides which requests the Host sends to the servers: tool calls, prompts, reads of resources,
	// subscriptions, completions, and methods of extensions. It also decides which requests of servers are answered:
	// elicitation, sampling and roots. Nil allows everything.
	Policy Policy

	// Approve asks a user about a request for which the policy decides [Ask], and reports whether the user approves it.
	// It returns an error if it cannot ask the user. An answer after the end of ctx does not count. If Approve is nil,
	// such requests are rejected. See gateway.Approve.
	Approve func(ctx context.Context, a *Approval) (approved bool, err error)
	// ApprovalTimeout is how long Approve may take. 0 means 5 minutes.
	ApprovalTimeout time.Duration

	// OnRequest, if set, is called with each tool call, prompt, read of a resource, completion, subscription and
	// request of an extension, before the policy decides on it. It can set r.Arguments to another JSON object; changes
	// of other fields have no effect. In 2026-07-28 a request runs again when its caller has answered a question, and
	// OnRequest is called again.
	//
	// OnResult, if set, is called with the result, a JSON object as the server sends it. It returns the result for the
	// caller, and must not modify the argument. It is not called for a request that fails with a JSON-RPC error, or
	// for a subscription; tools that fail have results.
	//
	// An error or a panic rejects the request or the result. Both must be safe for concurrent use and respect ctx.
	OnRequest func(ctx context.Context, r *Request) error
	OnResult  func(ctx context.Context, r *Request, result json.RawMessage) (json.RawMessage, error)

	// Review, if set, is called with each definition that a server lists, before it is used, and again with all
	// definitions when a list changes. If it returns an error, the definition is withheld: it is not in the lists, it
	// cannot be called, and [ServerStatus.Incomplete] says so. Tools and prompts that a server does not list cannot be
	// called either. Resources that it does not list can be read, except that a gateway does not serve the files of a
	// skill that Review rejects. Review must be safe for concurrent use and can use the Host; until it returns, the
	// server keeps its previous lists. If the lists change meanwhile, Review is called again. See [Host.ReviewAgain].
	Review func(d Definition) error

	// Audit, if set, handles the records of an audit log: two for each request that is sent or answered, before and
	// after, and one for each other event. Handle receives every record, whatever Enabled returns. If it returns an
	// error or panics for a request that is about to be sent or answered, the request is rejected. The message of a
	// record is the event:
	//
	//   - allowed: the request is about to be sent or answered. A record "done" follows when it has ended, except for
	//     a subscription and for a URL that an error requires the user to open.
	//   - done: the request has ended. Without "allowed" it was not sent, for example because the server is down.
	//   - denied: the request was not sent or answered.
	//   - asked: an approval or the answer to a request of a server is required, and the question is in the response to
	//     the caller (2026-07-28). If the caller answers, other records follow.
	//   - withheld: a definition of a server is not used; see Review.
	//
	// The attributes are these, without those that are empty. They never contain tokens or texts of servers other than
	// names.
	//
	//   - call: the number of the request in this process, the same in all of its records
	//   - issuer, subject, client: the caller; actors: the subjects who act for subject, the current one first
	//     (RFC 8693, section 4.1)
	//   - headers: the names of the headers of the caller that the server receives; see CallerHeaders
	//   - server, method, kind, name: as in [Request], at most 512 bytes of the name
	//   - arguments: the names and types of the arguments, as JSON: at most 256 names of three levels
	//   - decision (allow, ask or deny), reason, policyVersion: from the policy; reason also from Review
	//   - approval: approved, "approved for the session", declined, unanswered or "not asked"
	//   - outcome: ok, "tool error", error, or how the user has answered an elicitation: declined or dismissed
	//   - error: the reason of a denial, the class of the error, such as timeout, or the code of a JSON-RPC error
	//   - seconds: from the arrival of the request, approval included
	//   - bytes: the length of the result, if the server sent one
	//   - values: the arguments of a request to a server with their values, as JSON, if AuditValues is set
	Audit       slog.Handler
	AuditValues bool

	versions atomic.Uint64 // the last version of a ServerStatus
	requests atomic.Uint64 // number of the last request, for the audit log

	// Store keeps large results of tools (see [ServerConfig.MaxResult]), encrypted if there are Keys, which work as
	// server.Server.Keys. Nil means memory. Programs with the same Store share the results.
	Store store.Store
	Keys  [][]byte

	once     sync.Once
	setting  sync.Mutex             // orders calls of SetServers; locked before mu
	mu       sync.Mutex             // held by Close and while roster changes
	roster   atomic.Pointer[roster] // nil before Start
	results  *results               // set by Start
	policies broadcast              // notifies of changes of the policy
	changed  broadcast              // notifies of changes of the servers and their statuses
	names    nameTable

	cataloging sync.Mutex // held while catalogs are made

	ctx     context.Context // cancelled by Close
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// ServerConfig configures one server of a Host.
type ServerConfig struct {
	// Name identifies the server within its Host. It has 1 to 64 ASCII letters, digits, hyphens and underscores. Two
	// underscores separate the name of a server from the name of a tool, so it must not have two in a row or end with
	// one.
	Name string

	// Target is the server to start or dial, such as a client.Command or client.URL.
	Target client.Target

	// Lazy starts the server only when it is first needed: by a call, read or another request to it, by a name in
	// [Host.Call] that may be one of its tools, or by [Host.WaitReady] with its name. Its lists are unknown before.
	// Clients of a gateway also start it when they request a list. Once started, it runs like any other server, except
	// for Idle.
	Lazy bool
	// Idle, if it is greater than 0, ends the server when nobody has used it for this long: its clients are closed, and
	// a program ends. It starts again when it is next needed. Its lists remain known, but the state of its sessions is
	// lost. Calls in flight and subscriptions count as use.
	Idle time.Duration

	// StartTimeout limits the time from the start of the program, or from the first request, until the lists of the
	// server are known. After that, the server is [Down], and is tried again later. 0 means 45 seconds.
	StartTimeout time.Duration

	// Trusted lets the policy use the annotations of the server's tools. Do not set it for servers that could declare a
	// dangerous tool as harmless (2026-07-28, server/tools, Tool Annotations).
	Trusted bool

	// Revision, if it is not empty, is the only revision to use with the server. It overrides Dialer.Revision.
	Revision mcp.Revision

	// Sharing says which callers share a connection, and with it a session or a running program. The Host dials a
	// connection for its first request, and closes it after 30 idle minutes. If a server would have more than 256
	// connections, the Host closes the least recently used one of the user who has the most; if all are in use, further
	// requests fail with a *call.OverloadError. Lists, their watches and subscriptions use the connection for everyone,
	// except with CallerAuth. Callers of 2026-07-28 without authentication cannot be told apart, because that revision
	// has no sessions (2026-07-28, basic, Statelessness); see docs/program/credentials.md.
	//
	// What a server sends goes to the caller whose request it belongs to, if the protocol says which one. Otherwise it
	// goes to the caller of the newest request in flight on the connection, or if there is none, to the last caller. On
	// a connection for everyone, it then goes to nobody.
	Sharing Sharing

	// CallerAuth, if set, authorizes requests with the credentials of each caller, in place of Dialer.Auth and of an
	// Authorization header of Target. These only authorize the lists of the status and their watches; if the server
	// rejects them, its state is [CallersOnly]. Callers share no client, and each gets its own lists. A request fails
	// if its caller is not authenticated. Target must be a URL.
	CallerAuth *CallerAuth

	// CallerHeaders passes headers of callers on to this server, such as each user's key for it. The keys of the map
	// name headers in [Caller].Header, and the values say what the server receives:
	//
	//	"X-Jira-Token": "Authorization: Bearer ${value}"
	//
	// No other server receives the value. On requests for callers, it replaces the header of Target or Dialer with that
	// name, even if the caller sends none; lists, their watches and subscriptions always use the header of Target or
	// Dialer. Callers with different values share no connection. A value may have 8 KiB. Some headers of the caller,
	// such as Authorization and Cookie, cannot be passed on; the error of [Host.Start] says so. Target must be a URL,
	// and CallerAuth nil.
	CallerHeaders map[string]string

	// MaxResult, if it is greater than 0, limits the size of a tool's result, in bytes of JSON. For a larger result,
	// the caller receives the first MaxResult bytes of its text and a mcp.ResourceLink, which [Client.ReadResource]
	// reads for the same principal for an hour. The resource contains the text of the result, or its JSON if it
	// contains anything but text. The policy decides on each read as it did on the call, with the arguments of the
	// call; Ask counts as Allow, because the call was approved. A principal can have 100 such results of 64 MiB in all;
	// the oldest are removed. They are kept in [Host.Store]. The tools lose their output schema, because a part of a
	// result need not match it.
	MaxResult int

	// Roots are the directories that the server may work in, as file:// URIs. They replace the result of Dialer.Roots.
	// An empty list that is not nil means no directories.
	//
	// Deprecated: 2026-07-28 deprecates roots (SEP-2577). The earliest removal is the first revision from
	// 2027-07-28 on. Take directories from tool arguments, URIs or the configuration instead.
	Roots []mcp.Root

	// Prefix, if it is not empty, replaces the name of the server at the beginning of the merged names of its tools and
	// prompts. The rules for Name apply. Servers may share a prefix; names that then occur twice are withheld.
	Prefix string
	// NoPrefix leaves out the prefix and the two underscores after it. A name without a prefix is withheld if it begins
	// with the name or the prefix of another server and two underscores, whether that server has started or not.
	NoPrefix bool
	// Tools and Prompts select and rename what the server offers.
	Tools, Prompts Selection

	// InputLimits limits the requests of the server: elicitation, sampling and roots.
	InputLimits InputLimits

	// Extensions are the extensions of the protocol that [Client.CallExtension] and [Client.NotifyExtension] can use.
	// A gateway offers them to its clients.
	Extensions []Extension
}

// ErrUnknown is wrapped by the error for a server that the Host does not know, and for a tool or prompt that the server
// does not list or that is not selected.
var ErrUnknown = errors.New("unknown")

// unknown returns an ErrUnknown for a server, tool, prompt or method.
func unknown(kind, name string) error {
	return fmt.Errorf("host: %w %s %.200q", ErrUnknown, kind, name)
}

// errClosed is the error of a Host that is closed or was not started.
var errClosed = fmt.Errorf("host is closed or not started: %w", call.ErrClosed)

// Start starts or dials all servers in the background and returns at once; see
// [Host.WaitReady]. It returns an error if a field of the Host is invalid, or if the
// Host was already started or closed.
func (h *Host) Start() error {
	err := errors.New("host: already started or closed")
	h.once.Do(func() { err = h.start() })
	return err
}

// Started reports whether Start has succeeded.
func (h *Host) Started() bool { return h.roster.Load() != nil }

func (h *Host) start() error {
	if err := h.CheckServers(h.Servers); err != nil {
		return err
	}
	var err error
	if h.results, err = newResults(h.Store, h.Keys, h.logger()); err != nil {
		return err
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.roster.Store(&roster{})
	return h.SetServers(h.Servers)
}

// Close closes all clients at the same time and waits for them. Calls in flight fail,
// sessions end, and child processes exit within five seconds. Close returns the errors
// of the clients, joined. It may be called more than once and concurrently.
func (h *Host) Close() error {
	h.once.Do(func() { h.ctx, h.cancel = context.WithCancel(context.Background()) })
	if h.cancel == nil { // Start has failed
		return nil
	}
	h.mu.Lock()
	h.cancel()
	h.mu.Unlock()
	h.running.Wait()
	var errs []error
	for _, s := range h.all() {
		errs = append(errs, s.closeErr)
	}
	return errors.Join(errs...)
}

// Call calls a tool by its name in the merged list of [Host.Tools], such as "files__read_text_file". It waits for the
// server as a [Client] does. It returns [ErrUnknown] if there is no such tool, and for a tool that only pages may call.
// A tool that failed is a result with IsError, not an error.
//
// The deadline of ctx limits the wait for the server and the call. The option
// client.WithTimeout limits the call alone: the server receives the cancellation, and stays
// ready.
func (h *Host) Call(ctx context.Context, name string, arguments any,
	options ...client.CallOption) (*mcp.CallToolResult, error) {
	server, tool, err := h.resolve(ctx, name)
	if err != nil {
		return nil, err
	}
	if s := h.find(server); s != nil && s.isForPages(ctx, tool) {
		return nil, fmt.Errorf("%w: only pages may call it", unknown("tool", name))
	}
	return h.Client(server).CallTool(ctx, tool, arguments, options...)
}

func (h *Host) callTool(ctx context.Context, s *supervisor, tool string, arguments any,
	options []client.CallOption) (*mcp.CallToolResult, error) {
	r := Request{Method: mcp.MethodCallTool, Server: s.name, Kind: KindTool, Name: tool}
	if s.config.MaxResult > 0 {
		return h.callLimited(ctx, s, r, arguments, append([]client.CallOption{client.WithSource()}, options...))
	}
	return guard(ctx, h, s, r, arguments, func(arguments any) (*mcp.CallToolResult, error) {
		return s.callTool(ctx, tool, arguments, s.declared(ctx, h.sourced(options)))
	})
}

// callTool sends a call, which has passed guard.
func (s *supervisor) callTool(ctx context.Context, tool string, arguments any,
	options []client.CallOption) (*mcp.CallToolResult, error) {
	return use(ctx, s, func(ctx context.Context, c *client.Client) (*mcp.CallToolResult, error) {
		if err := s.offers(ctx, KindTool, tool); err != nil {
			return nil, err
		}
		return c.CallTool(ctx, tool, arguments, options...)
	})
}

// enter returns the supervisor of a server for a call; see supervisor.enter.
func (h *Host) enter(server string) (*supervisor, error) {
	for {
		s := h.find(server)
		if s == nil {
			return nil, unknown("server", server)
		}
		if s.enter() {
			return s, nil
		}
	}
}

func (h *Host) logger() *slog.Logger {
	if h.Logger != nil {
		return h.Logger
	}
	return slog.Default()
}
