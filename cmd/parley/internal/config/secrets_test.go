package config

import (
	"slices"
	"testing"
)

func TestPlainSecretsAreFoundByTheirNames(t *testing.T) {
	s := &Server{
		Env:     []Pair{{"GITHUB_TOKEN", "abc"}, {"API_KEY", "${API_KEY}"}, {"OPENAI_APIKEY", "abc"}, {"REGION", "eu"}, {"KEYBOARD", "de"}, {"PASSWORD", ""}},
		Headers: []Pair{{"Authorization", "Bearer abc"}, {"X-Api-Key", "${keyring:a/b}"}, {"X-Region", "eu"}},
		Args:    []string{"--token", "abc", "--api-key=${KEY}", "--secret=abc", "--password", "--verbose", "token"},
		URL:     "https://user:abc@example.com/mcp?access_token=abc&page=1",
	}
	var found []string
	for _, secret := range PlainSecrets(s) {
		found = append(found, secret.Where)
	}
	want := []string{"env GITHUB_TOKEN", "env OPENAI_APIKEY", "header Authorization", "argument token", "argument secret", "the password of the url", "parameter of the url access_token"}
	if !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
}
