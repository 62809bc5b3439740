package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

const (
	maxDocument     = 512 << 10 // bytes
	documentTimeout = 10 * time.Second
	maxRedirects    = 3
)

// fetcher asks an authorization server, whom the program has named, for documents.
type fetcher struct{ http *http.Client }

// newFetcher keeps redirects to their origin: what is asked for is asked of one server.
func newFetcher(base *http.Client) *fetcher {
	c := &http.Client{}
	if base != nil {
		*c = *base
	}
	c.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		first := via[0]
		if len(via) > maxRedirects || req.URL.Scheme != first.URL.Scheme || req.URL.Host != first.URL.Host || req.Method != first.Method {
			return http.ErrUseLastResponse
		}
		return nil
	}
	return &fetcher{c}
}

// do sends a request and returns the body of a JSON response, at most maxDocument bytes
// of it. The request's context should have an end.
func (f *fetcher) do(req *http.Request) ([]byte, error) {
	ctx, cancel := context.WithTimeout(req.Context(), documentTimeout)
	defer cancel()
	req = req.WithContext(ctx)
	req.Header.Set("Accept", "application/json")
	res, err := f.http.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // without the URL, which can hold secrets
		}
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, &statusError{res.StatusCode}
	}
	if kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); kind != "application/json" && !strings.HasSuffix(kind, "+json") {
		return nil, errors.New("the response is not JSON")
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, maxDocument+1))
	if err == nil && len(data) > maxDocument {
		err = fmt.Errorf("the response has more than %d bytes", maxDocument)
	}
	return data, err
}

func (f *fetcher) get(ctx context.Context, from string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, err
	}
	return f.do(req)
}

type statusError struct{ status int }

func (e *statusError) Error() string {
	return fmt.Sprintf("the server answered with status %d", e.status)
}

// keysOf fetches the keys of an issuer. From is where they are; empty: its metadata says.
func (f *fetcher) keysOf(ctx context.Context, issuer, from string) ([]publicKey, error) {
	if from == "" {
		var err error
		if from, err = f.keysURL(ctx, issuer); err != nil {
			return nil, fmt.Errorf("metadata of the issuer %s: %w", issuer, err)
		}
	}
	data, err := f.get(ctx, from)
	if err != nil {
		return nil, fmt.Errorf("keys of the issuer %s: %w", issuer, err)
	}
	keys, err := readKeys(data)
	if err != nil {
		return nil, fmt.Errorf("keys of the issuer %s: %w", issuer, err)
	}
	return keys, nil
}

// keysURL asks an issuer's metadata where the keys are. It looks in the places, and in
// the order, in which clients do too (2026-07-28, basic/authorization, Authorization
// Server Metadata Discovery).
func (f *fetcher) keysURL(ctx context.Context, issuer string) (string, error) {
	u, err := url.Parse(issuer)
	if err != nil {
		return "", err
	}
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	origin := u.Scheme + "://" + u.Host
	places := []string{
		origin + "/.well-known/oauth-authorization-server" + path,
		origin + "/.well-known/openid-configuration" + path,
	}
	if path != "" {
		places = append(places, origin+path+"/.well-known/openid-configuration")
	}
	for _, place := range places {
		var data []byte
		data, err = f.get(ctx, place)
		var answered *statusError
		if errors.As(err, &answered) && answered.status >= 400 && answered.status < 500 {
			continue // not here
		}
		if err != nil {
			return "", err
		}
		var metadata struct {
			Issuer  string `json:"issuer"`
			KeysURL string `json:"jwks_uri"`
		}
		if err := json.Unmarshal(data, &metadata); err != nil {
			return "", fmt.Errorf("the metadata is not JSON: %w", err)
		}
		if metadata.Issuer != issuer {
			return "", errors.New("the metadata is that of another issuer")
		}
		keys, err := safeURL(metadata.KeysURL)
		if err != nil {
			return "", fmt.Errorf("jwks_uri: %w", err)
		}
		if keys.Scheme == "http" && u.Scheme == "https" {
			return "", errors.New("jwks_uri: an https issuer has its keys at an http address")
		}
		return metadata.KeysURL, nil
	}
	return "", err
}

var (
	errNotURL      = errors.New("it is not an absolute URL without user and fragment")
	errNotSafe     = errors.New("it must begin with https:// (http:// is for the loopback interface)")
	errIssuerQuery = errors.New("an issuer has no query")
)

// safeURL parses a URL that is https, or http on the loopback interface.
func safeURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || strings.Contains(text, "#") {
		return nil, errNotURL
	}
	if u.Scheme != "https" && !(u.Scheme == "http" && isLoopback(u.Hostname())) {
		return nil, errNotSafe
	}
	return u, nil
}

// checkIssuer checks an issuer's identifier (RFC 8414, section 2).
func checkIssuer(issuer string) error {
	u, err := safeURL(issuer)
	if err == nil && (u.RawQuery != "" || u.ForceQuery) {
		err = errIssuerQuery
	}
	return err
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
