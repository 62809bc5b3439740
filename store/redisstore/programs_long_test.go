//go:build integration && long

package redisstore

// programs are the servers that every test runs with. scripts/tools installs them.
var programs = []string{"redis-server", "valkey-server"}
