package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/parley-mcp/parley/cmd/parley/internal/jsonedit"
)

// Every server of the files of all programs is the same after it was written to parley's own file.
func TestServersAreWrittenAsTheyWereRead(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		read, err := (&Files{Workspace: "/home/user/work", Paths: []string{path}, Foreign: true}).Load()
		if err != nil {
			t.Fatal(err)
		}
		own, err := jsonedit.Open(filepath.Join(t.TempDir(), "config.json"))
		if err != nil {
			t.Fatal(err)
		}
		for i := range read.Servers {
			_, err := Set(own, &read.Servers[i])
			if err := errors.Join(err, AddInputs(own, &read.Servers[i])); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
		}
		if len(read.Servers) == 0 {
			continue
		}
		if err := validate(t, own.Bytes()); err != nil {
			t.Errorf("%s: %v\n%s", path, err, own.Bytes())
		}
		written, err := Parse("", own.Path(), own.Bytes())
		if err != nil || len(written.Problems)+len(written.Warnings) > 0 {
			t.Errorf("%s: %v %v", path, err, written)
			continue
		}
		ignored := []cmp.Option{cmpopts.IgnoreFields(Server{}, "Original", "Source"), cmpopts.IgnoreUnexported(Server{})}
		if diff := cmp.Diff(read.Servers, written.Servers, ignored...); diff != "" {
			t.Errorf("%s: read (-), written (+):\n%s", path, diff)
		}
		for i := range read.Servers {
			if diff := cmp.Diff(read.Servers[i].UsedInputs(), written.Servers[i].UsedInputs()); diff != "" {
				t.Errorf("%s: inputs read (-), written (+):\n%s", path, diff)
			}
		}
	}
}

func TestSetReportsAnEntryThatCannotBeUsed(t *testing.T) {
	own, err := jsonedit.Open(filepath.Join(t.TempDir(), "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Set(own, &Server{Name: "a", URL: "example.com"}); err == nil || !strings.Contains(err.Error(), "must begin with http:// or https://") {
		t.Error(err)
	}
}

func TestDetachedServersHaveAbsolutePaths(t *testing.T) {
	c, err := Parse("", "/srv/files/mcp.json", []byte(`{"mcpServers": {"a": {"command": "a", "cwd": "work", "envFile": ".env", "roots": [".", "${userHome}"],
		"env": {"KEY": "<${file:key.txt}${NAME}${file:/etc/key}>"}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	s := &c.Servers[0]
	if err := s.Detach(); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(append([]string{s.Dir, s.EnvFile, s.Env[0].Value}, s.Roots...), " ")
	if want := "/srv/files/work /srv/files/.env <${file:/srv/files/key.txt}${NAME}${file:/etc/key}> /srv/files ${userHome}"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestAnInputWithAnotherMeaningIsNotAdded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(path, []byte(`{"mcpServers": {}, "inputs": [{"type": "promptString", "id": "token", "description": "Other"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	own, err := jsonedit.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Parse("", "f", []byte(`{"servers": {"a": {"url": "https://example.com/${input:token}"}}, "inputs": [{"id": "token", "description": "Mine"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := AddInputs(own, &c.Servers[0]); err == nil || !strings.Contains(err.Error(), `has another input "token"`) {
		t.Error(err)
	}
}
