#!/usr/bin/env node
// Runs the program parley. npm installs the package with the program for this platform as an optional dependency.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");

const platform = `${process.platform}-${process.arch}`;
const name = `@parley-mcp/parley-${platform}`;

function fail(...lines) {
  console.error(`parley: ${lines.join("\n")}`);
  process.exit(1);
}

let program;
try {
  program = require.resolve(`${name}/bin/parley${process.platform === "win32" ? ".exe" : ""}`);
} catch {
  const { optionalDependencies } = require("./package.json");
  if (!(name in optionalDependencies)) {
    const supported = Object.keys(optionalDependencies).map((other) => other.replace("@parley-mcp/parley-", ""));
    fail(`there is no program for ${platform}, only for ${supported.join(", ")}.`,
      "With Go: go install github.com/parley-mcp/parley/cmd/parley@latest");
  }
  fail(`cannot find the package ${name}, which has the program for this platform.`,
    "Install again without --omit=optional, --no-optional and --ignore-optional, and on this kind of machine:",
    "node_modules cannot be copied to another platform.");
}

const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
// A terminal sends Ctrl-C to both processes, and a second SIGINT would end parley without a graceful shutdown.
process.on("SIGINT", () => {});
for (const signal of ["SIGTERM", "SIGHUP"]) {
  process.on(signal, () => child.kill(signal));
}
child.on("error", (err) => fail(`cannot run ${program}: ${err.message}`));
child.on("exit", (code, signal) => process.exit(signal ? 128 + constants.signals[signal] : code));
