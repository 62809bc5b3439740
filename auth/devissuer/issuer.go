package devissuer

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/parley-mcp/parley/principal"
)

const (
	defaultUser     = "developer"
	defaultLifetime = 5 * time.Minute // lifetime of access tokens
	codeLifetime    = time.Minute
	maxEntries      = 1000 // entries per table
	maxBody         = 64 << 10
)

// Config configures an [Issuer]. With the zero value, the issuer grants any scope for any
// resource to any user.
type Config struct {
	// Users are the users on the page; nil means that the page asks for a name, such as "developer".
	Users []string

	// Scopes are the supported scopes; nil means that all scopes are supported.
	Scopes []string

	// Clients are registered clients.
	Clients []Client

	// AccessTokenLifetime is the lifetime of access tokens; zero means five minutes.
	AccessTokenLifetime time.Duration

	// Logger receives issued tokens and failed requests, without secrets; nil disables logging.
	Logger *slog.Logger
}

// Issuer is a running authorization server. All methods are safe for concurrent use.
type Issuer struct {
	config Config
	url    string // issuer identifier, an origin
	host   string // required Host header
	logger *slog.Logger
	server *http.Server
	served chan struct{} // closed when Serve has returned
	conns  sync.WaitGroup
	key    jose.JSONWebKey // the published key
	signer jose.Signer

	mu        sync.Mutex
	clients   table[*Client]
	codes     table[*grant]
	refreshes table[*grant] // grants by refresh token
}

// Start returns an issuer that serves on a free port of 127.0.0.1 until [Issuer.Close]. It fails if the configuration
// is invalid.
func Start(config Config) (*Issuer, error) {
	i := &Issuer{config: config, logger: config.Logger, served: make(chan struct{})}
	if i.logger == nil {
		i.logger = slog.New(slog.DiscardHandler)
	}
	if i.config.AccessTokenLifetime <= 0 {
		i.config.AccessTokenLifetime = defaultLifetime
	}
	for _, user := range config.Users {
		if err := checkUser(user); err != nil {
			return nil, fmt.Errorf("devissuer: Config.Users: %w", err)
		}
	}
	for _, c := range config.Clients {
		if err := c.check(); err != nil {
			return nil, fmt.Errorf("devissuer: Config.Clients: %w", err)
		}
		i.clients.put(c.ID, &c)
	}
	if err := i.makeKey(); err != nil {
		return nil, fmt.Errorf("devissuer: cannot make a key: %w", err)
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0") // it has no passwords
	if err != nil {
		return nil, fmt.Errorf("devissuer: cannot listen: %w", err)
	}
	i.host = listener.Addr().String()
	i.url = "http://" + i.host
	i.server = &http.Server{
		Handler:           i.handler(),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
		ConnState:         i.countConns,
		ErrorLog:          slog.NewLogLogger(i.logger.Handler(), slog.LevelDebug),
	}
	go func() {
		defer close(i.served)
		_ = i.server.Serve(listener) // ErrServerClosed, or the error of the closed listener
	}()
	return i, nil
}

// URL returns the issuer identifier, which is also its base URL, such as
// "http://127.0.0.1:41234".
func (i *Issuer) URL() string { return i.url }

// Close stops the issuer and waits for its goroutines. It may be called more than once.
func (i *Issuer) Close() error {
	err := i.server.Close()
	<-i.served
	i.conns.Wait()
	return err
}

// countConns counts connections, because http.Server.Close does not wait for them.
func (i *Issuer) countConns(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		i.conns.Add(1)
	case http.StateClosed:
		i.conns.Done()
	}
}

// handler rejects requests whose Host header is not the issuer's address: a web page could send them through a name
// that resolves to it.
func (i *Issuer) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /authorize", i.serveAuthorize)
	// Pages of other sites must not submit the form.
	mux.Handle("POST /authorize", http.NewCrossOriginProtection().Handler(http.HandlerFunc(i.serveAuthorize)))
	mux.HandleFunc("GET /.well-known/oauth-authorization-server", fromAnyPage(i.serveMetadata))
	mux.HandleFunc("GET /jwks", fromAnyPage(i.serveKeys))
	mux.HandleFunc("POST /register", fromAnyPage(i.serveRegister))
	mux.HandleFunc("POST /token", fromAnyPage(i.serveToken))
	mux.HandleFunc("OPTIONS /", fromAnyPage(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Access-Control-Allow-Headers", "Authorization, Content-Type, MCP-Protocol-Version")
		w.WriteHeader(http.StatusNoContent)
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		if r.Host != i.host {
			http.Error(w, "This authorization server is at "+i.url+".", http.StatusForbidden)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		mux.ServeHTTP(w, r)
	})
}

// fromAnyPage lets the pages of all origins read the responses of an endpoint that uses no cookies, as clients in a
// browser do.
func fromAnyPage(endpoint http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		endpoint(w, r)
	}
}

func (i *Issuer) serveMetadata(w http.ResponseWriter, _ *http.Request) {
	metadata := map[string]any{
		"issuer":                                         i.url,
		"authorization_endpoint":                         i.url + "/authorize",
		"token_endpoint":                                 i.url + "/token",
		"registration_endpoint":                          i.url + "/register",
		"jwks_uri":                                       i.url + "/jwks",
		"response_types_supported":                       []string{"code"},
		"grant_types_supported":                          []string{grantCode, grantRefresh, grantClient},
		"token_endpoint_auth_methods_supported":          []string{"none", "client_secret_basic", "client_secret_post"},
		"code_challenge_methods_supported":               []string{"S256"},
		"authorization_response_iss_parameter_supported": true,
	}
	if i.config.Scopes != nil {
		metadata["scopes_supported"] = i.config.Scopes
	}
	writeJSON(w, http.StatusOK, metadata)
}

// serveKeys serves the public key (RFC 7517).
func (i *Issuer) serveKeys(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{i.key}})
}

// writeJSON responds with a JSON document. It ignores write errors.
func writeJSON(w http.ResponseWriter, status int, document any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(document)
}

// makeKey makes the signing key.
func (i *Issuer) makeKey() error {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	key := jose.JSONWebKey{Key: private, KeyID: rand.Text(), Algorithm: string(jose.ES256), Use: "sig"}
	i.key = key.Public()
	i.signer, err = jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key},
		new(jose.SignerOptions).WithType("at+jwt")) // RFC 9068, section 2.1
	return err
}

// sign returns claims as a JWT.
func (i *Issuer) sign(claims any) (string, error) {
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	signed, err := i.signer.Sign(payload)
	if err != nil {
		return "", err
	}
	return signed.CompactSerialize()
}

// checkUser returns an error if no user can have a name.
func checkUser(name string) error {
	_, err := principal.New("devissuer", name, "")
	return err
}

// table keeps the newest entries and drops the oldest ones. The caller holds Issuer.mu.
type table[T any] struct {
	entries map[string]T
	keys    []string // oldest first; a removed key stays until it is the oldest
}

func (t *table[T]) put(key string, value T) {
	if t.entries == nil {
		t.entries = make(map[string]T)
	}
	if len(t.keys) >= maxEntries {
		delete(t.entries, t.keys[0])
		t.keys = t.keys[1:]
	}
	t.entries[key] = value
	t.keys = append(t.keys, key)
}
