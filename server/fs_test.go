package server_test

import (
	"context"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

// tree creates a directory of files by path.
func tree(t testing.TB, files map[string]string) (dir string, root *os.Root) {
	t.Helper()
	dir = t.TempDir()
	for name, data := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		must.Do(t, os.MkdirAll(filepath.Dir(file), 0o700))
		must.Do(t, os.WriteFile(file, []byte(data), 0o600))
	}
	root = must.Get(os.OpenRoot(dir))(t)
	t.Cleanup(func() { _ = root.Close() })
	return dir, root
}

// served lists the decoded paths of the files below the prefix.
func served(t *testing.T, c *client.Client, prefix string) (names []string) {
	t.Helper()
	for r, err := range c.Resources(t.Context()) {
		must.Do(t, err)
		name := must.Get(url.PathUnescape(strings.TrimPrefix(r.URI, prefix)))(t)
		names = append(names, name)
	}
	return names
}

const secretText = "s3cret"

// trap returns a server of the directory "inside" at file:///d, which has links that lead out. The files outside, and
// those that are not visible, contain secretText; the others "ok".
func trap(t testing.TB) (outer string, s *server.Server) {
	outer, _ = tree(t, map[string]string{
		"secret.txt": secretText, "inside/ok.txt": "ok", "inside/sub/ok.txt": "ok", "inside-too/secret.txt": secretText,
		"inside/.hidden": secretText, "inside/sub/.git/config": secretText,
	})
	inside := filepath.Join(outer, "inside")
	for name, target := range map[string]string{
		"absolute.txt": filepath.Join(outer, "secret.txt"), "relative.txt": "../secret.txt",
		"up": "..", "winding.txt": "sub/../../secret.txt",
		"chain.txt": "chain2.txt", "chain2.txt": "relative.txt", "loop": "loop", "fine.txt": "sub/ok.txt",
	} {
		must.Do(t, os.Symlink(target, filepath.Join(inside, name)))
	}
	root := must.Get(os.OpenRoot(inside))(t)
	t.Cleanup(func() { root.Close() })
	s = quiet()
	s.Limits.CallsPerSecond = -1
	server.AddFS(s, "file:///d", root, server.FSOptions{})
	return outer, s
}

// Rule Y2: however a path is written, it leads to a file below the directory or is not found.
func TestPathsCannotLeaveTheDirectory(t *testing.T) {
	outer, s := trap(t)
	c := mcptest.Dial(t, s)

	for _, path := range []string{"ok.txt", "sub/ok.txt", "%6fk.txt", "sub%2Fok.txt", "sub%2fok%2etxt", "fine.txt"} {
		must.CheckEqual(t, textAt(t, c, "file:///d/"+path), "ok", path)
	}

	dots := []string{"..", "%2e%2e", "%2E%2E", ".%2e", "%2e.", "..%00", "...", ". .", "..;", "%252e%252e",
		"%c0%ae%c0%ae", "%uff0e%uff0e", "..%20", ".. "}
	slashes := []string{"/", "%2f", "%2F", "\\", "%5c", "%5C", "//", "/./", "%252f", "%c0%af", ";/"}
	targets := []string{"secret.txt", "inside-too/secret.txt", "etc/passwd", ""}
	var paths []string
	for _, dot := range dots {
		for _, slash := range slashes {
			for _, target := range targets {
				paths = append(paths, dot+slash+target, "sub/"+dot+slash+dot+slash+target, slash+dot+slash+target,
					"sub"+slash+dot+slash+".hidden")
			}
		}
	}
	paths = append(paths,
		"", "/", ".", "./", "./ok.txt", "sub/./ok.txt", "sub//ok.txt", "/ok.txt", "ok.txt/", "sub", "sub/", "ok.txt%00",
		"ok.txt%00.png", "ok.txt?", "ok.txt#",
		"absolute.txt", "relative.txt", "up/secret.txt", "up/inside/ok.txt", "winding.txt", "chain.txt", "loop",
		"loop/x",
		"/etc/passwd", "%2fetc%2fpasswd", filepath.ToSlash(outer)+"/secret.txt", "~/x", "$HOME",
		".hidden", "%2ehidden", "sub/.git/config", "sub/.git%2fconfig",
		`C:\secret.txt`, "C:%5Csecret.txt", "C:/secret.txt", "c:secret.txt", "%5C%5Chost%5Cshare%5Csecret.txt",
		"//host/share/secret.txt", "%5C%5C%3F%5CC:%5Csecret.txt",
		"ok.txt::$DATA", "ok.txt%3A%3A%24DATA", "ok.txt:stream", "ok.txt.", "ok.txt%20", "ok.txt...", "sub%5Cok.txt",
		"OK~1.TXT", "sub./ok.txt", "sub%20/ok.txt",
		"ok.txt%0A", "ok.txt%0D%0A", "ok.txt%7F", "%E2%80%AEok.txt", "ok.txt%FF",
		strings.Repeat("sub/../", 1000)+"ok.txt", strings.Repeat("a/", 4000), strings.Repeat("a", 5000),
	)
	for _, path := range paths {
		uri := "file:///d/" + path
		result, err := c.ReadResource(t.Context(), uri)
		must.CheckIs(t, err, call.ErrResourceNotFound, path, result)
		must.CheckThat(t, !strings.Contains(fmt.Sprint(result, err), secretText), "%q leads out", path)
	}
	for _, uri := range []string{"file:///", "file:///d", "file:///d2/secret.txt", "file://localhost/d/ok.txt",
		"FILE:///d/ok.txt", "file:/d/ok.txt", "file:///D/ok.txt"} {
		must.CheckIs(t, must.Err(c.ReadResource(t.Context(), uri)), call.ErrResourceNotFound, uri)
	}

	want := []string{"fine.txt", "ok.txt", "sub/ok.txt"}
	got := served(t, c, "file:///d/")
	must.CheckThat(t, slices.Equal(got, want), "listed: %q, want %q", got, want)
}

// Rule Y2: completion of paths suggests served files only.
func TestCompletionSuggestsServedFilesOnly(t *testing.T) {
	_, root := tree(t, map[string]string{"notes.txt": "", "nested/a.txt": "", "nested/b.txt": "", ".night": "",
		"other": ""})
	s := quiet()
	server.AddFS(s, "file:///d/", root, server.FSOptions{})
	c := mcptest.Dial(t, s)
	for value, want := range map[string][]string{
		"":           {"nested/", "notes.txt", "other"},
		"n":          {"nested/", "notes.txt"},
		"nested/":    {"nested/a.txt", "nested/b.txt"},
		"nested/b":   {"nested/b.txt"},
		".":          {},
		".n":         {},
		"../":        {},
		"nested/..":  {},
		"/":          {},
		"notes.txt/": {},
		"unknown/":   {},
	} {
		got, err := c.Complete(t.Context(), mcp.CompleteParams{
			Ref:      mcp.CompleteReference{Type: mcp.RefResource, URI: "file:///d/{+path}"},
			Argument: mcp.CompleteArgument{Name: "path", Value: value},
		})
		must.CheckThat(t, err == nil && slices.Equal(got.Values, want), "%q: %v, %v; want %q", value, got, err, want)
	}
}

func TestFilesHaveMIMETypes(t *testing.T) {
	_, root := tree(t, map[string]string{
		"a.md": "# a", "a.go": "package a", "A.JSON": "{}", "a.svg": "<svg/>", "a.png": "\x89PNG", "text": "text",
		"bytes": "\x00\x01", "bytes.txt": "a\x00b",
		"latin1.txt": "caf\xe9", "a.unknown-extension": "text", "a.ts": "let a",
	})
	s := quiet()
	server.AddFS(s, "file:///d/", root, server.FSOptions{})
	c := mcptest.Dial(t, s)
	for name, want := range map[string]struct {
		mime string
		blob bool
	}{
		"a.md": {"text/markdown", false}, "a.go": {"text/x-go", false}, "A.JSON": {"application/json", false},
		"a.svg": {"image/svg+xml", false},
		"a.png": {"image/png", true}, "text": {"text/plain", false}, "bytes": {"application/octet-stream", true},
		"bytes.txt":  {"text/plain", true},
		"latin1.txt": {"text/plain", true}, "a.unknown-extension": {"text/plain", false},
		"a.ts": {"text/x-typescript", false},
	} {
		result, err := c.ReadResource(t.Context(), "file:///d/"+name)
		must.CheckThat(t, err == nil && result.Contents[0].MimeType == want.mime &&
			(result.Contents[0].Blob != nil) == want.blob, "%s: %+v, %v", name, result, err)
	}
}

func TestATooLargeFileIsRejected(t *testing.T) {
	dir, root := tree(t, map[string]string{"fits": strings.Repeat("x", 10), "large": strings.Repeat("x", 11)})
	s := quiet()
	server.AddFS(s, "file:///d/", root, server.FSOptions{MaxFile: 10})
	c := mcptest.Dial(t, s)
	got := textAt(t, c, "file:///d/fits")
	must.CheckEqual(t, len(got), 10, got)
	must.CheckContains(t, textAt(t, c, "file:///d/large"), "the file has 11 bytes, the limit is 10")
	// A file of unknown size.
	if runtime.GOOS == "linux" {
		must.Do(t, os.Symlink("/proc/self/status", filepath.Join(dir, "status")))
		proc := must.Get(os.OpenRoot("/proc/self"))(t)
		defer proc.Close()
		server.AddFS(s, "proc:///", proc, server.FSOptions{MaxFile: 10, Unlisted: true})
		must.CheckContains(t, textAt(t, c, "proc:///status"), "the file has 11 bytes")
	}
}

// Files are listed page by page, in the order of their URIs, together with the other resources,
// each once.
func TestFilesAreListedInTheOrderOfURIs(t *testing.T) {
	files := map[string]string{}
	for _, directory := range []string{"", "a/", "a-b/", "a b/", "a.b/", "é/", "a/a/a/", "z/z/"} {
		for _, name := range []string{"a", "a.txt", "a b", "a-b", "b", "é", "~", "%41", "(1)", "a+b&c=d", "日本"} {
			files[directory+"file "+name] = ""
		}
	}
	_, root := tree(t, files)
	_, second := tree(t, map[string]string{"a": "", "b": ""})
	s := quiet()
	s.Limits.PageSize = 3
	server.AddFS(s, "file:///d/", root, server.FSOptions{})
	server.AddFS(s, "file:///d-2/", second, server.FSOptions{})
	// the last hides a file
	for _, uri := range []string{"file:///c", "file:///d/a/between", "file:///e", "file:///d-2/b"} {
		server.AddStatic(s, mcp.Resource{URI: uri, Name: "static"}, "")
	}
	c := mcptest.Dial(t, s)
	var got []string
	for r, err := range c.Resources(t.Context()) {
		must.Do(t, err)
		got = append(got, r.URI)
		must.Check(t, must.Err(c.ReadResource(t.Context(), r.URI)), r.URI)
	}
	if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
		t.Errorf("not in order, or twice:\n%s", strings.Join(got, "\n"))
	}
	must.CheckEqual(t, len(got), len(files)+2+3)
}

// A page reads a bounded number of directories, and the next page continues there.
func TestATreeOfManyDirectoriesIsListedCompletely(t *testing.T) {
	dir, root := tree(t, map[string]string{"a": "", "z": ""})
	for i := range 1_050 {
		directory := filepath.Join(dir, fmt.Sprintf("d%04d", i))
		must.Do(t, os.Mkdir(directory, 0o700))
		if i%100 == 0 { // most are empty, so that a page lists few files
			must.Do(t, os.WriteFile(filepath.Join(directory, "f"), nil, 0o600))
		}
	}
	s := quiet()
	server.AddFS(s, "file:///d/", root, server.FSOptions{})
	server.AddStatic(s, mcp.Resource{URI: "file:///e", Name: "after"}, "")
	names := served(t, mcptest.Dial(t, s), "file:///d/")
	want := []string{"a"}
	for i := 0; i < 1_050; i += 100 {
		want = append(want, fmt.Sprintf("d%04d/f", i))
	}
	want = append(want, "z", "file:///e")
	must.CheckThat(t, slices.Equal(names, want), "listed: %q, want %q", names, want)
}

func TestHiddenAndUnlistedFiles(t *testing.T) {
	_, root := tree(t, map[string]string{".env": "shown", "a": "shown", ".d/b": "shown"})
	s := quiet()
	server.AddFS(s, "hidden:///", root, server.FSOptions{Hidden: true, Name: "all", Description: "All files."})
	server.AddFS(s, "unlisted:///", root, server.FSOptions{Unlisted: true})
	c := mcptest.Dial(t, s)
	if got, want := served(t, c, "hidden:///"), []string{".d/b", ".env", "a"}; !slices.Equal(got, want) {
		t.Errorf("listed: %q, want %q", got, want)
	}
	for _, uri := range []string{"hidden:///.env", "hidden:///.d/b", "unlisted:///a"} {
		must.CheckEqual(t, textAt(t, c, uri), "shown", uri)
	}
	var names []string
	for template := range c.ResourceTemplates(t.Context()) {
		names = append(names, template.Name+" "+template.Description)
	}
	want := []string{"all All files.", "files "}
	must.CheckThat(t, slices.Equal(names, want), "templates: %q, want %q", names, want)
	must.CheckThat(t, s.RemoveTemplate("hidden:///{+path}"), "the directory cannot be removed")
	got := served(t, c, "")
	must.CheckThat(t, got == nil, "still listed: %q", got)
}

func TestFilesCanChangeWhileTheyAreServed(t *testing.T) {
	dir, root := tree(t, map[string]string{"a": "one"})
	s := quiet()
	server.AddFS(s, "file:///d/", root, server.FSOptions{})
	c := mcptest.Dial(t, s)
	must.CheckEqual(t, textAt(t, c, "file:///d/a"), "one")
	must.Do(t, os.WriteFile(filepath.Join(dir, "b"), []byte("two"), 0o600))
	must.Do(t, os.Remove(filepath.Join(dir, "a")))
	got := served(t, c, "file:///d/")
	must.CheckThat(t, slices.Equal(got, []string{"b"}), "listed: %q", got)
	must.CheckIs(t, must.Err(c.ReadResource(t.Context(), "file:///d/a")), call.ErrResourceNotFound)
}

func TestInvalidDirectoriesAreRejected(t *testing.T) {
	_, root := tree(t, nil)
	for prefix, want := range map[string]string{"": "scheme", "docs": "scheme", "file:///a b/": "percent-encoded",
		"file:///a?b": "query", "file:///{a}": "percent-encoded"} {
		must.CheckContains(t, panicOf(func() { server.AddFS(quiet(), prefix, root, server.FSOptions{}) }), want, prefix)
	}
	must.CheckContains(t, panicOf(func() {
		server.AddFS(quiet(), "file:///", nil, server.FSOptions{})
	}), "root must not be nil")
}

// Rule Y2: a directory or file without read permission is not found.
func TestUnreadableFilesAreNotFound(t *testing.T) {
	if runtime.GOOS == "windows" || os.Getuid() == 0 {
		return // the user can read every file
	}
	dir, root := tree(t, map[string]string{"closed": "secret", "shut/a": "secret", "open": "open"})
	for _, name := range []string{"closed", "shut"} {
		must.Do(t, os.Chmod(filepath.Join(dir, name), fs.FileMode(0)))
		t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, name), 0o700) })
	}
	s := quiet()
	server.AddFS(s, "file:///d/", root, server.FSOptions{})
	c := mcptest.Dial(t, s)
	for _, name := range []string{"closed", "shut/a"} {
		must.CheckIs(t, must.Err(c.ReadResource(t.Context(), "file:///d/"+name)), call.ErrResourceNotFound, name)
	}
	got := served(t, c, "file:///d/")
	must.CheckThat(t, slices.Contains(got, "open"), "listed: %q", got)
}

// Directory.URI returns the URI under which the file is listed and read.
func TestDirectoryReturnsURIsOfServedFiles(t *testing.T) {
	s := quiet()
	names := []string{"a.txt", "sub/b c.txt", "sub/%25+ü&.txt"}
	files := make(map[string]string)
	for _, name := range names {
		files[name] = name
	}
	_, root := tree(t, files)
	d := server.AddFS(s, "file:///d", root, server.FSOptions{})
	c := mcptest.Dial(t, s)
	listed := make(map[string]bool)
	for r, err := range c.Resources(t.Context()) {
		must.Do(t, err)
		listed[r.URI] = true
	}
	for _, name := range names {
		uri := d.URI(name)
		got := textAt(t, c, uri)
		must.CheckThat(t, got == name && listed[uri], "%s holds %q, listed: %v", uri, got, listed)
	}
	for _, name := range []string{"", ".", "..", "../a.txt", "/a.txt", ".git/config", "sub/.x", `a\b`, "a/", "a//b",
		"c:a"} {
		must.CheckEqual(t, d.URI(name), "", name)
	}
}

func TestDirectoryNotifiesOfChanges(t *testing.T) {
	for _, unlisted := range []bool{false, true} {
		_, root := tree(t, map[string]string{"a.txt": "a"})
		var d *server.Directory
		newServer := func() *server.Server {
			s := quiet()
			d = server.AddFS(s, "file:///d", root, server.FSOptions{Unlisted: unlisted})
			return s
		}
		mcptest.Everywhere(t, newServer, func(t *testing.T, c *client.Client) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			begun, list, file := 0, false, false
			for change, err := range c.Watch(ctx, client.WatchFilter{Resources: true,
				URIs: []string{"file:///d/a.txt"}}) {
				switch {
				case err != nil:
					t.Fatal(err)
				case change.Resync && begun < 2:
					if begun++; begun == 2 {
						d.Updated(".hidden") // not served
						d.ListChanged()
						d.Updated("a.txt")
					}
				case change.Resync && change.Kind == client.ResourcesChanged:
				// A change before the stream was open is reported without certainty.
				case change.Kind == client.ResourcesChanged:
					list = true
				case change.URI == "file:///d/a.txt":
					file = true
				}
				if file && list != unlisted {
					return
				}
			}
			t.Errorf("told of the list: %t, of the file: %t", list, file)
		})
	}
}
