package gateway_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
)

// equalIDs gives a server ids that other servers have, too: it replaces the ids of tasks and sessions, the cursors and the
// request states of a server by counted ones of the same length, and those in requests by the ones of the server.
type equalIDs struct {
	server http.Handler

	mu     sync.Mutex
	counts map[string]int    // by kind and length
	ours   map[string]string // by that of the server
	theirs map[string]string // by ours
}

var (
	// idsOfServer match the members with ids in the messages of a server.
	idsOfServer = regexp.MustCompile(`"(taskId|nextCursor|requestState)":"([^"]{20,})"`)
	// countedIDs match the ids that replace them.
	countedIDs = regexp.MustCompile(`(TASK|NEXT|REQU|SESS)[0-9]{16,}`)
)

// counted returns the id that replaces one of a kind.
func (e *equalIDs) counted(kind, id string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if known, ok := e.ours[id]; ok {
		return known
	}
	if e.counts == nil {
		e.counts, e.ours, e.theirs = make(map[string]int), make(map[string]string), make(map[string]string)
	}
	prefix := strings.ToUpper(kind[:4])
	group := fmt.Sprint(prefix, len(id))
	e.counts[group]++
	own := fmt.Sprintf("%s%0*d", prefix, len(id)-len(prefix), e.counts[group])
	e.ours[id], e.theirs[own] = own, id
	return own
}

// issued returns the number of ids of a kind.
func (e *equalIDs) issued(prefix string) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for group, count := range e.counts {
		if strings.HasPrefix(group, prefix) {
			n += count
		}
	}
	return n
}

// restored returns the text of a request with the ids of the server.
func (e *equalIDs) restored(text []byte) []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	return countedIDs.ReplaceAllFunc(text, func(id []byte) []byte {
		if own, ok := e.theirs[string(id)]; ok {
			return []byte(own)
		}
		return id
	})
}

func (e *equalIDs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	body = e.restored(body)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	for _, values := range r.Header {
		for i := range values {
			values[i] = string(e.restored([]byte(values[i])))
		}
	}
	e.server.ServeHTTP(&equalWriter{ResponseWriter: w, ids: e}, r)
}

// equalWriter replaces the ids in a response.
type equalWriter struct {
	http.ResponseWriter
	ids   *equalIDs
	began bool
}

// Unwrap serves http.ResponseController.
func (w *equalWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *equalWriter) WriteHeader(status int) {
	w.began = true
	if id := w.Header().Get("Mcp-Session-Id"); id != "" && !countedIDs.MatchString(id) {
		w.Header().Set("Mcp-Session-Id", w.ids.counted("session", id))
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *equalWriter) Write(p []byte) (int, error) {
	if !w.began {
		w.WriteHeader(http.StatusOK)
	}
	replaced := idsOfServer.ReplaceAllFunc(p, func(member []byte) []byte {
		parts := idsOfServer.FindSubmatch(member)
		return fmt.Appendf(nil, `"%s":"%s"`, parts[1], w.ids.counted(string(parts[1]), string(parts[2])))
	})
	if _, err := w.ResponseWriter.Write(replaced); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (w *equalWriter) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }
