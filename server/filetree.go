package server

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

const (
	maxDirectory   = 10_000 // entries read of one directory
	maxDepth       = 32     // nested directories
	maxDirectories = 1_000  // directories read for one page
)

// fileTree is a directory that AddFS serves. It is read on each request.
type fileTree struct {
	root    *os.Root
	prefix  string // of the URIs; ends with a slash
	options FSOptions
	logger  func() *slog.Logger
}

// fileEntry is a name in a directory in the encoding of URIs.
type fileEntry struct {
	encoded   string // with a slash at the end if it is a directory
	name      string
	directory bool
}

// entries returns the served entries of a directory in the order of their URIs: a directory is
// sorted by its name with the slash. A link counts as a file until it is read.
func (t *fileTree) entries(directory string) ([]fileEntry, error) {
	file, err := t.root.Open(filepath.FromSlash(directory))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	read, err := file.ReadDir(maxDirectory)
	if err != nil && err != io.EOF {
		return nil, err
	}
	found := make([]fileEntry, 0, len(read))
	for _, e := range read {
		if !t.servesSegment(e.Name()) {
			continue
		}
		encoded := encodePath(e.Name())
		if e.IsDir() {
			encoded += "/"
		}
		found = append(found, fileEntry{encoded, e.Name(), e.IsDir()})
	}
	sort.Slice(found, func(i, j int) bool { return found[i].encoded < found[j].encoded })
	return found, nil
}

// encodePath writes a name as a segment of a path (RFC 3986, section 3.3).
func encodePath(name string) string {
	const plain = unreservedCharacters + "!$&'()*+,;=@"
	var b strings.Builder
	for _, c := range []byte(name) {
		if strings.IndexByte(plain, c) >= 0 {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', upperHex[c>>4], upperHex[c&15]})
		}
	}
	return b.String()
}

// list returns the first n files whose URIs come after a URI, in the order of their URIs, and the URI up to which the
// tree was searched, or "" if it was searched to its end.
func (t *fileTree) list(ctx context.Context, after string, n int) (found []*resourceEntry, reached string) {
	w := &walk{tree: t, ctx: ctx, after: after, most: n, directories: maxDirectories}
	w.directory(".", t.prefix, 0)
	return w.found, w.reached
}

// walk is one search through a tree in the order of URIs.
type walk struct {
	tree        *fileTree
	ctx         context.Context
	after       string
	most        int
	directories int // that may still be read
	found       []*resourceEntry
	reached     string // see fileTree.list
}

// directory searches a directory, and reports whether to continue.
func (w *walk) directory(name, uri string, depth int) bool {
	if w.ctx.Err() != nil {
		return false
	}
	if w.directories--; w.directories < 0 {
		w.reached = uri
		return false
	}
	entries, err := w.tree.entries(name)
	if err != nil {
		w.tree.logger().WarnContext(w.ctx, "cannot list a directory", "name", name, "error", err)
		return true
	}
	for _, e := range entries {
		below, at := e.name, uri+e.encoded
		if name != "." {
			below = name + "/" + e.name
		}
		switch {
		case len(at) > maxURI:
		case e.directory:
			searched := at < w.after && !strings.HasPrefix(w.after, at)
			if !searched && depth < maxDepth && !w.directory(below, at, depth+1) {
				return false
			}
		case at > w.after && !w.file(below, at):
			return false
		}
	}
	return true
}

// file adds a file to the page, and reports whether there is space for more.
func (w *walk) file(name, uri string) bool {
	info, err := w.tree.root.Stat(filepath.FromSlash(name))
	if err != nil || !info.Mode().IsRegular() {
		return true
	}
	size := info.Size()
	e := &resourceEntry{resource: mcp.Resource{
		URI:         uri,
		Name:        name,
		MimeType:    typeByName(name),
		Size:        &size,
		Annotations: &mcp.Annotations{LastModified: info.ModTime().UTC().Format(time.RFC3339)},
	}}
	e.name = uri
	if w.found = append(w.found, e); len(w.found) < w.most {
		return true
	}
	w.reached = uri
	return false
}

// complete is the Completer of paths. It completes one directory at a time.
func (t *fileTree) complete(_ context.Context, value string, _ map[string]string) ([]string, error) {
	at, directory, typed := ".", "", value
	if i := strings.LastIndexByte(value, '/'); i >= 0 {
		at, directory, typed = value[:i], value[:i+1], value[i+1:]
		if !t.serves(at) {
			return nil, nil
		}
	}
	entries, err := t.entries(at)
	if err != nil {
		return nil, nil // there is no such directory
	}
	var paths []string
	for _, e := range entries {
		if strings.HasPrefix(e.name, typed) {
			if e.directory {
				paths = append(paths, directory+e.name+"/")
			} else {
				paths = append(paths, directory+e.name)
			}
		}
	}
	return paths, nil
}

// listFiles returns the first n files after a URI of each directory that a caller can see.
func listFiles(
	ctx context.Context, c *Catalog, who principal.Principal, after string, n int,
) (all files[*resourceEntry]) {
	for _, e := range c.templates.all() {
		if e.files == nil {
			continue
		}
		all.restricted = all.restricted || e.restricted()
		if !e.visibleTo(who) {
			continue
		}
		found, reached := e.files.list(ctx, after, n)
		all.lists = append(all.lists, found)
		if reached != "" && (all.reached == "" || reached < all.reached) {
			all.reached = reached
		}
	}
	return all
}
