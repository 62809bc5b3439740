package listing

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/internal/must"
)

func tools(names ...string) *Names {
	entries := []Entry{}
	for _, n := range names {
		entries = append(entries, Entry{Name: n})
	}
	return &Names{Lists: map[string][]Entry{"tools": entries}}
}

func TestNamesReplaceThoseThatAreKnown(t *testing.T) {
	c := NewCache(filepath.Join(t.TempDir(), "a", "b"))
	must.CheckThat(t, c.Get("key") == nil, "an empty cache has a server")
	want := tools("z")
	want.Completes = true
	for _, names := range []*Names{tools("x", "y"), want} {
		must.Do(t, c.Update("key", c.SetNames("http://a", names)))
	}
	if got := c.Get("key"); got == nil || !reflect.DeepEqual(&got.Names, want) || c.Age(got.Time) > time.Hour {
		t.Errorf("got %+v, want %+v", got, want)
	}
	must.CheckThat(t, c.Get("other") == nil, "another key has a server")
}

func TestOnlyTheUserCanReadTheCache(t *testing.T) {
	c := NewCache(filepath.Join(t.TempDir(), "cache"))
	must.Do(t, c.Update("secret", c.SetFailed))
	for _, path := range []string{c.dir, c.path("secret")} {
		info := must.Get(os.Stat(path))(t)
		must.CheckThat(t, info.Mode().Perm()&0o077 == 0 && !strings.Contains(path, "secret"), "%s: %v", path, info)
	}
}

func TestTheCacheIsBounded(t *testing.T) {
	c := NewCache(t.TempDir())
	for i := range maxServers + 10 {
		key := fmt.Sprint(i)
		must.Do(t, c.Update(key, c.SetNames("http://"+key, tools())))
		at := time.Unix(int64(i), 0)
		must.Do(t, os.Chtimes(c.path(key), at, at))
	}
	n := len(c.files())
	must.CheckThat(t, n == maxServers && c.Get("9") == nil && c.Get("10") != nil, "the cache has %d files", n)
	urls := c.URLs()
	must.CheckThat(t, len(urls) == maxServers && urls[0] == "http://73" && urls[1] == "http://72", "URLs() = %q", urls)
	if err := c.Use("30", ""); err != nil || c.URLs()[0] != "http://30" {
		t.Errorf("after the use of a server, URLs() = %q, %v", c.URLs(), err)
	}
	if err := c.Use("new", "http://new"); err != nil || c.URLs()[0] != "http://new" || c.Get("new").Lists != nil {
		t.Errorf("after the use of a new server, URLs() = %q, %v", c.URLs(), err)
	}
	err := c.Update("large", c.SetNames("", tools(strings.Repeat("x", maxFile))))
	must.CheckThat(t, err == nil && c.Get("large") == nil, "a large server: %v", err)
}

func TestInvalidFilesAreIgnored(t *testing.T) {
	c := NewCache(t.TempDir())
	for _, content := range []string{"", "{", `{"version":1}`, `{"version":2,"lists":3}`, `{"version":2,"version":2}`} {
		must.Do(t, os.WriteFile(c.path("key"), []byte(content), 0o600))
		s := c.Get("key")
		must.CheckThat(t, s == nil, "%s: %+v", content, s)
	}
	err := c.Update("key", c.SetFailed)
	must.CheckThat(t, err == nil && c.Get("key").Failed, "an invalid file is not replaced %v", err)
}

func TestReadersSeeWholeFiles(t *testing.T) {
	c := NewCache(t.TempDir())
	must.Do(t, c.Update("key", c.SetFailed))
	var writers sync.WaitGroup
	for i := range 4 {
		writers.Go(func() {
			for range 50 {
				if err := c.Update("key", c.SetNames("",
					tools(slices.Repeat([]string{fmt.Sprint(i)}, 500)...))); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 200 {
		if c.Get("key") == nil {
			t.Error("the file is not whole")
			break
		}
	}
	writers.Wait()
	files, _ := os.ReadDir(c.dir)
	must.CheckThat(t, len(files) == 1, "%d files remain", len(files))
}
