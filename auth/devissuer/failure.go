package devissuer

import (
	"net/http"
	"net/url"
)

// failure is an error response (RFC 6749, sections 4.1.2.1 and 5.2; RFC 7591, section 3.2.2;
// RFC 8707, section 2).
type failure struct {
	Code        string `json:"error"`
	Description string `json:"error_description,omitempty"`
}

func (f *failure) Error() string { return f.Code + ": " + f.Description }

func fail(code, description string) *failure { return &failure{code, description} }

// write responds to a request of a client.
func (f *failure) write(w http.ResponseWriter) {
	status := http.StatusBadRequest
	if f.Code == "invalid_client" {
		status = http.StatusUnauthorized
		w.Header().Set("WWW-Authenticate", `Basic realm="devissuer"`)
	}
	writeJSON(w, status, f)
}

// parameters returns the query parameters of a redirect to the client.
func (f *failure) parameters() url.Values {
	return url.Values{"error": {f.Code}, "error_description": {f.Description}}
}
