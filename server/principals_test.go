package server_test

import (
	"testing"

	"github.com/parley-mcp/parley/internal/principaltest"
	"github.com/parley-mcp/parley/store"
)

// Rules K1, K6, T9, M2: what a server has stored for one principal does not exist for another one.
func TestStoredThingsDoNotExistForOtherPrincipals(t *testing.T) {
	memory := store.NewMemory(store.MemoryOptions{})
	principaltest.Run(t, memory, memory)
}
