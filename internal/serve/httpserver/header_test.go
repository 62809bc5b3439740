package httpserver

import (
	"net/http"
	"testing"
)

func TestAcceptHeaderFollowsRFC9110(t *testing.T) {
	for accept, want := range map[string]struct{ json, stream bool }{
		"application/json, text/event-stream": {true, true},
		"text/event-stream":                   {false, true},
		"application/json":                    {true, false},
		"*/*":                                 {true, true},
		"text/*":                              {false, true},
		"APPLICATION/JSON;q=0.9 , Text/Event-Stream": {true, true},
		"application/json;q=0, */*;q=0.1":            {true, true}, // by range: accepts does not compare qualities
		"text/event-stream;q=0":                      {false, false},
		"text/event-stream; q=0.000":                 {false, false},
		"text/html":                                  {false, false},
		"":                                           {false, false},
		"application/jsonx":                          {false, false},
	} {
		h := http.Header{"Accept": {accept}}
		if got := accepts(h, "application/json"); got != want.json {
			t.Errorf("%q accepts JSON: %v", accept, got)
		}
		if got := accepts(h, "text/event-stream"); got != want.stream {
			t.Errorf("%q accepts event streams: %v", accept, got)
		}
	}
	if h := (http.Header{}); !accepts(h, "application/json") || !accepts(h, "text/event-stream") {
		t.Error("without the header, a media type is not accepted")
	}
	if h := (http.Header{"Accept": {"application/json", "text/event-stream"}}); !accepts(h, "text/event-stream") {
		t.Error("the second of two headers is ignored")
	}
}
