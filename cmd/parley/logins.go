package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/credstore"
)

// logins are what the user of this machine has logged in with. They are renewed as they
// are used; of several processes one does it for all.
type logins struct{ store *credstore.Store }

func openLogins() (*logins, error) {
	dir, err := credstore.Dir()
	if err != nil {
		return nil, err
	}
	return &logins{credstore.New(dir, credstore.System())}, nil
}

// client returns what gets and renews tokens. It asks nobody unless it is given an
// Interaction.
func (l *logins) client(ctx context.Context, logger *slog.Logger) (*oauth.Client, error) {
	known, err := l.registrations(ctx)
	if err != nil && !errors.Is(err, credstore.ErrUnavailable) {
		return nil, err
	}
	return &oauth.Client{
		Name: "Parley", URI: "https://github.com/parley-mcp/parley",
		Store: l.store, Registrations: known, Logger: logger,
	}, nil
}

// registrationsKey is where the store has the clients that the user has registered by
// hand. What is registered by itself is kept by package oauth.
const registrationsKey = "registrations"

// registration is one of them, as it is stored.
type registration struct {
	Server string `json:"server"`
	ID     string `json:"client_id"`
	Secret string `json:"client_secret,omitempty"`
	Port   int    `json:"port,omitempty"` // that it is registered with; 0: any
}

func (l *logins) registrations(ctx context.Context) ([]oauth.Registration, error) {
	stored, err := l.storedRegistrations(ctx)
	if err != nil {
		return nil, err
	}
	var all []oauth.Registration
	for _, r := range stored {
		all = append(all, oauth.Registration{Server: r.Server, ClientID: r.ID, ClientSecret: r.Secret})
	}
	return all, nil
}

func (l *logins) storedRegistrations(ctx context.Context) (all []registration, err error) {
	raw, err := l.store.Load(ctx, registrationsKey)
	if err != nil || raw == nil {
		return nil, err
	}
	if json.Unmarshal(raw, &all) != nil {
		return nil, errors.New("what is stored of registered clients is damaged: log in again with --client-id")
	}
	return all, nil
}

// port is the one with which the client for a server is registered; 0 if any will do.
func (l *logins) port(ctx context.Context, server string) (int, error) {
	stored, err := l.storedRegistrations(ctx)
	for _, r := range stored {
		if r.Server == server {
			return r.Port, err
		}
	}
	return 0, err
}

// remember keeps a registration, in the place of another for the same server.
func (l *logins) remember(ctx context.Context, r registration) error {
	unlock, err := l.store.Lock(ctx, registrationsKey)
	if err != nil {
		return err
	}
	defer unlock()
	all, err := l.storedRegistrations(ctx)
	if err != nil {
		all = nil
	}
	all = slices.DeleteFunc(all, func(old registration) bool { return old.Server == r.Server })
	raw, err := json.Marshal(append(all, r))
	if err != nil {
		return err
	}
	return l.store.Save(ctx, registrationsKey, raw)
}

// authorizer puts stored logins on requests. Where one is wanted that is not there, the
// error says what to do.
type authorizer struct {
	*oauth.Client
	except map[string]bool // servers that get a header of the user's own instead
}

// authorizerFor returns what authorizes requests to some targets; nil if none of them is
// at a URL, or if there is no place for logins at all.
func authorizerFor(ctx context.Context, targets ...client.Target) (client.Authorizer, error) {
	a := &authorizer{except: make(map[string]bool)}
	dialled := false
	for _, target := range targets {
		if t, ok := target.(*client.HTTP); ok {
			dialled = true
			a.except[t.URL] = t.Header["Authorization"] != nil
		}
	}
	if !dialled {
		return nil, nil
	}
	kept, err := openLogins()
	if err != nil {
		return nil, nil // as where there is no home: whoever needs a login hears of the refusal
	}
	a.Client, err = kept.client(ctx, slog.New(slog.DiscardHandler))
	return a, err
}

// Authorize implements client.Authorizer.
func (a *authorizer) Authorize(req *http.Request, server string) error {
	if a.except[server] {
		return nil
	}
	err := a.Client.Authorize(req, server)
	if errors.Is(err, credstore.ErrUnavailable) {
		return nil // most servers want no login: one that does will refuse, and that is the time to say so
	}
	return explained(err)
}

// Reauthorize implements client.Authorizer.
func (a *authorizer) Reauthorize(req *http.Request, server string, resp *http.Response) (again bool, err error) {
	if a.except[server] {
		return false, nil
	}
	again, err = a.Client.Reauthorize(req, server, resp)
	return again, explained(err)
}

// loginError says which login a server wants.
type loginError struct {
	server  string
	lacking []string // scopes that the login there is does not grant
	over    bool     // there was a login
	err     error
}

// explained adds to an error of authorization what the user can do about it.
func explained(err error) error {
	var needed *oauth.InteractionError
	if !errors.As(err, &needed) {
		return err
	}
	e := &loginError{server: needed.Request.Server, over: needed.Request.Previous != nil, err: err}
	for _, scope := range needed.Request.Scopes {
		if e.over && !slices.Contains(needed.Request.Previous, scope) {
			e.lacking = append(e.lacking, scope)
		}
	}
	return e
}

// Error implements the error interface.
func (e *loginError) Error() string {
	switch {
	case e.lacking != nil:
		scopes := strings.Join(e.lacking, " ")
		return fmt.Sprintf("%s wants a login that grants %s too: run: parley login --scope %s %s", e.server, scopes, quoted(scopes), quoted(e.server))
	case e.over:
		return fmt.Sprintf("the login to %s is over: run: parley login %s", e.server, quoted(e.server))
	}
	return fmt.Sprintf("%s wants a login: run: parley login %s", e.server, quoted(e.server))
}

// Unwrap returns why there is none.
func (e *loginError) Unwrap() error { return e.err }

// quoted is a word as a shell takes it. Scopes are another party's words, and may hold
// anything that is printable.
func quoted(word string) string {
	plain := func(r rune) bool {
		return '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || strings.ContainsRune("-._:/@%+,", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 && !strings.HasPrefix(word, "-") {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
