package use

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
)

func openDir(t *testing.T, path string) *saveDir {
	t.Helper()
	d := must.Get(openSaveDir(path))(t)
	t.Cleanup(func() { d.root.Close() })
	return d
}

func TestNamesOfFilesComeFromNamesAndTypes(t *testing.T) {
	for _, c := range []struct{ name, mimeType, want string }{
		{"chart", "image/png", "chart.png"},
		{"chart", "image/PNG; charset=x", "chart.png"},
		{"chart", "application/x-unknown", "chart.bin"},
		{"chart", "", "chart.bin"},
		{"file:///a/logo.png", "image/png", "logo.png"},
		{"file:///a/logo.JPEG", "image/jpeg", "logo.JPEG"},
		{"file:///a/logo.png?x=1#y", "image/jpeg", "logo.png.jpg"},
		{"file:///a/data.parquet", "", "data.parquet"},
		{"file:///a/data.rs", "text/plain", "data.rs"},
		{"https://example.com", "text/html", "example.com.html"},
		{"https://example.com/", "text/html", "example.com.html"},
		{"urn:isbn:1", "", "isbn_1.bin"},
		{"../../etc/passwd", "", "passwd.bin"},
		{"file:///a/..%2f..%2fetc%2fpasswd", "", "passwd.bin"},
		{`..\..\evil.exe`, "image/png", "evil.exe.png"},
		{"..", "image/png", "content.png"},
		{"", "image/png", "content.png"},
		{"/", "image/png", "content.png"},
		{".bashrc", "text/plain", "content.bashrc"},
		{"-rf", "text/plain", "rf.txt"},
		{"CON", "text/plain", "CON.txt"},
		{"a\x00b\nc d\u202e.png", "image/png", "a_b_c_d.png"},
		{strings.Repeat("ä", 300), "image/png", "content.png"},
		{"x" + strings.Repeat("y", 300), "image/png", "x" + strings.Repeat("y", 99) + ".png"},
		{"a." + strings.Repeat("y", 300), "", "a." + strings.Repeat("y", 98) + ".bin"},
	} {
		base, extension := fileName(c.name, c.mimeType)
		must.CheckEqual(t, base+extension, c.want, c.name, c.mimeType)
	}
}

func TestSaveOverwritesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "dir")
	d := openDir(t, path)
	for i, want := range []string{"a.png", "a-2.png", "a-3.png"} {
		got := must.Get(d.save("a", "image/png", []byte{byte(i)}))(t)
		must.CheckEqual(t, got, filepath.Join(path, want), "Save() =", want)
		data := must.Get(os.ReadFile(got))(t)
		must.CheckThat(t, len(data) == 1 && data[0] == byte(i), "%s has %v", got, data)
	}
}

func TestSaveDoesNotFollowLinks(t *testing.T) {
	path, outside := t.TempDir(), filepath.Join(t.TempDir(), "outside.png")
	must.Do(t, os.Symlink(outside, filepath.Join(path, "a.png")))
	got := must.Get(openDir(t, path).save("a", "image/png", nil))(t)
	must.CheckEqual(t, filepath.Base(got), "a-2.png", "Save() =", got)
	_, err := os.Lstat(outside)
	must.CheckThat(t, err != nil, "a file outside of the directory was created")
}

func TestOpenRejectsFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(path, nil, 0o600))
	must.CheckFails(t, must.Err(openSaveDir(path)), "not a directory", "openSaveDir() =")
}
