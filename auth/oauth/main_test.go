package oauth_test

import (
	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/auth/oauth/internal/oauthtest"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs the tests. If a test has started this binary, it runs refreshInChild.
func TestMain(m *testing.M) {
	if path := os.Getenv(childVariable); path != "" {
		os.Exit(refreshInChild(path))
	}
	goleak.VerifyTestMain(m)
}

// environment is an [oauthtest.Environment] that records the addresses that its clients dial.
type environment struct {
	*oauthtest.Environment
	t testing.TB
}

func newEnvironment(t testing.TB) *environment {
	w := &environment{oauthtest.New(t), t}
	w.ObserveDials = oauth.ObserveDials
	return w
}
