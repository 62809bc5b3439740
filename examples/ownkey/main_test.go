package main

import (
	"net/http"
	"testing"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/replicatest"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// Nothing of one user exists for another user.
func TestUsersCannotUseWhatOthersHave(t *testing.T) {
	users := must.Get(parseKeys("ada=" + auth.HashKey("key of ada") + " bob=" + auth.HashKey("key of bob")))(t)
	memory := store.NewMemory()
	replicatest.Principals(t, memory, memory, replicatest.Door{
		Protect: func(s *server.Server) http.Handler { return users.authenticate(s) },
		Headers: func(user string) []string { return []string{"X-Company-Key", "key of " + user} },
		Strangers: map[string][]string{
			"no key": nil, "empty key": {"X-Company-Key", ""}, "wrong key": {"X-Company-Key", "key of ad"},
			"digest": {"X-Company-Key", auth.HashKey("key of ada")}, "bearer": {"Authorization", "Bearer key of ada"},
			"another first": {"X-Company-Key", "x", "X-Company-Key", "key of ada"},
		},
	})
}
