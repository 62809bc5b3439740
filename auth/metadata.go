package auth

import (
	"encoding/json"
	"net/http"
	"strings"
)

// MetadataPath is where the metadata of protected resources is: at this path of the
// resource's origin, followed by the path of the resource (RFC 9728, section 3.1).
const MetadataPath = "/.well-known/oauth-protected-resource"

// metadata is the document (RFC 9728, section 2).
type metadata struct {
	Resource      string   `json:"resource"`
	Issuers       []string `json:"authorization_servers"`
	Scopes        []string `json:"scopes_supported,omitempty"`
	Methods       []string `json:"bearer_methods_supported"`
	Name          string   `json:"resource_name,omitempty"`
	Documentation string   `json:"resource_documentation,omitempty"`
	Algorithms    []string `json:"dpop_signing_alg_values_supported"`
	DPoPRequired  bool     `json:"dpop_bound_access_tokens_required,omitempty"`
}

// IsMetadata reports whether a request is for the metadata of a protected resource.
func IsMetadata(r *http.Request) bool {
	rest, ok := strings.CutPrefix(r.URL.Path, MetadataPath)
	return ok && (rest == "" || rest[0] == '/')
}

// MetadataHandler serves the resource's metadata, to be mounted at [MetadataPath] and
// at MetadataPath + "/" of the same origin. It is needed where the server itself is
// mounted elsewhere than at "/"; it answers for the root and for the path of URI.
// The document is public and has no secrets; pages of any origin may read it.
func (a *ProtectedResource) MetadataHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		a.ServeMetadata(w, r)
	})
}

// ServeMetadata answers one request for the metadata, without leave for pages of other
// origins.
func (a *ProtectedResource) ServeMetadata(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "use GET", http.StatusMethodNotAllowed)
		return
	}
	path, ok := strings.CutPrefix(pathOf(r), MetadataPath)
	if !ok { // the program has stripped a prefix off
		path = strings.TrimPrefix(r.URL.Path, MetadataPath)
	}
	err := a.Check()
	at := a.named
	if err == nil && at.uri == "" {
		at, err = loopbackEndpoint(r, path)
	}
	own, _, _ := strings.Cut(at.path, "?")
	switch {
	case err != nil:
		http.Error(w, "authorization is not configured", http.StatusInternalServerError)
		return
	case strings.Trim(path, "/") != "" && path != own:
		http.NotFound(w, r)
		return
	}
	scopes := a.AdvertisedScopes
	if scopes == nil {
		scopes = a.Scopes
	}
	uri := at.uri
	if a.URI != "" {
		uri = a.URI // as the program writes it: clients repeat it byte for byte
	}
	document, _ := json.Marshal(metadata{ // strings only
		Resource: uri, Issuers: a.Issuers, Scopes: scopes, Methods: []string{"header"},
		Name: a.Name, Documentation: a.Documentation, Algorithms: algorithms, DPoPRequired: a.DPoP.Required,
	})
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "max-age=300")
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(document)
}
