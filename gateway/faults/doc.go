// Package faults tests a gateway whose servers are processes that fail: they are killed, stopped, flood their outputs,
// send what they must not send, or leave children behind. The test program itself is the server. The tests carry the
// build tag "integration". make faults runs them.
//
// While a server fails, users call all servers through the gateway. [github.com/parley-mcp/parley/internal/ledger]
// records every call and finds what was lost, duplicated or delivered to the wrong user. The totals of each test are
// appended to a file. The flag -duration makes the tests run longer, for that time in total; the flag -totals names
// the file.
package faults
