package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/internal/httpurl"
	"github.com/parley-mcp/parley/internal/lease"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/internal/seal"
	"github.com/parley-mcp/parley/internal/serve/httpserver"
	"github.com/parley-mcp/parley/internal/serve/streamserver"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

// Server offers tools, resources and prompts to clients of every revision of the protocol,
// over every transport, at the same time. The zero value works; set Name and Version, which
// clients show. The fields must not be changed once the server serves. Tools, resources and
// prompts may be added and removed at any time. A Server is safe for concurrent use and must
// not be copied.
//
// A Server is an [http.Handler], one MCP endpoint that can be mounted on any path.
type Server struct {
	// Catalog contains what the server offers to every caller. Its methods are methods of the Server: RegisterTool,
	// RegisterPrompt, RegisterResource, RegisterTemplate, RegisterExtension, RemoveTool, RemovePrompt, RemoveResource,
	// RemoveTemplate and ResourceUpdated.
	Catalog

	Name    string // identifies the program; default Info.Name or "parley"
	Version string // version of the program; default Info.Version or "0.0.0"
	// Info describes the program further: its Title, Description, WebsiteURL and Icons.
	Info mcp.Implementation
	// Instructions tell a model how to use the server.
	Instructions string
	// InstructionsFor, if set, returns the instructions for a caller and replaces Instructions. It is called when a
	// client connects or sends server/discover; the client keeps the result. It must be safe for concurrent use.
	InstructionsFor func(caller principal.Principal) string

	// Store is shared by the replicas of a server, for example a redisstore.Store. Nil means that there is one replica,
	// which keeps its state in memory.
	//
	// It stores sessions, tasks and the results of [Once], and the events of streams, so that
	// clients can resume them. It also stores the state of a call of 2026-07-28 that waits for an
	// answer, if the state exceeds 48 KiB; otherwise the client holds it. Without Store, a call
	// whose state exceeds 48 KiB ends with an error.
	//
	// Through the Store, replicas tell each other about changes of lists, resources, tasks, sessions and event streams,
	// and forward answers and cancellations in sessions. These messages may be lost if the Store or a replica fails; a
	// call whose answer is lost then waits for its time-out. When the replica that serves a request ends, the request's
	// stream at another replica ends with an error within 20 seconds. The messages of HTTP with SSE (2024-11-05) must
	// reach the replica with the event stream of their session. With a Store the server starts goroutines, which
	// [Server.Shutdown] ends.
	Store store.Store
	// Logger receives the log messages of the server itself. Nil means slog.Default().
	//
	// The messages "task created", "task taken over" and "task ended" at level Info, and "task requests
	// input", "task received input" and "task outcome retrieved" at level Debug, are an audit log of
	// tasks and parked calls. Their attributes task and principal are digests of the id and of
	// principal.Principal.Key: the first 16 characters of the SHA-256 in base64url. Arguments, questions,
	// answers, results and tokens are not logged.
	Logger *slog.Logger
	// Middleware wraps the handling of every call. The first element is the outermost.
	Middleware []call.Middleware
	// Limits bounds the messages, requests and sessions of clients.
	Limits Limits
	// Keys encrypt data that clients hold for the server: list cursors, and the requestState
	// of calls of 2026-07-28 that wait for an answer. They also encrypt the values, entries and
	// messages in Store, but not their keys and topics, which contain principals and the ids of
	// tasks. Each key must have at least 32 random bytes. Without keys the server encrypts nothing
	// in Store, and generates a key for what clients hold; then only this process can continue such
	// a call, or a list of more than one page.
	//
	// The first key encrypts and all keys decrypt. All replicas need the same keys. To rotate
	// keys, append the new key on all replicas, then move it to the front on all replicas, and
	// remove the old one after the longest life of a task, and at least a day: [Once] keeps
	// results for 24 hours. A session in use is encrypted with the new key. An entry that no
	// key decrypts does not exist for the server.
	Keys [][]byte
	// ListCache sets how long clients of 2026-07-28 may cache the lists of tools, prompts,
	// resources and templates, and the result of server/discover. The zero CachePolicy means that they do not cache
	// them. For the contents of resources, see [Cached].
	ListCache CachePolicy

	// Auth verifies access tokens over HTTP, in every revision and for every method. Nil
	// means that every caller is accepted as anonymous, unless middleware in front of the server
	// authenticates callers, see auth.NewContext. The server also serves the metadata of
	// the protected resource. If it is not mounted at "/", mount Auth.MetadataHandler as well,
	// because requests for the metadata do not reach the server.
	Auth *auth.ProtectedResource
	// LocalScopes are the scopes of callers on transports other than HTTP, such as standard
	// input; see [RequireScopes].
	LocalScopes []string

	// Catalogs, if set, returns further catalogs for the caller of ctx. Among several entries with the same name or
	// URI, the embedded Catalog wins, then the first in the returned order. Catalogs is called for each list, and for a
	// name or URI that the embedded Catalog does not contain, so it should be fast. An error fails the request. A nil
	// *Catalog is skipped. Callers may share catalogs. With Catalogs, clients cache lists privately, and extensions
	// only come from the embedded Catalog. The server then declares the capabilities for tools, prompts and resources
	// from the beginning, and those for completions and tasks once it has seen a catalog that needs them; call
	// [Catalog.Declare] to declare them earlier.
	//
	// The context is like a handler's: see [PrincipalOf], [SessionOf] and [call.From]. For a subscription
	// ([WhileSubscribed]) or a stored task it contains only the principal, so choose catalogs by the principal. Clients
	// are notified of changes inside their catalogs; when Catalogs returns other ones, call [Server.CatalogsChanged].
	// Catalogs must be safe for concurrent use.
	Catalogs func(ctx context.Context) ([]*Catalog, error)
	// CatalogsOutdated, if set, is called when another replica that shares Store has called [Server.CatalogsChanged],
	// and when messages from other replicas may have been lost. Drop what Catalogs keeps for the callers for whom
	// concerns returns true. Return true if this replica may have listed old catalogs to one of them: the clients of
	// these callers are then notified again, because one may have asked for a list here after the first notification
	// and before this call. The function must be safe for concurrent use and must not block.
	CatalogsOutdated func(concerns func(caller principal.Principal) bool) (shown bool)
	// WhileListening, if set, is called in a new goroutine when the first client of an authenticated caller subscribes
	// to list changes; in a session, opening the stream for notifications counts. Use it to watch lists that change
	// elsewhere, and call [Server.CatalogsChanged] when they do. It must return when its context ends, which happens
	// when the caller's last client has unsubscribed or the server shuts down. [PrincipalOf] returns the caller. The
	// server calls it for at most 10,000 callers at a time, and logs a warning if more subscribe. A panic is logged.
	WhileListening func(ctx context.Context)

	// BeforeSubscribe, if set, decides about subscriptions to URIs that the server does not offer to the caller, as the
	// option [BeforeSubscribe] does for a resource. Nil accepts them: the client is notified once there is such a
	// resource. It must be safe for concurrent use.
	BeforeSubscribe func(ctx context.Context, uri string) error
	// RootsChanged, if set, is called when the client of a session reports that its roots have changed, on each replica
	// that has recently served the session. Use [SessionOf] to request the new roots. It must be safe for concurrent
	// use.
	RootsChanged func(ctx context.Context)

	// Headers, if set, returns the canonical names of the HTTP request headers that handlers can read with [HeaderOf],
	// such as the caller's key for another service. Web pages of AllowedOrigins may send them. It is called for each
	// request, must be safe for concurrent use, and must not block.
	Headers func() []string

	// AllowedOrigins are the origins of web pages that may use the server, in the form
	// "https://app.example.com", in addition to its own origin. Pages of these origins may
	// read the responses (CORS), but the browser sends no cookies. The server's own origin is
	// that of the Host header, if the host is one of AllowedHosts, a name of the loopback
	// interface or an IP address. Other host names are not trusted because of DNS rebinding.
	AllowedOrigins []string
	// AllowedHosts are the accepted values of the Host header over HTTP. Empty means any
	// value, except on the loopback interface, where it means the names of that interface.
	AllowedHosts []string

	rechecks  rechecks
	changes   changes.Broadcaster
	followers followers
	holders   holders
	tasks     taskFeature
	replicas  replicas

	once     sync.Once
	core     core
	coreErr  error       // of Check
	warned   atomic.Bool // a warning about scopes that no caller can have was logged
	rejected atomic.Bool // an error about the configuration was logged
}

// Limits bounds the messages, requests and sessions of clients. 0 means the default of a field. A negative field,
// except for CallsPerSecond, ListsPerSecond and KeepAlive, is an error of [Server.Check].
//
// Subscriptions are limited, too: the URIs to which one principal, or all anonymous clients of one address, are
// subscribed may take 8 MiB in all, plus 64 bytes each. Further subscriptions fail with a [call.OverloadError].
type Limits struct {
	// MaxMessage is the maximum size in bytes of a message that arrives over HTTP or standard
	// input. The default is 4 MiB. A larger message is answered with an error, over HTTP with
	// status 413. A connection of ServeConn has its own limit.
	MaxMessage int
	// Inflight is the maximum number of requests of one session or connection that are in
	// flight. The default is 128. Over HTTP, further requests are rejected with status 429. On
	// other connections they wait.
	Inflight int

	// InflightPerPrincipal and InflightPerAddress bound the requests of 2026-07-28 in flight
	// over HTTP. InflightPerPrincipal is the maximum for one principal, 1,024 by default.
	// InflightPerAddress is the maximum for all anonymous clients of one address, 4,096 by
	// default; clients behind one proxy share an address. Further requests are rejected with
	// status 429. Subscriptions are counted separately.
	InflightPerPrincipal int
	InflightPerAddress   int

	// CallsPerSecond is the average number of tool calls, completions, reads of resources and
	// requests about tasks that a principal may make in a second; it may make twice as many at once. The default is
	// 1,000. Anonymous clients are counted by session and, in 2026-07-28, by address. Further
	// calls are rejected; see [call.LimitRate]. A negative CallsPerSecond means no limit. Replicas count
	// calls together, with the tolerance that [call.RateLimit] states.
	CallsPerSecond float64
	// ListsPerSecond limits the requests for lists and server/discover in the same way. The default is no limit.
	ListsPerSecond float64

	// SessionIdle is how long a session over HTTP lives without requests. The default is 30
	// minutes.
	SessionIdle time.Duration
	// SessionsPerPrincipal, SessionsPerAddress and Sessions are the maximum numbers of sessions over HTTP: of one
	// principal, of all anonymous clients of one address, and of all clients. The defaults are 100, 1,000 and 10,000. A
	// further session ends the one of the same principal or address that has been idle for the longest time. If all of
	// them have a request or a stream, the new session is rejected with status 503.
	SessionsPerPrincipal int
	SessionsPerAddress   int
	Sessions             int

	// Tasks is the maximum number of tasks that this process runs at a time. TasksPerPrincipal is
	// the maximum number of stored tasks of one principal, including those that have ended. Both are
	// 1,000 by default. Further calls as tasks are rejected.
	Tasks             int
	TasksPerPrincipal int

	// Grace bounds how long a connection of Run or ServeConn waits for its requests: to finish
	// after the client has closed its end, and to end after they are cancelled. The default is
	// 2 seconds, except that a client of Run that still reads receives the responses to all its
	// requests.
	Grace time.Duration
	// PageSize is the maximum number of entries in a page of a list. 0 means 1,000.
	PageSize int
	// KeepAlive is the interval at which the server keeps idle connections alive. 0 means 15
	// seconds. Set a shorter interval if a proxy closes idle connections earlier.
	//
	// On an idle event stream over HTTP the server sends a comment at each interval, which
	// also detects a lost connection. On the stream of a session it sends a ping instead,
	// unless the client must answer another request. If the client does not respond for two
	// intervals, and for at least 10 seconds, the stream ends, and a *call.SilentError is
	// logged. A session of 2024-11-05 ends with its stream. A later session ends if the client
	// sends no request for another 5 minutes.
	//
	// Connections of ServeConn are pinged only if KeepAlive is positive. Standard input is
	// never pinged. A negative KeepAlive disables all pings.
	KeepAlive time.Duration
}

// checkFields returns an error for the first field with an invalid value. Other functions check
// Keys and Auth.
func (s *Server) checkFields() error {
	website := s.implementation().WebsiteURL
	if u, err := url.Parse(website); website != "" &&
		(err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		return errors.New("server: Info.WebsiteURL must be empty or begin with https:// or http://, and name a host")
	}
	for _, origin := range s.AllowedOrigins {
		if !httpurl.IsOrigin(origin) {
			return fmt.Errorf("server: AllowedOrigins: %.200q must be an origin as browsers send it, "+
				"such as https://app.example.com: lower case, without a path and without the default port", origin)
		}
	}
	for _, host := range s.AllowedHosts {
		if !httpurl.IsHost(host) {
			return fmt.Errorf("server: AllowedHosts: %.200q must be a host name or an IP address, with or without a "+
				"port", host)
		}
	}
	return s.Limits.check()
}

// check returns an error if a limit is negative.
func (l Limits) check() error {
	if math.IsNaN(l.CallsPerSecond) || math.IsNaN(l.ListsPerSecond) {
		return errors.New("server: Limits.CallsPerSecond and ListsPerSecond must be numbers")
	}
	v := reflect.ValueOf(l)
	for i := range v.NumField() {
		f, name := v.Field(i), v.Type().Field(i).Name
		if f.CanInt() && f.Int() < 0 && name != "KeepAlive" {
			return fmt.Errorf("server: Limits.%s must not be negative; 0 means the default", name)
		}
	}
	return nil
}

// core holds the engine and the wires around it. It is built once, before the first
// message or connection.
type core struct {
	engine  *rpc.Engine
	guard   rpc.StoreGuard
	lease   lease.Lease
	seals   *seal.Keys
	cursors cursors
	http    httpserver.Server
	stream  streamserver.Server

	base     context.Context // ends when the time for a shutdown is up
	cancel   context.CancelFunc
	draining context.Context // ends when a shutdown begins
	drain    context.CancelFunc

	mu    sync.Mutex     // orders a new connection in conns
	conns sync.WaitGroup // and the call of drain
}

// enter counts one more connection. It reports false once a shutdown has begun.
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

func (s *Server) logger() *slog.Logger {
	if s.Logger != nil {
		return s.Logger
	}
	return slog.Default()
}

func (s *Server) pageSize() int { return orDefault(s.Limits.PageSize, 1000) }

func orDefault[T int | time.Duration](v, def T) T {
	if v <= 0 {
		return def
	}
	return v
}
