package confine

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// runners are programs that download packages and start them, with the variables that name their caches. A confined
// runner gets its own caches: programs that are not confined start what they find in the user's.
var runners = map[string][]string{
	"npm": {"npm_config_cache"}, "npx": {"npm_config_cache"},
	"uv":  {"UV_CACHE_DIR", "UV_TOOL_DIR", "UV_PYTHON_INSTALL_DIR"},
	"uvx": {"UV_CACHE_DIR", "UV_TOOL_DIR", "UV_PYTHON_INSTALL_DIR"},
	"bun": {"BUN_INSTALL_CACHE_DIR"}, "bunx": {"BUN_INSTALL_CACHE_DIR"},
	"deno": {"DENO_DIR"},
}

// containers are clients of a daemon. What they start is no child of theirs.
var containers = []string{"docker", "podman", "nerdctl"}

// Propose returns rules with which a command probably works, and environment variables of the form NAME=value that it
// needs with them: where its interpreter is, the files that words name, which are its arguments and the values of its
// variables, and, for a program that downloads packages, the network and caches in the directory cache, which Propose
// creates.
func Propose(command string, words []string, cache string) (r *Rules, env []string, err error) {
	name := filepath.Base(command)
	if slices.Contains(containers, name) {
		return nil, nil, errors.New(name + " asks a daemon to start the container, which confine does not reach; " +
			"restrict the container with the flags of " + name + ", such as --network none and --read-only")
	}
	p := &proposal{rules: new(Rules)}
	p.home, _ = os.UserHomeDir()
	if path, err := exec.LookPath(command); err == nil {
		p.program(path, 0)
	}
	for _, word := range words {
		_, value, found := strings.Cut(word, "=")
		if !found || !strings.HasPrefix(word, "-") {
			value = word
		}
		if info, err := os.Stat(value); err == nil && filepath.IsAbs(value) {
			p.argument(value, info.IsDir())
		}
	}
	if variables := runners[name]; variables != nil {
		p.rules.Network = true
		p.rules.Write = []string{cache}
		for _, variable := range variables {
			dir := filepath.Join(cache, strings.ToLower(variable))
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return nil, nil, err
			}
			env = append(env, variable+"="+dir)
		}
	}
	return p.rules, env, nil
}

type proposal struct {
	rules *Rules
	home  string
}

// read adds a path, unless every program may read it.
func (p *proposal) read(path string) {
	defaults, _ := Defaults(false)
	if !within(path, defaults) && !within(path, p.rules.Read) {
		p.rules.Read = append(p.rules.Read, path)
	}
}

// within reports whether a path is one of several, or below one of them.
func within(path string, roots []string) bool {
	return slices.ContainsFunc(roots, func(root string) bool {
		rest, err := filepath.Rel(root, path)
		return err == nil && rest != ".." && !strings.HasPrefix(rest, "../")
	})
}

// broad reports whether a directory has more than a program and its packages.
func (p *proposal) broad(dir string) bool {
	return dir == filepath.Dir(dir) || within(p.home, []string{dir}) || dir == filepath.Join(p.home, ".local")
}

// program adds the installation of a program, those of the programs that it is a link to, and that of its interpreter.
func (p *proposal) program(path string, depth int) {
	if depth > 8 {
		return
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return
	}
	interpreter, dir := interpreterOf(path), filepath.Dir(path)
	base := filepath.Base(dir)
	packages, _, installed := strings.Cut(path, "/node_modules/")
	switch {
	case installed:
		dir = packages + "/node_modules"
	case base == "bin" || base == "shims":
		dir, installed = filepath.Dir(dir), true
	}
	if p.broad(dir) || !installed && interpreter == "" { // a program in one file
		dir = path
	}
	p.read(dir)
	if target, err := os.Readlink(path); err == nil {
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		p.program(target, depth+1)
		return
	}
	if interpreter != "" {
		p.program(interpreter, depth+1)
	}
}

// interpreterOf returns the path of the program that runs a script, or "".
func interpreterOf(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	line, _ := bufio.NewReader(io.LimitReader(file, 256)).ReadString('\n')
	words := strings.Fields(strings.TrimPrefix(line, "#!"))
	if !strings.HasPrefix(line, "#!") || len(words) == 0 {
		return ""
	}
	if filepath.Base(words[0]) != "env" {
		return words[0]
	}
	for _, word := range words[1:] {
		if !strings.HasPrefix(word, "-") && !strings.Contains(word, "=") {
			found, _ := exec.LookPath(word)
			return found
		}
	}
	return ""
}

// argument adds a directory, or a file, with the project that it is a part of if it is a script.
func (p *proposal) argument(path string, isDir bool) {
	if isDir || !slices.Contains([]string{".js", ".mjs", ".cjs", ".ts", ".py"}, filepath.Ext(path)) {
		p.read(path)
		return
	}
	for dir := filepath.Dir(path); !p.broad(dir); dir = filepath.Dir(dir) {
		if exists(filepath.Join(dir, "package.json")) || exists(filepath.Join(dir, "pyproject.toml")) {
			p.read(dir)
			return
		}
	}
	p.read(path)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
