package main

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/transport"
)

func TestErrorsOfCallingAreInPlainWords(t *testing.T) {
	incapable := func(capabilities string) error {
		return &jsonrpc.Error{
			Code: mcp.CodeMissingCapability, Message: "no",
			Data: json.RawMessage(`{"requiredCapabilities":` + capabilities + `}`),
		}
	}
	at := func(err error) error { return &client.DialError{Target: "https://example.com/mcp", Err: err} }
	for _, c := range []struct {
		err  error
		want string
	}{
		{incapable(`{"elicitation":{}}`), "run this at a terminal"},
		{incapable(`{"roots":{}}`), "--root"},
		{incapable(`{"sampling":{}}`), "parley has none"},
		{incapable(`{"extensions":{"com.example/x":{}}}`), "no (code -32021)"},
		{at(http.ErrSchemeMismatch), "the server at https://example.com/mcp does without TLS: write http://"},
		{at(x509.UnknownAuthorityError{}), "vouches for https://example.com/mcp"},
		{at(fmt.Errorf("lost: %w", &transport.ExitError{Code: 3})), ": the server process exited with code 3: is it an MCP server"},
		{errors.New("as it is"), "as it is"},
	} {
		if got := plainly(c.err); !strings.Contains(got, c.want) {
			t.Errorf("%v becomes %q, want %q in it", c.err, got, c.want)
		}
	}
}
