package devissuer

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/parley-mcp/parley/auth/jwt"
)

// Defaults of [Config], and limits.
const (
	defaultUser                = "developer"
	defaultAccessTokenLifetime = 5 * time.Minute
	refreshTokenLifetime       = 24 * time.Hour

	consentLifetime = 10 * time.Minute
	codeLifetime    = time.Minute

	maxClients   = 1000  // registered
	maxConsents  = 1000  // open consent pages
	maxCodes     = 1000  // authorization codes
	maxRefreshes = 10000 // refresh tokens, including used ones
	maxBody      = 64 << 10
)

// Config configures an [Issuer]. With the zero value, the issuer grants any scope for any
// resource to any user.
type Config struct {
	// Users are the users on the consent page; nil means that the page asks for a name, such as
	// "developer".
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
	url    string // the issuer identifier, an origin
	host   string // required Host header
	logger *slog.Logger
	server *http.Server
	served chan struct{} // closed when Serve has returned
	conns  sync.WaitGroup
	mux    *http.ServeMux
	proofs jwt.ProofVerifier
	key    jose.JSONWebKey // published
	signer jose.Signer
	static map[string]*Client // of Config

	mu        sync.Mutex
	clients   *expiring[*Client]  // registered, by ID
	consents  *expiring[*consent] // by ID
	codes     *expiring[*code]    // by digest
	refreshes *expiring[*refresh] // by digest
}

// Start returns an issuer that serves on a free port of 127.0.0.1 until [Issuer.Close]. It fails if the configuration
// is invalid.
func Start(config Config) (*Issuer, error) {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0") // it has no passwords
	if err != nil {
		return nil, fmt.Errorf("devissuer: %w", err)
	}
	i, err := newIssuer(config, listener.Addr().String())
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	i.server = &http.Server{
		Handler:           http.HandlerFunc(i.serve),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    64 << 10,
		ConnState:         i.countConns,
		ErrorLog:          slog.NewLogLogger(i.logger.Handler(), slog.LevelDebug),
	}
	go func() {
		defer close(i.served)
		_ = i.server.Serve(listener) // ErrServerClosed, or the error of the closed listener
	}()
	return i, nil
}

// newIssuer returns an issuer with the given host, which does not listen.
func newIssuer(config Config, host string) (*Issuer, error) {
	for _, user := range config.Users {
		if err := checkUser(user); err != nil {
			return nil, fmt.Errorf("devissuer: Config.Users: %w", err)
		}
	}
	if config.AccessTokenLifetime <= 0 {
		config.AccessTokenLifetime = defaultAccessTokenLifetime
	}
	for _, scope := range config.Scopes {
		if !isScope(scope) {
			return nil,
				fmt.Errorf("devissuer: Config.Scopes: scope %q must be printable ASCII without spaces, quotes and "+
					"backslashes", scope)
		}
	}
	i := &Issuer{
		config:    config,
		url:       "http://" + host,
		host:      host,
		logger:    config.Logger,
		served:    make(chan struct{}),
		static:    make(map[string]*Client, len(config.Clients)),
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
		i.static[c.ID] = &c
	}
	i.mux = i.routes()
	return i, i.makeKey()
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

// serve rejects requests whose Host header is not the issuer's address: a web page could send them through a name that
// resolves to it.
func (i *Issuer) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	if r.Host != i.host {
		i.showMessage(w, http.StatusForbidden, "Unknown host", "This authorization server is at http://"+i.host+".")
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
	// Pages of other sites must not submit the consent form.
	mux.Handle("POST /authorize", http.NewCrossOriginProtection().Handler(http.HandlerFunc(i.serveConsent)))

	// These endpoints use no cookies, so pages of all origins may call them.
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

const metadataPath = "/.well-known/oauth-authorization-server"

// metadata is the metadata document of RFC 8414, with the members of RFC 9207 and RFC 9449.
type metadata struct {
	Issuer                string   `json:"issuer"`
	AuthorizationEndpoint string   `json:"authorization_endpoint"`
	TokenEndpoint         string   `json:"token_endpoint"`
	RegistrationEndpoint  string   `json:"registration_endpoint"`
	RevocationEndpoint    string   `json:"revocation_endpoint"`
	KeysURI               string   `json:"jwks_uri"`
	Scopes                []string `json:"scopes_supported,omitempty"`
	ResponseTypes         []string `json:"response_types_supported"`
	ResponseModes         []string `json:"response_modes_supported"`
	GrantTypes            []string `json:"grant_types_supported"`
	AuthMethods           []string `json:"token_endpoint_auth_methods_supported"`
	ChallengeMethods      []string `json:"code_challenge_methods_supported"`
	IssParameter          bool     `json:"authorization_response_iss_parameter_supported"`
	ProofAlgorithms       []string `json:"dpop_signing_alg_values_supported"`
}

func (i *Issuer) serveMetadata(w http.ResponseWriter, r *http.Request) {
	writeJSON(w, http.StatusOK, metadata{
		Issuer:                i.url,
		AuthorizationEndpoint: i.url + "/authorize",
		TokenEndpoint:         i.url + "/token",
		RegistrationEndpoint:  i.url + "/register",
		RevocationEndpoint:    i.url + "/revoke",
		KeysURI:               i.url + "/jwks",
		Scopes:                i.config.Scopes,
		ResponseTypes:         []string{"code"},
		ResponseModes:         []string{"query"},
		GrantTypes:            []string{grantCode, grantRefresh, grantClient},
		AuthMethods:           []string{authNone, authBasic, authPost},
		ChallengeMethods:      []string{"S256"},
		IssParameter:          true,
		ProofAlgorithms:       i.proofs.Algorithms(),
	})
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
		return fmt.Errorf("devissuer: %w", err)
	}
	key := jose.JSONWebKey{Key: private, KeyID: secret(), Algorithm: string(jose.ES256), Use: "sig"}
	i.key = key.Public()
	i.signer, err = jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key},
		new(jose.SignerOptions).WithType("at+jwt")) // RFC 9068, section 2.1
	if err != nil {
		return fmt.Errorf("devissuer: %w", err)
	}
	return nil
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

// serveKeys serves the public key (RFC 7517).
func (i *Issuer) serveKeys(w http.ResponseWriter, r *http.Request) {
	writeJSON(w, http.StatusOK, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{i.key}})
}

// crossOrigin allows pages of all origins to read the response. It is for endpoints that use
// no cookies, which a page could also call without the browser.
func crossOrigin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		next.ServeHTTP(w, r)
	})
}

func preflight(method string) http.Handler {
	return crossOrigin(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Access-Control-Allow-Methods", method)
		h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, DPoP, MCP-Protocol-Version")
		h.Set("Access-Control-Max-Age", "600")
		w.WriteHeader(http.StatusNoContent)
	}))
}

// failure is an error response (RFC 6749, sections 4.1.2.1 and 5.2; RFC 7591, section 3.2.2;
// RFC 8707, section 2).
type failure struct {
	Code        string `json:"error"`
	Description string `json:"error_description,omitempty"`
}

func (f *failure) Error() string { return f.Code + ": " + f.Description }

func fail(code, description string) *failure { return &failure{code, description} }

// write responds to a request of a client.
func (f *failure) write(w http.ResponseWriter) {
	status := http.StatusBadRequest
	if f.Code == "invalid_client" {
		status = http.StatusUnauthorized
		w.Header().Set("WWW-Authenticate", `Basic realm="devissuer"`)
	}
	writeJSON(w, status, f)
}

// parameters returns the query parameters of a redirect to the client.
func (f *failure) parameters() url.Values {
	return url.Values{"error": {f.Code}, "error_description": {f.Description}}
}
