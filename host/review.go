package host

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/mcp"
)

// Definition is something a server declares that a model reads: a tool, a prompt, a resource, a resource template, or
// the instructions with the server's title and description.
type Definition struct {
	Server string // in Host.Servers
	// Kind is KindTool, KindPrompt, KindResource or KindInstructions, and from a gateway also KindSkill.
	Kind Kind
	Name string // the server's own name, or the URI or URI template; empty for instructions
	// JSON is the definition as the server sends it, without white space and with sorted keys. For a resource, it lacks
	// the size and the time of the last modification. For a skill, it is the entry with the digests of all files. For
	// instructions, it is an object with the keys instructions, title and description, or a string if the server sends
	// neither title nor description.
	JSON json.RawMessage
}

// about contains what a server says about itself and a model reads.
type about struct {
	Description  string `json:"description,omitempty"`
	Instructions string `json:"instructions,omitempty"`
	Title        string `json:"title,omitempty"`
}

// definition returns the value of a Definition: the instructions alone, or all of a if there is more.
func (a about) definition() any {
	if a == (about{Instructions: a.Instructions}) {
		return a.Instructions
	}
	return a
}

// set copies a into details.
func (a about) set(details *client.ServerDetails) {
	details.Instructions, details.Info.Title, details.Info.Description = a.Instructions, a.Title, a.Description
}

// String names the definition, such as `tool "read_file"`.
func (d *Definition) String() string {
	if d.Kind == KindInstructions {
		return string(KindInstructions)
	}
	return fmt.Sprintf("%s %.200q", d.Kind, d.Name)
}

// withheldError reports a definition that [Host.Review] does not accept.
type withheldError struct {
	definition Definition
	err        error // error of Review
}

// Error names the definition and the reason.
func (e *withheldError) Error() string {
	verb := "is"
	if e.definition.Kind == KindInstructions {
		verb = "are"
	}
	return fmt.Sprintf("%s %s withheld: %v", &e.definition, verb, e.err)
}

// Unwrap returns the error of Review.
func (e *withheldError) Unwrap() error { return e.err }

// ReviewAgain calls Review again with all listed definitions, because its results may differ now, and updates the
// lists. It does nothing before Start.
func (h *Host) ReviewAgain() {
	if h.Review == nil {
		return
	}
	for _, s := range h.all() {
		s.reviewAgain()
	}
}

// reviewAgain reviews the lists again and publishes what Review accepts now.
func (s *supervisor) reviewAgain() {
	s.pool.forgetLists()
	s.publish(func(*lists, *client.ServerDetails) client.ChangeKind { return allKinds },
		func(*ServerStatus) bool { return s.client != nil })
}

// withheld contains the errors of the definitions that are withheld, by kind and name.
type withheld map[withheldKey]error

type withheldKey struct {
	kind Kind
	name string
}

// reviewed returns the definitions of a list that Review accepts, and adds to found the errors of the
// ones that it rejects.
func reviewed[E any](s *supervisor, found withheld, kind Kind, listed []E, name func(*E) string) (kept []E) {
	if s.reviewer == nil {
		return listed
	}
	for i := range listed {
		if s.accepts(found, kind, name(&listed[i]), &listed[i]) {
			kept = append(kept, listed[i])
		}
	}
	return kept
}

// accepts calls Review with a definition. It adds the error to found.
func (s *supervisor) accepts(found withheld, kind Kind, name string, definition any) bool {
	d := Definition{Server: s.name, Kind: kind, Name: name}
	if r, ok := definition.(*mcp.Resource); ok {
		definition = declared(*r)
	}
	raw, err := json.Marshal(definition)
	if err == nil {
		d.JSON, err = digest.Canonical(raw)
	}
	if err == nil {
		err = s.host.contain("Review", func() error { return s.reviewer(d) })
	}
	if err == nil {
		return true
	}
	d.JSON = nil // errors are kept, so do not keep the JSON
	found[withheldKey{kind, name}] = &withheldError{d, err}
	return false
}

// declared returns a resource without the fields that change with its contents: the size and the time of the last
// modification.
func declared(r mcp.Resource) *mcp.Resource {
	r.Size = nil
	if a := r.Annotations; a != nil {
		if _, err := time.Parse(time.RFC3339, a.LastModified); err == nil { // any other text could be meant for a model
			without := *a
			without.LastModified = ""
			if r.Annotations = &without; reflect.ValueOf(without).IsZero() {
				r.Annotations = nil
			}
		}
	}
	return &r
}

// error returns the errors, joined, ordered by kind and name.
func (w withheld) error() error {
	var errs []error
	for _, key := range w.sorted() {
		errs = append(errs, w[key])
	}
	return joined("definitions are withheld, too", errs)
}

func (w withheld) sorted() []withheldKey {
	return slices.SortedFunc(maps.Keys(w), func(a, b withheldKey) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name))
	})
}

// with returns w with the entries of some kinds taken from now.
func (w withheld) with(now withheld, kinds ...Kind) withheld {
	all := maps.Clone(now)
	for key, err := range w {
		if !slices.Contains(kinds, key.kind) {
			all[key] = err
		}
	}
	return all
}

// recordWithheld records the definitions that were not withheld before.
func (s *supervisor) recordWithheld(ctx context.Context, before, now withheld) {
	for _, key := range now.sorted() {
		err := now[key]
		if old := before[key]; old != nil && old.Error() == err.Error() {
			continue
		}
		s.host.Withhold(ctx, Definition{Server: s.name, Kind: key.kind, Name: key.name}, errors.Unwrap(err))
	}
}

// Withhold records in the log and the audit log that a definition is not used, and why. The Host calls it for
// definitions that Review rejects, and a gateway for skills.
func (h *Host) Withhold(ctx context.Context, d Definition, reason error) {
	h.logger().Warn("definition withheld", "server", d.Server, "kind", d.Kind, "name", d.Name, "error", reason)
	if h.Audit != nil {
		h.recordLater(ctx, newRecord("withheld", slog.String("server", d.Server), slog.String("kind", string(d.Kind)),
			slog.String("name", bounded(d.Name, maxAuditName)), slog.String("reason", reason.Error())))
	}
}

// definition returns the definition of a tool for the policy. It returns an error for a tool or prompt that
// is withheld or, if definitions are reviewed, not listed.
func (s *supervisor) definition(ctx context.Context, r *Request) (*mcp.Tool, error) {
	if err := s.offers(ctx, r.Kind, r.Name); err != nil {
		return nil, err
	}
	offered := s.offeredTo(ctx)
	if err := offered.withheld[withheldKey{r.Kind, r.Name}]; err != nil {
		return nil, r.denied("its definition is not accepted", err)
	}
	switch r.Kind {
	case KindTool:
		for i := range offered.tools {
			if t := &offered.tools[i].Definition; t.Name == r.Name {
				return s.trusted(t), nil
			}
		}
	case KindPrompt:
		for i := range offered.prompts {
			if offered.prompts[i].Definition.Name == r.Name {
				return nil, nil
			}
		}
	default:
		return nil, nil
	}
	if s.reviewer != nil {
		return nil, fmt.Errorf("%w: server %q does not list it", unknown(string(r.Kind), r.Name), r.Server)
	}
	return nil, nil
}

// trusted returns a definition without the parts that must not be used if the server is not trusted.
func (s *supervisor) trusted(t *mcp.Tool) *mcp.Tool {
	if s.config.Trusted || t.Annotations == nil {
		return t
	}
	c := *t
	c.Annotations, c.Source = nil, nil
	return &c
}
