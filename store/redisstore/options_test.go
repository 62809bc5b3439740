package redisstore

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestParseURL(t *testing.T) {
	for text, want := range map[string]Options{
		"redis://localhost":                                   {Addrs: []string{"localhost:6379"}},
		"redis://ada:secret@localhost:7000/3":                 {Addrs: []string{"localhost:7000"}, Username: "ada", Password: "secret", DB: 3},
		"redis://:p%40ss@[::1]:7000/":                         {Addrs: []string{"[::1]:7000"}, Password: "p@ss"},
		"redis://a:1?master=main&addr=b:2&addr=c:3":           {Addrs: []string{"a:1", "b:2", "c:3"}, MasterName: "main"},
		"redis://a:1?cluster=true&addr=b:2&prefix=x:&conns=4": {Addrs: []string{"a:1", "b:2"}, Cluster: true, Prefix: "x:", Conns: 4},
		"redis://a:1?allow-eviction=true":                     {Addrs: []string{"a:1"}, AllowEviction: true},
	} {
		got, err := ParseURL(text)
		if err != nil {
			t.Errorf("ParseURL(%q): %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("ParseURL(%q) (-want +got):\n%s", text, diff)
		}
	}
	secure, err := ParseURL("rediss://redis.example:6380")
	if err != nil || secure.TLS == nil {
		t.Errorf("ParseURL of rediss = %+v, %v; want TLS", secure, err)
	}
	if diff := cmp.Diff(Options{Addrs: []string{"redis.example:6380"}}, secure, cmpopts.IgnoreFields(Options{}, "TLS")); diff != "" {
		t.Error(diff)
	}
}

func TestParseURLExplainsErrors(t *testing.T) {
	for text, want := range map[string]string{
		"localhost:6379":                "scheme",
		"http://localhost":              "scheme",
		"redis://":                      "host",
		"redis://a/x":                   "number of a database",
		"redis://a?color=red":           "unknown parameter",
		"redis://a?cluster=maybe":       "parameter cluster",
		"redis://a?conns=many":          "parameter conns",
		"redis://a?cluster=1&master=b":  "both",
		"redis://a?addr=b:1":            "MasterName",
		"redis://a/1?cluster=true":      "DB",
		"redis://a?prefix={x}":          "braces",
		"redis://a?conns=-1":            "Conns",
		"redis://user:secret@a:b":       "cannot parse URL",
		"redis://user:secret@a/%zz":     "cannot parse URL",
		"redis://user:sec ret@a:1/\x00": "cannot parse URL",
	} {
		_, err := ParseURL(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseURL(%q): %v, want an error with %q", text, err, want)
		} else if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "sec ret") {
			t.Errorf("ParseURL(%q): the error contains the password: %v", text, err)
		}
	}
}

func TestOpenChecksOptions(t *testing.T) {
	for _, o := range []Options{{}, {Addrs: []string{"a:1"}, DB: -1}, {Addrs: []string{"a:1", "b:1"}}} {
		if s, err := Open(context.Background(), o); err == nil {
			_ = s.Close()
			t.Errorf("Open(%+v) succeeded", o)
		}
	}
}
