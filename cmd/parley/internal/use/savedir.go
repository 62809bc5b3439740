package use

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// Limits of a name.
const (
	maxFileName   = 100  // bytes, without the number and the extension
	maxFileNumber = 9999 // of files with one name
)

// saveDir is a directory for files. It is not safe for concurrent use.
type saveDir struct {
	path string
	root *os.Root
}

// openSaveDir opens a directory. It creates the directory if it does not exist.
func openSaveDir(path string) (*saveDir, error) {
	root, err := openRoot(path)
	return &saveDir{path, root}, err
}

func openRoot(path string) (*os.Root, error) {
	if err := os.MkdirAll(path, 0o777); err != nil {
		return nil, fmt.Errorf("cannot create the directory: %w", err)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("cannot open the directory: %w", err)
	}
	return root, nil
}

// writeNew writes a file that does not exist.
func writeNew(root *os.Root, name string, data []byte) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		err = errors.Join(err, root.Remove(name))
	}
	return err
}

// save writes data to a new file and returns its path. name is a name or a URI from a server; its last part becomes the
// name of the file, in characters that every system allows. The MIME type determines the extension. If a file of that
// name exists, save adds a number: it overwrites no file, follows no link out of the directory, and creates no
// directory.
func (d *saveDir) save(name, mimeType string, data []byte) (string, error) {
	base, extension := fileName(name, mimeType)
	for n := 1; n <= maxFileNumber; n++ {
		file := base + extension
		if n > 1 {
			file = base + "-" + strconv.Itoa(n) + extension
		}
		if !filepath.IsLocal(file) { // the name of a device on Windows, such as CON.txt
			continue
		}
		err := writeNew(d.root, file, data)
		switch {
		case errors.Is(err, fs.ErrExist):
			continue
		case err != nil:
			return "", fmt.Errorf("cannot save %s: %w", file, err)
		}
		return filepath.Join(d.path, file), nil
	}
	return "", fmt.Errorf("cannot save %s: there are %d files of that name", base+extension, maxFileNumber)
}

// fileName returns the name of a file without its extension, and the extension.
func fileName(name, mimeType string) (base, extension string) {
	if u, err := url.Parse(name); err == nil && u.Scheme != "" {
		name = u.Path
		if name == "" || name == "/" {
			name = u.Host + u.Opaque
		}
	}
	name = path.Base(strings.ReplaceAll(name, `\`, "/"))
	name = strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', strings.ContainsRune("-_.", r):
			return r
		}
		return '_'
	}, name)
	extension = path.Ext(name)
	if known := extensionOf(mimeType); !matches(extension, known) {
		extension = known[0]
	} else {
		name = strings.TrimSuffix(name, extension)
	}
	name = cmp.Or(strings.Trim(name, "._-"), "content")
	return name[:min(len(name), maxFileName)], extension
}

// matches reports whether a file with the extension has one of the known extensions of its type, which may have none.
func matches(extension string, known []string) bool {
	if len(extension) < 2 || len(extension) > 10 {
		return false
	}
	for _, k := range known {
		if k == anyExtension || strings.EqualFold(k, extension) {
			return true
		}
	}
	return false
}

// anyExtension is for types whose files can have any extension.
const anyExtension = "*"

// extensions are the extensions of files by their MIME types. The first one is for files whose name has none.
var extensions = map[string][]string{
	"application/gzip":       {".gz", ".tgz"},
	"application/json":       {".json"},
	"application/pdf":        {".pdf"},
	"application/xml":        {".xml"},
	"application/zip":        {".zip", ".docx", ".xlsx", ".pptx", ".jar"},
	"application/javascript": {".js", ".mjs"},
	"application/yaml":       {".yaml", ".yml"},
	"audio/aac":              {".aac"},
	"audio/flac":             {".flac"},
	"audio/mp4":              {".m4a", ".mp4"},
	"audio/mpeg":             {".mp3"},
	"audio/ogg":              {".ogg", ".oga", ".opus"},
	"audio/wav":              {".wav"},
	"audio/wave":             {".wav"},
	"audio/webm":             {".webm", ".weba"},
	"audio/x-wav":            {".wav"},
	"image/apng":             {".png", ".apng"},
	"image/avif":             {".avif"},
	"image/bmp":              {".bmp"},
	"image/gif":              {".gif"},
	"image/jpeg":             {".jpg", ".jpeg"},
	"image/png":              {".png"},
	"image/svg+xml":          {".svg"},
	"image/tiff":             {".tiff", ".tif"},
	"image/webp":             {".webp"},
	"image/x-icon":           {".ico"},
	"text/css":               {".css"},
	"text/csv":               {".csv"},
	"text/html":              {".html", ".htm"},
	"text/javascript":        {".js", ".mjs"},
	"text/markdown":          {".md", ".markdown"},
	"text/plain":             {".txt", anyExtension},
	"text/xml":               {".xml"},
	"video/mp4":              {".mp4"},
	"video/mpeg":             {".mpeg", ".mpg"},
	"video/webm":             {".webm"},
}

// extensionOf returns the extensions of a MIME type. For unknown types, a file keeps the extension of its name. The
// table does not depend on the system, so that names do not.
func extensionOf(mimeType string) []string {
	mimeType, _, _ = strings.Cut(mimeType, ";")
	if known := extensions[strings.ToLower(strings.TrimSpace(mimeType))]; known != nil {
		return known
	}
	return []string{".bin", anyExtension}
}
