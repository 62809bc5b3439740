package config

import (
	"slices"
	"testing"
)

func TestPlainSecretsAreFoundByTheirNamesAndInURLs(t *testing.T) {
	s := &Server{
		Env: []Pair{
			{"GITHUB_TOKEN", "abc"}, {"API_KEY", "${API_KEY}"}, {"OPENAI_APIKEY", "abc"}, {"REGION", "eu"}, {"KEYBOARD", "de"}, {"PASSWORD", ""},
			{"PGPASS", "abc"}, {"MYSQL_PWD", "abc"}, {"SSH_ASKPASS", "/bin/ask"}, {"PWD", "/srv"}, {"ENABLE_AUTH", "true"},
			{"DATABASE", "postgres://ada:abc@db/x"}, {"OTHER", "postgres://ada:${PW}@db/x"}, {"REPO", "ssh://git@example.com/a"}, {"GIT", "https://abc@example.com/a"},
		},
		Headers: []Pair{{"Authorization", "Bearer abc"}, {"X-Api-Key", "${keyring:a/b}"}, {"X-Region", "eu"}, {"X-Auth", "abc"}},
		Args: []string{
			"--token", "abc", "--api-key=${KEY}", "--secret=abc", "--password", "--verbose", "token", "-H", "X-Auth: abc", "-HX-Auth: ${A}",
			"--header=Authorization: Basic abc", "-e", "GITHUB_TOKEN=abc", "redis://:abc@cache", "--url=https://example.com/", "--auth", "none", "https://mcp.example.com",
			"https://mcp.example.com/sse?x=1&token=abc", "--url=https://example.com/?api_key=abc",
		},
		URL: "https://user:abc@example.com/mcp?page=abc&access_token=abc&x=1",
	}
	var found []string
	secrets := PlainSecrets(s)
	for _, secret := range secrets {
		found = append(found, secret.Where)
	}
	want := []string{
		"env GITHUB_TOKEN", "env OPENAI_APIKEY", "env PGPASS", "env MYSQL_PWD", "the password of env DATABASE", "the user of env GIT", "header Authorization", "header X-Auth",
		"argument token", "argument secret", "argument X-Auth", "argument Authorization", "argument GITHUB_TOKEN", "the password of an argument", "parameter token of an argument", "parameter api_key of an argument",
		"the password of the url", "parameter access_token of the url",
	}
	if !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
	// A reference replaces each secret, and nothing else changes.
	for _, secret := range slices.Backward(secrets) {
		if text := secret.Replace("${S}"); text != "abc" {
			t.Errorf("%s: the secret is %q", secret.Where, text)
		}
	}
	for text, want := range map[string]string{
		"https://h/?token=a&u=https://b:c@d":     "https://h/?token=${S}&u=https://b:${S}@d",
		"https://h/?token=https://a:b@c&x=1":     "https://h/?token=${S}&x=1",
		"https://h/?u=https://a:b&token=ccccc@d": "https://h/?u=https://a:b&token=${S}",
	} {
		inQuery := &Server{URL: text}
		for _, secret := range slices.Backward(PlainSecrets(inQuery)) {
			secret.Replace("${S}")
		}
		if inQuery.URL != want {
			t.Errorf("%s becomes %s, want %s", text, inQuery.URL, want)
		}
	}
	if len(PlainSecrets(s)) != 0 || s.URL != "https://user:${S}@example.com/mcp?page=abc&access_token=${S}&x=1" || s.Headers[0].Value != "Bearer ${S}" || s.Env[11].Value != "postgres://ada:${S}@db/x" || s.Args[10] != "--header=Authorization: Basic ${S}" {
		t.Errorf("the server is %+v", s)
	}
}

func TestArgumentsAreShownWithoutSecrets(t *testing.T) {
	args := []string{
		"-y", "@modelcontextprotocol/server-filesystem@2026.1.14", "/srv/documents", "--token", "abc", "--key=abc", "-k", "sk-aBcD1234efgh5678ijkl",
		"https://u:p@example.com/sse?token=abc&page=1", "https://example.com/hooks/T0B1C2D3E4F5G6H7I8J9K0", "postgres://ada:pw@db/x", "-p",
		"6f1c3a52-0000-4000-8000-0123456789ab", "KEY=${KEY}", "eyJhbGciOiJIUzI1NiIsInR5cCI6.e30.x", "--verbose", "2026-07-28", "server-everything-for-all-of-us-2",
	}
	want := []string{
		"-y", "@modelcontextprotocol/server-filesystem@2026.1.14", "/srv/documents", "--token", "…", "--key=…", "-k", "…",
		"https://u:…@example.com/sse?token=…&page=1", "https://example.com/hooks/…", "postgres://ada:…@db/x", "-p",
		"…", "KEY=${KEY}", "…", "--verbose", "2026-07-28", "server-everything-for-all-of-us-2",
	}
	before := slices.Clone(args)
	if got := Masked(args); !slices.Equal(got, want) || !slices.Equal(args, before) {
		t.Errorf("got %q, want %q", got, want)
	}
}
