// Run drives the official conformance suite against this library and holds the outcome against a baseline.
//
//	go run ./conformance/run            # all six legs; what make conformance does
//	go run ./conformance/run -leg client-all -leg server-2026-07-28
//	go run ./conformance/run -shrink    # take what passes now out of the baseline
//
// It builds two programs and drives each through three legs: the whole suite ("all"), and the frozen
// requirement sets of 2025-11-25 and 2026-07-28, which pin the wire.
//
//   - ./conformance/server is started once, as "server -listen 127.0.0.1:0". It prints the URL of its endpoint
//     as the first line of stdout, serves every leg in that one process, and ends within ten seconds of an interrupt.
//   - ./conformance/client is started by the suite once per scenario, with the URL of a mock server as its last
//     argument and the scenario's name in MCP_CONFORMANCE_SCENARIO, its context in MCP_CONFORMANCE_CONTEXT and
//     the revision in MCP_CONFORMANCE_PROTOCOL_VERSION.
//
// The suite's own --expected-failures does not count warnings of servers, calls a scenario that checked nothing a
// success, and ignores how clients end. So this program reads the checks themselves: a scenario passes when at least
// one check of its own succeeded, none failed or warned, and no program panicked or raced.
//
// Everything printed and written by the suite and the programs stays in the folder given by -out.
// The exit status is 0 when nothing failed and the baseline is exact, 1 when not, 2 when the suite could not run.
package main
