package server

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/internal/httpwire"
	"github.com/parley-mcp/parley/internal/legacy"
	"github.com/parley-mcp/parley/internal/modern"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/seal"
	"github.com/parley-mcp/parley/internal/streamwire"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
	"github.com/parley-mcp/parley/transport"
)

// Server offers tools, resources and prompts to clients of every revision of the
// protocol, over every transport, at the same time. Its zero value works; Name and
// Version are what clients show. The fields must not be changed once it serves; what
// it offers may be.
//
// A Server is an http.Handler that is one MCP endpoint. Mount it on any path.
type Server struct {
	Name        string // identifies the program; default "parley"
	Version     string // of the program; default "0.0.0"
	Title       string // Name, for people
	Description string // what the program is for, in a sentence
	WebsiteURL  string // where people read more
	Icons       []mcp.Icon
	// Instructions tell a model how to use the server.
	Instructions string

	// KV holds the sessions of the revisions that have them, the results of [Once], and
	// the state of calls that wait for input when it exceeds 48 KiB. Nil means the memory
	// of this process, and state that large is an error.
	KV store.KV
	// Log holds the events of streams that clients can resume. Nil means the memory of
	// this process. Servers that share KV must share Log, too, or a client can resume a
	// stream only on the server that started it. A *store.Memory is both.
	Log store.Log
	// Logger takes what the server itself has to say. Nil: slog.Default().
	Logger *slog.Logger
	// Middleware wraps the handling of every call, the first outermost.
	Middleware []rpc.Middleware
	// Limits bounds what clients can use up.
	Limits Limits
	// Keys seal what clients keep for the server: the state of calls of 2026-07-28 that
	// wait for their input, and the cursors of lists. At least 32 random bytes each, the
	// same on all replicas, the newest first; the others still open what they have
	// sealed. Without any, a random key is made, and another process can go on neither
	// with such a call nor with a list of more than one page.
	Keys [][]byte
	// PageSize is how many entries a page of a list has. 0: 1,000.
	PageSize int
	// KeepAlive is how often event streams over HTTP that would be silent are kept alive by
	// a comment, which is also how a client that has gone without a word is noticed; 0: 15
	// seconds. Proxies that cut silent connections earlier need less.
	//
	// As often, the client of a session is pinged on the session's own stream, if it is
	// silent and nothing else is asked of it. If nothing at all comes for twice as long, and
	// for 10 seconds at least, that is logged as a *call.SilentError and the stream ends,
	// with it the session of 2024-11-05; the others end 5 minutes later unless they are
	// used, or have requests in flight, which a disconnect does not cancel. The connections
	// of ServeConn are pinged only if KeepAlive is set, and end when they are silent, those
	// of Run never. Negative: nobody is pinged.
	KeepAlive time.Duration
	// ListCache and DiscoverCache tell clients of 2026-07-28 how long to keep the lists
	// of tools, prompts, resources and templates, and what server/discover says. The
	// zero CachePolicy: not at all. For what is read of resources, see [Cached].
	ListCache, DiscoverCache CachePolicy

	// Auth says who may use the server over HTTP, in every revision and with every
	// method, and what for. Nil: everybody may, and is anonymous. The server answers
	// for its metadata itself where requests for auth.MetadataPath reach it; elsewhere
	// mount Auth.MetadataHandler.
	Auth *auth.ProtectedResource
	// LocalScopes are granted to whoever speaks to the server by another way than HTTP,
	// as standard input is; see [RequireScopes].
	LocalScopes []string

	// RootsChanged, if set, is called when the client of a session says that its roots are
	// others now; ctx carries who it is, see [PeerOf]. It cannot ask for them: the next
	// handler that needs [Roots] does. Safe for concurrent use.
	//
	// Deprecated: 2026-07-28 deprecates roots, and has no such notification.
	RootsChanged func(ctx context.Context)

	// AllowedOrigins are the origins of web pages that may use the server, beside its
	// own, as browsers write them: "https://app.example.com". An origin is the server's
	// own if it is that of the Host header, and the Host is one of AllowedHosts, a name
	// of the loopback interface or an IP address: any other name can be made to lead
	// here. The pages of these origins may read the responses (CORS), without cookies.
	AllowedOrigins []string
	// AllowedHosts are the Host headers that the server answers to over HTTP. Empty:
	// any, but on the loopback interface only that interface's names.
	AllowedHosts []string

	tools      catalog[*toolEntry]
	resources  catalog[*resourceEntry]
	templates  templateSet
	prompts    catalog[*promptEntry]
	completes  atomic.Bool // something can be completed
	changes    rpc.Changes
	followers  followers
	extensions extensions

	once   sync.Once
	core   core
	wrong  any         // with the fields; nil if nothing is
	warned atomic.Bool // of scopes that nobody can have
}

// Limits bounds what clients can use up. A zero field means its default.
type Limits struct {
	MaxMessage  int // bytes of one message; default 4 MiB
	MaxInflight int // requests in flight for each session or connection; default 128

	// InflightPerOwner and InflightPerAddress are how many requests of 2026-07-28, which
	// knows no sessions, are served at a time over HTTP: of one principal, default 1,024,
	// and of the anonymous clients of one address, default 4,096. More are refused with
	// status 429. Clients that come through one proxy have one address. Subscriptions are
	// counted apart.
	InflightPerOwner   int
	InflightPerAddress int

	// CallsPerSecond and CallBurst are how many calls of tools and completions a
	// principal may make, on average and at once; an anonymous client has them for each
	// session and, in 2026-07-28, for each address. Default 1,000 and 2,000; negative
	// CallsPerSecond: no limit. See call.LimitRate.
	CallsPerSecond float64
	CallBurst      int

	SessionIdle        time.Duration // an unused session ends; default 30 minutes
	SessionsPerOwner   int           // default 100
	SessionsPerAddress int           // of anonymous clients; default 1,000
	Sessions           int           // default 10,000

	// Grace is how long requests may take to finish once the client has closed its end
	// of the connection, and to end once they were cancelled; default 2 seconds.
	Grace time.Duration
}

// core is what serves: the eras, over the wires, around one engine. It is made
// once, when the first message or connection comes.
type core struct {
	engine  *rpc.Engine
	cursors cursors
	http    httpwire.Server
	stream  streamwire.Server

	base     context.Context // ends when a shutdown loses its patience
	cancel   context.CancelFunc
	draining context.Context // ends when a shutdown begins
	drain    context.CancelFunc

	mu    sync.Mutex     // orders the first of these two against the second:
	conns sync.WaitGroup // another connection begins, drain
}

// enter counts one more connection, unless a shutdown has begun.
func (c *core) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.draining.Err() != nil {
		return false
	}
	c.conns.Add(1)
	return true
}

func (c *core) beginShutdown() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drain()
}

func (s *Server) ready() *core {
	s.once.Do(func() {
		defer func() { s.wrong = recover() }()
		logger := s.logger()
		identity, err := json.Marshal(s.implementation())
		if err != nil {
			panic("server: " + err.Error()) // an icon's or name's text cannot make this happen
		}
		memory := store.NewMemory(store.MemoryOptions{})
		kv, log := s.KV, s.Log
		if kv == nil {
			kv = memory
		}
		if log == nil {
			log = memory
		}
		inflight := orDefault(s.Limits.MaxInflight, 128)
		c := &s.core
		handlers := map[string]rpc.Handler{
			mcp.MethodDiscover:              s.discover,
			mcp.MethodListTools:             s.listTools,
			mcp.MethodCallTool:              s.callTool,
			mcp.MethodSetLevel:              s.setLevel,
			mcp.MethodListResources:         s.listResources,
			mcp.MethodListResourceTemplates: s.listTemplates,
			mcp.MethodReadResource:          s.readResource,
			mcp.MethodListPrompts:           s.listPrompts,
			mcp.MethodGetPrompt:             s.getPrompt,
			mcp.MethodComplete:              s.complete,
			mcp.MethodListen:                s.listen,
			mcp.MethodSubscribe:             s.subscribe,
			mcp.MethodUnsubscribe:           s.unsubscribe,
		}
		maps.Copy(handlers, s.extensions.serve()) // names of their own
		if s.RootsChanged != nil {
			handlers[mcp.NotificationRootsListChanged] = s.rootsChanged
		}
		c.engine = rpc.NewEngine(handlers, logger, s.middleware()...)
		c.engine.Store, c.engine.Scopes = kv, s.scopesOf
		if s.Auth != nil {
			if err := s.Auth.Check(); err != nil {
				panic("server: Auth: " + err.Error())
			}
		}
		s.changes.OnInterest(s.followers.changed)
		peers := &rpc.Peers{}
		seals, err := seal.New(s.Keys...)
		if err != nil {
			panic("server: Keys: " + err.Error())
		}
		c.cursors = cursors{seals}
		modernEra := &modern.Server{Engine: c.engine, Peers: peers, Identity: identity, Seals: seals}
		if s.KV != nil { // state in the memory of this process would be lost with it
			modernEra.Store = s.KV
		}
		legacyEra := &legacy.Server{Engine: c.engine, Peers: peers, Logger: logger, Describe: s.describe, Changes: &s.changes, MaxInflight: inflight}
		c.http = httpwire.Server{
			Modern: modernEra,
			Legacy: legacyEra,
			Sessions: legacy.NewSessions(legacyEra, kv, legacy.SessionLimits{
				Idle:       s.Limits.SessionIdle,
				PerOwner:   s.Limits.SessionsPerOwner,
				PerAddress: s.Limits.SessionsPerAddress,
				Total:      s.Limits.Sessions,
			}),
			Streams:   httpwire.NewStreams(log, logger),
			Guard:     httpwire.Guard{Origins: s.AllowedOrigins, Hosts: s.AllowedHosts},
			Auth:      s.Auth,
			Logger:    logger,
			MaxBody:   int64(orDefault(s.Limits.MaxMessage, transport.DefaultServerMaxMessage)),
			KeepAlive: orDefault(s.KeepAlive, 15*time.Second),
			Ping:      s.KeepAlive >= 0,

			PerOwner:   orDefault(s.Limits.InflightPerOwner, 1024),
			PerAddress: orDefault(s.Limits.InflightPerAddress, 4096),
		}
		c.stream = streamwire.Server{
			Modern:      modernEra,
			Legacy:      legacyEra,
			Logger:      logger,
			MaxInflight: inflight,
			KeepAlive:   max(s.KeepAlive, 0),
			Grace:       orDefault(s.Limits.Grace, 2*time.Second),
		}
		c.base, c.cancel = context.WithCancel(context.Background())
		c.draining, c.drain = context.WithCancel(context.Background())
	})
	if s.wrong != nil { // also for those who come after net/http has survived the first panic
		panic(s.wrong)
	}
	return &s.core
}

// middleware is the program's, around the limit: what sees calls sees refusals too.
func (s *Server) middleware() []rpc.Middleware {
	limit := rpc.RateLimit{PerSecond: s.Limits.CallsPerSecond, Burst: orDefault(s.Limits.CallBurst, 2000)}
	if limit.PerSecond == 0 {
		limit.PerSecond = 1000
	}
	return append(slices.Clip(s.Middleware), rpc.LimitRate(limit))
}

func orDefault[T int | time.Duration](v, def T) T {
	if v <= 0 {
		return def
	}
	return v
}

func (s *Server) pageSize() int { return orDefault(s.PageSize, 1000) }

func (s *Server) logger() *slog.Logger {
	if s.Logger != nil {
		return s.Logger
	}
	return slog.Default()
}

// ServeHTTP implements http.Handler: one MCP endpoint, for the stateless requests
// of 2026-07-28, the sessions of 2025-03-26 to 2025-11-25 and the event stream of
// 2024-11-05.
//
// Requests of web pages with a foreign Origin are refused, and so are, on the
// loopback interface, foreign Host headers.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := s.ready()
	if s.Auth == nil && s.scoped() && auth.FromContext(r.Context()) == nil {
		s.warnOfScopes()
	}
	c.http.ServeHTTP(w, r)
}

// Run serves standard input and output until the client closes them, and returns
// nil then, or until ctx ends. Meanwhile what the program prints to standard
// output goes to standard error where the system allows it; see transport.Stdio.
func (s *Server) Run(ctx context.Context) error {
	conn, err := transport.Stdio(transport.StdioOptions{StreamOptions: transport.StreamOptions{MaxMessage: s.Limits.MaxMessage}})
	if err != nil {
		return err
	}
	wire := s.ready().stream
	wire.KeepAlive = 0 // the end of the client is the end of the stream
	return s.serve(ctx, conn, &wire)
}

// ServeConn serves one connection until the client closes it, and returns nil
// then, or until ctx ends. It closes conn. Whoever can reach the connection is
// principal.Local: a byte stream authenticates nobody, so make sure that only
// those connect who may.
func (s *Server) ServeConn(ctx context.Context, conn transport.Conn) error {
	return s.serve(ctx, conn, &s.ready().stream)
}

func (s *Server) serve(ctx context.Context, conn transport.Conn, wire *streamwire.Server) error {
	c := s.ready()
	if !c.enter() {
		conn.Close()
		return ErrShutdown
	}
	defer c.conns.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.base, cancel)()
	return wire.Serve(s.local(ctx), c.draining, conn, principal.Local)
}

// ErrShutdown is returned by ServeConn after Shutdown.
var ErrShutdown = errors.New("server: shut down")

// Shutdown lets nobody in anymore, waits for the calls in flight and ends open
// streams and connections. If ctx ends first, the calls are cancelled, those on
// connections are given Limits.Grace to end, and the context's error is returned.
// A Server that was shut down stays so.
func (s *Server) Shutdown(ctx context.Context) error {
	c := s.ready()
	c.beginShutdown()
	err := errors.Join(c.http.Shutdown(ctx), c.http.Legacy.Close(ctx))
	done := make(chan struct{})
	go func() {
		c.conns.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		c.cancel()
		<-done // bounded: each connection waits no longer than its grace
		err = ctx.Err()
	}
	return errors.Join(err, s.followers.close(ctx))
}

func (s *Server) implementation() mcp.Implementation {
	i := mcp.Implementation{
		Name:        s.Name,
		Title:       s.Title,
		Version:     s.Version,
		Description: s.Description,
		Icons:       s.Icons,
		WebsiteURL:  s.WebsiteURL,
	}
	if i.Name == "" {
		i.Name = "parley"
	}
	if i.Version == "" {
		i.Version = "0.0.0"
	}
	return i
}

func (s *Server) capabilities() mcp.ServerCapabilities {
	c := mcp.ServerCapabilities{Logging: &mcp.Supported{}} // any handler may use Logger
	if s.tools.offered() {
		c.Tools = &mcp.ToolsCapability{ListChanged: true}
	}
	if s.offersResources() {
		c.Resources = &mcp.ResourcesCapability{ListChanged: true, Subscribe: true}
	}
	if s.prompts.offered() {
		c.Prompts = &mcp.PromptsCapability{ListChanged: true}
	}
	c.Extensions = s.extensions.declared()
	if s.completes.Load() {
		c.Completions = &mcp.Supported{}
	}
	return c
}

func (s *Server) describe(principal.Principal) mcp.InitializeResult {
	return mcp.InitializeResult{
		Capabilities: s.capabilities(),
		ServerInfo:   s.implementation(),
		Instructions: s.Instructions,
	}
}

func (s *Server) discover(context.Context, *rpc.Call) rpc.Outcome {
	return rpc.Outcome{Result: modern.Discover(s.capabilities(), s.Instructions, s.DiscoverCache.hints(false))}
}

func methodNotFound(c *rpc.Call) rpc.Outcome {
	return rpc.Fail(jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "method %q is not offered by this server", c.Method))
}
