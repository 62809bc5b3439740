//lint:file-ignore SA1019 Deprecated features are still supported.

package calling

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/completion"
	"github.com/parley-mcp/parley/cmd/parley/internal/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/failure"
	"github.com/parley-mcp/parley/cmd/parley/internal/listing"
	"github.com/parley-mcp/parley/cmd/parley/internal/output"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/mcp"
)

func NewWatch() *cobra.Command {
	var flags dialing.Flags
	w := &watcher{}
	var level string
	cmd := &cobra.Command{
		Use:   "watch TARGET [URI…] [flags]",
		Short: "Print the changes of a server",
		Long: `Print the changes of a server until you interrupt the command: entries that are added to its
lists of tools, resources and prompts (+), removed (-) or changed (~), updates of the resources
that you name by URI, and the loss and restoration of the connection. At a URL, only the
restoration is detected.

With -o json, each event is an object on one line, and with -o yaml a document: "time", "event" (watching, added,
removed, changed, updated, log, lost or regained) and the members of that event. Ctrl-C is a success.

` + dialing.TargetHelp,
		Example: `
parley watch http://127.0.0.1:7777/mcp
parley watch http://127.0.0.1:7777/mcp demo://notes --read
parley watch -o json --config mcp.json files | jq .`,
		RunE: dialing.WithWords(func(cmd *cobra.Command, target, uris []string) error {
			w.uris, w.level = uris, mcp.LoggingLevel(level)
			if level != "" && !w.level.Known() {
				return fmt.Errorf("unknown --log-level %q; use one of %s", level, program.Commas(mcp.LoggingLevels()))
			}
			err := w.run(cmd, &flags, target)
			if cmd.Context().Err() != nil {
				return nil
			}
			return err
		}),
	}
	flags.AddTo(cmd, "wait at most this `time` for each response, such as 90s (the default depends on the request)")
	cmd.Flags().BoolVar(&w.read, "read", false, "read each updated resource, and print its contents")
	cmd.Flags().StringVar(&level, "log-level", "",
		"print the server's log messages of this `level` and above, such as info")
	completion.Add(cmd, &flags, completion.Target, completion.Resource)
	return cmd
}

// watcher prints the changes of one server.
type watcher struct {
	uris  []string
	read  bool
	level mcp.LoggingLevel // empty for no log messages

	*reporter
	client *client.Client
	lists  map[client.ChangeKind]snapshot // the most recent lists
	uriSet map[string]bool                // the URIs whose watch was reported
	begun  map[client.Change]bool         // the initial changes of this connection
}

func (w *watcher) run(cmd *cobra.Command, flags *dialing.Flags, target []string) error {
	w.reporter = newReporter(cmd.OutOrStdout(), output.Of(cmd))
	w.lists, w.uriSet, w.begun = make(map[client.ChangeKind]snapshot), make(map[string]bool),
		make(map[client.Change]bool)
	var err error
	w.client, err = flags.Dial(cmd, target, func(d *client.Dialer, _ client.Target) error {
		d.OnConnectionLost = func(err error) { w.report(event{Event: eventLost, Error: failure.Explain(err)}) }
		if w.level != "" {
			d.OnLog = func(_ context.Context, m mcp.LoggingMessageParams) {
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
	defer dialing.Release(cmd, w.client)
	info := w.client.Server().Info
	cmd.PrintErrln(terminal.Line(fmt.Sprintf("%s %s · MCP %s", info.Name, info.Version, w.client.Revision())))
	if err := w.enableLogs(cmd); err != nil {
		return err
	}
	filter := client.WatchFilter{Tools: true, Prompts: true, Resources: true, URIs: w.uris}
	for change, err := range w.client.Watch(cmd.Context(), filter) {
		if err == nil {
			err = w.handle(cmd.Context(), change)
		}
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			return errors.New("the server does not support notifications about changes of its lists or resources")
		case err != nil:
			return err
		case w.failed() != nil:
			return w.failed()
		}
	}
	return nil
}

// enableLogs sets the log level, if the server sends log messages outside of requests.
func (w *watcher) enableLogs(cmd *cobra.Command) error {
	switch {
	case w.level == "":
		return nil
	case w.client.Revision().Modern():
		cmd.PrintErrln("parley: warning: --log-level has no effect, because in this revision log messages belong to " +
			"requests")
		return nil
	case w.client.Server().Capabilities.Logging == nil:
		cmd.PrintErrln("parley: warning: --log-level has no effect, because the server does not support logging")
		return nil
	}
	return w.client.SetLogLevel(cmd.Context(), w.level)
}

// handle handles one change.
func (w *watcher) handle(ctx context.Context, change client.Change) error {
	if change.Resync { // each watch begins so, and again after a reconnection
		if w.begun[change] {
			w.report(event{Event: eventRegained})
			clear(w.begun)
		}
		w.begun[change] = true
	}
	var err error
	switch {
	case change.Kind != client.ResourceUpdated:
		err = w.reportList(ctx, change.Kind)
	case change.Resync && !w.uriSet[change.URI]:
		w.uriSet[change.URI] = true
		w.report(event{Event: eventWatching, Kind: "resource", Name: change.URI})
	default:
		err = w.reportUpdate(ctx, change)
	}
	if err != nil && w.isTransient(ctx, err) {
		return nil // after the reconnection, all lists and resources are compared again
	}
	return err
}

// isTransient reports whether err is a lost connection, which is restored.
func (w *watcher) isTransient(ctx context.Context, err error) bool {
	return ctx.Err() == nil && errors.Is(err, call.ErrConnectionLost)
}

// reportList gets a list that may have changed, and reports the differences.
func (w *watcher) reportList(ctx context.Context, kind client.ChangeKind) error {
	now, err := w.snapshot(ctx, kind)
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

// nameOfList returns the name of the first list of a kind of change.
func nameOfList(kind client.ChangeKind) string {
	at := slices.IndexFunc(listing.Lists, func(l *listing.List) bool { return l.Change == kind })
	return listing.Lists[at].Name
}

// snapshot gets the lists of a kind of change.
func (w *watcher) snapshot(ctx context.Context, kind client.ChangeKind) (snapshot, error) {
	s := snapshot{}
	for _, l := range listing.Lists {
		if l.Change != kind {
			continue
		}
		items, err := l.Collect(ctx, w.client)
		if err != nil {
			return nil, err
		}
		for _, item := range items {
			if s[entry{l.Noun, item.Name}], err = json.Marshal(item.Definition); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

// reportUpdate reports an update of a resource.
func (w *watcher) reportUpdate(ctx context.Context, change client.Change) error {
	e := event{Event: eventUpdated, Kind: "resource", Name: change.URI, Unsure: change.Resync}
	if w.read {
		result, err := w.client.ReadResource(ctx, change.URI)
		switch {
		case errors.Is(err, call.ErrResourceNotFound):
			e.Error = "the resource does not exist any more"
		case w.isTransient(ctx, err), ctx.Err() != nil:
			return err
		case err != nil:
			e.Error = failure.Explain(err)
		default:
			e.Contents = result.Contents
		}
	}
	w.report(e)
	return nil
}
