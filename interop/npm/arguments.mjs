// The command line of the four peers: PEER [--era ERA] [--revision REVISION] WHERE…

// readArguments takes the leading options off and leaves the rest, which may hold options of a command to start.
export function readArguments(usage, argv = process.argv.slice(2)) {
    const options = {};
    while (argv[0]?.startsWith('--')) {
        const name = argv.shift().slice(2);
        if (!usage.includes(`--${name} `) || argv.length === 0) refuse(usage);
        options[name] = argv.shift();
    }
    const [transport, ...where] = argv;
    return { ...options, transport, where };
}

export function refuse(usage) {
    console.error(`usage: ${usage}`);
    process.exit(2);
}
