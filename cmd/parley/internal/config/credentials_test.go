package config

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCredentialsAreRead(t *testing.T) {
	for text, want := range map[string]*Credentials{
		`{"type": "callerLogin"}`: {Type: CallerLogin},
		`{"type": "callerLogin", "networks": ["10.0.0.0/8", "fd00::/8"]}`: {
			Type: CallerLogin, Networks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")},
		},
		`{"type": "callerLogin", "clientId": "id", "clientSecret": "${SECRET}"}`: {Type: CallerLogin, ClientID: "id", ClientSecret: "hunter2"},
		`{"type": "tokenExchange", "tokenEndpoint": "https://as.example/token", "clientId": "id", "clientSecret": "${SECRET}", "audience": "api", "scopes": ["a", "b"], "subjectTokenType": "urn:x"}`: {
			Type: TokenExchange, TokenEndpoint: "https://as.example/token", ClientID: "id", ClientSecret: "hunter2", Audience: "api", Scopes: []string{"a", "b"}, SubjectTokenType: "urn:x",
		},
		`{"type": "enterprise", "issuer": "https://idp.example", "clientId": "id", "clientSecret": "${SECRET}", "serverIssuer": "https://as.example", "serverClientId": "other", "serverClientSecret": "${SECRET}"}`: {
			Type: Enterprise, Issuer: "https://idp.example", ClientID: "id", ClientSecret: "hunter2", ServerIssuer: "https://as.example", ServerClientID: "other", ServerClientSecret: "hunter2",
		},
	} {
		data := `{"$schema": "` + SchemaURI + `", "mcpServers": {"up": {"url": "https://mcp.example/mcp", "credentials": ` + text + `}}}`
		if err := validate(t, []byte(data)); err != nil {
			t.Errorf("the schema rejects %s: %v", text, err)
		}
		c, err := Parse("/", "f", []byte(data))
		if err != nil || len(c.Warnings)+len(c.Problems) > 0 {
			t.Fatalf("%s: %v %v %v", text, err, c.Warnings, c.Problems)
		}
		values := &Values{Env: func(name string) (string, bool) { return "hunter2", name == "SECRET" }}
		got, err := c.Servers[0].CallerCredentials(values)
		if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); err != nil || diff != "" {
			t.Errorf("%s: %v %s", text, err, diff)
		}
	}
}

func TestInvalidCredentialsAreReported(t *testing.T) {
	const url = `"url": "https://mcp.example/mcp", `
	for server, want := range map[string]string{
		`{` + url + `"credentials": {}}`:                                                                           `credentials must have the type "callerLogin", "tokenExchange" or "enterprise"`,
		`{` + url + `"credentials": {"type": "static"}}`:                                                           `credentials must have the type`,
		`{` + url + `"credentials": {"type": "callerLogin", "issuer": "https://as.example"}}`:                      `must not have members other than clientId, clientSecret and networks`,
		`{` + url + `"credentials": {"type": "callerLogin", "clientSecret": "x"}}`:                                 `must have a clientId`,
		`{` + url + `"credentials": {"type": "callerLogin", "scopes": ["a"]}}`:                                     `must not have scopes`,
		`{` + url + `"credentials": {"type": "tokenExchange"}}`:                                                    `must have an issuer or a tokenEndpoint`,
		`{` + url + `"credentials": {"type": "tokenExchange", "issuer": "https://a", "serverClientId": "x"}}`:      `must not have serverIssuer`,
		`{` + url + `"credentials": {"type": "enterprise", "issuer": "https://a"}}`:                                `must have issuer, serverClientId and serverClientSecret`,
		`{` + url + `"sharing": "shared", "credentials": {"type": "callerLogin"}}`:                                 `sharing is not "shared"`,
		`{` + url + `"credentials": {"type": "callerLogin", "networks": ["10.0.0.1"]}}`:                            `"10.0.0.1" must be a network`,
		`{` + url + `"credentials": {"type": "tokenExchange", "issuer": "https://a", "networks": ["10.0.0.0/8"]}}`: `must not have networks`,
		`{"command": "program", "credentials": {"type": "callerLogin"}}`:                                           `credentials require a url`,
	} {
		c, err := Parse("/", "f", []byte(`{"mcpServers": {"up": `+server+`}}`))
		if err != nil || len(c.Problems) != 1 || !strings.Contains(c.Problems[0].Err.Error(), want) {
			t.Errorf("%s: %v, %v, want %s", server, err, c.Problems, want)
		}
	}
}
