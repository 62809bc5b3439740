// Command apikeys is a server over HTTP whose callers have API keys, without an authorization
// server. The environment variable API_KEYS has the callers and their keys.
//
//	API_KEYS='ada=4c6f7665 nightly=6c616365' go run ./examples/apikeys -http 127.0.0.1:8080
//	parley call http://127.0.0.1:8080/mcp whoami --header 'Authorization: Bearer 4c6f7665'
package main

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"os"
	"strings"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

// keys are the digests of the API keys, by caller.
type keys map[string][sha256.Size]byte

func parseKeys(text string) keys {
	k := keys{}
	for _, pair := range strings.Fields(text) {
		if caller, key, ok := strings.Cut(pair, "="); ok && caller != "" && key != "" {
			k[caller] = sha256.Sum256([]byte(key))
		}
	}
	return k
}

// Verify implements auth.Verifier. It compares digests, and always all of them, so that the time
// that it takes tells nothing about the keys.
func (k keys) Verify(_ context.Context, key string) (*auth.Info, error) {
	digest := sha256.Sum256([]byte(key))
	found := ""
	for caller, known := range k {
		if subtle.ConstantTimeCompare(digest[:], known[:]) == 1 {
			found = caller
		}
	}
	if found == "" {
		return nil, &auth.InvalidTokenError{Reason: "unknown API key"}
	}
	who, err := principal.New("apikeys", found, "") // the issuer is any name for the holders of these keys
	return &auth.Info{Principal: who}, err
}

func main() {
	s := &server.Server{
		Name: "apikeys", Version: "1.0.0",
		Auth: &auth.ProtectedResource{Verifier: parseKeys(os.Getenv("API_KEYS"))}, // no Issuers
	}
	server.AddTool(s, mcp.Tool{Name: "whoami", Description: "Name the caller"},
		func(ctx context.Context, _ struct{}) (string, error) {
			return server.PrincipalOf(ctx).Subject(), nil
		})
	server.Main(s)
}
