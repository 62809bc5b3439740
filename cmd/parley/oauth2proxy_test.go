//go:build integration && long

package main

import (
	"crypto/sha1"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/parley-mcp/parley/internal/freeaddr"
	"github.com/parley-mcp/parley/internal/must"
)

// The users whom oauth2-proxy logs in are the callers of parley up. Their names and groups are in its headers, which it
// replaces if a client sends them.
func TestUsersOfOAuth2Proxy(t *testing.T) {
	dir := t.TempDir()
	install := exec.CommandContext(t.Context(), "go", "install", "github.com/oauth2-proxy/oauth2-proxy/v7@v7.15.6")
	install.Env = append(os.Environ(), "GOBIN="+dir, "GOWORK=off", "GOFLAGS=")
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("cannot install oauth2-proxy: %v\n%s", err, out)
	}
	passwords := filepath.Join(dir, "htpasswd")
	line := func(user, password string) string {
		digest := sha1.Sum([]byte(password))
		return user + ":{SHA}" + base64.StdEncoding.EncodeToString(digest[:]) + "\n"
	}
	must.Do(t, os.WriteFile(passwords, []byte(line("ada", "secret")+line("bob", "secret")), 0o600))
	upstream, proxy := must.Get(freeaddr.New())(t), must.Get(freeaddr.New())(t)
	startProgram(t, "OAuthProxy configured", exec.Command(filepath.Join(dir, "oauth2-proxy"),
		"--http-address="+proxy, "--upstream=http://"+upstream, "--provider=github", "--client-id=x", "--client-secret=y",
		"--cookie-secret=0123456789abcdef0123456789abcdef", "--email-domain=*", "--htpasswd-file="+passwords,
		"--htpasswd-user-group=finance", "--pass-host-header=false"))
	params := scripts("testdata/oauth2proxy")
	setUp := params.Setup
	params.Setup = func(env *testscript.Env) error {
		env.Setenv("UPSTREAM", upstream)
		env.Setenv("PROXY", "http://"+proxy+"/mcp")
		env.Setenv("ADA", "Authorization: Basic "+base64.StdEncoding.EncodeToString([]byte("ada:secret")))
		env.Setenv("BOB", "Authorization: Basic "+base64.StdEncoding.EncodeToString([]byte("bob:secret")))
		return setUp(env)
	}
	testscript.Run(t, params)
}
