package httpwire

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A poster sends the request that http.Client would send, with the features of the client's
// http.Client.
func TestPosterSendsWhatAnHTTPClientSends(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "seen", Value: "yes"})
		body, _ := io.ReadAll(r.Body)
		user, password, _ := r.BasicAuth()
		_, cookieErr := r.Cookie("seen")
		_, _ = io.WriteString(w, strings.Join([]string{r.Method, r.URL.String(), r.Host, string(body), r.Header.Get("X-Fixed"), user, password}, " "))
		if cookieErr == nil {
			_, _ = io.WriteString(w, " cookie")
		}
	}))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		url    string
		client *http.Client
		want   string
	}{
		"direct":    {server.URL + "/mcp?a=b", &http.Client{}, "POST /mcp?a=b " + host + " body fixed  "},
		"password":  {"http://ada:secret@" + host + "/mcp", &http.Client{}, "POST /mcp " + host + " body fixed ada secret"},
		"cookies":   {server.URL + "/mcp", &http.Client{Jar: jar}, "POST /mcp " + host + " body fixed   cookie"},
		"a timeout": {server.URL + "/mcp", &http.Client{Timeout: time.Minute}, "POST /mcp " + host + " body fixed  "},
	} {
		o := &Options{URL: c.url, Header: http.Header{"x-fixed": {"fixed"}}, HTTP: c.client}
		p, err := newPoster(o, o.newHTTP())
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for range 2 { // the second request has the cookie
			req := p.request(t.Context(), []byte("body"))
			resp, err := p.do(req)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			got = string(body)
			req.URL.Path = "/changed" // an authorizer may do so: the next request has its own URL
			req.Header.Set("X-Fixed", "changed")
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}
