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
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// notes are what everybody writes down: logs, errors, keys.
type notes struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *notes) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *notes) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// logger logs everything.
func (r *notes) logger(of string) *slog.Logger {
	return slog.New(slog.NewTextHandler(r, &slog.HandlerOptions{Level: slog.LevelDebug})).With("of", of)
}

// keysOf is a store whose keys are written down, and that fails if it is told to.
type keysOf struct {
	*store.Memory
	record *notes
	fails  func(key string) bool
}

func (k *keysOf) note(key string) error {
	fmt.Fprintln(k.record, key)
	if k.fails(key) {
		return fmt.Errorf("the store cannot be reached: %s", key) // as those of others say
	}
	return nil
}

func (k *keysOf) Get(ctx context.Context, key string) (store.Item, error) {
	if err := k.note(key); err != nil {
		return store.Item{}, err
	}
	return k.Memory.Get(ctx, key)
}

func (k *keysOf) Put(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
	if err := k.note(key); err != nil {
		return 0, err
	}
	return k.Memory.Put(ctx, key, value, opt)
}

func (k *keysOf) Touch(ctx context.Context, key string, ttl time.Duration) (store.Item, error) {
	if err := k.note(key); err != nil {
		return store.Item{}, err
	}
	return k.Memory.Touch(ctx, key, ttl)
}

func (k *keysOf) Delete(ctx context.Context, key string) error {
	return errors.Join(k.note(key), k.Memory.Delete(ctx, key))
}

func (k *keysOf) Append(ctx context.Context, key store.StreamKey, seq uint64, entry []byte, opt store.AppendOptions) error {
	// The name of the stream is in the ids of its events, which open nothing without the
	// session's.
	if err := k.note(key.Group); err != nil {
		return err
	}
	return k.Memory.Append(ctx, key, seq, entry, opt)
}

// leaking is a realm in which everything is written down, and everything goes wrong.
type leaking struct {
	*realm
	t        *testing.T
	revision mcp.Revision
	tap      *wiretap
	logs     notes
	errors   notes
	keys     notes
	store    keysOf
	broken   sync.Map // the store
	tokens   string   // the file of tokens
	running  sync.WaitGroup
}

const plantedSecret = "planted-secret-of-the-client-7Q2XkWm4"

func newLeaking(t *testing.T, r mcp.Revision, proofs auth.ProofVerifier) *leaking {
	l := &leaking{t: t, revision: r, tap: newWiretap(t), tokens: filepath.Join(t.TempDir(), "tokens")}
	l.store = keysOf{store.NewMemory(store.MemoryOptions{}), &l.keys, func(string) bool { _, fails := l.broken.Load(true); return fails }}
	s := &server.Server{Name: "leaking", Logger: l.logs.logger("server"), KV: &l.store, Log: &l.store, Middleware: []call.Middleware{call.LogCalls(l.logs.logger("calls"))}}
	server.AddTool(s, mcp.Tool{Name: "dump"}, func(ctx context.Context, _ struct{}) (string, error) {
		_ = server.Progress(ctx, 1, 2, "")
		_ = server.Progress(ctx, 2, 2, "")
		l.logs.logger("tool").InfoContext(ctx, "called", "info", auth.FromContext(ctx), "ctx", fmt.Sprint(ctx), "peer", fmt.Sprintf("%+v", server.PeerOf(ctx)))
		return fmt.Sprintf("%v %+v %#v", ctx, auth.FromContext(ctx), auth.FromContext(ctx)), nil
	})
	server.AddTool(s, mcp.Tool{Name: "ask"}, func(ctx context.Context, _ struct{}) (string, error) {
		form, err := server.Elicit[place](ctx, "Where?")
		return form.City, err
	})
	server.AddTool(s, mcp.Tool{Name: "panic"}, func(ctx context.Context, _ struct{}) (string, error) { panic(ctx) })
	server.AddTool(s, mcp.Tool{Name: "fail"}, func(ctx context.Context, _ struct{}) (string, error) {
		return "", fmt.Errorf("it failed for %v", ctx)
	})
	server.AddTool(s, mcp.Tool{Name: "more"}, func(context.Context, struct{}) (string, error) { return "", nil }, server.RequireScopes("more"))
	l.realm = newRealm(t, s, func(c *realmConfig) {
		c.resource.DPoP, c.resource.RequireDPoP = proofs, proofs != nil
		c.issuer.Logger = l.logs.logger("issuer")
		c.issuer.Clients = []devissuer.Client{{ID: "planted", Secret: plantedSecret, RedirectURIs: []string{"http://127.0.0.1/callback"}}}
	})
	return l
}

// program is what a user has started, with its own way to the network.
func (l *leaking) program(change ...func(*oauth.Client)) *oauth.Client {
	tokens, err := oauth.NewFileStore(l.tokens, bytes.Repeat([]byte("k"), 32))
	if err != nil {
		l.t.Fatal(err)
	}
	browser := &devissuer.Browser{Transport: l.tap.transport(l.t)}
	c := &oauth.Client{
		Logger: l.logs.logger("oauth"), Proxy: l.tap.url(), Store: tokens,
		Registrations: []oauth.Registration{{Issuer: l.issuer.URL(), ClientID: "planted", ClientSecret: plantedSecret}},
		Interaction: &oauth.Loopback{Open: func(ctx context.Context, page string) error {
			l.running.Go(func() { _, err := browser.LogIn(ctx, page); l.failed(err) })
			return nil
		}},
	}
	for _, f := range change {
		f(c)
	}
	return c
}

// connect dials, and writes down what comes of it.
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

// failed writes an error down, and all that are in it, as programs print them.
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

// send makes a request that no client of ours would make.
func (l *leaking) send(method, address, body string, header ...string) {
	req, err := http.NewRequestWithContext(l.t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		l.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	if strings.HasPrefix(body, "grant_type") || strings.HasPrefix(body, "token=") {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := l.tap.transport(l.t).RoundTrip(req)
	if err == nil {
		resp.Body.Close()
	}
}

// R6, U7, U3: whatever is done, well or badly, no secret gets into a log, an error, a key
// of a store, the address of a request, or back out of the server that it was shown to.
func TestR6U7SecretsStayWhereTheyBelong(t *testing.T) {
	day := func(t *testing.T, r mcp.Revision, proofs auth.ProofVerifier) {
		l := newLeaking(t, r, proofs)
		l.live()
		l.fail()
		l.running.Wait()
		l.search()
	}
	for _, r := range mcp.Revisions() {
		t.Run(string(r), func(t *testing.T) { day(t, r, nil) })
	}
	t.Run("with proofs of possession", func(t *testing.T) { day(t, mcp.V20251125, &jwt.ProofVerifier{Nonces: true}) })
}

// live is a day on which nothing goes wrong.
func (l *leaking) live() {
	c := l.connect(l.program())
	if c == nil {
		l.t.Fatalf("nothing works: %s", l.errors.String())
	}
	l.use(c, "dump", "ask", "more", "dump")
	l.expire()
	l.use(l.connect(l.program()), "dump") // a program that is started later has to refresh
	_ = c.Close()
	machine := l.program(func(o *oauth.Client) { o.Grant, o.Store = &oauth.ClientCredentials{}, nil })
	l.use(l.connect(machine), "dump")
	l.failed(machine.Logout(l.t.Context(), l.url))
	known := l.program(func(o *oauth.Client) { o.Registrations, o.Store = nil, nil }) // registers itself
	l.use(l.connect(known), "dump")
	l.failed(known.Logout(l.t.Context(), l.url))
}

// fail is one on which everything does.
func (l *leaking) fail() {
	c := l.connect(l.program())
	l.use(c, "panic", "fail", "nobody")

	// Tokens that will not do.
	other, err := l.issuer.Token("ada", "https://other.example/mcp", "mcp")
	if err != nil {
		l.t.Fatal(err)
	}
	expired := l.token("ada")
	l.refuse(expired)
	for _, token := range []string{other, expired, l.token("ada")[:60], l.token("ada") + "x", "planted-nonsense-9dK3vQ"} {
		l.use(l.connect(header("Bearer " + token)))
		l.use(l.connect(header("Bearer " + token + " " + token)))
		l.use(l.connect(header("DPoP " + token)))
		l.send(http.MethodPost, l.url, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Authorization", token)
	}

	// Sessions, events and states that are not there, or somebody else's.
	const nowhere = "cGxhbnRlZC1zZXNzaW9uLQ"
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		l.send(method, l.url, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Authorization", "Bearer "+l.token("ada"),
			"Mcp-Session-Id", nowhere, "Last-Event-ID", "pcGxhbnRlZC1zdHJl.1", "DPoP", "planted-proof-77Jx2mQq", "Cookie", "a=planted-cookie-x7T9w2")
	}
	l.send(http.MethodPost, l.url, rawModern("tools/call", `"name":"ask","requestState":"planted-request-state-4hG8sLp",`), "Authorization", "Bearer "+l.token("ada"),
		"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "ask")
	l.send(http.MethodPost, l.url+"?access_token=x", `{`, "Authorization", "Bearer "+l.token("ada"))

	// What the issuer refuses.
	basic := func(secret string) string {
		req := http.Request{Header: http.Header{}}
		req.SetBasicAuth("planted", url.QueryEscape(secret))
		return req.Header.Get("Authorization")
	}
	for _, form := range []string{
		"grant_type=authorization_code&code=planted-code-A8s7d6f5&code_verifier=planted-verifier-" + strings.Repeat("v7", 20),
		"grant_type=refresh_token&refresh_token=planted-refresh-P0o9i8u7", "token=planted-refresh-P0o9i8u7", "grant_type=planted-code-A8s7d6f5",
	} {
		for _, secret := range []string{plantedSecret, "planted-wrong-secret-Z1x2c3"} {
			l.send(http.MethodPost, l.issuer.URL()+"/token", form, "Authorization", basic(secret))
			l.send(http.MethodPost, l.issuer.URL()+"/revoke", form, "Authorization", basic(secret))
		}
	}
	l.use(l.connect(l.program(func(o *oauth.Client) {
		o.Store, o.Registrations = nil, []oauth.Registration{{Issuer: l.issuer.URL(), ClientID: "planted", ClientSecret: "planted-wrong-secret-Z1x2c3"}}
	})))
	l.use(l.connect(l.program(func(o *oauth.Client) { o.Store, o.Interaction = nil, nil })))
	denying := &devissuer.Browser{Deny: true, Transport: l.tap.transport(l.t)}
	for _, visit := range []func(context.Context, string) (string, error){
		denying.Authorize,
		func(ctx context.Context, page string) (string, error) { // of another login
			back, err := new(devissuer.Browser).Authorize(ctx, page)
			return strings.Replace(back, "state=", "state=planted-state-M5n6b7-", 1), err
		},
		func(ctx context.Context, page string) (string, error) { // a code that is none
			back, err := new(devissuer.Browser).Authorize(ctx, page)
			return strings.Replace(back, "code=", "code=planted-code-A8s7d6f5-", 1), err
		},
		func(ctx context.Context, page string) (string, error) { return page + "\x7f", nil },
	} {
		l.use(l.connect(l.program(func(o *oauth.Client) {
			o.Store, o.Interaction = nil, &oauth.Manual{RedirectURI: "http://127.0.0.1:3000/callback", Open: visit}
		})))
	}

	// Connections that are cut: on the way to the server, and to each place of the issuer.
	for _, path := range []string{"/mcp", "/.well-known/", "/authorize", "/token", "/callback"} {
		l.tap.cutting(func(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, path) })
		fresh := l.program(func(o *oauth.Client) {
			o.Store = nil
			browser := &devissuer.Browser{Transport: l.tap.transport(l.t)}
			o.Interaction = &oauth.Manual{RedirectURI: "http://127.0.0.1:3000/callback", Open: func(ctx context.Context, page string) (string, error) {
				return browser.Authorize(ctx, page)
			}}
		})
		l.use(l.connect(fresh))
		l.use(c, "dump")
		l.tap.cutting(nil)
	}

	// A store that says in its errors what it was asked for.
	l.broken.Store(true, true)
	l.use(c, "dump", "ask")
	l.use(l.connect(l.program()), "dump")
	l.broken.Clear()
	if c != nil {
		_ = c.Close()
	}
}

// header authorizes with what it is.
type header string

func (h header) Authorize(req *http.Request, _ string) error {
	req.Header.Set("Authorization", string(h))
	return nil
}

func (header) Reauthorize(*http.Request, string, *http.Response) (bool, error) { return false, nil }

// search looks for all secrets that have passed in all that was written down.
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
		if !found {
			l.t.Errorf("no %s has passed: this test shows nothing", kind)
		}
	}
	file, err := os.ReadFile(l.tokens)
	if err != nil {
		l.t.Error(err)
	}
	for name, text := range map[string]string{
		"the logs": l.logs.String(), "the errors": l.errors.String(), "the keys of the store": l.keys.String(), "the file of tokens": string(file),
	} {
		if text == "" {
			l.t.Errorf("%s are empty: this test shows nothing", name)
		}
		if kinds := leaks(text, secrets); kinds != nil {
			l.t.Errorf("R6: %s hold: %s\n%s", name, strings.Join(kinds, ", "), linesWith(text, secrets))
		}
	}
	for _, x := range l.tap.all() {
		l.searchExchange(x, secrets)
	}
}

func (l *leaking) searchExchange(x *exchanged, secrets map[string]string) {
	at, err := url.Parse(x.url)
	if err != nil {
		l.t.Fatal(err)
	}
	var inURL []string
	switch at.Path {
	case "/authorize": // the user's browser is told
		inURL = []string{loginState}
	case "/callback": // and tells
		inURL = []string{loginState, codeGranted}
	case "/mcp": // as the transport of 2024-11-05 wants it
		if l.revision == mcp.V20241105 {
			inURL = []string{sessionID}
		}
	}
	if kinds := leaks(x.url, secrets, inURL...); kinds != nil {
		l.t.Errorf("U7: %s %s has in its address: %s", x.method, x.url, strings.Join(kinds, ", "))
	}
	if x.authorization {
		return
	}
	// What the server has given out itself is its client's to have.
	if kinds := leaks(x.response()+fmt.Sprint(x.answer), secrets, sessionID, eventID, requestState); kinds != nil {
		l.t.Errorf("R3: %s %s is answered with: %s\n%v\n%s", x.method, x.url, strings.Join(kinds, ", "), x.answer, x.response())
	}
	if kinds := leaks(x.body, secrets, sessionID, eventID, requestState); kinds != nil {
		l.t.Errorf("U8: %s %s has in its body: %s", x.method, x.url, strings.Join(kinds, ", "))
	}
}

// linesWith are the lines that hold a secret.
func linesWith(text string, secrets map[string]string) string {
	var all []string
	for line := range strings.Lines(text) {
		if leaks(line, secrets) != nil {
			all = append(all, line)
		}
	}
	return strings.Join(all[:min(len(all), 10)], "")
}
