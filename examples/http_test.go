package examples

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/logintest"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/transport"
)

var servedURL = regexp.MustCompile(`https?://[^;"\s]+`)

// overHTTP runs an example that serves HTTP on the address of a flag. It returns the URL, and a
// function that interrupts the example and returns the rest of its output.
func overHTTP(t *testing.T, name, addressFlag string, args ...string) (url string, stop func() string) {
	t.Helper()
	cmd := exec.Command(binary(name), append([]string{addressFlag, "127.0.0.1:0"}, args...)...)
	stderr := must.Get(cmd.StderrPipe())(t)
	must.Do(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	lines := bufio.NewReader(stderr)
	first, err := lines.ReadString('\n')
	if url = servedURL.FindString(first); err != nil || url == "" {
		t.Fatalf("%q, %v", first, err)
	}
	return url, func() string {
		if runtime.GOOS == "windows" { // cannot interrupt another process
			_ = cmd.Process.Kill()
		} else {
			_ = cmd.Process.Signal(os.Interrupt)
		}
		rest, _ := io.ReadAll(lines)
		if err := cmd.Wait(); err != nil && runtime.GOOS != "windows" {
			t.Errorf("the example failed after an interrupt: %v\n%s", err, rest)
		}
		return string(rest)
	}
}

func TestHelloOverHTTP(t *testing.T) {
	t.Setenv("PORT", "0")
	url, _ := overHTTP(t, "hellohttp", "-addr")
	c := must.Get(client.Dial(t.Context(), client.URL(url)))(t)
	text, err := client.CallTool[string](t.Context(), c, "greet", map[string]string{"Name": "Ada"})
	if err != nil || text != "Hello, Ada!" {
		t.Errorf("%q, %v", text, err)
	}
}

// The server is ready until it ends. Behind a proxy, it serves only under the name in its public URL, and requires
// tokens.
func TestDeployed(t *testing.T) {
	get := func(url, host string) (status int, body string) {
		r := must.Get(http.NewRequest(http.MethodGet, url, nil))(t)
		r.Host = host
		resp := must.Get(http.DefaultClient.Do(r))(t)
		defer resp.Body.Close()
		return resp.StatusCode, string(must.Get(io.ReadAll(resp.Body))(t))
	}
	url, stop := overHTTP(t, "deployed", "-http")
	base := strings.TrimSuffix(url, "/mcp")
	c := must.Get(client.Dial(t.Context(), client.URL(url)))(t)
	text, err := client.CallTool[string](t.Context(), c, "greet", map[string]string{"name": "Ada"})
	if err != nil || text != "Hello, Ada!" {
		t.Errorf("%q, %v", text, err)
	}
	for _, page := range []string{"/healthz", "/readyz"} {
		if status, body := get(base+page, ""); status != http.StatusOK || body != "ok\n" {
			t.Errorf("%s: %d %s", page, status, body)
		}
	}
	_ = c.Close()
	if rest := stop(); !strings.Contains(rest, `"tool":"greet"`) && !strings.Contains(rest, "greet") {
		t.Errorf("log: %s", rest)
	}

	url, _ = overHTTP(t, "deployed", "-http", "-public-url", "https://mcp.example.com/mcp", "-issuer",
		"https://login.example.com")
	for host, want := range map[string]int{"mcp.example.com": http.StatusUnauthorized, "127.0.0.1": http.StatusForbidden} {
		if status, body := get(url, host); status != want {
			t.Errorf("host %s: status %d %s, want %d", host, status, body, want)
		}
	}
	if status, body := get(strings.TrimSuffix(url, "/mcp")+"/.well-known/oauth-protected-resource/mcp",
		"mcp.example.com"); status != http.StatusOK || !strings.Contains(body, `"resource":"https://mcp.example.com/mcp"`) {
		t.Errorf("metadata: %d %s", status, body)
	}
}

// The files for containers and systemd use flags that the programs have.
func TestDeploymentFilesHaveFlagsOfThePrograms(t *testing.T) {
	usage, _ := exec.Command(binary("deployed"), "-help").CombinedOutput()
	flags := regexp.MustCompile(`[ "\[]-([a-z][a-z-]+)[=" ]`)
	checked := 0
	for _, file := range []string{"Dockerfile", "kubernetes.yaml", "server.service"} {
		text := must.Get(os.ReadFile(filepath.Join("../deploy/go", file)))(t)
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(strings.TrimSpace(line), "#") || strings.Contains(line, "go build") {
				continue
			}
			for _, m := range flags.FindAllStringSubmatch(line, -1) {
				checked++
				if !strings.Contains(string(usage), "\n  -"+m[1]+" ") {
					t.Errorf("%s: the program has no flag -%s", file, m[1])
				}
			}
		}
	}
	if checked < 8 {
		t.Errorf("checked %d flags", checked)
	}
}

// A user logs in and later grants another scope. The user and the client without a user have
// separate notes.
func TestAuthorized(t *testing.T) {
	secret := rand.Text()
	t.Setenv("REPORT_SECRET", secret)
	url, stop := overHTTP(t, "authorized", "-addr")
	tokens := filepath.Join(t.TempDir(), "tokens")
	cmd := exec.CommandContext(t.Context(), binary("login"), "-print-url", "-store", tokens, url)
	stdout := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	var printed []string
	browser := logintest.Browser{User: "ada"}
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if !strings.HasPrefix(line, "http") || strings.Contains(line, " ") {
			printed = append(printed, line)
		} else if _, err := browser.LogIn(t.Context(), line); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("login: %v", err)
	}
	for _, want := range []string{"ada's notes:", "added", "ada's notes: buy milk", url + " requires notes:read",
		url + " requires notes:read and notes:write"} {
		if !slices.Contains(printed, want) {
			t.Errorf("login printed %[2]q, want %[1]q", want, printed)
		}
	}
	out, err := exec.CommandContext(t.Context(), binary("login"), "-print-url", "-store", tokens, url).CombinedOutput()
	if err != nil || string(out) != "ada's notes: buy milk\nadded\nada's notes: buy milk, buy milk\n" {
		t.Errorf("login with the stored tokens printed %s%v", out, err)
	}
	out, err = exec.CommandContext(t.Context(), binary("machine"), url).CombinedOutput()
	if err != nil || string(out) != "nightly-report's notes: \n" {
		t.Errorf("machine printed %s%v", out, err)
	}
	if rest := stop(); strings.Contains(rest, secret) {
		t.Errorf("the server printed the secret: %s", rest)
	}
}

// An authorization server that issues opaque tokens is asked about each token.
func TestIntrospection(t *testing.T) {
	const issuer = "https://login.example.com"
	var uri atomic.Value // URI of the server, the audience of the token
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if id, secret, _ := r.BasicAuth(); id != "notes" || secret != "secret" || r.FormValue("token") != "opaque" {
			fmt.Fprint(w, `{"active":false}`)
			return
		}
		fmt.Fprintf(w, `{"active":true,"iss":%q,"sub":"ada","aud":%q,"scope":"notes:read","exp":%d}`, issuer, uri.Load(),
			time.Now().Add(time.Hour).Unix())
	}))
	defer endpoint.Close()
	t.Setenv("INTROSPECTION_SECRET", "secret")
	url, _ := overHTTP(t, "authorized", "-addr", "-issuer", issuer, "-introspect", endpoint.URL)
	uri.Store(url)
	for token, want := range map[string]string{"opaque": "ada's notes: ", "other": ""} {
		c, err := client.Dial(t.Context(), &client.HTTPTarget{URL: url,
			Header: http.Header{"Authorization": {"Bearer " + token}}})
		text := ""
		if err == nil {
			text, err = client.CallTool[string](t.Context(), c, "list", nil)
			_ = c.Close()
		}
		if text != want || (err == nil) != (want != "") || err != nil && !strings.Contains(err.Error(), "not active") {
			t.Errorf("%s: %q, %v", token, text, err)
		}
	}
}

func TestAPIKeys(t *testing.T) {
	key := auth.NewKey()
	file := filepath.Join(t.TempDir(), "keys.json")
	must.Do(t, os.WriteFile(file, must.Get(auth.FormatKeys([]auth.Key{{User: "ada", SHA256: auth.HashKey(key)}}))(t),
		0o600))
	t.Setenv("KEYS", file)
	url, stop := overHTTP(t, "apikeys", "-http")
	dial := func(key string) (*client.Client, error) {
		return client.Dial(t.Context(), &client.HTTPTarget{URL: url,
			Header: http.Header{"Authorization": {"Bearer " + key}}})
	}
	c := must.Get(dial(key))(t)
	defer c.Close()
	if who, err := client.CallTool[string](t.Context(), c, "whoami", nil); err != nil || who != "ada" {
		t.Errorf("%q, %v", who, err)
	}
	for _, other := range []string{key[1:], auth.NewKey(), auth.HashKey(key), "ada"} {
		if c, err := dial(other); err == nil || !strings.Contains(err.Error(), "unknown API key") {
			t.Errorf("with another key: %v, %v", c, err)
		}
	}
	if rest := stop(); strings.Contains(rest, key) {
		t.Errorf("the server printed a key: %s", rest)
	}
}

func TestRegion(t *testing.T) {
	url, stop := overHTTP(t, "region", "-addr")
	c := must.Get(client.Dial(t.Context(), client.URL(url)))(t)
	for _, err := range c.Tools(t.Context()) { // the list says which argument to mirror
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.CallTool(t.Context(), "find", map[string]any{"region": "eu", "number": 7}); err != nil {
		t.Error(err)
	}
	_ = c.Close()
	if printed := stop(); !strings.Contains(printed, `route the call of "find" to the region "eu"`) {
		t.Errorf("the server printed %q", printed)
	}
}

func TestConnect(t *testing.T) {
	for _, r := range []mcp.Revision{mcp.V20251125, mcp.V20260728} {
		asked := 0
		d := &client.Dialer{Revision: r, ElicitURL: func(_ context.Context,
			page *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			asked++
			opened, err := http.Get(page.URL)
			if err != nil {
				return nil, err
			}
			form, err := io.ReadAll(opened.Body)
			opened.Body.Close()
			if err != nil || !strings.Contains(string(form), `type="password"`) {
				t.Errorf("page %s, %v", form, err)
			}
			wrong, err := http.Get(page.URL[:len(page.URL)-1])
			if err != nil || wrong.StatusCode != http.StatusNotFound {
				t.Errorf("page with a wrong URL: %v, %v", wrong, err)
			} else {
				wrong.Body.Close()
			}
			entered, err := http.PostForm(page.URL, url.Values{"key": {"secret"}})
			if err != nil {
				return nil, err
			}
			entered.Body.Close()
			return &mcp.ElicitResult{Action: mcp.ElicitAccept}, nil
		}}
		c := start(t, d, transport.CommandOptions{Path: binary("connect")})
		for range 2 { // the second call uses the stored key
			text, err := client.CallTool[string](t.Context(), c, "repositories", nil)
			if err != nil || text != "2 repositories, found with a key of 6 characters" {
				t.Errorf("%s: %q, %v", r, text, err)
			}
		}
		if asked != 1 {
			t.Errorf("%s: the user was asked %d times, want once", r, asked)
		}
	}
}
