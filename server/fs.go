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

// FSOptions say how [AddFS] serves a directory. The zero value is the cautious one.
type FSOptions struct {
	// Name and Description are what clients are told of the directory. The default
	// name is the last segment of the prefix, "files" if it has none.
	Name, Description string
	// MaxFile is the size of the largest file to be read, in bytes; default 4 MiB. A
	// larger one is a *[FileTooLargeError].
	MaxFile int64
	// Hidden has files and directories served too whose names begin with a dot.
	Hidden bool
	// Unlisted keeps the files out of resources/list. They can be read all the same.
	Unlisted bool
}

const defaultMaxFile = 4 << 20

// FileTooLargeError is what reading a file of [AddFS] ends with that is larger than
// FSOptions.MaxFile. Clients are told both sizes.
type FileTooLargeError struct {
	Name      string // of the file, below the directory
	Size, Max int64  // in bytes
}

// Error implements the error interface.
func (e *FileTooLargeError) Error() string {
	return fmt.Sprintf("the file has %d bytes, and no more than %d are sent", e.Size, e.Max)
}

// Unwrap returns the error that the client gets.
func (e *FileTooLargeError) Unwrap() error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: e.Error()}
}

// AddFS serves the regular files of a directory as resources, whose URIs are prefix,
// such as "file:///project/", and the path of the file below the directory, with
// slashes and percent-encoded. It registers the template prefix{+path}, under which
// the directory is removed again. Root is the caller's to close, after that or after
// the server was shut down.
//
// Nothing outside of the directory can be reached: paths go through root, which
// follows a symbolic link only to where it stays inside, and beforehand each is
// refused that has an empty segment, one of dots, a control character, a backslash, a
// colon, or ends a segment with a dot or a space, encoded or not; on every system, so
// that what is served does not depend on it. Directories, devices and pipes are not
// read.
//
// A file whose bytes are UTF-8 without NUL is text, any other a blob; its MIME type
// goes by the extension of its name, and by its bytes where that is unknown.
//
// Files are read, and the directory is, when a client asks, so that changes are seen
// at once. A page of resources/list reads the directories on its way, of each the
// first 10,000 entries that the system returns, in depth at most 32; links to
// directories are not followed there.
//
// Clients that watch are not told of changes unless the program says what has changed, by
// the Directory that AddFS returns.
//
// AddFS panics if the prefix is no URI, or is taken.
func AddFS(s *Server, prefix string, root *os.Root, options FSOptions, more ...ResourceOption) *Directory {
	d, err := addFS(s, prefix, root, options, more)
	if err != nil {
		panic(fmt.Sprintf("server: directory %q: %v", prefix, err))
	}
	return d
}

func addFS(s *Server, prefix string, root *os.Root, options FSOptions, more []ResourceOption) (*Directory, error) {
	if root == nil {
		return nil, errors.New("there is no directory: root is nil")
	}
	if err := checkURI(prefix); err != nil {
		return nil, err
	}
	if strings.ContainsAny(prefix, "?#") {
		return nil, errors.New("the prefix has a query or a fragment, and no path can follow these")
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
	tree := &fileTree{root: root, prefix: prefix, options: options, logger: s.logger}
	e := &templateEntry{
		template:  mcp.ResourceTemplate{URITemplate: prefix + "{+path}", Name: options.Name, Description: options.Description},
		variables: &parameters{others: &parameter{kind: "string"}},
		open:      tree.open,
	}
	if !options.Unlisted {
		e.files = tree
	}
	e.completers.set("path", tree.complete)
	if err := s.addTemplate(e, more); err != nil {
		return nil, err
	}
	s.completes.Store(true)
	return &Directory{server: s, tree: tree, entry: e}, nil
}

// open implements templateEntry.open.
func (t *fileTree) open(_ string, values map[string][]string) (readFunc, error) {
	if len(values["path"]) == 0 || !t.serves(values["path"][0]) {
		return nil, ErrResourceNotFound
	}
	name := values["path"][0]
	return func(ctx context.Context) (*mcp.ReadResourceResult, error) { return t.read(ctx, name) }, nil
}

// serves reports whether a path below the directory is of a kind that is served. It
// is the same on every system: a name that means something else on another one is
// refused everywhere.
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

// read reads a file. What is not there, is no regular file or may not be read is not
// found: which of these it is is nobody's business.
func (t *fileTree) read(ctx context.Context, name string) (*mcp.ReadResourceResult, error) {
	// Looked at before it is opened: opening a pipe waits for its other end.
	info, err := t.root.Stat(filepath.FromSlash(name))
	if err != nil || !info.Mode().IsRegular() {
		return nil, t.notFound(ctx, name, err)
	}
	if info.Size() > t.options.MaxFile {
		return nil, &FileTooLargeError{Name: name, Size: info.Size(), Max: t.options.MaxFile}
	}
	file, err := t.root.Open(filepath.FromSlash(name))
	if err != nil {
		return nil, t.notFound(ctx, name, err)
	}
	defer file.Close()
	if info, err = file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, t.notFound(ctx, name, err)
	}
	data, err := io.ReadAll(io.LimitReader(file, t.options.MaxFile+1)) // it may be growing
	if err != nil {
		return nil, err
	}
	if size := int64(len(data)); size > t.options.MaxFile {
		return nil, &FileTooLargeError{Name: name, Size: size, Max: t.options.MaxFile}
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

func (t *fileTree) notFound(ctx context.Context, name string, err error) error {
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.logger().DebugContext(ctx, "a file is not served", "name", name, "error", err)
	}
	return ErrResourceNotFound
}

// typeByName returns the MIME type of a file by the extension of its name, "" if that
// says nothing.
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

// textTypes are what models are mostly given to read, and systems disagree about, or
// take for something else: .ts is a video to some.
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
