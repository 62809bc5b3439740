package serve

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
	"github.com/parley-mcp/parley/auth/oauth/callers"
	"github.com/parley-mcp/parley/cmd/parley/internal/login/credstore"
	"github.com/parley-mcp/parley/cmd/parley/internal/serve/endpoint"
	"github.com/parley-mcp/parley/cmd/parley/internal/servers/config"
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
	signIn   config.Credentials      // the settings of logins at the issuers of resource
	kv       store.Store
	keys     [][]byte
	logger   *slog.Logger
	status   *endpoint.Status
	audit    *auditLog // may be nil

	pages *callers.Broker // of all servers; nil without --auth

	mu       sync.Mutex
	byServer map[string]*callerAuth
	reported map[string]bool // the logins that were reported as needed, by server and user
}

// callerAuth is the way of one server.
type callerAuth struct {
	url    string
	config config.Credentials
	auth   *host.CallerAuth
	broker *callers.Broker // for config.CallerLogin
}

// newCallerAuths returns the ways for the endpoint at a URL, which s serves; the URL is empty with --stdio. Logins are
// in the memory of this process if s has no store.
func newCallerAuths(s *server.Server, endpointURL string, flags *endpoint.AuthFlag, logger *slog.Logger,
	status *endpoint.Status, audit *auditLog) *callerAuths {
	a := &callerAuths{
		stdio: endpointURL == "", resource: s.Auth, kv: s.Store, keys: s.Keys, logger: logger, status: status,
		audit:    audit,
		client:   oauth.Registration{ClientID: flags.ClientID, ClientSecret: flags.ClientSecret},
		signIn:   config.Credentials{LoginSettings: flags.LoginSettings},
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
	if a.resource != nil {
		a.pages = a.newBroker(a.loginURL, new(config.Credentials))
	}
	return a
}

// of returns how a server receives credentials of each caller. It returns the same value for the same configuration, so
// that the server continues when the files are read again. It changes nothing; see set.
func (a *callerAuths) of(name, address string, c *config.Credentials) (*callerAuth, error) {
	switch {
	case a.stdio:
		return nil,
			errors.New("credentials of callers require authenticated callers over HTTP; remove --stdio, " +
				"or the credentials to use those of the operator")
	case a.resource == nil:
		return nil, errors.New("credentials of callers require authenticated callers; add --auth issuer=URL")
	case len(a.resource.Issuers) == 0:
		return nil, errors.New("credentials of callers require callers who log in: an API key or the header of a " +
			"proxy cannot be exchanged; add --auth issuer=URL")
	}
	a.mu.Lock()
	old := a.byServer[name]
	a.mu.Unlock()
	if old != nil && old.url == address && reflect.DeepEqual(old.config, *c) {
		return old, nil
	}
	now := &callerAuth{url: address, config: *c}
	if c.Type == config.CallerLogin {
		now.broker = a.newBroker(func(asked string) string {
			if asked == name {
				return address
			}
			return ""
		}, &now.config, now.registrations()...)
		if err := now.broker.Check(); err != nil {
			return nil, err
		}
		now.auth = host.NewCallerAuth(now.broker.Authorizer(name))
	} else {
		callers := &callers.Clients{New: func(principal.Principal) *oauth.Client { return a.newExchanging(address, c) }}
		now.auth = host.NewCallerAuth(callers.Authorizer)
	}
	return now, nil
}

// set replaces the ways of the servers, by their names.
func (a *callerAuths) set(byServer map[string]*callerAuth) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.byServer = byServer
}

// newClient returns a client without a store.
func (a *callerAuths) newClient(c *config.Credentials, registrations ...oauth.Registration) *oauth.Client {
	return &oauth.Client{
		Name: "Parley", URI: "https://github.com/parley-mcp/parley", Logger: a.logger, Registrations: registrations,
		Networks: c.Networks, NoResource: c.NoResource, AssumePKCE: c.AssumePKCE,
		Proxy: http.ProxyFromEnvironment,
	}
}

// newExchanging returns a client whose tokens for a server are exchanged for the token of a caller.
func (a *callerAuths) newExchanging(address string, c *config.Credentials) *oauth.Client {
	registered := oauth.Registration{Issuer: c.Issuer, ClientID: c.ClientID, ClientSecret: c.ClientSecret}
	if c.Type == config.TokenExchange {
		exchanging := a.newClient(c)
		exchanging.Grant = &oauth.TokenExchange{
			Registration: registered, TokenEndpoint: c.TokenEndpoint, Audience: c.Audience, Scopes: c.Scopes,
			SubjectType: c.SubjectTokenType,
		}
		return exchanging
	}
	atServer := oauth.Registration{Issuer: c.ServerIssuer, ClientID: c.ServerClientID,
		ClientSecret: c.ServerClientSecret}
	if atServer.Issuer == "" {
		atServer.Server = address
	}
	enterprise := a.newClient(c, atServer)
	enterprise.Grant = &oauth.Enterprise{Registration: registered, TokenEndpoint: c.TokenEndpoint,
		SubjectType: c.SubjectTokenType}
	return enterprise
}

// newBroker returns the broker of the servers whose URLs are known to server.
func (a *callerAuths) newBroker(server func(name string) (url string), c *config.Credentials,
	registrations ...oauth.Registration) *callers.Broker {
	var all []oauth.Registration
	if a.client.ClientID != "" {
		for _, issuer := range a.resource.Issuers {
			registered := a.client
			registered.Issuer = issuer
			all = append(all, registered)
		}
	}
	all = append(all, registrations...)
	return &callers.Broker{
		URL: a.url, Resource: a.resource, Audience: a.audience, Store: a.kv, Keys: a.keys, Logger: a.logger,
		Server: server, New: func() *oauth.Client { return a.newClient(c, all...) },
		SignIn: func() *oauth.Client { return a.newClient(&a.signIn, all...) },
		Report: a.reportLogin,
	}
}

// registrations returns the client of the program at the authorization server of a server, if the operator has one.
func (of *callerAuth) registrations() []oauth.Registration {
	if of.config.ClientID == "" {
		return nil
	}
	return []oauth.Registration{{Server: of.url, ClientID: of.config.ClientID, ClientSecret: of.config.ClientSecret}}
}

// loginURL returns the URL of a server to which callers log in; empty if there is none with the name.
func (a *callerAuths) loginURL(name string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if of := a.byServer[name]; of != nil && of.broker != nil {
		return of.url
	}
	return ""
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
		a.status.Failed(server, "the login of "+name+" has failed: "+err.Error()+memberAdvice(err))
		a.audit.recordLogin(user, server, err)
	case !known:
		a.status.Failed(server, name+" needs a login; open "+a.startURL(server))
	}
}

// memberAdvice names the member of the entry of a server that helps against an error of a login.
func memberAdvice(err error) string {
	switch credstore.NeededFlag(err) {
	case "--no-resource":
		return `; add "noResource": true to the entry of the server`
	case "--assume-pkce":
		return `; add "assumePkce": true to the entry of the server`
	}
	return ""
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

// ServeHTTP serves the pages on which callers log in to servers, and see and end their logins.
func (a *callerAuths) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if b := a.brokerOf(r.URL.Path); b != nil {
		b.ServeHTTP(w, r)
		return
	}
	http.NotFound(w, r)
}

// brokerOf returns the broker that serves a page; nil if there is none. The page of all logins, and the one to which an
// issuer redirects a user whom it has identified, are those of no server: they exist if callers log in to any.
func (a *callerAuths) brokerOf(path string) *callers.Broker {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch path {
	case endpoint.LoginPath + "/", endpoint.LoginPath + "/callback":
		for _, of := range a.byServer {
			if of.broker != nil {
				return a.pages
			}
		}
		return nil
	}
	if of := a.byServer[path[strings.LastIndexByte(path, '/')+1:]]; of != nil {
		return of.broker
	}
	return nil
}
