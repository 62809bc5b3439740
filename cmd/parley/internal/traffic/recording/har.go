package recording

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
var ErrNoHTTP = errors.New("the recording contains no HTTP traffic")

// WriteHAR writes the HTTP traffic of a recording as a HTTP Archive (HAR 1.2), which browsers and other tools
// read. The events of an event stream become the text of its response.
func WriteHAR(w io.Writer, h Header, entries []Entry) error {
	type key struct { // of an exchange in a recording of several servers
		peer   string
		number int64
	}
	var all []*exchange
	exchanges := make(map[key]*exchange)
	for i := range entries {
		e := &entries[i].Event
		x := exchanges[key{e.Peer, e.Exchange}]
		switch {
		case e.Wire != HTTP:
		case x != nil:
			x.add(e)
		case e.Request != nil: // otherwise the recording began later
			x = &exchange{request: e, comment: e.Error}
			exchanges[key{e.Peer, e.Exchange}] = x
			all = append(all, x)
		}
	}
	if len(all) == 0 {
		return ErrNoHTTP
	}
	var archived []object
	for _, x := range all {
		archived = append(archived, x.archived())
	}
	name, version, _ := strings.Cut(h.Program, " ")
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	out.SetIndent("", " ")
	return out.Encode(object{"log": object{"version": "1.2", "creator": object{"name": name, "version": version},
		"entries": archived}})
}

// object is a JSON object.
type object = map[string]any

// exchange is an HTTP request and its response.
type exchange struct {
	request     *Event
	response    Response // its status is 0 if there is none
	body        []byte
	wait, total time.Duration // until the response, and until its end
	comment     string
}

// add adds an event after the request.
func (x *exchange) add(e *Event) {
	x.total = max(x.total, e.Time.Sub(x.request.Time))
	if e.Error != "" {
		x.comment = e.Error
	}
	if e.Response != nil {
		x.response, x.wait = *e.Response, x.total
	}
	if e.Stream != nil {
		x.body = append(x.body, e.text()...)
	} else {
		x.body = append(x.body, e.Message...)
	}
}

func (x *exchange) archived() object {
	message := func(header http.Header, bodySize int) object {
		return object{"httpVersion": "HTTP/1.1", "cookies": []object{}, "headers": pairs(header), "headersSize": -1,
			"bodySize": bodySize}
	}
	request := message(x.request.Request.Header, len(x.request.Message))
	request["method"], request["url"], request["queryString"] = x.request.Request.Method, x.request.Request.URL,
		[]object{}
	if u, err := url.Parse(x.request.Request.URL); err == nil {
		request["queryString"] = pairs(u.Query())
	}
	if len(x.request.Message) > 0 {
		request["postData"] = object{"mimeType": x.request.Request.Header.Get("Content-Type"),
			"text": string(x.request.Message)}
	}
	content := object{"size": len(x.body), "mimeType": x.response.Header.Get("Content-Type"), "text": string(x.body)}
	if !utf8.Valid(x.body) {
		content["text"], content["encoding"] = base64.StdEncoding.EncodeToString(x.body), "base64"
	}
	response := message(x.response.Header, len(x.body))
	response["status"], response["statusText"] = x.response.Status, http.StatusText(x.response.Status)
	response["content"], response["redirectURL"] = content, x.response.Header.Get("Location")
	return object{
		"startedDateTime": x.request.Time, "time": milliseconds(x.total), "request": request, "response": response,
		"cache":   object{},
		"timings": object{"send": 0, "wait": milliseconds(x.wait), "receive": milliseconds(x.total - x.wait)},
		"comment": x.comment,
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// text returns an event as its stream has it.
func (e *Event) text() string {
	var b strings.Builder
	for _, f := range [][2]string{{"id", e.Stream.ID}, {"event", e.Stream.Name}, {"retry", e.Stream.Retry}} {
		if f[1] != "" {
			b.WriteString(f[0] + ": " + f[1] + "\n")
		}
	}
	if len(e.Message) > 0 {
		b.WriteString("data: " + strings.ReplaceAll(string(e.Message), "\n", "\ndata: ") + "\n")
	}
	return b.String() + "\n"
}

// pairs returns the values of a header or query, sorted by name.
func pairs(values map[string][]string) []object {
	out := []object{}
	for name, list := range values {
		for _, value := range list {
			out = append(out, object{"name": name, "value": value})
		}
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i]["name"].(string) < out[j]["name"].(string) })
	return out
}
