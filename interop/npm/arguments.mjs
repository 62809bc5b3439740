// The command line of the peers: PEER [--era ERA] [--revision REVISION] WHERE…

// readArguments reads the leading options and returns the rest, which can contain options of a command to start.
export function readArguments(usage, argv = process.argv.slice(2)) {
    const options = {};
    while (argv[0]?.startsWith('--')) {
        const name = argv.shift().slice(2);
        if (!usage.includes(`--${name} `) || argv.length === 0) exitWithUsage(usage);
        options[name] = argv.shift();
    }
    const [transport, ...where] = argv;
    return { ...options, transport, where };
}

export function exitWithUsage(usage) {
    console.error(`usage: ${usage}`);
    process.exit(2);
}
