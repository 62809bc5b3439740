package serving

import (
	"cmp"
	"crypto/rand"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/cmd/parley/internal/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/endpoint"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// callerAuths are the ways in which the servers of parley up receive credentials of each caller.
type callerAuths struct {
	stdio    bool                    // there is no endpoint
	resource *auth.ProtectedResource // nil without --auth
	audience string                  // the URI of resource
	url      string                  // of the pages of logins
	client   oauth.Registration      // for the issuers of resource; without ClientID if there is none
	kv       store.KV
	keys     [][]byte
	logger   *slog.Logger
	status   *endpoint.Status
	audit    *auditLog // may be nil

	mu       sync.Mutex
	byServer map[string]*callerAuth
	reported map[string]bool // the logins that were reported as needed, by server and user
}

// callerAuth is the way of one server.
type callerAuth struct {
	url    string
	config config.Credentials
	auth   *host.CallerAuth
	broker *oauth.Broker // for config.CallerLogin
}

// newCallerAuths returns the ways for the endpoint at a URL, which s serves; the URL is empty with --stdio. Logins are
// in the memory of this process if s has no store.
func newCallerAuths(s *server.Server, endpointURL string, flags *endpoint.AuthFlag, logger *slog.Logger,
	status *endpoint.Status, audit *auditLog) *callerAuths {
	a := &callerAuths{
		stdio: endpointURL == "", resource: s.Auth, kv: s.Store, keys: s.Keys, logger: logger, status: status,
		audit:    audit,
		client:   oauth.Registration{ClientID: flags.ClientID, ClientSecret: flags.ClientSecret},
		byServer: make(map[string]*callerAuth), reported: make(map[string]bool),
	}
	if a.resource != nil {
		a.audience = cmp.Or(a.resource.URI, endpointURL)
		if u, err := url.Parse(a.audience); err == nil {
			a.url = u.Scheme + "://" + u.Host + endpoint.LoginPath
		}
	}
	if a.kv == nil {
		a.kv = store.NewMemory()
	}
	if len(a.keys) == 0 {
		key := make([]byte, endpoint.MinKey)
		rand.Read(key)
		a.keys = [][]byte{key}
	}
	return a
}

// of returns how a server receives credentials of each caller; nil without credentials. It returns the same value for
// the same configuration, so that the server continues when the files are read again.
func (a *callerAuths) of(name, address string, c *config.Credentials) (*host.CallerAuth, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c == nil {
		delete(a.byServer, name)
		return nil, nil
	}
	switch {
	case a.stdio:
		return nil,
			errors.New("credentials of callers require that callers are authenticated, over HTTP; remove --stdio, " +
				"or the credentials to use those of the operator")
	case a.resource == nil:
		return nil, errors.New("credentials of callers require that callers are authenticated; add --auth issuer=URL")
	}
	if old := a.byServer[name]; old != nil && old.url == address && reflect.DeepEqual(old.config, *c) {
		return old.auth, nil
	}
	now := &callerAuth{url: address, config: *c}
	if c.Type == config.CallerLogin {
		now.broker = a.newBroker(name, now)
		if err := now.broker.Check(); err != nil {
			return nil, err
		}
		now.auth = host.NewCallerAuth(now.broker.Authorizer(name))
	} else {
		callers := &oauth.Callers{New: func(principal.Principal) *oauth.Client { return a.newExchanging(address, c) }}
		now.auth = host.NewCallerAuth(callers.Authorizer)
	}
	a.byServer[name] = now
	return now.auth, nil
}

// newClient returns a client without a store.
func (a *callerAuths) newClient(c *config.Credentials, registrations ...oauth.Registration) *oauth.Client {
	return &oauth.Client{
		Name: "Parley", URI: "https://github.com/parley-mcp/parley", Logger: a.logger, Registrations: registrations,
		Networks: c.Networks,
		Proxy:    http.ProxyFromEnvironment,
	}
}

// newExchanging returns a client whose tokens for a server are exchanged for the token of a caller.
func (a *callerAuths) newExchanging(address string, c *config.Credentials) *oauth.Client {
	if c.Type == config.TokenExchange {
		exchanging := a.newClient(c)
		exchanging.Grant = &oauth.TokenExchange{
			Issuer: c.Issuer, TokenEndpoint: c.TokenEndpoint, ClientID: c.ClientID, ClientSecret: c.ClientSecret,
			Audience: c.Audience, Scopes: c.Scopes, SubjectType: c.SubjectTokenType,
		}
		return exchanging
	}
	registered := oauth.Registration{Issuer: c.ServerIssuer, ClientID: c.ServerClientID,
		ClientSecret: c.ServerClientSecret}
	if registered.Issuer == "" {
		registered.Server = address
	}
	enterprise := a.newClient(c, registered)
	enterprise.Grant = &oauth.Enterprise{
		Issuer: c.Issuer, TokenEndpoint: c.TokenEndpoint, ClientID: c.ClientID, ClientSecret: c.ClientSecret,
		SubjectType: c.SubjectTokenType,
	}
	return enterprise
}

func (a *callerAuths) newBroker(name string, of *callerAuth) *oauth.Broker {
	return &oauth.Broker{
		URL: a.url, Resource: a.resource, Audience: a.audience, KV: a.kv, Keys: a.keys, Logger: a.logger,
		Server: func(asked string) string {
			if asked == name {
				return of.url
			}
			return ""
		},
		New: func() *oauth.Client {
			var registrations []oauth.Registration
			if a.client.ClientID != "" {
				for _, issuer := range a.resource.Issuers {
					registered := a.client
					registered.Issuer = issuer
					registrations = append(registrations, registered)
				}
			}
			if of.config.ClientID != "" {
				registrations = append(registrations,
					oauth.Registration{Server: of.url, ClientID: of.config.ClientID,
						ClientSecret: of.config.ClientSecret})
			}
			return a.newClient(&of.config, registrations...)
		},
		Report: a.reportLogin,
	}
}

// keep forgets all servers but those that are configured now.
func (a *callerAuths) keep(servers []host.ServerConfig) {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.byServer, func(name string, _ *callerAuth) bool {
		return !slices.ContainsFunc(servers, func(s host.ServerConfig) bool { return s.Name == name })
	})
}

// maxReported is the maximum number of logins that are remembered as reported.
const maxReported = 10_000

// reportLogin reports who needs a login, once, and who has logged in or failed to do so.
func (a *callerAuths) reportLogin(user principal.Principal, server string, err error) {
	name, needed := terminal.Line(user.String()), errors.Is(err, oauth.ErrInteraction)
	key := server + " " + user.Key()
	a.mu.Lock()
	known := a.reported[key] || len(a.reported) >= maxReported
	switch {
	case !needed:
		delete(a.reported, key)
	case !known:
		a.reported[key] = true
	}
	a.mu.Unlock()
	switch {
	case err == nil:
		a.status.Note(server, name+" has logged in")
	case !needed:
		a.status.Failed(server, "the login of "+name+" has failed: "+err.Error())
		a.audit.recordLogin(user, server, err)
	case !known:
		a.status.Failed(server, name+" needs a login; open "+a.startURL(server))
	}
}

func (a *callerAuths) startURL(server string) string {
	return a.url + "/start/" + url.PathEscape(server)
}

// print tells the user how the callers of each server log in.
func (a *callerAuths) print() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(a.byServer)) {
		if a.byServer[name].broker != nil {
			a.status.Note(name, "each caller logs in at "+a.startURL(name))
		}
	}
}

// ServeHTTP serves the pages with which callers log in to servers.
func (a *callerAuths) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	a.mu.Lock()
	of := a.byServer[name]
	if r.URL.Path == endpoint.LoginPath+"/callback" { // of an issuer: the state says which server's page is next
		for _, one := range a.byServer {
			if one.broker != nil {
				of = one
			}
		}
	}
	a.mu.Unlock()
	if of == nil || of.broker == nil {
		http.NotFound(w, r)
		return
	}
	of.broker.ServeHTTP(w, r)
}
