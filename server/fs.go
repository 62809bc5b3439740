package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// FSOptions are the options of [AddFS].
type FSOptions struct {
	// Name and Description describe the directory to clients. The default name is the last
	// segment of the prefix, or "files".
	Name, Description string
	// MaxFile is the size of the largest readable file in bytes; default 4 MiB. Reading a
	// larger file fails with an error that has both sizes.
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
func AddFS(to Registrar, prefix string, root *os.Root, options FSOptions, more ...ResourceOption) *Directory {
	d, err := addFS(to.catalog(), prefix, root, options, more)
	if err != nil {
		panic(fmt.Sprintf("server: directory %q: %v", prefix, err))
	}
	return d
}

func addFS(c *Catalog, prefix string, root *os.Root, options FSOptions, more []ResourceOption) (*Directory, error) {
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
		template:  mcp.ResourceTemplate{URITemplate: prefix + "{+path}", Name: options.Name, Description: options.Description},
		variables: &parameters{others: &parameter{kind: "string"}},
		open:      tree.open,
	}
	if !options.Unlisted {
		e.files = tree
	}
	e.completers.set("path", Completer(tree.complete).completion)
	if err := c.addTemplate(e, more); err != nil {
		return nil, err
	}
	c.completes.Store(true)
	return &Directory{catalog: c, tree: tree, entry: e}, nil
}

// open implements templateEntry.open.
func (t *fileTree) open(_ string, values map[string][]string) (readFunc, error) {
	if len(values["path"]) == 0 || !t.serves(values["path"][0]) {
		return nil, ErrResourceNotFound
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
	return ErrResourceNotFound
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
