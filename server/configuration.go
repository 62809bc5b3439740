package server

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"reflect"

	"github.com/parley-mcp/parley/internal/httpurl"
)

// checkFields returns an error for the first field with an invalid value. Other functions check
// Keys and Auth.
func (s *Server) checkFields() error {
	if u, err := url.Parse(s.WebsiteURL); s.WebsiteURL != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		return errors.New("server: WebsiteURL must be empty or begin with https:// or http://, and name a host")
	}
	if s.PageSize < 0 {
		return errors.New("server: PageSize must not be negative; 0 means the default")
	}
	for _, origin := range s.AllowedOrigins {
		if !httpurl.IsOrigin(origin) {
			return fmt.Errorf("server: AllowedOrigins: %.200q must be an origin as browsers send it, such as https://app.example.com: lower case, without a path and without the default port", origin)
		}
	}
	for _, host := range s.AllowedHosts {
		if !httpurl.IsHost(host) {
			return fmt.Errorf("server: AllowedHosts: %.200q must be a host name or an IP address, with or without a port", host)
		}
	}
	return s.Limits.check()
}

// check returns an error if a limit is negative.
func (l Limits) check() error {
	if math.IsNaN(l.CallsPerSecond) || math.IsNaN(l.ListsPerSecond) {
		return errors.New("server: Limits.CallsPerSecond and ListsPerSecond must be numbers")
	}
	v := reflect.ValueOf(l)
	for i := range v.NumField() {
		if f := v.Field(i); f.CanInt() && f.Int() < 0 {
			return fmt.Errorf("server: Limits.%s must not be negative; 0 means the default", v.Type().Field(i).Name)
		}
	}
	return nil
}
