// Package replay sends the requests of a recording to a server again, and reports how the messages of the server
// differ from the recorded ones.
package replay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/cmd/parley/internal/traffic"
	"github.com/parley-mcp/parley/mcp"
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
	// HTTP sends the requests; nil means a client of its own.
	HTTP *http.Client
	// Sent and Received are called with each message; may be nil.
	Sent, Received func(message []byte)
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

// ErrWire means that a recording has several transports.
var ErrWire = errors.New("the recording has several servers with different transports")

// peer is the connection to the server.
type peer interface {
	// send sends a message or request of the recording. It does not wait for the answer. The error ends the replay.
	send(e *traffic.Entry) (sent bool, err error)
	// endStream ends what the recorded client has ended.
	endStream(e *traffic.Entry)
	close()
}

// replayer replays one recording. Its methods run in one goroutine; received has what the server sends.
type replayer struct {
	options  Options
	across   bool // the recording has another transport than the server
	report   Report
	received chan received
	pending  map[int64][]received      // by exchange, in the order of arrival
	ended    map[int64]bool            // exchanges without further messages of the server
	closed   map[int64]bool            // exchanges that the client has ended
	late     map[int64]bool            // exchanges with a message that was missing
	subjects map[string]string         // of requests of the client, by exchange and id
	serverID map[string]jsontext.Value // of requests of the server, by serverKey
	values   map[string]string         // chosen by the server: recorded value to replayed value

	cancelled map[string]bool // requests that the client has cancelled, by exchange and id
	notified  map[string]int  // by changeKey: how many requests were sent before the last notification
}

// received is something that the server has sent.
type received struct {
	exchange int64
	head     *traffic.Response // of HTTP
	id       string            // of an event
	endpoint string            // of HTTP+SSE
	message  *message
	failed   jsontext.Value // id of a request that has no response because of failure
	failure  string
	end      bool
}

// ToCommand replays a recording to a program. If the recording has a server over HTTP, recorded is its URL, and each
// recorded session has a process of its own.
func ToCommand(ctx context.Context, recorded string, entries []traffic.Entry, command transport.CommandOptions,
	o Options) (*Report, error) {
	r, err := newReplayer(entries, o)
	if err != nil {
		return nil, err
	}
	if r.across = len(entries) > 0 && entries[0].Wire == traffic.HTTP; r.across {
		u, err := recordedURL(recorded)
		if err != nil {
			return nil, err
		}
		entries, r.report.Skipped = onStreams(u, entries)
	}
	return r.run(ctx, entries, newStdioPeer(ctx, r, command))
}

// ToURL replays a recording to a URL. If the recording has a server over HTTP, recorded is its URL.
func ToURL(ctx context.Context, recorded string, entries []traffic.Entry, target string, o Options) (*Report, error) {
	r, err := newReplayer(entries, o)
	if err != nil {
		return nil, err
	}
	if r.across = len(entries) > 0 && entries[0].Wire == traffic.Stdio; r.across {
		return r.run(ctx, entries, newWirePeer(ctx, r, target))
	}
	p, err := newHTTPPeer(ctx, r, recorded, target)
	if err != nil {
		return nil, err
	}
	return r.run(ctx, entries, p)
}

// recordedURL parses the URL of the server in a recording.
func recordedURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("the recording must have the URL of its server in the first line, not %q", text)
	}
	return u, nil
}

// newReplayer checks that the entries can be replayed.
func newReplayer(entries []traffic.Entry, o Options) (*replayer, error) {
	for _, e := range entries {
		if e.Wire != entries[0].Wire {
			return nil, fmt.Errorf("%w: line %d is %s, and earlier lines are %s", ErrWire, e.Line, e.Wire, entries[0].Wire)
		}
		if e.Truncated && e.From == traffic.Client {
			return nil, fmt.Errorf("line %d: the message is incomplete, because it was longer than %d bytes", e.Line,
				traffic.MaxMessage)
		}
	}
	if o.Timeout <= 0 {
		o.Timeout = 30 * time.Second
	}
	r := &replayer{
		options: o, received: make(chan received, 64), pending: make(map[int64][]received), ended: make(map[int64]bool),
		closed: make(map[int64]bool), late: make(map[int64]bool),
		subjects: make(map[string]string), serverID: make(map[string]jsontext.Value), values: make(map[string]string),
		cancelled: make(map[string]bool),
		notified:  make(map[string]int),
	}
	r.report.Differences = []Difference{}
	return r, nil
}

// run sends the messages of the client to p, and compares what the server sends. It closes p.
func (r *replayer) run(ctx context.Context, entries []traffic.Entry, p peer) (*Report, error) {
	defer p.close()
	start := time.Now()
	for _, e := range ordered(entries) {
		if r.options.Pace && e.From == traffic.Client {
			wait(ctx, time.Until(start.Add(e.Time.Sub(entries[0].Time))))
		}
		switch {
		case e.From == traffic.Client && e.End:
			p.endStream(e)
			r.closed[e.Exchange] = e.Exchange > 0
			r.ended[e.Exchange] = e.Exchange > 0
		case e.From == traffic.Client:
			if err := r.send(p, e); err != nil {
				return nil, fmt.Errorf("line %d: %w", e.Line, err)
			}
		default:
			r.expect(ctx, e)
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

func (r *replayer) send(p peer, e *traffic.Entry) error {
	if m := parse(e.Message); m.isResponse() && r.serverID[serverKey(e, m.ID)] == nil {
		r.ended[e.Exchange] = true
		return nil // to a request that the server has not sent again
	}
	sent, err := p.send(e)
	if err != nil || !sent {
		r.report.Skipped++
		r.ended[e.Exchange] = true
		return err
	}
	m := parse(e.Message)
	if r.across && m.Method == mcp.NotificationCancelled {
		r.cancelled[requestKey(e.Exchange, m.Params.RequestID)] = true
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

// serverKey returns the key of a request of the server. Over HTTP, the client answers it on another exchange.
func serverKey(e *traffic.Entry, id jsontext.Value) string {
	if e.Wire == traffic.HTTP {
		return requestKey(0, id)
	}
	return requestKey(e.Exchange, id)
}

// changeKey returns the key of a notification of a change.
func changeKey(exchange int64, m *message) string { return fmt.Sprintf("%d %s", exchange, m) }

// outgoing returns a message of the client with the values that the server has chosen in this replay.
func (r *replayer) outgoing(e *traffic.Entry) []byte {
	m := parse(e.Message)
	return traffic.Edit(e.Message, func(place jsontext.Pointer, value string) ([]byte, bool) {
		if place == "/id" && m.isResponse() {
			id, ok := r.serverID[serverKey(e, m.ID)]
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
func (r *replayer) expect(ctx context.Context, e *traffic.Entry) {
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
		if recorded.isResponse() && r.cancelled[requestKey(e.Exchange, recorded.ID)] {
			return // which transports answer differently
		}
		if requests, ok := r.notified[changeKey(e.Exchange, recorded)]; ok && recorded.isChange() &&
			requests == r.report.Requests {
			return // the server may have merged it with the one before
		}
		got, ok := r.await(ctx, e.Exchange, func(g *received) bool { return g.answers(recorded) })
		switch {
		case !ok:
			r.missing(e, subject, string(e.Message))
		case got.message == nil:
			r.missing(e, subject, got.failure)
		default:
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
	if e.End && e.Wire == traffic.HTTP {
		if _, ok := r.await(ctx, e.Exchange, func(g *received) bool { return g.end }); !ok {
			r.missing(e, "end of the response to "+r.subjectOf(e.Exchange, nil), e.Error)
		}
		r.ended[e.Exchange] = true
	}
}

// answers reports whether the server has sent a recorded message, or will not respond to its request.
func (g *received) answers(recorded *message) bool {
	return g.message != nil && g.message.matches(recorded) || g.failure != "" && recorded.isResponse() &&
		equalID(g.failed, recorded.ID)
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

func (r *replayer) compareHeads(e *traffic.Entry, got *traffic.Response) {
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
		r.report.Differences = append(r.report.Differences,
			Difference{Line: e.Line, Subject: "HTTP response to " + r.subjectOf(e.Exchange, nil), Problem: Different,
				Changes: changes})
	}
}

func (r *replayer) compareMessages(e *traffic.Entry, subject string, recorded *message, got received) {
	if e.Stream != nil && e.Stream.ID != "" {
		r.values[e.Stream.ID] = got.id
	}
	if recorded.invalid {
		if string(recorded.raw) != string(got.message.raw) {
			r.report.Differences = append(r.report.Differences,
				Difference{Line: e.Line, Subject: subject, Problem: Different,
					Changes: []Change{{"", string(recorded.raw), string(got.message.raw)}}})
		}
		return
	}
	ignore := r.options.Ignore
	if recorded.isRequest() { // the server chooses the ids of its requests
		r.serverID[serverKey(e, recorded.ID)] = got.message.ID
		ignore = append(slices.Clone(ignore), []string{"id"})
	}
	if recorded.Method == "notifications/cancelled" {
		ignore = append(slices.Clone(ignore), []string{"params", "requestId"})
	}
	changes := compare(recorded.raw, got.message.raw, ignore,
		func(recorded, replayed string) { r.values[recorded] = replayed })
	if len(changes) > 0 {
		r.report.Differences = append(r.report.Differences,
			Difference{Line: e.Line, Subject: subject, Problem: Different, Changes: changes})
	}
}

func (r *replayer) missing(e *traffic.Entry, subject, message string) {
	r.report.Differences = append(r.report.Differences,
		Difference{Line: e.Line, Subject: subject, Problem: Missing, Message: message})
}

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
			if got.message == nil || r.closed[exchange] || got.message.isPing() || got.message.isResponse() &&
				r.cancelled[requestKey(exchange, got.message.ID)] {
				continue
			}
			if _, ok := r.notified[changeKey(exchange, got.message)]; ok { // the recorded server has merged them
				continue
			}
			subject := got.message.String()
			if got.message.isResponse() {
				subject = "response to " + r.subjectOf(exchange, got.message.ID)
			}
			r.report.Differences = append(r.report.Differences,
				Difference{Subject: subject, Problem: Unexpected, Message: string(got.message.raw)})
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
