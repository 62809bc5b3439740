package main

import (
	"encoding/base64"
	"net/http"
	"testing"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/internal/replicatest"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

func basic(credentials string) []string {
	return []string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(credentials))}
}

// Nothing of one user exists for another user.
func TestUsersCannotUseWhatOthersHave(t *testing.T) {
	users := parseUsers("ada=" + auth.HashKey("ada's") + " bob=" + auth.HashKey("bob's") + " eve=")
	memory := store.NewMemory()
	replicatest.Principals(t, memory, memory, replicatest.Door{
		Protect: func(s *server.Server) http.Handler { return users.authenticate(s) },
		Headers: func(user string) []string { return basic(user + ":" + user + "'s") },
		Strangers: map[string][]string{
			"nobody": nil, "no password": basic("ada:"), "no colon": basic("ada"), "password of bob": basic("ada:bob's"),
			"unknown user": basic("mallory:"), "user without a password": basic("eve:"), "nameless": basic(":"),
			"digest": basic("ada:" + auth.HashKey("ada's")), "bearer": {"Authorization", "Bearer ada"},
		},
	})
}
