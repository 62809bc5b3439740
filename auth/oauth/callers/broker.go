package callers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/challenge"
	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/internal/httpurl"
	"github.com/parley-mcp/parley/internal/seal"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

// Broker logs the users of a program, such as a gateway, in to other servers. A login is used only for the requests of
// the user who made it. A request that needs a login fails with an error that wraps a *[call.URLRequiredError], so that
// the client of the call asks its user to open a page of the Broker (2025-11-25, client/elicitation, URL Mode
// Elicitation for OAuth Flows). A Broker is the http.Handler of its pages.
//
// The page first identifies the user of the browser: it sends the browser to an issuer of the callers' tokens, with an
// authorization request for the program itself, and verifies the token that results. It then shows the server and the
// user, and asks for consent before it sends the browser to the authorization server of the other server. The login
// belongs to the user of the browser, by issuer and subject, so opening a page that was meant for somebody else does
// not give them a login. The page at URL + "/" shows the user's logins, and ends them.
//
// Store keeps state and tokens, encrypted, so that any replica of the program can serve each page and use each login.
// Only one replica at a time refreshes a token. A login that nobody used for 90 days is deleted.
//
// A Broker is safe for concurrent use and must not be copied. Its fields must not be changed after the first use.
type Broker struct {
	// URL is the https URL of ServeHTTP without a slash at its end, such as "https://mcp.example.com/login": the
	// handler must be mounted at all paths below it. An http URL is allowed on the loopback interface. All replicas
	// must use the same URL. The redirect URI is URL + "/callback" for the issuers of Resource, and URL +
	// "/callback/" + name for a server. As each authorization server gets its own, none can make the Broker use the
	// authorization code of another one.
	URL string

	// Resource authorizes the callers of the program. Its Verifier also verifies the tokens for browsers.
	Resource *auth.ProtectedResource
	// Audience is the URI of Resource. It is required if Resource.URI is empty.
	Audience string

	// Server returns the URL of the server with a name, or "" if there is none. The name becomes part of URLs.
	Server func(name string) (url string)
	// New returns a new Client with settings, such as registrations, for the authorization servers of the servers and
	// of Resource. The Broker sets its Store, and ignores its Interaction and Grant.
	New func() *oauth.Client
	// SignIn, if set, returns a new Client for the issuers of Resource, which identify the user of a browser. Set it if
	// these need settings other than the ones of New. With Client.NoResource, the scopes of Resource name the program.
	SignIn func() *oauth.Client

	// Store stores logins. All replicas must share it. Nil means the memory of this process.
	Store store.Store
	// Keys encrypt the logins, like the Keys of server.Server. Store requires at least one.
	Keys [][]byte

	// Report, if set, is called when a user has logged in to a server, with a nil error; when a request needs a login,
	// with an error that wraps oauth.ErrInteraction; and when a login failed. It must return soon.
	Report func(user principal.Principal, server string, err error)
	// Logger receives the reasons why logins fail; nil: slog.Default(). Logs contain no secrets.
	Logger *slog.Logger

	once     sync.Once
	err      error
	base     *url.URL
	audience string
	seals    *seal.Keys
	values   values
	clients  clientSet
	forms    *http.CrossOriginProtection // rejects forms that pages of other origins submit
}

const (
	maxNeed          = 15 * time.Minute // how long a need for a login is remembered
	maxPendingLogin  = 10 * time.Minute // between the consent and the redirect
	maxPendingLogins = 16               // per user
	maxLoginWait     = 10 * time.Minute // how long clients are notified of a login
	maxLogins        = 1000             // per user, shown on the page of logins
)

// Check returns an error if a field is invalid; the error names the field and says what it must be. ServeHTTP then
// answers with status 500, and requests fail.
func (b *Broker) Check() error {
	b.once.Do(func() { b.err = b.build() })
	return b.err
}

func (b *Broker) build() (err error) {
	if b.base, err = httpurl.ParseSecure(b.URL); err != nil {
		return fmt.Errorf("callers: Broker.URL: %w", err)
	}
	switch {
	case b.base.RawQuery != "" || b.base.Path == "" || strings.HasSuffix(b.base.Path, "/"):
		return errors.New("callers: Broker.URL must have a path, no slash at its end, and no query")
	case b.Resource == nil || b.Server == nil || b.New == nil:
		return errors.New("callers: Broker.Resource, Broker.Server and Broker.New must be set")
	case b.Store != nil && len(b.Keys) == 0:
		return errors.New("callers: Broker.Keys must have a key if Broker.Store is set")
	}
	if err := b.Resource.Check(); err != nil {
		return fmt.Errorf("callers: Broker.Resource: %w", err)
	}
	if len(b.Resource.Issuers) == 0 {
		return errors.New("callers: Broker.Resource: field Issuers is empty: name the authorization server that logs " +
			"users in")
	}
	if b.audience = b.Resource.URI; b.audience == "" {
		b.audience = b.Audience
	}
	if _, err := httpurl.ParseSecure(b.audience); err != nil {
		return fmt.Errorf("callers: Broker.Audience or the URI of Broker.Resource: %w", err)
	}
	if b.seals, err = seal.New(b.Keys...); err != nil {
		return fmt.Errorf("callers: Broker.Keys: %w", err)
	}
	b.forms = http.NewCrossOriginProtection()
	b.values.kv = b.seals.Store(guarded(b.Store, b.logger()), b.logger())
	return nil
}

// Authorizer returns a function for host.NewCallerAuth: it returns the client.Authorizer for a caller's requests to the
// server called name. Its error is ErrNoCaller for principals that no token identifies.
func (b *Broker) Authorizer(server string) func(caller principal.Principal) (*Authorizer, error) {
	return func(caller principal.Principal) (*Authorizer, error) {
		if err := b.Check(); err != nil {
			return nil, err
		}
		user, err := userOf(caller)
		if err != nil {
			return nil, ErrNoCaller
		}
		return &Authorizer{caller: caller, clientOf: func(string) *oauth.Client { return b.client(user, server) }}, nil
	}
}

// userOf returns a principal without its client, because a user keeps the same logins with all clients.
func userOf(p principal.Principal) (principal.Principal, error) {
	return principal.New(p.Issuer(), p.Subject(), "")
}

// client returns the Client of a user for the server with a name.
func (b *Broker) client(user principal.Principal, server string) *oauth.Client {
	return b.clients.get(user.Key()+server, func() *oauth.Client {
		c := b.New()
		c.Store, c.Interaction, c.Grant = &loginStore{b.values, user, server}, nil, nil
		c.NeedsLogin = func(ctx context.Context, request oauth.AuthorizationRequest) error {
			return b.require(ctx, user, server, request.Scopes)
		}
		return c
	})
}

// loginNeed is a login that a user needs. It exists until the user has logged in.
type loginNeed struct {
	Scopes []string `json:"scopes,omitzero"` // scopes that the login must have
}

func needKey(user principal.Principal, server string) string {
	return user.Key() + "oauth/need/" + server
}

// require records that a user needs a login, and returns the error for the client of the call. The caller must then
// check whether the user has logged in at the same time, or must hold the store's lock of the token, so that no token
// can be stored.
func (b *Broker) require(ctx context.Context, user principal.Principal, server string, scopes []string) error {
	key := needKey(user, server)
	var known loginNeed
	_, err := b.values.get(ctx, key, &known)
	switch {
	case err != nil && !errors.Is(err, store.ErrNotFound):
	case err == nil && len(challenge.Union(known.Scopes, scopes)) == len(known.Scopes):
	default:
		known.Scopes = challenge.Union(known.Scopes, scopes)
		err = b.values.put(ctx, key, &known, store.PutOptions{TTL: maxNeed})
	}
	if err != nil {
		return fmt.Errorf("%w: cannot store that a login is needed: %w", oauth.ErrInteraction, err)
	}
	required := call.RequiredURL{
		URL: b.startURL(server), Message: "Log in to " + server + ", to call it with your own account",
		Within: maxLoginWait, Done: func(ctx context.Context) (bool, error) {
			_, err := b.values.kv.Get(ctx, key)
			return errors.Is(err, store.ErrNotFound), withoutNotFound(err)
		},
	}
	err = fmt.Errorf("%w: %w", oauth.ErrInteraction, &call.URLRequiredError{URLs: []call.RequiredURL{required}})
	b.report(user, server, err)
	return err
}

func (b *Broker) report(user principal.Principal, server string, err error) {
	if b.Report != nil {
		b.Report(user, server, err)
	}
}

func (b *Broker) logger() *slog.Logger {
	if b.Logger != nil {
		return b.Logger
	}
	return slog.Default()
}

// pendingLogin is a login of a user that waits for the redirect. It is stored under the user and a digest of the
// state.
type pendingLogin struct {
	Server  string              `json:"server"`
	Browser string              `json:"browser"` // digest of the browser's cookie
	Pending *oauth.PendingLogin `json:"pending"`
}

func pendingSet(user principal.Principal) string { return user.Key() + "oauth/login" }

func pendingKey(user principal.Principal, id string) string { return pendingSet(user) + "/" + id }

// begin begins a login of a user, and returns the URL of the authorization page and the ID of the login; the
// browser must have the cookie of the login.
func (b *Broker) begin(ctx context.Context, user principal.Principal,
	server, cookie string) (page, id string, err error) {
	var known loginNeed
	if _, err := b.values.get(ctx, needKey(user, server), &known); withoutNotFound(err) != nil {
		return "", "", err
	}
	p, err := b.client(user, server).BeginLogin(ctx, b.Server(server),
		b.URL+redirectPath+"/"+url.PathEscape(server), known.Scopes...)
	if err != nil {
		b.report(user, server, err)
		return "", "", err
	}
	id, page = digest.Of(p.State), p.URL
	p.URL = ""
	err = b.values.kv.Add(ctx, pendingSet(user), id, maxPendingLogin, maxPendingLogins)
	if errors.Is(err, store.ErrFull) {
		return "", "", fmt.Errorf("the user has %d logins already: complete one, or wait until one expires",
			maxPendingLogins)
	}
	if err == nil {
		login := &pendingLogin{Server: server, Browser: digest.Of(cookie), Pending: p}
		err = b.values.put(ctx, pendingKey(user, id), login, store.PutOptions{TTL: maxPendingLogin, IfAbsent: true})
	}
	return page, id, err
}

// take returns the pending login of a user for a server, once. The error is store.ErrNotFound if there is none for the
// browser.
func (b *Broker) take(ctx context.Context, user principal.Principal, server, id string,
	isBrowser func(digest string) bool) (*pendingLogin, error) {
	key := pendingKey(user, id)
	login := new(pendingLogin)
	version, err := b.values.get(ctx, key, login)
	if err != nil {
		return nil, err
	}
	if login.Server != server || !isBrowser(login.Browser) {
		return nil, store.ErrNotFound
	}
	// Only one of several requests with the same redirect succeeds.
	if err := b.values.put(ctx, key, &pendingLogin{}, store.PutOptions{TTL: time.Millisecond,
		IfVersion: version}); err != nil {
		return nil, err
	}
	_ = b.values.kv.Remove(ctx, pendingSet(user), id) // if this fails, it expires
	return login, nil
}

// complete exchanges the authorization code in a redirect for tokens, and stores them.
func (b *Broker) complete(ctx context.Context, user principal.Principal, login *pendingLogin, redirect string) error {
	address := b.Server(login.Server)
	if address == "" {
		return store.ErrNotFound
	}
	_, err := b.client(user, login.Server).FinishLogin(context.WithValue(ctx, finishing{}, true), address,
		login.Pending, redirect)
	b.report(user, login.Server, err)
	return err
}
