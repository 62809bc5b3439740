package host

import (
	"net/http"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/principal"
)

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
