//go:build integration

package redisstore

import (
	"testing"

	"github.com/parley-mcp/parley/internal/principaltest"
)

// What a server has stored for one principal does not exist for another one.
func TestStoredThingsDoNotExistForOtherPrincipals(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		o := at(start(t, program).addr)
		principaltest.Run(t, connect(t, o), connect(t, o))
	})
}
