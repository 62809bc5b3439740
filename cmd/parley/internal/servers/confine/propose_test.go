package confine

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/internal/must"
)

func TestRulesAreProposedForACommand(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // the paths are those of other systems
	}
	home := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	file := func(name, text string) {
		path := filepath.Join(home, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.Do(t, os.WriteFile(path, []byte(text), 0o700))
	}
	file(".nvm/node/v22/bin/node", "\x7fELF")
	file(".nvm/node/v22/lib/node_modules/npm/bin/npx-cli.js", "#!/usr/bin/env node\n")
	must.Do(t, os.Symlink("../lib/node_modules/npm/bin/npx-cli.js", filepath.Join(home, ".nvm/node/v22/bin/npx")))
	file(".local/bin/uvx", "\x7fELF")
	file(".pyenv/shims/python3", "#!/bin/sh\n")
	file("project/package.json", "{}")
	file("project/build/index.js", "")
	file("project/.venv/lib/x.py", "")
	must.Do(t, os.MkdirAll(filepath.Join(home, "project/.venv/bin"), 0o700))
	must.Do(t, os.Symlink("/bin/sh", filepath.Join(home, "project/.venv/bin/python")))
	file("project/node_modules/.bin/tool", "#!/usr/bin/env node\n")
	file("scripts/script.py", "")
	file("bin/server", "\x7fELF")
	file("notes/a.txt", "")
	t.Setenv("HOME", home)
	t.Setenv("PATH", strings.Join([]string{home + "/.nvm/node/v22/bin", home + "/.local/bin", home + "/.pyenv/shims",
		home + "/bin", "/usr/bin", "/bin"}, ":"))
	cache := filepath.Join(home, ".cache/parley/servers/x")
	for _, c := range []struct {
		command     string
		words, read []string
		network     bool
		env         []string
	}{
		{"npx", []string{"-y", "package", "~/notes"}, []string{".nvm/node/v22", "notes"}, true,
			[]string{"npm_config_cache=" + cache + "/npm_config_cache"}},
		{"node", []string{"~/project/build/index.js", "--root=~/notes"}, []string{".nvm/node/v22", "project", "notes"}, false,
			nil},
		{"uvx", []string{"server"}, []string{".local/bin/uvx"}, true, []string{"UV_CACHE_DIR=" + cache + "/uv_cache_dir",
			"UV_TOOL_DIR=" + cache + "/uv_tool_dir", "UV_PYTHON_INSTALL_DIR=" + cache + "/uv_python_install_dir"}},
		{"python3", []string{"~/scripts/script.py"}, []string{".pyenv", "scripts/script.py"}, false, nil},
		{"~/project/.venv/bin/python", nil, []string{"project/.venv"}, false, nil},
		{"~/project/node_modules/.bin/tool", []string{"~/notes/a.txt"},
			[]string{"project/node_modules", ".nvm/node/v22", "notes/a.txt"}, false, nil},
		{"server", []string{"/usr/share", "/nowhere", "relative"}, []string{"bin/server"}, false, nil},
		{"not-installed", nil, nil, false, nil},
	} {
		at := func(word string) string { return strings.Replace(word, "~", home, 1) }
		var words, read []string
		for _, word := range c.words {
			words = append(words, at(word))
		}
		for _, path := range c.read {
			read = append(read, filepath.Join(home, path))
		}
		want := &Rules{Read: read, Network: c.network}
		if c.env != nil {
			want.Write = []string{cache}
		}
		rules, env, err := Propose(at(c.command), words, cache)
		must.Do(t, err)
		must.CheckEqual(t, cmp.Diff(want, rules), "", c.command, "-want, +got")
		must.CheckEqual(t, cmp.Diff(c.env, env), "", c.command)
		for _, path := range rules.Write {
			must.Get(os.Stat(path))(t)
		}
	}
	_, _, err := Propose("/usr/bin/docker", nil, cache)
	must.CheckFails(t, err, "asks a daemon", "docker")
}
