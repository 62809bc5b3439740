package skills

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// Options are the options of [Add].
type Options struct {
	// Prefix is a path of directories that precede those of the file system in the URIs: with "acme/billing", the
	// skill in the directory refunds is skill://acme/billing/refunds/SKILL.md.
	Prefix string
	// Cache tells clients of 2026-07-28 how long they may cache listings and files. The zero value tells them not to.
	Cache server.CachePolicy
}

const scheme = "skill://"

// Limits of a directory of skills.
const (
	maxWalk     = 100_000 // files and directories
	maxPage     = 100     // entries of a page
	maxPageSize = 512 << 10
	fresh       = time.Second // a scan is not repeated within this time because of a request
)

// catalog is a [server.Server] or a [server.Catalog].
type catalog interface {
	RegisterExtension(server.Extension) error
	RegisterResource(mcp.Resource, server.ResourceHandler, ...server.ResourceOption) error
	RegisterTemplate(mcp.ResourceTemplate, server.ResourceHandler, ...server.ResourceOption) error
	RemoveResource(uri string) bool
	ResourceUpdated(uri string)
}

// Directory is a file system with skills that [Add] serves. It is safe for concurrent use.
type Directory struct {
	to      catalog
	fsys    fs.FS
	options Options
	root    string // the URI of the file system, with a slash at its end

	mu       sync.Mutex
	scanned  time.Time
	snapshot snapshot
}

// snapshot is the state of the file system at a scan. Its contents are not modified.
type snapshot struct {
	skills   []*Skill                  // ordered by URI
	files    map[string]file           // of all skills, by URI
	children map[string][]mcp.Resource // of all directories, by URI
	stat     map[string]file           // of all skills, by path
}

// file is a file of a skill as it was when its digest was computed.
type file struct {
	path     string
	size     int64
	modified time.Time
	digest   string
	// Of SKILL.md:
	frontmatter json.RawMessage
	err         error
}

// Add serves the skills of a file system: each directory with a file SKILL.md is one, also in the directory of another
// skill. It adds the extension with skills/list, skills/get and resources/directory/read, each SKILL.md as a resource,
// and a template for the other files. to is a [server.Server] or a [server.Catalog], which can have the skills of one
// file system.
//
// Files and directories whose names begin with a dot, symbolic links and devices are left out. To serve a directory of
// the disk, use [os.Root.FS], which contains the access to it.
//
// Add returns an error if a skill is invalid or exceeds [MaxFiles] or [MaxSize], and then serves nothing. Later, invalid
// skills are left out: see [Directory.Rescan].
//
// The server reads the file system again for a request, at most once a second. Call [Directory.Watch] to notify clients
// of changes, too.
func Add(to catalog, fsys fs.FS, options Options) (*Directory, error) {
	d := &Directory{to: to, fsys: fsys, options: options, root: scheme}
	if options.Prefix != "" {
		if !fs.ValidPath(options.Prefix) || options.Prefix == "." {
			return nil, fmt.Errorf("skills: the prefix must be a path without empty segments and dots, not %q", options.Prefix)
		}
		d.root += escape(options.Prefix) + "/"
	}
	if err := d.scan(); err != nil {
		return nil, fmt.Errorf("skills: %w", err)
	}
	template := mcp.ResourceTemplate{URITemplate: d.root + "{+path}", Name: "skills", Description: "Files of skills"}
	if err := to.RegisterTemplate(template, d.read, server.Cached(options.Cache)); err != nil {
		return nil, fmt.Errorf("skills: %w", err)
	}
	for _, s := range d.snapshot.skills {
		if err := d.register(s); err != nil {
			return nil, fmt.Errorf("skills: %w", err)
		}
	}
	err := to.RegisterExtension(server.Extension{
		ID: ID, Settings: map[string]bool{"directoryRead": true}, AnyClient: true,
		Requests: map[string]func(context.Context, json.RawMessage) (any, error){
			methodList: d.list, methodGet: d.get, methodDirectory: d.readDirectory,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("skills: %w", err)
	}
	return d, nil
}

// register adds the SKILL.md of a skill as a resource.
func (d *Directory) register(s *Skill) error {
	main, _ := s.file(s.URI)
	return d.to.RegisterResource(mcp.Resource{URI: s.URI, Name: s.Name, Description: s.Description,
		MimeType: "text/markdown", Size: &main.Size}, d.read, server.Cached(d.options.Cache))
}

// Rescan reads the file system again, and notifies the clients of what has changed: of the list of resources if skills
// were added or removed, and of each file with other contents. The error names the skills that are left out because they
// are invalid.
func (d *Directory) Rescan() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.snapshot
	err := d.scan()
	now := d.snapshot
	old, added := make(map[string]*Skill), []*Skill(nil)
	for _, s := range before.skills {
		old[s.URI] = s
	}
	for _, s := range now.skills {
		was := old[s.URI]
		delete(old, s.URI)
		if was == nil || was.Description != s.Description {
			if was != nil {
				d.to.RemoveResource(s.URI)
			}
			added = append(added, s)
		}
	}
	for uri := range old {
		d.to.RemoveResource(uri)
	}
	for _, s := range added {
		err = errors.Join(err, d.register(s))
	}
	for uri, f := range now.files {
		if was, ok := before.files[uri]; ok && was.digest != f.digest {
			d.to.ResourceUpdated(uri)
		}
	}
	return err
}

// Watch calls [Directory.Rescan] at an interval until ctx ends, and report, unless it is nil, with each error.
func (d *Directory) Watch(ctx context.Context, interval time.Duration, report func(error)) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := d.Rescan(); err != nil && report != nil {
				report(err)
			}
		case <-ctx.Done():
			return
		}
	}
}

// current returns a snapshot that is at most a second old. Invalid skills are left out.
func (d *Directory) current() snapshot {
	d.mu.Lock()
	stale := time.Since(d.scanned) > fresh
	d.mu.Unlock()
	if stale {
		_ = d.Rescan() // Watch reports invalid skills
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.snapshot
}

// scan replaces the snapshot. It leaves out invalid skills, which the error names. The caller holds mu, if others have d.
func (d *Directory) scan() error {
	now := snapshot{files: make(map[string]file), children: make(map[string][]mcp.Resource), stat: make(map[string]file)}
	var names []string // of all files
	walked := 0
	err := fs.WalkDir(d.fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		if walked++; walked > maxWalk {
			return fmt.Errorf("it has more than %d files", maxWalk)
		}
		switch {
		case err != nil && name == ".":
			return err
		case err != nil: // it was removed meanwhile, or must not be read
			return nil
		case name != "." && strings.HasPrefix(path.Base(name), "."):
			if entry.IsDir() {
				return fs.SkipDir
			}
		case entry.Type().IsRegular():
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("cannot read the file system: %w", err)
	}
	slices.Sort(names) // so that the files of a directory follow one another
	var problems []error
	for _, name := range names {
		if path.Base(name) != fileName {
			continue
		}
		s, err := d.skill(path.Dir(name), names, &now)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", name, err))
			continue
		}
		now.skills = append(now.skills, s)
		for _, f := range s.Files {
			now.files[f.URI] = now.stat[d.pathOf(f.URI)]
		}
	}
	slices.SortFunc(now.skills, func(a, b *Skill) int { return strings.Compare(a.URI, b.URI) })
	d.listChildren(&now)
	d.snapshot, d.scanned = now, time.Now()
	return errors.Join(problems...)
}

// skill makes the entry of the skill in a directory.
func (d *Directory) skill(dir string, names []string, now *snapshot) (*Skill, error) {
	if dir == "." && d.options.Prefix == "" {
		return nil, fmt.Errorf("%s must be in a directory with the name of the skill", fileName)
	}
	s := &Skill{URI: d.uriOf(path.Join(dir, fileName))}
	total, inside := int64(0), ""
	if dir != "." {
		inside = dir + "/"
		at, _ := slices.BinarySearch(names, inside)
		names = names[at:]
	}
	for _, name := range names {
		if !strings.HasPrefix(name, inside) {
			break
		}
		if len(s.Files) == MaxFiles {
			return nil, fmt.Errorf("a skill must have at most %d files", MaxFiles)
		}
		f, err := d.stat(name, total, now)
		if err != nil {
			return nil, err
		}
		if name == inside+fileName {
			if f.err != nil {
				return nil, f.err
			}
			s.Frontmatter = f.frontmatter
		}
		total += f.size
		s.Files = append(s.Files, File{URI: d.uriOf(name), Digest: f.digest, Size: f.size})
	}
	if err := s.complete(); err != nil {
		return nil, err
	}
	if n := utf8.RuneCountInString(s.Description); n > maxDescr {
		return nil, fmt.Errorf("the description must have at most %d characters, not %d", maxDescr, n)
	}
	return s, nil
}

// stat returns a file, whose contents are read only if it has changed since the last scan. The other files of its skill
// have total bytes.
func (d *Directory) stat(name string, total int64, now *snapshot) (file, error) {
	if f, ok := now.stat[name]; ok {
		return f, checkSize(total + f.size)
	}
	info, err := fs.Stat(d.fsys, name)
	if err != nil {
		return file{}, err
	}
	f := file{path: name, size: info.Size(), modified: info.ModTime()}
	if err := checkSize(total + f.size); err != nil {
		return file{}, err
	}
	if was, ok := d.snapshot.stat[name]; ok && was.size == f.size && was.modified.Equal(f.modified) {
		f = was
	} else {
		contents, err := d.contents(name)
		if err != nil {
			return file{}, err
		}
		f.size, f.digest = int64(len(contents)), digestOf(contents)
		if path.Base(name) == fileName {
			f.frontmatter, f.err = frontmatterOf(contents)
		}
	}
	now.stat[name] = f
	return f, checkSize(total + f.size)
}

func checkSize(total int64) error {
	if total > MaxSize {
		return fmt.Errorf("the files of a skill must have at most %d bytes", MaxSize)
	}
	return nil
}

// contents reads a file of at most MaxSize bytes.
func (d *Directory) contents(name string) ([]byte, error) {
	f, err := d.fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	contents, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err == nil {
		err = checkSize(int64(len(contents)))
	}
	return contents, err
}

// listChildren lists the directories of the skills and those that lead to them.
func (d *Directory) listChildren(now *snapshot) {
	listed := make(map[string]bool)
	for uri, f := range now.files {
		child := mcp.Resource{URI: uri, Name: path.Base(f.path), MimeType: typeOf(f.path), Size: &f.size}
		for !listed[child.URI] {
			listed[child.URI] = true
			parent := child.URI[:strings.LastIndexByte(child.URI, '/')]
			if len(parent) < len(scheme) {
				break
			}
			now.children[parent] = append(now.children[parent], child)
			name, _ := url.PathUnescape(path.Base(parent)) // escape has encoded it
			child = mcp.Resource{URI: parent, Name: name, MimeType: "inode/directory"}
		}
	}
	for _, all := range now.children {
		slices.SortFunc(all, func(a, b mcp.Resource) int { return strings.Compare(a.URI, b.URI) })
	}
}

// uriOf returns the URI of a file.
func (d *Directory) uriOf(name string) string { return d.root + escape(name) }

// pathOf returns the path of a URI that uriOf has returned.
func (d *Directory) pathOf(uri string) string {
	name, _ := url.PathUnescape(strings.TrimPrefix(uri, d.root))
	return name
}

// escape percent-encodes a path for a URI.
func escape(name string) string {
	segments := strings.Split(name, "/")
	for i, segment := range segments {
		segments[i] = url.PathEscape(segment)
	}
	return strings.Join(segments, "/")
}

// read is the handler of all files.
func (d *Directory) read(_ context.Context, uri string) (*mcp.ReadResourceResult, error) {
	f, ok := d.current().files[uri]
	if !ok {
		return nil, call.ErrResourceNotFound
	}
	contents, err := d.contents(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, call.ErrResourceNotFound
	case err != nil:
		return nil, err
	}
	c := mcp.ResourceContents{URI: uri, MimeType: typeOf(f.path)}
	if utf8.Valid(contents) && !strings.ContainsRune(string(contents), 0) {
		c.Text = string(contents)
	} else {
		c.Blob = contents
	}
	return &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{c}}, nil
}

// typeOf returns the MIME type of a file.
func typeOf(name string) string {
	if strings.EqualFold(path.Ext(name), ".md") {
		return "text/markdown"
	}
	t, _, err := mime.ParseMediaType(mime.TypeByExtension(path.Ext(name)))
	if err != nil {
		return "application/octet-stream"
	}
	return t
}

// list serves skills/list.
func (d *Directory) list(_ context.Context, params json.RawMessage) (any, error) {
	after, err := cursorOf(params)
	if err != nil {
		return nil, err
	}
	all := d.current().skills
	at, _ := slices.BinarySearchFunc(all, after, func(s *Skill, uri string) int { return strings.Compare(s.URI, uri) })
	if after != "" && at < len(all) && all[at].URI == after {
		at++
	}
	result := listResult{ResultBase: complete, CacheHints: d.hints(), Skills: []*Skill{}}
	for size := 0; at < len(all) && len(result.Skills) < maxPage; at++ {
		raw, err := all[at].MarshalJSON()
		if err != nil {
			return nil, err
		}
		if size += len(raw); size > maxPageSize && len(result.Skills) > 0 {
			break
		}
		result.Skills = append(result.Skills, all[at])
	}
	if at < len(all) {
		result.NextCursor = cursorAfter(all[at-1].URI)
	}
	return result, nil
}

// get serves skills/get.
func (d *Directory) get(_ context.Context, params json.RawMessage) (any, error) {
	uri, err := uriParam(params)
	if err != nil {
		return nil, err
	}
	for _, s := range d.current().skills {
		if s.URI == uri {
			return getResult{ResultBase: complete, CacheHints: d.hints(), Skill: s}, nil
		}
	}
	return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "no skill is served at %.200q", uri)
}

// readDirectory serves resources/directory/read.
func (d *Directory) readDirectory(_ context.Context, params json.RawMessage) (any, error) {
	uri, err := uriParam(params)
	if err != nil {
		return nil, err
	}
	after, err := cursorOf(params)
	if err != nil {
		return nil, err
	}
	now := d.current()
	all, ok := now.children[uri]
	switch _, isFile := now.files[uri]; {
	case isFile:
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%.200q is a file, not a directory", uri)
	case !ok:
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "no directory is served at %.200q", uri)
	}
	at := 0
	for at < len(all) && after != "" && all[at].URI <= after {
		at++
	}
	end := min(at+maxPage, len(all))
	result := directoryResult{ResultBase: complete, Resources: append([]mcp.Resource{}, all[at:end]...)}
	if end < len(all) {
		result.NextCursor = cursorAfter(all[end-1].URI)
	}
	return result, nil
}

// The results of the methods.
type (
	listResult struct {
		mcp.ResultBase
		mcp.CacheHints
		Skills     []*Skill `json:"skills"`
		NextCursor string   `json:"nextCursor,omitempty"`
	}
	getResult struct {
		mcp.ResultBase
		mcp.CacheHints
		Skill *Skill `json:"skill"`
	}
	directoryResult struct {
		mcp.ResultBase
		Resources  []mcp.Resource `json:"resources"`
		NextCursor string         `json:"nextCursor,omitempty"`
	}
)

var complete = mcp.ResultBase{ResultType: mcp.ResultTypeComplete}

func (d *Directory) hints() mcp.CacheHints {
	ttl := max(d.options.Cache.TTL, 0).Milliseconds()
	scope := mcp.CacheScopePrivate
	if d.options.Cache.Public {
		scope = mcp.CacheScopePublic
	}
	return mcp.CacheHints{TTLMs: &ttl, CacheScope: scope}
}

func uriParam(params json.RawMessage) (string, error) {
	var p struct {
		URI string `json:"uri"`
	}
	if err := json.Unmarshal(params, &p); err != nil || p.URI == "" {
		return "", jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "params.uri must be a URI")
	}
	return p.URI, nil
}

// cursorOf returns the URI after which a page begins, or "" for the first page.
func cursorOf(params json.RawMessage) (string, error) {
	var p struct {
		Cursor string `json:"cursor"`
	}
	if len(params) == 0 {
		return "", nil
	}
	err := json.Unmarshal(params, &p)
	uri, err2 := base64.RawURLEncoding.DecodeString(p.Cursor)
	if err != nil || err2 != nil {
		return "", jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "params.cursor must be a nextCursor of this server")
	}
	return string(uri), nil
}

func cursorAfter(uri string) string { return base64.RawURLEncoding.EncodeToString([]byte(uri)) }
