package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// What a model should get at most.
const (
	maxCatalogue   = 128 << 10 // bytes of the definitions of all tools; parley up hides them behind a search above it
	bytesPerToken  = 4         // an estimate, for English and JSON
	maxDescription = 4 << 10   // bytes
)

// catalogue examines the lists of a server and the definitions in them.
func (e *Examination) catalogue(ctx context.Context, c *client.Client) {
	has := c.Server().Capabilities
	if has.Tools != nil {
		tools := collect(ctx, e, "tool", c.Tools(ctx))
		e.size(tools)
		e.lintTools(tools)
	}
	if has.Prompts != nil {
		e.lintPrompts(collect(ctx, e, "prompt", c.Prompts(ctx)))
	}
	if has.Resources != nil {
		e.lintResources(collect(ctx, e, "resource", c.Resources(ctx)))
		e.lintTemplates(collect(ctx, e, "resource template", c.ResourceTemplates(ctx)))
	}
	if has.Tools == nil && has.Prompts == nil && has.Resources == nil {
		e.report("lists", Warning, "declare the capabilities of the server", "the server declares neither tools nor prompts nor resources")
	}
}

// collect gets a list, and reports its length or the error.
func collect[E any](ctx context.Context, e *Examination, noun string, list iter.Seq2[*E, error]) (all []*E) {
	start := time.Now()
	for entry, err := range list {
		var reported *jsonrpc.Error
		var incomplete *client.IncompleteListError
		switch {
		case errors.As(err, &reported) && reported.Code == codeMethodNotFound:
			e.report("lists", Note, "", "the server has no list of %ss", noun)
			return nil
		case errors.As(err, &incomplete):
			e.report("lists", Problem, "let each page have another cursor, and the last one none", "the list of %ss does not end: %s", noun, e.text(err))
			return all
		case err != nil && ctx.Err() != nil:
			return all
		case err != nil:
			e.report("lists", Problem, "correct the list, or remove the capability", "cannot list the %ss: %s", noun, e.text(err))
			return all
		}
		all = append(all, entry)
	}
	took := time.Since(start)
	e.report("lists", OK, "", "%s after %v", terminal.Count(len(all), noun), terminal.Duration(took))
	if took > 2*time.Second {
		e.report("lists", Warning, "cache the list in the server", "the list of %ss takes %v; clients wait for it at their start", noun, terminal.Duration(took))
	}
	return all
}

// size examines how much of a model's context the definitions of the tools need.
func (e *Examination) size(tools []*mcp.Tool) {
	size, largest, name := 0, 0, ""
	for _, t := range tools {
		definition, err := json.Marshal(t)
		if err != nil {
			continue // the lints report it
		}
		size += len(definition)
		if len(definition) > largest {
			largest, name = len(definition), t.Name
		}
	}
	if size == 0 {
		return
	}
	level, fix := OK, ""
	if size > maxCatalogue {
		level, fix = Warning, `offer fewer tools ("tools" in the configuration of parley up), or let models search them (parley up --discover)`
	}
	e.report("size", level, fix, "the definitions of the tools need about %d tokens of a model's context (%d KiB); the largest one is %s with %d tokens",
		size/bytesPerToken, (size+1023)>>10, name, largest/bytesPerToken)
}
