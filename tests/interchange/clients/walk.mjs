// What the Node clients share: the task from the first line of standard input, one line of JSON for each step.
import { createInterface } from 'node:readline';

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

export const task = JSON.parse((await lines.next()).value);

const tell = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

/** Have the person at the browser open a URL; return the address that the sign-in sends them back to. */
export async function browse(url) {
  tell({ open: url });
  return (await lines.next()).value;
}

/** Do each step with what the task gives it and tell what it saw; the exit code is 1 where one failed. */
export async function walk(steps) {
  for (const [step, call] of Object.entries(steps)) {
    try {
      tell({ step, saw: (await call(task.given[step])) ?? null });
    } catch (error) {
      process.exitCode = 1;
      tell({ step, error: `${error?.stack ?? error} ${JSON.stringify(error?.outcome ?? error?.response?.data ?? '')}` });
    }
  }
  process.stdin.destroy();
}

export const resources = (bundle) => (bundle.entry ?? []).map((entry) => entry.resource);
