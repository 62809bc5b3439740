//go:build integration

package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/auth/devissuer"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/failure"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// customer is the argument of the tools of the example.
type customer struct {
	ID int `json:"id"`
}

// upstreamOf serves tools, which return their names, to requests with the header; empty means any request.
func upstreamOf(t *testing.T, authorization string, tools ...mcp.Tool) (url string) {
	s := &server.Server{Name: "upstream", Version: "1.0.0"}
	for _, tool := range tools {
		server.AddTool(s, tool, func(context.Context, customer) (string, error) { return tool.Name, nil })
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if authorization != "" && r.Header.Get("Authorization") != authorization {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		s.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	return web.URL
}

// The production example works with an identity provider, two API keys and two replicas: each caller gets what the
// policy says, and nothing that is not in the lock file.
func TestProductionExampleRuns(t *testing.T) {
	issuer := must.Get(devissuer.Start(devissuer.Config{Scopes: []string{"tools"}}))(t)
	t.Cleanup(func() { must.Check(t, issuer.Close()) })
	t.Setenv("CRM_TOKEN", "token")
	example := strings.NewReplacer(
		"https://crm.example.com/mcp", upstreamOf(t, "Bearer token", mcp.Tool{Name: "get_customer"},
			mcp.Tool{Name: "delete_customer"}),
		"https://wiki.example.com/mcp", upstreamOf(t, "",
			mcp.Tool{Name: "search", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}, mcp.Tool{Name: "edit"}))
	dir := t.TempDir()
	for _, name := range []string{"mcp.json", "policy.json", "mcp.lock"} {
		text := must.Get(os.ReadFile("../../deploy/kubernetes/" + name))(t)
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(example.Replace(string(text))), 0o600))
	}
	parley := func(code int, args ...string) (out, problems string) {
		t.Helper()
		var stdout, stderr strings.Builder
		cmd := exec.Command("parley", args...)
		cmd.Env = append(os.Environ(), "PARLEY_CONFIG_DIR="+dir, "PARLEY_NO_KEYRING=1", "GORACE=atexit_sleep_ms=0")
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
		if err := cmd.Run(); cmd.ProcessState.ExitCode() != code {
			t.Errorf("parley %q: %v, want exit code %d\n%s%s", args, err, code, &stdout, &stderr)
		}
		return stdout.String(), stderr.String()
	}
	key := func(user string) string {
		t.Helper()
		out, _ := parley(0, "key", "add", user, "--group", "automation", "--scope", "tools", "--expires", "90d")
		return "Authorization: Bearer " + strings.TrimSpace(out)
	}
	ci, backup := key("ci"), key("backup")
	token := func(scopes ...string) string {
		t.Helper()
		return "Authorization: Bearer " + must.Get(issuer.Token("ada", "https://mcp.example.com/mcp", scopes...))(t)
	}

	containers := containersOf(t, containerFiles[1]...)
	redis := startContainerOfRedis(t, containers, dir)
	var replicas []string
	admin := ""
	for _, audit := range []string{"a.jsonl", "b.jsonl"} {
		url, pages := startContainer(t, containers, dir, redis, "--audit=-", "--audit="+filepath.Join(dir, audit),
			"https://login.example.com/realms/acme", issuer.URL(), "keys=/etc/parley", "keys="+dir)
		replicas, admin = append(replicas, url), pages
	}

	// The empty lock file withholds everything. A running replica writes the definitions and notices the new file.
	out, _ := parley(0, "ls", replicas[0], "--header", ci)
	must.CheckThat(t, !strings.Contains(out, "get_customer"), "the tools are not withheld:\n%s", out)
	lock, _ := parley(0, "lock", "--config", "mcp.json", "--lock", "-")
	must.Do(t, os.WriteFile(filepath.Join(dir, "mcp.lock"), []byte(lock), 0o600))
	for _, url := range replicas {
		out = ""
		deadline := time.Now().Add(waitLimit)
		for !strings.Contains(out, "crm__get_customer") { // until the file was read
			must.That(t, time.Now().Before(deadline), "the lock file is not used:\n%s", out)
			out, _ = parley(0, "ls", url, "--header", ci)
		}
		for _, c := range []struct {
			code         int
			header, call string
			want         string
		}{
			{0, ci, "crm__get_customer id=1", "get_customer"},
			{0, backup, "wiki__search id=1", "search"},
			{failure.ExitToolError, ci, "crm__delete_customer id=1", "scripts must not delete"},
			{failure.ExitToolError, ci, "wiki__edit id=1", "no rule of the policy matches"},
			{failure.ExitToolError, token("tools"), "crm__delete_customer id=1", "it needs an approval"},
			{failure.ExitToolError, token("tools"), "crm__delete_customer id=1 --answer approve=no", "it was not approved"},
			{0, token("tools"), "crm__delete_customer id=1 --answer approve=once", "delete_customer"},
			{failure.ExitUnauthorized, token(), "crm__get_customer id=1", "tools"},
			{failure.ExitUnauthorized, "Authorization: Bearer x", "crm__get_customer id=1", "Unauthorized"},
		} {
			out, problems := parley(c.code, append([]string{"call", url, "--header", c.header}, strings.Fields(c.call)...)...)
			must.CheckContains(t, out+problems, c.want, c.call)
		}
	}
	audit := string(must.Get(os.ReadFile(filepath.Join(dir, "b.jsonl")))(t))
	for _, want := range []string{
		`"event":"done","call":`, `"issuer":"keys","subject":"ci"`, `"approval":"approved"`, `"approval":"declined"`,
		`"event":"login failed"`, `"subject":"ada","client":"devissuer","server":"crm"`, `"group":"automation"`,
	} {
		must.CheckContains(t, audit, want)
	}

	// The alerts name metrics and labels that exist. A metric has the label error_type if a call has failed.
	metrics, alerts := pageAt(t, admin+"/metrics"), textOf(t, "deploy/kubernetes/monitoring.yaml")
	for _, name := range regexp.MustCompile(`\b(?:mcp_client|mcp_server|parley)_\w+`).FindAllString(alerts, -1) {
		must.CheckContains(t, metrics, "\n"+name+"{")
	}
	for _, m := range regexp.MustCompile(`(\w+)(?:=|=~|!=|!~)"`).FindAllStringSubmatch(alerts, -1) {
		if m[1] != "error_type" && m[1] != "pod" && m[1] != "condition" { // the last two are of kube-state-metrics
			must.CheckContains(t, metrics, m[1]+`="`)
		}
	}
}

// pageAt returns the page at a URL.
func pageAt(t *testing.T, url string) string {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
	resp := must.Get(http.DefaultClient.Do(req))(t)
	defer resp.Body.Close()
	return string(must.Get(io.ReadAll(resp.Body))(t))
}
