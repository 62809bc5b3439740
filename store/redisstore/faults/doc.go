// Package faults runs tests with real processes that fail: three replicas of a server, one Redis server, and a proxy
// that sends every request to the next replica. The test program itself is the replica. The tests need the programs
// that scripts/tools installs, so they carry the build tag "integration". make faults runs them.
//
// While the tests run, processes are killed, stopped and started again. [github.com/parley-mcp/parley/internal/ledger]
// records every call and finds what was lost, duplicated or delivered to the wrong user. The totals of each test are
// appended to a file. The flag -duration makes the tests run longer; the flag -totals names the file.
package faults
