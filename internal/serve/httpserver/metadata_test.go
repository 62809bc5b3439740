package httpserver

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

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
