package auth_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/internal/challenge"
	"github.com/parley-mcp/parley/principal"
)

// Rules R3, R6: no output, log or error contains a token or a claim.
func TestTokensAndClaimsAreNotPrinted(t *testing.T) {
	const canary = "planted-canary-token"
	var output bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&output, &slog.HandlerOptions{Level: slog.LevelDebug}))
	ada, _ := principal.New(issuers[0], "ada", "")
	for name, verify := range map[string]auth.VerifierFunc{
		"invalid": func(_ context.Context, token string) (*auth.Info, error) { return nil, errors.New("unknown: " + token) },
		"unavailable": func(_ context.Context, token string) (*auth.Info, error) {
			return nil, fmt.Errorf("%w: GET /?token=%s", auth.ErrUnavailable, token)
		},
		"valid": func(context.Context, string) (*auth.Info, error) {
			return &auth.Info{Principal: ada, Audience: []string{self}, Claims: json.RawMessage(`{"email":"planted-canary-mail"}`)}, nil
		},
	} {
		p := &auth.ProtectedResource{URI: self, Issuers: issuers, Verifier: verify}
		info, rejection, response := present(p, "Bearer", canary)
		fmt.Fprintf(&output, "%s: %v %+v %#v %s", name, info, info, info, response)
		logger.Info("verified", "info", info)
		if info != nil {
			ctx := auth.NewContext(t.Context(), info)
			fmt.Fprintf(&output, "%v %+v %#v", ctx, auth.FromContext(ctx), struct{ ctx context.Context }{ctx})
			fmt.Fprintf(&output, "%+v %#v", struct{ info auth.Info }{*info}, []any{*info, info})
			if got := challenge.Token(ctx); got != canary {
				t.Errorf("token of the request: %q", got)
			}
		}
		if rejection != nil {
			fmt.Fprintf(&output, "%+v %v", *rejection, rejection.Err)
			logger.Info("rejected", "rejection", rejection)
		}
	}
	if text := output.String(); strings.Contains(text, "planted-canary") {
		t.Errorf("%s", text)
	}
}
