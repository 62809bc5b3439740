package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/parley-mcp/parley/cmd/parley/internal/completion"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
)

// The scripts run the test binary as parley.
func TestMain(m *testing.M) {
	testscript.Main(withCache{m}, map[string]func(){"parley": func() {
		os.Exit(runMain(completion.WithPatience(program.NotifyContext(), 10*time.Second), os.Args[1:]))
	}})
}

// withCache runs the tests with a cache of their own.
type withCache struct{ *testing.M }

// Run implements testscript.TestingM.
func (m withCache) Run() int {
	dir, err := os.MkdirTemp("", "parley-cache")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	os.Setenv("PARLEY_CACHE_DIR", dir)
	return m.M.Run()
}

// The scripts run parley as a user does, with real processes and sockets.
func TestScripts(t *testing.T) { testscript.Run(t, scripts("testdata/script")) }

func scripts(dir string) testscript.Params {
	return testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Values[backgroundKey{}] = make(map[string]*background)
			env.Setenv("GORACE", "atexit_sleep_ms=0") // without it each process takes a second to exit
			env.Setenv("PARLEY_CONFIG_DIR", filepath.Join(env.WorkDir, "config"))
			env.Setenv("PARLEY_CACHE_DIR", filepath.Join(env.WorkDir, "cache"))
			env.Setenv("PARLEY_NO_KEYRING", "1")
			return runtimeDir(env)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"start":      start,
			"background": runInBackground,
			"await":      await,
			"browse":     browse,
			"finish":     finish,
			"absent":     absent,
			"interrupt":  interrupt, // not stop: a built-in command of that name ends the script
			"hangup":     hangup,
			"exits":      exits,
			"get":        get,
			"terminate":  terminate,
			"json":       isJSON,
			"id":         taskID,
			"asks":       asks,
			"killed":     killed,
			"registry":   serveRegistry,
			"misbehaves": misbehaves,
		},
	}
}

// A built-in command named stop ends a script, which passes then.
func TestScriptsRunToTheirEnd(t *testing.T) {
	scripts, err := filepath.Glob("testdata/*/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, path := range scripts {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(archive.Comment)) {
			if word, _, _ := strings.Cut(strings.TrimSpace(line), " "); word == "stop" || word == "skip" {
				t.Errorf("%s: the script ends at %q", path, line)
			}
		}
	}
}
