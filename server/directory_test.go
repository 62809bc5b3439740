package server_test

import (
	"context"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
)

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
		if err != nil {
			t.Fatal(err)
		}
		listed[r.URI] = true
	}
	for _, name := range names {
		uri := d.URI(name)
		if got := textAt(t, c, uri); got != name || !listed[uri] {
			t.Errorf("%s holds %q, listed: %v", uri, got, listed)
		}
	}
	for _, name := range []string{"", ".", "..", "../a.txt", "/a.txt", ".git/config", "sub/.x", `a\b`, "a/", "a//b", "c:a"} {
		if uri := d.URI(name); uri != "" {
			t.Errorf("%q has the URI %s", name, uri)
		}
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
			for change, err := range c.Watch(ctx, client.WatchFilter{Resources: true, URIs: []string{"file:///d/a.txt"}}) {
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
