package credstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/quoting"
	"github.com/parley-mcp/parley/schema"
)

// Open returns the store of the user's logins. Their tokens are refreshed when they are used, by one process at a time.
func Open() (*Store, error) {
	dir, err := Dir()
	if err != nil {
		return nil, err
	}
	return New(dir, System()), nil
}

// Client returns the client that gets and refreshes tokens. Without an Interaction it does not ask the user.
func (s *Store) Client(ctx context.Context, logger *slog.Logger) (*oauth.Client, error) {
	stored, err := s.registrations(ctx)
	if err != nil && !errors.Is(err, ErrUnavailable) {
		return nil, err
	}
	var registered []oauth.Registration
	for _, r := range stored {
		registered = append(registered, r.oauth())
	}
	return &oauth.Client{
		Name: "Parley", URI: "https://github.com/parley-mcp/parley",
		Store: s, Registrations: registered, Logger: logger, Proxy: http.ProxyFromEnvironment,
	}, nil
}

// registrationsKey is the key of the clients that the user has registered. Package oauth
// stores the clients that it registers.
const registrationsKey = "registrations"

// Registration is a client that the user has registered, as it is stored.
type Registration struct {
	Server string `json:"server"`
	ID     string `json:"client_id"`
	Secret string `json:"client_secret,omitempty"`
	// RedirectURI is the registered redirect URI, empty for any port of 127.0.0.1.
	RedirectURI string `json:"redirect_uri,omitempty"`
}

func (r *Registration) oauth() oauth.Registration {
	return oauth.Registration{Server: r.Server, ClientID: r.ID, ClientSecret: r.Secret}
}

// ClientFor is Client for a login to the server of a registration, whose ID can be empty. It returns the redirect URI,
// which is empty for any port.
func (s *Store) ClientFor(ctx context.Context, logger *slog.Logger, own Registration) (c *oauth.Client,
	redirectURI string, err error) {
	redirectURI = own.RedirectURI
	if c, err = s.Client(ctx, logger); err != nil {
		return nil, "", err
	}
	switch {
	case own.ID != "":
		c.Registrations = append([]oauth.Registration{own.oauth()}, c.Registrations...)
	case redirectURI == "":
		redirectURI, err = s.RedirectURI(ctx, own.Server)
	}
	return c, redirectURI, err
}

// LoopbackURI returns the redirect URI with a port of 127.0.0.1, or an empty string for any port.
func LoopbackURI(port int) string {
	if port == 0 {
		return ""
	}
	return fmt.Sprintf("http://127.0.0.1:%d/callback", port)
}

func (s *Store) registrations(ctx context.Context) (all []Registration, err error) {
	raw, err := s.Load(ctx, registrationsKey)
	if err != nil || raw == nil {
		return nil, err
	}
	if schema.Decode(raw, &all) != nil {
		return nil, errors.New("the stored client registrations are damaged; log in again with --client-id")
	}
	return all, nil
}

// RedirectURI returns the redirect URI with which the client for a server is registered; empty for any port.
func (s *Store) RedirectURI(ctx context.Context, server string) (string, error) {
	stored, err := s.registrations(ctx)
	for _, r := range stored {
		if r.Server == server {
			return r.RedirectURI, err
		}
	}
	return "", err
}

// SaveRegistration stores a registration, unless its ID is empty. It replaces one for the same server.
func (s *Store) SaveRegistration(ctx context.Context, r Registration) error {
	if r.ID == "" {
		return nil
	}
	unlock, err := s.Lock(ctx, registrationsKey)
	if err != nil {
		return err
	}
	defer unlock()
	all, err := s.registrations(ctx)
	if err != nil {
		all = nil
	}
	all = slices.DeleteFunc(all, func(old Registration) bool { return old.Server == r.Server })
	raw, err := json.Marshal(append(all, r))
	if err != nil {
		return err
	}
	return s.Save(ctx, registrationsKey, raw)
}

// Authorizer adds stored logins to requests. Its errors tell the user how to log in. Without SetTargets
// it does nothing.
type Authorizer struct {
	state atomic.Pointer[authorizerState]
}

type authorizerState struct {
	client  *oauth.Client            // nil if no target is a URL, or if there is no directory for logins
	headers map[string][]http.Header // of the requests to each URL, as the user sets them for each server
	flags   LoginFlags
}

// LoginFlags are the flags of parley login for the servers at some URLs, as the configuration has them.
type LoginFlags map[string][]string

// AuthorizerFor returns the authorizer of requests to a target, to which the user logs in with flags. It returns nil if
// it would do nothing.
func AuthorizerFor(ctx context.Context, target client.Target, flags []string) (client.Authorizer, error) {
	a, all := &Authorizer{}, LoginFlags(nil)
	if t, ok := target.(*client.HTTPTarget); ok {
		all = LoginFlags{t.URL: flags}
	}
	if err := a.SetTargets(ctx, all, target); err != nil || a.state.Load().client == nil {
		return nil, err
	}
	return a, nil
}

// SetTargets sets the targets of the requests. It does not open the stored logins unless a target is a URL.
func (a *Authorizer) SetTargets(ctx context.Context, flags LoginFlags, targets ...client.Target) error {
	set, err := a.Prepare(ctx, flags, targets...)
	if err == nil {
		set()
	}
	return err
}

// Prepare returns a function that sets the targets, as SetTargets does. It changes nothing.
func (a *Authorizer) Prepare(ctx context.Context, flags LoginFlags, targets ...client.Target) (set func(), err error) {
	now := &authorizerState{headers: make(map[string][]http.Header), flags: flags}
	hasURL := false
	for _, target := range targets {
		if t, ok := target.(*client.HTTPTarget); ok {
			hasURL = true
			now.headers[t.URL] = append(now.headers[t.URL], t.Header)
		}
	}
	if before := a.state.Load(); before != nil && before.client != nil {
		now.client = before.client
	} else if hasURL {
		// Without a home directory a server that requires a login rejects the request.
		if stored, err := Open(); err == nil {
			if now.client, err = stored.Client(ctx, slog.New(slog.DiscardHandler)); err != nil {
				return nil, err
			}
		}
	}
	return func() { a.state.Store(now) }, nil
}

// clientFor returns the client for the servers at a URL, or nil if their requests need no login.
func (a *Authorizer) clientFor(server string) *oauth.Client {
	state := a.state.Load()
	if state == nil {
		return nil
	}
	of := state.headers[server]
	if len(of) > 0 && !slices.ContainsFunc(of, func(h http.Header) bool { return h["Authorization"] == nil }) {
		return nil
	}
	return state.client
}

// clientOf returns the client for a request, or nil if the user sets its Authorization header. Given has the headers
// that the user sets.
func (a *Authorizer) clientOf(req *http.Request, server string) (c *oauth.Client, given http.Header) {
	if state := a.state.Load(); state != nil {
		for _, h := range state.headers[server] {
			if own := h["Authorization"]; own != nil && slices.Equal(own, req.Header["Authorization"]) {
				return nil, h
			}
			if len(h) > len(given) && has(req.Header, h) {
				given = h
			}
		}
	}
	return a.clientFor(server), given
}

// has reports whether a header has all fields of another.
func has(h, fields http.Header) bool {
	for name, values := range fields {
		if !slices.Equal(h[name], values) {
			return false
		}
	}
	return true
}

// Authorize implements client.Authorizer.
func (a *Authorizer) Authorize(req *http.Request, server string) error {
	c, _ := a.clientOf(req, server)
	if c == nil {
		return nil
	}
	err := c.Authorize(req, server)
	if errors.Is(err, ErrUnavailable) {
		return nil // a server that requires a login rejects the request
	}
	return a.withLoginAdvice(err, server)
}

// Reauthorize implements client.Authorizer.
func (a *Authorizer) Reauthorize(req *http.Request, server string, resp *http.Response) (again bool, err error) {
	c, given := a.clientOf(req, server)
	if c == nil {
		return false, nil
	}
	again, err = c.Reauthorize(req, server, resp)
	err = a.withLoginAdvice(err, server)
	if login := new(LoginError); errors.As(err, &login) {
		login.given = slices.Sorted(maps.Keys(given))
	}
	return again, err
}

// Identity identifies the credentials for a server; see client.Authorizer.
func (a *Authorizer) Identity(server string) string {
	if c := a.clientFor(server); c != nil {
		return c.Identity(server)
	}
	return ""
}

// Observe receives the header of each response; see oauth.Client.
func (a *Authorizer) Observe(server string, header http.Header) {
	if c := a.clientFor(server); c != nil {
		c.Observe(server, header)
	}
}

// LoginError is the error of a request that requires a login, or a login with more scopes.
type LoginError struct {
	Server  string
	Missing []string // scopes that the login does not grant
	expired bool     // there was a login
	flags   []string // of parley login, from the configuration
	given   []string // headers of the request that the user has set
	err     error
}

// TokenError is the error of a request that was not sent or not accepted because a token for the
// server could not be obtained or refreshed.
type TokenError struct {
	Server string
	Err    error // names the URL that could not be requested
}

// Error implements the error interface.
func (e *TokenError) Error() string {
	return fmt.Sprintf("cannot get an access token for %s: %v", e.Server, e.Err)
}

// Unwrap returns the error of package oauth.
func (e *TokenError) Unwrap() error { return e.Err }

// withLoginAdvice converts an error that requires interaction to a *LoginError, and other errors to a *TokenError. If
// the server does not name an authorization server, the status of its response says more than the error.
func (a *Authorizer) withLoginAdvice(err error, server string) error {
	var needed *oauth.InteractionError
	switch {
	case err == nil, errors.Is(err, oauth.ErrDiscovery):
		return err
	case !errors.As(err, &needed):
		if flag := NeededFlag(err); flag != "" {
			err = fmt.Errorf("%w; run: %s", err, quoting.OfUser().Command([]string{"login", flag}, server))
		}
		return &TokenError{server, err}
	}
	e := &LoginError{Server: needed.Request.Server, expired: needed.Request.Previous != nil, err: err}
	if state := a.state.Load(); state != nil {
		e.flags = state.flags[server]
	}
	for _, scope := range needed.Request.Scopes {
		if e.expired && !slices.Contains(needed.Request.Previous, scope) {
			e.Missing = append(e.Missing, scope)
		}
	}
	return e
}

// NeededFlag returns the flag of parley login without which a login or a refresh has failed, "" for other errors.
func NeededFlag(err error) string {
	switch {
	case errors.Is(err, oauth.ErrResource):
		return "--no-resource"
	case errors.Is(err, oauth.ErrNoPKCE):
		return "--assume-pkce"
	}
	return ""
}

// Error implements the error interface.
func (e *LoginError) Error() string {
	command := func(more ...string) string {
		return quoting.OfUser().Command(slices.Concat([]string{"login"}, e.flags, more), e.Server)
	}
	switch {
	case e.Missing != nil:
		scopes := strings.Join(e.Missing, " ")
		return fmt.Sprintf("%s requires a login with the scope %s; run: %s", e.Server, scopes,
			command("--scope", scopes))
	case e.expired:
		return fmt.Sprintf("the login to %s has expired; run: %s", e.Server, command())
	}
	if e.given != nil {
		return fmt.Sprintf("%s requires a login, although the request has the header %s; check its value, or run: %s",
			e.Server, strings.Join(e.given, ", "), command())
	}
	return fmt.Sprintf("%s requires a login; run: %s", e.Server, command())
}

// Unwrap returns the error of package oauth.
func (e *LoginError) Unwrap() error { return e.err }

// OpenClient returns a client for the stored logins that does not log.
func OpenClient(ctx context.Context) (*oauth.Client, error) {
	stored, err := Open()
	if err != nil {
		return nil, err
	}
	return stored.Client(ctx, slog.New(slog.DiscardHandler))
}

// taskKeys is the beginning of the keys of tasks in a credstore.Store.
const taskKeys = "task "

// maxTasks limits the tasks that parley remembers.
const maxTasks = 1000

// taskStore keeps the ids of tasks in an encrypted file, because an id can be all that protects a task. It is a
// client.TaskStore whose methods never fail: parley prints the id, so the user does not need the store.
type taskStore struct {
	*Store
	warn func(error)
}

// TaskStore returns the store of tasks. Warn receives its errors.
func (s *Store) TaskStore(warn func(error)) *taskStore { return &taskStore{s, warn} }

// SaveTask implements client.TaskStore.
func (s *taskStore) SaveTask(ctx context.Context, r client.TaskRecord) error {
	all, err := s.Tasks(ctx)
	if err == nil && len(all) >= maxTasks {
		err = fmt.Errorf("%d tasks are stored, which is the limit; run parley task ls, which removes expired ones",
			len(all))
	}
	if err == nil {
		var raw []byte
		if raw, err = json.Marshal(r); err == nil {
			err = s.Save(ctx, taskKey(r), raw)
		}
	}
	if err != nil {
		s.warn(err)
	}
	return nil
}

// DeleteTask implements client.TaskStore.
func (s *taskStore) DeleteTask(ctx context.Context, r client.TaskRecord) error {
	if err := s.Save(ctx, taskKey(r), nil); err != nil {
		s.warn(err)
	}
	return nil
}

// taskKey returns the key of a task. An id is unique on its server only.
func taskKey(r client.TaskRecord) string { return taskKeys + r.Server + " " + r.ID }

// Tasks returns the tasks in the order of their keys.
func (s *taskStore) Tasks(ctx context.Context) (all []client.TaskRecord, err error) {
	keys, err := s.Keys(ctx)
	if err != nil {
		return nil, err
	}
	slices.Sort(keys)
	for _, key := range keys {
		if !strings.HasPrefix(key, taskKeys) {
			continue
		}
		raw, err := s.Load(ctx, key)
		var r client.TaskRecord
		switch {
		case err != nil:
			return nil, err
		case raw != nil && schema.Decode(raw, &r) == nil: // raw is nil if it was deleted meanwhile
			all = append(all, r)
		}
	}
	return all, nil
}
