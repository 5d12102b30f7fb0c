"""The table of the engine's commands: name, first line of help, and where each is. `--help` is written from it."""

from collections.abc import Mapping
from typing import Final

from engine.terminal.lazy_group import Command

DEPLOY: Final = {
    "compose": Command(
        "Print a Compose file: nodes with the same channels behind a TCP load balancer, and PostgreSQL with them.",
    ),
    "kubernetes": Command(
        "Print Kubernetes objects: nodes as a StatefulSet, Services for senders and for the pages, a "
        "disruption budget.",
    ),
    "grafana": Command(
        "Print a Grafana dashboard (JSON) over /metrics; import it and choose the Prometheus that asks the engine.",
    ),
    "unit": Command(
        "Print a systemd unit: its own user, nothing writable but the data folder, no privileges, no core dumps.",
    ),
    "container": Command(
        "Print a file to build a container from: two stages, locked packages, no root, read-only.",
    ),
}
MESSAGES: Final = {
    "list": Command(
        "List entries, newest first; an entry must match all filters.",
        "engine.ops.cli.messages.listing:list_",
    ),
    "show": Command(
        "Show one entry in full: message, acknowledgement, its state, every request made for it, its patient's lane.",
        "engine.ops.cli.messages.showing:show",
    ),
    "explain": Command(
        "Say why a journaled message comes out as it does, by the mapping files of the running engine.",
        "engine.ops.cli.mapping.explain:explain_entry",
    ),
    "export": Command(
        "Export whole messages from the journal of a running engine, with what became of them. They hold patient data.",
        "engine.ops.cli.messages.export:export",
    ),
    "check": Command(
        "Compare messages with their version of the standard: structure, required, repetitions, lengths, "
        "types, tables.",
        "engine.ops.cli.messages.conformance:check",
    ),
    "replay": Command(
        "Replay entries: deliver them again in journal order, each in its original place among its patient's messages.",
        "engine.ops.cli.messages.replays:replay",
    ),
    "replays": Command(
        "List bulk runs, newest first, or pause or stop one; `messages replay --resume N` resumes it.",
        "engine.ops.cli.messages.replays:replays",
    ),
    "edit": Command(
        "Edit an entry's message and deliver it as a new entry, judged as if it had just come in; the original stays.",
        "engine.ops.cli.messages.edits:edit",
    ),
    "retry": Command(
        "Retry entries now that are held or waiting for their next attempt.",
        "engine.ops.cli.messages.edits:retry",
    ),
    "resolve": Command(
        "Choose which of the server's records an ambiguous patient is, and let the entry go on; nothing is merged.",
        "engine.ops.cli.messages.edits:resolve",
    ),
    "release": Command(
        "Release held entries once the cause is fixed; they are retried. `lanes release` does it in bulk.",
        "engine.ops.cli.messages.edits:release",
    ),
    "discard": Command(
        "Discard unfinished entries permanently; what is waiting behind them continues.",
        "engine.ops.cli.messages.edits:discard",
    ),
}
LANES: Final = {
    "list": Command(
        "List what is held, oldest first: since when, why, how much is waiting behind it, and whom to call.",
    ),
    "show": Command(
        "Show what is waiting behind an entry in its lanes, in order.",
    ),
    "release": Command(
        "Release held entries in bulk once the cause is fixed: the engine carries out a bulk run.",
    ),
    "retry": Command(
        "Retry held entries in bulk now; named entries also where they wait for their next retry.",
    ),
    "discard": Command(
        "Discard held entries in bulk for good, with a reason; what is waiting behind them continues.",
    ),
}
PATIENTS: Final = {
    "find": Command(
        "Find patients by a number (value, or system|value), else by parts of a name or number; with the newest entry.",
    ),
    "show": Command(
        "Show what happened to a patient, by a number or an entry: a verdict, records now, numbers, merges, messages.",
    ),
    "normalise": Command(
        "Show what `identity.normalise` is to the numbers that are known, and write the changes of number to a file.",
    ),
}
DUPLICATES: Final = {
    "list": Command(
        "List pairs of patients who may be one person, newest first, with what was decided.",
    ),
    "show": Command(
        "Compare the two patients of a pair: their records at the destinations side by side, as they are now.",
    ),
    "decide": Command(
        "Decide whether it is the same person: same, different, sent (to the MPI team) or done; nothing is merged.",
    ),
}
CHANNELS: Final = {
    "init": Command(
        "Make a channel file by answering a few questions, or by options that answer them; then check it.",
    ),
    "check": Command(
        "Check all files of a folder of channels and the mappings they name, as a start and a reload do.",
    ),
    "schema": Command(
        "Print the JSON Schema of channel files, alerts.yaml or sites.yaml, or write all into your folder of channels.",
    ),
    "list": Command(
        "List channels: of the running engine with their state and counters, else those of a folder of files.",
    ),
    "start": Command(
        "Start a stopped channel.",
    ),
    "stop": Command(
        "Stop a channel: it answers what is in flight, then accepts nothing until it is started, even after a restart.",
    ),
    "drain": Command(
        "Stop a channel and wait until everything it accepted is delivered, held or ended; exit 1 on timeout.",
    ),
    "deliver": Command(
        "Deliver what a channel kept since a time: in shadow, or by a rule that has changed since (--reason RULE).",
    ),
    "allow-merge": Command(
        "Let a channel that exceeded its `merge_limit` merge again; release what was held meanwhile with `lanes`.",
    ),
    "reload": Command(
        "Reload channels and mappings: check them, then put them in effect; a mistake leaves everything as it was.",
    ),
    "metrics": Command(
        "Print the metrics of the running engine in the text format of Prometheus.",
    ),
}
DESTINATIONS: Final = {
    "list": Command(
        "List destinations: state, what is waiting and since when, what is held.",
    ),
    "settings": Command(
        "List the keys of a destination that are in force, and what set each; a secret only says that it is set.",
    ),
    "pause": Command(
        "Pause a destination until it is resumed, even after a restart; messages are accepted and wait.",
    ),
    "resume": Command(
        "Resume delivery to a paused destination.",
    ),
    "retry": Command(
        "Try a destination that does not answer now, and all that waits for its next try there.",
    ),
}
ALERTS: Final = {
    "list": Command(
        "List open alerts: what each is about, since when, and what to do.",
    ),
    "acknowledge": Command(
        "Acknowledge an alert; this clears one that cannot end by itself, such as a new source.",
    ),
}
SITES: Final = {
    "list": Command(
        "Ask every engine of sites.yaml now: state, version, what waits, open alerts; exit 1 if one needs somebody.",
    ),
}
JOURNAL: Final = {
    "stats": Command(
        "Show how many messages the journal holds, their states, its size and the free disk space; filters by rule.",
    ),
    "verify": Command(
        "Verify the whole journal: file, messages by digest, rows by checksum, and that nothing is stuck.",
    ),
    "backup": Command(
        "Back up the journal into one file while the engine runs, and verify the copy before it gets its name.",
    ),
    "restore": Command(
        "Verify a backup and restore it as the journal of a folder on which no engine runs.",
    ),
    "copy": Command(
        "Copy a journal from a data folder to PostgreSQL, or back, and verify the copy against it.",
    ),
    "prune": Command(
        "Delete now what is older than the channels' `retention`; the running engine does so every hour.",
    ),
    "key": Command(
        "Create a key file that encrypts the message bodies of a new journal.",
    ),
    "reseal": Command(
        "Change the key file of a sealed journal on which no engine runs; messages stay as they are.",
    ),
}
NODES: Final = {
    "list": Command(
        "List nodes: which live, how long each lease lasts, what each runs and has under way, and which have ended.",
    ),
}
OUTGOING: Final = {
    "check": Command(
        "Check every file of an outgoing mapping and report all problems, each with file, line and column.",
    ),
    "try": Command(
        "Show the message that a change makes, and what it cannot say of it. Nothing is sent.",
    ),
    "explain": Command(
        "Say why each field of a message came out as it did: the rule, the path, and what it found.",
    ),
    "test": Command(
        "Run the cases of an outgoing mapping and show what differs, and how many of its rules they use.",
    ),
}
MAPPINGS: Final = {
    "check": Command(
        "Check every mapping file and report all problems, each with file, line and column.",
        "engine.ops.cli.mapping.mappings:check",
    ),
    "try": Command(
        "Show how messages would be answered, and what a mapping makes of them: plan and resource. Nothing is sent.",
        "engine.ops.cli.mapping.trial:try_",
    ),
    "test": Command(
        "Run a mapping's test cases and show what differs.",
        "engine.ops.cli.mapping.trial:try_cases",
    ),
    "explain": Command(
        "Say why each element came out as it did: the rule, what it read, what was done with it; and what nobody read.",
        "engine.ops.cli.mapping.explain:explain_",
    ),
    "diff": Command(
        "Compare what mappings make of messages, grouped by kind of change, with counts and an example each.",
        "engine.ops.cli.mapping.diff:diff",
    ),
    "coverage": Command(
        "Show which fields no rule reads, which codes no table has, and which elements and rules messages never use.",
        "engine.ops.cli.mapping.coverage:coverage",
    ),
    "schema": Command(
        "Print the JSON Schema of a kind of file, or write all of them into the folder of your mappings.",
        "engine.ops.cli.mapping.mappings:schema",
    ),
    "import": Command(
        "Import a code table: from a CSV file, a ConceptMap or a ValueSet (JSON) to tables/NAME.yaml and NAME.csv.",
        "engine.ops.cli.mapping.importing:import_table",
    ),
    "lsp": Command(
        "Serve editors over standard input and output: mistakes as typed, completion, hover, go to the shipped rule.",
        "engine.ops.cli.mapping.lsp:lsp",
    ),
    "out": Command(
        "Check, try, explain and test the way back: FHIR to HL7 v2.",
        "engine.ops.cli.mapping.outgoing:app",
        OUTGOING,
    ),
    "fidelity": Command(
        "Map messages to FHIR and back, and show the share of the fields read that come back equal, and every loss.",
        "engine.ops.cli.mapping.fidelity:fidelity",
    ),
    "infer": Command(
        "Report what a site's messages are: senders, authorities, events, character sets, codes, times; "
        "draft its files.",
        "engine.ops.cli.mapping.infer:infer",
    ),
}
TOKENS: Final = {
    "add": Command(
        "Create an API token and print it, once only; `sender` may post messages and see nothing.",
    ),
    "list": Command(
        "List API tokens, including revoked and expired ones.",
    ),
    "revoke": Command(
        "Revoke an API token immediately.",
    ),
}
USERS: Final = {
    "setup": Command(
        "Print the one-time token with which the first administrator chooses a name and password.",
    ),
    "add": Command(
        "Create an account and print the one-time token with which its owner sets a password.",
    ),
    "password": Command(
        "Reset an account's password, end its sessions, and print a one-time token to set a new one.",
    ),
    "list": Command(
        "List the accounts.",
    ),
    "role": Command(
        "Change an account's role, with immediate effect.",
    ),
    "disable": Command(
        "Disable an account and end its sessions.",
    ),
    "enable": Command(
        "Enable a disabled account.",
    ),
    "remove": Command(
        "Remove an account permanently; its name stays in the audit trail and cannot be reused.",
    ),
    "totp": Command(
        "Require a second factor of an account from its next log-in, or no longer; or reset the one it has.",
    ),
    "token": Command(
        "API tokens: add, list, revoke.",
        commands=TOKENS,
    ),
}
AUDIT: Final = {
    "list": Command(
        "List rows, newest first: who did what, from where, and what was refused.",
    ),
    "export": Command(
        "Export rows to a file, oldest first, one per line; the export itself is recorded as a row.",
    ),
    "verify": Command(
        "Verify that no row was changed, removed, moved or cut off; exit 1 and list the places if any was.",
    ),
    "anchor": Command(
        "Sign what the trail ends with, and add that to the anchors; the running engine does so by itself.",
    ),
    "key": Command(
        "Print the public key that verifies anchors, for the people who store and check them elsewhere.",
    ),
}

COMMANDS: Final[Mapping[str, Command]] = {
    "demo": Command(
        "Show the whole thing: the FHIR service, the engine, the sample messages and some simulated hospital days.",
        "engine.ops.demo.demo:demo",
    ),
    "run": Command(
        "Run the engine: listen on every channel, deliver to its destinations, serve the operators' pages, "
        "until stopped.",
        "engine.ops.cli.run:run",
    ),
    "status": Command(
        "Say what is wrong now, the gravest first, and how each stage that messages pass does.",
        "engine.ops.cli.operating.status:status",
    ),
    "top": Command(
        "Show what is wrong, each channel and each destination, with rates of the last minute; again every 2 seconds.",
        "engine.ops.cli.operating.status:top",
    ),
    "send": Command(
        "Send HL7 messages over MLLP and show their acknowledgements.",
        "engine.ops.cli.sending.send:send",
    ),
    "simulate": Command(
        "Simulate hospital days: admissions, transfers, discharges, cancels, corrections, merges, births, resends.",
        "engine.ops.cli.sending.simulate:simulate",
    ),
    "receive": Command(
        "Receive HL7 messages over MLLP as another system would: print a line for each, answer, fail on request.",
        "engine.ops.cli.sending.receive:receive",
    ),
    "doctor": Command(
        "Check machine, disk, SQLite, clock, files, permissions, certificates, ports and destinations.",
        "engine.ops.cli.examine.doctor:doctor",
    ),
    "deploy": Command(
        "Print files that run the engine as a service: a systemd unit, a container, several nodes, a dashboard.",
        "engine.ops.cli.deploy.printing:app",
        DEPLOY,
    ),
    "messages": Command(
        "List, show, explain, check, export and replay the entries of the journal.",
        commands=MESSAGES,
    ),
    "lanes": Command(
        "Show what is held and what is waiting behind it; release, retry or discard in bulk.",
        "engine.ops.cli.messages.lanes:app",
        LANES,
    ),
    "patients": Command(
        "Find patients by names and numbers, and show everything about one.",
        "engine.ops.cli.messages.patients:app",
        PATIENTS,
    ),
    "duplicates": Command(
        "List, compare and decide possible duplicates.",
        "engine.ops.cli.messages.duplicates:app",
        DUPLICATES,
    ),
    "channels": Command(
        "Make, check, list, start, stop and drain channels.",
        "engine.ops.cli.operating.channels:app",
        CHANNELS,
    ),
    "destinations": Command(
        "List, pause, resume and retry destinations; their settings.",
        "engine.ops.cli.operating.destinations:app",
        DESTINATIONS,
    ),
    "alerts": Command(
        "List and acknowledge alerts.",
        "engine.ops.cli.operating.alerts:app",
        ALERTS,
    ),
    "sites": Command(
        "Show the state of several engines.",
        "engine.ops.cli.operating.sites:app",
        SITES,
    ),
    "journal": Command(
        "Maintain the journal: stats, verify, backup, restore, copy, prune.",
        "engine.ops.cli.operating.journal:app",
        JOURNAL,
    ),
    "nodes": Command(
        "List the nodes of a shared journal.",
        "engine.ops.cli.operating.nodes:app",
        NODES,
    ),
    "mappings": Command(
        "Check, try, test, explain and compare mappings.",
        commands=MAPPINGS,
    ),
    "users": Command(
        "Manage accounts and API tokens.",
        "engine.ops.cli.access.users:app",
        USERS,
    ),
    "audit": Command(
        "Read, verify and anchor the audit trail.",
        "engine.ops.cli.access.audit:app",
        AUDIT,
    ),
    "reasons": Command(
        "Say what a reason means, whether it can wait until morning, and what to do next.",
        "engine.ops.cli.operating.help:reasons",
    ),
    "help": Command(
        "Show a help page, search all pages for words, or list the pages.",
        "engine.ops.cli.operating.help:help_",
    ),
}
