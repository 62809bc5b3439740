package skills

import (
	"context"
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

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// Directory is a file system with skills that [Add] serves. It is safe for concurrent use.
type Directory struct {
	to      *server.Catalog
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
	files    map[string]file           // files of all skills, by URI
	children map[string][]mcp.Resource // entries of all directories, by URI
	stat     map[string]file           // files of all skills, by path
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

// Rescan reads the file system again, and notifies clients: of a changed list of resources if skills were added or
// removed, and of each file whose contents have changed. The error names skills that are left out because they are
// invalid.
func (d *Directory) Rescan() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rescan()
}

// rescan reads the file system again, as Rescan does. The caller holds mu.
func (d *Directory) rescan() error {
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

// Watch calls [Directory.Rescan] at an interval until ctx ends. It calls report, unless that is nil, with each error.
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
	defer d.mu.Unlock()
	if time.Since(d.scanned) > fresh {
		_ = d.rescan() // Watch reports invalid skills
	}
	return d.snapshot
}

// scan replaces the snapshot. It leaves out invalid skills, which the error names. The caller holds mu, unless nobody
// else uses d yet.
func (d *Directory) scan() error {
	now := snapshot{files: make(map[string]file), children: make(map[string][]mcp.Resource),
		stat: make(map[string]file)}
	d.scanned = time.Now() // even if the scan fails
	var names []string     // names of all files
	walked := 0
	err := fs.WalkDir(d.fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		if walked++; walked > maxWalk {
			return fmt.Errorf("it has more than %d files", maxWalk)
		}
		switch {
		case err != nil && name == ".":
			return err
		case err != nil: // the file was removed in the meantime, or may not be read
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
	d.snapshot = now
	return errors.Join(problems...)
}

// skill returns the entry of the skill in a directory.
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

// stat returns a file. It reads the contents only if the file has changed since the last scan. total is the size of the
// skill's other files, in bytes.
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

// listChildren lists the directories of the skills and their parents.
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
			name, _ := url.PathUnescape(path.Base(parent)) // the name was encoded by escape
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
