package mcptest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/devissuer"
	"github.com/parley-mcp/parley/auth/jwt"
	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/auth/oauth/browser"
	"github.com/parley-mcp/parley/auth/oauth/tokenstore"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/logintest"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/syncbuffer"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// recording collects logs, errors and keys.
type recording struct{ syncbuffer.Buffer }

// logger returns a logger of all levels that writes to r.
func (r *recording) logger(of string) *slog.Logger {
	return slog.New(slog.NewTextHandler(r, &slog.HandlerOptions{Level: slog.LevelDebug})).With("of", of)
}

// recordingStore is a store that records its keys and can be made to fail.
type recordingStore struct {
	store.Store
	keys  *recording
	fails func(key string) bool
}

func (k *recordingStore) note(key string) error {
	fmt.Fprintln(k.keys, key)
	if k.fails(key) {
		return fmt.Errorf("store is unreachable: %s", key) // some stores include the key in their errors
	}
	return nil
}

func (k *recordingStore) Get(ctx context.Context, key string) (store.Item, error) {
	if err := k.note(key); err != nil {
		return store.Item{}, err
	}
	return k.Store.Get(ctx, key)
}

func (k *recordingStore) Put(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
	if err := k.note(key); err != nil {
		return 0, err
	}
	return k.Store.Put(ctx, key, value, opt)
}

func (k *recordingStore) Touch(ctx context.Context, key string, ttl time.Duration) (store.Item, error) {
	if err := k.note(key); err != nil {
		return store.Item{}, err
	}
	return k.Store.Touch(ctx, key, ttl)
}

func (k *recordingStore) Delete(ctx context.Context, key string) error {
	return errors.Join(k.note(key), k.Store.Delete(ctx, key))
}

func (k *recordingStore) Append(ctx context.Context, key store.StreamKey, seq uint64, entry []byte,
	opt store.AppendOptions) error {
	// The ids of events contain the name of the stream. It cannot be used without the session id.
	if err := k.note(key.Group); err != nil {
		return err
	}
	return k.Store.Append(ctx, key, seq, entry, opt)
}

// leaking is a realm that records logs, errors, keys and traffic, and in which many things fail.
type leaking struct {
	*realm
	t        *testing.T
	revision mcp.Revision
	tap      *wiretap
	logs     recording
	errors   recording
	keys     recording
	store    recordingStore
	broken   sync.Map // not empty if the store fails
	tokens   string   // the path of the token store
	running  sync.WaitGroup
}

const plantedSecret = "planted-secret-of-the-client-7Q2XkWm4"

func newLeaking(t *testing.T, r mcp.Revision, proofs auth.ProofVerifier) *leaking {
	l := &leaking{t: t, revision: r, tokens: filepath.Join(t.TempDir(), "tokens")}
	l.store = recordingStore{store.NewMemory(), &l.keys,
		func(string) bool { _, fails := l.broken.Load(true); return fails }}
	s := &server.Server{Name: "leaking", Logger: l.logs.logger("server"), Store: &l.store,
		Middleware: []call.Middleware{call.LogCalls(l.logs.logger("calls"))}}
	server.AddTool(s, mcp.Tool{Name: "dump"}, func(ctx context.Context, _ struct{}) (string, error) {
		_ = server.Progress(ctx, 1, 2, "")
		_ = server.Progress(ctx, 2, 2, "")
		l.logs.logger("tool").InfoContext(ctx, "called", "info", auth.FromContext(ctx), "ctx", fmt.Sprint(ctx), "peer",
			fmt.Sprintf("%+v", call.From(ctx).Peer()))
		return fmt.Sprintf("%v %+v %#v", ctx, auth.FromContext(ctx), auth.FromContext(ctx)), nil
	})
	server.AddTool(s, mcp.Tool{Name: "ask"}, func(ctx context.Context, _ struct{}) (string, error) {
		form, err := server.Elicit[place](ctx, "Where?")
		return form.City, err
	})
	server.AddTool(s, mcp.Tool{Name: "panic"}, func(ctx context.Context, _ struct{}) (string, error) { panic(ctx) })
	server.AddTool(s, mcp.Tool{Name: "fail"}, func(ctx context.Context, _ struct{}) (string, error) {
		return "", fmt.Errorf("failed with %v", ctx)
	})
	server.AddTool(s, mcp.Tool{Name: "more"}, func(context.Context, struct{}) (string, error) {
		return "", nil
	}, server.RequireScopes("more"))
	l.realm = newRealm(t, s, func(c *realmConfig) {
		c.resource.DPoP, c.resource.RequireDPoP = proofs, proofs != nil
		c.issuer.Logger = l.logs.logger("issuer")
		c.issuer.Clients = []devissuer.Client{{ID: "planted", Secret: plantedSecret,
			RedirectURIs: []string{"http://127.0.0.1/callback"}}}
	})
	l.tap = newWiretap(t, l.proxy)
	return l
}

// program returns the OAuth client of a program whose traffic passes the tap.
func (l *leaking) program(change ...func(*oauth.Client)) *oauth.Client {
	tokens := must.Get(tokenstore.OpenFile(l.tokens, bytes.Repeat([]byte("k"), 32)))(l.t)
	user := &logintest.Browser{Transport: l.tap.transport(l.t)}
	c := &oauth.Client{
		Logger: l.logs.logger("oauth"), Proxy: http.ProxyURL(l.tap.url()), Store: tokens,
		Registrations: []oauth.Registration{{Issuer: l.issuer.URL(), ClientID: "planted", ClientSecret: plantedSecret}},
		Interaction: &browser.Loopback{Open: func(ctx context.Context, page string) error {
			l.running.Go(func() { _, err := user.LogIn(ctx, page); l.failed(err) })
			return nil
		}},
	}
	for _, f := range change {
		f(c)
	}
	return c
}

// connect dials the server and records an error.
func (l *leaking) connect(a client.Authorizer, change ...func(*client.Dialer)) *client.Client {
	change = append([]func(*client.Dialer){func(d *client.Dialer) {
		d.HTTPClient, d.Logger = &http.Client{Transport: l.tap.transport(l.t)}, l.logs.logger("client")
		d.Middleware = []call.Middleware{call.LogCalls(l.logs.logger("requests"))}
		d.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "decline"}, nil
		}
	}}, change...)
	c, err := l.dial(l.t, l.revision, a, change...)
	l.failed(err)
	return c
}

// failed records an error and all errors that it wraps, in all formats.
func (l *leaking) failed(err error) {
	if err == nil {
		return
	}
	fmt.Fprintf(&l.errors, "%v\n%+v\n%#v\n%q\n", err, err, err, err)
	l.logs.logger("program").Error("failed", "error", err)
	switch inner := err.(type) {
	case interface{ Unwrap() error }:
		l.failed(inner.Unwrap())
	case interface{ Unwrap() []error }:
		for _, err := range inner.Unwrap() {
			l.failed(err)
		}
	}
}

func (l *leaking) use(c *client.Client, tools ...string) {
	if c == nil {
		return
	}
	for _, tool := range tools {
		_, err := c.CallTool(l.t.Context(), tool, nil, client.WithProgress(func(float64, float64, string) {}))
		l.failed(err)
	}
}

// send sends a request that package client would not send.
func (l *leaking) send(method, address, body string, header ...string) {
	req := wiretest.NewRequest(l.t.Context(), method, address, body, header...)
	if strings.HasPrefix(body, "grant_type") {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := l.tap.transport(l.t).RoundTrip(req)
	if err == nil {
		resp.Body.Close()
	}
}

// Rules R6, U7, U3: no secret occurs in a log, an error, a key of a store or the URL of a request, and
// no server returns a secret that it has received.
func TestSecretsDoNotLeak(t *testing.T) {
	run := func(t *testing.T, r mcp.Revision, proofs auth.ProofVerifier) {
		l := newLeaking(t, r, proofs)
		l.succeed()
		l.fail()
		l.running.Wait()
		l.search()
	}
	for _, r := range mcp.Revisions() {
		t.Run(string(r), func(t *testing.T) { run(t, r, nil) })
	}
	t.Run("DPoP", func(t *testing.T) { run(t, mcp.V20251125, &jwt.ProofVerifier{Nonces: true}) })
}

// succeed makes requests that succeed.
func (l *leaking) succeed() {
	c := l.connect(l.program())
	must.That(l.t, c != nil, "cannot connect: %s", l.errors.String())
	l.use(c, "dump", "ask", "more", "dump")
	l.expire()
	l.use(l.connect(l.program()), "dump") // refreshes the token
	_ = c.Close()
	machine := l.program(func(o *oauth.Client) { o.Grant, o.Store = &oauth.ClientCredentials{}, nil })
	l.use(l.connect(machine), "dump")
	l.failed(machine.Logout(l.t.Context(), l.url))
	registered := l.program(func(o *oauth.Client) { o.Registrations, o.Store = nil, nil }) // registers itself
	l.use(l.connect(registered), "dump")
	l.failed(registered.Logout(l.t.Context(), l.url))
}

// fail makes requests that fail.
func (l *leaking) fail() {
	c := l.connect(l.program())
	l.use(c, "panic", "fail", "missing")

	// Invalid tokens.
	other := must.Get(l.issuer.Token("ada", "https://other.example/mcp", "mcp"))(l.t)
	expired := l.token("ada")
	l.reject(expired)
	for _, token := range []string{other, expired, l.token("ada")[:60], l.token("ada") + "x",
		"planted-nonsense-9dK3vQ"} {
		l.use(l.connect(header("Bearer " + token)))
		l.use(l.connect(header("Bearer " + token + " " + token)))
		l.use(l.connect(header("DPoP " + token)))
		l.send(http.MethodPost, l.url, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Authorization", token)
	}

	// Unknown sessions, events and states.
	const unknownSession = "cGxhbnRlZC1zZXNzaW9uLQ"
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		l.send(method, l.url, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Authorization", "Bearer "+l.token("ada"),
			"Mcp-Session-Id", unknownSession, "Last-Event-ID", "pcGxhbnRlZC1zdHJl.1", "DPoP", "planted-proof-77Jx2mQq",
			"Cookie", "a=planted-cookie-x7T9w2")
	}
	l.send(http.MethodPost, l.url, rawModern("tools/call",
		`"name":"ask","requestState":"planted-request-state-4hG8sLp",`), "Authorization", "Bearer "+l.token("ada"),
		"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "ask")
	l.send(http.MethodPost, l.url+"?access_token=x", `{`, "Authorization", "Bearer "+l.token("ada"))

	// Requests that the issuer rejects.
	basic := func(secret string) string {
		req := http.Request{Header: http.Header{}}
		req.SetBasicAuth("planted", url.QueryEscape(secret))
		return req.Header.Get("Authorization")
	}
	for _, form := range []string{
		"grant_type=authorization_code&code=planted-code-A8s7d6f5&code_verifier=planted-verifier-" +
			strings.Repeat("v7", 20),
		"grant_type=refresh_token&refresh_token=planted-refresh-P0o9i8u7",
		"grant_type=planted-code-A8s7d6f5",
	} {
		for _, secret := range []string{plantedSecret, "planted-wrong-secret-Z1x2c3"} {
			l.send(http.MethodPost, l.issuer.URL()+"/token", form, "Authorization", basic(secret))
		}
	}
	l.use(l.connect(l.program(func(o *oauth.Client) {
		o.Store, o.Registrations = nil, []oauth.Registration{{Issuer: l.issuer.URL(), ClientID: "planted",
			ClientSecret: "planted-wrong-secret-Z1x2c3"}}
	})))
	l.use(l.connect(l.program(func(o *oauth.Client) { o.Store, o.Interaction = nil, nil })))
	denying := &logintest.Browser{Deny: true, Transport: l.tap.transport(l.t)}
	for _, open := range []func(context.Context, string) (string, error){
		denying.Authorize,
		func(ctx context.Context, page string) (string, error) { // the state of another login
			back, err := new(logintest.Browser).Authorize(ctx, page)
			return strings.Replace(back, "state=", "state=planted-state-M5n6b7-", 1), err
		},
		func(ctx context.Context, page string) (string, error) { // an invalid code
			back, err := new(logintest.Browser).Authorize(ctx, page)
			return strings.Replace(back, "code=", "code=planted-code-A8s7d6f5-", 1), err
		},
		func(ctx context.Context, page string) (string, error) { return page + "\x7f", nil },
	} {
		l.use(l.connect(l.program(func(o *oauth.Client) {
			o.Store, o.Interaction = nil, &logintest.Interaction{RedirectURI: "http://127.0.0.1:3000/callback", Open: open}
		})))
	}

	// Connections to the server, and to each endpoint of the issuer, that are closed without a response.
	for _, path := range []string{"/mcp", "/.well-known/", "/authorize", "/token", "/callback"} {
		l.tap.cutting(func(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, path) })
		fresh := l.program(func(o *oauth.Client) {
			o.Store = nil
			browser := &logintest.Browser{Transport: l.tap.transport(l.t)}
			o.Interaction = &logintest.Interaction{RedirectURI: "http://127.0.0.1:3000/callback",
				Open: func(ctx context.Context, page string) (string, error) { return browser.Authorize(ctx, page) }}
		})
		l.use(l.connect(fresh))
		l.use(c, "dump")
		l.tap.cutting(nil)
	}

	// A store that includes keys in its errors.
	l.broken.Store(true, true)
	l.use(c, "dump", "ask")
	l.use(l.connect(l.program()), "dump")
	l.broken.Clear()
	if c != nil {
		_ = c.Close()
	}
}

// header is an Authorizer that sets a fixed Authorization header.
type header string

func (h header) Authorize(req *http.Request, _ string) error {
	req.Header.Set("Authorization", string(h))
	return nil
}

func (header) Reauthorize(*http.Request, string, *http.Response) (bool, error) { return false, nil }

// search searches all recordings for the secrets that have passed the tap.
func (l *leaking) search() {
	secrets := l.tap.secrets()
	secrets[plantedSecret] = clientSecret
	wanted := []string{accessToken, refreshToken, codeGranted, loginState, codeVerifier, clientSecret, cookie}
	switch {
	case l.revision.Modern():
		wanted = append(wanted, requestState)
	case l.revision == mcp.V20241105:
		wanted = append(wanted, sessionID)
	default:
		wanted = append(wanted, sessionID, eventID)
	}
	if l.server.Auth.RequireDPoP {
		wanted = append(wanted, aProof)
	}
	for _, kind := range wanted {
		found := false
		for _, k := range secrets {
			found = found || k == kind
		}
		must.CheckThat(l.t, found, "no %s has passed the tap, so the test is meaningless", kind)
	}
	file, err := os.ReadFile(l.tokens)
	must.Check(l.t, err)
	for name, text := range map[string]string{
		"logs": l.logs.String(), "errors": l.errors.String(), "keys of the store": l.keys.String(),
		"token store": string(file),
	} {
		must.CheckThat(l.t, text != "", "%s: empty, so the test is meaningless", name)
		if kinds := leaks(text, secrets); kinds != nil {
			l.t.Errorf("R6: %s: found %s\n%s", name, strings.Join(kinds, ", "), linesWith(text, secrets))
		}
	}
	for _, x := range l.tap.all() {
		l.searchExchange(x, secrets)
	}
}

func (l *leaking) searchExchange(x *exchanged, secrets map[string]string) {
	at := must.Get(url.Parse(x.url))(l.t)
	var inURL []string
	switch at.Path {
	case "/authorize": // the authorization request of OAuth
		inURL = []string{loginState}
	case "/callback": // the authorization response of OAuth
		inURL = []string{loginState, codeGranted}
	case "/mcp": // the endpoint of HTTP+SSE
		if l.revision == mcp.V20241105 {
			inURL = []string{sessionID}
		}
	}
	kinds := leaks(x.url, secrets, inURL...)
	must.CheckThat(l.t, kinds == nil, "U7: URL of %s %s contains: %s", x.method, x.url, strings.Join(kinds, ", "))
	if x.authorization {
		return
	}
	// The server may send the values that it has generated itself.
	if kinds := leaks(x.response()+fmt.Sprint(x.responseHeader), secrets, sessionID, eventID,
		requestState); kinds != nil {
		l.t.Errorf("R3: response to %s %s contains: %s\n%v\n%s", x.method, x.url, strings.Join(kinds, ", "),
			x.responseHeader, x.response())
	}
	if kinds := leaks(x.body, secrets, sessionID, eventID, requestState); kinds != nil {
		l.t.Errorf("U8: body of %s %s contains: %s", x.method, x.url, strings.Join(kinds, ", "))
	}
}

// linesWith returns the first lines that contain a secret.
func linesWith(text string, secrets map[string]string) string {
	var all []string
	for line := range strings.Lines(text) {
		if leaks(line, secrets) != nil {
			all = append(all, line)
		}
	}
	return strings.Join(all[:min(len(all), 10)], "")
}
