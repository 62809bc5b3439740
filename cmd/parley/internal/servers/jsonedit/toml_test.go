package jsonedit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tailscale/hujson"

	"github.com/parley-mcp/parley/internal/must"
)

// ordered is an object for Set.
type ordered string

func (o ordered) MarshalJSON() ([]byte, error) { return []byte(o), nil }

const settings = `# my settings
model = "o3" # "secret" of mine

[mcp_servers]

# the files
[mcp_servers.files]
# how it starts
command = "npx" # not bunx
args = [
  "-y", # yes
  "files",
]
# the token
[mcp_servers.files.env]
TOKEN = """
s3cr3t
"""

# the other
[mcp_servers."a b"]
url = 'https://example.com/mcp'

[profiles.fast]
model = "mini"
`

func openTOML(t *testing.T, content string) *File {
	path := filepath.Join(t.TempDir(), "config.toml")
	must.Do(t, os.WriteFile(path, []byte(content), 0o600))
	return must.Get(Open(path))(t)
}

func TestTablesOfTOMLAreSetAndRemoved(t *testing.T) {
	const entry = `{"command":"uvx","args":["x","it's \"so\"\n"],"env":{"A.B":"1"},"enabled":true}`
	const table = "command = \"uvx\"\nargs = [\"x\", \"it's \\\"so\\\"\\u000A\"]\nenv = { \"A.B\" = \"1\" }\nenabled = true\n"
	files := settings[strings.Index(settings, "# the files"):strings.Index(settings, "# the other")]
	other := settings[strings.Index(settings, "# the other"):strings.Index(settings, "[profiles")]
	for name, test := range map[string]struct {
		change        func(f *File) error
		content, want string
	}{
		"added": {func(f *File) error { return f.Set(ordered(entry), "mcp_servers", "new") }, settings,
			settings + "\n[mcp_servers.new]\n" + table},
		"added to a file of Windows": {func(f *File) error { return f.Set(ordered(entry), "mcp_servers", "n") },
			"a = 1\r\n", "a = 1\r\n\r\n" + strings.ReplaceAll("[mcp_servers.n]\n"+table, "\n", "\r\n")},
		"added to an empty file": {func(f *File) error { return f.Set(ordered(entry), "mcp_servers", "new") }, "",
			"[mcp_servers.new]\n" + table},
		"replaced": {func(f *File) error { return f.Set(ordered(entry), "mcp_servers", "files") }, settings,
			strings.Replace(settings, files, "[mcp_servers.files]\n"+table+"\n", 1)},
		"removed": {func(f *File) error { return f.Remove2("mcp_servers", "files") }, settings,
			strings.Replace(settings, files, "", 1)},
		"removed with a quoted name": {func(f *File) error { return f.Remove2("mcp_servers", "a b") }, settings,
			strings.Replace(settings, other, "", 1)},
		"removed from within a table": {func(f *File) error { return f.Remove2("mcp_servers", "a") },
			"[mcp_servers]\na = { command = \"x\" }\nb.command = \"y\"\n", "[mcp_servers]\nb.command = \"y\"\n"},
		"removed as the last one": {func(f *File) error { return f.Remove2("mcp_servers", "b") },
			"x = 1\n\n[mcp_servers.b]\ncommand = \"y\"\n", "x = 1\n"},
		"removed in two places": {func(f *File) error { return f.Remove2("mcp_servers", "b") },
			"[mcp_servers.b]\ncommand = \"y\"\n\n[c]\nd = 1\n\n[mcp_servers.b.env]\nA = \"1\"\n", "[c]\nd = 1\n"},
	} {
		f := openTOML(t, test.content)
		must.Do(t, test.change(f))
		must.CheckEqual(t, string(f.Bytes()), test.want, name)
		must.Do(t, f.Save(t.Context()))
		must.Get(Open(f.Path()))(t)
	}
}

// Remove2 is Remove with an error.
func (f *File) Remove2(path ...string) error {
	if !f.Remove(path...) {
		return os.ErrNotExist
	}
	return nil
}

func TestTableThatIsInlineIsNotChanged(t *testing.T) {
	f := openTOML(t, `mcp_servers = { a = { command = "x" } }`)
	err := f.Set(ordered(`{"command":"y"}`), "mcp_servers", "b")
	must.CheckThat(t, err != nil && strings.HasSuffix(err.Error(),
		"config.toml: mcp_servers must be tables such as [mcp_servers.b]"), "%v", err)
	must.CheckEqual(t, f.Changed(), false)
}

func TestDiffOfTOMLShowsTheNewTable(t *testing.T) {
	f := openTOML(t, settings)
	must.Do(t, f.Set(ordered(`{"command":"new"}`), "mcp_servers", "files"))
	want := "PATH\n-mcp_servers.files\n+[mcp_servers.files]\n+command = \"new\"\n"
	must.CheckEqual(t, strings.ReplaceAll(f.Diff(), f.Path(), "PATH"), want)
}

func TestTOMLIsReadAsJSONIs(t *testing.T) {
	parsed := must.Get(ParseTOML([]byte(`a.b = 0x1F
a."c d" = [true, 1.5, 'x', """
y\
  z""", {q = 1, r.s = "t"}, inf, 2026-01-02]
[a.e]
f = -1_000
[[g]]
h = 1
[[g]]
h = 2
`)))(t)
	must.CheckEqual(t, string(parsed.Pack()), `{"a":{"b":31,"c d":[true,1.5,"x","yz",{"q":1,"r":{"s":"t"}},"inf","2026-01-02"],`+
		`"e":{"f":-1000}},"g":{"0":{"h":1},"1":{"h":2}}}`)
	for content, want := range map[string]string{
		"a = 1\na = 2":   "line 2: a is defined twice",
		"a = 1\n[a.b]\n": "line 2: a.b is not a table",
		"a = ":           "",
	} {
		must.CheckFails(t, must.Err(ParseTOML([]byte(content))), want, content)
	}
	must.CheckEqual(t, parsed.Find("/a/e/f").Value.(hujson.Literal).Int(), -1000)
}
