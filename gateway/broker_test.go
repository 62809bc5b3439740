package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth/devissuer"
	"github.com/parley-mcp/parley/auth/jwt"
	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// brokered are the users of a gateway with two replicas, who log in to a server with an issuer of its own. Each
// user has the account NAME@up there.
type brokered struct {
	*users
	upstream *devissuer.Issuer
	up       *protectedServer
	theirs   mcp.Revision
	kv       *store.Memory
	brokers  []*oauth.Broker
	config   func(callers *host.CallerAuth) host.ServerConfig // of the server

	mu      sync.Mutex
	reports []string
}

// newBrokered returns a gateway that talks to the server in a revision.
func newBrokered(t *testing.T, theirs mcp.Revision, names ...string) *brokered {
	b := &brokered{users: newUsers(t, names...), kv: store.NewMemory(store.MemoryOptions{}), theirs: theirs}
	var accounts []string
	for _, name := range names {
		accounts = append(accounts, name+"@up")
	}
	var err error
	if b.upstream, err = devissuer.Start(devissuer.Config{Users: accounts}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.upstream.Close() })
	b.up = newProtectedServer(t, b.upstream.URL())
	b.up.issued = &jwt.Verifier{Issuers: []string{b.upstream.URL()}}
	b.config = func(callers *host.CallerAuth) host.ServerConfig { return b.up.config("up", callers) }
	return b
}

// start starts the gateway.
func (b *brokered) start() *brokered {
	b.replicas = nil
	for range 2 {
		b.addReplica()
	}
	b.front.Start()
	b.t.Cleanup(b.front.Close)
	return b
}

func (b *brokered) addReplica() {
	s := &server.Server{Name: "gateway", Version: "1", Auth: b.resource(), KV: b.kv, Log: b.kv, Bus: b.kv, Keys: [][]byte{make([]byte, 32)}}
	broker := &oauth.Broker{
		URL: b.origin() + "/login", Resource: s.Auth, KV: b.kv, Keys: s.Keys, Logger: quiet,
		New: func() *oauth.Client { return &oauth.Client{Name: "gateway", Logger: quiet} },
		Server: func(name string) string {
			if name == "up" {
				return b.up.url
			}
			return ""
		},
		Report: func(user principal.Principal, server string, err error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.reports = append(b.reports, fmt.Sprint(user.Subject(), " ", server, " ", err == nil))
		},
	}
	if err := broker.Check(); err != nil {
		b.t.Fatal(err)
	}
	gatewaytest.Run(b.t, &host.Host{
		Servers: []host.ServerConfig{b.config(host.NewCallerAuth(broker.Authorizer("up")))}, Dialer: client.Dialer{Revision: b.theirs},
	}, s)
	b.t.Cleanup(func() { s.Shutdown(context.Background()) })
	mux := http.NewServeMux()
	mux.Handle("/", s) // also its metadata
	mux.Handle("/login/", broker)
	b.replicas, b.brokers = append(b.replicas, mux), append(b.brokers, broker)
}

// webUser is the browser of a user.
type webUser struct {
	*brokered
	*gatewaytest.Browser
	name string
}

func (b *brokered) browser(name string) *webUser {
	return &webUser{b, gatewaytest.NewBrowser(map[string]gatewaytest.Account{
		b.issuer.URL(): &devissuer.Browser{User: name}, b.upstream.URL(): &devissuer.Browser{User: name + "@up"},
	}), name}
}

// logIn opens the first page of a login, and consents.
func (w *webUser) logIn(ctx context.Context, start string) error {
	body, err := w.Open(ctx, http.MethodGet, start)
	if err != nil {
		return err
	}
	if !strings.Contains(body, "<b>"+w.name+"</b>") || !strings.Contains(body, w.up.url) || !strings.Contains(body, `<form method="post" action="`+start+`">`) {
		return fmt.Errorf("the page of %s is %s", w.name, body)
	}
	if body, err = w.Open(ctx, http.MethodPost, start); err == nil && !strings.Contains(body, "Login complete") {
		err = errors.New(body)
	}
	return err
}

// dialBrowsing returns a client whose user logs in when asked to open a URL, after the client has answered.
func (b *brokered) dialBrowsing(name string, r mcp.Revision, browsing *sync.WaitGroup) *client.Client {
	d := client.Dialer{Revision: r, Logger: quiet, Auth: b.logins[name]}
	d.ElicitURL = func(ctx context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		browsing.Go(func() {
			if err := b.browser(name).logIn(context.WithoutCancel(ctx), params.URL); err != nil {
				b.t.Errorf("%s in %s: %v", name, r, err)
			}
		})
		return &mcp.ElicitResult{Action: mcp.ElicitAccept}, nil
	}
	c, err := d.Dial(b.t.Context(), client.URL(b.url()))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { c.Close() })
	return c
}

var anyURL = regexp.MustCompile(`http://\S+/login/start/\w+`)

// Rules Y5, P1, P5: the client of a caller who is not logged in to the server has its user open a page, in every
// revision. Afterwards the call is answered for the account of that user. All requests go to two replicas in turn.
func TestCallersLogInToAServer(t *testing.T) {
	for _, theirs := range []mcp.Revision{mcp.V20250326, mcp.V20251125, mcp.V20260728} {
		for _, ours := range everyRevision {
			t.Run(fmt.Sprintf("%s to %s", ours, theirs), func(t *testing.T) {
				b := newBrokered(t, theirs, "ada", "bob").start()
				for _, name := range []string{"ada", "bob"} {
					b.useAs(name, ours)
				}
				b.checkReports("ada", "bob")
				for header, n := range b.up.headers() {
					_, token, _ := strings.Cut(header, " ")
					if _, err := b.up.issued.Verify(t.Context(), token); err != nil && token != operatorToken && header != "" {
						t.Errorf("the server has received %d requests with %q: %v", n, header, err)
					}
				}
			})
		}
	}
}

// checkReports checks that the login of each user was reported as missing, and then as done. A request for the lists of
// the server that began before the login may report later that it is missing.
func (b *brokered) checkReports(names ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range names {
		missing, done := slices.Index(b.reports, name+" up false"), slices.Index(b.reports, name+" up true")
		if missing < 0 || done < missing {
			b.t.Errorf("%s: the reports are %q", name, b.reports)
		}
	}
}

// useAs logs a user in to the server, and calls it.
func (b *brokered) useAs(name string, r mcp.Revision) {
	t := b.t
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	result, err := b.dial(name, r).CallTool(ctx, "up__whoami", nil) // this client cannot ask its user
	if err != nil || !result.IsError || anyURL.FindString(text(result.Content)) == "" {
		t.Fatalf("%s: %v, %v", name, result, err)
	}
	var browsing sync.WaitGroup
	defer browsing.Wait()
	c := b.dialBrowsing(name, r, &browsing)
	if r < mcp.V20251125 { // without elicitation by URL
		if err := b.browser(name).logIn(ctx, anyURL.FindString(text(result.Content))); err != nil {
			t.Fatalf("%s after %q: %v", name, text(result.Content), err)
		}
	}
	for range 3 {
		if who, err := client.CallTool[string](ctx, c, "up__whoami", nil); err != nil || who != name+"@up" {
			t.Errorf("%s: %q, %v", name, who, err)
		}
	}
	if result, err := c.GetPrompt(ctx, "up__whoami", nil); err != nil || text([]mcp.Content{result.Messages[0].Content}) != name+"@up" {
		t.Errorf("%s: %v, %v", name, result, err)
	}
}
