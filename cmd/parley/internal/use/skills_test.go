package use

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/output"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/skills"
)

// startSkills serves a skill "one" whose entry has the files, and whose files have the contents. It returns its URL.
func startSkills(t *testing.T, listed, served map[string]string) string {
	t.Helper()
	s := &server.Server{}
	entry := skills.Skill{URI: "skill://one/SKILL.md", Frontmatter: json.RawMessage(`{"name":"one","description":"d"}`)}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		text := listed[name]
		entry.Files = append(entry.Files, skills.File{URI: "skill://one/" + name, Size: int64(len(text)),
			Digest: fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text)))})
	}
	server.AddExtension(s, server.Extension{ID: mcp.ExtensionSkills, AnyClient: true,
		Requests: map[string]func(context.Context, json.RawMessage) (any, error){
			"skills/list": func(context.Context, json.RawMessage) (any, error) {
				return map[string]any{"skills": []any{entry}, "ttlMs": 0, "cacheScope": "private"}, nil
			},
			"skills/get": func(context.Context, json.RawMessage) (any, error) {
				return map[string]any{"skill": entry, "ttlMs": 0, "cacheScope": "private"}, nil
			},
		}})
	for name, text := range served {
		server.AddStatic(s, mcp.Resource{URI: "skill://one/" + name, Name: name}, text)
	}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return h.URL
}

const skillMain = "---\nname: one\ndescription: d\n---\n"

// runSkills runs a command line.
func runSkills(t *testing.T, words ...string) (out string, err error) {
	t.Helper()
	cmd := NewSkills()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	output.AddFlag(cmd)
	var b bytes.Buffer
	cmd.SetIn(strings.NewReader(""))
	cmd.SetOut(&b)
	cmd.SetErr(&b)
	cmd.SetArgs(words)
	err = cmd.ExecuteContext(t.Context())
	return b.String(), err
}

// filesIn returns the files and directories in a directory.
func filesIn(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		if rest, _ := filepath.Rel(dir, name); err == nil && rest != "." {
			all = append(all, filepath.ToSlash(rest))
		}
		return err
	})
	must.Do(t, err)
	return all
}

func TestInstalledSkillsHaveTheirFilesAndOrigin(t *testing.T) {
	files := map[string]string{"SKILL.md": skillMain, "scripts/a%20b.sh": "#!/bin/sh\n"}
	url := startSkills(t, files, files)
	dir := filepath.Join(t.TempDir(), "new")
	if out, err := runSkills(t, "install", url, "one", "--dir", dir); err == nil ||
		!strings.Contains(out, "scripts/a%20b.sh") {
		t.Errorf("without an answer: %s, %v", out, err)
	}
	out, err := runSkills(t, "install", url, "one", "--dir", dir, "--yes")
	must.Do(t, err, out)
	got := strings.Join(filesIn(t, dir), " ")
	must.CheckEqual(t, got, "one one/.parley-skill.json one/SKILL.md one/scripts one/scripts/a b.sh")
	var about skillOrigin
	raw, _ := os.ReadFile(filepath.Join(dir, "one", originFile))
	if err := json.Unmarshal(raw, &about); err != nil || about.Server != url || about.URI != "skill://one/SKILL.md" {
		t.Errorf("%s, %v", raw, err)
	}
	must.CheckFails(t, must.Err(runSkills(t, "install", url, "one", "--dir", dir, "--yes")), "exists already",
		"a second time")
}

// A skill that a system could write elsewhere, or that is not the one of its entry, leaves nothing behind.
func TestHostileSkillsAreNotInstalled(t *testing.T) {
	many := map[string]string{"SKILL.md": skillMain}
	for i := range skills.MaxFiles {
		many[fmt.Sprint(i)] = ""
	}
	good := map[string]string{"SKILL.md": skillMain, "a.md": "a"}
	for want, test := range map[string]struct{ listed, served map[string]string }{
		"must be in the directory of the skill":    {listed: map[string]string{"SKILL.md": skillMain, "../x": ""}},
		"no path that is safe":                     {listed: map[string]string{"SKILL.md": skillMain, "con.txt": ""}},
		"a%5C..%5Cb":                               {listed: map[string]string{"SKILL.md": skillMain, "a%5C..%5Cb": ""}},
		`"SKILL.md/x" has the name of another one`: {listed: map[string]string{"SKILL.md": skillMain, "SKILL.md/x": ""}},
		`"a.md" has the name of another one`:       {listed: map[string]string{"SKILL.md": skillMain, "a.md": "", "A.md": ""}},
		`".parley-skill.json" has the name`: {listed: map[string]string{"SKILL.md": skillMain,
			".parley-skill.json": ""}},
		"the limit is 512": {listed: many},
		"its digest is not that of the entry": {listed: good,
			served: map[string]string{"SKILL.md": skillMain, "a.md": "b"}},
		"the entry says 1": {listed: good,
			served: map[string]string{"SKILL.md": skillMain, "a.md": "bb"}},
		"resource not found": {listed: good, served: map[string]string{"SKILL.md": skillMain}},
		`the field "description" of its`: {listed: map[string]string{"SKILL.md": "---\nname: one\ndescription: " +
			"e\n---\n"}},
	} {
		if test.served == nil {
			test.served = map[string]string{"SKILL.md": test.listed["SKILL.md"]}
		}
		dir := t.TempDir()
		_, err := runSkills(t, "install", startSkills(t, test.listed, test.served), "skill://one/SKILL.md", "--dir", dir, "--yes")
		left := filesIn(t, dir)
		must.CheckThat(t, err != nil && strings.Contains(err.Error(), want) && len(left) == 0,
			"%s: %v; %q", want, err, left)
	}
}

// Links in the directory of skills lead nowhere else.
func TestInstallFollowsNoLink(t *testing.T) {
	files := map[string]string{"SKILL.md": skillMain}
	url, outside := startSkills(t, files, files), t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(outside, "kept"), nil, 0o600))
	for name, installs := range map[string]bool{"one": false, ".one.incomplete": true, ".one.lock": false} {
		dir := t.TempDir()
		must.Do(t, os.Symlink(outside, filepath.Join(dir, name)))
		_, err := runSkills(t, "install", url, "one", "--dir", dir, "--yes")
		must.CheckEqual(t, err == nil, installs, name, err)
	}
	must.CheckEqual(t, fmt.Sprint(filesIn(t, outside)), "[kept]", "files outside of the directory")
}

// A program that is killed while it installs a skill leaves a directory with a part of it, and the file of its lock.
func TestWhatAnAbortedInstallationHasLeftDoesNotBlockTheNext(t *testing.T) {
	files := map[string]string{"SKILL.md": skillMain, "a.md": "a"}
	url := startSkills(t, files, files)
	for _, left := range []string{".one.incomplete/", ".one.incomplete/old/a.md", ".one.incomplete", ".one.lock"} {
		dir := t.TempDir()
		path := filepath.Join(dir, filepath.FromSlash(left))
		if strings.HasSuffix(left, "/") {
			must.Do(t, os.Mkdir(path, 0o700))
		} else {
			must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
			must.Do(t, os.WriteFile(path, []byte("left"), 0o600))
		}
		must.Check(t, must.Err(runSkills(t, "install", url, "one", "--dir", dir, "--yes")), left)
		got := strings.Join(filesIn(t, dir), " ")
		must.CheckEqual(t, strings.TrimPrefix(got, ".one.lock "), "one one/.parley-skill.json one/SKILL.md one/a.md", left)
	}
}

func TestOnlyOneOfTwoInstallationsAtTheSameTimeInstalls(t *testing.T) {
	files := map[string]string{"SKILL.md": skillMain, "a.md": "a"}
	url, dir := startSkills(t, files, files), t.TempDir()
	var installed atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, err := runSkills(t, "install", url, "one", "--dir", dir, "--yes"); err == nil {
				installed.Add(1)
			} else if !strings.Contains(err.Error(), "exists already") {
				t.Error(err)
			}
		})
	}
	all.Wait()
	must.CheckEqual(t, installed.Load(), 1, "installations")
	got := strings.Join(filesIn(t, dir), " ")
	must.CheckThat(t, strings.HasSuffix(got, "one/SKILL.md one/a.md"), "files %s", got)
}

func TestVerifyReportsEachSkill(t *testing.T) {
	files := map[string]string{"SKILL.md": skillMain, "a.md": "a"}
	must.CheckEqual(t, must.Get(runSkills(t, "verify", startSkills(t, files, files)))(t),
		"ok      skill://one/SKILL.md: 2 files\n")
	changed := startSkills(t, files, map[string]string{"SKILL.md": skillMain, "a.md": "b"})
	out, err := runSkills(t, "verify", changed, "-o", "json")
	must.CheckThat(t, err != nil && err.Error() == "1 of 1 skill could not be verified" &&
		strings.Contains(out, "its digest is not"), "%s, %v", out, err)
	must.Check(t, must.Err(runSkills(t, "ls", startSkills(t, nil, nil))))
}
