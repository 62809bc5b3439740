//go:build integration && !long

package redisstore

// programs lists the servers that every test runs with. scripts/tools installs
// them.
var programs = []string{"redis-server"}
