package wiretest

import (
	"fmt"
	"slices"
	"strings"
)

// Readers behave like the readers of event streams in the clients of other SDKs, as of August 2026 and in earlier
// versions still in use. None follows the HTML standard in every respect:
//
//	reader                     what it does not read, or reads in another way    what our streams do about it
//	-------------------------  ------------------------------------------------  ------------------------------------
//	Java SDK 0.7 to 2.0        HTTP+SSE: an event without a name ends the        name each message
//	                           stream; a name applies to later events
//	Java SDK before 2.0.1,      GET stream: an event without a name is skipped    name each message
//	Spring AI 1.0
//	Java SDK 0.11 to 2.0       a line other than data, id, event and a comment   retry only before the server closes
//	                           ends the stream: so does retry                    the connection
//	Java SDK 0.11 to 2.0       each empty line that ends no event uses up one    comments have no empty line
//	                           of 256 places: then the stream is silent
//	Java SDK 0.7 to 2.0        the value of data ends at U+0085, U+2028, U+2029  these are escaped in messages
//	Java SDK 0.17              "data: " is a message with no text: an error      "data:", which it ignores
//	Python SDK with httpx-sse  U+0085, U+2028 and U+2029 end a line              these are escaped in messages
//	before 0.4.2
//	Python SDK before 1.23     after the first id, an empty line without a       comments have no empty line
//	                           field is a message with no text: an error
//	TypeScript SDK             events of other names are skipped                 no other names but endpoint
//	(eventsource-parser)
//	C# SDK (SseParser)         HTTP+SSE: events of other names are skipped       no other names but endpoint
//	Rust SDK (sse-stream)      a line without a colon, an unknown field, and a   each line is a field with a colon, at
//	                           second id, event or retry of one event end the    most once, or a comment
//	                           stream; so does a retry that is not a number
//	Kotlin SDK (responses)     data lines are joined without a line break, and   line breaks are between tokens only
//	                           without the spaces around them
//	Go SDK                     a line without a colon ends the stream; HTTP+SSE: names, and no events without data
//	                           every event is a message                          in 2024-11-05
//
// server.TestEventStreamsAreReadByOtherSDKs passes the streams of all revisions to all readers, and
// TestReadersRejectWhatOtherSDKsReject shows the first two columns.
var Readers = []Reader{
	{Name: "Java SDK, HTTP+SSE", Pair: true, named: required, keepsName: true, strictFields: true, noRetry: true,
		cutsData: true, trims: true, places: 256, skipsBareData: true},
	{Name: "Java SDK, GET stream", Session: true, named: skipped, keepsName: true, strictFields: true, noRetry: true,
		cutsData: true, trims: true, places: 256, skipsBareData: true},
	{Name: "Java SDK 0.17, response", Session: true, keepsName: true, anyName: true, strictFields: true, noRetry: true,
		cutsData: true, trims: true, places: 256, skipsBareData: true, noEmptyData: true},
	{Name: "Spring AI 1.0", Session: true, Modern: true, named: skipped},
	{Name: "Python SDK 1.22, httpx-sse 0.4.0", Pair: true, Session: true, Newest: "2025-06-18", splitsLines: true,
		keepsID: true, noEmptyData: true},
	{Name: "Python SDK, httpx-sse 0.4.0", Pair: true, Session: true, Modern: true, splitsLines: true, keepsID: true},
	{Name: "TypeScript SDK", Pair: true, Session: true, Modern: true},
	{Name: "C# SDK", Pair: true, Session: true, Modern: true},
	{Name: "Rust SDK", Session: true, Modern: true, strictFields: true, colons: true, once: true},
	{Name: "Kotlin SDK, response", Session: true, Modern: true, trims: true, joinsLines: true},
	{Name: "Go SDK", Session: true, Modern: true, colons: true, trims: true},
	{Name: "Go SDK, HTTP+SSE", Pair: true, colons: true, trims: true, anyName: true, noEmptyData: true},
}

// Reader is the reader of one SDK.
type Reader struct {
	Name                  string
	Pair, Session, Modern bool   // which streams it reads: HTTP+SSE, in a session, of 2026-07-28
	Newest                string // newest revision with sessions that its clients offer; "": all

	named         naming
	anyName       bool // the name does not matter
	keepsName     bool // a name applies to the events that follow, too
	keepsID       bool // after an event with an ID, an empty line ends an event even without fields
	strictFields  bool // an unknown field is an error
	noRetry       bool // retry is an unknown field
	colons        bool // a line without a colon is an error
	once          bool // a second ID or name in one event is an error
	cutsData      bool // a data line ends at U+0085, U+2028 or U+2029
	splitsLines   bool // these characters end any line
	trims         bool // spaces around a value are removed
	joinsLines    bool // data lines are joined without a line break
	skipsBareData bool // a data field without a value, and without a space, is skipped
	noEmptyData   bool // an event without data is an error
	places        int  // empty lines without an event until the stream is silent; 0: no limit
}

// naming says what a reader does with a message without an event name.
type naming int

const (
	optional naming = iota // reads it
	skipped                // does not read it
	required               // fails
)

// Messages returns the messages that the reader finds in a stream, and its error.
func (r *Reader) Messages(stream string) (all []string, err error) {
	var e readerEvent
	places := r.places
	for _, line := range r.lines(stream) {
		if line != "" {
			if err := e.field(r, line); err != nil {
				return all, err
			}
			continue
		}
		if e.data == nil && (!r.keepsID || e.id == "") {
			if places--; places == 0 {
				return all, fmt.Errorf("%s: receives no more events after %d empty lines", r.Name, r.places)
			}
		} else if message, err := e.message(r); err != nil {
			return all, err
		} else if message != "" {
			all = append(all, message)
		}
		e = e.next(r)
	}
	return all, nil
}

func (r *Reader) lines(stream string) []string {
	breaks := []string{"\r\n", "\n", "\r", "\n"}
	if r.splitsLines {
		for _, c := range separators {
			breaks = append(breaks, c, "\n")
		}
	}
	lines := strings.Split(strings.NewReplacer(breaks...).Replace(stream), "\n")
	return lines[:len(lines)-1] // the last line is not complete
}

var separators = []string{"\u0085", "\u2028", "\u2029"}

// readerEvent is the event that a reader is reading.
type readerEvent struct {
	name, id string
	data     []string // nil: no data line
	seen     []string // fields
}

func (e *readerEvent) field(r *Reader, line string) error {
	name, value, colon := strings.Cut(line, ":")
	switch {
	case colon && name == "":
		return nil // a comment
	case !colon && r.colons:
		return fmt.Errorf("%s: %q has no colon", r.Name, line)
	case r.once && name != "data" && slices.Contains(e.seen, name):
		return fmt.Errorf("%s: second field %q", r.Name, name)
	}
	e.seen = append(e.seen, name)
	bare := value == ""
	if value = strings.TrimPrefix(value, " "); r.trims {
		value = strings.TrimSpace(value)
	}
	switch {
	case name == "data" && bare && r.skipsBareData:
	case name == "data":
		for _, c := range separators {
			if r.cutsData {
				value, _, _ = strings.Cut(value, c)
			}
		}
		e.data = append(e.data, value)
	case name == "event":
		e.name = value
	case name == "id":
		e.id = value
	case name == "retry" && !r.noRetry:
	case r.strictFields:
		return fmt.Errorf("%s: unknown field %q", r.Name, name)
	}
	return nil
}

// message returns the message of the event, or "" if there is none.
func (e *readerEvent) message(r *Reader) (string, error) {
	separator := "\n"
	if r.joinsLines {
		separator = ""
	}
	data := strings.Join(e.data, separator)
	switch {
	case e.name == "endpoint" && slices.Contains(e.seen, "event"):
		return "", nil
	case e.name != "message" && r.named == required:
		return "", fmt.Errorf("%s: event with the name %q: %s", r.Name, e.name, data)
	case e.name != "message" && r.named == skipped, e.name != "message" && e.name != "" && !r.anyName:
		return "", nil
	case data == "" && r.noEmptyData:
		return "", fmt.Errorf("%s: an event without a message", r.Name)
	}
	return data, nil
}

// next returns the beginning of the event that follows.
func (e *readerEvent) next(r *Reader) (next readerEvent) {
	if r.keepsName {
		next.name = e.name
	}
	if r.keepsID {
		next.id = e.id
	}
	return next
}
