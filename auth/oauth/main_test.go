package oauth_test

import (
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
