package host

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/transport"
)

// testPool returns a pool whose clients never connect, and the client for everyone.
func testPool(t *testing.T, max int) (*pool, *client.Client) {
	near, far := transport.Pipe()
	s := &server.Server{Name: "s"}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.ServeConn(context.Background(), far)
	}()
	target := client.Conn(near)
	own := must.Get(client.Dial(t.Context(), target))(t)
	t.Cleanup(func() {
		own.Close()
		<-done
	})
	of := &supervisor{host: new(Host), config: ServerConfig{Target: target}}
	return &pool{of: of, idle: connectionIdle, max: max, byKey: make(map[audience]*connection)}, own
}

func ofSession(id string) audience { return audience{session: id} }

func TestIdleConnectionsAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, own := testPool(t, 10)
		use := func(id string) *connection {
			return must.Get(a.acquire(t.Context(), ofSession(id), &Caller{Session: id}, own))(t)
		}
		isClosed := func(c *connection) bool {
			synctest.Wait()
			return errors.Is(c.client.Ping(t.Context()), call.ErrClosed)
		}
		busy, idle, again := use("busy"), use("idle"), use("again")
		a.release(idle)
		a.release(again)
		sleep(t.Context(), connectionIdle*3/4, nil)
		must.CheckEqual(t, use("again"), again)
		a.release(again)
		sleep(t.Context(), connectionIdle/2, nil)
		if !isClosed(idle) || a.byKey[ofSession("again")] != again || a.byKey[ofSession("busy")] != busy ||
			len(a.byKey) != 2 {
			t.Errorf("connections left: %v", a.byKey)
		}
		a.release(busy)
		err := a.close()
		must.CheckThat(t, err == nil && isClosed(again) && isClosed(busy), "%v", err)
		_, err = a.acquire(t.Context(), ofSession("late"), nil, own)
		must.CheckThat(t, errors.Is(err, call.ErrClosed), "after close: %v", err)
	})
}

func TestLeastRecentlyUsedConnectionIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, own := testPool(t, 3)
		defer a.close()
		acquire := func(id string) (*connection, error) {
			return a.acquire(t.Context(), ofSession(id), &Caller{Session: id}, own)
		}
		for _, id := range []string{"a", "b", "c", "a"} {
			a.release(must.Get(acquire(id))(t))
			sleep(t.Context(), 1, nil)
		}
		for _, id := range []string{"d", "e", "f"} {
			must.Get(acquire(id))(t)
			if id == "d" && (a.byKey[ofSession("b")] != nil || a.byKey[ofSession("a")] == nil) {
				t.Errorf("connections left: %v", a.byKey)
			}
		}
		var overload *call.OverloadError
		if _, err := acquire("g"); !errors.As(err, &overload) || len(a.byKey) != 3 {
			t.Errorf("%v, %d connections", err, len(a.byKey))
		}
	})
}

func TestAUserWithManySessionsDoesNotEndThoseOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, own := testPool(t, 3)
		defer a.close()
		ada := must.Get(principal.New("https://issuer.example", "ada", ""))(t)
		bob := must.Get(principal.New("https://issuer.example", "bob", ""))(t)
		for _, key := range []audience{{user: ada, session: "a"}, {user: bob, session: "1"}, {user: bob, session: "2"},
			{user: bob, session: "3"}, {user: bob, session: "4"}} {
			a.release(must.Get(a.acquire(t.Context(), key, &Caller{}, own))(t))
			sleep(t.Context(), 1, nil)
		}
		must.CheckThat(t, a.byKey[audience{user: ada, session: "a"}] != nil &&
			a.byKey[audience{user: bob, session: "3"}] != nil && a.byKey[audience{user: bob, session: "4"}] != nil,
			"connections left: %v", a.byKey)
	})
}

// The connection of a session declares what its caller can answer. The connection of a user declares what some session
// of the user may answer. The connection for everyone declares nothing, unless the host asks callers.
func TestAConnectionDeclaresWhatItsAudienceCanAnswer(t *testing.T) {
	answers := &Caller{
		Elicit:    func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) { return nil, nil },
		ElicitURL: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) { return nil, nil },
		Sample: func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
			return nil, nil
		},
		SampleTools: true, Roots: func(context.Context) ([]mcp.Root, error) { return nil, nil },
	}
	ada := must.Get(principal.New("https://issuer.example", "ada", ""))(t)
	for kinds := range inputKinds(allInputKinds + 1) {
		caller := &Caller{}
		if kinds&formInput != 0 {
			caller.Elicit = answers.Elicit
		}
		if kinds&urlInput != 0 {
			caller.ElicitURL = answers.ElicitURL
		}
		if kinds&samplingInput != 0 {
			caller.Sample, caller.SampleTools = answers.Sample, kinds&samplingToolsInput != 0
		} else if kinds&samplingToolsInput != 0 {
			continue
		}
		if kinds&rootsInput != 0 {
			caller.Roots = answers.Roots
		}
		for _, c := range []struct {
			key     audience
			callers bool
			want    inputKinds
		}{
			{audience{user: ada, session: "1"}, false, kinds}, {audience{user: ada}, false, allInputKinds},
			{everyone, false, 0}, {everyone, true, allInputKinds},
		} {
			s := &supervisor{host: &Host{Callers: c.callers}}
			d := s.dialerFor(&connection{key: c.key}, caller)
			got := kindsOf(d.Elicit != nil, d.ElicitURL != nil, d.Sample != nil, d.SampleTools, d.Roots != nil)
			must.CheckEqual(t, got, c.want, c)
			must.CheckEqual(t, d.Shared, c.key == everyone)
		}
	}
}

// A message that names no request goes to the user of this machine while only requests of that user are in flight.
// On the connection of a user, it goes to the newest request or, if there is none, to the last caller.
func TestAMessageWithoutARequestHasTheCallerOfItsConnection(t *testing.T) {
	ada := must.Get(principal.New("https://issuer.example", "ada", ""))(t)
	of := func(name string) context.Context {
		return WithCaller(t.Context(), &Caller{Client: name, Local: name == "local"})
	}
	for _, c := range []struct {
		key  audience
		want string // expected after each step
	}{
		{everyone, "nobody local nobody local nobody"},
		{audience{user: ada}, "nobody local stranger local stranger"},
	} {
		on, got := &connection{key: c.key}, []string(nil)
		check := func() {
			name := "nobody"
			if caller := callerFrom(on.context(t.Context())); caller != nil {
				name = caller.Client
			}
			got = append(got, name)
		}
		check()
		local := on.begin(of("local"))
		check()
		stranger := on.begin(of("stranger"))
		check()
		on.end(stranger)
		check()
		on.end(local)
		check()
		must.CheckEqual(t, strings.Join(got, " "), c.want)
	}
}

// A question that names no request goes to the newest request without a question, moves on when that request is done,
// and ends when no request is in flight.
func TestAQuestionWithoutARequestMovesAndEndsWithTheRequests(t *testing.T) {
	on := &connection{key: audience{session: "1"}}
	of := func(name string) *pending { return on.begin(WithCaller(t.Context(), &Caller{Client: name})) }
	old, newest := of("old"), of("new")
	var asked []string
	name := func(ctx context.Context) string { return callerFrom(ctx).Client }
	answer := func(err error) func(context.Context) (*string, error) {
		return func(ctx context.Context) (*string, error) {
			if asked = append(asked, name(ctx)); name(ctx) == "new" {
				return nil, err
			}
			return new(name(ctx)), nil
		}
	}
	first := on.ask(t.Context())
	must.CheckEqual(t, name(first.ctx), "new")
	second := on.ask(t.Context())
	must.CheckEqual(t, name(second.ctx), "old")
	second.end(nil)
	third := on.ask(t.Context())
	must.CheckEqual(t, name(third.ctx), "old")
	third.end(nil)
	first.end(nil)
	got := must.Get(asking(t.Context(), on, answer(call.ErrCallDone)))(t)
	must.CheckEqual(t, *got+": "+strings.Join(asked, " "), "old: new old")
	last := on.ask(t.Context())
	on.end(old)
	must.Check(t, last.ctx.Err())
	on.end(newest)
	must.CheckIs(t, context.Cause(last.ctx), call.ErrCancelled)
	last.end(call.ErrCancelled)
	must.CheckEqual(t, len(on.questions), 0)
}

func TestHeadersThatMustNotBePassedOnAreErrors(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"Authorization", "X-Key: ${value}", "because it authorizes callers here"},
		{"authorization", "Authorization: ${value}", "because it authorizes callers here"},
		{"Cookie", "X-Key: ${value}", "Cookie must not be passed on"},
		{"X-Key", "cookie: ${value}", "Cookie must not be passed on"},
		{"X-Key", "Host: ${value}", "Host must not be passed on"},
		{"X-Key", "Connection: ${value}", "Connection must not be passed on"},
		{"X-Key", "transfer-encoding: ${value}", "must not be passed on"},
		{"Content-Type", "X-Key: ${value}", "must not be passed on"},
		{"X-Key", "content-length: ${value}", "must not be passed on"},
		{"Mcp-Session-Id", "X-Key: ${value}", "must not be passed on"},
		{"X-Key", "MCP-Protocol-Version: ${value}", "must not be passed on"},
		{"Proxy-Authorization", "X-Key: ${value}", "must not be passed on"},
		{"X-Forwarded-For", "X-Key: ${value}", "must not be passed on"},
		{"DPoP", "X-Key: ${value}", "must not be passed on"},
		{"X Key", "X-Key: ${value}", "must be the name of a header"},
		{"", "X-Key: ${value}", "must be the name of a header"},
		{"X-Key", ": ${value}", "must be the name of a header"},
		{"X-Key", "X-Key", `must have the form "NAME: ${value}"`},
		{"X-Key", "Authorization: Bearer s3cret", "must have the form"},
		{"X-Key", "Authorization: ${value} ${value}", "must have the form"},
		{"X-Key", "Authorization: ${TOKEN}${value}", "must have the form"},
		{"X-Key", "X-Key: ${value}\r\nX-Other: a", "must have the form"},
	} {
		config := &ServerConfig{Name: "up", CallerHeaders: map[string]string{c.from: c.to}}
		err := config.Check()
		must.CheckThat(t, err != nil && strings.Contains(err.Error(), c.want) &&
			!strings.Contains(err.Error(), "s3cret"), "%q: %q: %v, want %q", c.from, c.to, err, c.want)
	}
	many := map[string]string{}
	for i := range maxCallerHeaders + 1 {
		name := "X-" + strings.Repeat("a", i+1)
		many[name] = name + ": ${value}"
	}
	for _, headers := range []map[string]string{
		many,
		{"X-Key": "X-One: ${value}", "x-key": "X-Two: ${value}"},
		{"X-One": "X-Key: ${value}", "X-Two": "x-key: ${value}"},
	} {
		must.CheckThat(t, (&ServerConfig{Name: "up", CallerHeaders: headers}).Check() != nil,
			"no error for %q", headers)
	}
}

func TestCallerHeadersRequireAURLThatIsNotShared(t *testing.T) {
	url, headers := client.URL("https://mcp.example"), map[string]string{"X-Key": "Authorization: Bearer ${value}"}
	for want, config := range map[string]ServerConfig{
		"require a Target with a URL": {Target: client.Command("program")},
		"not SharingEveryone":         {Target: url, Sharing: SharingEveryone},
		"both CallerAuth and":         {Target: url, CallerAuth: &CallerAuth{}},
	} {
		config.Name, config.CallerHeaders = "up", headers
		must.CheckFails(t, (&Host{}).CheckServers([]ServerConfig{config}), want)
	}
}

// keyed returns a caller with the values of the header X-Key.
func keyed(user, session string, values ...string) *Caller {
	c := &Caller{Session: session}
	if user != "" {
		who, _ := principal.New("https://issuer.example", user, "")
		c.Auth = &auth.Info{Principal: who}
	}
	if values != nil {
		c.Header = http.Header{"X-Key": values}
	}
	return c
}

func newKeyed(t *testing.T, headers map[string]string) *supervisor {
	s := &supervisor{config: ServerConfig{Name: "up", CallerHeaders: headers,
		Target: &client.HTTPTarget{URL: "https://mcp.example"}}}
	s.callerHeaders = must.Get(s.config.callerHeaders())(t)
	return s
}

// Each of these callers uses a separate connection: they differ in the user, the session or the key.
func TestCallersWithDifferentKeysHaveDifferentConnections(t *testing.T) {
	s := newKeyed(t, map[string]string{"X-Key": "Authorization: ${value}", "X-Other": "X-Other: ${value}"})
	seen := map[audience]int{everyone: -1}
	other := keyed("ada", "1", "one")
	other.Header = http.Header{"X-Other": {"one"}}
	for i, c := range []*Caller{
		keyed("ada", "1", "one"), keyed("ada", "1", "two"), keyed("ada", "1"), keyed("ada", "2", "one"), other,
		keyed("ada", "", "one"), keyed("bob", "1", "one"), keyed("bob", "1"), keyed("bob", "", "one"),
		keyed("", "1", "one"), keyed("", "1"), keyed("", "", "one"), keyed("", "", "two"), keyed("", ""),
	} {
		key := must.Get(s.audienceOf(c, nil))(t)
		before, found := seen[key]
		must.CheckThat(t, !found, "callers %d and %d share a connection", before, i)
		seen[key] = i
		must.CheckThat(t, !strings.Contains(key.headers, "one") && !strings.Contains(key.headers, "two"),
			"the key of a connection has the key of the caller")
		must.CheckEqual(t, must.Get(s.audienceOf(c, nil))(t), key)
		must.CheckEqual(t, key.isShared(), c.Session == "" && c.Auth == nil)
	}
	must.CheckEqual(t, must.Get(s.audienceOf(keyed("ada", "1", ""), nil))(t),
		must.Get(s.audienceOf(keyed("ada", "1"), nil))(t))
	must.CheckEqual(t, must.Get(s.audienceOf(nil, nil))(t), everyone) // the program itself
}

func TestInvalidKeysOfCallersAreErrorsWithoutThem(t *testing.T) {
	s := newKeyed(t, map[string]string{"X-Key": "Authorization: ${value}"})
	for _, values := range [][]string{
		{"s3cret", "s3cret"}, {"s3cret\r\nX-Other: a"}, {"s3cret\x00"},
		{strings.Repeat("s3cret", maxCallerHeaderValue/6+1)},
	} {
		_, err := s.audienceOf(keyed("ada", "1", values...), nil)
		must.CheckThat(t, err != nil && strings.Contains(err.Error(), "X-Key") &&
			!strings.Contains(err.Error(), "s3cret"), "%.50q: %v", values, err)
	}
}

// The headers of the operator that keys replace are not sent for callers, however their names are written.
func TestKeysReplaceTheHeadersOfTheOperator(t *testing.T) {
	s := newKeyed(t, map[string]string{"x-key": "authorization: Bearer ${value}"})
	for want, c := range map[string]*Caller{"Bearer one": keyed("ada", "1", "one"), "": keyed("ada", "1")} {
		d := client.Dialer{Header: http.Header{"authorization": {"operator"}, "X-Kept": {"kept"}}, Auth: noAuthorizer{}}
		s.passHeaders(&d, c)
		must.CheckEqual(t, d.Header.Get("Authorization"), want)
		must.CheckEqual(t, d.Header.Get("X-Kept"), "kept")
		for name := range d.Header {
			must.CheckEqual(t, name, http.CanonicalHeaderKey(name))
		}
		must.CheckEqual(t, d.Auth, nil)
	}
}

// noAuthorizer is an authorizer of the operator.
type noAuthorizer struct{}

func (noAuthorizer) Authorize(*http.Request, string) error { return nil }

func (noAuthorizer) Reauthorize(*http.Request, string, *http.Response) (bool, error) {
	return false, nil
}
