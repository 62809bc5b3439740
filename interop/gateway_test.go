//go:build integration

package interop

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/auth/devissuer"
	"github.com/parley-mcp/parley/auth/jwt"
	"github.com/parley-mcp/parley/auth/oauth"
	"github.com/parley-mcp/parley/auth/oauth/tokenstore"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/logintest"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// One parley up presents four npm servers, ours and servers made with two other Go libraries to clients of both eras.
func TestGatewayPresentsServersOfManyOrigins(t *testing.T) {
	parley := buildProgram(t, "../cmd/parley", "")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must.Do(t, err)
	must.Do(t, os.WriteFile(filepath.Join(dir, "note.txt"), []byte("Grüße"), 0o600))
	command := func(line []string, env ...string) map[string]any {
		return map[string]any{"command": "env", "args": append(env, line...)}
	}
	servers := map[string]any{
		"everything": command(published(t, "server-everything", "stdio")),
		"files":      command(published(t, "server-filesystem", dir)),
		"memory":     command(published(t, "server-memory"), "MEMORY_FILE_PATH="+filepath.Join(dir, "memory.jsonl")),
		"thinking":   command(published(t, "server-sequential-thinking")),
		"demo":       map[string]any{"url": startParley(t, parley, "serve")},
		"conformance": map[string]any{"url": listen(t, []string{buildProgram(t, "../conformance/server", ""), "-listen",
			"127.0.0.1:0"})},
		"gosdk": map[string]any{"url": listen(t, []string{buildProgram(t, "./gosdk", "gopeers")})},
		"mcpgo": command([]string{buildProgram(t, "./mcpgo", "gopeers")}),
	}
	config, err := json.Marshal(map[string]any{"mcpServers": servers})
	must.Do(t, err)
	file := filepath.Join(dir, "mcp.json")
	must.Do(t, os.WriteFile(file, config, 0o600))
	url := startParley(t, parley, "up", "--config", file)
	for _, revision := range []mcp.Revision{mcp.V20251125, mcp.V20260728} {
		t.Run(string(revision), func(t *testing.T) {
			c := dial(t, &client.Dialer{Revision: revision}, client.URL(url))
			awaitToolsOf(t, c, servers)
			for tool, call := range map[string]struct {
				arguments any
				want      string // in the text of the result
			}{
				"everything__echo":      {map[string]any{"message": "héllo"}, "héllo"},
				"files__read_text_file": {map[string]any{"path": filepath.Join(dir, "note.txt")}, "Grüße"},
				"memory__read_graph":    {nil, "entities"},
				"thinking__sequentialthinking": {map[string]any{"thought": "one", "nextThoughtNeeded": false,
					"thoughtNumber": 1, "totalThoughts": 1}, "thoughtNumber"},
				"demo__greet":                   {map[string]any{"name": "Ada"}, "Ada"},
				"conformance__test_simple_text": {nil, "simple text"},
				"gosdk__echo":                   {map[string]any{"text": "héllo"}, "héllo"},
				"mcpgo__echo":                   {map[string]any{"text": "héllo"}, "héllo"},
			} {
				result, err := c.CallTool(t.Context(), tool, call.arguments)
				must.CheckThat(t, err == nil && !result.IsError && strings.Contains(textOf(result.Content), call.want),
					"%s: %+v, %v, want a text with %q", tool, result, err, call.want)
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
	output, err := cmd.CombinedOutput()
	must.That(t, err == nil, "build %s: %v\n%s", pkg, err, output)
	return file
}

// startParley runs the program until the end of the test, and returns the URL that it prints.
func startParley(t *testing.T, program string, args ...string) (url string) {
	t.Helper()
	cmd := exec.Command(program, append(args, "--addr", "127.0.0.1:0")...)
	cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+t.TempDir())
	stderr := must.Get(cmd.StderrPipe())(t)
	must.Do(t, cmd.Start())
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
	return must.Receive(t, printed, "the address")
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
			must.Do(t, err)
			server, _, _ := strings.Cut(tool.Name, "__")
			delete(missing, server)
		}
		if len(missing) == 0 {
			return
		}
	}
	t.Fatalf("the gateway lists no tools of %v", missing)
}

// The OAuth clients of the SDKs register with the issuer that our server names, log in with PKCE and the resource,
// request a scope when the server requires it, and refresh a rejected token.
func TestTheirClientsLogInToOurServer(t *testing.T) {
	for name, peer := range map[string][]string{
		"v1":        {"v1-client.mjs"},
		"v2 legacy": {"v2-client.mjs", "--era", "legacy"},
		"v2 modern": {"v2-client.mjs", "--era", "modern"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			issuer := newIssuer(t)
			s := &server.Server{
				Name:   "interop-parley",
				Logger: slog.New(slog.DiscardHandler),
				Auth:   jwt.Protect(&auth.ProtectedResource{Issuers: []string{issuer.URL()}, Scopes: []string{"mcp"}}),
			}
			server.AddTool(s, mcp.Tool{Name: "whoami"}, func(ctx context.Context, _ struct{}) (string, error) {
				return server.PrincipalOf(ctx).Subject(), nil
			})
			server.AddTool(s, mcp.Tool{Name: "secret"}, func(context.Context,
				struct{}) (string, error) {
				return "secret text", nil
			},
				server.RequireScopes("files:write"))
			endpoint := httptest.NewServer(s)
			t.Cleanup(endpoint.Close)
			t.Cleanup(endpoint.CloseClientConnections)
			resource := endpoint.URL + "/mcp"

			var seen struct {
				Rejected, Whoami, Insufficient, Secret, Refreshed callObservation
				Opened                                            []string
				Saved                                             int
			}
			run(t, node(t, peer[0], slices.Concat([]string{"--browser", newBrowser(t)}, peer[1:],
				[]string{"http", resource})...), &seen)
			must.CheckThat(t, seen.Rejected.Error != nil && seen.Insufficient.Error != nil,
				"without a token: %+v, without the scope: %+v", seen.Rejected, seen.Insufficient)
			for what, got := range map[string]callObservation{"ada": seen.Whoami, "secret text": seen.Secret,
				"ada ": seen.Refreshed} {
				must.CheckThat(t, got.text() == strings.TrimSpace(what), "%+v, want %s", got, what)
			}
			must.That(t, len(seen.Opened) == 2 && seen.Saved == 3,
				"opened %v and got %d tokens, want 2 and 3", seen.Opened, seen.Saved)
			for i, scopes := range []string{"mcp", "files:write mcp"} {
				page := must.Get(url.Parse(seen.Opened[i]))(t)
				q := page.Query()
				asked := strings.Fields(q.Get("scope"))
				slices.Sort(asked)
				must.CheckThat(t, q.Get("code_challenge_method") == "S256" && q.Get("resource") == resource &&
					strings.Join(asked, " ") == scopes, "login %d requests %v, want the scopes %s", i+1, q, scopes)
			}
		})
	}
}

// Our OAuth client does the same with servers that use the middleware of the SDKs.
func TestOurClientLogsInToTheirServers(t *testing.T) {
	for name, tt := range map[string]struct {
		server   string
		revision mcp.Revision
	}{
		"v1": {"v1-server.mjs", mcp.V20251125},
		"v2": {"v2-server.mjs", mcp.V20260728},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			issuer := newIssuer(t)
			resource := listen(t, node(t, tt.server, "--issuer", issuer.URL(), "http", "0"))
			var mu sync.Mutex
			var opened []url.Values
			browser := &logintest.Browser{User: "ada"}
			tokens := new(tokenstore.Memory)
			login := &oauth.Client{
				Name:   "interop",
				Store:  tokens,
				Logger: slog.New(slog.DiscardHandler),
				Interaction: &logintest.Interaction{
					RedirectURI: "http://127.0.0.1/callback",
					Open: func(ctx context.Context, page string) (string, error) {
						mu.Lock()
						defer mu.Unlock()
						if u, err := url.Parse(page); err == nil {
							opened = append(opened, u.Query())
						}
						return browser.Authorize(ctx, page)
					},
				},
			}
			c := dial(t, &client.Dialer{Auth: login}, client.URL(resource))
			if c.Revision() != tt.revision {
				t.Errorf("revision %s, want %s", c.Revision(), tt.revision)
			}
			call := func(c *client.Client, tool, want string) {
				t.Helper()
				text, err := client.CallTool[string](t.Context(), c, tool, nil)
				must.CheckThat(t, err == nil && text == want, "%s: %q, %v, want %s", tool, text, err, want)
			}
			call(c, "whoami", "ada")
			call(c, "secret", "secret text")
			call(c, "expire", "expired")
			// A restarted program without a user refreshes the rejected token.
			unattended := &oauth.Client{Store: tokens, Logger: slog.New(slog.DiscardHandler)}
			call(dial(t, &client.Dialer{Auth: unattended}, client.URL(resource)), "secret", "secret text")
			must.That(t, len(opened) == 2, "%d logins, want 2: %v", len(opened), opened)
			for i, scopes := range []string{"mcp", "files:write mcp"} {
				asked := strings.Fields(opened[i].Get("scope"))
				slices.Sort(asked)
				must.CheckThat(t, opened[i].Get("resource") == resource && strings.Join(asked, " ") == scopes,
					"login %d requests %v, want the scopes %s", i+1, opened[i], scopes)
			}
		})
	}
}

func newIssuer(t *testing.T) *devissuer.Issuer {
	t.Helper()
	issuer, err := devissuer.Start(devissuer.Config{Users: []string{"ada"}, Scopes: []string{"mcp", "files:write"}})
	must.Do(t, err)
	t.Cleanup(func() { _ = issuer.Close() })
	return issuer
}

// newBrowser returns the URL of a server that does what a browser and its user do: it returns the URL that the issuer
// redirects to.
func newBrowser(t *testing.T) string {
	t.Helper()
	browser := &logintest.Browser{User: "ada"}
	var mu sync.Mutex
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		callback, err := browser.Authorize(r.Context(), r.URL.Query().Get("page"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		_, _ = io.WriteString(w, callback)
	}))
	t.Cleanup(s.Close)
	return s.URL
}
