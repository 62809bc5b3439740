package serverjson

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// checkTransport checks the transport of a package. Its URL can contain the names of variables in braces.
func (p place) checkTransport(variables []string) {
	p.only("type", "url", "headers")
	p.checkHeaders()
	address := p.member("url")
	switch p.member("type").text() {
	case "stdio":
		if address.text() != "" {
			address.problem("the transport stdio has no URL", "remove it, or write the type streamable-http")
		}
	case "streamable-http", "sse":
		address.checkURL(variables, "an argument or an environment variable of the package")
	}
}

// checkRemote checks a server at a URL.
func (p place) checkRemote() {
	p.only("type", "url", "headers", "variables")
	p.checkHeaders()
	variables := p.member("variables")
	for _, name := range variables.names() {
		variables.member(name).checkInput()
	}
	address := p.member("url")
	u := address.checkURL(variables.names(), "a member of variables")
	if u == nil {
		return
	}
	host := u.Hostname()
	switch {
	case host == "localhost" || strings.HasSuffix(host, ".localhost") || host == "127.0.0.1":
		address.problem("URL of a remote server must not be that of the local machine", "write the public URL, or describe a package with this transport")
	case u.Scheme != "https":
		address.problem("URL of a remote server must begin with https://", "")
	}
}

func (p place) checkHeaders() {
	for _, h := range p.member("headers").elements() {
		h.checkInput("name", "variables")
	}
}

// inBraces matches the variables of a URL.
var inBraces = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{([^}]+)\}`) })

// checkURL checks a URL in which the names of variables are in braces. what describes a variable. It returns the URL with a digit for
// each variable, or nil if it is invalid.
func (p place) checkURL(variables []string, what string) *url.URL {
	if p.text() == "" {
		if !p.exists() {
			p.problem("required member is missing", "add the URL of the server")
		}
		return nil
	}
	u, err := url.Parse(inBraces().ReplaceAllString(p.text(), "1"))
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || strings.ContainsAny(p.text(), " \t\r\n") {
		p.problem("URL must begin with https:// or http:// and have a host", "")
		return nil
	}
	for _, match := range inBraces().FindAllStringSubmatch(p.text(), -1) {
		if !slices.Contains(variables, match[1]) {
			p.problem("variable {"+match[1]+"} is not "+what, "describe the variable, or write its value")
		}
	}
	return u
}
