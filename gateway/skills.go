package gateway

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/internal/glob"
	"github.com/parley-mcp/parley/internal/resourceuri"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/skills"
)

// The gateway lists the skills of all servers that declare the extension. At the gateway, a skill has the URIs of its
// resources; if one of them carries the prefix of its server, all do. What the policy denies to a caller is left out,
// as in other lists.

const skillScheme = "skill:"

// skillFiles is a template for the files of skills. Servers serve these files but need not list them.
var skillFiles = mcp.ResourceTemplate{URITemplate: skillScheme + "//{+path}", Name: "skills",
	Description: "Files of skills"}

// withSkillFiles adds skillFiles to the templates of a server with skills that has no such template.
func withSkillFiles(status *host.ServerStatus) []mcp.ResourceTemplate {
	_, declared := status.Server.Extension(mcp.ExtensionSkills)
	if !declared || slices.ContainsFunc(status.Templates, func(t mcp.ResourceTemplate) bool {
		return literalOf(t.URITemplate) == literalOf(skillFiles.URITemplate)
	}) {
		return status.Templates
	}
	return append(slices.Clip(status.Templates), skillFiles)
}

// skillServer is a server with skills.
type skillServer struct {
	name        string
	directories bool // it supports resources/directory/read
}

// updateSkills makes the gateway declare the extension while one of its servers does.
func (g *Gateway) updateSkills(status host.ServerStatus) {
	settings, declared := status.Server.Extension(mcp.ExtensionSkills)
	var s struct {
		DirectoryRead bool `json:"directoryRead"`
	}
	_ = jsonv2.Unmarshal(settings, &s) // other settings do not matter
	before := g.skills.Load()
	var now []skillServer
	for _, other := range *before {
		if other.name != status.Name {
			now = append(now, other)
		}
	}
	if declared && status.State != host.Removed && (g.Toolset == nil || glob.Any(g.Toolset.Servers, status.Name)) {
		now = append(now, skillServer{status.Name, s.DirectoryRead})
	}
	sort.Slice(now, func(i, j int) bool { return now[i].name < now[j].name })
	if slices.Equal(*before, now) {
		return
	}
	g.skills.Store(&now)
	hasDirectories := func(s skillServer) bool { return s.directories }
	was, is := slices.ContainsFunc(*before, hasDirectories), slices.ContainsFunc(now, hasDirectories)
	if was == is && (len(*before) > 0) == (len(now) > 0) {
		return
	}
	g.server.RemoveExtension(mcp.ExtensionSkills)
	if len(now) == 0 {
		return
	}
	e := server.Extension{ID: mcp.ExtensionSkills, AnyClient: true, Settings: map[string]bool{"directoryRead": is},
		Requests: map[string]func(context.Context, json.RawMessage) (any, error){
			mcp.MethodListSkills: g.listSkills, mcp.MethodGetSkill: g.getSkill,
		}}
	if is {
		e.Requests[mcp.MethodReadDirectory] = g.readDirectory
	}
	if err := g.server.RegisterExtension(e); err != nil {
		g.logger().Warn("cannot forward skills", "error", err)
	}
}

// skillPage says where a page of the list begins: at a cursor of a server, or at the beginning of its list.
type skillPage struct {
	Server string `json:"s"`
	Cursor string `json:"c,omitempty"`
}

// listSkills serves skills/list, one page of one server at a time. It leaves out servers that fail, unless all
// fail.
func (g *Gateway) listSkills(ctx context.Context, params json.RawMessage) (any, error) {
	var at skillPage
	if cursor, ok := jsonrpc.MembersOf(params).Get("cursor"); ok {
		raw, err := base64.RawURLEncoding.DecodeString(jsonrpc.Unquote(cursor))
		if err != nil || jsonv2.Unmarshal(raw, &at) != nil {
			return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "params.cursor must be a nextCursor of this server")
		}
	}
	servers := *g.skills.Load()
	first, _ := slices.BinarySearchFunc(servers, at.Server,
		func(s skillServer, name string) int { return strings.Compare(s.name, name) })
	var failure error
	for i := first; i < len(servers); i++ {
		name := servers[i].name
		var upstreamParams json.RawMessage
		if at.Cursor != "" && name == at.Server {
			upstreamParams, _ = json.Marshal(map[string]string{"cursor": at.Cursor}) // cannot fail
		}
		all, next, err := g.skillsOf(ctx, name, upstreamParams)
		if err != nil {
			failure = errors.Join(failure, err)
			g.logger().WarnContext(ctx, "leaving out the skills of a server", "server", name, "error", err)
			continue
		}
		page := skillPage{name, next}
		if next == "" {
			if i+1 == len(servers) {
				return skillList(all, nil), nil
			}
			page = skillPage{Server: servers[i+1].name}
		}
		if len(all) > 0 || next != "" {
			return skillList(all, &page), nil
		}
	}
	if failure != nil && at == (skillPage{}) {
		return nil, failure
	}
	return skillList(nil, nil), nil
}

// skillList returns the result of skills/list.
func skillList(all []*skills.Skill, next *skillPage) any {
	result := struct {
		mcp.CacheHints
		Skills     []*skills.Skill `json:"skills"`
		NextCursor string          `json:"nextCursor,omitempty"`
	}{stale(), slices.Concat([]*skills.Skill{}, all), ""}
	if next != nil {
		raw, _ := json.Marshal(next) // cannot fail
		result.NextCursor = base64.RawURLEncoding.EncodeToString(raw)
	}
	return result
}

// stale returns hints that forbid caching a result, because the gateway does not know how long a decision of the
// policy is valid.
func stale() mcp.CacheHints {
	return mcp.CacheHints{TTLMs: new(int64), CacheScope: mcp.CacheScopePrivate}
}

// skillsOf returns a page of the skills of a server, as the caller of ctx sees them.
func (g *Gateway) skillsOf(ctx context.Context, name string, params json.RawMessage) (all []*skills.Skill, next string,
	err error) {
	raw, err := g.askForSkills(ctx, name, mcp.MethodListSkills, params)
	if err != nil {
		return nil, "", err
	}
	var page struct {
		Skills     []json.RawMessage `json:"skills"`
		NextCursor string            `json:"nextCursor"`
	}
	if err := jsonv2.Unmarshal(raw, &page); err != nil {
		return nil, "", jsonrpc.Errorf(jsonrpc.CodeInternalError, "server %q: invalid result of %s: %v", name,
			mcp.MethodListSkills, err)
	}
	for _, entry := range page.Skills {
		s := new(skills.Skill)
		if err := s.UnmarshalJSON(entry); err != nil {
			g.logger().WarnContext(ctx, "skill left out", "server", name, "error", err)
		} else if s = g.skillAt(ctx, name, s); s != nil {
			all = append(all, s)
		}
	}
	return all, page.NextCursor, nil
}

// askForSkills sends a request of the extension to a server.
func (g *Gateway) askForSkills(ctx context.Context, name, method string, params json.RawMessage) (json.RawMessage,
	error) {
	result, err := g.host.Client(name).CallExtension(g.withCaller(ctx), method,
		jsonrpc.Without(params, "_meta"),
		extensionOptions(ctx, g.options().extension)...)
	if err != nil {
		return nil, g.extensionError(ctx, name, err)
	}
	return result, nil
}

// skillAt returns a skill of a server as the caller of ctx sees it: with the URIs at the gateway, and without files
// that the policy denies. It returns nil if the policy denies the skill's SKILL.md, or Review does not accept the
// skill.
func (g *Gateway) skillAt(ctx context.Context, name string, s *skills.Skill) *skills.Skill {
	hidden := g.hiddenFiles(ctx, name)
	if hidden(s.URI) || g.review(ctx, name, s) != nil {
		return nil
	}
	routes := g.routes.Load()
	same := func(uri string) bool { return routes.uri(name, uri) == uri }
	prefix := ""
	if !same(s.URI) || slices.ContainsFunc(s.Files, func(f skills.File) bool { return !same(f.URI) }) {
		prefix = prefixOf(name, s.URI)
	}
	changed := *s
	changed.URI = prefix + s.URI
	if s.Files != nil {
		changed.Files = []skills.File{}
	}
	for _, f := range s.Files {
		if !hidden(f.URI) {
			f.URI = prefix + f.URI
			changed.Files = append(changed.Files, f)
		}
	}
	return &changed
}

// review calls the Review of the host with a skill of a server.
func (g *Gateway) review(ctx context.Context, name string, s *skills.Skill) error {
	if g.host.Review == nil {
		return nil
	}
	d := host.Definition{Server: name, Kind: host.KindSkill, Name: s.URI}
	raw, err := s.MarshalJSON()
	if err == nil {
		d.JSON, err = digest.Canonical(raw)
	}
	if err == nil {
		err = g.host.Review(d)
	}
	if g.withheld.isNew(name, s.URI, err) {
		g.host.Withhold(ctx, d, err)
	}
	return err
}

// maxParents limits the directories that are searched for the skill of a file.
const maxParents = 16

// reviewedSkill returns a skill of a server that Review accepts and that covers a file; a file may belong to several
// skills. It asks for the entries each time, because they may have changed. If there is no such skill, the error
// says why. It returns nil without a Review, and for a file that belongs to no skill and whose scheme is not skill.
func (g *Gateway) reviewedSkill(ctx context.Context, name, file string,
	covers func(*skills.Skill) bool) (*skills.Skill, error) {
	if g.host.Review == nil || !slices.ContainsFunc(*g.skills.Load(),
		func(s skillServer) bool { return s.name == name }) {
		return nil, nil
	}
	if resourceuri.HasDots(file) {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%.200q is denied: a URI of a server with skills must "+
			"not have dot segments", file)
	}
	reason := errors.New("no skill lists it")
	found := strings.HasPrefix(canonical(file), skillScheme)
	for _, uri := range entriesFor(file) {
		s, err := skills.Get(g.withCaller(ctx), g.host.Client(name), uri)
		if err != nil {
			if !errors.As(err, new(*jsonrpc.Error)) { // otherwise, there is no such skill
				reason = err
			}
			continue
		}
		found = true
		if err := g.review(ctx, name, s); err != nil {
			reason = fmt.Errorf("skill %.200q is not accepted: %w", s.URI, err)
		} else if covers(s) {
			return s, nil
		}
	}
	if !found {
		return nil, nil
	}
	return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%.200q is denied: %s", file, reason)
}

// entriesFor returns the URIs that the SKILL.md of a skill with this file may have, nearest directories first.
func entriesFor(file string) (all []string) {
	file, _, _ = strings.Cut(file, "?")
	file, _, _ = strings.Cut(file, "#")
	for _, dir := range []string{file, canonical(file)} { // one file may have several URIs
		for range maxParents {
			end := strings.LastIndexByte(dir, '/')
			if end <= 0 || strings.HasSuffix(dir[:end], ":/") {
				break
			}
			dir = dir[:end]
			if uri := dir + "/SKILL.md"; !slices.Contains(all, uri) {
				all = append(all, uri)
			}
		}
	}
	return all
}

// readSkill reads a resource of a server. It reads a file of a skill only if the file is as an entry that Review
// accepts describes it.
func (g *Gateway) readSkill(ctx context.Context, name, uri string) (*mcp.ReadResourceResult, error) {
	ctx = g.withCaller(ctx)
	r := &reading{Client: g.host.Client(name), options: callOptions(ctx, g.options().content)}
	s, err := g.reviewedSkill(ctx, name, uri, func(s *skills.Skill) bool {
		return s.Files == nil || slices.ContainsFunc(s.Files, func(f skills.File) bool { return f.URI == uri })
	})
	if err != nil {
		return nil, err
	}
	if s == nil {
		return r.ReadResource(ctx, uri)
	}
	if _, err := skills.Read(ctx, r, s, uri); err != nil {
		if errors.As(err, new(*skills.VerificationError)) {
			err = jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%s", err)
		}
		return nil, err
	}
	return r.result, nil
}

// reading is a source that keeps the result of a read.
type reading struct {
	host.Client
	options []client.CallOption
	result  *mcp.ReadResourceResult
}

func (r *reading) ReadResource(ctx context.Context, uri string,
	_ ...client.CallOption) (_ *mcp.ReadResourceResult, err error) {
	r.result, err = r.Client.ReadResource(ctx, uri, r.options...)
	return r.result, err
}

// withheldSkills contains the skills that Review did not accept, with its errors, so that each is recorded once. It is
// safe for concurrent use.
type withheldSkills struct {
	mu  sync.Mutex
	all map[[2]string]string // error texts by server and URI
}

// maxWithheld limits the skills of withheldSkills. When there are more, all are forgotten.
const maxWithheld = 10_000

// isNew reports whether a skill is withheld for another reason than before. A nil error means that it is not withheld.
func (w *withheldSkills) isNew(server, uri string, err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := [2]string{server, uri}
	if err == nil {
		delete(w.all, key)
		return false
	}
	if reason, ok := w.all[key]; ok && reason == err.Error() {
		return false
	}
	if w.all == nil || len(w.all) >= maxWithheld {
		w.all = make(map[[2]string]string)
	}
	w.all[key] = err.Error()
	return true
}

// hiddenFiles returns a function that reports whether the policy denies a resource of a server to the caller of ctx.
func (g *Gateway) hiddenFiles(ctx context.Context, name string) func(uri string) bool {
	hides := g.host.Hides(server.PrincipalOf(ctx))
	return func(uri string) bool {
		return hides != nil && hides(&host.Request{
			Method: mcp.MethodReadResource, Server: name, Kind: host.KindResource, Name: uri,
		})
	}
}

// skillOwner returns the server that a URI at the gateway belongs to, and the URI there.
func (g *Gateway) skillOwner(uri string) (s skillServer, there string, err error) {
	name, there, ok := g.routes.Load().server(uri)
	servers := *g.skills.Load()
	i := slices.IndexFunc(servers, func(s skillServer) bool { return s.name == name })
	if !ok || i < 0 {
		return s, "", jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "no skill is served at %.200q", uri)
	}
	return servers[i], there, nil
}

// getSkill serves skills/get.
func (g *Gateway) getSkill(ctx context.Context, params json.RawMessage) (any, error) {
	raw, _ := jsonrpc.Get(params, "uri")
	uri := jsonrpc.Unquote(raw)
	owner, there, err := g.skillOwner(uri)
	if err != nil {
		return nil, err
	}
	upstreamParams, _ := json.Marshal(map[string]string{"uri": there}) // cannot fail
	result, err := g.askForSkills(ctx, owner.name, mcp.MethodGetSkill, upstreamParams)
	if err != nil {
		return nil, err
	}
	var got struct {
		Skill *skills.Skill `json:"skill"`
	}
	if err := jsonv2.Unmarshal(result, &got); err != nil || got.Skill == nil || got.Skill.URI != there {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInternalError, "server %q: invalid result of %s: %v", owner.name,
			mcp.MethodGetSkill, err)
	}
	s := g.skillAt(ctx, owner.name, got.Skill)
	if s == nil {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "no skill is served at %.200q", uri)
	}
	return struct {
		mcp.CacheHints
		Skill *skills.Skill `json:"skill"`
	}{stale(), s}, nil
}

// readDirectory serves resources/directory/read.
func (g *Gateway) readDirectory(ctx context.Context, params json.RawMessage) (any, error) {
	raw, _ := jsonrpc.Get(params, "uri")
	uri := jsonrpc.Unquote(raw)
	owner, there, err := g.skillOwner(uri)
	if err != nil {
		return nil, err
	}
	if !owner.directories {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "the server of %.200q has no directories", uri)
	}
	inside := strings.TrimSuffix(there, "/") + "/"
	isIn := func(file, dir string) bool { return strings.HasPrefix(file, dir) && file != dir }
	skill, err := g.reviewedSkill(ctx, owner.name, inside, func(s *skills.Skill) bool {
		return s.Files == nil || slices.ContainsFunc(s.Files, func(f skills.File) bool { return isIn(f.URI, inside) })
	})
	if err != nil {
		return nil, err
	}
	upstreamParams := map[string]json.RawMessage{"uri": jsonrpc.AppendString(nil, there)}
	if cursor, ok := jsonrpc.MembersOf(params).Get("cursor"); ok {
		upstreamParams["cursor"] = cursor
	}
	rawParams, err := json.Marshal(upstreamParams)
	if err != nil {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%v", err)
	}
	result, err := g.askForSkills(ctx, owner.name, mcp.MethodReadDirectory, rawParams)
	if err != nil {
		return nil, err
	}
	var page struct {
		Resources  []mcp.Resource `json:"resources"`
		NextCursor string         `json:"nextCursor,omitempty"`
	}
	if err := jsonv2.Unmarshal(result, &page); err != nil {
		return nil, jsonrpc.Errorf(jsonrpc.CodeInternalError, "server %q: invalid result of %s: %v", owner.name,
			mcp.MethodReadDirectory, err)
	}
	hidden := g.hiddenFiles(ctx, owner.name)
	kept := []mcp.Resource{}
	for _, r := range page.Resources {
		switch {
		case hidden(r.URI):
			continue
		case !isIn(r.URI, inside) || resourceuri.HasDots(r.URI): // it could belong to another server
			g.logger().WarnContext(ctx, "ignoring an entry of a directory: its URI must begin with the URI of the "+
				"directory",
				"server", owner.name, "directory", there, "uri", r.URI)
			continue
		case skill != nil && skill.Files != nil && !slices.ContainsFunc(skill.Files, func(f skills.File) bool {
			return f.URI == r.URI || isIn(f.URI, strings.TrimSuffix(r.URI, "/")+"/")
		}):
			continue // the file was added later
		}
		r.URI = strings.TrimSuffix(uri, there) + r.URI // add the prefix of the directory
		r.Meta = r.Meta.Forwardable()
		kept = append(kept, r)
	}
	page.Resources = kept
	return page, nil
}
