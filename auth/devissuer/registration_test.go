package devissuer

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func register(t *testing.T, i *Issuer, body string) response {
	t.Helper()
	return post(t, i.URL()+"/register", "application/json", body)
}

func TestDynamicRegistration(t *testing.T) {
	i := start(t, Config{})
	c := register(t, i, `{"client_name":"An editor","application_type":"native","redirect_uris":["`+redirectURI+`"],"token_endpoint_auth_method":"none"}`)
	if c.Status != 201 || c.ID == "" || c.Secret != "" {
		t.Fatalf("registration %+v", c)
	}
	params := authorize(t, new(Browser), page(i, "client_id", c.ID))
	issued := token(t, i, "grant_type", "authorization_code", "client_id", c.ID, "code", params.Get("code"),
		"redirect_uri", redirectURI, "code_verifier", verifier, "resource", resource)
	if issued.Status != 200 {
		t.Errorf("issued %+v", issued)
	}
	if c := register(t, i, `{"redirect_uris":["`+redirectURI+`"]}`); c.Status != 201 || c.Secret == "" {
		t.Errorf("confidential client: %+v", c)
	}
}

func TestInvalidRegistrationsAreRejected(t *testing.T) {
	i := start(t, Config{})
	for body, code := range map[string]string{
		`[]`:                      "invalid_client_metadata",
		`{}`:                      "invalid_redirect_uri",
		`{"redirect_uris":["x"]}`: "invalid_redirect_uri",
		`{"redirect_uris":["javascript:alert(1)"]}`:                                                           "invalid_redirect_uri",
		`{"redirect_uris":["http://web.example/"]}`:                                                           "invalid_redirect_uri",
		`{"redirect_uris":["https://a.example/#f"]}`:                                                          "invalid_redirect_uri",
		`{"redirect_uris":["https://u@a.example/"]}`:                                                          "invalid_redirect_uri",
		`{"redirect_uris":["` + redirectURI + `"],"token_endpoint_auth_method":"private_key_jwt"}`:            "invalid_client_metadata",
		`{"redirect_uris":[` + strings.Repeat(`"`+redirectURI+`",`, maxRedirects) + `"` + redirectURI + `"]}`: "invalid_redirect_uri",
		`{"client_name":"` + strings.Repeat("x", maxBody) + `"}`:                                              "invalid_client_metadata",
	} {
		if got := register(t, i, body); got.Status != 400 || got.Error != code {
			t.Errorf("%.60s: %+v", body, got)
		}
	}
}

func TestClientMetadataDocuments(t *testing.T) {
	var host *httptest.Server
	host = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := host.URL + r.URL.Path
		w.Header().Set("Content-Type", "application/json")
		body := `{"client_id":%q,"client_name":"An app","redirect_uris":["` + redirectURI + `"]%s}`
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
	params := authorize(t, new(Browser), page(i, "client_id", id))
	issued := token(t, i, "grant_type", "authorization_code", "client_id", id, "code", params.Get("code"),
		"redirect_uri", redirectURI, "code_verifier", verifier, "resource", resource)
	if claims, err := verify(t, i, issued.Access); err != nil || claims.Client != id {
		t.Errorf("%+v, %+v, %v", issued, claims, err)
	}
	for _, path := range []string{"/other.json", "/secret.json", "/long.json", "/moved.json", "/page.json", "/missing.json", "/", "/good.json#x"} {
		if location, err := new(Browser).Authorize(t.Context(), page(i, "client_id", host.URL+path)); err == nil {
			t.Errorf("%s: redirect to %s", path, location)
		}
	}
	if location, err := new(Browser).Authorize(t.Context(), page(i, "client_id", id, "redirect_uri", "https://evil.example/")); err == nil {
		t.Errorf("redirect to %s", location)
	}
}
