package server_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// FuzzFilePath (rule Y2) checks that a URI and a completion of a path lead only to the visible files below the directory of AddFS.
func FuzzFilePath(f *testing.F) {
	const secret = "s3cret"
	outer, _ := tree(f, map[string]string{
		"secret.txt": secret, "inside/ok.txt": "ok.txt", "inside/sub/é b.txt": "sub/é b.txt", "inside/.hidden": secret, "inside/sub/.git/config": secret, "inside-too/secret.txt": secret,
	})
	inside := filepath.Join(outer, "inside")
	for name, target := range map[string]string{"fine.txt": "ok.txt", "absolute.txt": filepath.Join(outer, "secret.txt"), "up": "..", "relative.txt": "../secret.txt"} {
		if err := os.Symlink(target, filepath.Join(inside, name)); err != nil {
			f.Fatal(err)
		}
	}
	root, err := os.OpenRoot(inside)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { root.Close() })
	s := quiet()
	s.Limits.CallsPerSecond = -1
	server.AddFS(s, "file:///d", root, server.FSOptions{})
	l := connectLine(f, s)
	for _, path := range []string{
		"ok.txt", "%6fk.txt", "sub%2F%C3%A9%20b.txt", "fine.txt", "../secret.txt", "%2e%2e%2fsecret.txt", "sub/../../secret.txt", "up/secret.txt", "absolute.txt", "relative.txt", ".hidden", "sub/.git/config",
		"..%5csecret.txt", "ok.txt%00", "//host/x", "C:/secret.txt", "ok.txt::$DATA", "%252e%252e/secret.txt", "sub/", "",
	} {
		f.Add(path)
	}
	visible := []string{"ok.txt", "sub/é b.txt", "fine.txt", "sub/"}
	f.Fuzz(func(t *testing.T, path string) {
		if !utf8.ValidString(path) {
			return // no JSON string
		}
		l := &line{&wiretest.Peer{T: t, Conn: l.Conn}}
		quoted := func(s string) string { return string(jsonrpc.AppendString(nil, s)) }
		raw, rejected := l.ask(mcp.MethodReadResource, `"uri":`+quoted("file:///d/"+path))
		var read mcp.ReadResourceResult
		if rejected == nil {
			if err := json.Unmarshal(raw, &read); err != nil || len(read.Contents) != 1 {
				t.Fatalf("%q: %s, %v", path, raw, err)
			}
			if text := read.Contents[0].Text; text != "ok.txt" && text != "sub/é b.txt" {
				t.Fatalf("%q leads to %s", path, raw)
			}
		}
		raw, rejected = l.ask(mcp.MethodComplete, `"ref":{"type":"ref/resource","uri":"file:///d/{+path}"},"argument":{"name":"path","value":`+quoted(path)+`}`)
		if rejected != nil {
			t.Fatalf("%q: the completion fails: %v", path, rejected)
		}
		var completed mcp.CompleteResult
		if err := json.Unmarshal(raw, &completed); err != nil {
			t.Fatal(err)
		}
		for _, value := range completed.Completion.Values {
			if !slices.Contains(append(visible, "absolute.txt", "relative.txt", "up"), value) || !strings.HasPrefix(value, path) {
				t.Fatalf("%q is completed to %q", path, value)
			}
		}
	})
}
