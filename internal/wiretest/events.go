package wiretest

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
)

// Event is an event of an event stream.
type Event struct{ ID, Name, Retry, Data string }

// Seq returns the number of the event in its stream, which follows the last dot of the ID.
func (e Event) Seq() string { return e.ID[strings.LastIndexByte(e.ID, '.')+1:] }

// Events reads an event stream. It accepts what servers of this library write, and ignores comments.
type Events struct {
	scan *bufio.Scanner
	body io.Reader
}

// ReadEvents returns a reader of an event stream.
func ReadEvents(r io.Reader) *Events {
	e := &Events{bufio.NewScanner(r), r}
	e.scan.Buffer(nil, 64<<20)
	return e
}

// Stream returns a reader of the events of a response, and fails the test if the response is not an event
// stream.
func Stream(t testing.TB, resp *http.Response) *Events {
	t.Helper()
	if kind := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || kind != "text/event-stream" {
		t.Fatalf("no event stream: %s %s %s", resp.Status, kind, Text(t, resp))
	}
	return ReadEvents(resp.Body)
}

// Close closes the stream, if it can be closed.
func (e *Events) Close() {
	if c, ok := e.body.(io.Closer); ok {
		c.Close()
	}
}

// Next returns the next event. A priming event has an ID but no data. ok is false at the end of the stream; an
// incomplete event at the end is dropped.
func (e *Events) Next() (event Event, ok bool) {
	for e.scan.Scan() {
		field, value, _ := strings.Cut(e.scan.Text(), ": ")
		switch strings.TrimSuffix(field, ":") {
		case "id":
			event.ID = value
		case "event":
			event.Name = value
		case "retry":
			event.Retry = value
		case "data":
			event.Data += value
		case "":
			if field == "" && event != (Event{}) {
				return event, true
			}
		}
	}
	return Event{}, false
}

// Data returns the data of the next event with data, or "" at the end of the stream.
func (e *Events) Data() string {
	for {
		event, ok := e.Next()
		if !ok || event.Data != "" {
			return event.Data
		}
	}
}

// Until returns the first event whose data contains text. It fails the test if the stream ends first.
func (e *Events) Until(t testing.TB, text string) Event {
	t.Helper()
	for {
		switch event, ok := e.Next(); {
		case !ok:
			t.Fatalf("the stream ends before an event with %s: %v", text, e.scan.Err())
		case strings.Contains(event.Data, text):
			return event
		}
	}
}

// Take returns the next n events, fewer if the stream ends first, or all if n is negative.
func (e *Events) Take(n int) (all []Event) {
	for n < 0 || len(all) < n {
		event, ok := e.Next()
		if !ok {
			break
		}
		all = append(all, event)
	}
	return all
}

// Ends fails the test if another event with data follows.
func (e *Events) Ends(t testing.TB) {
	t.Helper()
	if data := e.Data(); data != "" {
		t.Errorf("the stream goes on with %s", data)
	}
}
