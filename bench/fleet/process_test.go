package main

import (
	"bufio"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/internal/must"
)

func TestUsageCountsTheCommandsOfReplicas(t *testing.T) {
	const answer = "$999\r\n# CPU\r\nused_cpu_sys:1.500000\r\nused_cpu_user:0.250000\r\nused_cpu_sys_children:9.000000\r\n" +
		"# Commandstats\r\ncmdstat_evalsha:calls=7,usec=1\r\ncmdstat_publish:calls=2," +
		"usec=1\r\ncmdstat_hget:calls=100,usec=1\r\n"
	u, err := parseUsage(bufio.NewScanner(strings.NewReader(answer)))
	must.CheckThat(t, err == nil && u.cpu == 1750*time.Millisecond && u.commands == 9, "%+v, %v", u, err)
	if _, err := parseUsage(bufio.NewScanner(strings.NewReader("-NOAUTH Authentication required.\r\n"))); err == nil {
		t.Error("an answer without the CPU time is accepted")
	}
}
