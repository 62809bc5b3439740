package savedir

import "strings"

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

// extensionOf returns the extensions of a MIME type. For unknown types, a file keeps the extension of its name. The table
// does not depend on the system, so that names do not.
func extensionOf(mimeType string) []string {
	mimeType, _, _ = strings.Cut(mimeType, ";")
	if known := extensions[strings.ToLower(strings.TrimSpace(mimeType))]; known != nil {
		return known
	}
	return []string{".bin", anyExtension}
}
