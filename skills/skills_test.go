package skills_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/skills"
)

// skill returns the text of a SKILL.md.
func skill(name string, more ...string) *fstest.MapFile {
	text := "---\nname: " + name + "\ndescription: Does " + name + "\n" + strings.Join(more, "\n") + "\n---\n\n# " +
		name + "\n"
	return &fstest.MapFile{Data: []byte(text)}
}

func text(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }

// library contains two skills, one of them with directories and a nested skill, and files that are left out.
func library() fstest.MapFS {
	return fstest.MapFS{
		"acme/refunds/SKILL.md":             skill("refunds", "license: MIT", "metadata: {version: 1.0, tags: [a, b]}"),
		"acme/refunds/templates/a.md":       text("# A"),
		"acme/refunds/templates/eu/b.md":    text("# B"),
		"acme/refunds/templates/c d.bin":    text("\x00\x01"),
		"acme/refunds/.git/config":          text("left out"),
		"acme/refunds/link":                 {Data: []byte("a.md"), Mode: os.ModeSymlink},
		"acme/refunds/inner/SKILL.md":       skill("inner"),
		"acme/README.md":                    text("in no skill"),
		"pdf-processing/SKILL.md":           skill("pdf-processing"),
		"pdf-processing/references/FORM.md": text("# Forms"),
	}
}

func serve(t testing.TB, fsys fstest.MapFS, options skills.Options) (*server.Server, *skills.Directory) {
	t.Helper()
	s := &server.Server{Name: "library"}
	d := must.Get(skills.Add(s, fsys, options))(t)
	return s, d
}

func collect(t testing.TB, c skills.Source) (all []*skills.Skill) {
	t.Helper()
	for s, err := range skills.List(t.Context(), c) {
		must.Do(t, err)
		all = append(all, s)
	}
	return all
}

func uris(files []skills.File) (all []string) {
	for _, f := range files {
		all = append(all, strings.TrimPrefix(f.URI, "skill://"))
	}
	return all
}

// Listing Skills, Getting a Skill, Resources: an entry lists all files once, including the files of nested skills,
// which also have their own entry.
func TestSkillsAreListedAndReadInEachRevision(t *testing.T) {
	for _, revision := range []mcp.Revision{mcp.V20241105, mcp.V20250326, mcp.V20250618, mcp.V20251125, mcp.V20260728} {
		t.Run(string(revision), func(t *testing.T) {
			s, _ := serve(t, library(), skills.Options{})
			c := mcptest.Dial(t, s, mcptest.WithRevision(revision))
			all := collect(t, c)
			must.Equal(t, len(all), 3)
			refunds, inner := all[0], all[1]
			got := strings.Join(uris(refunds.Files), "\n")
			want := "acme/refunds/SKILL.md\nacme/refunds/inner/SKILL.md\nacme/refunds/templates/a.md\n" +
				"acme/refunds/templates/c%20d.bin\nacme/refunds/templates/eu/b.md"
			must.CheckEqual(t, got, want)
			must.CheckThat(t, inner.Name == "inner" && len(inner.Files) == 1 && refunds.Description == "Does refunds",
				"%+v, %+v", inner, refunds)
			must.CheckEqual(t, string(refunds.Frontmatter),
				`{"description":"Does refunds","license":"MIT","metadata":{"tags":["a","b"],"version":1},`+
					`"name":"refunds"}`, refunds.Frontmatter)
			for _, f := range refunds.Files {
				contents := must.Get(skills.Read(t.Context(), c, refunds, f.URI))(t)
				must.CheckEqual(t, int64(len(contents)), f.Size, f.URI, contents)
			}
			same := must.Get(skills.Get(t.Context(), c, refunds.URI))(t)
			must.CheckEqual(t, same.Digest(), refunds.Digest(), same)
		})
	}
}

// Resource Metadata: the SKILL.md is a resource with the name and description of the frontmatter.
func TestEachSkillIsAResource(t *testing.T) {
	s, _ := serve(t, library(), skills.Options{Prefix: "org/team one"})
	c := mcptest.Dial(t, s)
	var got []string
	for r, err := range c.Resources(t.Context()) {
		must.Do(t, err)
		got = append(got, strings.Join([]string{r.URI, r.Name, r.Description, r.MimeType}, " | "))
	}
	must.CheckThat(t, len(got) == 3 &&
		(got[0] == "skill://org/team%20one/acme/refunds/SKILL.md | refunds | Does refunds | text/markdown" ||
			got[1] == "skill://org/team%20one/acme/refunds/SKILL.md | refunds | Does refunds | text/markdown"), "%q", got)
}

// Reading Directories: every directory of the namespace can be read, and nothing else.
func TestDirectoriesAreRead(t *testing.T) {
	s, _ := serve(t, library(), skills.Options{Prefix: "org"})
	c := mcptest.Dial(t, s)
	for uri, want := range map[string]string{
		"skill://org":                           "acme/ pdf-processing/",
		"skill://org/acme":                      "refunds/",
		"skill://org/acme/refunds":              "SKILL.md inner/ templates/",
		"skill://org/acme/refunds/templates":    "a.md c d.bin eu/",
		"skill://org/acme/refunds/templates/eu": "b.md",
	} {
		all, err := skills.ReadDirectory(t.Context(), c, uri)
		var names []string
		for _, r := range all {
			if r.MimeType == "inode/directory" {
				r.Name += "/"
			}
			names = append(names, r.Name)
		}
		got := strings.Join(names, " ")
		must.CheckThat(t, err == nil && got == want, "%s: %q, %v", uri, got, err)
	}
	for _, uri := range []string{"skill://org/acme/refunds/SKILL.md", "skill://org/none",
		"skill://org/acme/refunds/.git",
		"skill://org/acme/refunds/", "skill://org/acme/../acme/refunds", "file:///etc"} {
		_, err := skills.ReadDirectory(t.Context(), c, uri)
		expectInvalidParams(t, uri, err)
	}
}

func expectInvalidParams(t *testing.T, uri string, err error) {
	t.Helper()
	var e *jsonrpc.Error
	must.CheckThat(t, errors.As(err, &e) && e.Code == jsonrpc.CodeInvalidParams, "%s: %v", uri, err)
}

// Error Handling: files that belong to no skill are not served.
func TestOnlyFilesOfSkillsAreServed(t *testing.T) {
	s, _ := serve(t, library(), skills.Options{})
	c := mcptest.Dial(t, s)
	for _, uri := range []string{"skill://acme/README.md", "skill://acme/refunds/.git/config",
		"skill://acme/refunds/link",
		"skill://acme/refunds/templates/../SKILL.md", "skill://acme/refunds/templates/c d.bin",
		"skill://acme/refunds/templates/%2e%2e/SKILL.md", "skill://acme/refunds", "skill://none/SKILL.md"} {
		_, err := c.ReadResource(t.Context(), uri)
		expectInvalidParams(t, uri, err)
		_, err = skills.Get(t.Context(), c, uri)
		expectInvalidParams(t, uri, err)
	}
}

// Pages contain at most 100 entries, and each entry is on exactly one page.
func TestLargeLibrariesHavePages(t *testing.T) {
	fsys := fstest.MapFS{}
	for i := range 250 {
		name := "s-" + strings.Repeat("x", i/26) + string(rune('a'+i%26))
		fsys[name+"/SKILL.md"] = skill(name)
		fsys["one/files/"+name+".md"] = text(name)
	}
	fsys["one/SKILL.md"] = skill("one")
	s, _ := serve(t, fsys, skills.Options{})
	c := mcptest.Dial(t, s)
	must.CheckEqual(t, len(collect(t, c)), 251)
	must.CheckEqual(t, len(must.Get(skills.ReadDirectory(t.Context(), c, "skill://one/files"))(t)), 250)
}

// Changes of the file system are announced, and the next request sees them.
func TestChangesAreServedAndAnnounced(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)))
	}
	write("one/SKILL.md", string(skill("one").Data))
	write("one/a.md", "first")
	r := must.Get(os.OpenRoot(root))(t)
	defer r.Close()
	s := &server.Server{}
	d, err := skills.Add(s, r.FS(), skills.Options{})
	must.Do(t, err)
	c := mcptest.Dial(t, s)
	changes := make(chan client.Change, 16)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for change, err := range c.Watch(ctx, client.WatchFilter{Resources: true, URIs: []string{"skill://one/a.md"}}) {
			if err == nil {
				changes <- change
			}
		}
	}()
	defer func() { stop(); <-done }()
	for range 2 { // the watch has begun
		change := <-changes
		must.CheckThat(t, change.Resync, "%+v", change)
	}
	entry := collect(t, c)[0]
	write("one/a.md", "second")
	write("two/SKILL.md", string(skill("two").Data))
	write("bad/SKILL.md", "no frontmatter")
	must.CheckFails(t, d.Rescan(), "bad/SKILL.md")
	for range 2 { // once for the list, once for the file
		select {
		case change := <-changes:
			must.CheckThat(t, !change.Resync, "%+v", change)
		case <-time.After(time.Minute):
			t.Fatal("a change is not announced")
		}
	}
	must.CheckEqual(t, len(collect(t, c)), 2)
	_, err = skills.Read(t.Context(), c, entry, "skill://one/a.md")
	var changed *skills.VerificationError
	must.CheckThat(t, errors.As(err, &changed), "%v", err)
	now, err := skills.Get(t.Context(), c, entry.URI)
	must.That(t, err == nil && now.Digest() != entry.Digest(), "%v: the same digest", err)
	contents := must.Get(skills.Read(t.Context(), c, now, "skill://one/a.md"))(t)
	must.CheckEqual(t, string(contents), "second", contents)
}

// Watch reads the file system until its context ends.
func TestWatchReportsInvalidSkills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := library()
		_, d := serve(t, fsys, skills.Options{})
		fsys["bad/SKILL.md"] = text("---\nname: good\ndescription: x\n---\n")
		ctx, stop := context.WithTimeout(t.Context(), 25*time.Second)
		defer stop()
		n := 0
		d.Watch(ctx, 10*time.Second, func(err error) {
			if n++; !strings.Contains(err.Error(),
				`bad/SKILL.md: the last directory of the URI must be the name "good"`) {
				t.Error(err)
			}
		})
		must.CheckEqual(t, n, 2)
	})
}

func TestAServerHasTheSkillsOfOneFileSystem(t *testing.T) {
	s, _ := serve(t, library(), skills.Options{})
	_, err := skills.Add(s, fstest.MapFS{"other/SKILL.md": skill("other")}, skills.Options{Prefix: "more"})
	must.CheckThat(t, err != nil && strings.Contains(err.Error(), "was added already"), "%v", err)
	if _, err := mcptest.Dial(t, s).ReadResource(t.Context(), "skill://more/other/SKILL.md"); err == nil {
		t.Error("a skill is served although Add has failed")
	}
}

func TestInvalidSkillsAreNotServed(t *testing.T) {
	large := make([]byte, skills.MaxSize)
	many := fstest.MapFS{"s/SKILL.md": skill("s")}
	for i := range skills.MaxFiles {
		many["s/"+string(rune('a'+i%26))+strings.Repeat("x", i/26)] = text("")
	}
	for want, fsys := range map[string]fstest.MapFS{
		"must be in a directory":          {"SKILL.md": skill("s")},
		"must be the name":                {"other/SKILL.md": skill("s")},
		"lowercase letters":               {"S/SKILL.md": skill("S")},
		"must have a description":         {"s/SKILL.md": text("---\nname: s\n---\n")},
		"must begin with frontmatter":     {"s/SKILL.md": text("# s\n")},
		"a line of ---, YAML, and a line": {"s/SKILL.md": text("---\nname: s\n")},
		"must be YAML":                    {"s/SKILL.md": text("---\nname: [\n---\n")},
		"must be a YAML mapping":          {"s/SKILL.md": text("---\n- s\n---\n")},
		`the key "name" occurs twice`:     {"s/SKILL.md": skill("s", "name: s")},
		"JSON has no number":              {"s/SKILL.md": skill("s", "x: .inf")},
		"must not exceed 65536 bytes": {"s/SKILL.md": skill("s",
			strings.Repeat("x: "+strings.Repeat("y", 1<<10)+"\n", 10<<10))},
		"10000 values and 64 levels": {"s/SKILL.md": skill("s",
			"x: "+strings.Repeat("[", 100)+strings.Repeat("]", 100))},
		"at most 16777216 bytes": {"s/SKILL.md": skill("s"), "s/large": {Data: large}},
		"at most 512 files":      many,
		"at most 1024 characters": {"s/SKILL.md": text("---\nname: s\ndescription: " +
			strings.Repeat("x", 1025) + "\n---\n")},
	} {
		must.CheckFails(t, must.Err(skills.Add(&server.Server{}, fsys, skills.Options{})), want)
	}
}

// source is a server whose answers the tests write.
type source struct {
	list     string            // the result of skills/list
	files    map[string]string // by URI
	settings string
	reads    []string
	lists    int
}

func (s *source) CallExtension(_ context.Context, method string, _ any,
	_ ...client.CallOption) (json.RawMessage, error) {
	s.lists++
	return json.RawMessage(s.list), nil
}

func (s *source) ReadResource(_ context.Context, uri string, _ ...client.CallOption) (*mcp.ReadResourceResult, error) {
	s.reads = append(s.reads, uri)
	return &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{{URI: uri, Text: s.files[uri]}}}, nil
}

func (s *source) Server() client.ServerDetails {
	var d client.ServerDetails
	if s.settings != "" {
		d.Capabilities.Extensions = map[string]json.RawMessage{mcp.ExtensionSkills: json.RawMessage(s.settings)}
	}
	return d
}

const (
	oneURI  = "skill://one/SKILL.md"
	oneText = "---\nname: one\ndescription: d\ncount: 1\n---\n"
)

// oneEntry returns the entry of the skill with the text oneText, with old replaced by new.
func oneEntry(old, new string) string {
	const entry = `{"uri":"skill://one/SKILL.md","frontmatter":{"name":"one","description":"d","count":1},` +
		`"resources":[` +
		`{"uri":"skill://one/SKILL.md","size":42,` +
		`"digest":"sha256:2c0e4bb1d4a9ba9a0a3fa6c9b1d4d7a0ad8b5a1ff1a1d4b2b1bd6a4f1d6a0c11"}]}`
	return strings.Replace(entry, old, new, 1)
}

// Skill Entries: an invalid entry is an error, and the others are used.
func TestInvalidEntriesAreErrors(t *testing.T) {
	for want, entry := range map[string]string{
		"resources must be a list": oneEntry(`"resources"`, `"other"`),
		"not null": `{"uri":"skill://one/SKILL.md","frontmatter":{"name":"one","description":"d"},` +
			`"resources":null}`,
		"frontmatter must be":      oneEntry(`{"name":"one","description":"d","count":1}`, `[]`),
		"must have a description":  oneEntry(`"description":"d",`, ``),
		"lowercase letters":        oneEntry(`"name":"one"`, `"name":"One"`),
		"must be the name":         oneEntry(`"name":"one"`, `"name":"two"`),
		"must end with":            oneEntry(`one/SKILL.md"`, `one/skill.md"`),
		"query":                    oneEntry(`skill://one/SKILL.md"`, `skill://one?x/SKILL.md"`),
		"64 lowercase hexadecimal": oneEntry(`sha256:2c`, `sha256:2C`),
		"must not be negative":     oneEntry(`"size":42`, `"size":-1`),
		"must have SKILL.md":       oneEntry(`[{"uri":"skill://one/SKILL.md"`, `[{"uri":"skill://one/OTHER.md"`),
		"in the directory":         oneEntry(`[{"uri":"skill://one/SKILL.md"`, `[{"uri":"skill://two/SKILL.md"`),
		"one/../two":               oneEntry(`[{"uri":"skill://one/SKILL.md"`, `[{"uri":"skill://one/../two/x"`),
		"one/%2e%2e/two":           oneEntry(`[{"uri":"skill://one/SKILL.md"`, `[{"uri":"skill://one/%2e%2e/two"`),
	} {
		from := &source{settings: "{}", list: `{"skills":[` + entry + `,` + oneEntry("", "") + `]}`}
		var errs []error
		n := 0
		for _, err := range skills.List(t.Context(), from) {
			if err != nil {
				errs = append(errs, err)
			} else {
				n++
			}
		}
		must.CheckThat(t, len(errs) == 1 && n == 1 && strings.Contains(errs[0].Error(), want),
			"%s: %v, and %d skills", want, errs, n)
	}
}

// one returns the skill with this frontmatter and a list of files that is made from text.
func one(t *testing.T, frontmatter, text string) *skills.Skill {
	t.Helper()
	s := &skills.Skill{URI: oneURI, Name: "one", Description: "d", Frontmatter: json.RawMessage(frontmatter)}
	s.Files = []skills.File{{URI: oneURI, Digest: skills.DigestOf([]byte(text)), Size: int64(len(text))}}
	return s
}

// Integrity and Verification: a file with another size, digest or frontmatter is not returned, and one that the entry
// does not list is not requested. Lazy Retrieval: List and Get read no file.
func TestFilesAreVerified(t *testing.T) {
	const frontmatter = `{"name":"one","description":"d","count":1.0}`
	good := one(t, frontmatter, oneText)
	from := &source{settings: "{}", files: map[string]string{oneURI: oneText}}
	contents := must.Get(skills.Read(t.Context(), from, good, oneURI))(t)
	must.Equal(t, string(contents), oneText, contents)
	longer, other := one(t, frontmatter, oneText+"x"), one(t, frontmatter, oneText)
	other.Files[0].Digest = skills.DigestOf(nil)
	generated := &skills.Skill{URI: oneURI,
		Frontmatter: json.RawMessage(`{"name":"one","description":"other","count":1}`)}
	for want, s := range map[string]*skills.Skill{
		"the entry says 43":                                     longer,
		"its digest is not":                                     other,
		`the field "count" of its frontmatter differs`:          one(t, `{"name":"one","description":"d","count":2}`, oneText),
		`its frontmatter contains the additional field "count"`: one(t, `{"name":"one","description":"d"}`, oneText),
		`the field "extra" of its`: one(t,
			`{"name":"one","description":"d","count":1,"extra":null}`, oneText),
		`the field "description" of its`: generated,
	} {
		expectUnverified(t, from, s, oneURI, want)
	}
	reads := len(from.reads)
	expectUnverified(t, from, good, "skill://one/added.md", "does not list it")
	expectUnverified(t, from, generated, "skill://two/SKILL.md", "not in the directory")
	expectUnverified(t, from, generated, "skill://one/%2E%2e/two/SKILL.md", "not in the directory")
	if len(from.reads) != reads {
		t.Errorf("%q were requested", from.reads[reads:])
	}
}

func expectUnverified(t *testing.T, from skills.Source, s *skills.Skill, uri, want string) {
	t.Helper()
	_, err := skills.Read(t.Context(), from, s, uri)
	var e *skills.VerificationError
	must.CheckThat(t, errors.As(err, &e) && strings.Contains(err.Error(), want), "%s: %v", want, err)
}

// Capability Negotiation: no method is called that the server does not declare.
func TestMethodsAreCalledIfTheServerDeclaresThem(t *testing.T) {
	none, plain := &source{}, &source{settings: "{}"}
	for _, err := range skills.List(t.Context(), none) {
		must.CheckIs(t, err, skills.ErrUnsupported)
	}
	_, err := skills.Get(t.Context(), none, oneURI)
	_, err2 := skills.ReadDirectory(t.Context(), plain, "skill://one")
	if !errors.Is(err, skills.ErrUnsupported) || !errors.Is(err2, skills.ErrUnsupported) || none.lists+plain.lists > 0 {
		t.Errorf("%v, %v, %d calls", err, err2, none.lists+plain.lists)
	}
}

func TestListsEnd(t *testing.T) {
	from := &source{settings: "{}", list: `{"skills":[],"nextCursor":"x"}`}
	for _, err := range skills.List(t.Context(), from) {
		must.CheckFails(t, err, "does not end")
	}
	must.CheckEqual(t, from.lists, 2)
}

// If a file system could read a path differently from the URI, the file has no path.
func TestPathsAreSafeOnEverySystem(t *testing.T) {
	s := &skills.Skill{URI: oneURI}
	must.CheckEqual(t, must.Get(s.Path("skill://one/a/b%20c.md"))(t), "a/b c.md")
	for _, rest := range []string{"", "../x", "%2e%2e/x", "a%2fb", "a/./b", "a//b", "c:x", "a%5cb", "CON", "aux.md",
		"lpt1 .txt",
		"COM%C2%B9", "x.", "x%20", "a%00", "a%0a", "a:b", "a%7Cb", "/etc"} {
		p, err := s.Path("skill://one/" + rest)
		must.CheckThat(t, err != nil, "%s: %q", rest, p)
	}
}
