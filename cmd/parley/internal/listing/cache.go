package listing

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/internal/atomicfile"
)

// Bounds of a cache.
const (
	maxServers = 64      // files
	maxFile    = 2 << 20 // bytes
)

// version is the form of the files. Files of other versions are ignored.
const version = 2

// Cache is a directory with one file for each server. Only the user can read it. It is safe for use by several
// processes at the same time; of two simultaneous changes of one server, the later one remains.
type Cache struct {
	dir string
	now func() time.Time
}

// NewCache returns a cache in a directory, which need not exist.
func NewCache(dir string) *Cache { return &Cache{dir, time.Now} }

// Cached is what the cache has of one server.
type Cached struct {
	Version int       `json:"version"`
	Time    time.Time `json:"time"`             // of the lists
	URL     string    `json:"url,omitempty"`    // if the user can name the server by it
	Failed  bool      `json:"failed,omitempty"` // the server could not be reached at that time
	Names
}

// Names are the names that a server lists.
type Names struct {
	Lists     map[string][]Entry `json:"lists"`     // by the names of the lists; nil if they are not known
	Completes bool               `json:"completes"` // the server completes arguments
}

// Entry is a tool, a prompt, a resource or a resource template.
type Entry struct {
	Name        string     `json:"name"` // or the URI, or the URI template
	Description string     `json:"description,omitempty"`
	Arguments   []Argument `json:"arguments,omitempty"`
}

// Argument is an argument of a tool or prompt.
type Argument struct {
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty"`
	Required    bool     `json:"required,omitempty"`
	Repeats     bool     `json:"repeats,omitempty"`
	Values      []string `json:"values,omitempty"`
}

// Get returns what the cache has of the server with a key, or nil.
func (c *Cache) Get(key string) *Cached {
	file, err := os.ReadFile(c.path(key))
	if err != nil || len(file) > maxFile {
		return nil
	}
	s := new(Cached)
	if json.Unmarshal(file, s) != nil || s.Version != version {
		return nil
	}
	return s
}

// Age returns how long ago a time was.
func (c *Cache) Age(t time.Time) time.Duration { return c.now().Sub(t) }

// Update changes what the cache has of the server with a key. change receives an empty Server if the cache has nothing.
func (c *Cache) Update(key string, change func(*Cached)) error {
	s := c.Get(key)
	if s == nil {
		s = new(Cached)
	}
	change(s)
	s.Version = version
	content, err := json.Marshal(s, json.Deterministic(true), json.FormatNilMapAsNull(true))
	if err != nil || len(content) > maxFile {
		return err // such a server has no completion
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	c.evict(c.path(key))
	if err := atomicfile.WriteCache(c.path(key), content); err != nil {
		return err
	}
	now := c.now() // the clock of the file system can be some milliseconds behind
	return os.Chtimes(c.path(key), now, now)
}

// SetNames returns a change that sets the names.
func (c *Cache) SetNames(url string, names *Names) func(*Cached) {
	return func(s *Cached) { s.Time, s.URL, s.Failed, s.Names = c.now(), url, false, *names }
}

// Use records that the user has used the server with a key just now.
func (c *Cache) Use(key, url string) error {
	if now := c.now(); os.Chtimes(c.path(key), now, now) == nil {
		return nil
	}
	return c.Update(key, func(s *Cached) { s.URL = url })
}

// SetFailed is a change that records that the server could not be reached.
func (c *Cache) SetFailed(s *Cached) { s.Time, s.Failed = c.now(), true }

// URLs returns the URLs of servers, the most recently used first.
func (c *Cache) URLs() (urls []string) {
	for _, file := range c.files() {
		content, err := os.ReadFile(filepath.Join(c.dir, file.name))
		var s struct {
			URL string `json:"url"`
		}
		if err == nil && len(content) <= maxFile && json.Unmarshal(content, &s) == nil && s.URL != "" {
			urls = append(urls, s.URL)
		}
	}
	return urls
}

// path returns the path of the file for a key, which does not show the key.
func (c *Cache) path(key string) string {
	digest := sha256.Sum256([]byte(key))
	return filepath.Join(c.dir, hex.EncodeToString(digest[:16])+".json")
}

type cacheFile struct {
	name    string
	changed time.Time
}

// files returns the files of the cache, the most recently changed first.
func (c *Cache) files() (files []cacheFile) {
	entries, _ := os.ReadDir(c.dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && e.Type().IsRegular() && strings.HasSuffix(e.Name(), ".json") {
			files = append(files, cacheFile{e.Name(), info.ModTime()})
		}
	}
	sort.Slice(files, func(i, j int) bool {
		a, b := files[i], files[j]
		return cmp.Or(b.changed.Compare(a.changed), strings.Compare(a.name, b.name)) < 0
	})
	return files
}

// evict removes the files that were not changed for the longest time, so that there is a place for one more.
func (c *Cache) evict(path string) {
	if _, err := os.Lstat(path); err == nil {
		return
	}
	if files := c.files(); len(files) >= maxServers {
		for _, f := range files[maxServers-1:] {
			_ = os.Remove(filepath.Join(c.dir, f.name)) // another process may have removed it
		}
	}
}
