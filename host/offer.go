package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
)

// offered is what a server offers: the entries of its lists that remain after the selection and the
// review, under merged names. It still contains names that other servers claim, too. It is immutable.
type offered struct {
	naming       *naming // naming of the merged names; nil if the server has not been ready
	tools        []Tool
	prompts      []Prompt
	resources    []mcp.Resource
	templates    []mcp.ResourceTemplate
	about        about
	selected     map[string]bool   // selected tools by the server's names, if annotations decide
	toolClaims   map[string]string // merged name to the name that the server uses
	promptClaims map[string]string

	same     map[client.ChangeKind]error // names that collide within the server
	withheld withheld                    // the definitions that Host.Review does not accept
}

// publish changes the lists of a server. update changes them and returns the kinds of lists that must be selected,
// reviewed or named again. change is called with s.mu locked and may change the status; if it returns false, nothing
// changes. Review is called without a lock; if the lists change in the meantime, publish starts over with update.
func (s *supervisor) publish(update func(*lists, *client.ServerDetails) client.ChangeKind,
	change func(*ServerStatus) bool) {
	for {
		p := s.prepare(update)
		changed, outdated := s.apply(p, change)
		if outdated {
			continue
		}
		if changed {
			s.recordWithheld(s.ctx, p.before.withheld, p.now.withheld) // Audit may take its time, so no mutex is locked
		}
		return
	}
}

// publication is a change of what a server lists and offers, before it takes effect.
type publication struct {
	generation  uint64 // generation of the state that it is based on
	lists       lists
	details     client.ServerDetails
	before, now offered
}

// prepare returns the change that publish makes.
func (s *supervisor) prepare(update func(*lists, *client.ServerDetails) client.ChangeKind) *publication {
	s.mu.Lock()
	n := s.naming
	p := &publication{generation: s.generation, lists: s.lists, details: s.details, before: s.offered}
	s.mu.Unlock()
	kinds := update(&p.lists, &p.details)
	if p.before.naming != n { // setNaming has set another naming that publishAll has not published yet
		kinds = allKinds
	}
	p.now = s.offer(p.before, &p.lists, &p.details, n, kinds)
	return p
}

// apply makes a publication take effect. outdated reports that it is not based on the current state; then nothing
// changes.
func (s *supervisor) apply(p *publication, change func(*ServerStatus) bool) (changed, outdated bool) {
	affected := make(map[*supervisor]bool)
	c := &s.host.names
	c.mu.Lock()
	defer c.mu.Unlock()
	changed = s.set(func(status *ServerStatus) bool {
		if outdated = s.generation != p.generation; outdated || !change(status) {
			return false
		}
		s.generation++
		s.lists, s.details, s.offered = p.lists, p.details, p.now
		if s.retiring { // withdraw removes its claims
			s.offered.toolClaims, s.offered.promptClaims = p.before.toolClaims, p.before.promptClaims
		} else {
			c.claim(s, p.before, p.now, affected)
		}
		s.show(status, &s.lists, &s.offered)
		return true
	})
	c.refresh(affected)
	return changed, outdated
}

// setNaming sets the names and the selection that publishAll will apply. It reports whether n differs from the
// previous naming.
func (s *supervisor) setNaming(n *naming) (changed bool) {
	s.mu.Lock()
	if changed = !reflect.DeepEqual(s.naming, n); changed {
		s.naming = n
		s.generation++
	}
	s.mu.Unlock()
	if changed {
		s.pool.forgetLists()
	}
	return changed
}

// publishAll selects, reviews and names everything that the server lists again.
func (s *supervisor) publishAll() {
	s.publish(func(*lists, *client.ServerDetails) client.ChangeKind {
		return allKinds
	}, func(*ServerStatus) bool { return true })
}

// withdraw removes the claims of a server that is retired.
func (s *supervisor) withdraw() {
	affected := make(map[*supervisor]bool)
	c := &s.host.names
	c.mu.Lock()
	defer c.mu.Unlock()
	c.claim(s, s.offered, offered{}, affected)
	c.refresh(affected)
}

// claim replaces the claims of a server. The mutex of the name table must be locked here, in refresh and in
// show.
func (c *nameTable) claim(s *supervisor, before, now offered, affected map[*supervisor]bool) {
	if c.tools == nil {
		c.tools, c.prompts = make(claims), make(claims)
	}
	c.tools.replace(s, before.toolClaims, now.toolClaims, affected)
	c.prompts.replace(s, before.promptClaims, now.promptClaims, affected)
}

// refresh updates the statuses of servers that share names with a server whose claims have changed.
func (c *nameTable) refresh(affected map[*supervisor]bool) {
	for s := range affected {
		s.set(func(status *ServerStatus) bool {
			s.show(status, &s.lists, &s.offered)
			return true
		})
	}
}

// offer returns what a server offers. It reuses the parts of before that depend on other kinds of lists.
func (s *supervisor) offer(before offered, l *lists, details *client.ServerDetails, n *naming,
	kinds client.ChangeKind) offered {
	now, found := before, make(withheld)
	now.naming = n
	now.same = maps.Clone(before.same)
	if now.same == nil {
		now.same = make(map[client.ChangeKind]error)
	}
	var reviewedKinds []Kind
	if kinds&client.ToolsChanged != 0 {
		reviewedKinds = append(reviewedKinds, KindTool)
		selected := slices.DeleteFunc(slices.Clone(l.tools), func(t mcp.Tool) bool { return !n.tools.tool(&t) })
		now.selected = nil
		if n.tools.byAnnotation() {
			now.selected = make(map[string]bool, len(selected))
			for i := range selected {
				now.selected[selected[i].Name] = true
			}
		}
		accepted := reviewed(s, found, KindTool, selected, func(t *mcp.Tool) string { return t.Name })
		now.tools, now.same[client.ToolsChanged] = n.nameTools(s.name, s.logger, accepted)
		now.same[client.ToolsChanged] = errors.Join(now.same[client.ToolsChanged],
			unknownNames(&n.tools, "tool", l.tools, func(t *mcp.Tool) string { return t.Name }))
		if s.config.MaxResult > 0 { // a shortened result does not match the schema
			for i := range now.tools {
				now.tools[i].Definition.OutputSchema = nil
			}
		}
		now.toolClaims = make(map[string]string, len(now.tools))
		for i := range now.tools {
			now.toolClaims[now.tools[i].Name] = now.tools[i].Definition.Name
		}
	}
	if kinds&client.PromptsChanged != 0 {
		reviewedKinds = append(reviewedKinds, KindPrompt)
		selected := slices.DeleteFunc(slices.Clone(l.prompts),
			func(p mcp.Prompt) bool { return !n.prompts.names(p.Name) })
		accepted := reviewed(s, found, KindPrompt, selected, func(p *mcp.Prompt) string { return p.Name })
		now.prompts, now.same[client.PromptsChanged] = n.namePrompts(s.name, s.logger, accepted)
		now.same[client.PromptsChanged] = errors.Join(now.same[client.PromptsChanged],
			unknownNames(&n.prompts, "prompt", l.prompts, func(p *mcp.Prompt) string { return p.Name }))
		now.promptClaims = make(map[string]string, len(now.prompts))
		for i := range now.prompts {
			now.promptClaims[now.prompts[i].Name] = now.prompts[i].Definition.Name
		}
	}
	if kinds&client.ResourcesChanged != 0 {
		reviewedKinds = append(reviewedKinds, KindResource)
		now.resources = reviewed(s, found, KindResource, l.resources, func(r *mcp.Resource) string { return r.URI })
		now.templates = reviewed(s, found, KindResource, l.templates,
			func(t *mcp.ResourceTemplate) string { return t.URITemplate })
	}
	if kinds == allKinds { // the server has connected, or the review may decide differently
		reviewedKinds = append(reviewedKinds, KindInstructions)
		now.about = about{Description: details.Info.Description, Instructions: details.Instructions,
			Title: details.Info.Title}
		if s.reviewer != nil && now.about != (about{}) &&
			!s.accepts(found, KindInstructions, "", now.about.definition()) {
			now.about = about{}
		}
	}
	now.withheld = before.withheld.with(found, reviewedKinds...)
	return now
}

// show sets the lists in a status to what the server offers, without the names that other servers claim, too. The
// mutex of the name table must be locked.
func (s *supervisor) show(status *ServerStatus, l *lists, o *offered) {
	c := &s.host.names
	var sameTools, samePrompts []error
	status.Config = o.naming.config
	status.Tools, sameTools = withoutClaimed(s, c.tools, "tool", o.tools, nameOfTool)
	status.Prompts, samePrompts = withoutClaimed(s, c.prompts, "prompt", o.prompts,
		func(p *Prompt) string { return p.Name })
	status.Resources, status.Templates = o.resources, o.templates
	o.about.set(&status.Server)
	status.Incomplete = errors.Join(
		l.incomplete[client.ToolsChanged], o.same[client.ToolsChanged], joined("tools are withheld, too", sameTools),
		l.incomplete[client.ResourcesChanged],
		l.incomplete[client.PromptsChanged], o.same[client.PromptsChanged],
		joined("prompts are withheld, too", samePrompts),
		o.withheld.error(),
	)
}

// maxReasons limits the errors in ServerStatus.Incomplete of one kind.
const maxReasons = 10

// joined joins up to maxReasons errors. One more error counts the rest.
func joined(what string, errs []error) error {
	if more := len(errs) - maxReasons; more > 0 {
		errs = append(errs[:maxReasons:maxReasons], fmt.Errorf("%d more %s", more, what))
	}
	return errors.Join(errs...)
}

// withoutClaimed returns the entries whose names no other server than s claims.
func withoutClaimed[E any](s *supervisor, c claims, kind string, all []E,
	nameOf func(*E) string) (kept []E, conflicts []error) {
	kept = all
	for i := range all {
		name := nameOf(&all[i])
		taken := slices.ContainsFunc(c[name], func(other claim) bool { return other.supervisor != s })
		switch {
		case taken && len(conflicts) == 0:
			kept = slices.Clone(all[:i])
			fallthrough
		case taken:
			conflicts = append(conflicts, c.conflict(kind, name))
		case len(conflicts) > 0:
			kept = append(kept, all[i])
		}
	}
	return kept, conflicts
}

// offers returns an error if a request is about a tool or prompt that is not selected. The lists must be known.
func (s *supervisor) offers(ctx context.Context, kind Kind, name string) error {
	s.mu.Lock()
	n := s.naming
	s.mu.Unlock()
	switch kind {
	case KindTool:
		if !n.tools.names(name) || n.tools.byAnnotation() && !s.offeredTo(ctx).selected[name] {
			return fmt.Errorf("%w of server %q", unknown("tool", name), s.name)
		}
	case KindPrompt:
		if !n.prompts.names(name) {
			return fmt.Errorf("%w of server %q", unknown("prompt", name), s.name)
		}
	}
	return nil
}

// mayHave reports whether a merged name may be one of the server's tools.
func (s *supervisor) mayHave(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.HasPrefix(name, s.naming.prefix)
}

// withheldNamed returns the error of a tool that Review does not accept and that would have the merged name.
func (s *supervisor) withheldNamed(merged string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.naming
	for key, err := range s.offered.withheld {
		if key.kind == KindTool && n.toolName(key.name) == merged {
			return err
		}
	}
	return nil
}
