package devissuer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/parley-mcp/parley/auth/jwt"
)

// The defaults of [Config], and what an issuer keeps at most.
const (
	DefaultUser                 = "developer"
	DefaultAccessTokenLifetime  = 5 * time.Minute
	DefaultRefreshTokenLifetime = 24 * time.Hour

	consentLifetime = 10 * time.Minute
	codeLifetime    = time.Minute

	maxClients   = 1000  // registered and fetched
	maxConsents  = 1000  // pages shown and not yet answered
	maxCodes     = 1000  // codes not yet expired
	maxRefreshes = 10000 // refresh tokens, used ones included
	maxBody      = 64 << 10
)

// Config says what an issuer grants, and to whom. The zero value grants any scope for any resource to
// the user "developer".
type Config struct {
	// Address is where to listen, "127.0.0.1:0" if empty. Anything but a loopback address is refused.
	Address string

	// Users are the people whom the consent page offers to be; [DefaultUser] if there are none.
	Users []string

	// Scopes are the scopes that exist. If there are none, any scope is granted that is asked for.
	Scopes []string

	// Resources are the servers that tokens may be for (RFC 8707). If there is one only, it is also
	// what a request means that names none. If there are none, tokens are for any resource.
	Resources []string

	// Clients are known from the start.
	Clients []Client

	// AccessTokenLifetime and RefreshTokenLifetime are how long tokens are good for;
	// [DefaultAccessTokenLifetime] and [DefaultRefreshTokenLifetime] if zero.
	AccessTokenLifetime  time.Duration
	RefreshTokenLifetime time.Duration

	// Documents fetches client id metadata documents. The URLs are what callers say, so this client
	// decides what they may reach. Without one, such documents are not supported.
	Documents *http.Client

	// Logger is told of what was granted and refused, never of a secret. Nil is silence.
	Logger *slog.Logger
}

// Issuer is a running authorization server. All methods are safe for concurrent use.
type Issuer struct {
	config Config
	url    string // the issuer identifier: an origin
	host   string // what the Host header must be
	logger *slog.Logger
	server *http.Server
	served chan struct{} // closed when the server has stopped
	conns  sync.WaitGroup
	mux    *http.ServeMux
	proofs jwt.ProofVerifier

	mu        sync.Mutex
	keys      []*signingKey // the last one signs
	known     map[string]*Client
	clients   *expiring[*Client]  // by id: registered and fetched
	consents  *expiring[*consent] // by id
	codes     *expiring[*code]    // by digest
	refreshes *expiring[*refresh] // by digest
}

// Start listens and serves until [Issuer.Close]. It fails if the address is not a loopback address or
// the configuration makes no sense.
func Start(config Config) (*Issuer, error) {
	if config.Address == "" {
		config.Address = "127.0.0.1:0"
	}
	host, _, err := net.SplitHostPort(config.Address)
	if err != nil {
		return nil, fmt.Errorf("devissuer: address %q: %w", config.Address, err)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return nil, fmt.Errorf("devissuer: address %q is not a loopback address: an issuer that lets anybody be anybody listens on 127.0.0.1 or [::1] only", config.Address)
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", config.Address)
	if err != nil {
		return nil, fmt.Errorf("devissuer: %w", err)
	}
	i, err := newIssuer(config, listener.Addr().String())
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	i.server = &http.Server{
		Handler:           i,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    64 << 10,
		ConnState:         i.count,
		ErrorLog:          slog.NewLogLogger(i.logger.Handler(), slog.LevelDebug),
	}
	go func() {
		defer close(i.served)
		_ = i.server.Serve(listener) // ErrServerClosed, or the listener's end, which Close brings about
	}()
	return i, nil
}

// newIssuer returns an issuer that answers for host and does not listen.
func newIssuer(config Config, host string) (*Issuer, error) {
	if len(config.Users) == 0 {
		config.Users = []string{DefaultUser}
	}
	if config.AccessTokenLifetime <= 0 {
		config.AccessTokenLifetime = DefaultAccessTokenLifetime
	}
	if config.RefreshTokenLifetime <= 0 {
		config.RefreshTokenLifetime = DefaultRefreshTokenLifetime
	}
	for _, resource := range config.Resources {
		if err := checkResource(resource); err != nil {
			return nil, fmt.Errorf("devissuer: Config.Resources: %w", err)
		}
	}
	for _, scope := range config.Scopes {
		if !isScope(scope) {
			return nil, fmt.Errorf("devissuer: Config.Scopes: %q is not a scope: one word of printable ASCII without quotes and backslashes", scope)
		}
	}
	i := &Issuer{
		config:    config,
		url:       "http://" + host,
		host:      host,
		logger:    config.Logger,
		served:    make(chan struct{}),
		known:     make(map[string]*Client, len(config.Clients)),
		clients:   newExpiring[*Client](maxClients),
		consents:  newExpiring[*consent](maxConsents),
		codes:     newExpiring[*code](maxCodes),
		refreshes: newExpiring[*refresh](maxRefreshes),
	}
	if i.logger == nil {
		i.logger = slog.New(slog.DiscardHandler)
	}
	for _, c := range config.Clients {
		if err := c.check(); err != nil {
			return nil, fmt.Errorf("devissuer: Config.Clients: %w", err)
		}
		c.RedirectURIs = slices.Clone(c.RedirectURIs)
		i.known[c.ID] = &c
	}
	i.mux = i.routes()
	return i, i.RotateKey()
}

// URL returns the issuer identifier, which is also where it is reached: "http://127.0.0.1:41234".
func (i *Issuer) URL() string { return i.url }

// Close stops serving and forgets everything. It returns when nothing of the issuer runs any more,
// and may be called more than once.
func (i *Issuer) Close() error {
	err := i.server.Close()
	<-i.served
	i.conns.Wait()
	return err
}

// count counts the connections, for which http.Server.Close does not wait.
func (i *Issuer) count(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		i.conns.Add(1)
	case http.StateClosed:
		i.conns.Done()
	}
}

// ServeHTTP answers what is meant for this issuer: requests that name its own address, so that no page
// on the network reaches it by a name that resolves to loopback.
func (i *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	if r.Host != i.host {
		i.page(w, http.StatusForbidden, "message.html", message{Title: "Not here", Text: "This issuer answers for " + i.host + " only."})
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	i.mux.ServeHTTP(w, r)
}

func (i *Issuer) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", i.serveHome)
	mux.HandleFunc("GET /style.css", serveStyle)

	mux.HandleFunc("GET /authorize", i.serveAuthorize)
	// A page of another site can neither send this form nor frame ours.
	mux.Handle("POST /authorize", http.NewCrossOriginProtection().Handler(http.HandlerFunc(i.serveConsent)))

	// What a client asks for itself carries no cookie, so that any page may ask it.
	for _, endpoint := range []struct {
		method, path string
		handler      http.HandlerFunc
	}{
		{http.MethodGet, metadataPath, i.serveMetadata},
		{http.MethodGet, "/jwks", i.serveKeys},
		{http.MethodPost, "/register", i.serveRegister},
		{http.MethodPost, "/token", i.serveToken},
		{http.MethodPost, "/revoke", i.serveRevoke},
	} {
		mux.Handle(endpoint.method+" "+endpoint.path, crossOrigin(endpoint.handler))
		mux.Handle("OPTIONS "+endpoint.path, preflight(endpoint.method))
	}
	return mux
}
