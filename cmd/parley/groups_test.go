package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/cmd/parley/internal/program/failure"
	"github.com/parley-mcp/parley/internal/must"
)

// Rule O18: parley up decides by the groups in the claims of a verified token, and no header or argument adds one. The
// audit log names the claims that decided.
func TestUpDecidesByTheGroupsOfItsCallers(t *testing.T) {
	t.Setenv("PARLEY_CONFIG_DIR", t.TempDir())
	claims := map[string]string{
		"ada": `"groups":["staff","finance-eu"],"department":"finance"`,
		"bob": `"groups":["staff"],"department":"finance"`,
		"eve": `"realm_access":{"roles":["finance-eu"]},"_claim_names":{"groups":"src1"}`,
	}
	var issuer *httptest.Server
	var resource string
	issuer = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		user := r.PostFormValue("token")
		if r.URL.Path != "/introspect" || claims[user] == "" {
			fmt.Fprint(w, `{"active":false}`)
			return
		}
		fmt.Fprintf(w, `{"active":true,"iss":%q,"sub":%q,"client_id":"c","aud":%q,%s}`, issuer.URL, user, resource,
			claims[user])
	}))
	t.Cleanup(issuer.Close)
	dir := t.TempDir()
	config, audit := filepath.Join(dir, "mcp.json"), filepath.Join(dir, "audit.log")
	must.Do(t, os.WriteFile(config, []byte(`{
		"mcpServers": {"demo": {"command": "parley", "args": ["serve", "--stdio"]}},
		"policy": {"default": "deny", "rules": [
			{"tool": "note*", "group": "finance-*", "action": "allow"},
			{"tool": "greet", "when": "caller.claims.department == 'finance'", "action": "allow"}]}}`), 0o600))
	port := freePort(t)
	resource = "http://127.0.0.1:" + port + "/mcp"
	up := startParley(t, `http://[0-9.:]+/mcp`, "up", "--config", config, "--addr", "127.0.0.1:"+port, "--audit", audit,
		"--auth", "issuer="+issuer.URL, "--auth", "introspect="+issuer.URL+"/introspect", "--auth", "resource="+resource)
	for _, tc := range []struct{ user, call, want string }{
		{"ada", "demo__note text=x", ""}, {"ada", "demo__greet name=Ada", ""},
		{"bob", "demo__note text=x", "no rule of the policy matches"}, {"bob", "demo__greet name=Bob", ""},
		{"eve", "demo__note text=x", "too many groups"},
	} {
		args := append([]string{"call", up, "--header", "Authorization: Bearer " + tc.user, "--header", "Groups: finance-eu"},
			strings.Fields(tc.call)...)
		out, err := run(t, args...)
		if err != nil {
			out += failure.Explain(err)
		}
		must.CheckThat(t, (err == nil) == (tc.want == "") && strings.Contains(out, tc.want),
			"%s %s: %v\n%s", tc.user, tc.call, err, out)
	}
	var got []string
	for line := range strings.Lines(string(must.Get(os.ReadFile(audit))(t))) {
		var r struct {
			Event, Subject, Name, Group string
			Claims                      []string
		}
		must.Do(t, json.Unmarshal([]byte(line), &r))
		if r.Event != "done" {
			got = append(got, strings.TrimSpace(fmt.Sprint(r.Event, " ", r.Subject, " ", r.Name, " ", r.Claims, " ", r.Group)))
		}
	}
	want := []string{"allowed ada note [groups] finance-eu", "allowed ada greet [department]", "denied bob note []",
		"allowed bob greet [department]", "denied eve note []"}
	must.CheckEqual(t, strings.Join(got, "\n"), strings.Join(want, "\n"))
}
