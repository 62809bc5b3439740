package config

import (
	"strconv"

	"github.com/tailscale/hujson"

	"github.com/parley-mcp/parley/host"
)

// inputLimitMembers are the members of inputLimits.
var inputLimitMembers = readers[host.InputLimits]{
	"perCall": func(d *document, l *host.InputLimits, v *hujson.Value, name string) (err error) {
		l.PerCall, err = limit[int](d, v, name)
		return err
	},
	"perMinute": func(d *document, l *host.InputLimits, v *hujson.Value, name string) (err error) {
		l.PerMinute, err = limit[int](d, v, name)
		return err
	},
	"maxTokens": func(d *document, l *host.InputLimits, v *hujson.Value, name string) (err error) {
		l.MaxTokens, err = limit[int64](d, v, name)
		return err
	},
}

// limit reads a positive number, or -1 for no limit.
func limit[N int | int64](d *document, v *hujson.Value, what string) (N, error) {
	if literal, ok := v.Value.(hujson.Literal); ok {
		n, err := strconv.ParseInt(string(literal), 10, 32)
		if err == nil && (n > 0 || n == -1) {
			return N(n), nil
		}
	}
	return 0, d.errorf(v, "%s must be a whole number from 1 to 2147483647, or -1 for no limit", what)
}
