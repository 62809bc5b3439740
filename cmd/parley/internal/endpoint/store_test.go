package endpoint

import (
	"bytes"
	"context"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/cmd/parley/internal/failure"
	"github.com/parley-mcp/parley/server"
)

// applyStore applies flags of the command line to a new server.
func applyStore(t *testing.T, args ...string) (*server.Server, error) {
	t.Helper()
	var flags storeFlags
	cmd := new(cobra.Command)
	cmd.SetContext(t.Context())
	flags.add(cmd)
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	s := new(server.Server)
	closeStore, err := flags.Apply(cmd, s)
	if err == nil {
		closeStore()
	}
	return s, err
}

// key returns a key of n bytes in base64.
func key(n int) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, n)) }

func TestKeyFileHasOneKeyPerLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	for _, c := range []struct {
		text string
		keys int
		want string // a part of the error
	}{
		{key(32), 1, ""},
		{key(32) + "\n\n" + key(64) + "\r\n", 2, ""},
		{"", 0, "has no keys"},
		{"\n\n", 0, "has no keys"},
		{key(32) + "\n" + key(31) + "\n", 0, "line 2: a key must have at least 32 bytes, got 31"},
		{"secret!\n", 0, "line 1 must be a key in base64"},
	} {
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := applyStore(t, "--key-file", file)
		if len(s.Keys) != c.keys || s.Store != nil || (err == nil) != (c.want == "") {
			t.Errorf("%q: %d keys, store %v, error %v", c.text, len(s.Keys), s.Store, err)
		}
		if err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret!")) {
			t.Errorf("%q: error %v, want one with %q and without the key", c.text, err, c.want)
		}
	}
}

func TestStoreFlagsExplainErrors(t *testing.T) {
	t.Setenv("STORE_PASSWORD", "s3cr3t")
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte(key(32)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		url, keyFile string
		code         int
		want         string
	}{
		{"redis://127.0.0.1:1", "", failure.ExitOther, "--store requires keys"},
		{"redis://127.0.0.1:1", file + "2", failure.ExitOther, "--key-file: open "},
		{"redis://:s3cr3t@127.0.0.1:1", file, failure.ExitOther, "--store: other users can see the password"},
		{"redis://:${NO_SUCH_PASSWORD}@127.0.0.1:1", file, failure.ExitOther,
			"--store: environment variable NO_SUCH_PASSWORD is not set"},
		{"", file, failure.ExitOther, "--store: scheme of the URL must be redis or rediss"},
		{"http://127.0.0.1:1", file, failure.ExitOther, "scheme of the URL must be redis or rediss"},
		{"redis://:${STORE_PASSWORD}@127.0.0.1:1", file, failure.ExitUnreachable,
			"cannot connect to the store: dial tcp 127.0.0.1:1: "},
		{"rediss://:${STORE_PASSWORD}@127.0.0.1:1?cluster=true", file, failure.ExitUnreachable,
			"cannot connect to the store"},
		{"redis://127.0.0.1:1?master=main&addr=127.0.0.1:2", file, failure.ExitUnreachable,
			"cannot connect to the store"},
	} {
		args := []string{"--store", c.url}
		if c.keyFile != "" {
			args = append(args, "--key-file", c.keyFile)
		}
		s, err := applyStore(t, args...)
		if err == nil || s.Store != nil {
			t.Errorf("%s: error %v, store %v", c.url, err, s.Store)
			continue
		}
		if text := failure.Explain(err); !strings.Contains(text, c.want) || strings.Contains(text, "s3cr3t") {
			t.Errorf("%s: %q, want a text with %q and without the password", c.url, text, c.want)
		}
		if code := failure.Code(context.Background(), err); code != c.code {
			t.Errorf("%s: exit code %d, want %d: %v", c.url, code, c.code, err)
		}
	}
}

func TestProgramsHavePrefixesOfTheirOwn(t *testing.T) {
	for name, want := range map[string]string{"parley-files": "parley:parley-files:", "a{b}": "parley:a_b_:"} {
		if got := prefixOf(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
