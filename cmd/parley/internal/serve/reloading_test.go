package serve

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/cmd/parley/internal/servers/config"
	"github.com/parley-mcp/parley/internal/must"
)

// served has three parts. Each uses the configuration that was committed last.
type served struct {
	uses   [3]*config.Config
	events []string
}

// parts returns the parts of the served. Those in fails cannot use the configuration.
func (p *served) parts(fails ...int) (parts []part) {
	for i := range p.uses {
		parts = append(parts, func(loaded *config.Config) (func(), error) {
			p.events = append(p.events, fmt.Sprint("prepare ", i))
			for _, failing := range fails {
				if failing == i {
					return nil, fmt.Errorf("part %d is invalid", i)
				}
			}
			return func() {
				p.events = append(p.events, fmt.Sprint("commit ", i))
				p.uses[i] = loaded
			}, nil
		})
	}
	return parts
}

func TestNothingIsCommittedBeforeAllPartsArePrepared(t *testing.T) {
	var p served
	loaded := new(config.Config)
	commit := must.Get(prepare(loaded, p.parts()...))(t)
	must.CheckEqual(t, p.uses, [3]*config.Config{}, "a configuration that is not committed has an effect")
	commit()
	must.CheckEqual(t, p.uses, [3]*config.Config{loaded, loaded, loaded}, "used")
	must.CheckEqual(t, strings.Join(p.events, ", "),
		"prepare 0, prepare 1, prepare 2, commit 0, commit 1, commit 2", "order")
}

func TestAnInvalidPartHasNoEffectAndAllReasonsAreNamed(t *testing.T) {
	for _, fails := range [][]int{{0}, {1}, {2}, {0, 2}, {0, 1, 2}} {
		var p served
		commit, err := prepare(new(config.Config), p.parts(fails...)...)
		if commit != nil || err == nil || p.uses != [3]*config.Config{} {
			t.Errorf("%v: %v, used %v", fails, err, p.uses)
			continue
		}
		for _, i := range fails {
			must.CheckContains(t, err.Error(), fmt.Sprintf("part %d is invalid", i))
		}
	}
}

func TestEntriesThatBecomeUnusableAreErrors(t *testing.T) {
	invalid := errors.New("mcp.json:3: b is invalid")
	missing := errors.New("the variable X is not set")
	for _, c := range []struct {
		before, now unusable
		want        error // nil if the configuration is used
	}{
		{nil, nil, nil},
		{nil, unusable{"b": invalid}, invalid},
		{unusable{"a": missing}, unusable{"b": invalid, "a": missing}, invalid},
		{unusable{"b": missing}, unusable{"b": invalid}, nil}, // the served runs without it
		{unusable{"b": invalid}, nil, nil},
	} {
		if err := c.now.check(c.before); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("before %v, now %v: %v, want %v", c.before, c.now, err, c.want)
		}
	}
	now := unusable{}
	now.add("b", "mcp.json:3", missing)
	must.CheckEqual(t, fmt.Sprint(now.check(nil)), `mcp.json:3: server "b": the variable X is not set`)
}
