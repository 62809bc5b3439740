package httpserver

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/auth"
)

// A pair ends when the newest token of its requests expires. A stream whose token has no
// expiry ends after an hour.
func TestStreamsEndWhenTheNewestTokenExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{Auth: &auth.ProtectedResource{}}
		with := func(life time.Duration) *http.Request {
			info := &auth.Info{}
			if life > 0 {
				info.Expiry = time.Now().Add(life)
			}
			return (&http.Request{}).WithContext(auth.NewContext(t.Context(), info))
		}
		for _, tc := range []struct {
			tokens []time.Duration
			want   time.Duration
		}{
			{[]time.Duration{time.Minute}, time.Minute},
			{[]time.Duration{time.Minute, 2 * time.Hour, time.Second}, 2 * time.Hour},
			{[]time.Duration{0}, time.Hour},
			{[]time.Duration{time.Minute, 0}, time.Hour},
		} {
			begin := time.Now()
			e := s.expiryOf(with(tc.tokens[0]))
			for _, life := range tc.tokens[1:] {
				e.extend(with(life))
			}
			<-e.expired()
			if got := time.Since(begin); got != tc.want {
				t.Errorf("%v: the stream ended after %v, want %v", tc.tokens, got, tc.want)
			}
			e.stop()
		}
		open := (&Server{}).expiryOf(with(time.Minute))
		open.extend(with(time.Minute))
		if open.expired() != nil {
			t.Error("a stream expires without authorization")
		}
		open.stop()
	})
}

func TestMetadataRequestsAreRecognizedByTheirPath(t *testing.T) {
	for path, want := range map[string]bool{
		"/.well-known/oauth-protected-resource": true, "/.well-known/oauth-protected-resource/": true, "/.well-known/oauth-protected-resource/mcp?x=y": true,
		"/.well-known/oauth-protected-resources": false, "/mcp": false, "/mcp/.well-known/oauth-protected-resource": false,
	} {
		if got := isMetadata(httptest.NewRequest(http.MethodGet, path, nil)); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}
