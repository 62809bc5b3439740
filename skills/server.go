package skills

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// Options are the options of [Add].
type Options struct {
	// Prefix is a path to put in front of the file system's directories in URIs: with "acme/billing", the skill in the
	// directory refunds is skill://acme/billing/refunds/SKILL.md.
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
	fresh       = time.Second // within this time, a request does not cause another scan
)

// Add serves the skills of a file system: each directory with a file SKILL.md, even inside another skill. It adds the
// extension with skills/list, skills/get and resources/directory/read, each SKILL.md as a resource, and a template for
// the other files. A server, or a catalog, can serve the skills of one file system.
//
// Files and directories whose names begin with a dot, symbolic links and devices are left out. To serve a directory on
// disk, use [os.Root.FS], which no path can leave.
//
// Add returns an error if a skill is invalid or exceeds [MaxFiles] or [MaxSize], and then serves nothing. Later,
// invalid skills are left out: see [Directory.Rescan].
//
// The server reads the file system again on requests, at most once a second. To notify clients of changes, call
// [Directory.Watch].
func Add(to server.Registrar, fsys fs.FS, options Options) (*Directory, error) {
	d := &Directory{to: server.CatalogOf(to), fsys: fsys, options: options, root: scheme}
	if options.Prefix != "" {
		if !fs.ValidPath(options.Prefix) || options.Prefix == "." {
			return nil, fmt.Errorf("skills: the prefix must be a path without empty segments and dots, not %q",
				options.Prefix)
		}
		d.root += escape(options.Prefix) + "/"
	}
	if err := d.scan(); err != nil {
		return nil, fmt.Errorf("skills: %w", err)
	}
	err := d.to.RegisterExtension(server.Extension{ // first, because it fails if to already serves skills
		ID: mcp.ExtensionSkills, Settings: map[string]bool{"directoryRead": true}, AnyClient: true,
		Requests: map[string]func(context.Context, json.RawMessage) (any, error){
			mcp.MethodListSkills: d.list, mcp.MethodGetSkill: d.get, mcp.MethodReadDirectory: d.readDirectory,
		},
	})
	if err == nil {
		template := mcp.ResourceTemplate{URITemplate: d.root + "{+path}", Name: "skills",
			Description: "Files of skills"}
		err = d.to.RegisterTemplate(template, d.read, server.Cached(options.Cache))
	}
	for _, s := range d.snapshot.skills {
		if err == nil {
			err = d.register(s)
		}
	}
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
	if err := jsonv2.Unmarshal(params, &p); err != nil || p.URI == "" {
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
	err := jsonv2.Unmarshal(params, &p)
	uri, err2 := base64.RawURLEncoding.DecodeString(p.Cursor)
	if err != nil || err2 != nil {
		return "", jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "params.cursor must be a nextCursor of this server")
	}
	return string(uri), nil
}

func cursorAfter(uri string) string { return base64.RawURLEncoding.EncodeToString([]byte(uri)) }
