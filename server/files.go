package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"mime"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// FSOptions are the options of [AddFS].
type FSOptions struct {
	// Name and Description describe the directory to clients. The default name is the last
	// segment of the prefix, or "files".
	Name, Description string
	// MaxFile is the size of the largest readable file in bytes; default 4 MiB. Reading a larger file fails with an
	// error that states both sizes.
	MaxFile int64
	// Hidden includes files and directories whose names begin with a dot.
	Hidden bool
	// Unlisted excludes the files from resources/list. Clients can still read them.
	Unlisted bool
}

const defaultMaxFile = 4 << 20

// AddFS serves the regular files of a directory as resources. The URI of a file is the prefix,
// such as "file:///project/", followed by the path of the file relative to the directory,
// percent-encoded and with slashes. AddFS registers the template prefix{+path}; call
// [Catalog.RemoveTemplate] with that text to remove the directory. The caller may close root
// after that, or after [Server.Shutdown] has returned.
//
// All paths go through root, which follows symbolic links only inside of the directory, so files
// outside of the directory cannot be read. A path is rejected if it has an empty segment, a
// segment of dots, a control character, a backslash or a colon, or if a segment ends with a dot
// or a space, percent-encoded or not. The rules are the same on every operating system.
// Directories, devices and pipes cannot be read.
//
// A file of valid UTF-8 without NUL is text. Any other file is a blob. The MIME type is derived
// from the extension of the file name or, if the extension is unknown, from the contents.
//
// The server reads files and directories on each request and does not cache them. resources/list
// covers the first 10,000 entries of a directory and 32 levels of directories, and does not
// follow symbolic links to directories.
//
// Subscribed clients are notified only of changes that the program reports to the returned
// Directory.
//
// AddFS panics if root is nil, or if the prefix is in use, is not a valid URI, or has a query or
// fragment. It is safe while the server serves.
func AddFS(to Registrar, prefix string, root *os.Root, options FSOptions, more ...Option) *Directory {
	d, err := addFS(to.catalog(), prefix, root, options, more)
	if err != nil {
		panic(fmt.Sprintf("server: directory %q: %v", prefix, err))
	}
	return d
}

func addFS(c *Catalog, prefix string, root *os.Root, options FSOptions, more []Option) (*Directory, error) {
	if root == nil {
		return nil, errors.New("root must not be nil")
	}
	if err := checkURI(prefix, false); err != nil {
		return nil, err
	}
	if strings.ContainsAny(prefix, "?#") {
		return nil, errors.New("the prefix must not have a query or a fragment")
	}
	if !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	prefix, err := encodeLiteral(prefix)
	if err != nil {
		return nil, err
	}
	if options.MaxFile <= 0 {
		options.MaxFile = defaultMaxFile
	}
	if options.Name == "" {
		if options.Name = path.Base(prefix); strings.HasSuffix(options.Name, ":") {
			options.Name = "files"
		}
	}
	tree := &fileTree{root: root, prefix: prefix, options: options, logger: c.logger}
	e := &templateEntry{
		template: mcp.ResourceTemplate{
			URITemplate: prefix + "{+path}", Name: options.Name, Description: options.Description,
		},
		variables: &parameters{others: &parameter{kind: "string"}},
		open:      tree.open,
	}
	if !options.Unlisted {
		e.files = tree
	}
	if err := c.addTemplate(e, append([]Option{Complete("path", tree.complete)}, more...)); err != nil {
		return nil, err
	}
	return &Directory{catalog: c, tree: tree, entry: e}, nil
}

// open implements templateEntry.open.
func (t *fileTree) open(_ string, values map[string][]string) (readFunc, error) {
	if len(values["path"]) == 0 || !t.serves(values["path"][0]) {
		return nil, call.ErrResourceNotFound
	}
	name := values["path"][0]
	return func(ctx context.Context) (*mcp.ReadResourceResult, error) { return t.read(ctx, name) }, nil
}

// serves reports whether a path below the directory is acceptable. The result does not depend
// on the operating system: a name with a special meaning on one of them is rejected on all.
func (t *fileTree) serves(name string) bool {
	if !fs.ValidPath(name) || name == "." || !filepath.IsLocal(filepath.FromSlash(name)) {
		return false
	}
	for segment := range strings.SplitSeq(name, "/") {
		if !t.servesSegment(segment) {
			return false
		}
	}
	return true
}

func (t *fileTree) servesSegment(segment string) bool {
	if !t.options.Hidden && segment[0] == '.' {
		return false
	}
	for i := range len(segment) {
		if c := segment[i]; c < 0x20 || c == 0x7F || c == '\\' || c == ':' {
			return false
		}
	}
	last := segment[len(segment)-1]
	return last != '.' && last != ' ' && utf8.ValidString(segment)
}

// read reads a file. A file that does not exist, is not regular or cannot be read is not found;
// the client does not learn which.
func (t *fileTree) read(ctx context.Context, name string) (*mcp.ReadResourceResult, error) {
	// Stat comes first, because opening a device can have effects.
	info, err := t.root.Stat(filepath.FromSlash(name))
	if err != nil || !info.Mode().IsRegular() {
		return nil, t.notFound(ctx, name, err)
	}
	file, info, err := openRegular(t.root, filepath.FromSlash(name))
	if err != nil {
		return nil, t.notFound(ctx, name, err)
	}
	defer file.Close()
	if info.Size() > t.options.MaxFile {
		return nil, t.tooLarge(info.Size())
	}
	data, err := io.ReadAll(io.LimitReader(file, t.options.MaxFile+1)) // the file may grow meanwhile
	if err != nil {
		return nil, err
	}
	if size := int64(len(data)); size > t.options.MaxFile {
		return nil, t.tooLarge(size)
	}
	contents := mcp.ResourceContents{MimeType: typeByName(name)}
	if utf8.Valid(data) && bytes.IndexByte(data, 0) < 0 {
		contents.Text = string(data)
	} else {
		contents.Blob = data
	}
	if contents.MimeType == "" {
		contents.MimeType = typeOfUnknown(contents)
	}
	return &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{contents}}, nil
}

func (t *fileTree) tooLarge(size int64) error {
	return jsonrpc.Errorf(jsonrpc.CodeInternalError, "the file has %d bytes, the limit is %d", size, t.options.MaxFile)
}

// openRegular opens a regular file for reading. It does not wait for the other end of a pipe,
// which may have taken the place of the file. The caller must close the file.
func openRegular(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	file, err := root.OpenFile(name, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("the file must be regular")
	}
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return file, info, nil
}

func (t *fileTree) notFound(ctx context.Context, name string, err error) error {
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.logger().DebugContext(ctx, "cannot serve a file", "name", name, "error", err)
	}
	return call.ErrResourceNotFound
}

// typeByName returns the MIME type of a file name extension, or "" if it is unknown.
func typeByName(name string) string {
	extension := strings.ToLower(path.Ext(name))
	if t, ok := textTypes[extension]; ok {
		return t
	}
	t, _, err := mime.ParseMediaType(mime.TypeByExtension(extension))
	if err != nil {
		return ""
	}
	return t
}

// textTypes are the types of common text files, because operating systems disagree about
// them: some take .ts for a video.
var textTypes = map[string]string{
	".c": "text/x-c", ".cpp": "text/x-c++", ".cs": "text/x-csharp", ".css": "text/css", ".csv": "text/csv",
	".go": "text/x-go", ".h": "text/x-c", ".html": "text/html", ".java": "text/x-java", ".js": "text/javascript",
	".json": "application/json", ".log": "text/plain", ".md": "text/markdown", ".mjs": "text/javascript",
	".py": "text/x-python", ".rb": "text/x-ruby", ".rs": "text/x-rust", ".sh": "text/x-shellscript",
	".sql": "application/sql", ".svg": "image/svg+xml", ".toml": "application/toml", ".ts": "text/x-typescript",
	".tsx": "text/x-typescript", ".txt": "text/plain", ".xml": "application/xml", ".yaml": "application/yaml",
	".yml": "application/yaml",
}

func typeOfUnknown(c mcp.ResourceContents) string {
	if c.Blob == nil {
		return "text/plain"
	}
	return "application/octet-stream"
}

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

// Updated tells the clients that subscribed to a file that its contents have changed, like [Catalog.ResourceUpdated].
// It has no effect if [Directory.URI] returns "" for the name.
func (d *Directory) Updated(name string) {
	if uri := d.URI(name); uri != "" {
		d.catalog.ResourceUpdated(uri)
	}
}

// ListChanged tells the clients that can see the directory, on all replicas, that files were added or removed. It has
// no effect if FSOptions.Unlisted is set.
func (d *Directory) ListChanged() {
	if !d.tree.options.Unlisted {
		d.catalog.changed(changes.ResourcesChanged, &d.entry.offer)
	}
}
