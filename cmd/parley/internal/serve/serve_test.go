package serve

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// A deployment makes a symbolic link lead to the next version of a directory.
func TestFilesAreThoseOfTheDirectoryToWhichALinkLeadsNow(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "current")
	release := func(version string) {
		t.Helper()
		must.Do(t, os.Mkdir(filepath.Join(dir, version), 0o700))
		must.Do(t, os.WriteFile(filepath.Join(dir, version, "a.txt"), []byte(version), 0o600))
		must.Do(t, os.WriteFile(filepath.Join(dir, version, version+".txt"), nil, 0o600))
		must.Do(t, os.Symlink(version, link+".new"))
		must.Do(t, os.Rename(link+".new", link))
	}
	release("v1")
	s := &server.Server{Logger: slog.New(slog.DiscardHandler)}
	served := must.Get((&dirFlag{dirs: []string{link}}).serve(s, s.Logger))(t)
	defer served.Close()
	c := mcptest.Dial(t, s)
	uri := ""
	for r, err := range c.Resources(t.Context()) {
		must.Do(t, err)
		if r.Name == "a.txt" {
			uri = r.URI
		}
	}
	read := func() string {
		t.Helper()
		return must.Get(c.ReadResource(t.Context(), uri, client.WithRefresh()))(t).Contents[0].Text
	}
	versions := []string{"v1", "v2", "v3", "v4"}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for change, err := range c.Watch(ctx, client.WatchFilter{URIs: []string{uri}}) {
		must.Do(t, err)
		if !change.Resync && read() != versions[0] {
			continue // a change of the version before
		}
		must.CheckEqual(t, read(), versions[0], "contents")
		if versions = versions[1:]; len(versions) == 0 {
			return
		}
		release(versions[0])
	}
	t.Fatalf("no client was notified of %v", versions)
}
