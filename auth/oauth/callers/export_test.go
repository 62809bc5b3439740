package callers

import (
	"log/slog"

	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/internal/seal"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

// MaxClients is the maximum number of callers whose tokens are kept.
const MaxClients = maxClients

// NewBrokerStore returns the store of a user for a server.
func NewBrokerStore(kv store.Store, user, server string) oauth.TokenStore {
	who, _ := principal.New("https://as.example", user, "")
	seals, _ := seal.New(make([]byte, seal.KeySize))
	return &loginStore{values{seals.Store(kv, slog.New(slog.DiscardHandler))}, who, server}
}

// LockKey returns the key of the lock of a key in the KV.
func LockKey(s oauth.TokenStore, key string) string { return s.(*loginStore).key(key) + "/lock" }
