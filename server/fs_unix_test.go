//go:build unix

package server_test

import (
	"context"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// Rule Y2: files that are not regular are neither listed nor read: opening a pipe would block until its
// other end is open.
func TestPipesAreNotRead(t *testing.T) {
	dir, root := tree(t, map[string]string{"file": "text"})
	must.Do(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	s := quiet()
	server.AddFS(s, "file:///d/", root, server.FSOptions{})
	c := mcptest.Dial(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	must.CheckIs(t, must.Err(c.ReadResource(ctx, "file:///d/pipe")), call.ErrResourceNotFound)
	got := served(t, c, "file:///d/")
	must.CheckThat(t, slices.Equal(got, []string{"file"}), "listed: %q", got)
}
