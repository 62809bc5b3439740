package oauth

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
)

// TokenStore stores the credentials of one user. Keys contain URLs and no secrets, and are at most a few kilobytes
// long. Values are secrets of up to 256 KiB, which only the user must be able to read. A TokenStore must be safe for
// concurrent use. Package tokenstore stores them in an encrypted file.
type TokenStore interface {
	// Load returns the value of a key, or nil if there is none. The caller owns the value.
	Load(ctx context.Context, key string) ([]byte, error)
	// Save sets the value of a key, and must not retain value. Nil deletes the key.
	Save(ctx context.Context, key string, value []byte) error
	// Lock locks a key until unlock is called, for all goroutines and processes that share the store, so that only one
	// of them uses a refresh token or logs in. When a process ends, its locks are released. Load and Save do not need
	// the lock.
	Lock(ctx context.Context, key string) (unlock func(), err error)
}

// Keys of a store. A token belongs to an issuer and a resource, a client to an issuer.
// The record of an MCP server leads to its token: see record.tokenKey.
func serverKey(server string) string { return "server " + server }
func clientKey(issuer string) string { return "client " + issuer }

// record is the stored result of discovery for an MCP server.
type record struct {
	Issuer   string `json:"issuer"`
	Resource string `json:"resource,omitzero"` // exactly as it stands in the metadata
	Fallback bool   `json:"fallback,omitzero"` // found by the rules of 2025-03-26
}

// tokenKey returns the key of the token for an MCP server. Without resource metadata, the
// token is only for this server, and not for others on the same host.
func (r *record) tokenKey(server string) string {
	resource := r.Resource
	if resource == "" {
		resource = server
	}
	return "token " + r.Issuer + " " + resource
}

// load loads a value. It returns nil if there is none, or if it cannot be decoded.
func load[T any](ctx context.Context, s TokenStore, key string) (*T, error) {
	raw, err := s.Load(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("token store: %w", err)
	}
	if len(raw) == 0 {
		return nil, nil
	}
	v := new(T)
	if json.Unmarshal(raw, v) != nil {
		return nil, nil // written by another version of this package
	}
	return v, nil
}

func save(ctx context.Context, s TokenStore, key string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return errors.New("token store: cannot encode a value")
	}
	if err := s.Save(ctx, key, raw); err != nil {
		return fmt.Errorf("token store: %w", err)
	}
	return nil
}

func remove(ctx context.Context, s TokenStore, key string) error {
	if err := s.Save(ctx, key, nil); err != nil {
		return fmt.Errorf("token store: %w", err)
	}
	return nil
}
