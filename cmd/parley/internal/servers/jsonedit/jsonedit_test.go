package jsonedit

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
)

// open writes content to a file and opens it.
func open(t *testing.T, content string) *File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f.json")
	must.Do(t, os.WriteFile(path, []byte(content), 0o600))
	f := must.Get(Open(path))(t)
	return f
}

type command struct {
	Command string   `json:"command"`
	Args    []string `json:"args,omitempty"`
}

func TestSetKeepsCommentsOrderAndLayout(t *testing.T) {
	for _, c := range []struct{ name, before, after string }{
		{"empty file", "", `{
  "servers": {
    "new": {
      "command": "a<b"
    }
  }
}
`},
		{"comments", `// The file.
{
    /* first */ "z": 1,
    "servers": {
        // One.
        "one": {"command": "one"} // in the line
        // at the end
    },
    "a": [1,2,  3], // last
}
`, `// The file.
{
    /* first */ "z": 1,
    "servers": {
        // One.
        "one": {"command": "one"}, // in the line
        // at the end
        "new": {
            "command": "a<b"
        }
    },
    "a": [1,2,  3], // last
}
`},
		{"trailing comma", "{\n\t\"servers\": {\n\t\t\"one\": {},\n\t},\n}",
			"{\n\t\"servers\": {\n\t\t\"one\": {},\n\t\t\"new\": {\n\t\t\t\"command\": \"a<b\"\n\t\t},\n\t},\n}"},
		{"no servers", `{"theme": "dark"}`, `{"theme": "dark",
  "servers": {
    "new": {
      "command": "a<b"
    }
  }
}`},
		{"replaced",
			"{\n  \"servers\": {\n    // Mine.\n    \"new\": {\"command\": \"old\"}, // why\n    \"two\": {}\n  }\n}\n",
			`{
  "servers": {
    // Mine.
    "new": {
      "command": "a<b"
    }, // why
    "two": {}
  }
}
`},
		{"carriage returns", "{\r\n  \"servers\": {\r\n  }\r\n}\r\n",
			"{\r\n  \"servers\": {\r\n    \"new\": {\r\n      \"command\": \"a<b\"\r\n    }\r\n  }\r\n}\r\n"},
	} {
		f := open(t, c.before)
		if err := f.Set(command{Command: "a<b"}, "servers", "new"); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		must.CheckEqual(t, string(f.Bytes()), c.after, c.name)
	}
}

func TestAppendKeepsComments(t *testing.T) {
	f := open(t, "{\n  \"inputs\": [\n    // The first.\n    {\"id\": \"a\"}, // about a\n  ]\n}\n")
	for range 2 {
		must.Do(t, f.Append(1, "inputs"))
	}
	if got, want := string(f.Bytes()),
		"{\n  \"inputs\": [\n    // The first.\n    {\"id\": \"a\"}, // about a\n    1,\n    1,\n  "+
			"]\n}\n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if err := f.Append("x", "new", "list"); err != nil || string(f.Get("new", "list", "x")) != "" ||
		!strings.Contains(string(f.Get("new", "list")), `"x"`) {
		t.Errorf("%v %s", err, f.Bytes())
	}
	must.CheckFails(t, f.Append(1, "new"), "new must be an array")
}

func TestRemoveTakesTheCommentsOfTheMember(t *testing.T) {
	const file = `{
  "servers": {
    // One.
    "one": {}, // about one
    // Two.
    "two": {}, // about two
    // Three.
    "three": {} // about three
    // at the end
  }
}
`
	for _, c := range []struct{ member, removed string }{
		{"one", "    // One.\n    \"one\": {}, // about one\n"},
		{"two", "    // Two.\n    \"two\": {}, // about two\n"},
	} {
		f := open(t, file)
		must.CheckThat(t, f.Remove("servers", c.member), "%s: not found", c.member)
		if got, want := string(f.Bytes()), strings.Replace(file, c.removed, "", 1); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.member, got, want)
		}
	}
	f := open(t, file)
	f.Remove("servers", "three")
	want := "    \"two\": {} // about two\n    // at the end\n  }\n}\n"
	got := string(f.Bytes())
	must.CheckThat(t, strings.HasSuffix(got, want), "three: got\n%s\nwant the end\n%s", got, want)
	f.Remove("servers", "two")
	f.Remove("servers", "one")
	must.CheckEqual(t, string(f.Bytes()), "{\n  \"servers\": {\n    // at the end\n  }\n}\n")
	for _, c := range []struct{ before, after string }{
		{`{"a":1,"b":2}`, `{"a":1}`},
		{`{"b":2,"a":1}`, `{"a":1}`},
		{`{"a":1,"b":2,}`, `{"a":1,}`},
		{`{"a":1/*x*/,"b":2}`, `{"a":1/*x*/}`},
		{`{"b":2}`, `{}`},
	} {
		f := open(t, c.before)
		f.Remove("b")
		must.CheckEqual(t, string(f.Bytes()), c.after, c.before)
		must.CheckThat(t, !f.Remove("b") && !f.Remove("a", "b") && !f.Remove("c", "d"),
			"%s: removed a member that does not exist", c.before)
	}
}

func TestSetAndOpenReportWhatIsNoObject(t *testing.T) {
	f := open(t, `{"servers": []}`)
	must.CheckFails(t, f.Set(1, "servers", "a"), "servers must be an object")
	for _, content := range []string{"[]", "{", `{"a" 1}`} {
		path := filepath.Join(t.TempDir(), "f")
		must.Do(t, os.WriteFile(path, []byte(content), 0o600))
		must.CheckFails(t, must.Err(Open(path)), path, content)
	}
}

func TestSaveReplacesTheFileBehindALinkAndKeepsItsMode(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "dotfiles.json"), filepath.Join(dir, "link.json")
	must.Do(t, os.WriteFile(path, []byte("{}"), 0o644))
	must.Do(t, os.Symlink(path, link))
	f := must.Get(Open(link))(t)
	must.Do(t, errors.Join(f.Set(true, "a"), f.Save(t.Context())))
	must.CheckEqual(t, must.Get(os.Readlink(link))(t), path, "the link")
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o644 {
		t.Errorf("mode %v, %v, want 0644", info.Mode(), err)
	}
	content := must.Get(os.ReadFile(path))(t)
	must.CheckEqual(t, string(content), "{\n  \"a\": true\n}", content)
}

func TestSaveCreatesAFileForTheUserOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "f.json")
	f, err := Open(path)
	if err != nil || f.Exists() {
		t.Fatal(f.Exists(), err)
	}
	must.Do(t, errors.Join(f.Set(true, "a"), f.Save(t.Context())))
	for _, path := range []string{path, filepath.Dir(path)} {
		if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: mode %v, %v", path, info.Mode(), err)
		}
	}
}

func TestSaveKeepsTheChangesOfOtherPrograms(t *testing.T) {
	for _, c := range []struct {
		before, now, want string // the file when it is opened and when it is saved, and afterwards
		change            func(f *File) error
	}{
		{"", `{"s": {"b": 2}}`, `{"s": {"b": 2,"a": 1}}`, func(f *File) error { return f.Set(1, "s", "a") }},
		{`{}`, `{"s": {"b": 2}} /* theirs */`, `{"s": {"b": 2,"a": 1}} /* theirs */`,
			func(f *File) error { return f.Set(1, "s", "a") }},
		{`{"s": {"a": 0}}`, `{"t": 1, "s": {"a": 0, "b": 2}}`, `{"t": 1, "s": {"a": 1, "b": 2}}`,
			func(f *File) error { return f.Set(1, "s", "a") }},
		{`{"s": {"a": 0}}`, `{"s": {"a": 0, "b": 2}}`, `{"s": { "b": 2}}`,
			func(f *File) error { f.Remove("s", "a"); return nil }},
		{`{"s": {"a": 0}}`, `{"s": {"b": 2}}`, `{"s": {"b": 2}}`, // removed twice
			func(f *File) error { f.Remove("s", "a"); return nil }},
		{`{"l": [1]}`, `{"b": 2, "l": [1]}`, `{"b": 2, "l": [1,2]}`, func(f *File) error { return f.Append(2, "l") }},
		{`{}`, `{"a": 1, "b": 2}`, `{"a": 1, "b": 2,"c": 3}`, // a part of the changes
			func(f *File) error { return errors.Join(f.Set(1, "a"), f.Set(3, "c")) }},
		{`{"a": 0}`, `{"b": 2, "a": 0}`, `{"b": 2, "a": 5}`, // several changes of one value
			func(f *File) error { return errors.Join(f.Set(1, "a"), f.Set(5, "a")) }},
	} {
		f := open(t, c.before)
		must.Do(t, c.change(f))
		must.Do(t, os.WriteFile(f.Path(), []byte(c.now), 0o600))
		must.Do(t, f.Save(t.Context()))
		got := string(must.Get(os.ReadFile(f.Path()))(t))
		must.CheckEqual(t, compact(got), compact(c.want), c.now)
	}
}

// compact removes spaces and line feeds.
func compact(text string) string { return strings.NewReplacer(" ", "", "\n", "").Replace(text) }

func TestSaveDoesNotOverwriteWhatAnotherProgramHasChanged(t *testing.T) {
	for _, c := range []struct {
		before, now string
		change      func(f *File) error
	}{
		{`{}`, `{"a": 1}`, func(f *File) error { return f.Set(true, "a") }},
		{`{"a": 0}`, `{"a": 1}`, func(f *File) error { return f.Set(true, "a") }},
		{`{"a": 0}`, `{}`, func(f *File) error { return f.Set(true, "a") }},
		{`{"a": 0}`, `{"a": 1}`, func(f *File) error { f.Remove("a"); return nil }},
		{`{"l": [1]}`, `{"l": [2]}`, func(f *File) error { return f.Append(2, "l") }},
		{`{}`, `{"a": `, func(f *File) error { return f.Set(true, "b") }}, // half of it is written
	} {
		f := open(t, c.before)
		must.Do(t, c.change(f))
		must.Do(t, os.WriteFile(f.Path(), []byte(c.now), 0o600))
		err := f.Save(t.Context())
		must.CheckThat(t, err != nil && (!json.Valid([]byte(c.now)) || errors.Is(err, errChanged)),
			"%s: error %v, want errChanged", c.now, err)
		must.CheckEqual(t, string(must.Get(os.ReadFile(f.Path()))(t)), c.now, "content")
	}
}

func TestServersThatAreAddedAtTheSameTimeAreAllInTheFile(t *testing.T) {
	const n = 20
	path := filepath.Join(t.TempDir(), "new", "f.json")
	files := make([]*File, n)
	for i := range files { // all are open before the first is saved
		files[i] = must.Get(Open(path))(t)
		must.Do(t, files[i].Set(i, "servers", strconv.Itoa(i)))
	}
	var all sync.WaitGroup
	for _, f := range files {
		all.Go(func() { must.Check(t, f.Save(t.Context())) })
	}
	all.Wait()
	saved := must.Get(Open(path))(t)
	for i := range n {
		must.CheckEqual(t, string(saved.Get("servers", strconv.Itoa(i))), strconv.Itoa(i), "server")
	}
}

func TestGetReturnsStandardJSON(t *testing.T) {
	f := open(t, `{"a": {"b": [1, /* two */ 2,], },}`)
	got := string(f.Get("a", "b"))
	must.CheckThat(t, !strings.Contains(got, "/*") && !strings.Contains(got, ",]"), "got %s", got)
	must.CheckThat(t, f.Get("a", "c") == nil && f.Get("a", "b", "c") == nil, "found a member that does not exist")
}

func TestDiffShowsNoStringsOfOtherEntries(t *testing.T) {
	f := open(t,
		"{\n  \"servers\": {\n    \"a\": {\n      \"args\": [\n        \"secret1\"\n      ],\n      \"key\": "+
			"\"sec\\\"ret2\"\n    },\n    \"c\": {\"key\": \"secret3\"}\n  }\n}\n")
	must.CheckEqual(t, f.Diff(), "", "a difference without a change")
	must.Do(t, f.Set("new", "servers", "b"))
	must.Do(t, f.Set(command{Command: "x"}, "servers", "c"))
	f.Remove("servers", "a")
	want := "PATH\n+servers.b: \"new\"\n-servers.c\n+servers.c: {\n+  \"command\": \"x\"\n+}\n-servers.a\n"
	got := strings.ReplaceAll(f.Diff(), f.Path(), "PATH")
	must.CheckThat(t, got == want, "got\n%s\nwant\n%s", got, want)
}

func TestByteOrderMarkAndLineEndsAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.json")
	for content, want := range map[string]string{
		"\ufeff{\r\n  \"a\": 1\r\n}\r\n": "\ufeff{\r\n  \"a\": 1,\r\n  \"b\": 2\r\n}\r\n",
		"\ufeff":                         "\ufeff{\n  \"b\": 2\n}\n",
	} {
		must.Do(t, os.WriteFile(path, []byte(content), 0o600))
		f := must.Get(Open(path))(t)
		must.Do(t, f.Set(2, "b"))
		must.Do(t, f.Save(t.Context()))
		got, _ := os.ReadFile(path)
		must.CheckThat(t, string(got) == want, "%q becomes %q, want %q", content, got, want)
	}
}
