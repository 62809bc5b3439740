// Package reload replaces the configuration of a program that serves: all parts of it, or none.
package reload

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/parley-mcp/parley/cmd/parley/internal/servers/config"
)

// Part is a part of what the program does that the files decide, such as its policy. A Part checks what the files say
// about it, and prepares everything that can fail. It changes nothing that the program uses: commit does that, and
// cannot fail. The parts of a Plan are committed in their order.
type Part func(loaded *config.Config) (commit func(), err error)

// Plan is a configuration that was checked, and is not used yet.
type Plan struct{ commits []func() }

// NewPlan returns the plan for what was loaded. If a part of it cannot be used, nothing of it can: the error has all
// reasons.
func NewPlan(loaded *config.Config, parts ...Part) (*Plan, error) {
	p := new(Plan)
	var errs []error
	for _, part := range parts {
		commit, err := part(loaded)
		p.commits, errs = append(p.commits, commit), append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return p, nil
}

// Commit makes the program use the configuration.
func (p *Plan) Commit() {
	for _, commit := range p.commits {
		commit()
	}
}

// Unusable are the reasons why entries of the files cannot be used, by the names of the entries.
type Unusable map[string]error

// Check returns an error if entries cannot be used that could be used before, or are new: a typing error must not end a
// server. The program has started without the entries that could not be used before.
func (now Unusable) Check(before Unusable) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if before[name] == nil {
			errs = append(errs, now[name])
		}
	}
	return errors.Join(errs...)
}

// Add adds an entry that cannot be used. The error of a file names it already; another one does not.
func (now Unusable) Add(name, source string, err error) {
	if source != "" {
		err = fmt.Errorf("%s: server %q: %w", source, name, err)
	}
	now[name] = err
}
