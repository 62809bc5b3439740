package traffic

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sort"
	"strings"
	"time"
	"unicode/utf8"
)

// ErrNoHTTP means that a recording has no HTTP traffic, which is all that a HAR file can contain.
var ErrNoHTTP = errors.New("the recording has no HTTP traffic")

// WriteHAR writes the HTTP traffic of a recording as a HTTP Archive (HAR 1.2), which browsers and other tools
// read. The events of an event stream become the text of its response.
func WriteHAR(w io.Writer, h Header, entries []Entry) error {
	name, version, _ := strings.Cut(h.Program, " ")
	doc := har{Log: harLog{Version: "1.2", Creator: harCreator{name, version}, Entries: []*harEntry{}}}
	exchanges := make(map[exchangeKey]*harEntry)
	for _, e := range entries {
		if e.Wire != HTTP {
			continue
		}
		key := exchangeKey{e.Peer, e.Exchange}
		x := exchanges[key]
		if x == nil {
			if e.Request == nil {
				continue // the recording began later
			}
			x = newHAREntry(&e.Event)
			exchanges[key] = x
			doc.Log.Entries = append(doc.Log.Entries, x)
		}
		x.add(&e.Event)
	}
	if len(doc.Log.Entries) == 0 {
		return ErrNoHTTP
	}
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	out.SetIndent("", " ")
	return out.Encode(doc)
}

// exchangeKey identifies an exchange in a recording of several servers.
type exchangeKey struct {
	peer   string
	number int64
}

type har struct {
	Log harLog `json:"log"`
}

type harLog struct {
	Version string      `json:"version"`
	Creator harCreator  `json:"creator"`
	Entries []*harEntry `json:"entries"`
}

type harCreator struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

type harEntry struct {
	Started  time.Time   `json:"startedDateTime"`
	Time     float64     `json:"time"` // in milliseconds
	Request  harRequest  `json:"request"`
	Response harResponse `json:"response"`
	Cache    struct{}    `json:"cache"`
	Timings  harTimings  `json:"timings"`
	Comment  string      `json:"comment,omitempty"`
}

type harTimings struct {
	Send    float64 `json:"send"`
	Wait    float64 `json:"wait"`
	Receive float64 `json:"receive"`
}

type harRequest struct {
	Method      string    `json:"method"`
	URL         string    `json:"url"`
	HTTPVersion string    `json:"httpVersion"`
	Cookies     []harPair `json:"cookies"`
	Headers     []harPair `json:"headers"`
	Query       []harPair `json:"queryString"`
	Body        *harBody  `json:"postData,omitempty"`
	HeadersSize int       `json:"headersSize"` // -1: unknown
	BodySize    int       `json:"bodySize"`
}

type harBody struct {
	Type string `json:"mimeType"`
	Text string `json:"text"`
}

type harResponse struct {
	Status      int        `json:"status"` // 0: no response
	StatusText  string     `json:"statusText"`
	HTTPVersion string     `json:"httpVersion"`
	Cookies     []harPair  `json:"cookies"`
	Headers     []harPair  `json:"headers"`
	Content     harContent `json:"content"`
	Redirect    string     `json:"redirectURL"`
	HeadersSize int        `json:"headersSize"`
	BodySize    int        `json:"bodySize"`
}

type harContent struct {
	Size     int    `json:"size"`
	Type     string `json:"mimeType"`
	Text     string `json:"text,omitempty"`
	Encoding string `json:"encoding,omitempty"`
}

type harPair struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func newHAREntry(e *Event) *harEntry {
	return &harEntry{
		Started: e.Time,
		Request: harRequest{HTTPVersion: "HTTP/1.1", Cookies: []harPair{}, Headers: []harPair{}, Query: []harPair{},
			HeadersSize: -1},
		Response: harResponse{HTTPVersion: "HTTP/1.1", Cookies: []harPair{}, Headers: []harPair{}, HeadersSize: -1},
	}
}

// add adds an event of the exchange.
func (x *harEntry) add(e *Event) {
	elapsed := float64(e.Time.Sub(x.Started)) / float64(time.Millisecond)
	x.Time = max(x.Time, elapsed)
	if e.Error != "" {
		x.Comment = e.Error
	}
	if e.Request != nil {
		x.Request.Method, x.Request.URL = e.Request.Method, e.Request.URL
		x.Request.Headers = pairs(e.Request.Header)
		if u, err := url.Parse(e.Request.URL); err == nil {
			x.Request.Query = pairs(u.Query())
		}
		if x.Request.BodySize = len(e.Message); len(e.Message) > 0 {
			x.Request.Body = &harBody{e.Request.Header.Get("Content-Type"), string(e.Message)}
		}
		return
	}
	content := &x.Response.Content
	if e.Response != nil {
		x.Timings.Wait = elapsed
		x.Response.Status, x.Response.StatusText = e.Response.Status, http.StatusText(e.Response.Status)
		x.Response.Headers, x.Response.Redirect = pairs(e.Response.Header), e.Response.Header.Get("Location")
		content.Type = e.Response.Header.Get("Content-Type")
	}
	x.Timings.Receive = max(0, x.Time-x.Timings.Wait)
	switch {
	case e.Stream != nil:
		content.Text += e.text()
	case utf8.Valid(e.Message):
		content.Text += string(e.Message)
	default:
		content.Text, content.Encoding = base64.StdEncoding.EncodeToString(e.Message), "base64"
	}
	content.Size += len(e.Message)
	x.Response.BodySize = content.Size
}

// text returns an event as its stream has it.
func (e *Event) text() string {
	var b strings.Builder
	for _, f := range []harPair{{"id", e.Stream.ID}, {"event", e.Stream.Name}, {"retry", e.Stream.Retry}} {
		if f.Value != "" {
			b.WriteString(f.Name + ": " + f.Value + "\n")
		}
	}
	if len(e.Message) > 0 {
		b.WriteString("data: " + strings.ReplaceAll(string(e.Message), "\n", "\ndata: ") + "\n")
	}
	return b.String() + "\n"
}

// pairs returns the values of a header or query, sorted by name.
func pairs(values map[string][]string) []harPair {
	out := []harPair{}
	for name, list := range values {
		for _, value := range list {
			out = append(out, harPair{name, value})
		}
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}
