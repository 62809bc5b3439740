package endpoint

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/auth"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/server"
)

func flagOf(words ...string) (*AuthFlag, error) {
	f := new(AuthFlag)
	for _, word := range words {
		if err := f.Set(word); err != nil {
			return f, err
		}
	}
	return f, f.check()
}

func TestSettingsOfCallersAreChecked(t *testing.T) {
	for words, want := range map[string]string{
		"keys=keys.json": "", "keys=keys.json issuer=https://a.example": "", "keys=k dev=ada,bob": "", "keys=k dev": "",
		"proxy=X-Forwarded-User proxy-from=127.0.0.1":                                    "",
		"proxy=x-user proxy-groups=x-groups proxy-from=10.0.0.0/24 proxy-from=fd00::/64": "",
		"proxy=X-User proxy-from=10.0.0.7 keys=k issuer=https://a.example":               "",
		"keys=":                                "keys requires a value",
		"keys=a keys=b":                        "keys is given twice",
		"keys":                                 "must be issuer=URL",
		"proxy":                                "must be issuer=URL",
		"dev=ada,":                             "users must be names",
		"dev=ada issuer=https://a.example":     "cannot use --auth dev with",
		"dev dpop":                             "does not bind tokens to keys",
		"keys=k dpop":                          "require an issuer",
		"keys=k dpop issuer=https://a.example": "cannot be bound",
		"keys=k profile=okta":                  "require an issuer",
		"keys=k no-resource":                   "an issuer that deviates",
		"dev assume-pkce":                      "an issuer that deviates",
		"no-resource assume-pkce issuer=https://a.example": "",
		"proxy=X-User":          "requires --auth proxy-from",
		"proxy-from=10.0.0.7":   "require --auth proxy=HEADER",
		"proxy-groups=X-Groups": "require --auth proxy=HEADER",
		"proxy=X-User proxy-groups=x-user proxy-from=10.0.0.7": "different headers",
		"proxy=X-User proxy=Y proxy-from=10.0.0.7":             "proxy is given twice",
		"proxy=X-User proxy-from=10.0.0.7 scope=mcp":           "have no scopes",
		"proxy=X-User proxy-from=0.0.0.0/0":                    "every address",
		"proxy=X-User proxy-from=::/0":                         "every address",
		"proxy=X-User proxy-from=localhost":                    "must be an address or a network",
		"proxy=X-User proxy-from=fe80::1%eth0":                 "must be an address or a network",
		"proxy=Authorization proxy-from=10.0.0.7":              "must be the name of the header",
		"proxy=X_User proxy-from=10.0.0.7":                     "must be the name of the header",
		"proxy=X-Forwarded-For proxy-from=10.0.0.7":            "must be the name of the header",
		"scope=mcp": "requires an issuer or API keys",
	} {
		_, err := flagOf(strings.Fields(words)...)
		must.CheckThat(t, (err == nil) == (want == "") && (err == nil || strings.Contains(err.Error(), want)),
			"%s: %v; want %q", words, err, want)
	}
}

// Rule R15. The header of a proxy is believed from the addresses of the proxy only. Of others it is dropped, and without
// another way to authenticate the request is refused.
func TestUsersOfAProxyAreBelievedFromItsAddresses(t *testing.T) {
	const proxy, stranger = "10.0.0.7:1000", "10.0.1.7:1000"
	const v6, mapped = "[fd00::7]:1000", "[::ffff:10.0.0.7]:1000"
	f := must.Get(flagOf("proxy=x-forwarded-user", "proxy-groups=X-Forwarded-Groups", "proxy-from=10.0.0.0/24",
		"proxy-from=fd00::/64"))(t)
	for _, tokens := range []bool{false, true} {
		var rejected []string
		resource := &auth.ProtectedResource{
			Verifier: auth.VerifierFunc(func(_ context.Context, token string) (*auth.Info, error) {
				if !tokens || token != "bob" {
					return nil, errors.New("unknown")
				}
				who, err := principal.New("tokens", token, "")
				return &auth.Info{Principal: who}, err
			}),
			OnReject: func(_ *http.Request, _ *auth.Info, no *auth.Rejection) { rejected = append(rejected, no.Reason) },
		}
		h := f.handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			info := auth.FromContext(r.Context())
			if info == nil {
				var err error
				info, err = resource.Authenticate(w.Header(), r)
				if no, rejected := errors.AsType[*auth.Rejection](err); rejected {
					w.WriteHeader(no.Status)
					return
				}
			}
			groups, _ := info.Claim("groups")
			_, _ = fmt.Fprint(w, info.Principal, " ", string(groups), " ", r.Header.Values("X-Forwarded-User"))
		}), resource, tokens)
		for name, tc := range map[string]struct {
			from   string
			header []string
			want   string // or the statuses without and with tokens
		}{
			"user":           {proxy, []string{"X-Forwarded-User", "ada"}, "ada at proxy [] [ada]"},
			"groups":         {proxy, []string{"X-Forwarded-User", "ada", "X-Forwarded-Groups", "ops, finance,"}, `ada at proxy ["ops","finance"] [ada]`},
			"IPv6":           {v6, []string{"X-Forwarded-User", "ada"}, "ada at proxy [] [ada]"},
			"mapped":         {mapped, []string{"X-Forwarded-User", "ada"}, "ada at proxy [] [ada]"},
			"user and token": {proxy, []string{"X-Forwarded-User", "ada", "Authorization", "Bearer bob"}, "ada at proxy [] [ada]"},
			"nobody":         {proxy, nil, "403 401"},
			"two users":      {proxy, []string{"X-Forwarded-User", "ada", "X-Forwarded-User", "bob"}, "400 400"},
			"two groups": {proxy, []string{"X-Forwarded-User", "ada", "X-Forwarded-Groups", "a", "X-Forwarded-Groups", "b"},
				"400 400"},
			"empty":             {proxy, []string{"X-Forwarded-User", ""}, "400 400"},
			"control character": {proxy, []string{"X-Forwarded-User", "ada\t"}, "400 400"},
			"stranger":          {stranger, []string{"X-Forwarded-User", "ada"}, "403 401"},
			"stranger, IPv6":    {"[fd00:0:0:1::7]:1", []string{"X-Forwarded-User", "ada"}, "403 401"},
			"no address":        {"@", []string{"X-Forwarded-User", "ada"}, "403 401"},
			"named address":     {stranger, []string{"X-Forwarded-User", "ada", "X-Forwarded-For", "10.0.0.7"}, "403 401"},
			"other spelling":    {proxy, []string{"X_Forwarded_User", "ada"}, "403 401"},
			"token":             {stranger, []string{"X-Forwarded-User", "ada", "Authorization", "Bearer bob"}, "403 bob at tokens  []"},
		} {
			r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
			r.RemoteAddr = tc.from
			for i := 0; i < len(tc.header); i += 2 {
				r.Header.Add(tc.header[i], tc.header[i+1])
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			got := w.Body.String()
			if w.Code != http.StatusOK {
				got = fmt.Sprint(w.Code)
			}
			want := tc.want
			if without, with, both := strings.Cut(tc.want, " "); both && len(without) == 3 && tc.want[0] == '4' {
				want = map[bool]string{false: without, true: with}[tokens]
			}
			must.CheckEqual(t, got, want, name, tokens)
		}
		must.CheckThat(t, len(rejected) != 0, "no rejection is reported")
	}
}

// A request that does not pass the handler of the proxy is still rejected.
func TestAServerBehindAProxyVerifiesOtherRequests(t *testing.T) {
	f := must.Get(flagOf("proxy=X-User", "proxy-from=10.0.0.7"))(t)
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	s := new(server.Server)
	a := must.Get(f.Apply(s, listener, nil))(t)
	defer a.Close()
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/mcp", strings.NewReader("{}"))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-User", "ada")
	r.Header.Set("Authorization", "Bearer ada")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	must.CheckEqual(t, w.Code, http.StatusUnauthorized)
}
