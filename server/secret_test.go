package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

func marked(parameter, header, more string) mcp.Tool {
	return mcp.Tool{Name: "t", InputSchema: json.RawMessage(fmt.Sprintf(
		`{"type":"object","properties":{%q:{"type":"string","x-mcp-header":%q%s},"other token":{"type":"string"}}}`, parameter, header, more))}
}

// Rule T24: a parameter that looks like a secret is not mirrored into a header.
func TestSecretsAreNotMirroredInHeaders(t *testing.T) {
	for _, name := range []string{
		"token", "access_token", "accessToken", "accesstoken", "AccessTOKEN", "APIKey", "api-key", "apikey", "api.key", "key", "password", "userPassword",
		"passwd", "client_secret", "secret2", "2secret", "credentials", "Authorization", "session-cookie", "pin", "otp", "jwt",
	} {
		s := new(server.Server)
		err := s.RegisterTool(marked(name, "X", ""), raw)
		if err == nil || !strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), `server.NotSecret("X")`) {
			t.Errorf("%s: %v", name, err)
		}
		if err := s.RegisterTool(marked(name, "X", ""), raw, server.NotSecret("x")); err != nil {
			t.Errorf("%s, which is no secret: %v", name, err)
		}
		if strings.ContainsAny(name, ".") {
			continue // not a valid header name
		}
		if err := new(server.Server).RegisterTool(marked("x", name, ""), raw); err == nil {
			t.Errorf("the header %s was taken", name)
		}
	}
	for _, name := range []string{"region", "tenant", "keyboard", "tokenizer", "monkey", "author", "secretary", "opinion", "hockey"} {
		if err := new(server.Server).RegisterTool(marked(name, "X", ""), raw); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Rule T24: a parameter that its schema marks as secret is a secret, whatever its name.
func TestWriteOnlyParametersAreNotMirroredInHeaders(t *testing.T) {
	for more, want := range map[string]string{`,"writeOnly":true`: "writeOnly", `,"format":"password"`: "password"} {
		if err := new(server.Server).RegisterTool(marked("region", "Region", more), raw); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", more, err)
		}
	}
	if err := new(server.Server).RegisterTool(marked("region", "Region", `,"writeOnly":false,"format":"hostname"`), raw); err != nil {
		t.Error(err)
	}
}

// Rule T24: a typed tool panics with the reason, and a NotSecret without effect is an error.
func TestASecretInATypedToolPanics(t *testing.T) {
	defer func() {
		if v := recover(); v == nil || !strings.Contains(fmt.Sprint(v), "looks like the name of a secret") {
			t.Errorf("panic: %v", v)
		}
	}()
	if err := new(server.Server).RegisterTool(marked("region", "Region", ""), raw, server.NotSecret("Other")); err == nil {
		t.Error("an exception for no parameter was taken")
	}
	server.AddTool(new(server.Server), marked("token2", "Token", ""), func(context.Context, map[string]any) (string, error) { return "", nil })
}
