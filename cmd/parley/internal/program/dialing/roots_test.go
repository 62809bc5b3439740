package dialing

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/cmd/parley/internal/servers/config"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
)

func TestRootOfReturnsAFileURI(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "my project")
	must.CheckFails(t, must.Err(RootOf(dir)), "no such file or directory", "error for a missing directory")
	root, err := RootOf(".")
	must.CheckThat(t, err == nil && strings.HasPrefix(root.URI, "file:///") && root.Name != "." && root.Name != "",
		"rootOf(.) = %+v, %v", root, err)
	must.CheckFails(t, must.Err(RootOf("roots_test.go")), "must be a directory", "error for a file")
}

func TestRootsOfAServerAreItsDirectories(t *testing.T) {
	dir := t.TempDir()
	c, err := config.Parse("/", dir+"/mcp.json",
		[]byte(`{"mcpServers":{"a":{"url":"http://x","roots":["."],"trusted":true},"b":{"url":"http://x","roots":[]},`+
			`"c":{"url":"http://x"},"d":{"url":"http://x","roots":["missing"]}}}`))
	must.Do(t, err)
	var got [][]mcp.Root
	for i := range c.Servers[:3] {
		got = append(got, must.Get(SettingsOf(&c.Servers[i], &config.Values{}))(t).Roots)
	}
	must.CheckThat(t, len(got[0]) == 1 && got[0][0].URI == "file://"+dir && got[1] != nil && len(got[1]) == 0 &&
		got[2] == nil && c.Servers[0].Trusted && !c.Servers[1].Trusted, "roots: %+v", got)
	if _, err := SettingsOf(&c.Servers[3], &config.Values{}); err == nil || !strings.HasPrefix(err.Error(), "roots: ") {
		t.Errorf("missing directory: %v", err)
	}
}
