package server

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/rpc"

	"github.com/parley-mcp/parley/mcp"

	"github.com/parley-mcp/parley/store"
)

// Server offers tools, resources and prompts to clients of every revision of the protocol,
// over every transport, at the same time. The zero value works; set Name and Version, which
// clients show. The fields must not be changed once the server serves; tools, resources and
// prompts may be added and removed at any time.
//
// A Server is an [http.Handler] that is one MCP endpoint. It can be mounted on any path. It
// is safe for concurrent use and must not be copied.
type Server struct {
	Name        string // identifies the program; default "parley"
	Version     string // version of the program; default "0.0.0"
	Title       string // display name
	Description string // purpose of the program, one sentence
	WebsiteURL  string // page with more information
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
	// Logger receives the log messages of the server itself. Nil means slog.Default().
	Logger *slog.Logger
	// Middleware wraps the handling of every call. The first is the outermost.
	Middleware []call.Middleware
	// Limits bounds the messages, requests and sessions of clients.
	Limits Limits
	// Keys encrypt data that clients hold for the server: the requestState of calls of
	// 2026-07-28 that wait for input, and list cursors. Each key has at least 32 random
	// bytes. The first key encrypts and all keys decrypt, so that keys can be rotated. All
	// replicas need the same keys. Without keys the server generates one, and no other
	// process can continue such a call or a list of more than one page.
	Keys [][]byte
	// PageSize is the number of entries in a page of a list. 0 means 1,000.
	PageSize int
	// KeepAlive is the interval at which the server keeps connections alive. 0 means 15
	// seconds. Set less for proxies that close idle connections earlier.
	//
	// On an idle event stream over HTTP the server sends a comment at each interval, which
	// also detects a client that has disappeared. On the stream of a session it sends a
	// ping, unless a request is in flight. If the client of a session sends nothing for two
	// intervals, and for at least 10 seconds, the stream ends, and a *call.SilentError is
	// logged. The session of 2024-11-05 ends with its stream; later sessions end after 5
	// minutes without requests.
	//
	// Connections of ServeConn are pinged only if KeepAlive is positive; standard input
	// never is. A negative KeepAlive disables all pings.
	KeepAlive time.Duration
	// ListCache and DiscoverCache set how long clients of 2026-07-28 may cache the lists of
	// tools, prompts, resources and templates, and the result of server/discover. The zero
	// CachePolicy means not at all. For the contents of resources, see [Cached].
	ListCache, DiscoverCache CachePolicy

	// Auth verifies access tokens over HTTP, in every revision and for every method. Nil
	// means that every caller is accepted as anonymous. The server answers requests for the
	// metadata of the protected resource when they reach it; elsewhere, mount
	// Auth.MetadataHandler.
	Auth *auth.ProtectedResource
	// LocalScopes are the scopes of callers on other transports than HTTP, such as standard
	// input; see [RequireScopes].
	LocalScopes []string

	// RootsChanged, if set, is called when the client of a session notifies the server that
	// its roots have changed; [PeerOf] describes the client. RootsChanged cannot send
	// requests to the client, so call [Roots] in the next handler that needs them. It must
	// be safe for concurrent use.
	//
	// Deprecated: 2026-07-28 deprecates roots, and has no such notification.
	RootsChanged func(ctx context.Context)

	// AllowedOrigins are the origins of web pages that may use the server, in the form
	// "https://app.example.com", in addition to its own origin. Pages of these origins may
	// read the responses (CORS), without cookies. The server's own origin is that of the
	// Host header, if the host is one of AllowedHosts, a name of the loopback interface or
	// an IP address; other host names are not trusted because of DNS rebinding.
	AllowedOrigins []string
	// AllowedHosts are the accepted values of the Host header over HTTP. Empty means every
	// value; on the loopback interface it means the names of that interface.
	AllowedHosts []string

	tools      catalog[*toolEntry]
	resources  catalog[*resourceEntry]
	templates  templateSet
	prompts    catalog[*promptEntry]
	completes  atomic.Bool // an argument has a completer
	changes    rpc.Changes
	followers  followers
	extensions extensions

	once     sync.Once
	core     core
	coreErr  error       // why the fields are invalid; see Check
	warned   atomic.Bool // a warning about scopes that no caller can have was logged
	rejected atomic.Bool // an error about the configuration was logged
}

// Limits bounds the messages, requests and sessions of clients. A zero field means its
// default.
type Limits struct {
	MaxMessage  int // size of one message in bytes; default 4 MiB
	MaxInflight int // requests in flight for each session or connection; default 128

	// InflightPerPrincipal and InflightPerAddress bound the requests of 2026-07-28 in
	// flight over HTTP: those of one principal, default 1,024, and those of all anonymous
	// clients of one address, default 4,096. Further requests are answered with status 429.
	// Clients behind one proxy share an address. Subscriptions are counted separately.
	InflightPerPrincipal int
	InflightPerAddress   int

	// CallsPerSecond and CallBurst bound the rate of tool calls and completions, on average
	// and at once, for each principal. Anonymous clients are bounded for each session and,
	// in 2026-07-28, for each address. The defaults are 1,000 and 2,000. A negative
	// CallsPerSecond means no limit. See [call.LimitRate].
	CallsPerSecond float64
	CallBurst      int

	SessionIdle          time.Duration // time after which an unused session ends; default 30 minutes
	SessionsPerPrincipal int           // default 100
	SessionsPerAddress   int           // anonymous clients; default 1,000
	Sessions             int           // default 10,000

	// Grace is how long requests may take to finish once the client has closed its end of
	// the connection, and to end once they are cancelled. Default 2 seconds.
	Grace time.Duration
}
