// Command run runs the official conformance suite against this library and compares the results with a baseline.
//
//	go run ./conformance/run            # all eight legs, as make conformance does
//	go run ./conformance/run -leg client-all -leg server-2026-07-28
//	go run ./conformance/run -shrink    # remove the entries that pass from the baseline
//	go run ./conformance/run -table CONFORMANCE.md
//
// It builds three programs and runs legs with each: the frozen requirement sets of 2025-11-25 and 2026-07-28, which
// fix the revision, and for the server and the client the whole suite ("all").
//
//   - The command runs ./conformance/server once, as "server -listen 127.0.0.1:0". The server prints the URL of its
//     endpoint as the first line of standard output, serves all legs, and exits within 10 seconds of an interrupt.
//   - The same for ./conformance/gateway, which serves what that server offers. It has the flag -server with the URL.
//   - The suite runs ./conformance/client once for each scenario. The last argument is the URL of a mock server. The
//     name of the scenario is in MCP_CONFORMANCE_SCENARIO, its context in MCP_CONFORMANCE_CONTEXT and the revision in
//     MCP_CONFORMANCE_PROTOCOL_VERSION.
//
// The option --expected-failures of the suite is not used: it ignores warnings about servers and exit codes of clients,
// and accepts a scenario without checks. This command reads the checks instead. A scenario passes if at least one of
// its own checks succeeded, no check failed or warned, and no program panicked or had a data race.
//
// All output of the suite and the programs is in the directory of -out. The exit status is 0 if the results equal the
// baseline, 1 if they differ, and 2 if the suite could not run.
package main
