// Package replay sends the requests of a recording to a server again, and reports how the messages of the server
// differ from the recorded ones.
package replay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/cmd/parley/internal/traffic/recording"
	"github.com/parley-mcp/parley/transport"
)

// Options are the settings of a replay.
type Options struct {
	// Ignore selects places of messages that may differ.
	Ignore Paths
	// Timeout is the time for each message of the server; 0 means 30 seconds.
	Timeout time.Duration
	// Pace keeps the times between the messages of the client. Otherwise each is sent as soon as the messages of
	// the server that it followed have arrived.
	Pace bool
	// Header is set in every HTTP request. It replaces headers of the recording.
	Header http.Header
	// Trace is called with each message that is sent or received, one at a time; may be nil.
	Trace func(sent bool, message []byte)
}

// Report is the outcome of a replay.
type Report struct {
	Requests    int          `json:"requests"` // that were sent
	Skipped     int          `json:"skipped,omitempty"`
	Differences []Difference `json:"differences"`
}

// Difference is a message of the server that is missing, unexpected, or different.
type Difference struct {
	Line    int      `json:"line,omitempty"` // of the recording; 0 if it has no such message
	Subject string   `json:"subject"`        // such as "response to tools/call greet"
	Problem string   `json:"problem"`        // Missing, Unexpected or Different
	Changes []Change `json:"changes,omitempty"`
	Message string   `json:"message,omitempty"` // that is missing or unexpected
}

// The problems of a Difference.
const (
	Missing    = "missing"
	Unexpected = "unexpected"
	Different  = "different"
)

// ErrWire means that a recording has another transport than the server, or several.
var ErrWire = errors.New("the recording must have the transport of the server")

// peer is the connection to the server.
type peer interface {
	// send sends a message or request of the recording. It does not wait for the answer. The error ends the replay.
	send(e *recording.Entry) (sent bool, err error)
	// endStream ends an exchange that has ended in the recording.
	endStream(e *recording.Entry)
	close()
}

// replayer replays one recording. Its methods run in one goroutine; received has what the server sends.
type replayer struct {
	options  Options
	report   Report
	received chan received
	pending  map[int64][]received      // by exchange, in the order of arrival
	ended    map[int64]bool            // exchanges without further messages of the server
	closed   map[int64]bool            // exchanges that the client has ended
	streams  map[int64]bool            // exchanges that a GET request has begun
	late     map[int64]bool            // exchanges with a message that was missing
	subjects map[string]string         // of requests of the client, by exchange and id
	serverID map[string]jsontext.Value // of requests of the server, by their recorded ids
	values   map[string]string         // chosen by the server: recorded value to replayed value
	notified map[string]int            // by changeKey: how many requests were sent before the last notification
}

// received is something that the server has sent.
type received struct {
	exchange int64
	head     *recording.Response // of HTTP
	id       string              // of an event
	endpoint string              // of HTTP+SSE
	message  *message
	end      bool
}

// ToCommand replays a recording to a program.
func ToCommand(ctx context.Context, entries []recording.Entry, command transport.CommandOptions,
	o Options) (*Report, error) {
	r, err := newReplayer(recording.Stdio, entries, o)
	if err != nil {
		return nil, err
	}
	return r.run(ctx, entries, newStdioPeer(ctx, r, command))
}

// ToURL replays a recording to a URL. recorded is the URL of the server in the recording.
func ToURL(ctx context.Context, recorded string, entries []recording.Entry, target string, o Options) (*Report, error) {
	r, err := newReplayer(recording.HTTP, entries, o)
	if err != nil {
		return nil, err
	}
	p, err := newHTTPPeer(ctx, r, recorded, target)
	if err != nil {
		return nil, err
	}
	return r.run(ctx, withinSessions(entries), p)
}

// withinSessions returns the entries without the requests that end sessions, and those whose session was not found: a
// client can send them while it waits for other responses, so what the server answers then depends on time.
func withinSessions(entries []recording.Entry) []recording.Entry {
	ended, named := make(map[int64]bool), make(map[int64]bool)
	for _, e := range entries {
		switch {
		case e.Request != nil:
			named[e.Exchange] = e.Request.Header.Get("Mcp-Session-Id") != ""
			ended[e.Exchange] = e.Request.Method == http.MethodDelete
		case e.Response != nil && e.Response.Status == http.StatusNotFound && named[e.Exchange]:
			ended[e.Exchange] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(entries), func(e recording.Entry) bool { return ended[e.Exchange] })
}

// newReplayer checks that the entries can be replayed over a transport.
func newReplayer(wire recording.Wire, entries []recording.Entry, o Options) (*replayer, error) {
	for _, e := range entries {
		if e.Wire != wire {
			return nil, fmt.Errorf("%w: line %d is %s, and the server has %s; parley bridge translates between them",
				ErrWire, e.Line, e.Wire, wire)
		}
		if e.Truncated && e.From == recording.Client {
			return nil, fmt.Errorf("line %d: the message is incomplete, because it was longer than %d bytes", e.Line,
				recording.MaxMessage)
		}
	}
	if o.Timeout <= 0 {
		o.Timeout = 30 * time.Second
	}
	r := &replayer{
		options: o, received: make(chan received, 64), pending: make(map[int64][]received), ended: make(map[int64]bool),
		closed: make(map[int64]bool), streams: make(map[int64]bool), late: make(map[int64]bool),
		subjects: make(map[string]string), serverID: make(map[string]jsontext.Value), values: make(map[string]string),
		notified: make(map[string]int),
	}
	r.report.Differences = []Difference{}
	return r, nil
}

// run sends the messages of the client to p, and compares what the server sends. It closes p.
func (r *replayer) run(ctx context.Context, entries []recording.Entry, p peer) (*Report, error) {
	defer p.close()
	start := time.Now()
	for i := range entries {
		e := &entries[i]
		if r.options.Pace && e.From == recording.Client {
			wait(ctx, time.Until(start.Add(e.Time.Sub(entries[0].Time))))
		}
		switch {
		case e.From == recording.Server:
			r.expect(ctx, e)
		case !e.End:
			if err := r.send(p, e); err != nil {
				return nil, fmt.Errorf("line %d: %w", e.Line, err)
			}
		}
		if e.End && (e.From == recording.Client || r.streams[e.Exchange]) {
			p.endStream(e)
			r.closed[e.Exchange] = e.Exchange > 0
			r.ended[e.Exchange] = e.Exchange > 0
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	r.unexpected()
	return &r.report, nil
}

// wait waits for a time, or until ctx is done.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (r *replayer) send(p peer, e *recording.Entry) error {
	m := parse(e.Message)
	if m.isResponse() && r.serverID[string(m.ID)] == nil {
		r.ended[e.Exchange] = true
		return nil // to a request that the server has not sent again
	}
	r.streams[e.Exchange] = e.Request != nil && e.Request.Method == http.MethodGet
	sent, err := p.send(e)
	if err != nil || !sent {
		r.report.Skipped++
		r.ended[e.Exchange] = true
		return err
	}
	if m.isRequest() {
		r.report.Requests++
		r.subjects[requestKey(e.Exchange, m.ID)] = m.String()
	} else if e.Request != nil && len(e.Message) == 0 {
		r.subjects[requestKey(e.Exchange, nil)] = e.Request.Method
	} else if m.Method != "" {
		r.subjects[requestKey(e.Exchange, nil)] = m.String()
	}
	return nil
}

func requestKey(exchange int64, id jsontext.Value) string { return fmt.Sprintf("%d %s", exchange, id) }

// changeKey returns the key of a notification of a change.
func changeKey(exchange int64, m *message) string { return fmt.Sprintf("%d %s", exchange, m) }

// outgoing returns a message of the client with the values that the server has chosen in this replay.
func (r *replayer) outgoing(e *recording.Entry) []byte {
	m := parse(e.Message)
	return recording.Edit(e.Message, func(place jsontext.Pointer, value string) ([]byte, bool) {
		if place == "/id" && m.isResponse() {
			id, ok := r.serverID[string(m.ID)]
			return id, ok
		}
		switch place.LastToken() {
		case "cursor", "requestState", "taskId", "elicitationId":
			if replayed, ok := r.values[value]; ok {
				quoted, err := jsontext.AppendQuote(nil, replayed)
				return quoted, err == nil
			}
		}
		return nil, false
	})
}

// expect waits for what the server has sent in the recording, and compares it.
func (r *replayer) expect(ctx context.Context, e *recording.Entry) {
	if e.Response != nil {
		if got, ok := r.await(ctx, e.Exchange, func(g *received) bool { return g.head != nil }); ok {
			r.compareHeads(e, got.head)
		} else {
			r.missing(e, "HTTP response to "+r.subjectOf(e.Exchange, nil), "")
		}
	}
	if e.Stream != nil && e.Stream.Name == "endpoint" {
		if got, ok := r.await(ctx, e.Exchange, func(g *received) bool { return g.endpoint != "" }); ok {
			r.values[string(e.Message)] = got.endpoint
		} else {
			r.missing(e, "endpoint event", "")
		}
	} else if len(e.Message) > 0 && !e.Truncated && !parse(e.Message).isPing() {
		recorded := parse(e.Message)
		subject := recorded.String()
		if recorded.isResponse() {
			subject = "response to " + r.subjectOf(e.Exchange, recorded.ID)
		}
		if requests, ok := r.notified[changeKey(e.Exchange, recorded)]; ok && recorded.isChange() &&
			requests == r.report.Requests {
			return // the server may have merged it with the one before
		}
		got, ok := r.await(ctx, e.Exchange, func(g *received) bool {
			return g.message != nil && g.message.matches(recorded)
		})
		if !ok {
			r.missing(e, subject, string(e.Message))
		} else {
			if recorded.isChange() {
				r.notified[changeKey(e.Exchange, recorded)] = r.report.Requests
			}
			r.compareMessages(e, subject, recorded, got)
		}
	} else if e.Stream != nil && len(e.Message) == 0 {
		if got, ok := r.await(ctx, e.Exchange,
			func(g *received) bool { return g.head == nil && g.message == nil && g.endpoint == "" && !g.end }); ok &&
			e.Stream.ID != "" {
			r.values[e.Stream.ID] = got.id
		} else if !ok {
			r.missing(e, "event "+e.Stream.Name, "")
		}
	}
	if e.End && e.Wire == recording.HTTP && !r.streams[e.Exchange] { // time or the end of its session ends a stream
		if _, ok := r.await(ctx, e.Exchange, func(g *received) bool { return g.end }); !ok {
			r.missing(e, "end of the response to "+r.subjectOf(e.Exchange, nil), e.Error)
		}
		r.ended[e.Exchange] = true
	}
}

// await waits for something that the server sends on an exchange, and removes it from what is pending. After a
// time-out, the next ones of the exchange are a tenth.
func (r *replayer) await(ctx context.Context, exchange int64, match func(*received) bool) (received, bool) {
	for i, got := range r.pending[exchange] {
		if match(&got) {
			r.pending[exchange] = slices.Delete(r.pending[exchange], i, i+1)
			return got, true
		}
	}
	if r.ended[exchange] || slices.ContainsFunc(r.pending[exchange], func(g received) bool { return g.end }) {
		return received{}, false
	}
	limit := r.options.Timeout
	if r.late[exchange] {
		limit /= 10
	}
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	for {
		select {
		case got := <-r.received:
			if got.exchange == exchange && match(&got) {
				return got, true
			}
			r.pending[got.exchange] = append(r.pending[got.exchange], got)
			if got.exchange == exchange && got.end {
				return received{}, false
			}
		case <-timeout.C:
			r.late[exchange] = true
			return received{}, false
		case <-ctx.Done():
			return received{}, false
		}
	}
}

func (r *replayer) compareHeads(e *recording.Entry, got *recording.Response) {
	var changes []Change
	if e.Response.Status != got.Status {
		changes = append(changes, Change{"status", fmt.Sprint(e.Response.Status), fmt.Sprint(got.Status)})
	}
	for _, name := range []string{"Content-Type", "Mcp-Session-Id"} {
		recorded, replayed := e.Response.Header.Get(name), got.Header.Get(name)
		if name == "Mcp-Session-Id" && recorded != "" && replayed != "" {
			r.values[recorded] = replayed
			continue
		}
		if !strings.EqualFold(recorded, replayed) {
			changes = append(changes, Change{name, recorded, replayed})
		}
	}
	if len(changes) > 0 {
		r.differs(Difference{Line: e.Line, Subject: "HTTP response to " + r.subjectOf(e.Exchange, nil),
			Problem: Different, Changes: changes})
	}
}

func (r *replayer) compareMessages(e *recording.Entry, subject string, recorded *message, got received) {
	if e.Stream != nil && e.Stream.ID != "" {
		r.values[e.Stream.ID] = got.id
	}
	if recorded.invalid {
		if string(recorded.raw) != string(got.message.raw) {
			r.differs(Difference{Line: e.Line, Subject: subject, Problem: Different,
				Changes: []Change{{"", string(recorded.raw), string(got.message.raw)}}})
		}
		return
	}
	ignore := r.options.Ignore
	if recorded.isRequest() { // the server chooses the ids of its requests
		r.serverID[string(recorded.ID)] = got.message.ID
		ignore = append(slices.Clone(ignore), []string{"id"})
	}
	if recorded.Method == "notifications/cancelled" {
		ignore = append(slices.Clone(ignore), []string{"params", "requestId"})
	}
	changes := compare(recorded.raw, got.message.raw, ignore,
		func(recorded, replayed string) { r.values[recorded] = replayed })
	if len(changes) > 0 {
		r.differs(Difference{Line: e.Line, Subject: subject, Problem: Different, Changes: changes})
	}
}

func (r *replayer) missing(e *recording.Entry, subject, message string) {
	r.differs(Difference{Line: e.Line, Subject: subject, Problem: Missing, Message: message})
}

func (r *replayer) differs(d Difference) { r.report.Differences = append(r.report.Differences, d) }

// unexpected reports the messages that the recording does not have. Those that a stream sends after the client
// has closed it do not count.
func (r *replayer) unexpected() {
	for {
		select {
		case got := <-r.received:
			r.pending[got.exchange] = append(r.pending[got.exchange], got)
			continue
		default:
		}
		break
	}
	for _, exchange := range slices.Sorted(maps.Keys(r.pending)) {
		for _, got := range r.pending[exchange] {
			if got.message == nil || r.closed[exchange] || got.message.isPing() {
				continue
			}
			if _, ok := r.notified[changeKey(exchange, got.message)]; ok { // the recorded server has merged them
				continue
			}
			subject := got.message.String()
			if got.message.isResponse() {
				subject = "response to " + r.subjectOf(exchange, got.message.ID)
			}
			r.differs(Difference{Subject: subject, Problem: Unexpected, Message: string(got.message.raw)})
		}
	}
}

// subjectOf describes the request of an exchange, or the one with an id.
func (r *replayer) subjectOf(exchange int64, id jsontext.Value) string {
	if subject := r.subjects[requestKey(exchange, id)]; subject != "" {
		return subject
	}
	for key, subject := range r.subjects { // a stream can have the response to a request of another exchange
		number, other, _ := strings.Cut(key, " ")
		if id != nil && other == string(id) || id == nil && number == fmt.Sprint(exchange) {
			return subject
		}
	}
	return "a request"
}

// trace calls the function of the options.
func (r *replayer) trace(sent bool, message []byte) {
	if r.options.Trace != nil && len(message) > 0 {
		r.options.Trace(sent, message)
	}
}
