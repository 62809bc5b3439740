package devissuer

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func register(t *testing.T, i *Issuer, body string) answer {
	t.Helper()
	return post(t, i.URL()+"/register", "application/json", body)
}

func TestAnybodyMayRegister(t *testing.T) {
	i := start(t, Config{})
	c := register(t, i, `{"client_name":"An editor","application_type":"native","redirect_uris":["`+callback+`"],"token_endpoint_auth_method":"none"}`)
	if c.Status != 201 || c.ID == "" || c.Secret != "" {
		t.Fatalf("registered %+v", c)
	}
	back := authorize(t, new(Browser), page(i, "client_id", c.ID))
	given := token(t, i, "grant_type", "authorization_code", "client_id", c.ID, "code", back.Get("code"),
		"redirect_uri", callback, "code_verifier", verifier, "resource", resource)
	if given.Status != 200 {
		t.Errorf("given %+v", given)
	}
	if c := register(t, i, `{"redirect_uris":["`+callback+`"]}`); c.Status != 201 || c.Secret == "" {
		t.Errorf("a confidential client: %+v", c)
	}
}

func TestRegistrationsThatMakeNoSenseAreRefused(t *testing.T) {
	i := start(t, Config{})
	for body, code := range map[string]string{
		`[]`:                      "invalid_client_metadata",
		`{}`:                      "invalid_redirect_uri",
		`{"redirect_uris":["x"]}`: "invalid_redirect_uri",
		`{"redirect_uris":["javascript:alert(1)"]}`:                                                     "invalid_redirect_uri",
		`{"redirect_uris":["http://web.example/"]}`:                                                     "invalid_redirect_uri",
		`{"redirect_uris":["https://a.example/#f"]}`:                                                    "invalid_redirect_uri",
		`{"redirect_uris":["https://u@a.example/"]}`:                                                    "invalid_redirect_uri",
		`{"redirect_uris":["` + callback + `"],"token_endpoint_auth_method":"private_key_jwt"}`:         "invalid_client_metadata",
		`{"redirect_uris":[` + strings.Repeat(`"`+callback+`",`, maxRedirects) + `"` + callback + `"]}`: "invalid_redirect_uri",
		`{"client_name":"` + strings.Repeat("x", maxBody) + `"}`:                                        "invalid_client_metadata",
	} {
		if got := register(t, i, body); got.Status != 400 || got.Error != code {
			t.Errorf("%.60s: %+v", body, got)
		}
	}
}

func TestAClientIsWhatItsDocumentSays(t *testing.T) {
	var host *httptest.Server
	host = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := host.URL + r.URL.Path
		w.Header().Set("Content-Type", "application/json")
		body := `{"client_id":%q,"client_name":"An app","redirect_uris":["` + callback + `"]%s}`
		switch r.URL.Path {
		case "/good.json":
			fmt.Fprintf(w, body, id, "")
		case "/other.json":
			fmt.Fprintf(w, body, host.URL+"/good.json", "")
		case "/secret.json":
			fmt.Fprintf(w, body, id, `,"client_secret":"x"`)
		case "/long.json":
			fmt.Fprintf(w, body, id, `,"x":"`+strings.Repeat("x", maxDocument)+`"`)
		case "/moved.json":
			http.Redirect(w, r, "/good.json", http.StatusFound)
		case "/page.json":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, body, id, "")
		default:
			http.NotFound(w, r)
		}
	}))
	defer host.Close()
	i := start(t, Config{Documents: host.Client()})

	id := host.URL + "/good.json"
	back := authorize(t, new(Browser), page(i, "client_id", id))
	given := token(t, i, "grant_type", "authorization_code", "client_id", id, "code", back.Get("code"),
		"redirect_uri", callback, "code_verifier", verifier, "resource", resource)
	if said, err := verify(t, i, given.Access); err != nil || said.Client != id {
		t.Errorf("%+v, %+v, %v", given, said, err)
	}
	for _, path := range []string{"/other.json", "/secret.json", "/long.json", "/moved.json", "/page.json", "/nothing.json", "/", "/good.json#x"} {
		if location, err := new(Browser).Authorize(t.Context(), page(i, "client_id", host.URL+path)); err == nil {
			t.Errorf("%s: sent to %s", path, location)
		}
	}
	if location, err := new(Browser).Authorize(t.Context(), page(i, "client_id", id, "redirect_uri", "https://evil.example/")); err == nil {
		t.Errorf("sent to %s", location)
	}
}
