package server

import (
	"strings"

	"github.com/parley-mcp/parley/internal/rpc"
)

// Directory is a directory that [AddFS] serves. The library does not look for changes in
// it: whoever does, by watching the file system or by writing the files, says so here. It
// is safe for concurrent use.
type Directory struct {
	server *Server
	tree   *fileTree
	entry  *templateEntry
}

// URI returns the URI of a file by its path below the directory, with slashes; "" if no
// file of that name would be served. It does not look whether there is one.
func (d *Directory) URI(name string) string {
	if !d.tree.serves(name) {
		return ""
	}
	var b strings.Builder
	b.WriteString(d.tree.prefix)
	for i, segment := range strings.Split(name, "/") {
		if i > 0 {
			b.WriteByte('/')
		}
		b.WriteString(encodePath(segment))
	}
	return b.String()
}

// Updated tells the clients that have subscribed to a file that its contents have changed,
// as [Server.ResourceUpdated] does. A name that is not served does nothing.
func (d *Directory) Updated(name string) {
	if uri := d.URI(name); uri != "" {
		d.server.ResourceUpdated(uri)
	}
}

// ListChanged tells clients that files have come or gone, those who see the directory. It
// does nothing if the files are not listed.
func (d *Directory) ListChanged() {
	if !d.tree.options.Unlisted {
		d.server.changes.PublishTo(d.entry.audience(), rpc.Change{Kind: rpc.ResourcesChanged})
	}
}
