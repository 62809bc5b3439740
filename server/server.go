package server

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/internal/rpc"

	"github.com/parley-mcp/parley/mcp"

	"github.com/parley-mcp/parley/store"
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

	once     sync.Once
	core     core
	coreErr  error       // what is wrong with the fields; see Check
	warned   atomic.Bool // a warning about scopes that no caller can have was logged
	rejected atomic.Bool // an error about the configuration was logged
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
