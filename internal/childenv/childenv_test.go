package childenv

import (
	"slices"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
)

func TestChildReachesTheNetworkAsItsParentDoes(t *testing.T) {
	for name, value := range map[string]string{
		"NODE_EXTRA_CA_CERTS": "/ca.pem", "SSL_CERT_FILE": "/ca.pem", "SSL_CERT_DIR": "/certs",
		"REQUESTS_CA_BUNDLE": "/ca.pem", "CURL_CA_BUNDLE": "/ca.pem", "npm_config_cafile": "/ca.pem",
		"HTTPS_PROXY": "http://user:secret@proxy:1", "https_proxy": "http://proxy:1", "HTTP_PROXY": "http://proxy:1",
		"http_proxy": "http://proxy:1", "ALL_PROXY": "socks5://proxy:1", "NO_PROXY": "localhost", "no_proxy": "localhost",
		"npm_config_registry": "https://npm.example/", "NPM_CONFIG_REGISTRY": "https://npm.example/",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			must.CheckThat(t, slices.Contains(New(false, nil), name+"="+value), "%s is not inherited", name)
		})
	}
}

func TestChildInheritsNoSecrets(t *testing.T) {
	for name, value := range map[string]string{
		"API_TOKEN": "secret", "AWS_SECRET_ACCESS_KEY": "secret", "NPM_TOKEN": "secret", "npm_config__authToken": "secret",
		"npm_config_registry": "https://user:secret@npm.example/", "UV_INDEX_URL": "https://token@pypi.example/simple",
		"NODE_TLS_REJECT_UNAUTHORIZED": "0", "NODE_OPTIONS": "--require=/x.js", "LD_PRELOAD": "/x.so",
		"HTTPS_PROXY_PASSWORD": "secret",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			must.CheckThat(t, !slices.Contains(New(false, nil), name+"="+value), "%s is inherited", name)
			must.CheckEqual(t, slices.Contains(New(true, nil), name+"="+value), true)
		})
	}
}
