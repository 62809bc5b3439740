package use

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/program"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/completion"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/program/failure"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal"
	"github.com/parley-mcp/parley/cmd/parley/internal/terminal/output"
	"github.com/parley-mcp/parley/cmd/parley/internal/use/listing"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

func NewWatch() *cobra.Command {
	var flags dialing.Flags
	w := &watcher{}
	var level string
	cmd := &cobra.Command{
		Use:   "watch TARGET [URI…] [flags]",
		Short: "Print what changes at a server",
		Long: `Print what changes at a server, until you interrupt the command: tools, resources and prompts that are
added (+), removed (-) or changed (~), updates of the resources that you name by URI, and a lost or restored connection
(for a URL, only a restored one).

-o json prints each event as one line, and -o yaml as one document, with its "time", its "event" (watching, added,
removed, changed, updated, log, lost or regained), and what changed. Ctrl-C counts as success.

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
	defer dialing.CloseQuietly(w.client)
	info := w.client.Server().Info
	cmd.PrintErrln(terminal.Line(fmt.Sprintf("%s %s · MCP %s", info.Name, info.Version, w.client.Revision())))
	if err := w.enableLogs(cmd); err != nil {
		return err
	}
	filter := client.WatchFilter{Tools: true, Prompts: true, Resources: true, URIs: w.uris}
	for change, err := range w.client.Watch(cmd.Context(), filter) {
		if err != nil && change.URI != "" { // the rest is watched
			cmd.PrintErrln(terminal.Line(failure.Explain(err)))
			continue
		}
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

// The events.
const (
	eventWatching = "watching"
	eventAdded    = "added"
	eventRemoved  = "removed"
	eventChanged  = "changed"
	eventUpdated  = "updated"
	eventLog      = "log"
	eventLost     = "lost"
	eventRegained = "regained"
)

// event is one event. Its JSON is a line of --output json.
type event struct {
	Time  string `json:"time"`
	Event string `json:"event"`
	Kind  string `json:"kind,omitempty"`
	Name  string `json:"name,omitempty"` // a name or URI
	Count *int   `json:"count,omitempty"`

	Value   json.RawMessage `json:"value,omitempty"`   // the new or changed object
	Members []string        `json:"members,omitempty"` // the members that have changed

	Contents []mcp.ResourceContents `json:"contents,omitempty"`
	// updates may have been missed while the connection was lost
	Unsure bool `json:"unsure,omitempty"`

	Level  mcp.LoggingLevel `json:"level,omitempty"`
	Logger string           `json:"logger,omitempty"`
	Data   json.RawMessage  `json:"data,omitempty"`

	Error string `json:"error,omitempty"`
}

// text returns the event as a line for the user.
func (e *event) text() string {
	name := e.Kind + " " + e.Name
	switch e.Event {
	case eventWatching:
		if e.Count == nil {
			return "watching " + e.Name
		}
		list := e.Kind
		if list == "resources" {
			list = "resources and templates" // one notification for both lists
		}
		return "watching " + list + ": " + strconv.Itoa(*e.Count)
	case eventAdded:
		return "+ " + name
	case eventRemoved:
		return "- " + name
	case eventChanged:
		return "~ " + name + ": " + strings.Join(e.Members, ", ")
	case eventUpdated:
		switch {
		case e.Error != "":
			name += ": " + e.Error
		case e.Unsure:
			name += ": may have been updated while the connection was lost"
		default:
			name += ": updated"
		}
		return "~ " + name
	case eventLog:
		return logLine(mcp.LoggingMessageParams{Level: e.Level, Logger: e.Logger, Data: e.Data})
	case eventLost:
		return "! connection lost: " + e.Error
	case eventRegained:
		return "! connection restored"
	}
	return e.Event
}

// reporter prints events. It is safe for concurrent use.
type reporter struct {
	mu     sync.Mutex
	w      io.Writer
	format output.Format
	now    func() time.Time
	err    error // of the first failed write
}

func newReporter(w io.Writer, format output.Format) *reporter {
	return &reporter{w: w, format: format, now: time.Now}
}

func (r *reporter) report(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = r.write(e)
	}
}

// failed returns the error of the first failed write, or nil. Later events are not printed.
func (r *reporter) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

func (r *reporter) write(e event) error {
	if r.format == output.Table {
		if _, err := io.WriteString(r.w, r.now().Format(time.TimeOnly)+" "+terminal.Line(e.text())+"\n"); err != nil ||
			e.Contents == nil {
			return err
		}
		return printContents(r.w, e.Contents, nil)
	}
	e.Time = r.now().Format(time.RFC3339Nano)
	return output.WriteEvent(r.w, r.format, &e)
}

// entry identifies one entry of a server's lists.
type entry struct{ kind, name string }

// snapshot contains the JSON of each entry of the lists of one notification.
type snapshot map[entry]json.RawMessage

// changesTo returns the differences between two snapshots, sorted by kind and name.
func (s snapshot) changesTo(now snapshot) []event {
	var events []event
	for o, value := range now {
		was, there := s[o]
		switch {
		case !there:
			events = append(events, event{Event: eventAdded, Kind: o.kind, Name: o.name, Value: value})
		case !bytes.Equal(was, value):
			events = append(events, event{Event: eventChanged, Kind: o.kind, Name: o.name, Value: value,
				Members: changedMembers(was, value)})
		}
	}
	for o := range s {
		if _, there := now[o]; !there {
			events = append(events, event{Event: eventRemoved, Kind: o.kind, Name: o.name})
		}
	}
	sort.Slice(events, func(i, j int) bool {
		a, b := &events[i], &events[j]
		return a.Kind+"\x00"+a.Name < b.Kind+"\x00"+b.Name
	})
	return events
}

// changedMembers returns the sorted names of the members that differ between two objects.
func changedMembers(was, now json.RawMessage) []string {
	values := make(map[string]string)
	for key, value := range jsonrpc.All(was) {
		values[key] = string(value)
	}
	var changed []string
	for key, value := range jsonrpc.All(now) {
		if before, there := values[key]; !there || before != string(value) {
			changed = append(changed, key)
		}
		delete(values, key)
	}
	return slices.Sorted(slices.Values(slices.AppendSeq(changed, maps.Keys(values))))
}

// logLine returns a log message of a server as a line. The line is "server: info: logger: text: key=value, …" if the
// data is a string or an object with a message, and contains the JSON of other data.
func logLine(m mcp.LoggingMessageParams) string {
	var b strings.Builder
	b.WriteString("server: " + string(m.Level) + ": ")
	if m.Logger != "" {
		b.WriteString(m.Logger + ": ")
	}
	b.WriteString(logText(m.Data))
	return terminal.Line(b.String())
}

func logText(data json.RawMessage) string {
	var text string
	if schema.Decode(data, &text) == nil {
		return text
	}
	if len(data) == 0 || data[0] != '{' {
		return string(data)
	}
	var message string
	var rest []string
	for key, raw := range jsonrpc.All(data) {
		value := string(raw)
		if schema.Decode(raw, &text) == nil {
			value = text
		}
		if key == "message" {
			message = value
		} else {
			rest = append(rest, key+"="+value)
		}
	}
	switch {
	case message == "":
		return string(data)
	case rest == nil:
		return message
	}
	return message + ": " + strings.Join(rest, ", ")
}

func NewPing() *cobra.Command {
	var flags dialing.Flags
	cmd := &cobra.Command{
		Use:   "ping TARGET [flags]",
		Short: "Check whether a server responds",
		Long: "Connect to a server, send a ping, and print the server's name, its version, the revision of " +
			"the\nprotocol, and how long the connection and the ping took.\n\n" + dialing.TargetHelp,
		Example: `
parley ping http://127.0.0.1:7777/mcp
parley ping --config mcp.json files`,
		RunE: dialing.WithTarget(func(cmd *cobra.Command, target []string) error {
			return ping(cmd, &flags, target)
		}),
	}
	flags.Add(cmd)
	completion.Add(cmd, &flags, completion.Target, completion.Nothing)
	return cmd
}

func ping(cmd *cobra.Command, flags *dialing.Flags, target []string) error {
	start := time.Now()
	c, err := flags.Dial(cmd, target)
	if err != nil {
		return err
	}
	defer dialing.CloseQuietly(c)
	dialled := time.Now()
	if err := c.Ping(cmd.Context()); err != nil {
		return err
	}
	answered := time.Now()
	info := c.Server().Info
	result := struct {
		Name      string       `json:"name"`
		Version   string       `json:"version"`
		Revision  mcp.Revision `json:"revision"`
		Connected float64      `json:"connectedMs"`
		Answered  float64      `json:"answeredMs"`
	}{info.Name, info.Version, c.Revision(), milliseconds(dialled.Sub(start)), milliseconds(answered.Sub(dialled))}
	return output.Print(cmd, result, "%s\n",
		terminal.Line(fmt.Sprintf("%s %s · MCP %s · connected in %v, ping answered in %v", info.Name, info.Version,
			c.Revision(), terminal.Duration(dialled.Sub(start)), terminal.Duration(answered.Sub(dialled)))))
}

// milliseconds returns a duration in milliseconds, rounded to microseconds.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
