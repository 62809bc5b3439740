//go:build integration

package interop

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
)

// One parley up presents four npm servers, ours and servers made with two other Go libraries to clients of both eras.
func TestGatewayPresentsServersOfManyOrigins(t *testing.T) {
	parley := buildProgram(t, "../cmd/parley", "")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "note.txt"), []byte("Grüße"), 0o600); err != nil {
		t.Fatal(err)
	}
	command := func(line []string, env ...string) map[string]any {
		return map[string]any{"command": "env", "args": append(env, line...)}
	}
	servers := map[string]any{
		"everything":  command(published(t, "server-everything", "stdio")),
		"files":       command(published(t, "server-filesystem", dir)),
		"memory":      command(published(t, "server-memory"), "MEMORY_FILE_PATH="+filepath.Join(dir, "memory.jsonl")),
		"thinking":    command(published(t, "server-sequential-thinking")),
		"demo":        map[string]any{"url": startParley(t, parley, "serve")},
		"conformance": map[string]any{"url": listen(t, []string{buildProgram(t, "../conformance/server", ""), "-listen", "127.0.0.1:0"})},
		"gosdk":       map[string]any{"url": listen(t, []string{buildProgram(t, "./gosdk", "gopeers")})},
		"mcpgo":       command([]string{buildProgram(t, "./mcpgo", "gopeers")}),
	}
	config, err := json.Marshal(map[string]any{"mcpServers": servers})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "mcp.json")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		t.Fatal(err)
	}
	url := startParley(t, parley, "up", "--config", file)
	for _, revision := range []mcp.Revision{mcp.V20251125, mcp.V20260728} {
		t.Run(string(revision), func(t *testing.T) {
			c := dial(t, &client.Dialer{Revision: revision}, client.URL(url))
			awaitToolsOf(t, c, servers)
			for tool, call := range map[string]struct {
				arguments any
				want      string // in the text of the result
			}{
				"everything__echo":              {map[string]any{"message": "héllo"}, "héllo"},
				"files__read_text_file":         {map[string]any{"path": filepath.Join(dir, "note.txt")}, "Grüße"},
				"memory__read_graph":            {nil, "entities"},
				"thinking__sequentialthinking":  {map[string]any{"thought": "one", "nextThoughtNeeded": false, "thoughtNumber": 1, "totalThoughts": 1}, "thoughtNumber"},
				"demo__greet":                   {map[string]any{"name": "Ada"}, "Ada"},
				"conformance__test_simple_text": {nil, "simple text"},
				"gosdk__echo":                   {map[string]any{"text": "héllo"}, "héllo"},
				"mcpgo__echo":                   {map[string]any{"text": "héllo"}, "héllo"},
			} {
				result, err := c.CallTool(t.Context(), tool, call.arguments)
				if err != nil || result.IsError || !strings.Contains(textOf(result.Content), call.want) {
					t.Errorf("%s: %+v, %v, want a text with %q", tool, result, err, call.want)
				}
			}
		})
	}
}

// buildProgram compiles a program of the workspace, or of the module in the folder module.
func buildProgram(t *testing.T, pkg, module string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), filepath.Base(pkg))
	cmd := exec.Command("go", "build", "-o", file, pkg)
	if module != "" {
		cmd.Dir, cmd.Env = module, append(os.Environ(), "GOWORK=off")
	}
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", pkg, err, output)
	}
	return file
}

// startParley runs the program until the end of the test, and returns the URL that it prints.
func startParley(t *testing.T, program string, args ...string) (url string) {
	t.Helper()
	cmd := exec.Command(program, append(args, "--addr", "127.0.0.1:0")...)
	cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+t.TempDir())
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	printed := make(chan string, 1)
	var output strings.Builder
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		defer close(printed)
		found := false
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			output.WriteString(lines.Text() + "\n")
			if i := strings.Index(lines.Text(), "http://"); i >= 0 && !found {
				found = true
				printed <- strings.TrimSpace(lines.Text()[i:])
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		timeout := time.AfterFunc(peerTimeout, func() { _ = cmd.Process.Kill() })
		<-drained
		err := cmd.Wait()
		timeout.Stop()
		if err != nil {
			t.Errorf("parley %s: %v", args[0], err)
		}
		if t.Failed() {
			t.Logf("parley %s wrote\n%s", args[0], output.String())
		}
	})
	return await(t, printed)
}

// awaitToolsOf waits until the gateway lists tools of all servers.
func awaitToolsOf(t *testing.T, c *client.Client, servers map[string]any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), peerTimeout)
	defer cancel()
	missing := make(map[string]bool)
	for _, err := range c.Watch(ctx, client.WatchFilter{Tools: true}) {
		if err != nil {
			break
		}
		for name := range servers {
			missing[name] = true
		}
		for tool, err := range c.Tools(ctx, client.WithRefresh()) {
			if err != nil {
				t.Fatal(err)
			}
			server, _, _ := strings.Cut(tool.Name, "__")
			delete(missing, server)
		}
		if len(missing) == 0 {
			return
		}
	}
	t.Fatalf("the gateway lists no tools of %v", missing)
}
