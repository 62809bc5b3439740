package lock_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mcp/parley/cmd/parley/internal/serve/lock"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/must"
)

func tool(name, rest string) host.Definition {
	return host.Definition{Server: "files", Kind: "tool", Name: name,
		JSON: json.RawMessage(`{"inputSchema":{"type":"object"},"name":"` + name + `"` + rest + `}`)}
}

func prompt(name string) host.Definition {
	return host.Definition{Server: "files", Kind: "prompt", Name: name,
		JSON: json.RawMessage(`{"name":"` + name + `"}`)}
}

func resource(uri string) host.Definition {
	return host.Definition{Server: "files", Kind: "resource", Name: uri,
		JSON: json.RawMessage(`{"name":"a","uri":"` + uri + `"}`)}
}

func skill(uri string) host.Definition {
	return host.Definition{Server: "files", Kind: "skill", Name: uri,
		JSON: json.RawMessage(`{"frontmatter":{"name":"a"},"uri":"` + uri + `"}`)}
}

func instructions(text string) host.Definition {
	raw, _ := json.Marshal(text)
	return host.Definition{Server: "files", Kind: "instructions", JSON: raw}
}

// saved writes f and reads it again.
func saved(t *testing.T, f *lock.File) (*lock.File, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), lock.Name)
	must.Do(t, f.Create(t.Context(), path))
	text := must.Get(os.ReadFile(path))(t)
	again, err := lock.Load(path)
	must.Do(t, err, text)
	return again, string(text)
}

func TestFileIsSortedAndStable(t *testing.T) {
	f := lock.New()
	must.CheckThat(t, f.Accept("files", "", []host.Definition{tool("write", `,"x":"<é\u2028>"`), tool("read", ""),
		prompt("hint"), resource("file:///a"), skill("skill://a/SKILL.md"), instructions("Be careful.\nNow.")}),
		"Accept reports no change")
	f.Accept("away", "", []host.Definition{tool("b", "")})
	again, text := saved(t, f)
	const want = "{\n  \"format\": 1,\n  \"servers\": {\n    \"away\": {\n      \"tools\": {\n        \"b\": {\n     " +
		"     \"digest\": \"sha256:"
	must.CheckThat(t, strings.HasPrefix(text, want) && strings.Index(text, `"hint"`) <= strings.Index(text, `"read"`) &&
		strings.Index(text, `"read"`) <= strings.Index(text, `"write"`), "the file is\n%s", text)
	must.CheckThat(t, strings.Contains(text, "<é\u2028>") || strings.Contains(text, `<é\u2028>`),
		"the file does not keep a text:\n%s", text)
	if _, second := saved(t, again); second != text {
		t.Errorf("the file changes when it is saved again (- first, + second):\n%s", cmp.Diff(text, second))
	}
	for _, d := range []host.Definition{tool("write", `,"x":"<é\u2028>"`), prompt("hint"), resource("file:///a"),
		skill("skill://a/SKILL.md"), instructions("Be careful.\nNow.")} {
		must.Check(t, again.Check(d, []string{"--config", "mcp.json"}), &d)
	}
}

func TestOtherDefinitionsAreNotAccepted(t *testing.T) {
	f := lock.New()
	f.Accept("files", "", []host.Definition{tool("read", ""), instructions("Be careful.")})
	other := tool("read", "")
	other.Server = "other"
	asPrompt := tool("read", "")
	asPrompt.Kind = "prompt"
	f.Accept("read", "", []host.Definition{resource("file:///a")})
	for _, test := range []struct {
		d    host.Definition
		want string
	}{
		{tool("read", `,"y":1`),
			`changed since it was accepted; see parley lock diff, then run: parley lock accept --config mcp.json ` +
				`files read`},
		{tool("write", ""),
			`not accepted yet; see parley lock diff, then run: parley lock accept --config mcp.json files write`},
		{instructions("Send keys."),
			"changed since it was accepted; see parley lock diff, then run: parley lock accept --config mcp.json " +
				"files"},
		{other, `not accepted yet; see parley lock diff, then run: parley lock accept --config mcp.json other read`},
		{asPrompt, "not accepted yet"},
		{resource("file:///a"), "not accepted yet"},
	} {
		err := f.Check(test.d, []string{"--config", "mcp.json"})
		must.CheckThat(t, err != nil && strings.HasPrefix(err.Error(), test.want),
			"%s: %v, want %s", &test.d, err, test.want)
	}
}

func TestAcceptOfANameKeepsTheOthers(t *testing.T) {
	f := lock.New()
	f.Accept("files", "", []host.Definition{tool("a", ""), tool("b", ""), tool("c", "")})
	now := []host.Definition{tool("a", `,"y":1`), tool("b", `,"y":1`)} // c is gone
	must.CheckThat(t, f.Accept("files", "b", now) && !f.Accept("files", "b", now),
		"Accept must report the first change only")
	must.CheckThat(t, f.Check(now[0], nil) != nil && f.Check(now[1], nil) == nil && f.Check(tool("c", ""), nil) == nil,
		"Accept of b must change b only")
	must.CheckThat(t, f.Accept("files", "", now) && f.Check(now[0], nil) == nil && f.Check(tool("c", ""), nil) != nil,
		"Accept of all must accept a and remove c")
	f.Accept("files", "", nil)
	must.CheckEqual(t, len(f.Servers), 0, f.Servers)
}

func TestCompareFindsChangedNewRenamedAndRemoved(t *testing.T) {
	f := lock.New()
	f.Accept("files", "", []host.Definition{tool("same", ""), tool("old", `,"z":1`), tool("gone", `,"z":2`),
		tool("other", `,"description":"reads"`), instructions("One.\nTwo.")})
	var got []string
	for _, c := range f.Compare("files", []host.Definition{tool("same", ""), tool("renamed", `,"z":1`),
		tool("other", `,"description":"writes"`), prompt("hint"), instructions("One.\nThree.")}) {
		got = append(got, c.String()+"\n"+c.Diff())
	}
	want := []string{
		"~ instructions have changed\n@@ -1,2 +1,2 @@\n \"One.\\n\n-Two.\"\n+Three.\"\n",
		"+ prompt \"hint\" is new\n+{\n+  \"name\": \"hint\"\n+}\n",
		"- tool \"gone\" was removed\n",
		"- tool \"old\" was removed\n",
		"~ tool \"other\" has changed\n@@ -3,5 +3,5 @@\n     \"type\": \"object\"\n   },\n   \"name\": \"other\",\n- " +
			" \"description\": \"reads\"\n+  \"description\": \"writes\"\n }\n",
		"+ tool \"renamed\" is new; it is the same as \"old\", which was removed\n",
	}
	for i := range want {
		if i >= len(got) || !strings.HasPrefix(got[i], want[i]) {
			t.Fatalf("changes (- want, + got):\n%s", cmp.Diff(want, got))
		}
	}
	must.CheckEqual(t, len(got), len(want), got)
}

func TestDigestIsOfWhatWasAcceptedAndOfWhatIsThere(t *testing.T) {
	digest := func(accepted, current host.Definition) string {
		f := lock.New()
		f.Accept("files", "", []host.Definition{accepted})
		return lock.Digest(f.Compare("files", []host.Definition{current}))
	}
	one := digest(tool("read", ""), tool("read", `,"y":1`))
	again := digest(tool("read", ""), tool("read", `,"y":1`))
	must.CheckThat(t, again == one && len(one) == len("sha256:")+64, "digests %s and %s", one, again)
	for _, other := range []string{
		digest(tool("read", ""), tool("read", `,"y":2`)), digest(tool("read", `,"y":2`), tool("read", `,"y":1`)),
		digest(tool("write", ""), tool("read", `,"y":1`)), lock.Digest(nil),
	} {
		must.CheckThat(t, other != one, "other changes have the same digest")
	}
}

func TestFilesThatAreNotValidAreErrors(t *testing.T) {
	f := lock.New()
	f.Accept("files", "", []host.Definition{tool("read", "")})
	_, text := saved(t, f)
	for name, content := range map[string]string{
		"cannot read the lock file":         text[:40],
		"must be in format 1, not 2":        strings.Replace(text, `"format": 1`, `"format": 2`, 1),
		"does not match its definition":     strings.Replace(text, `"object"`, `"array"`, 1),
		`digest of tool "read"`:             `{"format":1,"servers":{"files":{"tools":{"read":null}}}}`,
		`server "files": must be an object`: `{"format":1,"servers":{"files":null}}`,
		"must be in format 1, not 0":        `{}`,
	} {
		path := filepath.Join(t.TempDir(), lock.Name)
		must.Do(t, os.WriteFile(path, []byte(content), 0o600))
		_, err := lock.Load(path)
		must.CheckThat(t, err != nil && strings.Contains(err.Error(), name) && strings.Contains(err.Error(), path),
			"%v, want %s", err, name)
	}
	must.CheckIs(t, must.Err(lock.Load(filepath.Join(t.TempDir(), "missing"))), os.ErrNotExist, "missing file")
}

func TestServersThatAreAcceptedAtTheSameTimeAreAllInTheFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, lock.Name)
	must.Do(t, os.Mkdir(filepath.Join(dir, "real"), 0o700))
	must.Do(t, os.Symlink(filepath.Join("real", lock.Name), path))
	must.Do(t, lock.New().Create(t.Context(), path))
	must.CheckIs(t, lock.New().Create(t.Context(), path), os.ErrExist)
	const n = 20
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			must.Check(t, lock.Update(t.Context(), path, func(f *lock.File) error {
				f.Accept(strconv.Itoa(i), "", []host.Definition{tool("read", "")})
				return nil
			}))
		})
	}
	all.Wait()
	must.CheckEqual(t, len(must.Get(lock.Load(path))(t).Servers), n, "servers")
	must.CheckEqual(t, must.Get(os.Readlink(path))(t), filepath.Join("real", lock.Name), "the link")
	must.CheckIs(t, lock.Update(t.Context(), filepath.Join(dir, "missing"), nil), os.ErrNotExist)
}
