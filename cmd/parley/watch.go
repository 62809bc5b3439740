//lint:file-ignore SA1019 What is deprecated still has to work.

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/mcp"
)

func newWatch() *cobra.Command {
	var flags dialFlags
	w := &watcher{}
	var level string
	cmd := &cobra.Command{
		Use:   "watch TARGET [URI…] [flags]",
		Short: "Follow what changes at a server",
		Long: `Follow a server until you interrupt it: print what is added to its lists of tools, resources
and prompts (+), removed (-) and changed (~), when a resource is updated whose URI you name,
and when the connection is lost and there again (at a URL the latter only).

` + targetHelp + `

Log messages are printed from the level that --log-level names. On 2026-07-28 a server sends
those of a call to whoever made it, and so none here.

With --output json each event is one line: an object with "time", "event" (watching, added,
removed, changed, updated, log, lost or regained) and what belongs to it.

` + exitCodesHelp + ` An interrupt is a success here.`,
		Example: `
parley watch http://127.0.0.1:7777/mcp
parley watch http://127.0.0.1:7777/mcp demo://clock --read
parley watch -o json --config mcp.json files | jq .`,
		RunE: func(cmd *cobra.Command, args []string) error {
			target, uris, err := split(cmd, args)
			if err != nil {
				return err
			}
			w.uris, w.level = uris, mcp.LoggingLevel(level)
			if level != "" && !w.level.Known() {
				return fmt.Errorf("--log-level %q: use one of %s", level, commas(mcp.LoggingLevels()))
			}
			err = w.run(cmd, &flags, target)
			if cmd.Context().Err() != nil {
				return nil
			}
			return err
		},
	}
	flags.add(cmd)
	w.output.add(cmd)
	cmd.Flags().BoolVar(&w.read, "read", false, "read a resource that was updated, and print what it holds")
	cmd.Flags().StringVar(&level, "log-level", "", "print the server's log messages from this level on, such as info")
	return cmd
}

// watcher follows one server.
type watcher struct {
	uris   []string
	read   bool
	level  mcp.LoggingLevel // empty: no log messages
	output output

	*reporter
	client *client.Client
	lists  map[call.ChangeKind]snapshot // as last seen
	seen   map[string]bool              // the URIs that are watched
	begun  map[client.Change]bool       // what is watched on this connection
}

func (w *watcher) run(cmd *cobra.Command, flags *dialFlags, target []string) error {
	w.reporter = newReporter(cmd.OutOrStdout(), w.output == outputJSON)
	w.lists, w.seen, w.begun = make(map[call.ChangeKind]snapshot), make(map[string]bool), make(map[client.Change]bool)
	var err error
	w.client, err = flags.dial(cmd, target, func(d *client.Dialer, _ client.Target) error {
		d.OnLost = func(err error) { w.report(event{Event: eventLost, Error: plainly(err)}) }
		if w.level != "" {
			d.OnLog = func(m mcp.LoggingMessageParams) {
				if w.level.Enables(m.Level) {
					w.report(event{Event: eventLog, Level: m.Level, Logger: m.Logger, Data: m.Data})
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	defer closeQuietly(w.client)
	info := w.client.Server().Info
	cmd.PrintErrln(terminal.Line(fmt.Sprintf("%s %s · MCP %s", info.Name, info.Version, w.client.Revision())))
	if err := w.hearLogs(cmd); err != nil {
		return err
	}
	options := client.WatchOptions{Tools: true, Prompts: true, Resources: true, URIs: w.uris}
	for change, err := range w.client.Watch(cmd.Context(), options) {
		if err == nil {
			err = w.see(cmd.Context(), change)
		}
		switch {
		case errors.Is(err, client.ErrNotOffered):
			return errors.New("the server does not report changes of its lists or resources")
		case err != nil:
			return err
		case w.failed() != nil:
			return w.failed()
		}
	}
	return nil
}

// hearLogs asks for log messages, where there are any without a call that they belong to.
func (w *watcher) hearLogs(cmd *cobra.Command) error {
	switch {
	case w.level == "":
		return nil
	case w.client.Revision().Modern():
		cmd.PrintErrln("parley: --log-level has no effect: in this revision log messages go to whoever makes a call")
		return nil
	case w.client.Server().Capabilities.Logging == nil:
		cmd.PrintErrln("parley: --log-level has no effect: the server has no log messages")
		return nil
	}
	return w.client.SetLogLevel(cmd.Context(), w.level)
}

// see takes one change.
func (w *watcher) see(ctx context.Context, change client.Change) error {
	if change.Unsure { // so it begins, and does so again on another connection
		if w.begun[change] {
			w.report(event{Event: eventRegained})
			clear(w.begun)
		}
		w.begun[change] = true
	}
	var err error
	switch {
	case change.Kind != client.ResourceUpdated:
		err = w.listed(ctx, change.Kind)
	case change.Unsure && !w.seen[change.URI]:
		w.seen[change.URI] = true
		w.report(event{Event: eventWatching, Kind: kindResource, Name: change.URI})
	default:
		err = w.updated(ctx, change)
	}
	if err != nil && w.isPassing(ctx, err) {
		return nil // when the connection is there again, everything is looked at anew
	}
	return err
}

func (w *watcher) isPassing(ctx context.Context, err error) bool {
	return ctx.Err() == nil && errors.Is(err, client.ErrConnectionLost)
}

// listed looks at a list that may have changed, and reports how.
func (w *watcher) listed(ctx context.Context, kind call.ChangeKind) error {
	now, err := w.look(ctx, kind)
	if err != nil {
		return err
	}
	if was, known := w.lists[kind]; known {
		for _, e := range was.changesTo(now) {
			w.report(e)
		}
	} else {
		n := len(now)
		w.report(event{Event: eventWatching, Kind: nameOfList(kind), Count: &n})
	}
	w.lists[kind] = now
	return nil
}

func nameOfList(kind call.ChangeKind) string {
	switch kind {
	case client.ToolsChanged:
		return kindTools
	case client.PromptsChanged:
		return kindPrompts
	}
	return kindResources
}

// look lists what a change of a kind is about.
func (w *watcher) look(ctx context.Context, kind call.ChangeKind) (snapshot, error) {
	s := snapshot{}
	switch kind {
	case client.ToolsChanged:
		tools, err := collect(true, w.client.Tools(ctx))
		if err != nil {
			return nil, err
		}
		return s, addTo(s, kindTool, tools, func(t *mcp.Tool) string { return t.Name })
	case client.PromptsChanged:
		prompts, err := collect(true, w.client.Prompts(ctx))
		if err != nil {
			return nil, err
		}
		return s, addTo(s, kindPrompt, prompts, func(p *mcp.Prompt) string { return p.Name })
	}
	resources, err := collect(true, w.client.Resources(ctx))
	if err != nil {
		return nil, err
	}
	templates, err := collect(true, w.client.ResourceTemplates(ctx))
	if err != nil {
		return nil, err
	}
	return s, errors.Join(
		addTo(s, kindResource, resources, func(r *mcp.Resource) string { return r.URI }),
		addTo(s, kindTemplate, templates, func(t *mcp.ResourceTemplate) string { return t.URITemplate }),
	)
}

// updated reports a resource as updated.
func (w *watcher) updated(ctx context.Context, change client.Change) error {
	e := event{Event: eventUpdated, Kind: kindResource, Name: change.URI, Unsure: change.Unsure}
	if w.read {
		result, err := w.client.ReadResource(ctx, change.URI)
		switch {
		case errors.Is(err, client.ErrResourceNotFound):
			e.Error = "it is not there anymore"
		case w.isPassing(ctx, err), ctx.Err() != nil:
			return err
		case err != nil:
			e.Error = plainly(err)
		default:
			e.Contents = result.Contents
		}
	}
	w.report(e)
	return nil
}
