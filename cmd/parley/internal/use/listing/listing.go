// Package listing knows which servers a user can name, and what they list. It caches the names for shell completion,
// which need not connect then.
package listing

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/servers/config"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/use/toolargs"
	"github.com/parley-mcp/parley/internal/atomicfile"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// List is a kind of list of a server.
type List struct {
	Name   string // tools, resources, templates or prompts
	Noun   string // of an entry
	Member string // of results that has the entries
	Change client.ChangeKind
	// All returns the entries. An unknown method is an error.
	All func(*client.Client, context.Context, ...client.CallOption) iter.Seq2[*Item, error]

	head string // of the column of Item.Detail
	has  func(*mcp.ServerCapabilities) bool
}

// Item is an entry of a list.
type Item struct {
	Name  string // or the URI, or the URI template
	Title string
	Label string // the name of a resource or of a template
	// Description is for models, Detail the arguments or the MIME type.
	Description, Detail string
	Definition          any // *mcp.Tool, *mcp.Resource, *mcp.ResourceTemplate or *mcp.Prompt
}

// Lists are all lists, in the order in which they are shown.
var Lists = []*List{
	{"tools", "tool", "tools", client.ToolsChanged, all((*client.Client).Tools, func(t *mcp.Tool) *Item {
		return &Item{t.Name, t.Title, "", t.Description, toolargs.Summary(t.InputSchema), t}
	}), "ARGUMENTS", func(c *mcp.ServerCapabilities) bool { return c.Tools != nil }},
	{"resources", "resource", "resources", client.ResourcesChanged,
		all((*client.Client).Resources, func(r *mcp.Resource) *Item {
			return &Item{r.URI, r.Title, r.Name, r.Description, r.MimeType, r}
		}), "TYPE", hasResources},
	{"templates", "template", "resourceTemplates", client.ResourcesChanged,
		all((*client.Client).ResourceTemplates, func(t *mcp.ResourceTemplate) *Item {
			return &Item{t.URITemplate, t.Title, t.Name, t.Description, t.MimeType, t}
		}), "TYPE", hasResources},
	{"prompts", "prompt", "prompts", client.PromptsChanged, all((*client.Client).Prompts, func(p *mcp.Prompt) *Item {
		return &Item{p.Name, p.Title, "", p.Description, PromptSummary(p), p}
	}), "ARGUMENTS", func(c *mcp.ServerCapabilities) bool { return c.Prompts != nil }},
}

func hasResources(c *mcp.ServerCapabilities) bool { return c.Resources != nil }

// all returns the function that lists items instead of definitions.
func all[E any](list func(*client.Client, context.Context, ...client.CallOption) iter.Seq2[*E, error],
	item func(*E) *Item) func(*client.Client, context.Context, ...client.CallOption) iter.Seq2[*Item, error] {
	return func(c *client.Client, ctx context.Context, options ...client.CallOption) iter.Seq2[*Item, error] {
		return func(yield func(*Item, error) bool) {
			for e, err := range list(c, ctx, options...) {
				var one *Item
				if err == nil {
					one = item(e)
				}
				if !yield(one, err) {
					return
				}
			}
		}
	}
}

// Named returns the list with a name, or nil.
func Named(name string) *List {
	if i := slices.IndexFunc(Lists, func(l *List) bool { return l.Name == name }); i >= 0 {
		return Lists[i]
	}
	return nil
}

// Collect returns the entries of the list. A server with the resources capability may lack either resources/list or
// resources/templates/list, so an unknown method is an empty list. With an error, Collect returns the entries that came
// before it.
func (l *List) Collect(ctx context.Context, c *client.Client, options ...client.CallOption) ([]*Item, error) {
	items := []*Item{}
	for item, err := range l.All(c, ctx, options...) {
		var reported *jsonrpc.Error
		switch {
		case errors.As(err, &reported) && reported.Code == jsonrpc.CodeMethodNotFound:
			return items, nil
		case err != nil:
			return items, err
		}
		items = append(items, item)
	}
	return items, nil
}

// Listing contains the entries of a server by the names of the lists.
type Listing map[string][]*Item

// All gets the lists that the server has capabilities for. It returns incomplete lists
// with client.ErrIncompleteList, and no lists with any other error.
func All(ctx context.Context, c *client.Client) (Listing, error) {
	has := c.Server().Capabilities
	listed := make(Listing)
	var incomplete error
	for _, l := range Lists {
		if !l.has(&has) {
			continue
		}
		items, err := l.Collect(ctx, c)
		if err != nil && !errors.Is(err, client.ErrIncompleteList) {
			return nil, err
		}
		listed[l.Name], incomplete = items, errors.Join(incomplete, err)
	}
	return listed, incomplete
}

// Counts returns the length of each list. It omits empty lists other than the tools.
func (l Listing) Counts() string {
	var counts []string
	for i, list := range Lists {
		if n := len(l[list.Name]); n > 0 || i == 0 {
			counts = append(counts, terminal.Count(n, list.Noun))
		}
	}
	return strings.Join(counts, ", ")
}

// Print writes a table for each list that is not empty.
func (l Listing) Print(w io.Writer, width int) error {
	separator := ""
	for _, list := range Lists {
		var rows [][]string
		for _, item := range l[list.Name] {
			rows = append(rows, terminal.Row(item.Name, item.Detail, cmp.Or(item.Description, item.Title, item.Label)))
		}
		if len(rows) == 0 {
			continue
		}
		if _, err := io.WriteString(w, separator); err != nil {
			return err
		}
		head := []string{strings.ToUpper(list.Noun), list.head, "DESCRIPTION"}
		if err := terminal.Table(w, width, head, rows); err != nil {
			return err
		}
		separator = "\n"
	}
	return nil
}

// ServerListing is a server and its lists, as JSON.
type ServerListing struct {
	Server    describedServer `json:"server"`
	Tools     []any           `json:"tools"`
	Resources []any           `json:"resources"`
	Templates []any           `json:"resourceTemplates"`
	Prompts   []any           `json:"prompts"`
}

type describedServer struct {
	Revision mcp.Revision `json:"revision"`
	client.ServerDetails
}

// NewServerListing returns the lists of the server of a client.
func NewServerListing(c *client.Client, lists Listing) *ServerListing {
	s := &ServerListing{Server: describedServer{c.Revision(), c.Server()}}
	for i, to := range []*[]any{&s.Tools, &s.Resources, &s.Templates, &s.Prompts} {
		*to = []any{}
		for _, item := range lists[Lists[i].Name] {
			*to = append(*to, item.Definition)
		}
	}
	return s
}

// PromptSummary returns the names of the prompt's arguments, with optional arguments in brackets.
func PromptSummary(p *mcp.Prompt) string {
	var all []string
	for _, a := range p.Arguments {
		if a.Required {
			all = append(all, a.Name)
		} else {
			all = append(all, "["+a.Name+"]")
		}
	}
	return strings.Join(all, " ")
}

// PrintHead writes the name, the title, the description and a line below it.
func PrintHead(w io.Writer, name, title, description, line string) error {
	head := terminal.Line(name)
	if title != "" && title != name {
		head += " · " + terminal.Line(title)
	}
	var b strings.Builder
	b.WriteString(head + "\n")
	if description != "" {
		b.WriteString("\n" + terminal.Block(strings.TrimSpace(description)) + "\n")
	}
	if line != "" {
		b.WriteString("\n" + terminal.Line(line) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Names returns the lists for completion.
func (l Listing) Names() *Names {
	names := &Names{Lists: make(map[string][]Entry)}
	for _, list := range Lists {
		names.Lists[list.Name] = []Entry{}
		for _, item := range l[list.Name] {
			names.Lists[list.Name] = append(names.Lists[list.Name], Entry{item.Name,
				cmp.Or(item.Title, item.Label, item.Description), arguments(item.Definition)})
		}
	}
	return names
}

// arguments returns the arguments of a tool or prompt.
func arguments(definition any) (all []Argument) {
	switch d := definition.(type) {
	case *mcp.Tool:
		for _, a := range toolargs.Arguments(d.InputSchema) {
			all = append(all, Argument{a.Name, cmp.Or(a.Description, a.Type), a.Required, a.Repeats, a.Values})
		}
	case *mcp.Prompt:
		for _, a := range d.Arguments {
			all = append(all, Argument{Name: a.Name, Description: cmp.Or(a.Description, a.Title), Required: a.Required})
		}
	}
	return all
}

// CacheDir returns the directory for caches: $PARLEY_CACHE_DIR, or one in the user's cache directory.
func CacheDir() (string, error) {
	if dir := os.Getenv("PARLEY_CACHE_DIR"); dir != "" {
		return dir, nil
	}
	user, err := os.UserCacheDir()
	return filepath.Join(user, "parley"), err
}

// OpenCache returns the cache for completion, in the directory for caches.
func OpenCache() (*Cache, error) {
	dir, err := CacheDir()
	if err != nil {
		return nil, err
	}
	return NewCache(filepath.Join(dir, "completion")), nil
}

// Server is a server that a TARGET can name.
type Server struct {
	Name     string        `json:"name"`
	Kind     string        `json:"kind"` // command or http
	Target   string        `json:"target"`
	Origin   string        `json:"origin,omitempty"` // where it is from
	Source   string        `json:"source,omitempty"` // the file and line
	Disabled bool          `json:"disabled,omitzero"`
	Problem  string        `json:"problem,omitempty"` // why the entry cannot be used
	Status   *ServerStatus `json:"status,omitempty"`
}

// ServerStatus is the state of a server.
type ServerStatus struct {
	State    string `json:"state"`
	Error    string `json:"error,omitempty"`
	Revision string `json:"revision,omitempty"`
	Tools    int    `json:"tools"`
}

func NewServer(s *config.Server) *Server {
	l := &Server{Name: s.Name, Kind: "http", Target: config.WithoutSecrets(s.URL), Origin: s.Origin, Source: s.Source,
		Disabled: s.Disabled}
	if s.Command != "" {
		l.Kind, l.Target = "command", config.MaskedCommand(s.Command, s.Args)
	}
	return l
}

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
