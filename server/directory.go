package server

import (
	"strings"

	"github.com/parley-mcp/parley/internal/changes"
)

// Directory is a directory that [AddFS] serves. The server does not watch its files: call
// Updated and ListChanged when they change. A Directory is safe for concurrent use.
type Directory struct {
	catalog *Catalog
	tree    *fileTree
	entry   *templateEntry
}

// URI returns the URI of a file. The name is the path of the file relative to the directory,
// with slashes. URI returns "" if the server rejects such a path. It does not check whether the
// file exists.
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

// Updated notifies the clients that have subscribed to a file that its contents have changed, as
// [Catalog.ResourceUpdated] does. It has no effect if [Directory.URI] returns "" for the name.
func (d *Directory) Updated(name string) {
	if uri := d.URI(name); uri != "" {
		d.catalog.ResourceUpdated(uri)
	}
}

// ListChanged notifies the clients that can see the directory that files were added or removed.
// It has no effect if FSOptions.Unlisted is set.
func (d *Directory) ListChanged() {
	if !d.tree.options.Unlisted {
		for _, s := range d.catalog.servedBy() {
			s.changes.PublishTo(d.entry.audience(), changes.Change{Kind: changes.ResourcesChanged})
		}
	}
}
